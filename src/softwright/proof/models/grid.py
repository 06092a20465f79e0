"""The axes of a grid head: what lets its softmax be taken apart into one softmax for each variable.

Over a grid the key of token J = (j_1, .., j_d) has the coordinates k_1[j_1], .., k_d[j_d], and its bias is the sum of
b_i[j_i] but for a number that all tokens share. The factorised engine reads these lines off the edge of the grid: that
is the head it runs. The dense engine takes the biases as they are stored, and a stored bias is a *rounded* sum: what
it is off, |b_J - sum_i b_i[j_i] - const| <= off_J, belongs to the head and is charged where the axes stand in for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softwright.proof.arithmetic.directed import gamma, two_sum, up


@dataclass(frozen=True)
class Grid:
    """Lines of keys and biases, one for each variable, and how far the stored biases are from their sum."""

    keys: tuple[np.ndarray, ...]  # d times (n_i,)
    biases: tuple[np.ndarray, ...]  # d times (n_i,)
    off: np.ndarray | None  # (n_1, .., n_d) bound of what a stored bias differs by; None if it does not

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(line) for line in self.keys)

    def on(self, columns: list[int]) -> Grid | None:
        """The grid as a function of some variables; None if an axis that is left out has more than one token."""
        if any(size > 1 for i, size in enumerate(self.sizes) if i not in columns):
            return None
        off = None if self.off is None else self.off.reshape([self.sizes[i] for i in columns])
        return Grid(tuple(self.keys[i] for i in columns), tuple(self.biases[i] for i in columns), off)


def lines_of(sizes: tuple[int, ...]) -> list[tuple[slice | int, ...]]:
    """For each axis the index of its edge in an array of these sizes."""
    d = len(sizes)
    return [tuple(slice(None) if j == i else 0 for j in range(d)) for i in range(d)]


def grid_of(keys: np.ndarray, biases: np.ndarray, sizes: tuple[int, ...], by_axes: bool) -> Grid | None:
    """The axes of tokens keys (N, d), biases (N,); None if the keys are no grid (a network that was trained further).

    `by_axes`: the head is run axis by axis, so that its biases are the sums by definition.
    """
    d = len(sizes)
    table, stored = keys.reshape(*sizes, d), biases.reshape(sizes)
    along, edges = [], []
    for i, line in enumerate(lines_of(sizes)):
        along.append(np.ascontiguousarray(table[line][:, i]))
        edges.append(np.ascontiguousarray(stored[line]))
        spread = np.broadcast_to(along[i].reshape(_along(i, d)), sizes)
        if not by_axes and not np.array_equal(table[..., i], spread):
            return None
    off = None if by_axes else _off(stored, edges)
    return Grid(tuple(along), tuple(edges), off)


def _along(i: int, d: int) -> list[int]:
    """The shape that spreads a line of axis i over a grid."""
    return [-1 if j == i else 1 for j in range(d)]


def _off(stored: np.ndarray, edges: list[np.ndarray]) -> np.ndarray | None:
    """Bounds of |b_J - sum_i b_i[j_i] + (d - 1) b_0|: two_sum is exact, only the sum of its low halves is rounded."""
    d = stored.ndim
    corner = np.full(stored.shape, stored[(0,) * d])
    terms = [np.broadcast_to(-line.reshape(_along(i, d)), stored.shape) for i, line in enumerate(edges)]
    high, low, size = stored, np.zeros_like(stored), np.zeros_like(stored)
    for term in [*terms, *[corner] * (d - 1)]:
        high, slip = two_sum(high, term)
        low, size = low + slip, size + np.abs(slip)
    off = np.abs(high + low) + gamma(4 * d) * (size + np.abs(high))
    return up(off) if off.any() else None
