"""Elementary functions of Taylor models.

h(phi) is the Taylor series of h at the centre value a_0 composed with phi - a_0, plus the tail of the series for
|phi - a_0| <= D:

    exp, sin, cos, sinh, cosh   D^(p+1)/(p+1)! times the largest derivative (entire functions)
    log, powers                 the binomial or logarithmic series is dominated by a geometric one with ratio D/|a_0|
    all others                  Lagrange: the (p+1)-th Taylor coefficient over the whole ball a_0 +- D

Values at a_0 come from ball arithmetic, so no accuracy of the C library is assumed. Where the series is of no use (a
root whose argument touches zero, a box reaching over a singularity that the function does not have on the reals) but
the function is defined, the model falls back to the plain range of the function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from flint import arb, arb_series

from softwright.proof.arithmetic.balls import (
    ball_above,
    ball_below,
    float_enclosure,
    interval_ball,
    map_balls,
    precision,
)
from softwright.proof.arithmetic.directed import EXP_CEILING, EXP_ERROR, U, exp_near, exp_up, gamma, up
from softwright.proof.arithmetic.taylor_model import TaylorModel, constant, positive_part
from softwright.targets.formula import ELEMENTARY, ROWS, power_ball

_SERIES_LIMIT = 0.98  # D/|a_0| above which a geometric tail is useless


def _power_up(base: np.ndarray, exponent: int) -> np.ndarray:
    """base ** exponent for base >= 0, rounded up."""
    out = np.ones_like(base)
    for _ in range(exponent):
        out = out * base
    return up(out, exponent + 2)


def exp(model: TaylorModel) -> TaylorModel:
    a0, order = model.coefficients[0], model.shape.order
    distance = model.deviation()
    value = np.where(np.abs(a0) < EXP_CEILING - 1.0, exp_near(a0), np.nan)
    inverse_factorials = np.array([1.0 / math.factorial(k) for k in range(order + 1)])[:, None]
    series = value * inverse_factorials
    tail = up(value * (1 + EXP_ERROR) * _power_up(distance, order + 1) / math.factorial(order + 1) * exp_up(distance))
    result = model.compose(series, up((EXP_ERROR + 4 * U) * series), tail)
    # Far below zero the value underflows: 0 < exp(phi) <= exp(upper end).
    _, upper = model.range()
    return result.narrowed(np.where(upper < 0, 0.0, -np.inf), np.where(upper < 0, exp_up(upper), np.inf))


def _circular(model: TaylorModel, phase: int) -> TaylorModel:
    a0, order = model.coefficients[0], model.shape.order
    (sine, sine_error), (cosine, cosine_error) = (map_balls(lambda x: x.sin(), a0), map_balls(lambda x: x.cos(), a0))
    values, errors = [sine, cosine, -sine, -cosine], [sine_error, cosine_error]
    series = np.array([values[(k + phase) % 4] / math.factorial(k) for k in range(order + 1)])
    error = np.array([(errors[(k + phase) % 2] + 2 * U) / math.factorial(k) for k in range(order + 1)])
    tail = up(_power_up(model.deviation(), order + 1) / math.factorial(order + 1))
    one = np.ones_like(a0)
    return model.compose(series, up(error), tail).narrowed(-one, one)


def sin(model: TaylorModel) -> TaylorModel:
    return _circular(model, 0)


def cos(model: TaylorModel) -> TaylorModel:
    return _circular(model, 1)


def _hyperbolic(model: TaylorModel, phase: int) -> TaylorModel:
    a0, order = model.coefficients[0], model.shape.order
    (sine, sine_error), (cosine, cosine_error) = (map_balls(lambda x: x.sinh(), a0), map_balls(lambda x: x.cosh(), a0))
    values, errors = [sine, cosine], [sine_error, cosine_error]
    series = np.array([values[(k + phase) % 2] / math.factorial(k) for k in range(order + 1)])
    error = np.array([errors[(k + phase) % 2] / math.factorial(k) for k in range(order + 1)]) + 2 * U * np.abs(series)
    distance = model.deviation()
    growth = exp_up(up(np.abs(a0) + distance))  # cosh(y) <= e^|y|
    tail = up(_power_up(distance, order + 1) / math.factorial(order + 1) * growth)
    return model.compose(series, up(error), tail)


def sinh(model: TaylorModel) -> TaylorModel:
    return _hyperbolic(model, 0)


def cosh(model: TaylorModel) -> TaylorModel:
    return _hyperbolic(model, 1)


def _near_one(model: TaylorModel, a: np.ndarray) -> tuple[TaylorModel, np.ndarray]:
    """The model and its centres `a` over a power of two that brings each centre next to 1, exactly.

    Powers and logarithms have series in (phi - a)/a: with a = 1e-30 the coefficients of (phi - a)^k alone overflow.
    """
    with np.errstate(all="ignore"):
        mantissa, exponent = np.frexp(a)
        factor = np.ldexp(1.0, -exponent)
    normal = (np.abs(exponent) < 1000) & (a != 0.0)
    factor = np.where(normal, factor, 1.0)
    scaled = TaylorModel(model.shape, model.coefficients * factor, up(model.remainder * factor), model.live)
    return scaled, np.where(normal, mantissa, a)


def log(model: TaylorModel) -> TaylorModel:
    a0, order = model.coefficients[0], model.shape.order
    ratio = up(model.deviation() / np.abs(a0))
    usable = (a0 > 0) & (ratio < _SERIES_LIMIT)
    a, z = np.where(usable, a0, 1.0), np.where(usable, ratio, 0.0)
    value, value_error = map_balls(lambda x: x.log(), a)
    inner, a = _near_one(model, a)
    series = np.empty((order + 1, len(a)))
    series[0] = value
    power = np.ones_like(a)
    for k in range(1, order + 1):
        power = power * a
        series[k] = (-1.0) ** (k + 1) / (k * power)
    error = np.abs(series) * gamma(order + 3)
    error[0] = value_error
    tail = up(_power_up(z, order + 1) / (order + 1) / (1.0 - z))
    result = inner.compose(series, up(error), tail)
    result.remainder = np.where(usable, result.remainder, np.inf)
    return _with_range(model, result, ~usable, _log_range)


def _log_range(lower: float, upper: float) -> tuple[float, float]:
    if upper <= 0.0:
        return -math.inf, math.inf
    return (ball_below(arb(lower).log()) if lower > 0.0 else -math.inf), ball_above(arb(upper).log())


def real_power(model: TaylorModel, exponent: float) -> TaylorModel:
    """phi ** exponent: phi > 0, or phi >= 0 if exponent > 0, or phi != 0 for negative integers."""
    a0, order = model.coefficients[0], model.shape.order
    whole = float(exponent).is_integer()
    ratio = up(model.deviation() / np.abs(a0))
    usable = (ratio < _SERIES_LIMIT) & ((a0 > 0) | (whole & (a0 != 0)))
    a, z = np.where(usable, a0, 1.0), np.where(usable, ratio, 0.0)
    if exponent == -1.0:
        value = 1.0 / a
        value_error = U * np.abs(value)
    elif exponent == 0.5:
        value = np.sqrt(a)  # correctly rounded by IEEE 754
        value_error = U * value
    else:
        value, value_error = map_balls(lambda x: x ** arb(exponent), a)
    inner, a = _near_one(model, a)
    series = np.empty((order + 1, len(a)))
    series[0] = value
    binomial = 1.0
    for k in range(order):
        binomial = binomial * (exponent - k) / (k + 1)
        series[k + 1] = series[k] * (exponent - k) / ((k + 1) * a)
    # each step of the recursion: difference, product, product, quotient
    relative = value_error / np.abs(value) + gamma(4 * order + 6)
    binomial = abs(binomial * (exponent - order) / (order + 1)) * (1.0 + gamma(4 * order + 8))
    growth = max(1.0, abs(exponent - order - 1) / (order + 2) * (1.0 + 4 * U))
    geometric = 1.0 - growth * z
    usable &= geometric > 1e-6
    leading = np.abs(value) + value_error
    tail = up(binomial * leading * _power_up(z, order + 1) / np.where(usable, geometric - 4 * U, 1.0))
    result = inner.compose(series, up(np.abs(series) * relative), tail)
    result.remainder = np.where(usable, result.remainder, np.inf)

    def power_range(lower: float, upper: float) -> tuple[float, float]:
        if whole and exponent < 0:  # needs a range without zero; then monotone on it
            if lower <= 0.0 <= upper:
                return -math.inf, math.inf
            hull = (arb(lower) ** arb(exponent)).union(arb(upper) ** arb(exponent))
        else:
            hull = power_ball(interval_ball(max(lower, 0.0), max(upper, 0.0)), arb(exponent))
            if upper < 0.0:
                return -math.inf, math.inf
        return ball_below(hull), ball_above(hull)

    return _with_range(model, result, ~(result.remainder < np.abs(value)), power_range)


def sqrt(model: TaylorModel) -> TaylorModel:
    return real_power(model, 0.5)


def reciprocal(model: TaylorModel) -> TaylorModel:
    return real_power(model, -1.0)


def by_lagrange(model: TaylorModel, name: str, *orders: int) -> TaylorModel:
    """Any function of one argument: series by ball arithmetic, remainder by Lagrange's formula.

    Where that is of no use, the range: of a monotone function from its values at the ends, of any other from its ball
    over the whole interval. `orders` picks the member of a family such as the Bessel functions.
    """
    row = ELEMENTARY[name]
    of_ball = partial(row.ball, *(arb(n) for n in orders)) if orders else row.ball
    of_series = of_ball if row.series is None else row.series(*orders) if orders else row.series
    a0, order = model.coefficients[0], model.shape.order
    distance = model.deviation()
    distinct, back = np.unique(np.stack([a0, distance]), axis=1, return_inverse=True)
    back = back.ravel()
    count = distinct.shape[1]
    series, error, tail = np.zeros((order + 1, count)), np.zeros((order + 1, count)), np.empty(count)
    with precision(96, order + 2):
        for i in range(count):
            center, reach = float(distinct[0, i]), float(distinct[1, i])
            if not (math.isfinite(center) and math.isfinite(reach)):
                tail[i] = math.inf
                continue
            try:
                at_center = of_series(arb_series([arb(center), arb(1)], order + 1))
                around = of_series(arb_series([arb(center, reach), arb(1)], order + 2))
            except (ValueError, ZeroDivisionError):  # a ball too wide to divide by: nothing is known on this box
                tail[i] = math.inf
                continue
            for k in range(order + 1):
                series[k, i], error[k, i] = float_enclosure(at_center[k])
            # A series that was cut shorter (another thread may change the library's global cap) has no such
            # coefficient.
            whole = at_center.prec >= order + 1 and around.prec >= order + 2
            tail[i] = ball_above(abs(around[order + 1]) * arb(reach) ** (order + 1)) if whole else math.inf
    result = model.compose(series[:, back], error[:, back], tail[back])

    def function_range(lower: float, upper: float) -> tuple[float, float]:
        low, high = row.domain
        if lower > high or upper < low:
            return -math.inf, math.inf
        lower, upper = max(lower, low), min(upper, high)
        ends = of_ball(arb(lower)).union(of_ball(arb(upper))) if row.monotone else None
        hull = of_ball(interval_ball(lower, upper)) if ends is None else ends
        return ball_below(hull), ball_above(hull)

    return _with_range(model, result, ~(result.remainder < 1.0), function_range)


def _with_range(
    model: TaylorModel,
    result: TaylorModel,
    needed: np.ndarray,
    function_range: Callable[[float, float], tuple[float, float]],
) -> TaylorModel:
    """Replace the model by the function's plain range on the boxes `needed`, where that is better."""
    chosen = np.flatnonzero(needed)
    if len(chosen) == 0:
        return result
    lower, upper = model.range()
    low, high = np.full(model.boxes, -np.inf), np.full(model.boxes, np.inf)
    with precision(80):
        for i in chosen:
            if np.isfinite(lower[i]) and np.isfinite(upper[i]):
                low[i], high[i] = function_range(float(lower[i]), float(upper[i]))
    result.remainder = np.where(np.isnan(result.remainder), np.inf, result.remainder)
    return result.narrowed(low, high)


