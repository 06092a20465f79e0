"""What rounding does to sums of products, in any order, by how large partial sums can be.

A sum of n products and a bias is a tree with n + 1 leaves, whatever the order of a kernel. Each of its n inner nodes is
a partial sum z, rounded by at most u 2^floor(log2 |z|), half a unit in its last place; so is each product, unless it is
fused into a sum. A partial sum over k leaves is at most the sum of the k largest positive terms, or of the k largest
negative ones, and these sums end at all positive terms and all negative ones, which `values.terms` bounds for all
inputs together. Sizes of the nodes, largest first, are at most n + 1, n, .., 2: nodes of m leaves or more, r of which
have no such node below them, need r m leaves and one more for each node with one such child, and r - 1 nodes have two:
they are at most n + 1 - r m + r + (r - 1) <= n + 2 - m. So with f_k the bound for k leaves

    |s^ - s| <= u sum_{k=2}^{n+1} 2^floor(log2 f_k) + u sum_i 2^floor(log2 |w_i a_i|).

What runs is a sum of numbers that were rounded before: f_k is that of the stored weights and of values with their
errors, and gamma_{n+2} of all terms more.
"""

from __future__ import annotations

import numpy as np

_SORTED = 512  # terms; for more, all nodes are charged as the largest one
_ROOM = 1 + 1e-9  # of partial sums, before their powers of two are taken


def power_below(value: np.ndarray) -> np.ndarray:
    """2^floor(log2 value), 0 for 0."""
    _, exponent = np.frexp(value)
    return np.where(value > 0, np.ldexp(1.0, exponent - 1), 0.0)


class Sums:
    """The bound above for s = W a + b, a in [low, high], for several bounds of partial sums one after another."""

    def __init__(
        self,
        weight: np.ndarray,
        bias: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        slack: np.ndarray,
        unit: float,
    ) -> None:
        """`slack` is what partial sums of what runs are beyond those of exact numbers."""
        n = weight.shape[1]
        sides = weight * low, weight * high
        largest = [np.maximum(np.maximum(*sides), 0.0), np.maximum(-np.minimum(*sides), 0.0)]
        self.products = power_below(np.maximum(*largest) * _ROOM).sum(axis=1)
        self.slack, self.nodes = slack, n
        self.unit = unit * (1 + (4 * n + 32) * 2.0**-53)  # sums of 2n numbers, added in float64
        self.partial: list[np.ndarray] | None = None
        if n <= _SORTED:
            columns = (
                np.column_stack([x, np.maximum(sign * bias, 0.0)]) for x, sign in zip(largest, (1, -1), strict=True)
            )
            self.partial = [np.cumsum(-np.sort(-column), axis=1)[:, 1:] for column in columns]  # (H, n) each

    def rounding(self, ends: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """What rounding adds while all positive terms add up to the first of `ends` at most, all negative ones to the
        second."""
        if self.partial is None:
            nodes = self.nodes * power_below((np.maximum(*ends) + self.slack) * _ROOM)
        else:
            found = np.maximum(*(np.minimum(x, end[:, None]) for x, end in zip(self.partial, ends, strict=True)))
            nodes = power_below((found + self.slack[:, None]) * _ROOM).sum(axis=1)
        return self.unit * (nodes + self.products)
