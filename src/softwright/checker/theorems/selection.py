"""A4 again: one attention layer makes the scores of a grid of cells, a softmax selects, a linear map reads values.

On [-r, r]^m lies the grid of N = G^m centres v_j, spacing h = 2r/G. From the tensors, entry by entry:

    first map and layer   one head of A1: z_j is within E of s_j = v_j.x - |v_j|^2/2. E is what the head is off its clip
                          (`interpolation`), what the stored linear map is off s_j on the box, and what leaves the clip
    the rest              the softmax of beta z_j weighs the stored values c_j (outputs, N), whatever they are

As s_j - s_i = -(|x - v_j|^2 - |x - v_i|^2)/2, and the weights w_j add up to 1, for x in the cell of centre i

    w_j <= e^{-beta h^2 g_j/2 + 2 beta E},    g_j = (|x - v_j|^2 - |x - v_i|^2)/h^2 = sum_k (z_k^2 - 2 z_k y_k)

with z = (v_j - v_i)/h, whole numbers, and y = (x - v_i)/h in [-1/2, 1/2]^m. On a box of y, whose ends are dyadic, g_j
is bounded below in whole numbers, and a Taylor model bounds f. Let o_j bound |c_j - f(x)| there. For any set A of
centres, with o and w the largest o_j and weight of the N - |A| others,

    |sum_j w_j c_j - f(x)| <= sum_j w_j o_j <= max over A of o_j + (N - |A|) o w.

A takes the centres with the smallest g_j, as many as give the least. No modulus of continuity is asked for: the worst
boxes are bisected until they are no worse than slope times h sqrt(m), the slope seen at their middles, or hardly worse
than the same sum at a middle. Nothing rests on when that ends.
"""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass

import numpy as np
from flint import arb, fmpq

from softwright.checker.entries import check_entries, is_count, is_float, is_size, is_text, list_of
from softwright.checker.limits import check_time
from softwright.checker.parser import Parser
from softwright.checker.proved import Proved
from softwright.checker.refusal import UndefinedError, require
from softwright.checker.statement import check_names
from softwright.checker.taylor import Model, Space, evaluate
from softwright.checker.theorems.activations import Clip, check_layer
from softwright.checker.theorems.interpolation import blank, largest, ones_at, rational, rationals, same
from softwright.checker.theorems.points import Points, read_points
from softwright.checker.theorems.reading import NOT_DRAWN, REAL_ARITHMETIC, Stage, TheoremFile, in_full
from softwright.checker.trees import Tree

ZERO = arb(0)
MOST_VARIABLES = 8
DEGREES = {1: 6, 2: 4}  # of the Taylor models; 2 in more variables
DEEPEST = 16  # bisections of a side of a cell
UNITS = 2 ** (DEEPEST + 1)  # of y, so that halves of halves are whole
NEAR = 1.02  # how near to the sum at a middle the worst box must come, if it is more than the theorem's modulus
MOST_BOXES = 12_000
SIZES = {
    "formula": is_text,
    "cells": is_size,
    "points": is_count,
    **dict.fromkeys(("radius", "eps0"), lambda value: is_float(value) and value > 0),
}


@dataclass(frozen=True)
class Cells:
    """The grid, and all that the bound of a box takes from the tensors."""

    trees: list[Tree]
    radius: fmpq
    per_axis: int
    places: np.ndarray  # (N, m) whole numbers: which cell along each axis
    values: np.ndarray  # (outputs, N)
    decay: arb  # beta h^2/(2 UNITS): what a unit of g_j takes off the logarithm of a weight
    blur: arb  # 2 beta E

    @property
    def h(self) -> fmpq:
        return 2 * self.radius / self.per_axis


@dataclass(frozen=True)
class Box:
    """Of a cell: y between `low` and `high` (m,), in UNITS."""

    cell: int
    low: tuple[int, ...]
    high: tuple[int, ...]

    def halves(self) -> list[Box]:
        axis = max(range(len(self.low)), key=lambda k: self.high[k] - self.low[k])
        middle = (self.low[axis] + self.high[axis]) // 2
        left, right = list(self.high), list(self.low)
        left[axis] = right[axis] = middle
        return [Box(self.cell, self.low, tuple(left)), Box(self.cell, tuple(right), self.high)]

    @property
    def splits(self) -> bool:
        return max(b - a for a, b in zip(self.low, self.high, strict=True)) > 1


