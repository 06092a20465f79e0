"""Range of a polynomial on [-1, 1]^d from its Bernstein coefficients.

With s = 2 t - 1, the polynomial in the tensor Bernstein basis of degree m lies between its least and its greatest
coefficient, and both are attained at the corners: a bound that is exact for monotone pieces and converges
quadratically. Monomials whose degree exceeds m are bounded by their absolute value. The conversion matrix holds
rationals rounded once.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np

from softwright.proof.arithmetic.directed import TINY, gamma, up
from softwright.proof.arithmetic.series import Basis, basis

# The matrix has (degree + 1)^d rows; above six variables it is not used.
_DEGREE = {1: 24, 2: 8, 3: 5, 4: 3, 5: 2, 6: 2}


def _one_dimensional(degree: int) -> np.ndarray:
    """Entry [j][k]: Bernstein coefficient j of s^k on [-1, 1]; whole numbers over a common one, divided once."""
    common = math.lcm(*(math.comb(degree, i) for i in range(degree + 1)))
    shares = [common // math.comb(degree, i) * 2**i for i in range(degree + 1)]
    powers = [[math.comb(k, i) * (-1) ** (k - i) for i in range(k + 1)] for k in range(degree + 1)]
    return np.array(
        [
            [
                sum(math.comb(j, i) * shares[i] * powers[k][i] for i in range(min(j, k) + 1)) / common
                for k in range(degree + 1)
            ]
            for j in range(degree + 1)
        ]
    )


@lru_cache(maxsize=64)
def _conversion(dim: int, order: int) -> tuple[int, np.ndarray, np.ndarray]:
    """How many leading monomials are converted, the matrix, and its largest absolute entry in each column."""
    degree = min(order, _DEGREE[dim])
    monomials = basis(dim, order)
    count = monomials.prefix[degree]
    line = _one_dimensional(degree)
    matrix = np.ones(((degree + 1) ** dim, count))
    corners = np.array(list(itertools.product(range(degree + 1), repeat=dim)))
    for i in range(dim):
        matrix *= line[corners[:, i]][:, monomials.exponents[:count, i]]
    return count, matrix, np.abs(matrix).max(axis=0)


def polynomial_range(shape: Basis, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rigorous lower and upper bounds (B,) of the polynomials with coefficients (M, B) over s in [-1, 1]^d."""
    size = np.abs(coefficients)
    # Even monomials lie in [0, 1], the others in [-1, 1].
    even = np.where(shape.even[:, None], coefficients, 0.0)[1:]
    odd = size[~shape.even].sum(axis=0)
    slack = up(size.sum(axis=0) * gamma(shape.size + 4), shape.size)
    lower = coefficients[0] + np.minimum(even, 0.0).sum(axis=0) - odd - slack
    upper = coefficients[0] + np.maximum(even, 0.0).sum(axis=0) + odd + slack
    if shape.dim in _DEGREE:
        count, matrix, largest = _conversion(shape.dim, shape.order)
        values = matrix @ coefficients[:count]
        # 2 d roundings in an entry of the matrix, `count` in the product, two in the sums below.
        extra = up(
            size[count:].sum(axis=0) + gamma(count + 2 * shape.dim + 4) * (largest @ size[:count]) + TINY,
            shape.size + 4,
        )
        lower = np.fmax(lower, values.min(axis=0) - extra)
        upper = np.fmin(upper, values.max(axis=0) + extra)
    return lower, upper
