"""Interval rules of the elementary functions, of comparisons and of choices; `RULES` has one for every operation.

Increasing functions map ends to ends. sin and cos take their ends' values unless an extremum lies between the ends, tan
unless a pole does; whether one does is decided on the safe side with a margin for the rounding of the division by the
period. Comparisons give [0, 0], [1, 1] or [0, 1]: false, true or both.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import special

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
    sqrt,
    step_down,
    step_up,
    sub,
    widen,
)

_HALF_PI_UP = math.nextafter(math.pi / 2, math.inf)  # math.pi/2 lies below the number
_PI_UP = math.nextafter(math.pi, math.inf)
_FAR = 2.0**30  # beyond, periods are no longer counted reliably in float64
_NEAR = 0.5  # within, no argument reduction happens and the relative accuracy holds
_REDUCTION = 2.0**-50  # assumed absolute accuracy of sin and cos after argument reduction


def _increasing(function: Callable[[np.ndarray], np.ndarray], least: float, most: float) -> Rule:
    """Rule of an increasing function whose values lie between `least` and `most`."""

    def rule(a: Interval) -> Ruled:
        lower, upper = widen(function(a.lower), function(a.upper))
        return Interval(np.maximum(lower, least), np.minimum(upper, most)), None

    return rule


def _cosh(a: Interval) -> Ruled:
    size = absolute(a)[0]
    lower, upper = widen(np.cosh(size.lower), np.cosh(size.upper))
    return Interval(np.maximum(lower, 1.0), upper), None


def _log(a: Interval) -> Ruled:
    lower = np.where(a.lower > 0.0, step_down(np.log(np.maximum(a.lower, 0.0)), ULPS), -np.inf)
    upper = np.where(a.upper > 0.0, step_up(np.log(np.maximum(a.upper, 0.0)), ULPS), np.inf)
    return Interval(lower, upper), a.lower <= 0.0


def _asin(a: Interval) -> Ruled:
    lower, upper = widen(np.arcsin(np.clip(a.lower, -1.0, 1.0)), np.arcsin(np.clip(a.upper, -1.0, 1.0)))
    return Interval(np.maximum(lower, -_HALF_PI_UP), np.minimum(upper, _HALF_PI_UP)), _outside_unit(a)


def _acos(a: Interval) -> Ruled:
    lower, upper = widen(np.arccos(np.clip(a.upper, -1.0, 1.0)), np.arccos(np.clip(a.lower, -1.0, 1.0)))
    return Interval(np.maximum(lower, 0.0), np.minimum(upper, _PI_UP)), _outside_unit(a)


def _outside_unit(a: Interval) -> np.ndarray:
    return (a.lower < -1.0) | (a.upper > 1.0)


# Periodic functions -----------------------------------------------------------------------------------------------


def _may_hold(a: Interval, offset: float, period: float) -> np.ndarray:
    """Where offset + k*period may lie within the interval for some integer k."""
    low, high = (a.lower - offset) / period, (a.upper - offset) / period
    margin = 1e-15 * (2.0 + np.abs(low) + np.abs(high))  # a dozen roundings of the larger end
    return np.floor(high + margin) >= np.ceil(low - margin)


def _wave(function: Callable[[np.ndarray], np.ndarray], top: float, bottom: float) -> Rule:
    """Rule of sin or cos, whose value is 1 at top + 2 k pi and -1 at bottom + 2 k pi."""

    def rule(a: Interval) -> Ruled:
        far = ~((np.abs(a.lower) < _FAR) & (np.abs(a.upper) < _FAR))
        tame = Interval(np.where(far, 0.0, a.lower), np.where(far, 0.0, a.upper))
        ends = [function(end) for end in tame]
        slack = np.where(np.maximum(np.abs(tame.lower), np.abs(tame.upper)) > _NEAR, _REDUCTION, 0.0)
        lower, upper = widen(np.minimum(*ends) - slack, np.maximum(*ends) + slack)
        lower = np.where(far | _may_hold(tame, bottom, 2 * math.pi), -1.0, np.maximum(lower, -1.0))
        upper = np.where(far | _may_hold(tame, top, 2 * math.pi), 1.0, np.minimum(upper, 1.0))
        return Interval(lower, upper), None

    return rule


def _tan(a: Interval) -> Ruled:
    far = ~((np.abs(a.lower) < _FAR) & (np.abs(a.upper) < _FAR))
    tame = Interval(np.where(far, 0.0, a.lower), np.where(far, 0.0, a.upper))
    low, high = np.tan(tame.lower), np.tan(tame.upper)
    # An error r of the reduced argument becomes (1 + tan^2) r in the value.
    low_slack = np.where(np.abs(tame.lower) > _NEAR, _REDUCTION * (1.0 + low * low), 0.0)
    high_slack = np.where(np.abs(tame.upper) > _NEAR, _REDUCTION * (1.0 + high * high), 0.0)
    pole = far | _may_hold(tame, math.pi / 2, math.pi)
    lower, upper = widen(low - low_slack, high + high_slack)
    return Interval(np.where(pole, -np.inf, lower), np.where(pole, np.inf, upper)), pole


# Choices ----------------------------------------------------------------------------------------------------------


def _minimum(a: Interval, b: Interval) -> Ruled:
    return Interval(np.minimum(a.lower, b.lower), np.minimum(a.upper, b.upper)), None


def _maximum(a: Interval, b: Interval) -> Ruled:
    return Interval(np.maximum(a.lower, b.lower), np.maximum(a.upper, b.upper)), None


def _sign(a: Interval) -> Ruled:
    return Interval(np.sign(a.lower), np.sign(a.upper)), None


def _less(a: Interval, b: Interval) -> Ruled:
    return Interval(np.where(a.upper < b.lower, 1.0, 0.0), np.where(a.lower < b.upper, 1.0, 0.0)), None


def _less_equal(a: Interval, b: Interval) -> Ruled:
    return Interval(np.where(a.upper <= b.lower, 1.0, 0.0), np.where(a.lower <= b.upper, 1.0, 0.0)), None


def _where(condition: Interval, a: Interval, b: Interval) -> Ruled:
    surely, possibly = condition.lower == 1.0, condition.upper == 1.0
    lower = np.where(surely, a.lower, np.where(possibly, np.minimum(a.lower, b.lower), b.lower))
    upper = np.where(surely, a.upper, np.where(possibly, np.maximum(a.upper, b.upper), b.upper))
    return Interval(lower, upper), None


RULES: dict[str, Rule] = {
    "neg": neg,
    "add": add,
    "sub": sub,
    "mul": mul,
    "div": div,
    "pow": power,
    "sin": _wave(np.sin, math.pi / 2, -math.pi / 2),
    "cos": _wave(np.cos, 0.0, math.pi),
    "tan": _tan,
    "asin": _asin,
    "acos": _acos,
    "atan": _increasing(np.arctan, -_HALF_PI_UP, _HALF_PI_UP),
    "sinh": _increasing(np.sinh, -math.inf, math.inf),
    "cosh": _cosh,
    "tanh": _increasing(np.tanh, -1.0, 1.0),
    "exp": _increasing(np.exp, 0.0, math.inf),
    "log": _log,
    "sqrt": sqrt,
    "abs": absolute,
    "sign": _sign,
    "erf": _increasing(special.erf, -1.0, 1.0),
    "min": _minimum,
    "max": _maximum,
    "less": _less,
    "less_equal": _less_equal,
    "where": _where,
}
