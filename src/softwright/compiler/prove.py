"""The bound of a compiled network: errors of heads times adjoints, added up box by box.

Going forward, the error E_j of every feature on every box is bounded by what its arguments' errors become through its
partial derivatives, plus its own; the error of a form plus its rounding must stay within the form's slack, and the
error of a column within what its size allows: both are checked, and nothing is proved if one fails. Then

    |out^ - out| <= max over boxes of  sum_j |a_j| e_j + sum_j |a_j phi_j'| rho_j  + rounding of the output's form.

The exact part of the bound is the same sum in real arithmetic, where weights are off and heads are not exact, but
nothing else rounds; the rounding part is what is left, on the box where that is most. Who proves it again reads scales
and centres off rounded weights, which differ from those meant here by units of rounding: the exact part has ROUNDED of
the rounding part more than was found.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from flint import arb

from softwright.compiler.adjoints import Analysis, Partial, magnitude
from softwright.compiler.features import COPY, EXPONENTIAL, INPUT, MAXIMUM, PRODUCT, STEP, TABLE, Feature
from softwright.compiler.forms import Form
from softwright.compiler.gates import LAMBERT
from softwright.compiler.heads import Columns, Heads, Row, TableHead
from softwright.compiler.nodes import Node, constant_interval
from softwright.precision import Precision
from softwright.result.certificate import sum_rounded_up

ROUNDED = 1 / 8
_TINY = 1e-290  # what underflow may add where nothing else is lost, as with a copy of an input
_ROOM_TO_CHECK = 2.0  # moduli are found again with other cells and coarser sizes
_DECADES, _ROUNDING_ROOM = 1e-7, 1.5  # tables over more decades than this are rounded otherwise by other bounds
ROOM = 0.01  # columns may exceed the size of their exact values by this share


def up(array: np.ndarray) -> np.ndarray:
    """Rounded up generously after a few float operations on numbers that are not negative."""
    return array * (1.0 + 1e-13) + 1e-320


@dataclass
class Rows:
    """The weights of every form that a head reads, with their roundings in the units of the form."""

    score: dict[int, Row] = field(default_factory=dict)  # by feature; of the first head of a product
    value: dict[int, Row] = field(default_factory=dict)
    scores: dict[int, list[Row]] = field(default_factory=dict)  # of each head of a product
    outputs: list[Row] = field(default_factory=list)


_LARGEST = {"float64": 1e100, "float32": 1e30}  # sums of products of such weights stay within the type


def weight_faults(heads: Heads, rows: Rows, precision_: Precision) -> tuple[str, ...]:
    """Weights that lie so far out of the type's range that the bounds on sums of them, here and elsewhere, fail."""
    forms = [*rows.score.values(), *rows.value.values(), *rows.outputs]
    forms += [row for each in rows.scores.values() for row in each]
    sizes = [abs(weight) for row in forms for weight in row.weights.values()] + list(map(abs, heads.factors))
    for head in heads.tables:
        sizes += [float(np.abs(array).max()) for array in (head.table.keys, head.table.biases, head.table.values)]
    largest = max(sizes, default=0.0)
    faults = []
    if not largest < _LARGEST[precision_.name]:
        faults.append(f"a weight would be {largest:.3g}, too large for proofs in {precision_.name}")
    if not all(abs(factor) >= precision_.smallest for factor in heads.factors):
        faults.append(f"a gate would write its result times a number that {precision_.name} cannot hold")
    return tuple(faults)


