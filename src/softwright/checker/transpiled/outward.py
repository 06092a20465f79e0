"""Float64 arrays rounded outwards: the few facts that the bounds of transpiled networks are computed with.

u = 2^-53. A sum of non-negative terms each of which passes at most n roundings is at least (1 - gamma_n) times the true
one, gamma_n = n u/(1 - n u), so `up` of it is an upper bound. What underflows in float64 is below LOST.

`exp_near` rests on +, -, * and scaling by powers of two alone: x = n ln 2 + r with |r| < 0.35, n HIGH exact (HIGH has
32 bits, |n| < 2^11), r off by at most u, Horner's rule for the polynomial of degree 14 by at most 3 u, and what it
leaves out is below u: in all within EXP_ERROR = 8 u, relative."""

from __future__ import annotations

import math

import numpy as np
from flint import arb, ctx

UNIT = 2.0**-53
LOST = 1e-300
EXP_ERROR = 8 * UNIT
FLOOR, CEILING = -700.0, 700.0
_HIGH = math.floor(math.log(2) * 2**32) / 2**32
with ctx.workprec(160):
    _LOW = float(arb.const_log2() - _HIGH)
_COEFFICIENTS = [1.0 / math.factorial(k) for k in range(15)]


def gamma(n: float, unit: float = UNIT) -> float:
    """n unit/(1 - n unit), rounded up; infinite for too many roundings."""
    return n * unit / (1 - n * unit) * (1 + 8 * UNIT) if n * unit < 0.25 else math.inf


def up(value: np.ndarray, roundings: int) -> np.ndarray:
    """An upper bound of sums of non-negative terms that were rounded so often."""
    return value * (1 + gamma(roundings + 2)) + LOST


def product(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """matrix @ vector, both without negative entries, rounded up; exactly 0 where the vector or a row is."""
    return np.where(matrix.any(axis=1) & vector.any(), up(matrix @ vector, matrix.shape[1]), 0.0)


def length(vector: np.ndarray) -> float:
    """The Euclidean norm, rounded up."""
    largest = float(np.abs(vector).max(initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    return largest * math.sqrt(float(((vector / largest) ** 2).sum())) * (1 + gamma(len(vector) + 3)) + LOST


def exp_near(x: np.ndarray) -> np.ndarray:
    """exp(x) within EXP_ERROR for FLOOR <= x <= CEILING; clamped outside."""
    x = np.clip(x, FLOOR, CEILING)
    n = np.rint(x * (1 / math.log(2)))
    r = (x - n * _HIGH) - n * _LOW
    value = np.full_like(r, _COEFFICIENTS[-1])
    for coefficient in _COEFFICIENTS[-2::-1]:
        value *= r
        value += coefficient
    return np.ldexp(value, n.astype(np.int32))


def exp_up(x: np.ndarray) -> np.ndarray:
    """An upper bound of exp(x), infinite above CEILING."""
    return np.where(x > CEILING, np.inf, exp_near(x) * (1 + 2 * EXP_ERROR))


def exp_down(x: np.ndarray) -> np.ndarray:
    """A lower bound of exp(x), 0 below FLOOR."""
    return np.where(x < FLOOR, 0.0, exp_near(x) * (1 - 2 * EXP_ERROR))


def expm1_up(x: np.ndarray) -> np.ndarray:
    """An upper bound of exp(x) - 1 for 0 <= x <= 1: x (1 + x/2 (1 + x/3 (..))), the last factor for all that follow."""
    value = np.full_like(x, 1.0 + 2 / 17)  # 1 + x/17 + x^2/(17 18) + .. <= 1 + (1/17)/(1 - 1/18)
    for k in range(16, 1, -1):
        value = 1.0 + x / k * value
    return x * value * (1 + gamma(64))


def spectral_norm(matrix: np.ndarray, squares: int = 3) -> float:
    """An upper bound of |W|_2: |(W W^T)^n|_F^{1/(2n)} with n = 2^squares, or sqrt(|W|_1 |W|_inf) where that is less or
    W is very large.

    With A = fl(W W^T), made symmetric, |W|_2^2 <= |A|_2 + gamma |W|_F^2, and |A|_2^2 = |A^2|_2 for symmetric A, squared
    again and again with the same charge, each A divided by its largest entry before. Dividing rounds every entry: u
    |A|_F, at most u sqrt(n) |A|_2.
    """
    size = np.abs(matrix)
    largest = float(size.max(initial=0.0))
    if largest == 0.0:
        return 0.0
    rows, columns = float(size.sum(axis=1).max()), float(size.sum(axis=0).max())
    simple = math.sqrt(rows) * math.sqrt(columns) * (1 + gamma(max(matrix.shape) + 6)) + LOST
    W = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    n = len(W)
    if n > 1024 or not 1e-100 < largest < 1e100:
        return simple
    W = W / largest
    A = _symmetric(W @ W.T)
    slips = [gamma(W.shape[1] + 6) * float((W**2).sum()) * (1 + gamma(W.size + 4))]
    scales = [1.0]
    for _ in range(squares):
        scales.append(float(np.abs(A).max()))
        A = A / scales[-1]
        slips.append(gamma(n + 6) * float((A**2).sum()) * (1 + gamma(n * n + 4)))
        A = _symmetric(A @ A)
    found = math.sqrt(float((A**2).sum())) * (1 + gamma(n * n + 4))
    divided = 1 + gamma(math.sqrt(n) + 6)
    for scale, slip in zip(reversed(scales), reversed(slips), strict=True):
        found = math.sqrt((found + slip) * (1 + gamma(4))) * scale * divided
    return min(simple, found * largest * (1 + gamma(4)) + LOST)


def _symmetric(matrix: np.ndarray) -> np.ndarray:
    return 0.5 * (matrix + matrix.T)
