"""`compile_formula`: a formula, a box and a tolerance become heads with a proof that meets the tolerance.

    translate -> ranges and adjoints on boxes -> shares of the tolerance -> heads -> proof, and again if it misses

The tolerance is shared so that tokens are few: a table needs tokens in proportion to its digits, so the sum of
log(1/e_j) is to be small with sum L_j e_j = tolerance, which gives equal shares e_j = tolerance/(J L_j). If the proof
misses, the shares are scaled down; if functions of functions are too hard for one head, they are cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from softwright.compiler.adjoints import Analysis, Partial, box_grid
from softwright.compiler.features import COPY, EXPONENTIAL, INPUT, MAXIMUM, PRODUCT, STEP, TABLE, Feature, Program
from softwright.compiler.forward import Functions
from softwright.compiler.gates import (
    LAMBERT,
    ExponentialGate,
    MaximumGate,
    ProductGate,
    StepGate,
    chosen_product,
    exponential_gate,
    step_gate,
)
from softwright.compiler.heads import Columns, Heads, TableHead
from softwright.compiler.nodes import CannotCompile, Expression, Interval, Node, mul, number, substitute, text, value
from softwright.compiler.prove import ROOM, Ledger, Proof, Rows, prove, rows_of, weight_faults
from softwright.compiler.sides import has_two_sided_root
from softwright.compiler.table_proof import TableProof, prove_halves, prove_table
from softwright.compiler.tables import (
    Frame,
    T,
    Table,
    fit_singular,
    fit_table,
    frame_of,
    shifted,
    singular_points,
    unclamped,
)
from softwright.compiler.translate import translate
from softwright.domain import Box
from softwright.precision import Precision

_BOXES = 1000
_ROUNDS = 4
_SHARE = 0.55  # of the tolerance, for tables and maxima; the rest is for gates and rounding
_FIT = {"float64": 0.85, "float32": 0.5}  # of a table's tolerance is what its sample may show; rounding takes some
_PRODUCTS = 0.05
_OF_GAP = 0.5  # the most that a condition may be off, as a share of its gap
_MOVED = 2.0  # times what arguments do to tables is what a proof charges for it
_MODULI = 0.2  # of the tolerance, for what errors of arguments do where slopes are unbounded


@dataclass(frozen=True)
class Compiled:
    """A program with its heads, weights and proof."""

    program: Program
    heads: Heads
    rows: Rows
    proof: Proof
    tables: dict[int, TableProof]  # by feature
    box: Box
    boxes: int
    precision: Precision
    tolerance: float
    slacks: dict[tuple[int, str], float] = field(default_factory=dict)

    @property
    def proved(self) -> bool:
        return not self.proof.faults and self.proof.bound <= self.tolerance


@dataclass
class _Draft:
    """One attempt: what does not change when shares do."""

    program: Program
    analysis: Analysis
    precision: Precision
    tolerance: float
    slack: float  # relative
    frames: dict[object, Frame] = field(default_factory=dict)
    slacks: dict[tuple[int, str], float] = field(default_factory=dict)
    partials: dict[int, Partial] = field(default_factory=dict)
    sizes: dict[int, float] = field(default_factory=dict)
    multipliers: dict[int, float] = field(default_factory=dict)  # see `Analysis.sensitivity`
    needed: dict[int, float] = field(default_factory=dict)  # slacks of singular tables that rounding asks for


def compile_formula(
    expression: Expression,
    box: Box,
    tolerance: float,
    precision: Precision,
    check: Callable[[], None] = lambda: None,
    gap: float | None = None,
) -> Compiled:
    """The smallest stack found whose bound meets the tolerance, else the one with the smallest bound.

    With a gap, jumps are allowed, and what is proved is proved outside of their bands (`steps.py`).

    Raises `CannotCompile` if a sub-expression has no rule, or a head none that is found.
    """
    search = _Search(expression, box, tolerance, precision, check, gap)
    with_roots = any(map(has_two_sided_root, expression.nodes))
    found = search.run(sides=True)
    if with_roots and (found is None or found.proved):  # gates may do with fewer tokens, where they are fine enough
        other = search.run(sides=False)
        if other is not None and other.proved and (found is None or other.heads.tokens < found.heads.tokens):
            return other
    if found is None:
        raise search.failure or CannotCompile(None, "no stack was found")
    return found


@dataclass
class _Search:
    """The ways to cut one formula, each tried once."""

    expression: Expression
    box: Box
    tolerance: float
    precision: Precision
    check: Callable[[], None]
    gap: float | None
    failure: CannotCompile | None = None
    tried: set[tuple[str, ...]] = field(default_factory=set)

    def run(self, sides: bool) -> Compiled | None:
        """The first stack that is proved, else the best; None if there is none."""
        best: Compiled | None = None
        for cut in (False, True):
            try:
                program = translate(self.expression, self.box, cut, gap=self.gap, sides=sides)
                spelt = (*map(program.described, program.features), str(program.outputs))
                if spelt in self.tried:
                    continue
                self.tried.add(spelt)
                found = _compiled(program, self.box, self.tolerance, self.precision, self.check)
            except CannotCompile as error:
                self.failure = self.failure or error
                continue
            if found.proved:
                return found
            if best is None or (not found.proof.faults and found.proof.bound < best.proof.bound):
                best = found
        return best


class NothingToCompile(CannotCompile):
    """On this box the formula is affine, whatever it looks like: a comparison that is decided, or x/x."""


def _compiled(
    program: Program, box: Box, tolerance: float, precision: Precision, check: Callable[[], None]
) -> Compiled:
    if all(feature.kind == INPUT for feature in program.features):
        raise NothingToCompile(None, "the formula is affine: one token of one layer is all it needs")
    analysis = Analysis(program, *box_grid(box, _BOXES if box.dim > 1 else 64), Functions())
    span = max(high - low for low, high in map(analysis.range_of, program.outputs))
    slack = float(np.clip(10.0 * tolerance / max(span, 1e-300), 1e-7, 0.02))
    share, best, needed = _SHARE, None, {}
    for _ in range(_ROUNDS):
        check()
        draft = _Draft(program, analysis, precision, tolerance, slack, needed=needed)
        _set_slacks(draft)
        found = _with_share(draft, share, box, check)
        if found.proved:
            return found
        if best is None or (bool(best.proof.faults), best.proof.bound) > (bool(found.proof.faults), found.proof.bound):
            best = found
        if found.proof.rounding > 0.8 * tolerance:
            break  # smaller shares make tables larger, and their rounding with them
        needed = needed | {k: 1.1 * off for k, off in found.proof.short.items()}
        if _MOVED * _moved_by(draft, needed) > tolerance:
            break  # what rounding does to the arguments of roots is too much, however good the tables are
        if found.proof.faults:
            slack = min(0.1, 6.0 * slack)
        if found.proof.bound > tolerance:
            over = tolerance / found.proof.bound if np.isfinite(found.proof.bound) else 0.1
            share *= float(np.clip(0.7 * over, 0.02, 0.6))
        elif found.proof.faults:
            share *= 0.6
    if best is None:
        raise RuntimeError("at least one round was run")
    return best


def _moved_by(draft: _Draft, off: dict[int, float]) -> float:
    """What arguments of singular tables that are off by so much do to the outputs."""
    slopes = _slopes(draft, {})
    return sum(slopes[k] * draft.analysis.moduli[k].omega(moved) for k, moved in off.items())


def _set_slacks(draft: _Draft) -> None:
    """Slacks of all forms, and frames of the tables."""
    analysis, program = draft.analysis, draft.program
    for feature in program.features:
        found = analysis.forward.feature(feature.number)
        draft.sizes[feature.number] = float(max(abs(found.lower.min()), abs(found.upper.max())))
    groups: dict[object, list[Feature]] = {}
    for feature in program.features:
        k = feature.number
        if feature.kind == TABLE:
            groups.setdefault(_group(feature), []).append(feature)
        elif feature.kind != INPUT:
            low, high = analysis.range_of(feature.score)
            draft.slacks[k, "score"] = draft.slack * max(high - low, 1e-9 * max(abs(low), abs(high)))
            if feature.kind == STEP:
                draft.slacks[k, "score"] = min(draft.slacks[k, "score"] or feature.gap, _OF_GAP * feature.gap)
            if feature.kind in (PRODUCT, EXPONENTIAL, STEP):
                low, high = analysis.range_of(feature.value)
                size = max(high - low, 1e-6 * max(abs(low), abs(high)))
                draft.slacks[k, "value"] = draft.slack * size
            if feature.is_square:
                draft.slacks[k, "value"] = draft.slacks[k, "score"]
    for key, group in groups.items():
        low, high = analysis.range_of(group[0].score)
        if group[0].end is not None:
            _set_singular(draft, key, group, low, high)
            continue
        frame = _frame(draft, [f.function for f in group if f.function is not None], low, high)
        draft.frames[key] = frame
        for feature in group:
            draft.slacks[feature.number, "score"] = frame.slack(low, high)
    draft.partials = analysis.partials(draft.slacks)
    if any(f.end is not None for f in program.features):
        _narrow_slacks(draft)


def _group(feature: Feature) -> object:
    """Tables of one group are one head."""
    return (feature.layer, feature.score.key, feature.end)


def _set_singular(draft: _Draft, key: object, group: list[Feature], low: float, high: float) -> None:
    """A frame about the singular point, so that what lies next to it is told apart: t = (u - p)/h, h a power of two."""
    point, _ = group[0].end or (Fraction(0), 1)
    reach = max(high - float(point), float(point) - low)
    slack = draft.slack * reach
    half = Fraction(2) ** int(np.ceil(np.log2(reach + 2.0 * slack)))
    draft.frames[key] = Frame(point, half)
    for feature in group:
        draft.slacks[feature.number, "score"] = min(slack, float(half) - reach)


def _narrow_slacks(draft: _Draft) -> None:
    """Slacks of arguments of tables with unbounded slopes: what moves the outputs by a share of the tolerance."""
    analysis, program = draft.analysis, draft.program
    singular = [f for f in program.features if f.end is not None and program.roots_of(f) is None]
    slopes = _slopes(draft, {})
    for f in singular:
        allowed = _MODULI * draft.tolerance / (len(singular) * max(slopes[f.number], 1e-300))
        found = max(analysis.moduli[f.number].argument_error(allowed), draft.needed.get(f.number, 0.0))
        draft.slacks[f.number, "score"] = max(min(draft.slacks[f.number, "score"], found), 1e-300)
        draft.multipliers[f.number] = draft.tolerance / draft.slacks[f.number, "score"]
    draft.partials = analysis.partials(draft.slacks)


def _demands(draft: _Draft) -> dict[int, float]:
    """Conditions of steps must keep within their slacks, too."""
    return {
        f.number: draft.tolerance / draft.slacks[f.number, "score"] for f in draft.program.features if f.kind == STEP
    }


def _slopes(draft: _Draft, multipliers: dict[int, float]) -> dict[int, float]:
    """How much each feature matters to the outputs, at most."""
    slopes: dict[int, float] = {}
    for output in range(len(draft.program.outputs)):
        sensitivity = draft.analysis.sensitivity(output, draft.partials, multipliers)
        for k, found in sensitivity.feature.items():
            slopes[k] = max(slopes.get(k, 0.0), float(found.max()))
    for f in draft.program.features:  # squares under a root matter relatively to what is squared
        for (c, root), (square, _) in zip(draft.program.roots_of(f) or (), f.score, strict=False):
            steep = slopes[f.number] * draft.analysis.moduli[f.number].by_root * float(np.sqrt(value(c)))
            slopes[square] = max(slopes[square], steep / max(draft.sizes[root], 1e-300))
    return slopes


def _frame(draft: _Draft, functions: list[Node], low: float, high: float) -> Frame:
    """A frame wider than the range, but well inside what the functions are defined on."""
    width = draft.slack * max(high - low, 1e-6 * max(abs(low), abs(high), 1e-3))
    below = above = width
    for point in (p for function in functions for p in singular_points(function, low, high)):
        if point < low:
            below = min(below, 0.2 * (low - point))
        elif point > high:
            above = min(above, 0.2 * (point - high))
    for _ in range(60):
        ends = Interval(np.array([low - below]), np.array([high + above]))
        if all(draft.analysis.functions.enclose(function, ends)[1].all() for function in functions):
            return frame_of(low, high, low - below, high + above)
        below, above = 0.3 * below, 0.3 * above
    return frame_of(low, high, low - below, high + above)


def _with_share(draft: _Draft, share: float, box: Box, check: Callable[[], None]) -> Compiled:
    analysis, program, precision = draft.analysis, draft.program, draft.precision
    slopes = _slopes(draft, draft.multipliers | _demands(draft))
    shared = [f for f in program.features if f.kind in (TABLE, MAXIMUM, STEP)]
    budget = share * draft.tolerance / max(1, len(shared))
    allowed = {f.number: budget / max(slopes[f.number], 1e-300) for f in shared}
    sizes = _column_sizes(draft)
    products = _products(draft, slopes, sizes, share / _SHARE)
    columns = Columns(program, products, sizes, precision)
    maxima = {
        f.number: MaximumGate(_rounded(LAMBERT / allowed[f.number], precision)) for f in shared if f.kind == MAXIMUM
    }
    exponentials = {f.number: _exponential(draft, f) for f in program.features if f.kind == EXPONENTIAL}
    steps = {f.number: _step(draft, f, allowed[f.number]) for f in shared if f.kind == STEP}
    tables, proofs = _tables(draft, allowed, check)
    copies = tuple(f.number for f in program.features if f.kind == COPY)
    heads = Heads(tuple(tables), products, exponentials, maxima, steps, copies)
    rows = rows_of(heads, columns)
    errors = {k: (proof.exact, proof.rounding) for k, proof in proofs.items()}
    ledger = Ledger(analysis, heads, rows, errors, precision)
    proof = prove(ledger, draft.partials, draft.slacks, draft.sizes)
    proof = replace(proof, faults=(*proof.faults, *weight_faults(heads, rows, precision)))
    return Compiled(
        program, heads, rows, proof, proofs, box, analysis.boxes, precision, draft.tolerance, dict(draft.slacks)
    )


def _rounded(value: float, precision: Precision) -> float:
    return float(np.dtype(precision.name).type(value))


def _column_sizes(draft: _Draft) -> dict[int, float]:
    """How large the columns of features may be as they run."""
    sizes = {}
    for f in draft.program.features:
        size = draft.sizes[f.number]
        if f.kind == MAXIMUM:
            size = draft.analysis.size_of(f.score) + draft.slacks[f.number, "score"]
        sizes[f.number] = size if f.kind == INPUT else size * (1 + 1.1 * ROOM) + 1e-300
    return sizes


def _products(
    draft: _Draft, slopes: dict[int, float], sizes: dict[int, float], factor: float
) -> dict[int, ProductGate]:
    """The gates of all products in order; `sizes` of their columns, which hold half of the factors too, are put in."""
    analysis, precision = draft.analysis, draft.precision
    found: dict[int, ProductGate] = {}
    features = [f for f in draft.program.features if f.kind == PRODUCT]
    for f in features:
        k = f.number
        low, high = analysis.range_of(f.score)
        low, high = low - draft.slacks[k, "score"], high + draft.slacks[k, "score"]
        center = 0.0 if f.is_square else _rounded(_short(0.5 * (low + high), high - low), precision)
        halfwidth = _above(max(high - center, center - low) * (1 + 1e-9))
        size = analysis.size_of(f.value)
        rounding = Columns(draft.program, found, sizes, precision).row(f.value).rounding
        wanted = _PRODUCTS * factor * draft.tolerance / (len(features) * max(slopes[k], 1e-300) * max(size, 1e-300))
        gate = chosen_product(precision, center, halfwidth, wanted, rounding / max(size, 1e-300))
        sizes[k] = gate.value_weight * (size + draft.slacks[k, "value"] + rounding) * 1.01
        found[k] = gate
    return found


def _short(middle: float, width: float) -> float:
    """A number of few binary digits near the middle."""
    step = 2.0 ** (np.floor(np.log2(width)) - 6) if width > 0 else 0.0
    return float(np.round(middle / step) * step) if step else middle


def _above(halfwidth: float) -> float:
    """A number of few binary digits just above."""
    step = 2.0 ** (np.floor(np.log2(halfwidth)) - 6)
    return float(np.ceil(halfwidth / step) * step)


def _exponential(draft: _Draft, f: Feature) -> ExponentialGate:
    low, high = draft.analysis.range_of(f.score)
    slack = draft.slacks[f.number, "score"]
    gate = exponential_gate(draft.precision, low - slack, high + slack)
    if gate is None:
        raise CannotCompile(
            f.meaning, f"its exponent spans [{low:.3g}, {high:.3g}], too much for {draft.precision.name}"
        )
    return gate


def _step(draft: _Draft, f: Feature, allowed: float) -> StepGate:
    size = draft.analysis.size_of(f.value) + draft.slacks[f.number, "value"]
    return step_gate(draft.precision, f.gap, draft.slacks[f.number, "score"], 0.5 * allowed / max(size, 1e-300))


def _tables(
    draft: _Draft, allowed: dict[int, float], check: Callable[[], None]
) -> tuple[list[TableHead], dict[int, TableProof]]:
    groups: dict[object, list[Feature]] = {}
    for f in draft.program.features:
        if f.kind == TABLE:
            groups.setdefault(_group(f), []).append(f)
    heads: list[TableHead] = []
    proofs: dict[int, TableProof] = {}
    known: dict[object, tuple[Table, list[TableProof]]] = {}  # equal functions on equal frames are one piece of work
    for key, group in groups.items():
        check()
        frame = draft.frames[key]
        functions = [f.function for f in group if f.function is not None]
        bounds = [allowed[f.number] for f in group]
        asked = (frame, group[0].end, tuple(map(text, functions)), tuple(bounds))
        if asked not in known:
            known[asked] = _proved_table(draft, group[0], functions, frame, bounds)
        table, found = known[asked]
        heads.append(TableHead(tuple(f.number for f in group), group[0].score, group[0].layer, frame, table))
        proofs |= {f.number: proof for f, proof in zip(group, found, strict=True)}
    return heads, proofs


def _proved_table(
    draft: _Draft, first: Feature, functions: list[Node], frame: Frame, bounds: list[float]
) -> tuple[Table, list[TableProof]]:
    """A table for functions of the same form, and the proof of each."""
    precision, end = draft.precision, first.end
    tolerances = _FIT[precision.name] * np.array(bounds)
    if end is None:
        table = fit_table(functions, frame, tolerances, precision.name)
    else:
        table = fit_singular(functions, end, frame, tolerances, precision.name)
    if table is None:
        raise CannotCompile(first.meaning, "no table of moderate size is accurate enough")
    found = []
    for q, (function, bound) in enumerate(zip(functions, bounds, strict=True)):
        if end is None:
            found.append(prove_table(table, q, frame.inside(function), bound, precision))
        else:
            found.append(prove_halves(table, q, _along(function, end, frame), end[1], bound, precision))
    return table, found


def _along(function: Node, end: tuple[Fraction, int], frame: Frame) -> Node:
    """A clamped function on its side, as a tree in |t|, the distance from its singular point: nothing cancels there."""
    distance = mul(number(frame.halfwidth), T)
    return substitute(shifted(unclamped(function, *end), *end), {"u": distance})
