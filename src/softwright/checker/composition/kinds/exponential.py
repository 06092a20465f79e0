"""z exp(T) by one gate with score T - m and factor g = e^m: g sigma(T - m) z = z e^T/(1 + e^(T - m)).

m is taken to be log g, so that the factor errs by nothing and what the score's row misses is in its deviation rho. With
T' = T + rho and z' = z + s as they run, the gate is within |z'| e^T' e^(T' - m) of z' e^T' in real arithmetic, which
differs from z e^T by no more than |z'| e^T' rho + e^T' s: derivatives over the whole way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from flint import arb, ctx

from softwright.checker.composition.intervals import Interval
from softwright.checker.composition.kinds.gates import Run, charged
from softwright.checker.composition.kinds.kind import Flow, Visit, upper_product, upper_sum
from softwright.checker.composition.program import BITS, Feature
from softwright.checker.composition.rows import Coefficients, Columns, Row
from softwright.checker.composition.weights import Gate
from softwright.checker.refusal import require


class Exponential:
    """An exponential bound to its gate."""

    offset: Coefficients = {}  # noqa: RUF012  the feature is its column

    def __init__(self, feature: Feature, gates: Sequence[Gate], columns: Columns, run: Run) -> None:
        (gate,) = gates
        require(gate.factor > 0, f"the factor of {feature.name} is not e^m")
        self.feature = feature
        with ctx.workprec(BITS):
            self.shift = arb(gate.factor).log()
        wanted = columns.scaled(columns.expanded(feature.score), arb(1), self.shift)
        self.score = Row.of(wanted, gate.score, run.precision)
        self.value = Row.of(columns.expanded(feature.value), gate.value, run.precision)
        self.underflow, self.error = run.underflow(gates), math.nextafter(sum(run.error(1)), math.inf)

    def visit(self, flow: Flow) -> Visit:
        feature = self.feature
        T, z = flow.range(feature.score), flow.range(feature.value)
        rho, off = charged(self.score, flow.sizes), charged(self.value, flow.sizes)
        T_run = T.widened(upper_sum(flow.error(feature.score), rho.all))
        z_run = z.widened(upper_sum(flow.error(feature.value), off.all))
        grown, size = T_run.exp(), z_run.size
        small = (
            (T_run - Interval.ball(self.shift, flow.count)).exp().upper
        )  # sigma(a) <= e^a, and 1/(1 + e^a) >= 1 - e^a
        at_most = upper_product(grown.upper, size)
        real, own = (
            upper_sum(
                upper_product(at_most, small), upper_product(at_most, rows[0]), upper_product(grown.upper, rows[1])
            )
            for rows in ((rho.real, off.real), (rho.all, off.all))
        )
        lost = upper_product(self.underflow, upper_sum(np.ones(flow.count), size))
        own = upper_sum(own, upper_product(self.error, at_most), lost)
        column = upper_sum(upper_product(at_most, 1 + self.error), lost)
        partials = [(feature.score, grown * z_run), (feature.value, grown)]
        return Visit(T.exp() * z, partials, own, real, column, ~np.isfinite(own))