def prove(file: TheoremFile) -> Proved:
    """The largest |network - f| over the box and all outputs."""
    require(file.drawn, NOT_DRAWN)
    check_entries(file.sizes, SIZES, "the sizes")
    check_entries(file.drawn, {"variables": list_of(is_text)}, "what was drawn")
    s, names = file.sizes, file.drawn["variables"]
    check_names(names)
    m, G = len(names), s["cells"]
    require(m <= MOST_VARIABLES, f"{m} variables are more than the {MOST_VARIABLES} that can be checked")
    require(file.inputs == (1, m), "the formula has other variables than there are tokens")
    trees = Parser(s["formula"], names).outputs()
    tokens, attention, turn, _, last = file.chain("sum_of_linear", "attention", "sum_of_linear", "softmax", "linear")
    require(last["M"].ndim == 2 and "c" not in last.tensors, "the last map is a matrix alone")
    outputs, N = last["M"].shape
    require(m * math.log2(G) < 40 and G**m == N, f"{G} cells along each of {m} axes are not {N} columns")
    require(outputs == len(trees), f"the formula has {len(trees)} outputs, the network {outputs}")
    p = s["points"] or tokens["R"].shape[-1]
    require(p > N, "the theorem needs more points than centres")
    check_layer(tokens, attention, [Clip(None, None)], (1, m), N, p)
    points = read_points(tokens["R"][1], tokens["R"][2])
    beta = read_turn(turn, N)

    radius = rational(s["radius"])
    places = np.array(list(itertools.product(range(G), repeat=m)), dtype=np.int64).reshape(N, m)
    head = points.clip_error(rationals(tokens["R"][3]))
    E = head + arb(score_error(tokens, points, radius, places, G))
    h = 2 * radius / G
    decay = arb(beta * h * h / (2 * UNITS))
    cells = Cells(trees, radius, G, places, last["M"], decay, (2 * arb(beta) * E).upper())
    return Proved(
        statement=f"the output is within the bound of f(x), for x in [-{in_full(s['radius'])}, "
        f"{in_full(s['radius'])}]^{m}",
        exact=largest_error(cells),
        rounding=None,
        method="theorem A4",
        quantities={
            "beta": arb(beta),
            "beta of the head": arb(points.beta),
            "eps0": arb(s["eps0"]),
            "spacing": arb(h),
            "points": arb(p),
        },
        at_most={"score error": head.upper()},
        assumptions=REAL_ARITHMETIC,
    )


def read_turn(stage: Stage, N: int) -> fmpq:
    """The row of scores becomes a column, times beta."""
    P, each = blank(stage["P"], (N, N, 1), "P of the second map"), range(N)
    P[each, each, 0] = stage["P"][0, 0, 0]
    same(stage["P"], P, "P of the second map")
    ones_at(stage["Q"], (N, N, 1), (each, each, 0), "Q of the second map")
    same(stage["R"], blank(stage["R"], (N, 1), "R of the second map"), "R of the second map")
    beta = rational(float(P[0, 0, 0]))
    require(beta > 0, "the softmax prefers far cells")
    return beta


def score_error(tokens: Stage, points: Points, radius: fmpq, places: np.ndarray, G: int) -> fmpq:
    """How far the clipped stored scores are from s_j at most, on the box."""
    h, worst = 2 * radius / G, fmpq(0)
    for j, place in enumerate(places.tolist()):
        centre = [h * fmpq(2 * k + 1, 2) - radius for k in place]
        stored, offset = rationals(tokens["Q"][0, :, j]), rational(float(tokens["R"][0, j]))
        off = sum((abs(q - v) for q, v in zip(stored, centre, strict=True)), fmpq(0)) * radius
        off += abs(offset + sum((v * v for v in centre), fmpq(0)) / 2)
        reach = sum(map(abs, stored), fmpq(0)) * radius + abs(offset)
        worst = max(worst, off + max(reach - points.high, fmpq(0)))
    return worst


# ------------------------------------------------------------------------------------------------------------ the boxes


