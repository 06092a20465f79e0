"""Contrived networks at the ends of their number range: nothing whose run leaves the bound may be proved.

    python benchmarks/extremes.py --count 2000 --seed 0        2,000 networks (also `soundness.py --part extremes`)

Keys, biases, values, slopes, scales and domains are drawn from the smallest subnormal number to the largest one of the
dtype; heads of few tokens or gates, one to three of them, one or two outputs, one or two variables, both engines, with
targets that are a constant, an affine function or a maximum of two. A claim is made of what real arithmetic (160 bits)
finds as the largest error on a grid of points, times 1, 1 + 1e-6, 2 or 1e6, or of a wild number. Where `certify` calls
it proved the network is run at the grid, at corners and at subnormal points, with subnormal numbers kept and flushed: a
result that is not finite, or farther from the target than the bound, is a false proof.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from flint import arb, ctx

from softwright.attention.head import Axis, Head
from softwright.attention.network import AttentionNetwork
from softwright.checker.verify import verify
from softwright.domain import Box
from softwright.errors import InvalidInput, SoftwrightError
from softwright.precision import name_of, precision_of
from softwright.proof.prover import certify
from softwright.result.built import Built
from softwright.result.plan import Plan
from softwright.targets import Expression, evaluate


@dataclass
class Case:
    """One network with a claim about it."""

    network: AttentionNetwork
    formula: str
    domain: Box
    engine: str
    bound: float


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Numbers of the dtype of one wild size, of many wild sizes, or tame ones; some of them zero."""
    row = precision_of(dtype)
    low, high = math.log(row.least), math.log(min(row.largest, 1e99 if rng.random() < 0.8 else row.largest))
    match rng.integers(5):
        case 0:
            size = np.full(shape, math.exp(rng.uniform(low, high)))
        case 1:
            size = np.exp(rng.uniform(low, high, shape))
        case 2:
            size = np.full(shape, row.largest * rng.choice([1.0, 0.5, 1e-2, 1e-6, 1e-16]))
        case _:
            size = np.exp(rng.normal(0, 2, shape))
    found = size * rng.choice([-1.0, 1.0, 1.0, 0.0], shape) * rng.uniform(0.5, 1.0, shape)
    with np.errstate(over="ignore", under="ignore"):
        found = found.astype(dtype).astype(float)
    return np.clip(found, -row.largest, row.largest)


def head_of(rng: np.random.Generator, dim: int, outputs: int, dtype: str) -> Head:
    kind = rng.choice(["scattered", "sloped", "grid", "gates"])
    if kind == "grid":
        axes = [Axis(numbers(rng, (n,), dtype), numbers(rng, (n,), dtype)) for n in rng.integers(1, 4, dim)]
        return Head.on_grid(axes, numbers(rng, (math.prod(a.tokens for a in axes), outputs), dtype))
    tokens = int(rng.integers(1, 5))
    keys, biases = numbers(rng, (tokens, dim), dtype), numbers(rng, (tokens,), dtype)
    values, slopes = numbers(rng, (tokens, outputs), dtype), None
    if kind == "sloped":
        slopes = numbers(rng, (tokens, outputs, dim), dtype)
    elif kind == "gates":  # scores are a multiple of the affine values
        beta = float(np.abs(numbers(rng, (1,), dtype))[0]) or 1.0
        slopes = np.repeat(np.clip(keys, -1e30, 1e30)[:, None, :], outputs, axis=1)
        values = np.repeat(np.clip(biases, -1e30, 1e30)[:, None], outputs, axis=1)
        largest = precision_of(dtype).largest
        with np.errstate(over="ignore"):
            keys, biases = (np.clip(beta * x, -largest, largest) for x in (slopes[:, 0], values[:, 0]))
    if rng.random() < 0.3:  # equal values behind wild keys
        values = np.repeat(values[:1], tokens, axis=0)
    return Head(keys, biases, values, slopes)


