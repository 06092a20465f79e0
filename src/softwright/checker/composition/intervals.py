"""Intervals of reals as float64 arrays, rounded outwards: one interval for each box, all boxes at once.

An end may be infinite: nothing is known there. What overflows becomes infinite, what is not a number becomes the whole
line, and 0 times an unknown real is 0. No interval is empty.

    sums       the rounding error of a + b is a float that TwoSum finds, so an end moves only where it was rounded, and
               outwards; 0 + 0 stays 0
    products   the ends move by one float, but for products with powers of two; a product of two numbers >= 0 is never
               below 0, whatever rounds
    exp        `exp_near`, see transpiled/outward.py; exp(x) > 0 and exp(0) = 1 are kept
    log        y is near log x; x exp(-y) = (1 + d)(1 + t) with d exact in floats and |t| <= 10 u, so log x is within
               2 |d| + 12 u of y for |d| <= 1/2; the sign of log x is that of x - 1. Coarse for x outside 1e-300..1e300
    sin, cos   n = round(2 x/pi), r = x - n pi/2 in three parts of pi/2 (the first two have 33 bits, so that n times
               them is exact for |n| < 2^20, and the first difference is exact, by Sterbenz): r is off by 2 u; Taylor's
               polynomials of degree 18 on |r| < 0.8 add 3 u: in all within WAVE_ERROR = 8 u

sqrt is IEEE's own, correctly rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from flint import arb, ctx

from softwright.checker.transpiled.outward import CEILING, EXP_ERROR, FLOOR, UNIT, exp_near

Array = np.ndarray
BITS = 96  # of balls that become intervals
WAVE_ERROR = 8 * UNIT
_MOST_TURNS = 2.0**20
with ctx.workprec(200):
    _HALF_PI = arb.pi() / 2
    _FIRST = math.floor(float(_HALF_PI) * 2**32) / 2**32
    _SECOND = math.floor(float(_HALF_PI - _FIRST) * 2**65) / 2**65
    _THIRD = float(_HALF_PI - _FIRST - _SECOND)


def down(x: Array) -> Array:
    """The next float below; what is not a number is unbounded."""
    return np.where(np.isnan(x), -np.inf, np.nextafter(x, -np.inf))


def up(x: Array) -> Array:
    return np.where(np.isnan(x), np.inf, np.nextafter(x, np.inf))


class Interval:
    """All reals between `lower` and `upper`, element by element."""

    __slots__ = ("lower", "upper")
    __array_ufunc__ = None  # numpy arrays on the left leave the operation to this class

    def __init__(self, lower: Array, upper: Array) -> None:
        self.lower, self.upper = lower, upper

    @classmethod
    def of(cls, lower: object, upper: object) -> Interval:
        """From numbers or arrays; what is not a number becomes the whole line."""
        a, b = np.broadcast_arrays(np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64))
        unknown = np.isnan(a) | np.isnan(b)
        return cls(np.where(unknown, -np.inf, a), np.where(unknown, np.inf, b))

    @classmethod
    def point(cls, value: object) -> Interval:
        return cls.of(value, value)

    @classmethod
    def ball(cls, ball: arb, count: int) -> Interval:
        """The floats around a ball, `count` times."""
        return cls(np.full(count, below(ball)), np.full(count, above(ball)))

    @classmethod
    def whole(cls, count: int) -> Interval:
        return cls(np.full(count, -np.inf), np.full(count, np.inf))

    def __repr__(self) -> str:
        return f"Interval({self.lower}, {self.upper})"

    def __len__(self) -> int:
        return len(self.lower)

    def __getitem__(self, key: object) -> Interval:
        return Interval(self.lower[key], self.upper[key])  # type: ignore[index]

    @property
    def size(self) -> Array:
        """The largest modulus."""
        return np.maximum(np.abs(self.lower), np.abs(self.upper))

    @property
    def least_size(self) -> Array:
        """The smallest modulus."""
        return np.maximum(np.maximum(self.lower, -self.upper), 0.0)

    @property
    def width(self) -> Array:
        """Rounded up."""
        with np.errstate(all="ignore"):
            return np.where(self.lower == self.upper, 0.0, up(self.upper - self.lower))

    @property
    def finite(self) -> Array:
        return np.isfinite(self.lower) & np.isfinite(self.upper)

    # Arithmetic -----------------------------------------------------------------------------------------------------

    def __neg__(self) -> Interval:
        return Interval(-self.upper, -self.lower)

    def __add__(self, other: Interval) -> Interval:
        return Interval(_sum_down(self.lower, other.lower), -_sum_down(-self.upper, -other.upper))

    def __sub__(self, other: Interval) -> Interval:
        return self + -other

    def __mul__(self, other: Interval) -> Interval:
        a, b, c, d = self.lower, self.upper, other.lower, other.upper
        with np.errstate(all="ignore"):
            least, most = _extremes(a * c, a * d, b * c, b * d)
            if lost := bool(np.isnan(least).any()):  # 0 times an infinite end
                least, most = _extremes(_product(a, c), _product(a, d), _product(b, c), _product(b, d))
            scaled = (_is_binary(a) & _is_binary(b)) | (_is_binary(c) & _is_binary(d))
            lower, upper = down(least), up(most)
            if scaled.any():
                lower = np.where(scaled & _is_normal(least), least, lower)
                upper = np.where(scaled & _is_normal(most), most, upper)
        if not lost and least.all() and most.all():  # no end is 0: neither end was moved across it
            return Interval(lower, upper)
        same = ((a >= 0) & (c >= 0)) | ((b <= 0) & (d <= 0))
        opposite = ((a >= 0) & (d <= 0)) | ((b <= 0) & (c >= 0))
        lower, upper = np.where(same, np.maximum(lower, 0.0), lower), np.where(opposite, np.minimum(upper, 0.0), upper)
        nothing = ((a == 0) & (b == 0)) | ((c == 0) & (d == 0))
        return Interval(np.where(nothing, 0.0, lower), np.where(nothing, 0.0, upper))

    def reciprocal(self) -> Interval:
        """1/x; the whole line where 0 may be in it, but for a one-sided end: 1/[0, 2] is [1/2, inf]."""
        a, b = self.lower, self.upper
        with np.errstate(all="ignore"):
            low, high = 1.0 / b, 1.0 / a
            low = np.where(_is_binary(b) & _is_normal(low), low, down(low))
            high = np.where(_is_binary(a) & _is_normal(high), high, up(high))
            lower = np.where(b > 0, np.maximum(low, 0.0), np.where(b < 0, low, -np.inf))
            upper = np.where(a < 0, np.minimum(high, 0.0), np.where(a > 0, high, np.inf))
        across = (a < 0) & (b > 0)
        return Interval(np.where(across, -np.inf, lower), np.where(across, np.inf, upper))

    def scaled(self, factor: Array | float) -> Interval:
        """Times exact floats."""
        return self * Interval.of(*np.broadcast_arrays(factor, factor, self.lower)[:2])

    def shifted(self, by: Array | float) -> Interval:
        return self + Interval.of(*np.broadcast_arrays(by, by, self.lower)[:2])

    def widened(self, by: Array | float) -> Interval:
        """With everything within `by` >= 0 of it."""
        by = np.broadcast_to(np.asarray(by, dtype=np.float64), self.lower.shape)
        return Interval(_sum_down(self.lower, -by), -_sum_down(-self.upper, -by))

    def square(self) -> Interval:
        return self.power(2)

    def power(self, n: int) -> Interval:
        """x^n for a whole n >= 0, by squaring; the even powers of an interval around 0 begin at 0."""
        if n == 0:
            return Interval(np.ones_like(self.lower), np.ones_like(self.upper))
        base = self.absolute() if n % 2 == 0 else self
        return Interval(_end_power(base.lower, n).lower, _end_power(base.upper, n).upper)

    # Sets -----------------------------------------------------------------------------------------------------------

    def absolute(self) -> Interval:
        return Interval(self.least_size, self.size)

    def maximum(self, other: Interval) -> Interval:
        return Interval(np.maximum(self.lower, other.lower), np.maximum(self.upper, other.upper))

    def minimum(self, other: Interval) -> Interval:
        return Interval(np.minimum(self.lower, other.lower), np.minimum(self.upper, other.upper))

    def hull(self, other: Interval) -> Interval:
        return Interval(np.minimum(self.lower, other.lower), np.maximum(self.upper, other.upper))

    def meet(self, other: Interval) -> Interval:
        """What is in both, of two intervals that hold the same unknown number."""
        return Interval(np.maximum(self.lower, other.lower), np.minimum(self.upper, other.upper))

    def where(self, mask: Array, other: Interval) -> Interval:
        """self where `mask` is True, else other."""
        return Interval(np.where(mask, self.lower, other.lower), np.where(mask, self.upper, other.upper))

    def known(self, mask: Array) -> Interval:
        """self where `mask` is True, else the whole line."""
        return Interval(np.where(mask, self.lower, -np.inf), np.where(mask, self.upper, np.inf))

    # Functions ------------------------------------------------------------------------------------------------------

    def exp(self) -> Interval:
        with np.errstate(all="ignore"):
            lower = np.where(self.lower < FLOOR, 0.0, exp_near(self.lower) * (1 - 2 * EXP_ERROR))
            upper = np.where(self.upper > CEILING, np.inf, exp_near(self.upper) * (1 + 2 * EXP_ERROR))
        lower = np.where(self.lower >= 0, np.maximum(lower, 1.0), lower)
        upper = np.where(self.upper <= 0, np.minimum(upper, 1.0), upper)
        return Interval(lower, upper)

    def log(self) -> Interval:
        """Of what is positive; -inf from 0 on downwards."""
        return Interval(_log_ends(self.lower)[0], _log_ends(self.upper)[1])

    def sqrt(self) -> Interval:
        """Of what is not negative: the part below 0 is left out."""
        with np.errstate(all="ignore"):
            lower = np.sqrt(np.maximum(self.lower, 0.0))
            upper = up(np.sqrt(np.maximum(self.upper, 0.0)))
        return Interval(np.where(lower > 0, down(lower), 0.0), np.where(self.upper <= 0, 0.0, upper))

    def sin(self) -> Interval:
        return _wave(self, 0)

    def cos(self) -> Interval:
        return _wave(self, 1)


def _sum_down(a: Array, b: Array) -> Array:
    """The largest float that TwoSum shows to be at most a + b."""
    with np.errstate(all="ignore"):
        total = a + b
        shadow = total - a
        error = (a - (total - shadow)) + (b - shadow)
        exact = (error >= 0) | ((a == -np.inf) | (b == -np.inf))
        return np.where(exact, np.where(np.isnan(total), -np.inf, total), down(total))


def _is_binary(x: Array) -> Array:
    """Whether a float is 0 or a power of two (or infinite): products with it are exact unless they leave the range."""
    return (np.ascontiguousarray(x).view(np.int64) & 0xFFFFFFFFFFFFF) == 0


def _is_normal(x: Array) -> Array:
    """Neither too large nor too small for a float. 0 is not: a product that underflows looks like it."""
    size = np.abs(x)
    return (size >= 2.0**-1022) & (size < np.inf)


def _extremes(p: Array, q: Array, r: Array, s: Array) -> tuple[Array, Array]:
    return np.minimum(np.minimum(p, q), np.minimum(r, s)), np.maximum(np.maximum(p, q), np.maximum(r, s))


def _product(p: Array, q: Array) -> Array:
    """p q where 0 times an infinite end is 0."""
    return np.where((p == 0) | (q == 0), 0.0, p * q)


def _end_power(x: Array, n: int) -> Interval:
    """The n-th power of single numbers, n >= 1."""
    result, square = None, Interval(x, x)
    while True:
        if n & 1:
            result = square if result is None else result * square
        n >>= 1
        if not n:
            return result if result is not None else square
        square = square * square


def _log_ends(x: Array) -> tuple[Array, Array]:
    """Bounds of log x for single numbers: -inf for x <= 0."""
    with np.errstate(all="ignore"):
        y = np.log(np.where(x > 0, x, 1.0))
        inner = (x >= 1e-300) & (x <= 1e300)
        d = np.abs(np.where(inner, x, 1.0) * exp_near(np.where(inner, -y, 0.0)) - 1.0)
        slip = 2 * d + 14 * UNIT
        usable = inner & (d <= 0.5)
        lower, upper = down(y - slip), up(y + slip)
    lower = np.where(x >= 1, np.maximum(lower, 0.0), lower)
    upper = np.where(x <= 1, np.minimum(upper, 0.0), upper)
    # The logarithms of 1e300, of the largest float and of the smallest are 690.77.., 709.78.. and -744.44..
    lower = np.where(usable, lower, np.where(x > 1e300, 690.0, np.where(x < 1e-300, -745.0, -np.inf)))
    upper = np.where(usable, upper, np.where(x > 1e300, 710.0, np.where(x < 1e-300, -690.0, np.inf)))
    upper = np.where(x == np.inf, np.inf, upper)
    return np.where(x > 0, lower, -np.inf), np.where(x > 0, upper, -np.inf)


def _waves(x: Array) -> tuple[Array, Array]:
    """sin and cos of single numbers, |x| < 2^20, within WAVE_ERROR."""
    n = np.rint(x * (2 / math.pi))
    r = ((x - n * _FIRST) - n * _SECOND) - n * _THIRD
    z = r * r
    sine, cosine = np.zeros_like(r), np.zeros_like(r)
    for k in range(9, 0, -1):  # 1 - z/(2 3) (1 - z/(4 5) (..)) and 1 - z/(1 2) (1 - z/(3 4) (..))
        sine = z / (2 * k * (2 * k + 1)) * (1 - sine)
        cosine = z / ((2 * k - 1) * 2 * k) * (1 - cosine)
    sine, cosine = r * (1 - sine), 1 - cosine
    quarter = n.astype(np.int64) & 3
    return (
        np.choose(quarter, [sine, cosine, -sine, -cosine]),
        np.choose(quarter, [cosine, -sine, -cosine, sine]),
    )


def _wave(x: Interval, shift: int) -> Interval:
    """sin(x + shift pi/2): the values at the ends, and 1 or -1 where a turning point may lie between them."""
    low, high = np.clip(x.lower, -_MOST_TURNS, _MOST_TURNS), np.clip(x.upper, -_MOST_TURNS, _MOST_TURNS)
    at = _waves(low)[shift], _waves(high)[shift]
    lower, upper = np.minimum(*at) - 2 * WAVE_ERROR, np.maximum(*at) + 2 * WAVE_ERROR
    # Turning points are at pi/2 + k pi - shift pi/2. In units of pi/2 they are the k with k + shift odd; a quarter
    # turn in floats is off by less than 1e-9 for |x| < 2^20, so that is what the ends are moved by.
    first, last = np.ceil(low * (2 / math.pi) - 1e-9), np.floor(high * (2 / math.pi) + 1e-9)
    tops = np.ceil((first + shift - 1) / 4) * 4 + 1 - shift  # the first k >= `first` with k + shift = 1 modulo 4
    bottoms = np.ceil((first + shift - 3) / 4) * 4 + 3 - shift
    lost = (x.lower < -_MOST_TURNS) | (x.upper > _MOST_TURNS)
    upper = np.where(lost | (tops <= last), 1.0, np.minimum(upper, 1.0))
    lower = np.where(lost | (bottoms <= last), -1.0, np.maximum(lower, -1.0))
    return Interval(lower, upper)


def below(ball: arb) -> float:
    """The largest float that is certainly at most every number of a ball; -inf if there is none."""
    if not ball.is_finite():
        return -math.inf
    end = ball.lower()
    near = float(end)
    if math.isinf(near):
        return -math.inf if near < 0 else float(np.finfo(np.float64).max)
    return near if end >= near else math.nextafter(near, -math.inf)


def above(ball: arb) -> float:
    return -below(-ball)


def rational(exact: Fraction, count: int) -> Interval:
    return Interval.ball(arb(exact.numerator) / exact.denominator, count)


def total(intervals: Iterable[Interval], count: int) -> Interval:
    found = Interval(np.zeros(count), np.zeros(count))
    for interval in intervals:
        found = found + interval
    return found
