"""A table between its points: the cells of its grid, and one polynomial on each of them.

On a cell the multilinear interpolant of a grid table is a polynomial of degree one in each variable, so that network
minus interpolant is smooth there and a Taylor model of it is as sharp as for a formula; across a wall between cells it
has a kink. So every box of a proof must lie in one cell (`search/cell_tree.py`).

Where the domain is wider than the table, the interpolant is continued by the value at the nearest point of the table's
box, which adds cells of constant value; where it is narrower, cells are cut off but keep their polynomial.
"""

from __future__ import annotations

import numpy as np

from softwright.domain import Box
from softwright.proof.arithmetic.multilinear import multilinear
from softwright.proof.arithmetic.series import Basis
from softwright.proof.arithmetic.taylor_model import TaylorModel
from softwright.targets.table import Interpolant

_OUTSIDE = 0.05  # of its radius: a box that reaches further out of its cell is no box of a `CellTree`


class CellAxis:
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


def cell_axes(target: Interpolant, domain: Box) -> list[CellAxis]:
    """The cells along every variable."""
    sides = zip(target.axes, domain.lower.tolist(), domain.upper.tolist(), strict=True)
    return [CellAxis(axis, low, high) for axis, low, high in sides]


def narrowest_cell(target: Interpolant, domain: Box) -> tuple[float, float]:
    """The smallest side of a cell, and the smallest against the size of its ends."""
    found = [(np.diff(axis.edges), np.abs(axis.edges)) for axis in cell_axes(target, domain)]
    ratios = [float((side / np.maximum(np.maximum(size[1:], size[:-1]), side)).min()) for side, size in found]
    return min(float(side.min()) for side, _ in found), min(ratios)


class CellModels:
    """Models of the interpolant on boxes that lie in one cell each."""

    def __init__(self, target: Interpolant, domain: Box) -> None:
        self.axes, self.grid = cell_axes(target, domain), target.grid

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
