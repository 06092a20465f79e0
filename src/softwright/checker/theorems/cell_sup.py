"""B2 again, and B4 in the sup norm: a head whose cells hold values v_j of a continuous function f, cell by cell.

Let x lie in a part B of a cell, in one orthant of it. The *near* cells are the cell and its neighbours towards this
orthant, 2^m or fewer at the edge of the grid. g(x) - f(x) is a mean of v_j - f(x), of modulus at most

    D_j = max(v_j - min_B f, max_B f - v_j),        min and max from a Taylor model of f over B.

Ideal weights are products over the axes, in which a neighbour has at most the share q_i = 1/(1 + e^{beta h s_i}) of
what it has with the cell, s_i the least distance of B from the wall. So axis after axis two numbers D, D' of the near
cells that differ in it become D + q_i max(0, D' - D), and the last one bounds the mean over near cells. With what
stored scores may add, and the mass mu of all other cells (`grid`),

    |g - f| <= M + mu max(0, A - M),    M = min(max D_j, e^{2 delta} mean),    A = the same maximum over all cells.

Nothing of the theorem is used: no modulus of continuity, no |f|, no leak. Where B is a whole orthant this is about
three quarters of the theorem's omega_f(h sqrt(m)) for a linear f. The parts with the largest bounds are halved as long
as that pays: until the bound is no more than the largest difference between values of neighbours, which no bound by
omega_f(h sqrt(m)) is below, or next to what the same formula gives at single points.
"""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass

import numpy as np
from flint import arb

from softwright.checker.limits import check_time
from softwright.checker.proved import Proved
from softwright.checker.refusal import UndefinedError, require
from softwright.checker.theorems.grid import Box, Grid, read_grid
from softwright.checker.theorems.interpolation import FLOAT64, rational
from softwright.checker.theorems.reading import REAL_ARITHMETIC, TheoremFile

MOST_PARTS = 600_000  # orthants of cells
MORE_PARTS = 3_000  # by halving
NEAR_ENOUGH = 1.001  # the bound, relative to what the formula gives at points
UNIT = FLOAT64.unit


@dataclass(frozen=True)
class Part:
    """A part of an orthant: the near cells' flat indices, own first, later axes faster; per axis the share of the
    orthant, from the centre (0) to the wall (1); and the part itself in the box's coordinates.
    """

    near: np.ndarray  # (2, .., 2), or 1 where the grid ends
    shares: tuple[tuple[float, float], ...]
    box: Box
    upward: tuple[bool, ...]


def prove(file: TheoremFile) -> Proved:
    """sup |network - f| over the box, in real arithmetic."""
    grid = read_grid(file, "formula", cross=file.label == "B4", named=False)
    return Proved(
        statement=f"sup over {grid.where} of |network - f| for f = {grid.text}",
        exact=arb(Search(grid).bound()),
        rounding=None,
        method=f"theorem {file.label}",
        quantities={
            "beta": arb(grid.beta),
            "eps0": arb(rational(file.sizes["eps0"])),
            "h": arb(2) / grid.per_axis,
        },
        assumptions=REAL_ARITHMETIC,
    )


