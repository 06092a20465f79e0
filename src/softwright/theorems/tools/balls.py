"""Ball arithmetic for the theorems: bounds that are rounded up, and numbers that float64 cannot hold.

The separation bounds of paper C lie at 10^-100 and far below, so they are checked with python-flint: every number is an
interval that contains the exact value, at whatever precision the bound asks for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flint import arb, ctx

Ball = Any  # flint.arb, which carries no type information


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work with `bits` of precision inside the block."""
    before = ctx.prec
    ctx.prec = int(bits)
    try:
        yield
    finally:
        ctx.prec = before


def above(ball: Ball) -> float:
    """A float64 that is not below any number of the ball; infinite if there is none."""
    if not ball.is_finite():
        return math.inf
    value = float(ball.upper())
    if not math.isfinite(value):
        return math.inf
    return value if arb(value) >= ball else math.nextafter(value, math.inf)


def below(ball: Ball) -> float:
    """A float64 that is not above any number of the ball."""
    return -above(-ball)


def digits(gap: Ball) -> Ball:
    """-log10 of a positive number: how many decimal digits two numbers this far apart share."""
    return -(gap.log() / arb(10).log())


def dot(left: list[Ball], right: list[Ball]) -> Ball:
    total = arb(0)
    for a, b in zip(left, right, strict=True):
        total += a * b
    return total