def draw(rng: np.random.Generator) -> Case | None:
    """A case, or None if these numbers make no network."""
    dtype, dim, outputs = str(rng.choice(["float32", "float64"])), int(rng.integers(1, 3)), int(rng.integers(1, 3))
    heads = [head_of(rng, dim, outputs, dtype) for _ in range(rng.choice([1, 1, 2, 3]))]
    names = ("x", "y")[:dim]
    size = 1.0 if rng.random() < 0.5 else abs(float(numbers(rng, (1,), dtype)[0])) or 1.0
    shift = 0.0 if rng.random() < 0.7 else float(rng.normal()) * size
    try:
        box = Box.from_bounds(np.full(dim, shift - size), np.full(dim, shift + size), names)
        network = AttentionNetwork(heads, box, precision_of(dtype).torch_dtype)
    except SoftwrightError:
        return None
    if rng.random() < 0.2:
        scale = np.abs(numbers(rng, (dim,), dtype)) + precision_of(dtype).least
        network.scale.copy_(torch.tensor(np.minimum(scale, precision_of(dtype).largest)))
    domain = box
    if rng.random() < 0.3:  # a small part, subnormal inputs at times
        small = size * 10.0 ** -rng.uniform(0, 44)
        center = np.full(dim, shift if rng.random() < 0.3 else 0.0)
        low, high = np.maximum(box.lower, center - small), np.minimum(box.upper, center + small)
        with contextlib.suppress(SoftwrightError):
            domain = Box.from_bounds(low, high, names)
    formula = ", ".join(text_of(rng, names, heads, o) for o in range(outputs))
    engine = str(rng.choice(["sdpa", "factorised"]))
    worst = real_error(network, formula, domain, points_of(rng, domain, dtype))
    if worst is None:
        return None
    smallest = precision_of(dtype).least
    bound = rng.choice([worst, worst * (1 + 1e-6) + smallest, 2 * worst + smallest, 1e6 * worst + 1e-6])
    bound = float(np.exp(rng.uniform(-80, 80))) if rng.random() < 0.2 else float(bound)
    return Case(network, formula, domain, engine, bound) if 0 < bound < math.inf else None


def text_of(rng: np.random.Generator, names: tuple[str, ...], heads: list[Head], output: int) -> str:
    """A target: zero, the sum of the first tokens' values, affine, or a maximum."""
    first = float(sum(head.values[0, output] for head in heads))
    number = f"({first!r})" if math.isfinite(first) and abs(first) < 1e300 else "0"
    slope = repr(float(np.exp(rng.normal(0, 5))))
    return str(rng.choice(["0", number, f"{number} + {slope}*{names[-1]}", f"max({number}, {slope}*{names[0]})"]))


def points_of(rng: np.random.Generator, domain: Box, dtype: str) -> np.ndarray:
    """Points (n, d) of the dtype in the domain: corners, random ones, and the smallest numbers there are."""
    d = domain.dim
    unit = np.concatenate([rng.random((24, d)), (np.arange(2**d)[:, None] >> np.arange(d)) & 1, np.full((1, d), 0.5)])
    points = domain.lower + unit * (domain.upper - domain.lower)
    tiny = precision_of(dtype).least * rng.integers(-50, 50, (8, d)) * 10.0 ** rng.integers(0, 8, (8, 1))
    with np.errstate(over="ignore", under="ignore"):
        points = np.concatenate([points, tiny]).astype(dtype).astype(float)
    return points[np.all((points >= domain.lower) & (points <= domain.upper), axis=1)]


def real_error(network: AttentionNetwork, formula: str, domain: Box, points: np.ndarray) -> float | None:
    """The largest error of the network in real arithmetic at the points; None if balls cannot tell."""
    nodes = Expression(formula, domain).nodes
    center, scale = (tensor.double().numpy() for tensor in (network.center, network.scale))
    worst, before, ctx.prec = 0.0, ctx.prec, 160
    try:
        for x in points:
            t = [
                (arb(a) - arb(c)) * arb(s) for a, c, s in zip(x.tolist(), center.tolist(), scale.tolist(), strict=True)
            ]
            named = {name: arb(float(a)) for name, a in zip(domain.names, x, strict=True)}
            for o, node in enumerate(nodes):
                total = sum((head_value(head, t, o) for head in network.heads()), arb(0))
                gap = abs(total - evaluate(node, named))
                if not gap.is_finite():
                    return None
                worst = max(worst, float(gap.mid()))
    except SoftwrightError:
        return None
    finally:
        ctx.prec = before
    return worst if math.isfinite(worst) else None


