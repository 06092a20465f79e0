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


def rounding_of_sums(
    weight: np.ndarray,
    bias: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    ends: tuple[np.ndarray, np.ndarray],
    slack: np.ndarray,
    unit: float,
) -> np.ndarray:
    """The bound above for s = W a + b, a in [low, high]; `ends` bound all positive and all negative terms, `slack` is
    what partial sums of what runs are beyond these."""
    n = weight.shape[1]
    sides = weight * low, weight * high
    largest = [np.maximum(np.maximum(*sides), 0.0), np.maximum(-np.minimum(*sides), 0.0)]
    products = power_below(np.maximum(*largest) * _ROOM).sum(axis=1)
    if n <= _SORTED:
        partial = []
        for found, sign, end in zip(largest, (1.0, -1.0), ends, strict=True):
            falling = -np.sort(-np.column_stack([found, np.maximum(sign * bias, 0.0)]))
            partial.append(np.minimum(np.cumsum(falling, axis=1), end[:, None]))
        nodes = power_below((np.maximum(*partial)[:, 1:] + slack[:, None]) * _ROOM).sum(axis=1)
    else:
        nodes = n * power_below((np.maximum(*ends) + slack) * _ROOM)
    return unit * (nodes + products) * (1 + (4 * n + 32) * 2.0**-53)  # sums of 2n numbers, added in float64
