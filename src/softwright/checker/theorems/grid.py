"""Cells on a grid (theorems B2 to B4): what a file must say of them, and how near its scores are to the ideal ones.

    drawn    formula f, variables, box [[low, high], ..], beta
    sizes    how it was asked for: the formula and its box, or a name of `NAMED`, which stands for both

The box is cut into G^m cells, last variable fastest. In its unit frame t = (x - middle)/half cell a of an axis has the
centre c_a = (2 a + 1 - G)/G, neighbours are h = 2/G apart, and the ideal score of cell j is beta (c_j.t - |c_j|^2/2),
up to a term without j -(beta/2)|t - c_j|^2. Stored scores k_j.(p x + r) + b_j are off from it by at most

    delta = sum over the variables of max_a |k_a (p x + r) - beta c_a t|, x at both ends of its side,
            + max_j |b_j + beta |c_j|^2/2|,

all in exact rationals, so each weight is at most e^{2 delta} times the ideal one.

*Ideal weights* are products over the axes. For x in a cell, on the axis' half towards a neighbour, at the distance s
from the wall to it, the weights of the cell, the neighbour, and all others together are at most, relative to the
cell's,

    1,   q/(1 - q) = e^{-beta h s},   tau = sum_{l >= 2} e^{-b l (l-1)/2} + sum_{l >= 1} e^{-b l^2/2},    b = beta h^2.

So the neighbour has at most q <= 1/2 of what it shares with the cell. Cells that are neither the cell's own nor the
neighbour's index on some axis have at most the mass mu = min(1, e^{2 delta} m tau) together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb, fmpq

from softwright.checker.entries import at_least_zero, check_entries, is_float, is_number, is_size, is_text, list_of
from softwright.checker.limits import check_time
from softwright.checker.parser import Parser
from softwright.checker.refusal import require
from softwright.checker.taylor import Model, Space, evaluate
from softwright.checker.theorems.cells import Cells, read_cells
from softwright.checker.theorems.interpolation import rational
from softwright.checker.theorems.reading import NOT_DRAWN, TheoremFile
from softwright.checker.trees import Tree

TERMS = 60  # of tau that are added up one by one
MOST_VARIABLES = 12
DEGREES = {1: 4, 2: 3}  # of the Taylor models; 2 for more variables
Box = list[tuple[fmpq, fmpq]]

NAMED: dict[str, tuple[str, dict[str, list[float]]]] = {
    "sign": ("sign(x - 0.1)", {"x": [-1.0, 1.0]}),
    "floor": ("where(x < 1, 0, where(x < 2, 1, where(x < 3, 2, 3)))", {"x": [0.0, 4.0]}),
    "disc": ("where(x**2 + y**2 < 0.49, 1, 0)", {"x": [-1.0, 1.0], "y": [-1.0, 1.0]}),
    "root": ("x**-0.25", {"x": [0.0, 1.0]}),
}


@dataclass(frozen=True)
class Grid:
    """The function asked for, the cells, and the stored values (G^m, outputs)."""

    text: str
    variables: tuple[str, ...]
    trees: list[Tree]
    box: Box
    per_axis: int
    beta: fmpq
    off: arb  # delta
    values: np.ndarray

    @property
    def dim(self) -> int:
        return len(self.box)

    @property
    def sharpness(self) -> arb:
        """b = beta h^2."""
        return arb(self.beta * 4 / (self.per_axis * self.per_axis))

    @property
    def more(self) -> arb:
        """e^{2 delta}: how much larger than the ideal one a weight may be."""
        return (2 * self.off).exp()

    @cached_property
    def far(self) -> arb:
        """mu."""
        total, b = arb(0), self.sharpness
        for steps in range(1, min(self.per_axis, TERMS)):
            total += (-b * steps * steps / 2).exp() + ((-b * steps * (steps - 1) / 2).exp() if steps > 1 else arb(0))
        if self.per_axis > TERMS:  # what follows falls at least as fast as e^{-b TERMS}
            fall = (-b * TERMS).exp()
            total += 2 * (-b * TERMS * (TERMS - 1) / 2).exp() / (1 - fall) if fall < 1 else arb.pos_inf()
        mass = self.more * self.dim * total
        return mass.upper().min(arb(1)) if mass.is_finite() else arb(1)

    @cached_property
    def space(self) -> Space:
        return Space(self.dim, DEGREES.get(self.dim, 2))

    @property
    def where(self) -> str:
        """The box in words, as statements have it."""
        sides = zip(self.variables, self.box, strict=True)
        return ", ".join(f"{name} in [{float(arb(a))!r}, {float(arb(b))!r}]" for name, (a, b) in sides)

    def cell(self, index: tuple[int, ...]) -> Box:
        """The cell of an index, in the box's own coordinates."""
        found = []
        for a, (low, high) in zip(index, self.box, strict=True):
            side = (high - low) / self.per_axis
            found.append((low + side * a, low + side * (a + 1)))
        return found

    def model(self, tree: Tree, box: Box) -> Model:
        """A Taylor model of a formula over a part of the box."""
        models = []
        for i, (low, high) in enumerate(box):
            slopes = [arb((high - low) / 2) if i == k else arb(0) for k in range(self.dim)]
            models.append(Model(self.space, self.space.linear(arb((low + high) / 2), slopes)))
        return evaluate(tree, models)


