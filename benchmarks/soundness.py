"""Is a certificate ever wrong? Random networks against 50-digit arithmetic, false claims, and float32 runs.

    python benchmarks/soundness.py            1,000 networks, 500 false claims, 10^6 float32 evaluations a network
    python benchmarks/soundness.py --quick    a small version of the same, under a minute

Networks: 2 to 200 tokens, one to three variables, one or two heads, constant and affine values up to 1e6, soft and hard
gates. Against each proved bound: dense sampling in float64, then climbing from the best points, then the best points in
50-digit ball arithmetic. A violation is an error above the proved exact part. False claims (0.995 of an error that was
certainly seen) must not be proved.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from flint import arb

from softwright.attention.head import Head
from softwright.attention.network import AttentionNetwork
from softwright.certify.ball_expression import evaluate, precision
from softwright.certify.exact_network import exact_heads, float_values
from softwright.certify.head_moments import ExactHead
from softwright.certify.probe import worst_points
from softwright.certify.prover import certify
from softwright.domain import Box
from softwright.targets.expression import Expression

TARGETS = {
    1: ["sin(3*x)", "abs(x - 0.2)", "exp(-x**2)*cos(2*x)", "sqrt(x + 4)", "where(x < 0.5, x**2, 0.25 + (x - 0.5))"],
    2: ["sin(x + 2*y)", "exp(-x**2 - y**2)", "x*y/(3 + x**2)", "max(x, y)"],
    3: ["sin(x + 2*y)*exp(-z**2)", "x*y*z", "tanh(x - y) + z**2"],
}


def random_network(rng: np.random.Generator) -> AttentionNetwork:
    dim = int(rng.choice([1, 1, 2, 3]))
    hard = 10.0 ** rng.uniform(-1, [7.0, 1.3, 0.8][dim - 1])
    size = 10.0 ** rng.uniform(-2, 6)
    heads = []
    for _ in range(int(rng.integers(1, 3))):
        tokens = int(rng.integers(2, [200, 120, 60][dim - 1]))
        keys = rng.normal(size=(tokens, dim)) * hard
        slopes = rng.normal(size=(tokens, 1, dim)) * size if rng.integers(2) else None
        heads.append(
            Head(keys, rng.normal(size=tokens) * hard * rng.uniform(0, 1), rng.normal(size=(tokens, 1)) * size, slopes)
        )
    low = rng.uniform(-2, 2, dim)
    return AttentionNetwork(heads, Box.from_bounds(low, low + rng.uniform(0.1, 3, dim), ["x", "y", "z"][:dim]))


def exact_error(heads: tuple[ExactHead, ...], target: Expression, point: np.ndarray) -> float:
    """|g - f| at a float64 point in 200-bit balls, from the definition of both."""
    with precision(200):
        total = arb(0)
        for head in heads:
            t = [
                (arb(float(x)) - arb(float(c))) * arb(float(s))
                for x, c, s in zip(point, head.center, head.scale, strict=True)
            ]
            scores = [
                sum((arb(float(k)) * y for k, y in zip(row, t, strict=True)), arb(float(b)) + arb(float(low)))
                for row, b, low in zip(head.keys, head.bias, head.bias_low, strict=True)
            ]
            top = max(float(score.mid()) for score in scores)
            weights = [(score - top).exp() for score in scores]
            value = arb(0)
            for j, weight in enumerate(weights):
                v = arb(float(head.values[j, 0]))
                if head.slopes is not None:
                    v = v + sum((arb(float(g)) * y for g, y in zip(head.slopes[j, 0], t, strict=True)), arb(0))
                value = value + weight * v
            total = total + value / sum(weights, arb(0))
        named = {name: arb(float(x)) for name, x in zip(target.names, point, strict=True)}
        return float(abs(total - evaluate(target.nodes[0], named)).mid())


def attack(network: AttentionNetwork, target: Expression, samples: int) -> tuple[float, np.ndarray]:
    """The largest error that dense sampling and climbing find, re-computed in 50 digits."""
    heads = exact_heads(network, "sdpa")

    def error(points: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.nan_to_num(np.abs(float_values(heads, points) - target(points))[:, 0])

    points, _ = worst_points(error, heads, network.box.lower, network.box.upper, samples)
    exact = [exact_error(heads, target, point) for point in points[:3]]
    best = int(np.argmax(exact))
    return exact[best], points[best]


def random_networks(count: int, samples: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    violations = proved = undecided = false_proved = false_refuted = false_asked = 0
    tightest, started = [], time.perf_counter()
    for trial in range(count):
        network = random_network(rng)
        text = str(rng.choice(TARGETS[network.box.dim]))
        target = Expression(text, network.names)
        found = certify(network, text, tightness=0.1, max_seconds=10, max_boxes=50_000)
        seen, point = attack(network, target, samples)
        limit = found.certificate.exact_part if found.certificate is not None else found.proved_bound
        if seen > limit:
            violations += 1
            print(f"VIOLATION in trial {trial}: {text} error {seen!r} at {point} above {limit!r}")
        if found.lower > seen * (1 + 1e-9) and found.witness:
            again = exact_error(exact_heads(network, "sdpa"), target, np.array(found.witness))
            if found.lower > again * (1 + 1e-12):
                violations += 1
                print(f"VIOLATION in trial {trial}: lower bound {found.lower!r} is not reached: {again!r}")
        proved += found.proved
        undecided += not found.proved
        if found.proved and seen > 0:
            tightest.append(limit / seen)
        if trial % 2 == 0 and max(seen, found.lower) > 0:
            false_asked += 1
            claim = certify(network, text, bound=0.995 * max(seen, found.lower), max_seconds=5, max_boxes=20_000)
            false_proved += claim.proved
            false_refuted += claim.status == "refuted"
    print(
        f"random networks: {count}, proved {proved}, undecided {undecided}, violations {violations}; "
        f"proved/seen: median {np.median(tightest):.4f}, largest {np.max(tightest):.3f}"
    )
    print(
        f"false claims (0.995 of the error seen): {false_asked}, proved {false_proved}, "
        f"refuted with a witness {false_refuted}"
    )
    print(f"{time.perf_counter() - started:.0f} s")


def float32_runs(evaluations: int) -> None:
    """Built float32 networks: what the run adds to the exact error, seen and proved."""
    from softwright.pipeline import approximate

    jobs = [
        ("sin(3*x)", Box(x=(-1, 1)), 1e-4),
        ("abs(x - 0.3)", Box(x=(-1, 1)), 1e-5),
        ("1/(1 + 25*x**2)", Box(x=(-1, 1)), 1e-4),
        ("sin(x + 2*y)*exp(-x**2)", Box(x=(-1, 1), y=(-1, 1)), 1e-3),
        ("x*y*z", Box(x=(-1, 1), y=(-1, 1), z=(0, 1)), 1e-3),
    ]
    print("float32 | engine | tokens | proved bound | run error seen | proved rounding | rounding seen | ratio")
    for text, box, tol in jobs:
        network = approximate(text, box, tol=tol, dtype="float32").network
        target = Expression(text, box)
        for engine in ("sdpa", "factorised"):
            found = certify(network, text, tightness=0.1, engine=engine, max_seconds=30)
            rounding = found.certificate.rounding_part if found.certificate is not None else np.inf
            seen, error = 0.0, 0.0
            heads = exact_heads(network, engine)
            for part in range(max(1, evaluations // 20_000)):
                points = box.sample(min(evaluations, 20_000), part).astype(np.float32).astype(float)
                points = points[box.contains(points)]
                run = network.evaluate(points, engine)
                seen = max(seen, float(np.abs(run - float_values(heads, points)).max()))
                error = max(error, float(np.abs(run - target(points)).max()))
            verdict = "ok" if seen <= rounding and error <= found.proved_bound else "VIOLATION"
            print(
                f"  {text} | {engine} | {network.tokens} | {found.proved_bound:.2e} | {error:.2e} | {rounding:.2e} | "
                f"{seen:.2e} | {rounding / max(seen, 1e-300):.0f} {verdict}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--networks", type=int)
    options = parser.parse_args()
    torch.set_num_threads(1)
    random_networks(options.networks or (60 if options.quick else 1000), 500 if options.quick else 3000, options.seed)
    float32_runs(20_000 if options.quick else 1_000_000)


if __name__ == "__main__":
    main()
