"""A table between its points: the cells of its grid as first boxes, and one polynomial on each of them.

On a cell the multilinear interpolant of a grid table is a polynomial of degree one in each variable, so that network
minus interpolant is smooth there and a Taylor model of it is as sharp as for a formula; across a wall between cells it
has a kink. So the search starts from the cells, and every box of it lies in one cell: node numbers and halvings are
those of `search.py`, with one root a cell instead of one root.

A box is known by integers as before: along variable i, index / 2^level counts cells, index >> level is the cell. Where
the domain is wider than the table, the interpolant is continued by the value at the nearest point of the table's box,
which adds cells of constant value; where it is narrower, cells are cut off but keep their polynomial.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from softwright.domain import Box
from softwright.proof.arithmetic.directed import two_sum
from softwright.proof.arithmetic.multilinear import multilinear
from softwright.proof.arithmetic.series import Basis
from softwright.proof.arithmetic.taylor_model import TaylorModel
from softwright.proof.search.search import BoxTree, Open, cover
from softwright.targets.table import Interpolant

_SAME_WIDTH = 0.02  # cells whose widths differ by less may share their moments
_OUTSIDE = 0.05  # of its radius: a box that reaches further out of its cell is no box of a `CellTree`


class _Axis:
    """The cells along one variable: where they begin, and between which entries of the table they interpolate."""

    def __init__(self, axis: np.ndarray, low: float, high: float) -> None:
        inner = axis[(axis > low) & (axis < high)]
        self.edges = np.concatenate([[low], inner, [high]])  # (n + 1,)
        start, end = self.edges[:-1], self.edges[1:]
        # The table's interval that holds a cell; a cell beyond the table has one entry at both its ends.
        self.first = np.clip(np.searchsorted(axis, start, side="right") - 1, 0, len(axis) - 1)  # (n,)
        self.last = np.clip(np.searchsorted(axis, end, side="left"), 0, len(axis) - 1)
        inside = self.first < self.last
        self.left = np.where(inside, axis[self.first], start)
        self.right = np.where(inside, axis[self.last], end)

    def __len__(self) -> int:
        return len(self.edges) - 1


def _axes(target: Interpolant, domain: Box) -> list[_Axis]:
    sides = zip(target.axes, domain.lower.tolist(), domain.upper.tolist(), strict=True)
    return [_Axis(axis, low, high) for axis, low, high in sides]


def narrowest_cell(target: Interpolant, domain: Box) -> tuple[float, float]:
    """The smallest side of a cell, and the smallest against the size of its ends."""
    found = [(np.diff(axis.edges), np.abs(axis.edges)) for axis in _axes(target, domain)]
    ratios = [float((side / np.maximum(np.maximum(size[1:], size[:-1]), side)).min()) for side, size in found]
    return min(float(side.min()) for side, _ in found), min(ratios)


class CellModels:
    """Models of the interpolant on boxes that lie in one cell each."""

    def __init__(self, target: Interpolant, domain: Box) -> None:
        self.axes, self.grid = _axes(target, domain), target.grid

    def __call__(self, shape: Basis, centers: np.ndarray, radii: np.ndarray) -> list[TaylorModel]:
        cells = [
            np.clip(np.searchsorted(axis.edges, centers[:, i], side="right") - 1, 0, len(axis) - 1)
            for i, axis in enumerate(self.axes)
        ]  # d times (B,)

        def of(name: str) -> np.ndarray:
            columns = [getattr(axis, name)[cell] for axis, cell in zip(self.axes, cells, strict=True)]
            return np.stack(columns, axis=1)  # (B, d)

        first, last, left, right = of("first"), of("last"), of("left"), of("right")

        def at_corner(right_end: np.ndarray) -> np.ndarray:
            return self.grid[tuple(np.where(right_end, last, first).T)]  # (B, m)

        models = multilinear(shape, centers, radii, left, right, values=at_corner)
        # Differences before sums: they are exact near a wall. A box so small that its centre was rounded to a wall is
        # then seen to reach into both cells, whichever of them the centre fell to.
        beyond = ~(np.maximum((centers - right) + radii, (left - centers) + radii) <= _OUTSIDE * radii)
        for model in models:
            model.remainder = np.where(beyond.any(axis=1), np.inf, model.remainder)
        return models


class CellTree(BoxTree):
    """A bisection tree for every cell of the grid; together they cover the domain, because cells share their edges."""

    def __init__(self, target: Interpolant, domain: Box) -> None:
        super().__init__(domain.lower, domain.upper)
        self._axes = _axes(target, domain)
        self.roots = int(np.prod([len(axis) for axis in self._axes]))
        # The number of a cell stands above the bits of the place in it, in one int64.
        self.deepest -= max(map(len, self._axes)).bit_length()
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
