"""What rounding does to the two sums of a head, sum_j a_j x_j over sum_j a_j with exponentials a_j, in any order.

A sum of p numbers is a tree. Keep A of them, and let L bound the sum of the others' sizes. Of the nodes

    A - 1 have kept numbers on both sides, k of them below at the node: it is at most f_k + L, the k largest kept ones
          and L, and is rounded by u times that. Sizes of these nodes, largest first, are at most A, A - 1, .., 2
    others join a part without kept numbers to something, b to a: as a is a number of the type, what is nearest to a + b
          is no farther than a is, so that the rounding is |b| at most. Such parts have nothing in common: L in all

and nodes inside such parts lose gamma_p L. So the error is at most

    (1 + 2 gamma_p) (u sum_{k=2}^A f_k + (1 + (A - 1) u) L),

whatever is kept: the least over all A, the largest terms being kept, is taken. Of softmax weights few are above u, and
one of the largest partial sums is 1: 2p roundings, as all nodes at once would cost, are far from it.

Of the quotient N/D that is (E_N + |N/D| E_D)/(1 - E_D) with D = 1; beside sums a term meets values, products and a
division, which `beside` counts. All nodes at once, gamma of 2p - 2 more, is taken where it is less.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def mixed(weights: np.ndarray, parts: Sequence[np.ndarray], beside: int, unit: float) -> np.ndarray:
    """(c,): rounding of the head behind its exponentials; `weights` (c, p) are at least those that run, and `parts`
    (c, p) sizes of values, which are summed one by one; u is `unit`."""
    total = np.zeros(len(weights))
    share, size = tree(weights, unit), np.zeros(len(weights))
    for values in parts:
        terms = weights * values
        size += terms.sum(axis=1)
        total += tree(terms, unit)
    tokens = weights.shape[1]
    found = (_gamma(beside, unit) * size + total + size * share) / (1 - 4 * _gamma(2 * tokens + beside, unit))
    return np.minimum(found, _gamma(2 * tokens - 2 + beside, unit) * size)


def _gamma(count: int, unit: float) -> float:
    """What so many roundings in a row can change, relatively."""
    return count * unit / (1 - count * unit) * (1 + 2.0**-40)


def tree(terms: np.ndarray, unit: float) -> np.ndarray:
    """(c,): the bound above, for sums of numbers of these sizes (c, p)."""
    count = terms.shape[1]
    ordered = -np.sort(-terms, axis=1)
    sums = np.cumsum(ordered, axis=1)  # f_1 .. f_p
    nodes = np.cumsum(sums, axis=1) - sums[:, :1]
    rest = np.cumsum(ordered[:, :0:-1], axis=1)[:, ::-1]
    rest = np.concatenate([rest, np.zeros((len(terms), 1))], axis=1)  # L, where the first 1 .. p are kept
    cost = unit * nodes + (1 + unit * np.arange(count)) * rest
    return cost.min(axis=1) * (1 + 2 * _gamma(count, unit))