def head_value(head: Head, t: list[arb], output: int) -> arb:
    scores = [
        sum((arb(float(k)) * x for k, x in zip(key, t, strict=True)), arb(float(bias)))
        for key, bias in zip(head.keys, head.biases, strict=True)
    ]
    top = max(scores, key=lambda score: score.mid())
    weights = [(score - top).exp() if score - top > -1e6 else arb(0) for score in scores]
    above, below = arb(0), sum(weights, arb(0))
    for j, weight in enumerate(weights):
        value = arb(float(head.values[j, output]))
        if head.slopes is not None:
            value += sum((arb(float(g)) * x for g, x in zip(head.slopes[j, output], t, strict=True)), arb(0))
        above += weight * value
    return above / below


@contextlib.contextmanager
def flushing(on: bool) -> Iterator[None]:
    """With subnormal numbers flushed to zero, as some programs set the processor."""
    torch.set_flush_denormal(on)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def beyond(case: Case, points: np.ndarray) -> str:
    """How a run breaks the bound, if it does."""
    nodes = Expression(case.formula, case.domain).nodes
    x = torch.tensor(points, dtype=case.network.dtype)
    for flush in (False, True):
        with flushing(flush), torch.no_grad():
            y = case.network(x, engine=case.engine).double()
        for point, outputs in zip(points.tolist(), y.tolist(), strict=True):
            named = {name: arb(a) for name, a in zip(case.domain.names, point, strict=True)}
            for node, value in zip(nodes, outputs, strict=True):
                if not math.isfinite(value):
                    return f"the run is {value} at {point}"
                gap = abs(evaluate(node, named) - arb(value))
                if gap > case.bound:
                    return f"off by {float(gap.mid()):.6g} > {case.bound:.6g} at {point}, flushed: {flush}"
    return ""


def verified(case: Case, certificate: object, folder: Path) -> bool:
    """Whether the checker, too, says that it is proved."""
    plan = Plan("contrived", case.bound, [], 0, 0, name_of(case.network.dtype), 0.0)
    target = Expression(case.formula, case.network.box).describe()
    built = Built(case.network, plan, target, certificate=certificate)
    path = folder / "case.safetensors"
    built.save(path)
    return verify(path).verified


def attack(count: int, seed: int, *, check: bool = True) -> tuple[Counter[str], list[str]]:
    """`count` cases: how they were answered, and the false proofs."""
    rng = np.random.default_rng(seed)
    answers: Counter[str] = Counter()
    false: list[str] = []
    number = 0
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        while number < count:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                case = draw(rng)
            if case is None:
                continue
            number += 1
            try:
                found = certify(
                    case.network, case.formula, bound=case.bound, domain=case.domain, engine=case.engine,
                    max_seconds=2.0, max_boxes=400, progress=False,
                )  # fmt: skip
            except InvalidInput:
                answers["refused"] += 1
                continue
            answers[found.status] += 1
            if not found.proved:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fault = beyond(case, points_of(rng, case.domain, name_of(case.network.dtype)))
                if check:
                    answers["verified"] += verified(case, found.certificate, Path(folder))
            if fault:
                false.append(f"seed {seed}, case {number}: {fault}")
    return answers, false


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    answers, false = attack(options.count, options.seed)
    print(", ".join(f"{name} {n}" for name, n in sorted(answers.items())), f"; false proofs: {len(false)}", sep="")
    print("\n".join(false))
    raise SystemExit(1 if false else 0)


if __name__ == "__main__":
    main()
