"""Multi-index tables of truncated power series in d variables, up to total degree p.

Monomials are ordered by degree, so that "degree at most k" is a prefix; `shift[a]` sends the prefix of degree p - |a|
to the positions of the products with monomial a. All Taylor models of one problem share one `Basis`.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np


def _compositions(total: int, parts: int) -> list[tuple[int, ...]]:
    """All ways to write `total` as an ordered sum of `parts` non-negative integers, largest first entry first."""
    if parts == 1:
        return [(total,)]
    return [(first, *rest) for first in range(total, -1, -1) for rest in _compositions(total - first, parts - 1)]


class Basis:
    """The monomials s^alpha, |alpha| <= order, in `dim` variables."""

    def __init__(self, dim: int, order: int) -> None:
        self.dim, self.order = dim, order
        exponents = [alpha for degree in range(order + 1) for alpha in _compositions(degree, dim)]
        self.exponents = np.array(exponents, dtype=np.int64).reshape(-1, dim)  # (M, d)
        self.size = len(exponents)
        self.degree = self.exponents.sum(axis=1)
        self.prefix = [int(np.count_nonzero(self.degree <= k)) for k in range(order + 1)]
        self.starts = np.array([0, *self.prefix[:-1]])  # where each degree begins, for reduceat
        index = {alpha: i for i, alpha in enumerate(exponents)}
        self.index = index
        self.shift = [
            np.array(
                [
                    index[tuple(a + b for a, b in zip(alpha, beta, strict=True))]
                    for beta in exponents[: self.prefix[order - sum(alpha)]]
                ]
            )
            for alpha in exponents
        ]
        self.linear = np.array([index[tuple(int(i == j) for j in range(dim))] for i in range(dim)])  # positions of s_i
        self.powers = [
            np.array([index[tuple(k * int(i == j) for j in range(dim))] for k in range(order + 1)]) for i in range(dim)
        ]  # positions of 1, s_i, s_i^2, ...
        self.even = np.all(self.exponents % 2 == 0, axis=1)
        self.uses = self.exponents > 0  # (M, d): which variables a monomial depends on
        # alpha = parent + unit vector of `via`: builds all monomials by one product each
        self.via = np.array([0] + [max(i for i in range(dim) if alpha[i] > 0) for alpha in exponents[1:]])
        self.parent = np.zeros(self.size, dtype=np.int64)
        for i, alpha in enumerate(exponents[1:], 1):
            lower = list(alpha)
            lower[self.via[i]] -= 1
            self.parent[i] = index[tuple(lower)]
        self.factorial = np.array([float(math.prod(math.factorial(a) for a in alpha)) for alpha in exponents])

    def monomials(self, factors: np.ndarray) -> np.ndarray:
        """factors (d, n) -> all products (M, n), each with at most `order` - 1 roundings."""
        out = np.empty((self.size, factors.shape[1]))
        out[0] = 1.0
        for i in range(1, self.size):
            np.multiply(out[self.parent[i]], factors[self.via[i]], out=out[i])
        return out

    def by_degree(self, coefficients: np.ndarray) -> np.ndarray:
        """|coefficients| (M, ...) summed over each degree: (order + 1, ...), not yet rounded up."""
        if self.dim == 1:
            return np.abs(coefficients)
        ends = [*self.starts[1:], self.size]
        parts = [np.abs(coefficients[a:b]).sum(axis=0) for a, b in zip(self.starts, ends, strict=True)]
        return np.stack(parts)


@lru_cache(maxsize=64)
def basis(dim: int, order: int) -> Basis:
    """The shared basis of this dimension and order."""
    return Basis(dim, order)
