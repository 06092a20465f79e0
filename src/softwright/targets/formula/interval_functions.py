"""Makers of interval rules for functions, and the rules of comparisons and choices.

Monotone functions map ends to ends; functions with one lowest point take it in where the interval may hold it; waves
(sin, cos) take their ends' values unless an extremum lies between the ends, tan and cot unless a pole does. Whether one
does is decided on the safe side with a margin for the rounding of the division by the period. What is left is enclosed
by its value at the middle and the largest slope there is. Comparisons give [0, 0], [1, 1] or [0, 1]: false, true or
both.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from softwright.targets.formula.intervals import (
    ULPS,
    Interval,
    Rule,
    Ruled,
    absolute,
    add,
    div,
    mul,
    neg,
    power,
    sub,
    widen,
)

HALF_PI_UP = math.nextafter(math.pi / 2, math.inf)  # math.pi/2 lies below the number
PI_UP = math.nextafter(math.pi, math.inf)
WHOLE = (-math.inf, math.inf)
_FAR = 2.0**30  # beyond, periods are no longer counted reliably in float64
_NEAR = 0.5  # within, no argument reduction happens and the relative accuracy holds
_REDUCTION = 2.0**-50  # assumed absolute accuracy of sin and cos after argument reduction

Values = Callable[[np.ndarray], np.ndarray]


def increasing(
    function: Values,
    least: float = -math.inf,
    most: float = math.inf,
    domain: tuple[float, float] = WHOLE,
    reached: bool = True,
    steps: int = ULPS,
) -> Rule:
    """Rule of an increasing function with values between `least` and `most`.

    `reached` says whether finite ends of the domain belong to it, `steps` how many floats off the library may be.
    """
    low_end, high_end = domain

    def rule(a: Interval) -> Ruled:
        if domain == WHOLE:
            lower, upper = widen(function(a.lower), function(a.upper), steps)
            return Interval(np.maximum(lower, least), np.minimum(upper, most)), None
        below, beyond = (np.less, np.greater) if reached else (np.less_equal, np.greater_equal)
        low_out, high_out = _out(a.lower, below, low_end), _out(a.upper, beyond, high_end)
        low, high = (function(np.clip(end, low_end, high_end)) for end in a)
        lower, upper = widen(low, high, steps)
        lower, upper = np.maximum(lower, least), np.minimum(upper, most)
        if not reached:  # the value at the end itself is a limit: the bound is what there is
            lower, upper = np.where(low_out, least, lower), np.where(high_out, most, upper)
        nowhere = _out(a.upper, below, low_end) | _out(a.lower, beyond, high_end)
        return Interval(np.where(nowhere, -np.inf, lower), np.where(nowhere, np.inf, upper)), low_out | high_out

    return rule


def _out(ends: np.ndarray, relation: np.ufunc, border: float) -> np.ndarray:
    """Where the ends lie beyond the border; an infinite border is none."""
    return relation(ends, border) if math.isfinite(border) else np.zeros(np.shape(ends), dtype=bool)


def decreasing(rule: Rule) -> Rule:
    """The rule of x -> f(-x) from that of f."""
    return lambda a: rule(Interval(-a.upper, -a.lower))


def even(rule: Rule) -> Rule:
    """The rule of x -> f(|x|) from that of f."""
    return lambda a: rule(absolute(a)[0])


# Periodic functions -----------------------------------------------------------------------------------------------


def may_hold(a: Interval, offset: float, period: float) -> np.ndarray:
    """Where offset + k*period may lie within the interval for some integer k."""
    low, high = (a.lower - offset) / period, (a.upper - offset) / period
    margin = 1e-15 * (2.0 + np.abs(low) + np.abs(high))  # a dozen roundings of the larger end
    return np.floor(high + margin) >= np.ceil(low - margin)


def wave(function: Values, top: float, bottom: float) -> Rule:
    """Rule of sin or cos, whose value is 1 at top + 2 k pi and -1 at bottom + 2 k pi."""

    def rule(a: Interval) -> Ruled:
        far = ~((np.abs(a.lower) < _FAR) & (np.abs(a.upper) < _FAR))
        tame = Interval(np.where(far, 0.0, a.lower), np.where(far, 0.0, a.upper))
        ends = [function(end) for end in tame]
        slack = np.where(np.maximum(np.abs(tame.lower), np.abs(tame.upper)) > _NEAR, _REDUCTION, 0.0)
        lower, upper = widen(np.minimum(*ends) - slack, np.maximum(*ends) + slack)
        lower = np.where(far | may_hold(tame, bottom, 2 * math.pi), -1.0, np.maximum(lower, -1.0))
        upper = np.where(far | may_hold(tame, top, 2 * math.pi), 1.0, np.minimum(upper, 1.0))
        return Interval(lower, upper), None

    return rule


def tan(a: Interval) -> Ruled:
    far = ~((np.abs(a.lower) < _FAR) & (np.abs(a.upper) < _FAR))
    tame = Interval(np.where(far, 0.0, a.lower), np.where(far, 0.0, a.upper))
    low, high = np.tan(tame.lower), np.tan(tame.upper)
    # An error r of the reduced argument becomes (1 + tan^2) r in the value.
    low_slack = np.where(np.abs(tame.lower) > _NEAR, _REDUCTION * (1.0 + low * low), 0.0)
    high_slack = np.where(np.abs(tame.upper) > _NEAR, _REDUCTION * (1.0 + high * high), 0.0)
    pole = far | may_hold(tame, math.pi / 2, math.pi)
    lower, upper = widen(low - low_slack, high + high_slack)
    return Interval(np.where(pole, -np.inf, lower), np.where(pole, np.inf, upper)), pole


# Choices ----------------------------------------------------------------------------------------------------------


def _minimum(a: Interval, b: Interval) -> Ruled:
    return Interval(np.minimum(a.lower, b.lower), np.minimum(a.upper, b.upper)), None


def _maximum(a: Interval, b: Interval) -> Ruled:
    return Interval(np.maximum(a.lower, b.lower), np.maximum(a.upper, b.upper)), None


def _less(a: Interval, b: Interval) -> Ruled:
    return Interval(np.where(a.upper < b.lower, 1.0, 0.0), np.where(a.lower < b.upper, 1.0, 0.0)), None


def _less_equal(a: Interval, b: Interval) -> Ruled:
    return Interval(np.where(a.upper <= b.lower, 1.0, 0.0), np.where(a.lower <= b.upper, 1.0, 0.0)), None


def _where(condition: Interval, a: Interval, b: Interval) -> Ruled:
    surely, possibly = condition.lower == 1.0, condition.upper == 1.0
    lower = np.where(surely, a.lower, np.where(possibly, np.minimum(a.lower, b.lower), b.lower))
    upper = np.where(surely, a.upper, np.where(possibly, np.maximum(a.upper, b.upper), b.upper))
    return Interval(lower, upper), None


STRUCTURAL: dict[str, Rule] = {
    "neg": neg,
    "add": add,
    "sub": sub,
    "mul": mul,
    "div": div,
    "pow": power,
    "min": _minimum,
    "max": _maximum,
    "less": _less,
    "less_equal": _less_equal,
    "and": _minimum,
    "or": _maximum,
    "where": _where,
}