def divide(numerator: TaylorModel, denominator: TaylorModel) -> TaylorModel:
    return numerator * reciprocal(denominator)


# Functions with a kink, and of two arguments ----------------------------------------------------------------------


def absolute(model: TaylorModel) -> TaylorModel:
    return positive_part(model) + positive_part(-model)


def _stepped(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[TaylorModel], TaylorModel]:
    """An increasing step function that floats compute exactly: the range between its values at the ends."""

    def rule(model: TaylorModel) -> TaylorModel:
        lower, upper = (function(end) for end in model.range())
        middle = np.where(lower == upper, lower, 0.5 * lower + 0.5 * upper)
        return constant(
            model.shape, middle, np.where(lower == upper, 0.0, up(np.maximum(upper - middle, middle - lower)))
        )

    return rule


def hypot(a: TaylorModel, b: TaylorModel) -> TaylorModel:
    return sqrt(a.power(2) + b.power(2))


def atan2(y: TaylorModel, x: TaylorModel) -> TaylorModel:
    """atan(y/x) for x > 0, pi/2 - atan(x/y) for y > 0, -pi/2 - atan(x/y) for y < 0; elsewhere all there is."""
    with precision(120):
        quarter, error = float_enclosure(arb.pi() / 2)
    (x_low, _), (y_low, y_high) = x.range(), y.range()
    side = -by_lagrange(divide(x, y), "atan")
    pi = 2.0 * (quarter + error)
    result = constant(x.shape, np.zeros(x.boxes), up(np.full(x.boxes, pi)))
    result = side.plus(-quarter, error).where(y_high < 0.0, result)
    result = side.plus(quarter, error).where(y_low > 0.0, result)
    return by_lagrange(divide(y, x), "atan").where(x_low > 0.0, result)