def largest_error(cells: Cells) -> arb:
    """A bound of |sum_j w_j c_j - f| on the whole box; the worst box is bisected as long as that promises something."""
    N, m = cells.places.shape
    space, half = Space(m, DEGREES.get(m, 2)), UNITS // 2
    size, spread = float(np.abs(cells.values).max()), float(np.ptp(cells.values, axis=1).max())
    enough, count = 2.0**-50 * size + 2.0**-30 * spread, 0
    heap: list[tuple[float, int, Box, arb]] = []
    waiting = [Box(i, (-half,) * m, (half,) * m) for i in range(N)]
    while waiting:
        for box in waiting:
            check_time()
            bound, hint = error_on(cells, space, box)
            enough, count = max(enough, hint), count + 1
            heapq.heappush(heap, (-float(bound) if bound.is_finite() else -math.inf, count, box, bound))
        splits = -heap[0][0] > enough and heap[0][2].splits and count < MOST_BOXES + N
        waiting = heapq.heappop(heap)[2].halves() if splits else []
    bounds = [bound for _, _, _, bound in heap]
    require(all(bound.is_finite() for bound in bounds), "the formula may be undefined somewhere in the box")
    return largest(bounds)


def error_on(cells: Cells, space: Space, box: Box) -> tuple[arb, float]:
    """A bound of the error on a box of a cell, exact, and what it need not be below, by what is seen in the middle."""
    h, place = cells.h, cells.places[box.cell].tolist()
    variables = []
    for k, (cell, low, high) in enumerate(zip(place, box.low, box.high, strict=True)):
        middle = h * (fmpq(2 * cell + 1, 2) + fmpq(low + high, 2 * UNITS)) - cells.radius
        slopes = [arb(h * fmpq(high - low, 2 * UNITS)) if i == k else ZERO for i in range(space.dim)]
        variables.append(Model(space, space.linear(arb(middle), slopes)))
    steps = cells.places - cells.places[box.cell]  # (N, m)
    low, high = np.array(box.low), np.array(box.high)
    squares = (steps * steps).sum(axis=1) * UNITS
    apart = squares - 2 * np.maximum(steps * low, steps * high).sum(axis=1)  # g_j or less, in units
    middle_apart = squares - (steps * (low + high)).sum(axis=1)
    worst, hint = ZERO, 0.0
    for tree, values in zip(cells.trees, cells.values, strict=True):
        try:
            f = evaluate(tree, variables)
        except UndefinedError:
            return arb.pos_inf(), 0.0
        least, most = f.bounds()
        if not (least.is_finite() and most.is_finite()):
            return arb.pos_inf(), 0.0
        below, above = (math.nextafter(float(end), side) for end, side in ((least, -math.inf), (most, math.inf)))
        gaps = np.nextafter(np.maximum(values - below, above - values), math.inf)  # o_j or more
        worst = worst.max(weighed(cells, gaps, apart))
        steep = [
            float(f.parts[1][stride]) * 2 * UNITS / int(d) for stride, d in zip(space.strides, high - low, strict=True)
        ]
        seen = weighed(cells, np.abs(values - float(f.parts[0][0])), middle_apart)
        hint = max(hint, math.hypot(*steep) * math.sqrt(space.dim), NEAR * float(seen))
    return worst.upper(), hint


def weighed(cells: Cells, gaps: np.ndarray, apart: np.ndarray) -> arb:
    """The least of max over A of o_j + (N - |A|) o w over the sets A of nearest centres."""
    N, order = len(gaps), np.argsort(apart, kind="stable")
    gaps, apart = gaps[order], apart[order]
    inside = np.maximum.accumulate(gaps)
    outside = np.append(np.maximum.accumulate(gaps[::-1])[::-1][1:], 0.0)
    left = np.arange(N - 1, -1, -1)
    following = np.append(apart[1:], apart[-1])
    with np.errstate(over="ignore"):  # steers only
        sums = inside + left * outside * np.exp(np.minimum(float(cells.blur) - float(cells.decay) * following, 700.0))
    best = int(np.argmin(sums))
    leak = (cells.blur - cells.decay * int(following[best])).exp()
    return arb(float(inside[best])) + int(left[best]) * arb(float(outside[best])) * leak.min(arb(1))
