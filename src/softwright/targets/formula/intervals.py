"""Interval arithmetic on float64 arrays, outward rounded: the true range of an operation lies within what is returned.

An `Interval` is a pair of arrays (lower, upper); an infinite end means "no bound known on this side". Ends are never
nan. Three sources of rounding are covered:

- + - * / and sqrt are correctly rounded by IEEE 754, so one step outward suffices, and none where the result is exact.
  Sums and products are tested for exactness with the error-free transformations of Knuth and Dekker, which keeps
  1 - x**2 on [-1, 1] at exactly [0, 1].
- NumPy's and SciPy's elementary functions are assumed accurate to `ULPS` = 4 units in the last place, twice what
  NumPy's own test-suite demands of its vectorised kernels for most functions; tests compare with ball arithmetic.
- sin, cos and tan away from zero are also assumed accurate to 2**-50 absolutely and no better, because argument
  reduction may lose relative accuracy near a zero of the function (interval_functions.py).

Each rule returns the interval and a mask of the entries where the operation may be undefined, or None where it never
is. The interval then encloses the values at the points where it *is* defined (the whole line if nothing better is
known).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from softwright.targets.formula.nodes import CONSTANT_VALUES, Constant, Number

ULPS = 4


class Interval(NamedTuple):
    lower: np.ndarray
    upper: np.ndarray


Ruled = tuple[Interval, np.ndarray | None]
Rule = Callable[..., Ruled]


def step_down(values: np.ndarray, steps: int = 1) -> np.ndarray:
    """The values `steps` floats lower; nan (an end that is not known) becomes -inf."""
    for _ in range(steps):
        values = np.nextafter(values, -np.inf)
    return np.where(np.isnan(values), -np.inf, values)


def step_up(values: np.ndarray, steps: int = 1) -> np.ndarray:
    """The values `steps` floats higher; nan becomes +inf."""
    for _ in range(steps):
        values = np.nextafter(values, np.inf)
    return np.where(np.isnan(values), np.inf, values)


def widen(lower: np.ndarray, upper: np.ndarray, steps: int = ULPS) -> Interval:
    return Interval(step_down(lower, steps), step_up(upper, steps))


def whole(like: np.ndarray) -> Interval:
    return Interval(np.full_like(like, -np.inf), np.full_like(like, np.inf))


def literal(node: Number | Constant) -> Interval:
    """The real number that was written, which is rarely a float64."""
    if isinstance(node, Constant):  # both math.pi and math.e lie just below the number
        nearest = np.float64(CONSTANT_VALUES[node.name])
        return Interval(np.asarray(nearest), np.asarray(np.nextafter(nearest, np.inf)))
    exact, nearest = Fraction(node.text), np.asarray(node.value)
    below = step_down(nearest) if Fraction(node.value) > exact else nearest
    above = step_up(nearest) if Fraction(node.value) < exact else nearest
    return Interval(below, above)


# Sums and products ------------------------------------------------------------------------------------------------


def _sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a + b rounded, and what rounding took away (Knuth); nan where an end is infinite."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


_SPLITTER = 2.0**27 + 1.0
_SAFE_LOW, _SAFE_HIGH = 2.0**-480, 2.0**480  # neither the splitting nor the lowest partial product leaves the range


def _product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a * b rounded, and the sign of what rounding took away (Dekker); nan where that is not known. 0 * inf is 0.

    An infinite end is the limit of finite numbers, so zero times it is zero.
    """
    product = np.where((a == 0.0) | (b == 0.0), 0.0, a * b)
    a_high = _SPLITTER * a - (_SPLITTER * a - a)
    b_high = _SPLITTER * b - (_SPLITTER * b - b)
    a_low, b_low = a - a_high, b - b_high
    lost = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    a_size, b_size = np.abs(a), np.abs(b)
    safe = (a_size > _SAFE_LOW) & (a_size < _SAFE_HIGH) & (b_size > _SAFE_LOW) & (b_size < _SAFE_HIGH)
    # A product that underflows to zero has lost a number of its sign; how much does not matter.
    return product, np.where(product == 0.0, np.sign(a) * np.sign(b), np.where(safe, lost, np.nan))


