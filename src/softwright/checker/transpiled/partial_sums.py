"""Sums of n products and a bias, rounded after every addition, in an order that nobody knows.

The additions are the inner nodes of a binary tree over n + 1 leaves. An addition whose exact result is z errs by at
most u P(z), P(z) the largest power of two up to |z|, and so does the rounding of a product. Leaves below a node are a
set of terms, and the sum over a set of k terms lies between minus the k largest negative terms and the k largest
positive ones. Of nodes with m leaves or more there are at most n + 2 - m, m >= 2. (The lowest of these, r of them, have
r m leaves together. Going up, paths from them join in r - 1 nodes, and every other node brings a leaf of its own. So
the number is at most r + (r - 1) + (n + 1 - r m), which falls as r grows.) Hence the j-th largest node has at most n +
2 - j leaves, and the error of the sum is at most u (sum over k = 2 .. n + 1 of P(largest sum over k terms) + sum over
products P).

Terms are those of the stored weights and of values that are off already, and partial sums carry what was rounded
before.
"""

from __future__ import annotations

import numpy as np

from softwright.checker.limits import check_time
from softwright.checker.transpiled.outward import up

Array = np.ndarray
FEW = 512  # so many terms are put in order; of more, every node counts as the largest
WIDER = 1 + 1e-12


def power_of_two(x: Array) -> Array:
    """P(x) for x >= 0; P(0) = 0."""
    fraction, exponent = np.frexp(x)
    return np.where(fraction > 0, np.ldexp(0.5, exponent), 0.0)


class PartialSums:
    """The sums of all rows, a in [low, high]."""

    def __init__(self, weight: Array, bias: Array, low: Array, high: Array, unit: float) -> None:
        self.count, self.unit = weight.shape[1], unit
        one, two = weight * low, weight * high
        sides = np.maximum(np.maximum(one, two), 0.0), np.maximum(-np.minimum(one, two), 0.0)
        self.products = power_of_two(np.maximum(*sides) * WIDER).sum(axis=1)
        self.ordered: list[Array] = []  # sums of the k largest terms of either sign, k = 2 .. n + 1
        if self.count <= FEW:
            for terms, own in zip(sides, (bias, -bias), strict=True):
                falling = np.sort(np.concatenate([terms, np.maximum(own, 0.0)[:, None]], axis=1), axis=1)[:, ::-1]
                self.ordered.append((np.cumsum(falling, axis=1) * WIDER)[:, 1:])

    def rounding(self, plus: Array, minus: Array) -> Array:
        """For each row; all positive terms add up to `plus` at most, all negative ones to `minus`."""
        check_time()
        if self.ordered:
            most, least = self.ordered
            reach = np.maximum(np.minimum(most, plus[:, None]), np.minimum(least, minus[:, None]))
            nodes = power_of_two(reach * WIDER).sum(axis=1)
        else:
            nodes = self.count * power_of_two(np.maximum(plus, minus) * WIDER)
        return up(self.unit * (nodes + self.products), 2 * self.count + 4)