def rows_of(heads: Heads, columns: Columns) -> Rows:
    """All weights. Scores of tables are in the unit frame, those of gates as they enter the softmax."""
    found = Rows()
    for head in heads.tables:
        scale = 1 / (arb(head.frame.halfwidth.numerator) / head.frame.halfwidth.denominator)
        center = arb(head.frame.center.numerator) / head.frame.center.denominator
        row = columns.row(head.atom, scale, center * scale)
        for k in head.features:
            found.score[k] = row
    features = columns.program.features
    for k, gate in heads.products.items():
        step = arb(gate.angle) / arb(gate.halfwidth)
        found.scores[k] = [
            columns.row(features[k].score, step * (q + 1), arb(gate.center) * step * (q + 1)) for q in range(gate.heads)
        ]
        found.value[k] = columns.row(features[k].value)
    for k, gate in heads.exponentials.items():
        found.score[k] = columns.row(features[k].score, 1.0, gate.shift)
        found.value[k] = columns.row(features[k].value)
    for k, gate in heads.maxima.items():
        found.score[k] = columns.row(features[k].score, gate.slope)
        found.value[k] = columns.row(features[k].score)
    for k, gate in heads.steps.items():
        found.score[k] = columns.row(features[k].score, gate.slope)
        found.value[k] = columns.row(features[k].value)
    for k in heads.copies:
        found.value[k] = columns.row(features[k].score)
    found.outputs = [columns.row(form) for form in columns.program.outputs]
    return found


@dataclass(frozen=True)
class Proof:
    """What was proved: the bound, its shares by feature, and where each stands (box of the largest sum)."""

    bound: float
    exact: float  # the bound in real arithmetic with the weights as they are
    rounding: float  # what rounding may add to it
    shares: dict[int, float]  # by feature, over all boxes
    slopes: dict[int, float]  # largest adjoint by feature
    faults: tuple[str, ...]  # slacks that errors exceed: nothing is proved if there is one
    short: Mapping[int, float] = field(default_factory=dict)  # what singular tables' arguments may be off by, if more