def read_grid(file: TheoremFile, asked: str, cross: bool, named: bool, **own: Any) -> Grid:
    """The grid of a file. `asked` is the size that holds the formula, or if `named` a name of it; `own` tests of the
    theorem's own sizes.
    """
    require(file.drawn, NOT_DRAWN)
    sides = list_of(list_of(is_float))
    tests = {"formula": is_text, "variables": list_of(is_text), "box": sides, "beta": is_float}
    check_entries(file.drawn, tests, "what was drawn")
    tests = {asked: is_text, "box": lambda box: isinstance(box, dict), "cells": is_size, "eps0": is_number}
    tests = {**tests, "beta": at_least_zero, "columns": is_size, **own}
    check_entries(file.sizes, tests, "the sizes", ("box",))
    text, names, beta = (file.drawn[name] for name in ("formula", "variables", "beta"))
    require(all(len(side) == 2 and side[0] < side[1] for side in file.drawn["box"]), "a side of the box is damaged")
    require(len(set(names)) == len(names) == len(file.drawn["box"]), "the box does not fit the variables")
    require(1 <= len(names) <= MOST_VARIABLES, f"at most {MOST_VARIABLES} variables can be checked")
    said = file.sizes[asked], file.sizes.get("box")
    if said[1] is None:
        require(named and said[0] in NAMED, f"nothing is known of a function {said[0]!r}")
        said = NAMED[said[0]]
    drawn = text, dict(zip(names, file.drawn["box"], strict=True))
    require(said == drawn, "the formula or its box is not the one drawn")
    require(beta > 0 and file.sizes["beta"] in (0, beta), "beta is not the one asked for")
    trees = Parser(text, names).outputs()
    G, m = file.sizes["cells"], len(names)
    cells = read_cells(file, m, file.sizes["columns"], cross)
    N = len(cells.biases)
    require(N >= G and G**m == N, f"{G} cells for each of {m} variables are not the {N} of the file")
    require(
        cells.values.shape == (N, len(trees)), f"there are {len(trees)} functions for {cells.values.shape[1]} values"
    )
    box = [(rational(low), rational(high)) for low, high in file.drawn["box"]]
    off = score_difference(cells, box, G, rational(beta))
    return Grid(text, tuple(names), trees, box, G, rational(beta), off, cells.values)


def score_difference(cells: Cells, box: Box, G: int, beta: fmpq) -> arb:
    """delta, if the keys are those of a grid."""
    m, total = len(box), fmpq(0)
    keys = cells.keys.reshape((G,) * m + (m,))
    for i, (low, high) in enumerate(box):
        line = keys[(0,) * i + (slice(None),) + (0,) * (m - 1 - i) + (i,)]
        shape = [1] * m
        shape[i] = G
        require((keys[..., i] == line.reshape(shape)).all(), "the keys are not those of a grid")
        p, r = rational(cells.scale[i]), rational(cells.offset[i])
        first, last, worst = p * low + r, p * high + r, fmpq(0)
        for a, key in enumerate(line.tolist()):
            check_time()
            k, ideal = rational(key), beta * (2 * a + 1 - G) / G
            worst = max(worst, abs(k * first + ideal), abs(k * last - ideal))
        total += worst
    squares = np.zeros((G,) * m, dtype=np.int64)
    for i in range(m):
        shape = [1] * m
        shape[i] = G
        squares = squares + ((2 * np.arange(G, dtype=np.int64) + 1 - G) ** 2).reshape(shape)
    order = np.argsort(squares, axis=None, kind="stable")
    sizes, biases = squares.ravel()[order], cells.biases[order]
    starts = np.flatnonzero(np.diff(sizes, prepend=-1))
    worst = fmpq(0)
    ends = zip(
        sizes[starts].tolist(), np.minimum.reduceat(biases, starts), np.maximum.reduceat(biases, starts), strict=True
    )
    for size, least, most in ends:
        check_time()
        ideal = -beta * size / (2 * G * G)
        worst = max(worst, abs(rational(least) - ideal), abs(rational(most) - ideal))
    return arb(total + worst)