def xlogy(x: TaylorModel, y: TaylorModel) -> TaylorModel:
    """x log(y); x log(x), if both are the same model, lies between its lowest value -1/e, or its end, and 0 at 0."""
    result = x * log(y)
    if x is not y:
        return result
    lower, _ = x.range()
    return _with_range(x, result, lower <= 0.0, _xlogx_range)


def _xlogx_range(lower: float, upper: float) -> tuple[float, float]:
    part = interval_ball(0.0, max(upper, 0.0))
    hull = ELEMENTARY["xlogy"].ball(part, part)
    return ball_below(hull), ball_above(hull)


def remainder(a: TaylorModel, b: TaylorModel) -> TaylorModel:
    """a - b floor(a/b) where the floor is one number on the box, else all between 0 and b; unknown where b may be 0."""
    lower, upper = divide(a, b).range()
    with np.errstate(invalid="ignore"):
        low, high = np.floor(lower), np.floor(upper)
    same = (low == high) & np.isfinite(low)
    b_low, b_high = b.range()
    zero = np.zeros(a.boxes)
    nothing = constant(a.shape, zero, np.full(a.boxes, np.inf))
    wide = nothing.narrowed(np.minimum(b_low, zero), np.maximum(b_high, zero))
    wide = nothing.where((b_low <= 0.0) & (b_high >= 0.0), wide)
    return (a - b.times(np.where(same, low, 0.0))).where(same, wide)


# Functions that have a rule of their own; all others are `by_lagrange`.
_SHARPER: dict[str, Callable[..., TaylorModel]] = {
    "exp": exp,
    "expm1": lambda model: exp(model).plus(-1.0),
    "sin": sin,
    "cos": cos,
    "sinh": sinh,
    "cosh": cosh,
    "log": log,
    "log1p": lambda model: log(model.plus(1.0)),
    "sqrt": sqrt,
    "cbrt": partial(by_lagrange, name="cbrt"),
    "abs": absolute,
    "sign": _stepped(np.sign),
    "floor": _stepped(np.floor),
    "round": _stepped(np.rint),
    "hypot": hypot,
    "atan2": atan2,
    "xlogy": xlogy,
    "mod": remainder,
}
TAYLOR_RULES: dict[str, Callable[..., TaylorModel]] = {
    **{row.name: partial(by_lagrange, name=row.name) for row in ROWS if row.kink is None and len(row.slopes) == 1},
    **_SHARPER,
}
