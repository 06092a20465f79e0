"""Approximations by every strategy: smooth and kinked formulas in one to three variables, tables, callables.

Beyond the judge, the error of the first output is climbed by its exact gradient in 60 digits (`ball_ascent.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ball_ascent import BallError
from judging.approximation import Layer
from judging.claim import Claim, Known, Seen
from judging.formulas import Formula
from judging.search import LONG, climb, spread

import softwright as sw
from climbing.job import Job
from softwright.errors import SoftwrightError
from softwright.proof.models.exact_heads import exact_heads
from softwright.targets.formula.expression import Expression

FORMULAS: dict[int, list[str]] = {
    1: [
        "sin({a}*x + {b})",
        "exp(-{c}*x)",
        "tanh({a}*x)",
        "1/(1 + {c}*x**2)",
        "abs(x - {b})",
        "max(x - {b}, 0) + sin(x)",
        "sqrt(x + 6)*cos({a}*x)",
        "x**3 - {a}*x, exp(-x**2)",
        "where(x < {b}, x**2, {b}**2 + (x - {b}))",
        "max({a}*x, {b} - x, 0.1)",
    ],
    2: [
        "sin({b}*x + y)",
        "exp(-x*y)",
        "x*y/(7 + x**2) + {b}*y",
        "abs(x - y) + sin(x)*y",
        "max(abs(x - y), {b})",
        "cos(x + 2*y)",
        "sin({b}*x) + y**2",
        "{a}*x - 2*y + {b}",
    ],
    3: ["sin(x) + y**2*x + exp(z)", "x*y*z", "{a}*x - y + {b}*z", "max(x, y, z)"],
}
STRATEGIES = ("auto", "auto", "auto", "spectral", "affine", "grid", "pieces", "ridge", "sum", "scattered", "cells")


def draw(rng: np.random.Generator) -> Job | None:
    dtype = str(rng.choice(["float64", "float32"]))
    lowest = -6.0 if dtype == "float64" else -3.3
    tol = float(10 ** rng.uniform(lowest, -1.5))
    kind = rng.random()
    if kind < 0.06:
        return _table(rng, tol, dtype)
    dim = int(rng.choice([1, 1, 2, 2, 3])) if kind > 0.12 else 1
    low = rng.uniform(-2, 1, dim)
    box = {name: (float(a), float(a + w)) for name, a, w in zip("xyz", low, rng.uniform(0.2, 3, dim), strict=False)}
    numbers = {name: f"{rng.uniform(0.3, 3):.3f}" for name in "abc"}
    text = str(rng.choice(FORMULAS[dim])).format(**numbers)
    if kind < 0.12:
        text = f"sin({numbers['a']}*x)"
        return _callable(text, float(numbers["a"]), box, tol, dtype)
    strategy = str(rng.choice(STRATEGIES))
    options: dict[str, Any] = {"dtype": dtype, "max_seconds": 4, "progress": False}
    for way in (strategy, "auto"):
        try:
            built = sw.approximate(text, box, tol=tol, strategy=way, **options)
        except SoftwrightError:  # a strategy that does not suit the formula, or a tolerance that it does not meet
            continue
        return Job(f"{text} by {way}, {tol:.1e}, {dtype}", built, further=_ascent)
    return None


def _table(rng: np.random.Generator, tol: float, dtype: str) -> Job | None:
    x, y = np.linspace(-1, 1, int(rng.integers(4, 9))), np.linspace(0, 2, int(rng.integers(3, 6)))
    values = np.sin(rng.uniform(0.5, 3) * x)[:, None] * np.exp(-y)
    points = np.stack([a.ravel() for a in np.meshgrid(x, y, indexing="ij")], axis=1)
    try:
        table = sw.Table.grid([x, y], values, names=["x", "y"])
        built = sw.approximate(table, tol=tol, dtype=dtype, max_seconds=4, progress=False)
    except SoftwrightError:
        return None
    return Job(f"a table, {tol:.1e}, {dtype}", built, Known(points, values.reshape(-1, 1)))


def _callable(text: str, a: float, box: dict[str, Any], tol: float, dtype: str) -> Job | None:
    promised = sw.Function(lambda x: np.sin(a * x), sw.Box(box), second_derivative=a * a)
    try:
        built = sw.approximate(promised, box, tol=max(tol, 1e-3), dtype=dtype, max_seconds=4, progress=False)
    except SoftwrightError:
        return None
    return Job(f"a callable {text}, {dtype}", built, Known(text=text))


def _ascent(claim: Claim, built: sw.Built) -> Seen:
    """The first output in real arithmetic against the exact part, by gradients in 60 digits."""
    names = list(claim.sections["model"]["box"])
    low, high = (np.array([claim.box[name][k] for name in names], dtype=float) for k in (0, 1))
    formula, layer = Formula(claim.target["text"], names), Layer(claim.tensors, len(claim.sections["model"]["heads"]))

    def errors(points: np.ndarray) -> np.ndarray:
        return np.abs(layer.at_points(points)[:, 0] - formula.at_points(points)[:, 0])

    ascent = BallError(exact_heads(built.network, "sdpa"), Expression(claim.target["text"], tuple(names)))
    starts = climb(errors, spread(low, high, LONG), low, high, LONG)[:3]
    peak = max((ascent.climb(start, low, high) for start in starts), key=lambda peak: peak.error)
    exact = float(claim.said["exact_part"])
    share = peak.error / exact if exact > 0 else float("inf") if peak.error > 0 else 0.0
    return Seen(share, "the exact part is exceeded", f"{peak.error:.6g} of {exact:.6g} at {peak.point.tolist()}")
