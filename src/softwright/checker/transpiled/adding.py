"""What additions in a head lose: its terms w_j x_j, and its weights, are added up in an order that nobody promises.

Any order is a binary tree whose leaves are the p terms. Colour the m largest terms and call the sum of all others r.

- A node with coloured leaves on both sides: there are m - 1 of these. Forgetting what is not coloured they form a tree
  of m leaves, in which i nodes have at least m + 1 - i leaves below only if i <= m - 1 in that order: the n-th largest
  of them has at most m + 1 - n coloured leaves. Its sum is at most the sum c_k of the k largest terms, and r; u times
  that is lost there.
- A node with an uncoloured side: the other side is a number of the type, and the rounded sum is the nearest one to the
  exact sum, so not farther from it than that number: at most the size of the uncoloured side is lost. No two of these
  sides share a leaf: at most r, all of them.
- A node of uncoloured leaves alone: within gamma_p of its size, at most gamma_p r for all.

Together u (c_2 + .. + c_m) + (m - 1) u r + r (1 + gamma_p), and each of these sums is off itself by gamma_p at most.
The m with the least bound counts; m = p is all nodes at once.

With weights that add up to 1, D' = 1 + d the sum that runs and N' that of terms: |N'/D' - N| <= (|N' - N| + |N| |d|)/(1
- |d|), and `beside` further roundings of all.
"""

from __future__ import annotations

import numpy as np

from softwright.checker.transpiled.outward import gamma

Array = np.ndarray
NEAR = 1 + 1e-13  # some hundred roundings of float64


def summed_with(terms: list[Array], weights: Array, beside: int, unit: float) -> Array:
    """(c,): what is lost behind the weights (c, p), at most, by sums of terms of these sizes (c, p), one for each."""
    p = weights.shape[1]
    whole = np.zeros(len(weights))
    lost = np.zeros(len(weights))
    for one in terms:
        whole += one.sum(axis=1) * NEAR
        lost += lost_by_adding(one, unit)
    below = lost_by_adding(weights, unit)
    # products and a quotient of what is already off by gamma_p here and there
    careful = (gamma(beside, unit) * whole + lost + whole * below) / (1 - 3 * gamma(2 * p + beside, unit))
    return np.minimum(careful, gamma(2 * p - 2 + beside, unit) * whole) * NEAR


def lost_by_adding(terms: Array, unit: float) -> Array:
    """(c,): of one sum, for any order."""
    p = terms.shape[1]
    falling = np.sort(terms, axis=1)[:, ::-1]
    largest = np.add.accumulate(falling, axis=1)  # c_1, c_2, ..
    nodes = np.add.accumulate(largest[:, 1:], axis=1)  # c_2 + .. + c_m, m = 2 .. p
    rest = np.add.accumulate(falling[:, :0:-1], axis=1)[:, ::-1]  # r, m = 1 .. p - 1
    none = np.zeros((len(terms), 1))
    nodes, rest = np.hstack([none, nodes]), np.hstack([rest, none])
    best = (unit * nodes + (1 + np.arange(p) * unit + gamma(p, unit)) * rest).min(axis=1)
    return best * (1 + gamma(p, unit)) * NEAR