class Search:
    """The largest bound over all parts. Floats are rounded outward by what `slack` says."""

    def __init__(self, grid: Grid) -> None:
        self.grid, self.m = grid, grid.dim
        self.steep = float((arb(grid.beta) * 2 / grid.per_axis * 2 / grid.per_axis / 2).lower())  # beta h h/2
        self.more, self.far = above(grid.more), above(grid.far)
        self.least, self.most = grid.values.min(axis=0), grid.values.max(axis=0)
        # Each axis makes 4 roundings of numbers up to max D_j, and there are a few more at the ends.
        self.slack = 1 + 8 * (self.m + 4) * UNIT

    def bound(self) -> float:
        count = self.grid.per_axis**self.m * 2**self.m
        require(count <= MOST_PARTS, f"{count} parts of cells are more than can be looked at here")
        goal = self.neighbours()
        heap: list[tuple[float, int, Part]] = []
        order, seen, smallest = itertools.count(), 0.0, 1e-13 * float(np.abs(self.grid.values).max())
        for index in itertools.product(range(self.grid.per_axis), repeat=self.m):
            for upward in itertools.product((False, True), repeat=self.m):
                part = self.orthant(index, upward)
                found = self.on(part)
                if found > goal:
                    heapq.heappush(heap, (-found, next(order), part))
            if len(heap) > 2 * MORE_PARTS:  # no more than these can be halved: of the others the bound is all
                heap = heapq.nsmallest(MORE_PARTS + 1, heap)
                goal = max(goal, -heap.pop()[0])
        for _ in range(MORE_PARTS):
            if not heap or -heap[0][0] <= max(goal, NEAR_ENOUGH * seen + smallest):
                break
            part = heapq.heappop(heap)[2]
            for half in self.halves(part):
                found = self.on(half)
                seen = max(seen, self.at_middle(half))
                if found > goal:
                    heapq.heappush(heap, (-found, next(order), half))
        worst = max(goal, -heap[0][0]) if heap else goal
        require(math.isfinite(worst), "the function may be undefined or unbounded on a cell")
        return worst

    def neighbours(self) -> float:
        """The largest |v_i - v_j| of cells whose indices differ by at most one on every axis."""
        grid = self.grid.values.reshape((self.grid.per_axis,) * self.m + (-1,))
        top, bottom = grid, grid
        for axis in range(self.m):
            top, bottom = widened(top, axis, np.maximum), widened(bottom, axis, np.minimum)
        return float(np.maximum(top - grid, grid - bottom).max()) * (1 + 2 * UNIT)

    def orthant(self, index: tuple[int, ...], upward: tuple[bool, ...]) -> Part:
        G, lines, sides = self.grid.per_axis, [], []
        for a, up, (low, high) in zip(index, upward, self.grid.cell(index), strict=True):
            other, middle = a + (1 if up else -1), (low + high) / 2
            lines.append([a, other] if 0 <= other < G else [a])
            sides.append((middle, high) if up else (low, middle))
        near = np.zeros((1,) * self.m, dtype=np.int64)
        for i, line in enumerate(lines):
            shape = [1] * self.m
            shape[i] = len(line)
            near = near * G + np.array(line).reshape(shape)
        return Part(near, ((0.0, 1.0),) * self.m, sides, upward)

    def halves(self, part: Part) -> list[Part]:
        """The part cut across its longest side."""
        i = max(range(self.m), key=lambda k: part.shares[k][1] - part.shares[k][0])
        (from_centre, to_wall), (low, high) = part.shares[i], part.box[i]
        half, middle = (from_centre + to_wall) / 2, (low + high) / 2
        found = []
        for inner in (True, False):
            shares, box = list(part.shares), list(part.box)
            shares[i] = (from_centre, half) if inner else (half, to_wall)
            box[i] = (low, middle) if inner == part.upward[i] else (middle, high)
            found.append(Part(part.near, tuple(shares), box, part.upward))
        return found

    def on(self, part: Part) -> float:
        """A bound of |g - f| on a part, the largest over the outputs; infinite where f may be undefined."""
        check_time()
        ranges = []
        for tree in self.grid.trees:
            try:
                low, high = self.grid.model(tree, part.box).bounds()
            except UndefinedError:
                return math.inf
            ranges.append((below(low), above(high)))
        return self.mixed(part, ranges, [share[1] for share in part.shares])

    def at_middle(self, part: Part) -> float:
        """What `on` would give for a part that is one point: it steers, and nothing is proved with it."""
        middle = [((low + high) / 2, (low + high) / 2) for low, high in part.box]
        try:
            values = [float(self.grid.model(tree, middle).parts[0][0].mid()) for tree in self.grid.trees]
        except UndefinedError:
            return 0.0
        return self.mixed(part, [(value, value) for value in values], [sum(share) / 2 for share in part.shares])

    def mixed(self, part: Part, ranges: list[tuple[float, float]], to_wall: list[float]) -> float:
        worst = 0.0
        for o, (low, high) in enumerate(ranges):
            if not (math.isfinite(low) and math.isfinite(high)):
                return math.inf
            values = self.grid.values[:, o][part.near]
            D = np.maximum(np.maximum(values - low, high - values), 0.0)
            largest = float(D.max())
            for share in to_wall:  # the first axis of D is always the next one
                q = (
                    1.0 / (1.0 + math.exp(min(self.steep * (1.0 - share), 700.0))) * (1 + 2000 * UNIT)
                )  # an exponent up to 700
                D = D[0] + q * np.maximum(D[1] - D[0], 0.0) if len(D) == 2 else D[0]
            near = min(largest, self.more * float(D) * self.slack)
            everything = max(float(self.most[o]) - low, high - float(self.least[o]), near)
            worst = max(worst, (near + self.far * (everything - near)) * self.slack)
        return worst


def widened(grid: np.ndarray, axis: int, larger: np.ufunc) -> np.ndarray:
    """Every entry with its two neighbours along an axis."""
    found = grid.copy()
    inner, outer = [slice(None)] * grid.ndim, [slice(None)] * grid.ndim
    inner[axis], outer[axis] = slice(1, None), slice(None, -1)
    for here, there in ((inner, outer), (outer, inner)):
        found[tuple(here)] = larger(found[tuple(here)], grid[tuple(there)])
    return found


def above(ball: arb) -> float:
    """A float not below any number of the ball."""
    return math.nextafter(float(ball.upper()), math.inf) if ball.is_finite() else math.inf


def below(ball: arb) -> float:
    return math.nextafter(float(ball.lower()), -math.inf) if ball.is_finite() else -math.inf
