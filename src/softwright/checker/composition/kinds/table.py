"""Tables: F(u) by a head of fixed tokens, proved for one variable t in [-1, 1] with u = center + halfwidth t.

The head is what a network of one variable has: keys k_j, biases b_j, values v_j over all T fixed tokens, centre 0 and
scale 1; the data token, which it does not look at, is one more hidden token. `boxes.py` proves |fl(head(t)) - F(center
+ halfwidth t)| <= exact + rounding for all t in [-1, 1], along the stored tree, which is a hint: wherever it is too
coarse, boxes are bisected. Centre, halfwidth and the two numbers come from the evidence and need not be believed: the
score's row is compared with (form - center)/halfwidth, and what it misses is charged.

The t that runs is (form + h rho - c)/h, so the feature errs by exact + rounding + sup |F'| h rho, with F' over the way
from the exact form to the one that runs. All of that way must lie in the frame.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import arb, ctx, fmpq

from softwright.checker.boxes import Proof
from softwright.checker.composition.dag import Dag
from softwright.checker.composition.enclosing import Enclosing
from softwright.checker.composition.intervals import Array, Interval, above
from softwright.checker.composition.kinds.centred import in_frame, on_side, turns_at
from softwright.checker.composition.kinds.gates import Run, charged
from softwright.checker.composition.kinds.kind import Flow, Visit, upper_product, upper_sum
from softwright.checker.composition.kinds.singular import MARGIN, Moduli, Norm, norm_of
from softwright.checker.composition.program import BITS, Feature, Form, Program, substituted
from softwright.checker.composition.rows import Coefficients, Columns, Row
from softwright.checker.composition.weights import Table
from softwright.checker.head import Head
from softwright.checker.precision import Precision
from softwright.checker.refusal import require
from softwright.checker.statement import Part, Statement
from softwright.checker.trees import Tree

STEEP = 1e4  # slopes of which what is known of errors is worth more than they are
BESIDE = 2.0**-20  # a constant to which a product that underflows adds less than a rounding
PIECES, MOST_PIECES = 4000, 64  # of the intervals of all boxes together, and of one
OPEN_PIECES = 100_000  # of the intervals on which these were too wide


@dataclass(frozen=True)
class Frame:
    """u = center + halfwidth t, and what is claimed of the head there; `order` and `tree` are hints."""

    center: fmpq
    halfwidth: fmpq
    exact: float
    rounding: float
    order: int
    tree: bytes


def prove_table(table: Table, output: int, function: Tree, frame: Frame, precision: Precision) -> int:
    """One output of a table against its function; returns the number of boxes, or raises."""
    data = {
        "keys": table.keys[:, None],
        "biases": table.biases,
        "values": table.values[:, output : output + 1],
    }
    if turns_at(function, frame.center):  # nothing may cancel where it is singular
        target = in_frame(frame.center, frame.halfwidth).tree(function)
    else:
        along = ("product", [(1, ("number", frame.halfwidth)), (1, ("variable", 0))])
        target = substituted(function, {0: ("sum", [(1, ("number", frame.center)), (1, along)])})
    part = Part(
        heads=[Head(data, None, [0], precision)],
        outputs=[[(1, target)]],
        constant=[arb(0)],
        exact=arb(frame.exact),
        rounding=arb(frame.rounding),
        tree=frame.tree,
        domain=([fmpq(-1)], [fmpq(1)]),
        center=[fmpq(0)],
        scale=[fmpq(1)],
        columns=[0],
        grids=[None],
    )
    bound = frame.exact + frame.rounding
    statement = Statement([part], bound, precision, frame.order, 1, None, True, [])
    proof, before = Proof(part, statement), ctx.prec
    with np.errstate(all="ignore"):  # overflows become infinities, which prove nothing
        proof.run(lambda _: None)
    ctx.prec = before
    return proof.boxes


class TableFeature:
    """One output of a table, bound to its head."""

    offset: Coefficients = {}  # noqa: RUF012  the feature is its column

    def __init__(self, feature: Feature, table: Table, frame: Frame, columns: Columns, run: Run) -> None:
        require(feature.function is not None, f"{feature.name} is no table")
        self.feature, self.frame = feature, frame
        self.function = Enclosed(feature.function)
        self.norm: Norm | None = None
        self.of_inputs = False
        self.room = 0.0  # that the errors of its argument took on the boxes of the last visit
        with ctx.workprec(BITS):
            half, center = arb(frame.halfwidth), arb(frame.center)
            self.half = above(half)
            self.low, self.high = above(center - half), -above(-center - half)
        wanted = columns.scaled(columns.expanded(feature.score), 1 / half, center)
        self.row = Row.of(wanted, table.score, run.precision)
        hidden = 4 * run.precision.exp_floor * (1 + float(np.abs(table.values).max()))
        self.exact, self.error = frame.exact, above(arb(frame.exact) + arb(frame.rounding) + arb(hidden))

    def know(self, program: Program, kinds: Sequence[object]) -> None:
        """What its argument is made of, for a function that is singular at the centre of its frame."""
        self.norm = norm_of(self.feature, program, kinds, self.frame.center, self.row)
        self.of_inputs = all(i < program.inputs for i, _ in self.feature.score.terms)

    @functools.cached_property
    def moduli(self) -> Moduli:
        sides = [Enclosed(on_side(self.frame.center, side).tree(self.feature.function)) for side in (1, -1)]
        return Moduli([(side.plain_values, side.plain_slopes) for side in sides], self.half)

    def singular(self, flow: Flow, moved: Array) -> tuple[Array, list[tuple[Form, float]]]:
        """What errors of its argument do where its slope is unbounded, and slopes by the roots of a norm."""
        moduli, n = self.moduli, flow.count
        if self.norm is not None:
            off = upper_product(moduli.by_root, self.norm.error(flow, self.row, self.half))
            steep = [(z, above(c.sqrt()) * moduli.by_root * MARGIN) for c, z, *_ in self.norm.parts]
            return upper_sum(off, np.full(n, moduli.rest)), steep
        if self.of_inputs and self.row.is_relative:
            off = np.full(n, 1.01 * self.row.precision.unit * moduli.relative)
            if self.row.weights[0] < BESIDE:  # else what a product loses is nothing beside the constant
                flushed = max(8 * self.half * self.row.precision.smallest, 2 * float(moduli.edges[-1]))
                off = upper_sum(off, moduli.omega(np.full(n, flushed)))
            return upper_sum(off, np.full(n, moduli.rest)), []
        return moduli.omega(moved), []

    def visit(self, flow: Flow) -> Visit:
        u, rho = flow.range(self.feature.score), charged(self.row, flow.sizes)
        moved = upper_sum(flow.error(self.feature.score), upper_product(self.half, rho.all))
        self.room = float(moved.max())
        run = u.widened(moved)
        outside = ~((run.lower >= self.low) & (run.upper <= self.high))
        within = Interval(np.clip(run.lower, self.low, self.high), np.clip(run.upper, self.low, self.high))
        found, slope, smooth = self.function.over(u.meet(within).where(~outside, within), within)
        steep = slope.size
        real = upper_sum(np.full(flow.count, self.exact), upper_product(steep, self.half, rho.real))
        own = upper_sum(np.full(flow.count, self.error), upper_product(steep, self.half, rho.all))
        through = upper_product(steep, flow.error(self.feature.score))
        partials = [(self.feature.score, slope)]
        hard = ~smooth | (steep > STEEP)
        if hard.any():
            zero = np.zeros(flow.count)
            off, roots = self.singular(flow, moved)
            values, sure = self.function.plain_values(u.meet(within).where(~outside, within))
            found, smooth = values.where(hard, found), np.where(hard, sure, smooth).astype(bool)
            extra = upper_sum(off, np.full(flow.count, self.error))
            bare = upper_sum(off, np.full(flow.count, self.exact))
            own, real = np.where(hard, extra, own), np.where(hard, bare, real)
            partials = [(self.feature.score, Interval(zero, zero).where(hard, slope))]
            through = np.where(hard, 0.0, through)
            for form, most in roots:
                size = np.where(hard, most, 0.0)
                partials.append((form, Interval(-size, size)))
                through = upper_sum(through, upper_product(size, flow.error(form)))
        trouble = outside | ~smooth | ~np.isfinite(own)
        column = upper_sum(found.size, through, own)
        return Visit(found, partials, own, real, column, trouble, through)


class Enclosed:
    """A function of one variable: its values and its slopes over many intervals, each cut into pieces."""

    def __init__(self, function: Tree) -> None:
        dag = Dag()
        self.variable = dag.variable(0)
        self.target = dag.tree(function, [self.variable])
        self.enclosing = Enclosing(dag)

    def over(self, exact: Interval, run: Interval) -> tuple[Interval, Interval, Array]:
        """Values over `exact`, slopes over `run`, which holds it, and where both are certain."""
        slope, sure = self._hulls(run, slopes=True)
        found, defined = self._hulls(exact, slopes=False)
        # Between its ends a monotone function stays between its values there.
        low, high = (self._values(Interval(end, end))[0] for end in (exact.lower, exact.upper))
        rising, falling = sure & (slope.lower >= 0), sure & (slope.upper <= 0)
        ends = Interval(low.lower, high.upper).where(rising, Interval(high.lower, low.upper))
        met = found.meet(ends)
        found = met.where((rising | falling) & (met.lower <= met.upper), found)
        return found, slope, sure & defined & slope.finite

    def plain_values(self, u: Interval) -> tuple[Interval, Array]:
        """Values over intervals as they are."""
        return self._values(u)

    def plain_slopes(self, u: Interval) -> tuple[Interval, Array]:
        values, masks = self.enclosing.values([self.target], {self.variable: u}, len(u))
        return self.enclosing.slopes(self.target, {self.variable: u}, values)[self.variable], masks[self.target]

    def _values(self, u: Interval) -> tuple[Interval, Array]:
        values, masks = self.enclosing.values([self.target], {self.variable: u}, len(u))
        return values[self.target], masks[self.target]

    def _hulls(self, u: Interval, slopes: bool) -> tuple[Interval, Array]:
        found, sure = self._pieced(u, slopes, int(np.clip(PIECES // len(u), 1, MOST_PIECES)))
        if not sure.all():  # wide pieces may hide that it is defined
            open_ = np.flatnonzero(~sure)
            pieces = int(np.clip(OPEN_PIECES // len(open_), MOST_PIECES, 8 * MOST_PIECES))
            better, sure[open_] = self._pieced(Interval(u.lower[open_], u.upper[open_]), slopes, pieces)
            found.lower[open_], found.upper[open_] = better.lower, better.upper
        return found, sure

    def _pieced(self, u: Interval, slopes: bool, pieces: int) -> tuple[Interval, Array]:
        count = len(u)
        shares = np.arange(1, pieces) / pieces
        inner = np.clip(u.lower[:, None] + shares * (u.upper - u.lower)[:, None], u.lower[:, None], u.upper[:, None])
        edges = np.concatenate([u.lower[:, None], inner, u.upper[:, None]], axis=1)
        edges = np.maximum.accumulate(np.nan_to_num(edges, nan=0.0), axis=1)
        cut = Interval(edges[:, :-1].ravel(), edges[:, 1:].ravel())
        given = {self.variable: cut}
        values, masks = self.enclosing.values([self.target], given, len(cut))
        found = self.enclosing.slopes(self.target, given, values)[self.variable] if slopes else values[self.target]
        lower, upper = found.lower.reshape(count, pieces), found.upper.reshape(count, pieces)
        sure = np.asarray(masks[self.target].reshape(count, pieces).all(axis=1))
        return Interval(lower.min(axis=1), upper.max(axis=1)), sure
