"""Rows of `certify.py` about grid heads and stated bounds: proofs in four to six variables, and how tight they are.

python benchmarks/certify.py --grids           proofs in 4, 5 and 6 variables, in CPU seconds, for both engines
python benchmarks/certify.py --tight           bound that `approximate` states / error that is certainly there
python benchmarks/certify.py --attack 500      random grid heads: models in float64 and in balls against exact
                                               values, and false claims
"""

from __future__ import annotations

import time

import numpy as np

from softwright import approximate
from softwright.attention.head import Axis, Head
from softwright.attention.network import AttentionNetwork
from softwright.domain import Box
from softwright.proof.models.exact_heads import exact_heads, float_values
from softwright.proof.prover import certify
from softwright.targets.formula.expression import Expression

# name, variables, formula of the sum of squares, tolerance, CPU seconds that are allowed
GRIDS = [
    ("exp(-|x|^2/2) 4-D", 4, "exp(-({})/2)", 1e-6, 5.0),
    ("1/(1+|x|^2) 4-D", 4, "1/(1 + {})", 1e-5, 15.0),
    ("exp(-|x|^2/2) 5-D", 5, "exp(-({})/2)", 1e-3, 3.0),
    ("exp(-|x|^2/2) 5-D", 5, "exp(-({})/2)", 1e-6, 120.0),
    ("exp(-|x|^2/2) 6-D", 6, "exp(-({})/2)", 5e-3, 30.0),
]
STATED: list[tuple[str, dict[str, tuple[float, float]], float]] = [
    ("sin(3*x)", {"x": (-1, 1)}, 1e-6),
    ("abs(sin(5*x))", {"x": (-1, 1)}, 1e-6),
    ("1/(1 + 25*x**2)", {"x": (-1, 1)}, 1e-6),
    ("sqrt(x)", {"x": (0, 1)}, 1e-9),
    ("abs(x - 0.3)", {"x": (-1, 1)}, 1e-6),
    ("sin(3*x)*exp(-y)", {"x": (-1, 1), "y": (0, 1)}, 1e-4),
    ("abs(x - y) + sin(x)*y", {"x": (-1, 1), "y": (-1, 1)}, 1e-5),
    ("sin(x + 2*y)*exp(-x**2)", {"x": (-1, 1), "y": (-1, 1)}, 1e-4),
]


def print_grids() -> None:
    for name, dim, form, tol, allowed in GRIDS:
        names = [f"x{i + 1}" for i in range(dim)]
        text = form.format(" + ".join(f"{x}**2" for x in names))
        built = approximate(text, Box(**dict.fromkeys(names, (-1, 1))), tol=tol, strategy="grid", certify=False)
        for engine in ("sdpa", "factorised"):
            start = time.process_time()
            found = certify(built.network, text, bound=tol, engine=engine, max_work=1000.0, max_boxes=10**6)
            seconds = time.process_time() - start
            print(
                f"{name} {tol:g}, {built.network.tokens} tokens, {engine}: {found.status}, {found.boxes} boxes, "
                f"{seconds:.1f} CPU s (at most {allowed:g})",
                flush=True,
            )


def print_stated() -> None:
    for text, sides, tol in STATED:
        start = time.process_time()
        certificate = approximate(text, Box(**sides), tol=tol).certificate
        seconds = time.process_time() - start
        seen = certificate.lower
        ratio = f"{certificate.bound / seen:.3f}" if seen else "-"
        print(
            f"{text}, {tol:g}: proved {certificate.bound:.4g}, certain {seen:.4g}, ratio {ratio}, {seconds:.1f} CPU s"
        )


def attack(count: int) -> None:
    """Random grid heads against sums of sines: no claim below an error that was seen may be proved."""
    violations = proved_false = proved = 0
    for seed in range(count):
        rng = np.random.default_rng(seed)
        dim = int(rng.integers(2, 5))
        sizes = rng.integers(2, {2: 7, 3: 4, 4: 3}[dim] + 1, dim)
        axes = [Axis(np.sort(rng.normal(size=n)) * 2, rng.normal(size=n)) for n in sizes]
        names = [f"x{i + 1}" for i in range(dim)]
        box = Box(**dict.fromkeys(names, (-1, 1)))
        network = AttentionNetwork([Head.on_grid(axes, rng.normal(size=(int(np.prod(sizes)), 1)))], box)
        text = " + ".join(
            f"{c:.3f}*sin({k:.2f}*{x})" for x, c, k in zip(names, *rng.normal(size=(2, dim)), strict=True)
        )
        engine = ("sdpa", "factorised")[seed % 2]
        points = climbed(network, text, engine, rng)
        found = certify(network, text, tightness=0.1, engine=engine, max_work=3.0)
        violations += points > found.proved_bound
        proved += found.proved
        false = certify(network, text, bound=0.995 * points, engine=engine, max_work=1.0)
        proved_false += false.proved
    print(f"{count} random grid heads: {proved} proved, {violations} violations, {proved_false} false claims proved")


def climbed(network: AttentionNetwork, text: str, engine: str, rng: np.random.Generator) -> float:
    """The largest error that random points and a shrinking random walk from the best of them find."""
    heads, target = exact_heads(network, engine), Expression(text, network.box)

    def error(x: np.ndarray) -> np.ndarray:
        return np.abs(float_values(heads, x) - target(x))[:, 0]

    points = rng.uniform(-1, 1, (4000, network.box.dim))
    best = points[np.argsort(-error(points))[:8]]
    for step in 0.5 ** np.arange(1, 30):
        trial = np.clip(best[:, None] + step * rng.normal(size=(8, 24, network.box.dim)), -1, 1).reshape(
            -1, best.shape[1]
        )
        both = np.concatenate([best, trial])
        best = both[np.argsort(-error(both))[:8]]
    return float(error(best).max()) * (1 - 1e-12)
