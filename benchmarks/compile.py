"""Formulas that one layer of heads meets badly or not at all, with default options, beside one layer.

    python benchmarks/compile.py                          all rows at their tolerances, float64
    python benchmarks/compile.py --rows piston --tol 1e-6
    python benchmarks/compile.py --dtype float32 --tol 1e-3
    python benchmarks/compile.py --one-layer 10           one layer beside it, given so much work (0: leave it out)
    python benchmarks/compile.py --peers 120              a Chebyshev tensor, a tensor train and a transformer of the
                                                          same shape, which Adam trains for so many seconds a row

Tolerances are relative to half the range on the box. `observed` is the largest error at 100,000 fresh points and at the
scale of every gate, `proved` the certificate's bound, both relative too; the file is proved again by `verify`. A row is
met if it is VERIFIED, its errors are below the bound, and it has no more layers and tokens than `LIMITS` allows; one
that is not is shown with its reason.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from compile_peers import chebyshev_peer, train_peer, transformer_peer

import softwright as sw

_D1 = "(log(S/K) + (r + s**2/2)*T)/(s*sqrt(T))"
_D2 = "(log(S/K) + (r - s**2/2)*T)/(s*sqrt(T))"
_A = [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
_P = [
    [0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886],
    [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
    [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650],
    [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381],
]
_WELLS = [
    f"{alpha}*exp(-({'+'.join(f'{a}*(x{j + 1}-{p})**2' for j, (a, p) in enumerate(zip(A, P, strict=True)))}))"
    for alpha, A, P in zip((1, 1.2, 3, 3.2), _A, _P, strict=True)
]
_ARM = "({0}1*{1}(a1) + {0}2*{1}(a1+a2) + {0}3*{1}(a1+a2+a3) + {0}4*{1}(a1+a2+a3+a4))**2"
_PRESSURE = "(P0*S + 19.62*M - k*V0/S)"
_VOLUME = f"(S/(2*k)*(sqrt({_PRESSURE}**2 + 4*k*P0*V0*Ta/T0) - {_PRESSURE}))"
Sides = dict[str, tuple[float, float]]


def _square(low: float, high: float, names: str = "xy") -> Sides:
    return dict.fromkeys(names, (low, high))


def _many(count: int, low: float, high: float) -> Sides:
    return {f"x{j}": (low, high) for j in range(1, count + 1)}


ROWS: dict[str, tuple[str, Sides]] = {
    "circle": ("abs(x**2 + y**2 - 0.5)", _square(-1, 1)),
    "saddle": ("max(x*y, 0.1)", _square(-1, 1)),
    "norm": ("sqrt(x**2 + y**2)", _square(-1, 1)),
    "waves": ("max(sin(x), cos(y))", _square(-3, 3)),
    "fold": ("exp(abs(x - y))*cos(z)", _square(-1, 1, "xyz")),
    "hartmann": (f"-({'+'.join(_WELLS)})", _many(6, 0, 1)),
    "rosenbrock": ("+".join(f"100*(x{j + 1}-x{j}**2)**2+(1-x{j})**2" for j in range(1, 10)), _many(10, -2, 2)),
    "styblinski": (f"0.5*({'+'.join(f'x{j}**4-16*x{j}**2+5*x{j}' for j in range(1, 9))})", _many(8, -5, 5)),
    "ackley": (
        f"-20*exp(-0.2*sqrt(({'+'.join(f'x{j}**2' for j in range(1, 11))})/10))"
        f"-exp(({'+'.join(f'cos(2*pi*x{j})' for j in range(1, 11))})/10)+20+e",
        _many(10, -5, 5),
    ),
    "wing": (
        "0.036*Sw**0.758*Wfw**0.0035*(A/cos(L*pi/180)**2)**0.6*q**0.006*l**0.04*(100*tc/cos(L*pi/180))**(-0.3)"
        "*(Nz*Wdg)**0.49 + Sw*Wp",
        {
            "Sw": (150, 200), "Wfw": (220, 300), "A": (6, 10), "L": (-10, 10), "q": (16, 45), "l": (0.5, 1),
            "tc": (0.08, 0.18), "Nz": (2.5, 6), "Wdg": (1700, 2500), "Wp": (0.025, 0.08),
        },
    ),
    "otl": (
        "(12*Rb2/(Rb1+Rb2) + 0.74)*B*(Rc2+9)/(B*(Rc2+9)+Rf) + 11.35*Rf/(B*(Rc2+9)+Rf)"
        " + 0.74*Rf*B*(Rc2+9)/((B*(Rc2+9)+Rf)*Rc1)",
        {"Rb1": (50, 150), "Rb2": (25, 70), "Rf": (0.5, 3), "Rc1": (1.2, 2.5), "Rc2": (0.25, 1.2), "B": (50, 300)},
    ),
    "borehole": (
        "2*pi*Tu*(Hu-Hl)/(log(r/rw)*(1 + 2*L*Tu/(log(r/rw)*rw**2*Kw) + Tu/Tl))",
        {
            "rw": (0.05, 0.15), "r": (100, 50000), "Tu": (63070, 115600), "Hu": (990, 1110), "Tl": (63.1, 116),
            "Hl": (700, 820), "L": (1120, 1680), "Kw": (9855, 12045),
        },
    ),
    "arm": (
        f"sqrt({_ARM.format('l', 'cos')} + {_ARM.format('l', 'sin')})",
        {**{f"a{j}": (0, 2 * math.pi) for j in range(1, 5)}, **{f"l{j}": (0, 1) for j in range(1, 5)}},
    ),
    "black_scholes": (
        f"S*(1 + erf({_D1}/sqrt(2)))/2 - K*exp(-r*T)*(1 + erf({_D2}/sqrt(2)))/2",
        {"S": (80, 120), "K": (80, 120), "r": (0, 0.1), "s": (0.1, 0.5), "T": (0.25, 2)},
    ),
    "piston": (
        f"2*pi*sqrt(M/(k + S**2*P0*V0*Ta/(T0*{_VOLUME}**2)))",
        {
            "M": (30, 60), "S": (0.005, 0.02), "V0": (0.002, 0.01), "k": (1000, 5000), "P0": (90000, 110000),
            "Ta": (290, 296), "T0": (340, 360),
        },
    ),
    "root": ("sqrt(x)", {"x": (0, 1)}),
    "power": ("x**0.3", {"x": (0, 1)}),
    "entropy": ("xlogy(x, x)", {"x": (0, 1)}),
    "arc": ("acos(x)", {"x": (-1, 1)}),
}  # fmt: skip


# Tolerances that are asked for, and how many layers and tokens may be taken.
LIMITS: dict[str, tuple[tuple[float, ...], int, int]] = {
    **dict.fromkeys(("circle", "saddle", "norm", "waves", "fold"), ((1e-3, 1e-6, 1e-9), 3, 100)),
    **dict.fromkeys(("hartmann", "rosenbrock", "styblinski", "ackley"), ((1e-6, 1e-9), 3, 700)),
    **dict.fromkeys(("wing", "otl", "borehole", "arm", "black_scholes"), ((1e-6, 1e-9), 6, 300)),
    "piston": ((1e-6,), 8, 300),
    **dict.fromkeys(("root", "power", "entropy"), ((1e-6, 1e-9), 1, 120)),
    "arc": ((1e-6, 1e-9), 2, 200),
}


def attempt(name: str, tol: float, strategy: str, dtype: str, work: float) -> tuple[bool, str]:
    """Whether a row is met, and what there is to say."""
    text, sides = ROWS[name]
    box = sw.Box(sides)
    started = time.process_time()
    half = _half_range(text, box)
    try:
        built = sw.approximate(
            text, box, tol=tol, relative=True, strategy=strategy, dtype=dtype, max_work=work, progress=False
        )
    except (sw.InvalidInput, sw.ToleranceNotReached) as error:
        return False, f"not met: {str(error).splitlines()[0][:90]} ({time.process_time() - started:.1f} s)"
    spent = time.process_time() - started
    points = box.sample(100_000, seed=20261116)
    if dtype == "float32":
        points = np.clip(points.astype(np.float32).astype(float), box.lower, box.upper)
    fresh = float(np.abs(built(points) - sw.Expression(text, box)(points)).max())
    observed = max(fresh, built.observed_error) / half
    layers, tokens = getattr(built.network, "depth", 1), built.plan.tokens
    size = f"{layers} layers, {len(built.plan.heads)} heads, {tokens} tokens, observed {observed:.1e}"
    if built.certificate is None:
        return False, f"{size}, not proved: {built.unproved[:60]}, {spent:.1f} s"
    with tempfile.TemporaryDirectory() as folder:
        built.save(path := Path(folder) / "row.safetensors")
        status = sw.verify(path).status
    proved = built.certificate.bound / half
    _, most_layers, most_tokens = LIMITS[name]
    good = status == "VERIFIED" and observed <= proved and layers <= most_layers and tokens <= most_tokens
    return good, f"{size}, proved {proved:.1e}, {status}, {spent:.1f} s"


def peers(text: str, box: sw.Box, tolerances: list[float], seconds: float) -> Iterator[str]:
    """One line for each peer and tolerance; the transformer, which no tolerance changes, once."""
    expression, half, scale = sw.Expression(text, box), _half_range(text, box), 0.5 * (box.upper - box.lower)

    def f(points: np.ndarray) -> np.ndarray:
        return expression(np.clip(box.lower + (points + 1.0) * scale, box.lower, box.upper))[:, 0] / half

    check = np.random.default_rng(20261117).uniform(-1, 1, (20_000, box.dim))
    for tol in tolerances:
        yield f"Chebyshev {tol:g}: {chebyshev_peer(f, box.dim, tol, check)}"
        yield f"tensor train {tol:g}: {train_peer(f, box.dim, tol, check)}"
    if seconds > 0:
        try:
            like = sw.approximate(text, box, tol=max(tolerances), relative=True, strategy="compose", progress=False)
        except (sw.InvalidInput, sw.ToleranceNotReached) as error:
            yield f"transformer: no shape to copy: {str(error).splitlines()[0][:90]}"
            return
        yield f"transformer: {transformer_peer(f, like.network, seconds, check)}"


def _half_range(text: str, box: sw.Box) -> float:
    values = sw.Expression(text, box)(np.concatenate([box.sample(20_000, seed=1), box.corners(1024)]))
    return 0.5 * float(values.max() - values.min())


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--tol", type=float, nargs="+", help="instead of the tolerances of each row")
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--peers", type=float, help="peers beside it; seconds for Adam, 0: without it")
    parser.add_argument("--one-layer", type=float, default=10.0, help="work for one layer; 0: leave it out")
    options = parser.parse_args()
    met, asked = 0, 0
    for name in options.rows:
        for tol in options.tol or LIMITS[name][0]:
            good, said = attempt(name, tol, "auto", options.dtype, 60.0)
            met, asked = met + good, asked + 1
            print(f"{name:14s} {tol:g}: {'' if good else 'MISSED: '}{said}", flush=True)
            if options.one_layer:
                print(
                    f"{'':14s} one layer: {attempt(name, tol, 'layer', options.dtype, options.one_layer)[1]}",
                    flush=True,
                )
        if options.peers is not None:
            text, sides = ROWS[name]
            for line in peers(text, sw.Box(sides), list(options.tol or LIMITS[name][0]), options.peers):
                print(f"{'':14s} {line}", flush=True)
    print(f"{met} of {asked} met ({options.dtype})")


if __name__ == "__main__":
    main()