class Ledger:
    """The errors of the heads of one network, in real arithmetic and by rounding, per box."""

    def __init__(
        self,
        analysis: Analysis,
        heads: Heads,
        rows: Rows,
        table_errors: Mapping[int, tuple[float, float]],
        precision: Precision,
    ) -> None:
        self.analysis, self.heads, self.rows, self.precision = analysis, heads, rows, precision
        self.table_errors = table_errors
        self.frames: dict[int, TableHead] = {k: head for head in heads.tables for k in head.features}

    def own_error(self, feature: Feature, slacks: Mapping[tuple[int, str], float]) -> tuple[np.ndarray, np.ndarray]:
        """(all, in real arithmetic) (n,) of a feature's heads, without what enters through score and value of tables
        and exponentials."""
        k, n = feature.number, self.analysis.boxes
        if feature.kind == TABLE:
            exact, rounding = self.table_errors[k]
            extra = 0.0 if feature.end is None else _ROOM_TO_CHECK * self._moved(feature, slacks[k, "score"])
            return up(np.full(n, exact + rounding + extra)), up(np.full(n, exact + extra))
        if feature.kind == COPY:
            return np.full(n, self.rows.value[k].rounding), np.full(n, self.rows.value[k].lost)
        forward = self.analysis.forward
        if feature.kind == PRODUCT:
            gate = self.heads.products[k]
            z = up(magnitude(forward.form(feature.value)) + slacks[k, "value"])
            # a rounding of score q by rho moves sigma by at most rho/4
            pairs = list(zip(gate.factors, self.rows.scores[k], strict=True))
            scores = sum(abs(g) * row.rounding / 4.0 for g, row in pairs)
            missed = sum(abs(g) * row.lost / 4.0 for g, row in pairs)
            real = up(z * (gate.truncation + missed) + gate.value_weight * 1.001 * self.rows.value[k].lost)
            rounding = up(z * (gate.rounding + scores) + gate.value_weight * 1.001 * self.rows.value[k].rounding)
            return up(z * gate.truncation + rounding + gate.underflow * (1.0 + z)), real
        if feature.kind == EXPONENTIAL:
            gate = self.heads.exponentials[k]
            score = forward.form(feature.score).upper + slacks[k, "score"]
            z = up(magnitude(forward.form(feature.value)) + slacks[k, "value"])
            grown = up(np.exp(score) * (1 + 1e-12)) * z
            return up(gate.relative * grown + gate.underflow * (1.0 + z)), up(gate.truncation * grown)
        if feature.kind == STEP:
            gate = self.heads.steps[k]
            z = up(magnitude(forward.form(feature.value)) + slacks[k, "value"])
            rounding = z * gate.rounding(self.precision) + 8.0 * self.precision.smallest * (1.0 + z)
            return up(z * gate.truncation() + rounding), up(z * gate.truncation())
        gate = self.heads.maxima[k]
        size = float(magnitude(forward.form(feature.score)).max()) + slacks[k, "score"]
        score, value = self.rows.score[k], self.rows.value[k]
        total = gate.error(self.precision, size, score.rounding, value.rounding)
        return np.full(n, total), up(np.full(n, (LAMBERT + 2 * score.lost) / gate.slope + value.lost))

    def _moved(self, feature: Feature, slack: float) -> float:
        """What errors of its argument do to a table with an unbounded slope: by relative errors where they are so."""
        k = feature.number
        moduli = self.analysis.moduli[k]
        roots = self.analysis.program.roots_of(feature)
        if roots is not None:
            tiny = 2.0 * math.sqrt(len(roots) * 1e4 * self.precision.smallest)
            return float(up(np.asarray(moduli.by_root * (1.5 * self._norm_error(feature, roots) + tiny) + moduli.rest)))
        if self._is_exact(feature):
            return float(up(np.asarray(moduli.relative * 1.01 * self.precision.unit + moduli.rest)))
        return moduli.omega(slack)

    def _norm_error(self, feature: Feature, roots: list[tuple[Node, int]]) -> float:
        """sum sqrt(c_i) eta_i: the square of column z_i errs by eta_i |z_i|, and so does what the table's row reads."""
        row, half = self.rows.score[feature.number], float(self.frames[feature.number].frame.halfwidth)
        gamma = 1.01 * len(row.weights) * self.precision.unit
        total = 0.0
        for (c, root), (square, _) in zip(roots, feature.score, strict=True):
            gate, size = self.heads.products[square], float(magnitude(constant_interval(c)))
            scores = sum(abs(g) * r.rounding / 4.0 for g, r in zip(gate.factors, self.rows.scores[square], strict=True))
            eta = gate.truncation + gate.rounding + scores
            for column, weight in ((1 + square, 1.01 * gate.value_weight), (1 + root, 1.0)):
                read = row.missed.get(column, 0.0) + gamma * abs(row.weights.get(column, 0.0))
                eta += half * read * weight / size * (1 + 1e-12)
            total += math.sqrt(size) * eta * (1 + 1e-12)
        return total

    def score_rounding(self, feature: Feature, real: bool = False) -> float:
        """Of the form itself, in its own units; gates of products and maxima have charged it already."""
        if feature.kind not in (TABLE, EXPONENTIAL) or (feature.end is not None and self._is_exact(feature)):
            return 0.0
        row = self.rows.score[feature.number]
        rounding = row.lost if real else row.rounding
        if feature.kind == TABLE:
            return rounding * float(self.frames[feature.number].frame.halfwidth) * (1 + 1e-12)
        return rounding

    def _is_exact(self, feature: Feature) -> bool:
        """Whether nothing but a relative rounding enters through the score, which is charged already."""
        inputs = len(self.analysis.program.names)
        return self.rows.score[feature.number].is_relative and all(j < inputs for j, _ in feature.score)

    def value_rounding(self, feature: Feature, real: bool = False) -> float:
        if feature.kind not in (EXPONENTIAL, STEP):
            return 0.0
        return self.rows.value[feature.number].lost if real else self.rows.value[feature.number].rounding


