"""Claims about an L_p norm over the whole box: a sup bound outside bands, and what the bands may add.

The evidence lists differences c_k and a gap g, and the two parts of a bound that `bound.py` shows at all points with
|c_k| >= g for all k. Of any other point x it shows the same bound for the program with some numbers t_k of [0, 1] in
place of its steps: each step as it runs is t z for the weight t of its gate, and where the difference that it reads,
which may hold other steps, is at least g in size, t is within what was charged of the indicator. All ranges that are
used for this hold for such t as well: those of features by how steps are enclosed, those of arguments of tables because
they are asked for with free t within the gap (`relaxed_stream`). So, with b the bound, at points of a band

    |network - formula|  <=  M  =  sup |program for any t - formula| + b,

    int |network - formula|^p  <=  b^p vol + sum over boxes B of  M_B^p mu_B,    mu_B >= measure of the bands in B.

For one difference mu_B is 0 where its range on B keeps g away from 0, at most 2 g/s_i times the other sides of B where
the slope of c by x_i is at least s_i > 0 in size on B (on a line along x_i the band is an interval of that length), and
never more than vol(B). Slopes are enclosed as in `enclosing.py`: across a jump nothing is known of them.

The two parts of the claim are (exact^p vol + sum)^(1/p) and rounding vol^(1/p), by Minkowski's inequality.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, fmpq

from softwright.checker.claims import check_hex
from softwright.checker.composition.adjoints import Forward, Network
from softwright.checker.composition.bound import Claimed
from softwright.checker.composition.intervals import Interval, above, below, up
from softwright.checker.composition.jumps import Bands
from softwright.checker.composition.kinds.kind import upper_product, upper_sum
from softwright.checker.composition.program import Program
from softwright.checker.composition.ranges import Ranges
from softwright.checker.entries import Test, at_least_zero, check_entries, is_number, is_text, list_of
from softwright.checker.limits import check_time
from softwright.checker.refusal import require
from softwright.checker.statement import rational
from softwright.checker.trees import Tree

Array = np.ndarray
MOST_BOXES, BATCH = 150_000, 4_000
LARGEST_EXPONENT = 8
BANDS: dict[str, Test] = {
    "gap": is_number,
    "of": list_of(is_text),
    **dict.fromkeys(("exact", "rounding"), at_least_zero),
    "hex": lambda value: isinstance(value, dict),
}


@dataclass(frozen=True)
class Outside:
    """What the evidence of a norm says: nothing or {"gap", "of"} to leave out, and the bound that holds elsewhere."""

    bands: dict[str, Any] | None
    exact: float
    rounding: float


def exponent_of(norm: str) -> int | None:
    """p of "L1", "L2", ..; None for "sup"."""
    if norm == "sup":
        return None
    digit = norm[1:]
    known = norm[:1] == "L" and digit in [str(p) for p in range(1, LARGEST_EXPONENT + 1)]
    require(known, "a composition is claimed in the sup norm, or in L1 to L8")
    return int(digit)


def sentence_of_norm(p: int) -> str:
    return f"the L{p} norm over the box of the largest deviation of an output from the formula's is at most the bound"


def read_outside(entries: Sequence[Any]) -> Outside:
    require(len(entries) == 1, "a norm rests on one bound outside of bands")
    (entry,) = entries
    check_entries(entry, BANDS, "the bound outside of bands")
    check_hex({name: entry[name] for name in ("gap", "exact", "rounding")}, entry["hex"], "the bound outside of bands")
    require(bool(entry["of"]) == (entry["gap"] > 0), "a gap has differences that it is about, and they a gap")
    bands = {"gap": entry["gap"], "of": entry["of"]} if entry["of"] else None
    return Outside(bands, float(entry["exact"]), float(entry["rounding"]))


def relaxed_stream(program: Program, gap: float, names: Sequence[str], box: tuple[Array, Array]) -> tuple[Ranges, list]:
    """Ranges over the inputs and a free number of [0, 1] for each step, and the nodes of the features there."""
    steps = [feature for feature in program.features if feature.kind == "step"]
    free = [f"{names[0]} free {k}" for k in range(len(steps))]
    lower = np.concatenate([box[0], np.zeros(len(steps))])
    upper = np.concatenate([box[1], np.ones(len(steps))])
    ranges = Ranges([*names, *free], lower, upper)
    dag, width = ranges.dag, rational(gap)
    nodes = list(ranges.inputs[: len(names)])
    spare = iter(ranges.inputs[len(names) :])
    one, zero, edge, back = (dag.number(fmpq(k)) for k in (1, 0, width, -width))
    for feature in program.features:
        if feature.kind != "step":
            nodes.append(dag.tree(feature.meaning, nodes))
            continue
        c, z = (dag.tree(form.tree, nodes) for form in (feature.score, feature.value))
        below_ = dag.add("compare", ("<=",), (c, back))
        above_ = dag.add("compare", (">=",), (c, edge))
        inner = dag.add("where", None, (below_, zero, next(spare)))
        nodes.append(dag.product([(1, dag.add("where", None, (above_, one, inner))), (1, z)]))
    return ranges, nodes


@dataclass(frozen=True)
class Integral:
    """What is needed to bound the integral over the bands."""

    network: Network
    ranges: Ranges
    formula: list[int]  # nodes of the outputs
    differences: list[int]
    gap: float
    bound: float
    p: int

    def parts(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """On boxes (n, d): at least the integral over the bands, and how much (n, d) each side seems to matter."""
        n, inputs = len(lower), self.ranges.inputs
        sides = up(upper - lower)
        given = {node: Interval(lower[:, i], upper[:, i]) for i, node in enumerate(inputs)}
        values, masks = self.ranges.enclosing.values([*self.formula, *self.differences], given, n)
        others = np.stack([upper_product(*(sides[:, j] for j in range(len(inputs)) if j != i), np.ones(n))
                           for i in range(len(inputs))], axis=1)  # fmt: skip
        volume = upper_product(others[:, 0], sides[:, 0])
        total, weight, apart = np.zeros(n), np.zeros((n, len(inputs))), np.ones(n, dtype=bool)
        for node in self.differences:
            clear = masks[node] & (values[node].least_size >= self.gap)
            slopes = self.ranges.enclosing.slopes(node, given, values)
            found = volume.copy()
            for i, coordinate in enumerate(inputs):
                slope = slopes[coordinate]
                steep = np.where(masks[node] & slope.finite, slope.least_size, 0.0)
                with np.errstate(all="ignore"):
                    across = np.where(steep > 0, up(2.0 * self.gap / steep), np.inf)
                    thin = np.where(across < sides[:, i], upper_product(others[:, i], across), volume)
                    matters = np.where(slope.finite, slope.size, 1.0) * sides[:, i]
                found = np.minimum(found, thin)
                weight[:, i] += np.where(clear, 0.0, matters)
            total, apart = np.where(clear, total, upper_sum(total, found)), apart & clear
        measure = np.where(apart, 0.0, np.minimum(total, volume))
        there = np.flatnonzero(~apart)
        found = np.zeros(n)
        if len(there):
            inner = {k: values[k][there] for k in self.formula}
            defined = np.all([masks[k][there] for k in self.formula], axis=0)
            size = self._largest(lower[there], upper[there], inner)
            with np.errstate(all="ignore"):
                power = Interval(size, size).power(self.p).upper
                found[there] = np.where(defined, upper_product(power, measure[there]), np.inf)
        return found, weight

    def _largest(self, lower: Array, upper: Array, values: dict[int, Interval]) -> Array:
        """How far the network may be from the formula on boxes."""
        with np.errstate(all="ignore"):
            flow = Forward(self.network, lower, upper)
            flow.run()
            found = np.zeros(len(lower))
            for form, node in zip(self.network.program.outputs, self.formula, strict=True):
                found = np.maximum(found, (flow.range(form) - values[node]).size)
        return np.where(flow.trouble, np.inf, upper_sum(found, np.full(len(lower), self.bound)))

    def show(self, lower: Array, upper: Array, goal: float) -> int:
        """That the integral over the bands is at most `goal`; the number of boxes."""
        low, high, spent, kept = lower[None].copy(), upper[None].copy(), 0, 0.0
        whole = np.maximum(upper - lower, 1e-300)
        while True:
            check_time()
            pieces = [self.parts(low[i : i + BATCH], high[i : i + BATCH]) for i in range(0, len(low), BATCH)]
            part, weight = (np.concatenate([piece[k] for piece in pieces]) for k in (0, 1))
            spent += len(low)
            total = kept + math.fsum(part.tolist()) * (1 + 1e-14)
            if total * (1 + 1e-14) <= goal:
                return spent
            split = part > 0.1 * goal / max(1, len(part))
            failed = f"not re-proved: bands round jumps add {total:.6g} to the integral, {goal:.6g} is left for them"
            require(bool(split.any()) and spent + 2 * int(split.sum()) <= MOST_BOXES, failed)
            kept += math.fsum(part[~split].tolist()) * (1 + 1e-14)
            low, high, weight = low[split], high[split], weight[split]
            wide = (high - low) / whole
            score = np.where(weight.max(axis=1, keepdims=True) > 0, weight, wide) + 1e-6 * wide
            axis, rows = np.where(high > low, score, -1.0).argmax(axis=1), np.arange(len(low))
            middle = low[rows, axis] + 0.5 * (high[rows, axis] - low[rows, axis])
            under, over = high.copy(), low.copy()
            under[rows, axis], over[rows, axis] = middle, middle
            low, high = np.vstack([low, over]), np.vstack([under, high])


def prove_norm(
    said: dict[str, Any],
    outside: Outside,
    p: int,
    formula: list[Tree],
    bands: Bands | None,
    network: Network,
    ranges: Ranges,
) -> int:
    """The two parts that are stated of the norm follow from the bound outside of the bands; the number of boxes."""
    lower, upper = ranges.lower, ranges.upper
    volume = fmpq(1)
    for a, b in zip(lower.tolist(), upper.tolist(), strict=True):
        volume *= rational(b) - rational(a)
    root = arb(volume) ** (arb(1) / p)
    require(
        arb(rational(outside.rounding)) * root <= arb(rational(said["rounding_part"])),
        "not re-proved: the rounding part of the norm is less than that of the bound outside of bands makes it",
    )
    left = arb(rational(said["exact_part"])) ** p - arb(rational(outside.exact)) ** p * arb(volume)
    goal = below(left)
    require(goal >= 0, "not re-proved: the norm is stated less than the bound outside of bands makes it")
    if bands is None:
        return 0
    nodes = [ranges.dag.tree(tree, ranges.inputs) for tree in formula]
    differences = [ranges.dag.tree(tree, ranges.inputs) for tree in bands.trees]
    bound = above(arb(rational(outside.exact) + rational(outside.rounding)))
    return Integral(network, ranges, nodes, differences, bands.gap, bound, p).show(lower, upper, goal)


def claimed_of(outside: Outside) -> Claimed:
    """What must hold outside of the bands."""
    total = rational(outside.exact) + rational(outside.rounding)
    near = float(arb(total))
    if rational(near) > total:
        near = float(np.nextafter(near, -np.inf))
    return Claimed(all=near, real=outside.exact)
