"""z [c > 0] by one gate with score B c and value z, claimed of points with |c| >= gap alone; the feature is its column.

Where |c| >= gap, and the score as it runs is B c' with |c' - c| <= e < gap, its weight is within 1/(1 + e^s), s =
B (gap - e), of [c > 0]. The indicator itself is one and the same number before and after the errors of z, so the
feature is linear in z, with slope 0 or 1, and errors of c reach nothing but that weight. Where c comes within the gap
of 0 on a box, both indicators are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from flint import arb, ctx

from softwright.checker.composition.intervals import Interval, above, below
from softwright.checker.composition.kinds.gates import Run, charged
from softwright.checker.composition.kinds.kind import Flow, Visit, upper_product, upper_sum
from softwright.checker.composition.program import BITS, Feature
from softwright.checker.composition.rows import Coefficients, Columns, Row, scale_of
from softwright.checker.composition.weights import Gate
from softwright.checker.refusal import NotProvedError, require


class Step:
    """A step bound to its gate."""

    offset: Coefficients = {}  # noqa: RUF012  the feature is its column

    def __init__(self, feature: Feature, gates: Sequence[Gate], columns: Columns, run: Run) -> None:
        (gate,) = gates
        require(run.gap > 0, f"{feature.name} is a step, and the claim excludes no bands")
        self.feature, self.gap = feature, run.gap
        score = columns.expanded(feature.score)
        slope = scale_of(score, gate.score)
        if slope is None:
            raise NotProvedError(f"the gate of {feature.name} does not read its condition")
        with ctx.workprec(BITS):
            require(slope > 0, f"the gate of {feature.name} is the wrong way round")
            self.slope, self.inverse = below(slope), above(1 / slope)
            self.missed = above(abs(arb(gate.factor) - 1))
        self.factor = abs(gate.factor)
        self.score = Row.of(columns.scaled(score, slope, arb(0)), gate.score, run.precision)
        self.value = Row.of(columns.expanded(feature.value), gate.value, run.precision)
        self.underflow, self.error = run.underflow(gates), math.nextafter(sum(run.error(1)), math.inf)

    def visit(self, flow: Flow) -> Visit:
        feature, n = self.feature, flow.count
        rho, off = charged(self.score, flow.sizes), charged(self.value, flow.sizes)
        c, z = flow.range(feature.score), flow.range(feature.value)
        indicator = Interval((c.lower >= self.gap).astype(float), (c.upper > -self.gap).astype(float))
        missed = upper_sum(flow.error(feature.score), upper_product(self.inverse, rho.all))
        room = np.nextafter(self.gap - missed, -np.inf)
        trouble = ~(room > 0)
        with np.errstate(all="ignore"):
            steep = np.where(trouble, 0.0, np.nextafter(room * self.slope, -np.inf))
        wrong = Interval(-steep, -steep).exp().upper  # 1/(1 + e^s) <= e^-s
        size = upper_sum(z.widened(flow.error(feature.value)).size, off.all)
        real, own = (
            upper_sum(upper_product(wrong, size), rows, upper_product(self.missed, size))
            for rows in (off.real, off.all)
        )
        lost = upper_product(self.underflow, upper_sum(np.ones(n), size))
        own = upper_sum(own, upper_product(self.error, self.factor, size), lost)
        column = upper_sum(upper_product(self.factor, size, 1 + self.error), lost)
        partials = [(feature.value, indicator)]
        return Visit(indicator * z, partials, own, real, column, trouble | ~np.isfinite(own))
