"""Interval rules of functions, or makers of them, and those of comparisons and choices.

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

from softwright.targets import special
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
    step_up,
    sub,
    widen,
)

HALF_PI_UP = math.nextafter(math.pi / 2, math.inf)  # math.pi/2 lies below the number
PI_UP = math.nextafter(math.pi, math.inf)
WHOLE = (-math.inf, math.inf)
EXACT = (0.0, 0.0)
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
    slack: tuple[float, float] = EXACT,
) -> Rule:
    """Rule of an increasing function with values between `least` and `most`.

    `reached` says whether finite ends of the domain belong to it; `slack` is what the library may be off, relatively
    and absolutely, beyond the usual few units in the last place.
    """
    low_end, high_end = domain

    def rule(a: Interval) -> Ruled:
        if domain == WHOLE:
            lower, upper = _widened(function(a.lower), function(a.upper), slack)
            return Interval(np.maximum(lower, least), np.minimum(upper, most)), None
        below, beyond = (np.less, np.greater) if reached else (np.less_equal, np.greater_equal)
        low_out, high_out = _out(a.lower, below, low_end), _out(a.upper, beyond, high_end)
        low, high = (function(np.clip(end, low_end, high_end)) for end in a)
        lower, upper = _widened(low, high, slack)
        lower, upper = np.maximum(lower, least), np.minimum(upper, most)
        if not reached:  # the value at the end itself is a limit: the bound is what there is
            lower, upper = np.where(low_out, least, lower), np.where(high_out, most, upper)
        nowhere = _out(a.upper, below, low_end) | _out(a.lower, beyond, high_end)
        return Interval(np.where(nowhere, -np.inf, lower), np.where(nowhere, np.inf, upper)), low_out | high_out

    return rule


def _widened(lower: np.ndarray, upper: np.ndarray, slack: tuple[float, float]) -> Interval:
    if slack == EXACT:
        return widen(lower, upper)
    relative, absolute = slack
    return widen(lower - relative * np.abs(lower) - absolute, upper + relative * np.abs(upper) + absolute)


def _out(ends: np.ndarray, relation: np.ufunc, border: float) -> np.ndarray:
    """Where the ends lie beyond the border; an infinite border is none."""
    return relation(ends, border) if math.isfinite(border) else np.zeros(np.shape(ends), dtype=bool)


def decreasing(rule: Rule) -> Rule:
    """The rule of x -> f(-x) from that of f."""
    return lambda a: rule(Interval(-a.upper, -a.lower))


def even(rule: Rule) -> Rule:
    """The rule of x -> f(|x|) from that of f."""
    return lambda a: rule(absolute(a)[0])


def valley(
    function: Values,
    place: float,
    lowest: float,
    domain: tuple[float, float] = WHOLE,
    slack: tuple[float, float] = EXACT,
) -> Rule:
    """Rule of a function that falls until `place`, where it is at least `lowest`, and rises from there.

    A finite lower end of the domain is a pole. `place` and `lowest` are floats; a few floats off do no harm.
    """
    low_end = domain[0]
    around = Interval(np.asarray(place - 1e-12 * abs(place)), np.asarray(place + 1e-12 * abs(place)))

    def rule(a: Interval) -> Ruled:
        ends = [function(np.maximum(end, low_end)) for end in a]
        lower, upper = _widened(np.minimum(*ends), np.maximum(*ends), slack)
        lower = np.where((a.lower <= around.upper) & (a.upper >= around.lower), lowest, np.maximum(lower, lowest))
        if domain == WHOLE:
            return Interval(lower, upper), None
        outside, nowhere = a.lower <= low_end, a.upper <= low_end
        return Interval(np.where(nowhere, -np.inf, lower), np.where(outside, np.inf, upper)), outside

    return rule


def bounded(function: Values, least: float, most: float, slope: float) -> Rule:
    """Rule of a function of bounded slope: its value at the middle, give or take slope times radius.

    The library is taken to be accurate to 2**-48 (1 + |x|) absolutely: it reduces large arguments in float64.
    """

    def rule(a: Interval) -> Ruled:
        middle = 0.5 * a.lower + 0.5 * a.upper
        radius = np.maximum(a.upper - middle, middle - a.lower) * (1.0 + 1e-15)
        value = function(middle)
        reach = slope * radius + 2.0**-48 * (1.0 + np.abs(middle))
        lower, upper = widen(value - reach, value + reach)
        return Interval(np.maximum(lower, least), np.minimum(upper, most)), None

    return rule


def stepped(function: Values) -> Rule:
    """Rule of an increasing function that floats compute exactly: floor, rounding, sign."""
    return lambda a: (Interval(function(a.lower), function(a.upper)), None)


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


def cot(a: Interval) -> Ruled:
    far = ~((np.abs(a.lower) < _FAR) & (np.abs(a.upper) < _FAR))
    pole = far | may_hold(a, 0.0, math.pi)
    low, high = (1.0 / np.tan(np.where(pole, 1.0, end)) for end in (a.upper, a.lower))
    low_slack, high_slack = (_REDUCTION * (1.0 + value * value) for value in (low, high))
    lower, upper = widen(low - low_slack, high + high_slack)
    return Interval(np.where(pole, -np.inf, lower), np.where(pole, np.inf, upper)), pole


# Two arguments ----------------------------------------------------------------------------------------------------


def hypot(a: Interval, b: Interval) -> Ruled:
    first, second = absolute(a)[0], absolute(b)[0]
    lower, upper = widen(np.hypot(first.lower, second.lower), np.hypot(first.upper, second.upper))
    return Interval(np.maximum(lower, np.maximum(first.lower, second.lower)), upper), None


def atan2(y: Interval, x: Interval) -> Ruled:
    """The angles of a rectangle lie between those of its corners, unless it holds the origin or crosses the cut."""
    corners = [np.arctan2(v + 0.0, u) for v in y for u in x]  # + 0.0: the angle of (-1, -0.0) is pi, as that of (-1, 0)
    lower, upper = widen(np.minimum.reduce(corners), np.maximum.reduce(corners))
    origin = (x.lower <= 0.0) & (x.upper >= 0.0) & (y.lower <= 0.0) & (y.upper >= 0.0)
    wide = origin | ((x.lower <= 0.0) & (y.lower < 0.0) & (y.upper >= 0.0))
    return Interval(
        np.where(wide, -PI_UP, np.maximum(lower, -PI_UP)), np.where(wide, PI_UP, np.minimum(upper, PI_UP))
    ), origin


def xlogy(x: Interval, y: Interval) -> Ruled:
    """x log(y), 0 at x = 0; the same interval twice is x log(x), which falls until 1/e and rises from there."""
    if x is y:
        (lower, upper), outside = _xlogx(x)
        touching = x.lower == 0.0  # log(0) is minus infinity, but 0 log 0 is 0
        return Interval(lower, np.where(touching, np.maximum(_end(x.upper), 0.0), upper)), outside & ~touching
    logarithm, outside = _logarithm(y)
    zero = (x.lower == 0.0) & (x.upper == 0.0)
    product, _ = mul(x, logarithm)
    unknown = outside & ~zero
    return Interval(*(np.where(zero, 0.0, end) for end in product)), unknown


def _end(x: np.ndarray) -> np.ndarray:
    return step_up(special.xlogy(x, x), ULPS)


_xlogx = valley(lambda x: special.xlogy(x, x), 1 / math.e, -0.3678794411714424, (0.0, math.inf))
_logarithm = increasing(np.log, domain=(0.0, math.inf), reached=False)


def remainder(a: Interval, b: Interval) -> Ruled:
    """a - b floor(a/b): between 0 and b, and a - k b where the quotient's floor is certainly k."""
    quotient, by_zero = div(a, b)
    low, high = np.floor(quotient.lower), np.floor(quotient.upper)
    same = (low == high) & np.isfinite(low)
    whole = np.where(same, low, 0.0)
    inner, _ = sub(a, mul(b, Interval(whole, whole))[0])
    lower, upper = np.minimum(b.lower, 0.0), np.maximum(b.upper, 0.0)
    lower, upper = (
        np.where(same, np.maximum(inner.lower, lower), lower),
        np.where(same, np.minimum(inner.upper, upper), upper),
    )
    return Interval(lower, upper), by_zero


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