def _downward(rounded: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """A lower bound of rounded + lost: rounded itself if nothing was lost downwards."""
    return np.where(lost >= 0.0, rounded, step_down(rounded))


def _upward(rounded: np.ndarray, lost: np.ndarray) -> np.ndarray:
    return np.where(lost <= 0.0, rounded, step_up(rounded))


def add(a: Interval, b: Interval) -> Ruled:
    return Interval(_downward(*_sum(a.lower, b.lower)), _upward(*_sum(a.upper, b.upper))), None


def neg(a: Interval) -> Ruled:
    return Interval(-a.upper, -a.lower), None


def sub(a: Interval, b: Interval) -> Ruled:
    return add(a, Interval(-b.upper, -b.lower))


def mul(a: Interval, b: Interval) -> Ruled:
    corners = [_product(x, y) for x in a for y in b]
    lower = np.minimum.reduce([_downward(*corner) for corner in corners])
    upper = np.maximum.reduce([_upward(*corner) for corner in corners])
    return Interval(lower, upper), None


def div(a: Interval, b: Interval) -> Ruled:
    touches_zero = (b.lower <= 0.0) & (b.upper >= 0.0)
    corners = [_quotient(x, y) for x in a for y in b]
    lower = np.minimum.reduce([_downward(*corner) for corner in corners])
    upper = np.maximum.reduce([_upward(*corner) for corner in corners])
    return Interval(np.where(touches_zero, -np.inf, lower), np.where(touches_zero, np.inf, upper)), touches_zero


def _quotient(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a / b rounded, and a number with the sign of what rounding took away; nan where that is not known.

    inf / inf counts as 0: any quotient of that sign may be meant, and the corners with one finite end cover the rest.
    """
    both_infinite = np.isinf(a) & np.isinf(b)
    quotient = np.where(both_infinite, 0.0, a / b)
    product, lost = _product(quotient, b)
    rest = ((a - product) - lost) * np.sign(b)  # a - product is exact, as the two agree to the last bits
    return quotient, np.where(both_infinite, 0.0, rest)


# Powers and roots -------------------------------------------------------------------------------------------------


def sqrt(a: Interval) -> Ruled:
    low, high = np.sqrt(np.maximum(a.lower, 0.0)), np.sqrt(np.maximum(a.upper, 0.0))
    low, high = (_downward(low, _root_rest(low, a.lower)), _upward(high, _root_rest(high, a.upper)))
    nowhere = a.upper < 0.0
    return (
        Interval(np.where(nowhere, -np.inf, np.maximum(low, 0.0)), np.where(nowhere, np.inf, high)),
        a.lower < 0.0,
    )


def _root_rest(root: np.ndarray, number: np.ndarray) -> np.ndarray:
    product, lost = _product(root, root)
    return (np.maximum(number, 0.0) - product) - lost


def power(a: Interval, exponent: Interval) -> Ruled:
    low, high = exponent
    if low.ndim == 0 and low == high and low == np.rint(low) and abs(low) <= 2.0**31:
        return _integer_power(a, int(low))
    base_low, base_high = np.maximum(a.lower, 0.0), np.maximum(a.upper, 0.0)
    # For a positive base the power is exp(exponent * log(base)): monotone in each, so the corners hold the extremes.
    corners = [np.power(base, e) for base in (base_low, base_high) for e in exponent]
    lower = np.maximum(step_down(np.minimum.reduce(corners), ULPS), 0.0)
    upper = step_up(np.maximum.reduce(corners), ULPS)
    undefined = (a.lower < 0.0) | ((a.lower == 0.0) & (low < 0.0))
    # A negative base has values only at integer exponents; if the exponent never is one, the other bases are all.
    never_integer = np.ceil(low) > np.floor(high)
    unknown = (a.lower < 0.0) & ~(never_integer & (a.upper >= 0.0))
    return Interval(np.where(unknown, -np.inf, lower), np.where(unknown, np.inf, upper)), undefined


def _integer_power(a: Interval, exponent: int) -> Ruled:
    if exponent == 0:
        return Interval(np.ones_like(a.lower), np.ones_like(a.upper)), None
    if exponent < 0:
        return div(Interval(np.asarray(1.0), np.asarray(1.0)), _integer_power(a, -exponent)[0])
    powers = _power_of_sizes if exponent <= 64 else _power_by_library
    if exponent % 2 == 0:
        return powers(absolute(a)[0], exponent), None
    # Odd powers are monotone: each end is the power of the size of that end of the base, with its sign.
    low_end, high_end = (powers(Interval(np.abs(end), np.abs(end)), exponent) for end in a)
    lower = np.where(a.lower >= 0.0, low_end.lower, -low_end.upper)
    upper = np.where(a.upper >= 0.0, high_end.upper, -high_end.lower)
    return Interval(lower, upper), None


def _power_of_sizes(size: Interval, exponent: int) -> Interval:
    """A positive power of non-negative intervals by repeated squaring, each product rounded outward."""
    low, high = size
    result: Interval | None = None
    while exponent:
        if exponent & 1:
            result = Interval(low, high) if result is None else _multiply_sizes(result, Interval(low, high))
        exponent >>= 1
        if exponent:
            low, high = _multiply_sizes(Interval(low, high), Interval(low, high))
    return result if result is not None else Interval(np.ones_like(low), np.ones_like(high))


def _multiply_sizes(a: Interval, b: Interval) -> Interval:
    lower = np.maximum(_downward(*_product(a.lower, b.lower)), 0.0)
    return Interval(lower, _upward(*_product(a.upper, b.upper)))


def _power_by_library(size: Interval, exponent: int) -> Interval:
    powers = widen(np.power(size.lower, float(exponent)), np.power(size.upper, float(exponent)))
    return Interval(np.maximum(powers.lower, 0.0), powers.upper)


def absolute(a: Interval) -> Ruled:
    low, high = np.abs(a.lower), np.abs(a.upper)
    inside = (a.lower <= 0.0) & (a.upper >= 0.0)
    return Interval(np.where(inside, 0.0, np.minimum(low, high)), np.maximum(low, high)), None
