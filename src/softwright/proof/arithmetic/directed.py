"""Float64 arithmetic with proved errors: the few facts that every bound of the prover rests on.

Unit roundoff u = 2^-53. A sum of n products computed in any order, fused or not, errs by at most gamma_n times the sum
of the absolute values, gamma_n = n u / (1 - n u). Sums of non-negative numbers are therefore rounded up by `up`.

`exp_near` uses only +, -, * and scaling by powers of two, so that nothing is assumed about the C library:
x = n ln2 + r with |r| <= 0.3466, ln2 = HIGH + LOW and n HIGH exact (HIGH has 21 significant bits, |n| < 2^11).

    error of r          <= 0.71 u                      two subtractions of results below 0.35; n LOW < 2e-7 adds nothing
    Horner, degree 13   <= u + 0.42 u + 0.42 * 1.4 u   last sum, last product, the inner polynomial
    truncation          <  0.04 u

In total that is below 3 u relative; `EXP_ERROR` = 4 u is what is charged.
"""

from __future__ import annotations

import math

import numpy as np

from softwright.precision import FLOAT64

U = FLOAT64.unit
EXP_ERROR = 4.0 * U
TINY = 1e-290  # more than underflow can lose in any product or sum below; added where a bound could underflow to 0
EXP_FLOOR = -700.0  # below it exp_near returns exp(-700) < 1e-304, which callers may only use as an upper bound
EXP_FLOOR_VALUE = 1e-304
EXP_CEILING = 700.0

_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
_LN2_LOW = 1.9082149292705877e-10
_INVERSE_LN2 = 1.4426950408889634
_COEFFICIENTS = [1.0 / math.factorial(k) for k in range(14)]
_SPLITTER = 134217729.0  # 2^27 + 1


def gamma(n: int) -> float:
    """n u / (1 - n u), rounded up."""
    return n * U / (1.0 - n * U) * (1.0 + 4.0 * U)


def up(value: np.ndarray, terms: int = 64) -> np.ndarray:
    """An upper bound of a non-negative quantity computed with at most `terms` roundings (each below it, relatively)."""
    return value * (1.0 + 2.0 * gamma(terms + 2)) + TINY


def exp_near(x: np.ndarray) -> np.ndarray:
    """exp(x) to 4 u relative for -700 <= x <= 700; clamped outside."""
    x = np.clip(x, EXP_FLOOR, EXP_CEILING)
    n = np.rint(x * _INVERSE_LN2)
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    p = np.full_like(r, _COEFFICIENTS[13])
    for coefficient in _COEFFICIENTS[12::-1]:
        p *= r
        p += coefficient
    return np.ldexp(p, n.astype(np.int32))


def exp_up(x: np.ndarray) -> np.ndarray:
    """An upper bound of exp(x), infinite above the ceiling."""
    return np.where(x > EXP_CEILING - 1.0, np.inf, exp_near(x) * (1.0 + 8.0 * U))


def exp_down(x: np.ndarray) -> np.ndarray:
    """A lower bound of exp(x), zero below the floor; x must not be NaN."""
    return np.where(x < EXP_FLOOR + 1.0, 0.0, exp_near(x) * (1.0 - 8.0 * U))


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """s + e = a + b exactly, s the rounded sum."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _halves(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    t = _SPLITTER * a
    high = t - (t - a)
    return high, a - high


def two_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """p + e = a * b exactly (barring underflow), p the rounded product; needs |a|, |b| < 2^996."""
    p = a * b
    a1, a2 = _halves(a)
    b1, b2 = _halves(b)
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


def two_product_sum(
    start_high: np.ndarray, start_low: np.ndarray, factors: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """start + sum of a * (b + b_low) as a pair; error below 16 (n + 2)^2 u^2 of the sum of absolute values."""
    high, low = start_high, start_low
    for a, b, b_low in factors:
        product, rest = two_product(a, b)
        high, slip = two_sum(high, product)
        low = low + (rest + slip + a * b_low)
    return high, low


def pair_error(n: int) -> float:
    """Relative error of `two_product_sum` with n factors, against the sum of absolute values."""
    return 16.0 * (n + 2) ** 2 * U * U
