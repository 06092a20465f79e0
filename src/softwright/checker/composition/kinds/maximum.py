"""b + max(d, 0) by one gate with score B d and value d; the feature is its column plus b.

|sigma(B d) d - max(d, 0)| <= W(1/e)/B with Lambert's W: for d >= 0 the difference is d/(1 + e^(B d)), and x/(1 + e^x)
is largest where x - 1 = e^-x. A score that is off by rho is that of d' with |d' - d| <= rho/B; max(., 0) moves by no
more, and the value differs from d' by rho/B and its own s: in all 2 rho/B + s. A factor g other than 1 adds |g - 1|
|d|.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from flint import arb, ctx

from softwright.checker.composition.intervals import Interval, above
from softwright.checker.composition.kinds.gates import Run, charged
from softwright.checker.composition.kinds.kind import Flow, Visit, upper_product, upper_sum
from softwright.checker.composition.program import BITS, Feature
from softwright.checker.composition.rows import Columns, Row, scale_of
from softwright.checker.composition.weights import Gate
from softwright.checker.refusal import NotProvedError, require


class Maximum:
    """A maximum bound to its gate."""

    def __init__(self, feature: Feature, gates: Sequence[Gate], columns: Columns, run: Run) -> None:
        (gate,) = gates
        self.feature = feature
        score = columns.expanded(feature.score)
        slope = scale_of(score, gate.score)
        if slope is None:
            raise NotProvedError(f"the gate of {feature.name} does not read its score")
        with ctx.workprec(BITS):
            require(slope > 0, f"the gate of {feature.name} is the wrong way round")
            self.inverse, self.lemma = above(1 / slope), above(arb(-1).exp().lambertw() / slope)
            self.missed = above(abs(arb(gate.factor) - 1))
        self.factor = abs(gate.factor)
        self.score = Row.of(columns.scaled(score, slope, arb(0)), gate.score, run.precision)
        self.value = Row.of(score, gate.value, run.precision)
        self.offset = columns.expanded(feature.base)
        self.underflow, self.error = run.underflow(gates), math.nextafter(sum(run.error(1)), math.inf)

    def visit(self, flow: Flow) -> Visit:
        feature, n = self.feature, flow.count
        rho, off = charged(self.score, flow.sizes), charged(self.value, flow.sizes)
        d = flow.range(feature.score)
        d_run = d.widened(flow.error(feature.score))
        size = upper_sum(d_run.size, off.all)
        lemma = np.full(n, self.lemma)
        real, own = (
            upper_sum(lemma, upper_product(2 * self.inverse, rows[0]), rows[1], upper_product(self.missed, size))
            for rows in ((rho.real, off.real), (rho.all, off.all))
        )
        lost = upper_product(self.underflow, upper_sum(np.ones(n), size))
        own = upper_sum(own, upper_product(self.error, self.factor, size), lost)
        column = upper_sum(upper_product(self.factor, size, 1 + self.error), lost)
        slope = Interval((d_run.lower > 0).astype(float), (d_run.upper > 0).astype(float))
        one = Interval(np.ones(n), np.ones(n))
        first = flow.combined([(1.0, feature.score), (1.0, feature.base)])
        second = flow.range(feature.base)
        mean = flow.combined([(0.5, feature.score), (1.0, feature.base)])  # max(a, b) >= (a + b)/2: 0 for abs
        found = first.maximum(second)
        found = Interval(np.maximum(found.lower, np.minimum(mean.lower, found.upper)), found.upper)
        through = np.maximum(flow.combined_error([(1.0, feature.score), (1.0, feature.base)]), flow.error(feature.base))
        partials = [(feature.score, slope), (feature.base, one)]
        return Visit(found, partials, own, real, column, ~np.isfinite(own), through)
