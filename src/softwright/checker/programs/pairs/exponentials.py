"""`check_sum`: that a sum of exponentials is within a bound of a function of one variable, by Taylor models in balls.

On v = u - low in [0, w] a term is c e^(-b v) or, for rates below 0, c e^(-|b| (w - v)). On a box around v0 of radius q
it has the coefficients c e^(-b v0) (-b q)^k / k! and a rest of at most c e^(-b (v0 - q)) (b q)^(p+1) / (p+1)!. The
first box begins at 0, where roots have no series: there ranges of both are compared.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from flint import arb, arb_poly, ctx

from softwright.checker.composition.enclosing import enclosed
from softwright.checker.composition.intervals import Interval, above, below
from softwright.checker.limits import check_time
from softwright.checker.programs.bounds import as_ball
from softwright.checker.refusal import UndefinedError, require
from softwright.checker.taylor import Model, Space, evaluate
from softwright.checker.trees import Tree

DEGREE, BITS, MOST_BOXES = 8, 160, 60_000
Terms = list[tuple[Fraction, arb]]  # rate, and factor


def check_sum(function: Tree, low: Fraction, high: Fraction, terms: Terms, bound: Fraction) -> None:
    """Refused unless |function - sum| <= bound on [low, high] is shown."""
    width = high - low
    require(width > 0, "a kernel of one number alone")
    with ctx.workprec(BITS):
        space, limit = Space(1, DEGREE), as_ball(bound)
        first = width
        for _ in range(200):
            if _near_start(function, low, first, width, terms) <= limit:
                break
            first = _short(first / 4)
        else:
            require(False, "a kernel is not near its function at the lower end")
        pending = []
        at = first
        while at < width:
            pending.append((at, min(_short(at * Fraction(5, 4), True), width)))
            at = pending[-1][1]
        seen = 0
        while pending:
            check_time()
            left, right = pending.pop()
            seen += 1
            require(seen <= MOST_BOXES, "a kernel is not near its function: too many boxes")
            if not _over(function, low, width, left, right, terms, space) <= limit:
                middle = _short((left + right) / 2)
                require(left < middle < right, "a kernel is not near its function")
                pending += [(left, middle), (middle, right)]


def _short(x: Fraction, up: bool = False) -> Fraction:
    """A float near x, at or above it if asked."""
    near = float(x)
    return Fraction(math.nextafter(near, math.inf) if up and Fraction(near) < x else near)


def _near_start(function: Tree, low: Fraction, end: Fraction, width: Fraction, terms: Terms) -> arb:
    """A bound of the difference on [low, low + end], by ranges."""
    box = Interval(np.array([below(as_ball(low))]), np.array([above(as_ball(low + end))]))
    found, sure = enclosed(function, [box])
    if not (bool(sure.all()) and np.isfinite(found.lower).all() and np.isfinite(found.upper).all()):
        return arb("inf")
    least, most = arb(float(found.lower[0])), arb(float(found.upper[0]))
    bottom = top = arb(0)
    for rate, factor in terms:
        size = as_ball(abs(rate))
        far = [(-size * as_ball(v if rate >= 0 else width - v)).exp() for v in (Fraction(0), end)]
        ends = [factor * one for one in far]
        bottom, top = bottom + ends[0].min(ends[1]), top + ends[0].max(ends[1])
    return (top - least).upper().max((most - bottom).upper())


def _over(
    function: Tree, low: Fraction, width: Fraction, left: Fraction, right: Fraction, terms: Terms, space: Space
) -> arb:
    """A bound of the difference on a box, infinite where there is none."""
    center, radius = as_ball((left + right) / 2), as_ball((right - left) / 2)
    try:
        model = evaluate(function, [Model(space, space.linear(as_ball(low) + center, [radius]))])
    except UndefinedError:
        return arb("inf")
    coefficients, rest = [arb(0)] * (DEGREE + 1), arb(0)
    for rate, factor in terms:
        size = as_ball(abs(rate))
        step = size * radius if rate < 0 else -size * radius
        away = center if rate >= 0 else as_ball(width) - center
        nearest = as_ball(left if rate >= 0 else width - right)
        now = factor * (-size * away).exp()
        for k in range(DEGREE + 1):
            coefficients[k] = coefficients[k] + now
            now = now * step / (k + 1)
        power = abs(step) ** (DEGREE + 1) / math.factorial(DEGREE + 1)
        rest += abs(factor) * (-size * nearest).exp() * power
    total = Model(space, [arb_poly([c]) for c in coefficients], rest)
    bottom, top = (total - model).bounds()
    return abs(bottom).upper().max(abs(top).upper())
