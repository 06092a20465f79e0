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


def sum_rounding(weight: Array, bias: Array, low: Array, high: Array, plus: Array, minus: Array, unit: float) -> Array:
    """For each row, a in [low, high]; all positive terms add up to `plus` at most, all negative ones to `minus`."""
    check_time()
    rows, n = weight.shape
    one, two = weight * low, weight * high
    most, least = np.maximum(np.maximum(one, two), 0.0), np.maximum(-np.minimum(one, two), 0.0)
    total = power_of_two(np.maximum(most, least) * WIDER).sum(axis=1)
    if n > FEW:
        total = total + n * power_of_two(np.maximum(plus, minus) * WIDER)
    else:
        reach = np.zeros((rows, n + 1))
        for terms, own, whole in ((most, bias, plus), (least, -bias, minus)):
            ordered = np.sort(np.concatenate([terms, np.maximum(own, 0.0)[:, None]], axis=1), axis=1)[:, ::-1]
            reach = np.maximum(reach, np.minimum(np.cumsum(ordered, axis=1) * WIDER, whole[:, None]))
        total = total + power_of_two(reach[:, 1:] * WIDER).sum(axis=1)
    return up(unit * total, 2 * n + 4)
