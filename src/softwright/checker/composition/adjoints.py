"""How errors of features reach the outputs: forward ranges and errors, then interval adjoints, on many boxes at once.

What runs computes  y^_j = phi_j(forms(y^)) + delta_j  for the exact features y_j = phi_j(forms(y)); delta_j, at most
`own`, is what the heads of the feature and the rows that they read add. Put a factor theta in [0, 1] before all delta:
the outputs move from the exact ones to those that run, and by the mean value theorem

    |out^ - out|  <=  sum_j |a_j| own_j + rows of the output,      a_j = d out/d y_j somewhere on the way.

Going forward, the error E_j of every feature is bounded by what the errors of its forms become through its partial
derivatives, plus its own; forms stay, for every theta, within their exact ranges widened by the errors that have built
up, and partial derivatives are enclosed over these. So adjoints are enclosed from the outputs back. Where max(d, 0) may
turn, its slope is anything in [0, 1]: on the way, d either stays 0, or is 0 at single moments alone.

Ranges of forms are sums of ranges with one exception: a x^2 + b x, where x^2 is a feature of its own, is enclosed as
a (x + b/(2a))^2 - b^2/(4a). Ranges of forms over the whole box that were proved otherwise (`limits`) are taken in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from flint import arb, ctx

from softwright.checker.composition.intervals import Interval, above, below
from softwright.checker.composition.kinds.kind import Array, Kind, Visit, upper_product, upper_sum
from softwright.checker.composition.program import BITS, Form, Program
from softwright.checker.composition.rows import ROOM, Row
from softwright.checker.limits import check_time

Linear = tuple[arb, dict[int, arb]]  # constant, coefficients by variable


@dataclass(frozen=True)
class Sums:
    """On each box, the largest over the outputs: the bound as it runs and in real arithmetic; and what went wrong."""

    all: Array
    real: Array
    trouble: Array
    blame: Array  # the feature (by place) whose visit had trouble first, -1 without
    pull: Array  # (n, inputs): how much each input seems to matter


class Network:
    """A program bound to its heads."""

    def __init__(self, program: Program, kinds: Sequence[Kind], outputs: Sequence[Row], largest: float) -> None:
        self.program, self.kinds, self.outputs = program, kinds, outputs
        self.limit = largest / ROOM  # of columns as they run
        self.limits: dict[object, tuple[float, float]] = {}  # key of a form -> its range over the whole box
        self.squares = {
            feature.place: feature.score.terms[0][0]
            for feature in program.features
            if feature.is_square and _plain(feature.score)
        }

    def sums(self, lower: Array, upper: Array) -> Sums:
        """What is proved on boxes (n, d)."""
        with np.errstate(all="ignore"):
            flow = Forward(self, lower, upper)
            flow.run()
            sums = _backward(self, flow)
            _pull_of_blamed(self, flow, sums.pull)
            return sums


def _plain(form: Form) -> bool:
    """Whether a form is a variable itself."""
    return len(form.terms) == 1 and form.offset == 0 and form.balls[form.terms[0][0]] == 1


class Forward:
    """Ranges, errors and sizes of columns, feature by feature."""

    def __init__(self, network: Network, lower: Array, upper: Array) -> None:
        self.network, self.count = network, len(lower)
        program = network.program
        self.lower, self.upper = lower, upper
        self.ranges = [Interval(lower[:, i], upper[:, i]) for i in range(program.inputs)]
        self.errors = [np.zeros(self.count) for _ in range(program.inputs)]
        self.sizes = np.zeros((self.count, 1 + program.inputs + len(program.features)))
        self.sizes[:, 0] = 1.0
        self.sizes[:, 1 : 1 + program.inputs] = np.maximum(np.abs(lower), np.abs(upper))
        self.visits: list[Visit] = []
        self.trouble = np.zeros(self.count, dtype=bool)
        self.blame = np.full(self.count, -1)

    def run(self) -> None:
        for feature, kind in zip(self.network.program.features, self.network.kinds, strict=True):
            check_time()
            visit = kind.visit(self)
            through = visit.through
            if through is None:
                through = upper_sum(*(upper_product(slope.size, self.error(form)) for form, slope in visit.partials))
            error = upper_sum(through, visit.own)
            good = visit.range.finite & np.isfinite(error) & (visit.column < self.network.limit) & ~visit.trouble
            self.blame[~good & ~self.trouble] = feature.place
            self.trouble |= ~good
            # What follows on a box with trouble is not used; it must only be free of what is not a number.
            self.ranges.append(Interval(np.where(good, visit.range.lower, 0.0), np.where(good, visit.range.upper, 0.0)))
            self.errors.append(np.where(good, error, 0.0))
            self.sizes[:, 1 + feature.place] = np.where(good, visit.column, 0.0)
            self.visits.append(visit)

    # Forms ----------------------------------------------------------------------------------------------------------

    def range(self, form: Form) -> Interval:
        found = self._linear((form.offset, form.balls))
        limit = self.network.limits.get(form.key) if self.network.limits else None
        if limit is None:
            return found
        low, high = limit
        met = Interval(np.maximum(found.lower, low), np.minimum(found.upper, high))
        return met.where(met.lower <= met.upper, found)

    def error(self, form: Form) -> Array:
        return self._linear_error(form.balls)

    def combined(self, parts: Sequence[tuple[float, Form]]) -> Interval:
        return self._linear(_combined(parts))

    def combined_error(self, parts: Sequence[tuple[float, Form]]) -> Array:
        return self._linear_error(_combined(parts)[1])

    def _linear(self, linear: Linear) -> Interval:
        constant, rest = linear[0], dict(linear[1])
        found = []
        for k, root in self.network.squares.items():
            if k in rest and root in rest and not rest[k].contains(0):
                a, b = rest.pop(k), rest.pop(root)
                with ctx.workprec(BITS):
                    shift, less = b / (2 * a), b * b / (4 * a)
                    constant = constant - less
                found.append((self.ranges[root] + _ball(shift)).square() * _ball(a))
        found += [self.ranges[i] * _ball(c) for i, c in rest.items()]
        total = Interval(np.full(self.count, below(constant)), np.full(self.count, above(constant)))
        for interval in found:
            total = total + interval
        return total

    def _linear_error(self, coefficients: Mapping[int, arb]) -> Array:
        inputs = self.network.program.inputs
        parts = [upper_product(above(abs(c)), self.errors[i]) for i, c in coefficients.items() if i >= inputs]
        return upper_sum(*parts) if parts else np.zeros(self.count)


def _ball(c: arb) -> Interval:
    """One interval for all boxes."""
    return Interval(np.array([below(c)]), np.array([above(c)]))


def _combined(parts: Sequence[tuple[float, Form]]) -> Linear:
    with ctx.workprec(BITS):
        constant, found = arb(0), {}
        for factor, form in parts:
            constant += factor * form.offset
            for i, c in form.balls.items():
                found[i] = found.get(i, arb(0)) + factor * c
    return constant, {i: c for i, c in found.items() if not c.is_zero()}


def _pull_of_blamed(network: Network, flow: Forward, pull: Array) -> None:
    """Where a feature had trouble: how much each input seems to matter to what it reads, put into `pull`.

    Which side of a box is halved is a matter of luck and not of proof, so plain floats will do.
    """
    program, inputs = network.program, network.program.inputs
    sides = flow.upper - flow.lower
    for place in sorted({int(p) for p in flow.blame if p >= 0}):
        rows = np.flatnonzero(flow.blame == place)
        matters = np.zeros((inputs + len(program.features), len(rows)))
        for form in program.features[place - inputs].forms:
            for i, c in form.balls.items():
                matters[i] += abs(float(c.mid()))
        for feature, visit in zip(reversed(program.features), reversed(flow.visits), strict=True):
            if feature.place >= place or not matters[feature.place].any():
                continue
            for read, slope in visit.partials:
                sent = matters[feature.place] * np.broadcast_to(slope.size, (flow.count,))[rows]
                for i, c in read.balls.items():
                    matters[i] += sent * abs(float(c.mid()))
        pull[rows] = np.nan_to_num(matters[:inputs].T * sides[rows], nan=0.0, posinf=0.0)


def _backward(network: Network, flow: Forward) -> Sums:
    program, n = network.program, flow.count
    every, real = np.zeros(n), np.zeros(n)
    pull = np.zeros((n, program.inputs))
    trouble, sides = flow.trouble.copy(), flow.upper - flow.lower
    for form, row in zip(program.outputs, network.outputs, strict=True):
        check_time()
        zero = np.zeros(n)
        adjoints = [Interval(zero, zero)] * (program.inputs + len(program.features))
        for i, c in form.balls.items():
            adjoints[i] = adjoints[i] + _ball(c)
        for feature, visit in zip(reversed(program.features), reversed(flow.visits), strict=True):
            own = adjoints[feature.place]
            for read, slope in visit.partials:
                sent = own * slope
                for i, c in read.balls.items():
                    adjoints[i] = adjoints[i] + sent * _ball(c)
        lost = row.lost(flow.sizes)
        sums = [
            upper_sum(start, *(upper_product(adjoints[f.place].size, error) for f, error in parts))
            for start, parts in (
                (lost, [(f, v.real) for f, v in zip(program.features, flow.visits, strict=True)]),
                (
                    lost + row.rounded(flow.sizes),
                    [(f, v.own) for f, v in zip(program.features, flow.visits, strict=True)],
                ),
            )
        ]
        real, every = np.maximum(real, sums[0]), np.maximum(every, sums[1])
        for i in range(program.inputs):
            pull[:, i] = np.maximum(pull[:, i], np.nan_to_num(adjoints[i].size * sides[:, i], nan=0.0, posinf=0.0))
    bad = ~(np.isfinite(every) & np.isfinite(real))
    return Sums(every, real, trouble | bad, flow.blame, pull)
