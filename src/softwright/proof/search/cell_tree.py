"""Where the search for a table's interpolant starts: one bisection tree for every cell of its grid.

Node numbers and halvings are those of `search.py`, with one root per cell instead of one root, so that every box lies
in one cell. A box is known by integers as before: along variable i, index / 2^level counts cells, index >> level is
the cell.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import singledispatch

import numpy as np

from softwright.domain import Box
from softwright.proof.arithmetic.directed import two_sum
from softwright.proof.models.cells import cell_axes
from softwright.proof.search.search import BoxTree, Open, cover
from softwright.targets import Interpolant, Target

_BITS = 58
_SAME_WIDTH = 0.02  # cells whose widths differ by less may share their moments


@singledispatch
def tree_of(target: Target, domain: Box) -> BoxTree:
    """Where the search starts: the domain, or the cells of a table."""
    return BoxTree(domain.lower, domain.upper)


@tree_of.register
def _(target: Interpolant, domain: Box) -> BoxTree:
    return CellTree(target, domain)


class CellTree(BoxTree):
    """A bisection tree for every cell of the grid; together they cover the domain, because cells share their edges."""

    def __init__(self, target: Interpolant, domain: Box) -> None:
        super().__init__(domain.lower, domain.upper)
        self._axes = cell_axes(target, domain)
        self.roots = int(np.prod([len(axis) for axis in self._axes]))
        # The number of a cell stands above the bits of the place in it, in one int64.
        self.deepest = _BITS - max(map(len, self._axes)).bit_length()
        self.split, self.first_child = [-1] * self.roots, [-1] * self.roots
        ends = [two_sum(axis.edges[1:], -axis.edges[:-1]) for axis in self._axes]
        self._widths, self._rests = [width for width, _ in ends], [rest for _, rest in ends]
        self._kinds = [np.rint(np.log(width) / _SAME_WIDTH).astype(np.int64) for width in self._widths]

    def grid(self, levels: Sequence[int]) -> Open:
        """The cells themselves."""
        index = np.array(list(itertools.product(*[range(len(axis)) for axis in self._axes])), dtype=np.int64)
        return Open(np.arange(self.roots), index, np.zeros_like(index), np.full((self.roots, 2), np.inf))

    def boxes(self, index: np.ndarray, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cell = index >> level
        low = np.stack([axis.edges[cell[:, i]] for i, axis in enumerate(self._axes)], axis=1)  # (n, d)
        width = np.stack([self._widths[i][cell[:, i]] for i in range(self.dim)], axis=1)
        rest = np.stack([self._rests[i][cell[:, i]] for i in range(self.dim)], axis=1)
        return cover(low, width, rest, index - (cell << level), level)

    def alike(self, index: np.ndarray, level: np.ndarray) -> np.ndarray:
        cell = index >> level
        kinds = np.stack([self._kinds[i][cell[:, i]] for i in range(self.dim)], axis=1)
        return np.concatenate([super().alike(index, level), kinds], axis=1)

    def share(self, level: np.ndarray) -> float:
        return super().share(level) / self.roots

    def preorder(self) -> tuple[bytes, np.ndarray]:
        """No bytes: a forest is not a tree of the file format. The leaves, in the order of the nodes."""
        return b"", np.flatnonzero(np.array(self.split) < 0)
