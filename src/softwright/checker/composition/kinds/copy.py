"""A copy: a form in a column of its own, by a head that looks at the data token alone, with weight exactly 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from softwright.checker.composition.intervals import Interval
from softwright.checker.composition.kinds.gates import Run, charged
from softwright.checker.composition.kinds.kind import Flow, Visit, upper_sum
from softwright.checker.composition.program import Feature
from softwright.checker.composition.rows import Coefficients, Columns, Row
from softwright.checker.composition.weights import Gate
from softwright.checker.refusal import require


class Copy:
    """A copy bound to its head. One weight, of one token, is e^0 over itself: its quotient rounds nothing."""

    offset: Coefficients = {}  # noqa: RUF012  the feature is its column

    def __init__(self, feature: Feature, gates: Sequence[Gate], columns: Columns, run: Run) -> None:
        (gate,) = gates
        require(gate.alone and gate.factor == 1.0, f"the head of {feature.name} does not copy")
        self.feature, self.tiny = feature, 16 * (1 + run.rescalings) * run.precision.smallest
        self.row = Row.of(columns.expanded(feature.score), gate.value, run.precision)

    def visit(self, flow: Flow) -> Visit:
        z, off = flow.range(self.feature.score), charged(self.row, flow.sizes)
        one = Interval(np.ones(flow.count), np.ones(flow.count))
        own = upper_sum(off.all, np.full(flow.count, self.tiny))
        column = upper_sum(z.size, flow.error(self.feature.score), own)
        return Visit(z, [(self.feature.score, one)], own, off.real, column, ~np.isfinite(own))