def prove(
    ledger: Ledger,
    partials: Mapping[int, Partial],
    slacks: Mapping[tuple[int, str], float],
    sizes: Mapping[int, float],
) -> Proof:
    """`sizes` are the sizes of the exact features, whose columns may be `ROOM` larger."""
    analysis = ledger.analysis
    program = analysis.program
    own = {f.number: ledger.own_error(f, slacks) for f in program.features if f.kind != INPUT}
    if not all(np.isfinite(total).all() for total, _ in own.values()):
        return Proof(math.inf, math.inf, math.inf, dict.fromkeys(own, math.inf), {}, ("a head has no proof",))
    short: dict[int, float] = {}
    faults = _forward_faults(ledger, partials, slacks, sizes, {k: total for k, (total, _) in own.items()}, short)
    exact, rounding, shares = 0.0, 0.0, dict.fromkeys(own, 0.0)
    slopes = dict.fromkeys(own, 0.0)
    for output, row in enumerate(ledger.rows.outputs):
        sensitivity = analysis.sensitivity(output, partials)
        total = np.full(analysis.boxes, row.rounding)
        real = np.full(analysis.boxes, row.lost)
        for k, (error, without) in own.items():
            feature = program.features[k]
            entered = [sensitivity.score[k] * ledger.score_rounding(feature, exactly) for exactly in (False, True)]
            if k in sensitivity.value:
                for i, exactly in enumerate((False, True)):
                    entered[i] = entered[i] + sensitivity.value[k] * ledger.value_rounding(feature, exactly)
            part = up(sensitivity.feature[k] * error + entered[0])
            total, real = up(total + part), up(real + sensitivity.feature[k] * without + entered[1])
            shares[k] = max(shares[k], float(part.max()))
            slopes[k] = max(slopes[k], float(sensitivity.feature[k].max()))
        exact = max(exact, float(real.max()))
        rounding = max(rounding, float(up(np.maximum(total - real, 0.0)).max()))
    if any(0 < abs(f.end[0]) < _DECADES * analysis.size_of(f.score) for f in program.features if f.end is not None):
        rounding *= _ROUNDING_ROOM
    exact, rounding = sum_rounded_up(exact, ROUNDED * rounding, _TINY), sum_rounded_up(rounding, _TINY)
    bound = sum_rounded_up(exact, rounding)
    if not math.isfinite(bound):
        faults = (*faults, "the bound is not finite")
    return Proof(bound, exact, rounding, shares, slopes, faults, short)


def _forward_faults(
    ledger: Ledger,
    partials: Mapping[int, Partial],
    slacks: Mapping[tuple[int, str], float],
    sizes: Mapping[int, float],
    own: Mapping[int, np.ndarray],
    short: dict[int, float],
) -> tuple[str, ...]:
    """Which forms' errors exceed their slacks, or columns their sizes, going forward; `short` is filled."""
    program, n = ledger.analysis.program, ledger.analysis.boxes
    errors: dict[int, np.ndarray] = {}
    faults: list[str] = []

    def of_form(form: Form) -> np.ndarray:
        total = np.zeros(n)
        for k, c in form:
            total = up(total + errors[k] * float(magnitude(constant_interval(c))))
        return total

    for feature in program.features:
        k = feature.number
        if feature.kind == INPUT:
            errors[k] = np.zeros(n)
            continue
        score = up(of_form(feature.score) + ledger.score_rounding(feature))
        if feature.kind == MAXIMUM:  # what its value is off by, and its score in units of the argument
            gate_rows = (ledger.rows.score[k].rounding / ledger.heads.maxima[k].slope, ledger.rows.value[k].rounding)
            score = up(score + 1.001 * max(gate_rows))
        if feature.kind == STEP:  # its score in units of the condition
            score = up(score + 1.001 * ledger.rows.score[k].rounding / ledger.heads.steps[k].slope)
        if not float(score.max()) <= slacks[k, "score"]:
            faults.append(f"the argument of feature {k} may be off by {score.max():.3g}")
            if feature.end is not None:
                short[k] = float(score.max())
        partial = partials[k]
        if feature.kind == MAXIMUM:
            through = np.maximum(of_form(feature.score.plus(feature.base)), of_form(feature.base))
        else:
            through = magnitude(partial.score) * score
            for j, slope in partial.roots:
                through = up(through + magnitude(slope) * errors[j])
            if partial.value is not None:
                value = up(of_form(feature.value) + ledger.value_rounding(feature))
                through = through + magnitude(partial.value) * value
        if feature.kind in (PRODUCT, EXPONENTIAL, STEP):
            value = up(of_form(feature.value) + ledger.value_rounding(feature))
            if not float(value.max()) <= slacks[k, "value"]:
                faults.append(f"the value of feature {k} may be off by {value.max():.3g}")
        errors[k] = up(through + own[k])
        if not float(errors[k].max()) <= ROOM * sizes[k] + 1e-300:
            faults.append(f"feature {k} may be off by {errors[k].max():.3g}, more than its size allows")
    return tuple(faults)
