"""Ball arithmetic by python-flint: working precision, and what balls say about floats.

A ball holds the exact value of what it was computed from, at whatever precision a bound asks for. A ball that is not
finite means "nothing is known".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from flint import arb, ctx

from softwright.targets.formula import Ball


@contextmanager
def precision(bits: int, terms: int = 10) -> Iterator[None]:
    """Work with `bits` of precision and power series of `terms` terms inside the block."""
    old_bits, old_terms = ctx.prec, ctx.cap
    ctx.prec, ctx.cap = int(bits), max(terms, 10)
    try:
        yield
    finally:
        ctx.prec, ctx.cap = old_bits, old_terms


def interval_ball(lower: float, upper: float) -> Ball:
    """A ball that contains [lower, upper]."""
    return arb(lower).union(arb(upper))


def float_enclosure(ball: Ball) -> tuple[float, float]:
    """A float and an upper bound of its distance to every number of the ball; (0, inf) if the ball is unbounded."""
    if not ball.is_finite():
        return 0.0, math.inf
    middle = float(ball.mid())
    if not math.isfinite(middle):
        return 0.0, math.inf
    return middle, ball_above((ball - arb(middle)).abs_upper())


def ball_above(ball: Ball) -> float:
    """The least float64 (or the next one) that is not below any number of the ball; infinite if there is none."""
    if not ball.is_finite():
        return math.inf
    value = float(ball.upper())
    return value if arb(value) >= ball else math.nextafter(value, math.inf)


def ball_below(ball: Ball) -> float:
    """The largest float64 (or the one before) that is not above any number of the ball."""
    return -ball_above(-ball)


def digits(gap: Ball) -> Ball:
    """-log10 of a positive number: how many decimal digits two numbers this far apart share."""
    return -(gap.log() / arb(10).log())


def map_balls(function: Callable[[Ball], Ball], points: np.ndarray, bits: int = 80) -> tuple[np.ndarray, np.ndarray]:
    """Values (n,) of a ball function at float64 points (n,) with error bounds (n,); equal points are computed once."""
    distinct, back = np.unique(points, return_inverse=True)
    middle, error = np.empty(len(distinct)), np.empty(len(distinct))
    with precision(bits):
        for i, point in enumerate(distinct.tolist()):
            middle[i], error[i] = float_enclosure(function(arb(point))) if math.isfinite(point) else (0.0, math.inf)
    return middle[back], error[back]
