"""Sums of n products and a bias, rounded after every addition, in an order that nobody knows.

The additions are the inner nodes of a binary tree over n + 1 leaves. An addition whose exact result is z errs by at
most u P(z), P(z) the largest power of two up to |z|, and so does the rounding of a product. Leaves below a node are a
set of terms, and the sum over a set of k terms lies between minus the k largest negative terms and the k largest
positive ones. Of nodes with m leaves or more there are at most n + 2 - m, m >= 2. (The lowest of these, r of them, have
r m leaves together. Going up, paths from them join in r - 1 nodes, and every other node brings a leaf of its own. So
the number is at most r + (r - 1) + (n + 1 - r m), which falls as r grows.) Hence the j-th largest node has at most n +
2 - j leaves, and the error of the sum is at most u (sum over k = 2 .. n + 1 of P(largest sum over k terms) + sum over
products P).

If the whole sum is known to lie in [t, t'], a node with k of the n + 1 leaves is the whole less the other n + 1 - k of
them: it is at most t' plus the n + 1 - k largest negative terms, and at least t less as many positive ones. So nodes
are small where they have few leaves and where they have nearly all of them, and caterpillars are no longer the worst
trees. With h_k = P(what a node of k leaves is at most), the sum of P over the nodes of a tree with k leaves is h_k and
those of its two branches: by induction over k at most

    most_1 = 0,    most_k = h_k + max over i of most_i + most_{k-i}.

Terms are those of the stored weights and of values that are off already. What a node holds is off besides, by what was
rounded below it: `beyond` is more than any set of terms, as they run, differs from that of exact numbers and weights.
The whole, and all positive and negative terms together, are given for exact numbers.
"""

from __future__ import annotations

import numpy as np

from softwright.checker.limits import check_time
from softwright.checker.transpiled.outward import up

Array = np.ndarray
FEW = 512  # so many terms are put in order; of more, every node counts as the largest
COMPARED = 1 << 25  # rows times squares of leaves up to which branches are compared
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
        self.ordered: list[Array] = []  # sums of the k largest terms of either sign, k = 0 .. n + 1
        if self.count <= FEW:
            for terms, own in zip(sides, (bias, -bias), strict=True):
                falling = np.sort(np.concatenate([terms, np.maximum(own, 0.0)[:, None]], axis=1), axis=1)[:, ::-1]
                none = np.zeros((len(weight), 1))
                self.ordered.append(np.concatenate([none, np.cumsum(falling, axis=1) * WIDER], axis=1))

    def rounding(self, plus: Array, minus: Array, beyond: Array, whole: tuple[Array, Array] | None = None) -> Array:
        """For each row; all positive terms add up to `plus` at most, all negative ones to `minus`, and all together to
        a number within `whole`."""
        check_time()
        if not self.ordered:
            nodes = self.count * power_of_two((np.maximum(plus, minus) + beyond) * WIDER)
            return up(self.unit * (nodes + self.products), 2 * self.count + 4)
        room = beyond[:, None]
        up_to, down_to = (np.minimum(x, end[:, None]) for x, end in zip(self.ordered, (plus, minus), strict=True))
        if whole is None or len(plus) * (self.count + 1) ** 2 > COMPARED:
            nodes = power_of_two((np.maximum(up_to, down_to)[:, 2:] + room) * WIDER).sum(axis=1)
        else:
            highest = np.minimum(up_to, whole[1][:, None] + (down_to[:, ::-1] + room))
            lowest = np.minimum(down_to, (up_to[:, ::-1] + room) - whole[0][:, None])
            reach = np.maximum(0.0, np.maximum(highest, lowest)) + room
            nodes = heaviest_tree(power_of_two(reach * WIDER).T)
        return up(self.unit * (nodes + self.products), 2 * self.count + 4)


def heaviest_tree(heights: Array) -> Array:
    """most_{n+1}; row k of `heights` (n + 2, rows) is h_k."""
    most = np.zeros_like(heights)
    for leaves in range(2, len(heights)):
        small = np.arange(1, leaves // 2 + 1)
        most[leaves] = heights[leaves] + np.max(most[small] + most[leaves - small], axis=0)
    return most[-1]
