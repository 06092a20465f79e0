"""`certify`: a proof that a network is close to its target, or a point where it is not.

    certify(network, target, bound=1e-6)       proved, refuted (with a witness), or undecided within the budget
    certify(network, target, tightness=0.05)   the smallest bound it can prove:
                                               lower <= sup |g - f| <= (1 + tightness) lower

The statement proved is that of `Certificate`: |fl(g) - f| <= exact_part + rounding_part <= bound on the whole domain,
for the network with the parameters it has, run in its dtype by the engine named. The proof of |g - f| <= exact_part is
a bisection tree on whose leaves Taylor models meet the bound (`search.py`, `residual.py`, `taylor_head.py`); the
rounding part is bounded on the same leaves (`rounding.py`). Gates of affine pieces need no tree (`max_affine.py`), nor
do those of a formula that is partly of this kind (`walls.py`).

The prover itself assumes IEEE float64 arithmetic rounded to nearest and matrix products that add n products in some
order (no Strassen-like schemes); `verify` re-proves a certificate in ball arithmetic without these assumptions.
"""

from __future__ import annotations

import math
import time
from concurrent.futures import Executor
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.domain import Box
from softwright.errors import Faults, InvalidInput
from softwright.progress import Progress, reporting
from softwright.proof.closed.max_affine import MaxAffineProof, prove_max_affine
from softwright.proof.closed.walls import take_walls
from softwright.proof.conclusion import (
    aimed_tightness,
    boundless_rounding,
    conclude,
    dtype_advice,
    refuted_by,
    smaller_of,
    stated_factor,
)
from softwright.proof.models.exact_heads import dtype_name
from softwright.proof.models.overflow import stays_finite
from softwright.proof.question import MOST_VARIABLES, Certification, Question, as_point, pose, rest_below
from softwright.proof.search.additive import Group, Term
from softwright.proof.search.certain import certain_at
from softwright.proof.search.points_prover import point_errors
from softwright.proof.search.probe import worst_points
from softwright.proof.search.residual import LEAST_SHARE
from softwright.proof.search.search import Goal, Limits, Run, SearchResult, lower_at
from softwright.proof.search.sum_prover import prove_sum, split_sum
from softwright.proof.search.units import find
from softwright.records import Record
from softwright.result.between import Between
from softwright.result.certificate import Part, sum_rounded_up
from softwright.result.outcome import Outcome
from softwright.scale import Crew, crew
from softwright.targets import Interpolant, Table
from softwright.version import __version__

if TYPE_CHECKING:
    from softwright.attention import AttentionNetwork

_FURTHER_WORK = 1.0  # for a smaller bound than the one that was asked for
_LARGEST_ORDER = 24
_BETWEEN_ORDERS = {1: 6, 2: 6, 3: 5}  # cells are small boxes already: low orders are enough, and quick
_BETWEEN_WORK, _BETWEEN_BOXES, _BETWEEN_TIGHTNESS = 5.0, 200_000, 0.1


def exponent_of(norm: str | float) -> float | None:
    """None for "sup", p for "L1", "L2", "L1.5" or a number."""
    if norm == "sup":
        return None
    text = norm[1:] if isinstance(norm, str) and norm[:1] in "Ll" else norm
    try:
        p = float(text)
    except (TypeError, ValueError):
        p = math.nan
    if not 1.0 <= p < math.inf:
        raise InvalidInput("certify", [f"norm {norm!r} is not known; use 'sup', 'L1', 'L2' or a number p >= 1"])
    return p


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def certify(
    network: AttentionNetwork,
    target: Any,
    *,
    bound: float | None = None,
    tightness: float | None = None,
    norm: str | float = "sup",
    domain: Any = None,
    engine: str | None = None,
    max_work: float = 60.0,
    max_seconds: float = 600.0,
    max_boxes: int = 200_000,
    progress: Progress = None,
    executor: Executor | Crew | None = None,
    cluster: str | None = None,
    workers: int | None = None,
    resume: str | Path | None = None,
    order: int | None = None,
    between: bool = True,
) -> Certification:
    """Prove that the network is within `bound` of the target on the domain, or find the smallest bound (`tightness`).

    target       a formula, an `Expression`, a `Function` with a promise, a `Table` (proved at its points), what
                 `Table.interpolant()` returns (a grid table over its whole box), or a feed-forward `torch.nn.Module`
    bound, tightness   the two questions, see above; with neither, tightness = 0.05. With both the bound comes first,
                 then a smaller one with at most one more unit of work (sup norm, no tables)
    norm         "sup", or "L1", "L2", any p >= 1: (integral of |network - target|^p)^(1/p)
    domain       a box with the network's variables, in any form that a box may have; the network's own unless given
    engine       how the network will be run: "sdpa", "factorised" or, in float32, "double"; the network's own unless
                 given
    max_work, max_boxes    the budget: work is counted, about a second of one core a unit, and the same everywhere
    max_seconds  a last resort by the clock; the reason says so if it ended the search
    progress     a function that is told, in a string, how far each round came; None reports by itself, False not at all
    executor, cluster, workers   who proves sub-boxes: a `concurrent.futures.Executor` or a crew (`softwright.scale`),
                 the Dask cluster at this address, or so many processes; this process unless one of them is given
    resume       a folder where every finished sub-box is written down; a killed proof goes on from there (sup norm)
    order        degree of the Taylor models; chosen by the number of variables unless given
    between      for a table on a grid whose claim is proved: spend up to 5 more units of work on the smallest bound
                 between its points, kept as `certificate.between`
    """
    faults = Faults("certify")
    if bound is not None:
        good = _is_real(bound) and math.isfinite(bound) and bound > 0
        faults.check(good, f"bound {bound!r} must be a positive number")
    elif tightness is None:
        tightness = 0.05
    if tightness is not None:
        good = _is_real(tightness) and 1e-3 <= tightness <= 10
        faults.check(good, f"tightness {tightness!r} must lie between 0.001 and 10; 0.05 is usual")
    positive = all(_is_real(most) and most > 0 for most in (max_work, max_seconds, max_boxes))
    faults.check(positive, "max_work, max_seconds and max_boxes must be positive")
    whole = order is None or (_is_real(order) and 1 <= order <= _LARGEST_ORDER and order == int(order))
    faults.check(
        whole, f"order {order!r} must be a whole number from 1 to {_LARGEST_ORDER}; leave it out for the usual"
    )
    named = resume is None or (isinstance(resume, str | Path) and str(resume).strip() != "")
    faults.check(named, f"resume {resume!r} must be the path of a folder")
    p = faults.take(exponent_of, norm)
    faults.raise_if_any()
    bound, order = None if bound is None else float(bound), None if order is None else int(order)
    with reporting(progress, "proving") as say:
        question = pose(network, target, domain, engine or getattr(network, "engine", "sdpa"), order)
        record = None if resume is None else Record(resume, _asked(question, p, bound, tightness))
        with crew(executor=executor, cluster=cluster, workers=workers) as hands:
            apart = hands if hands.executor is not None or record is not None else None
            run = Run(Limits(max_work, max_boxes, max_seconds), hands.executor, say, apart, record)
            found = _answer(question, p, bound, tightness if bound is None else None, run, between)
            if bound is not None and tightness is not None and p is None:
                found = _further(question, found, tightness, run)
    found.seconds = time.monotonic() - question.started
    return found


def _asked(question: Question, p: float | None, bound: float | None, tightness: float | None) -> dict[str, Any]:
    """The question in entries that can be compared."""
    return {
        "weights": question.weights_sha256,
        "target": question.target.describe(),
        "box": {name: [low.hex(), high.hex()] for name, low, high in question.domain},
        "claim": {"norm": "sup" if p is None else p, "bound": bound, "tightness": tightness},
        "engine": question.engine,
        "order": question.residual.order,
        "version": __version__,
    }


def _further(question: Question, found: Certification, tightness: float, run: Run) -> Certification:
    """A smaller bound than the one that was proved, if a little more work brings one."""
    if not found.proved or isinstance(question.target, Table):
        return found
    limits = Limits(min(run.limits.work, _FURTHER_WORK), run.limits.boxes, run.limits.seconds)
    return smaller_of(found, _answer(question, None, None, tightness, replace(run, limits=limits), False))


def _answer(
    question: Question, p: float | None, bound: float | None, tightness: float | None, run: Run, between: bool
) -> Certification:
    """The first way to a proof that suits the question and settles it."""
    if not stays_finite(question.residual.heads, question.domain):
        return Certification(Outcome.OVERFLOW, math.inf if bound is None else bound, 0.0)
    if isinstance(question.target, Table):
        if p is not None:
            raise InvalidInput("certify", ["a table has no integral; use norm='sup', which is the error at its points"])
        return _points(question, question.target, bound, run.limits if between else None)
    if p is not None:
        if isinstance(question.target, Interpolant):
            raise InvalidInput("certify", ["integrals over a table's interpolant are not proved; use norm='sup'"])
        if question.domain.dim > MOST_VARIABLES:
            return _too_many(question, bound, None)
        return _integral(question, p, bound, tightness, run)
    closed = _closed_form(question)
    total = math.inf if closed is None else sum_rounded_up(closed.exact, closed.rounding)
    if closed is not None and bound is not None and total <= bound:
        return _by_closed_form(question, closed, bound)
    if closed is not None and tightness is not None and total <= (1.0 + tightness) * _seen_at_least(question, total)[0]:
        return _by_closed_form(question, closed, 1.005 * total)
    few = question.domain.dim <= MOST_VARIABLES
    behind_walls = _walls(question, bound, tightness, run) if few else None
    if behind_walls is not None and _settles(behind_walls, bound, tightness):
        return behind_walls
    nodes = question.formula
    divided = None if nodes is None else split_sum(question.residual, nodes, question.domain.names)
    most = question.domain.dim if divided is None else max(len(group.columns) for group in divided[0])
    if most > MOST_VARIABLES:
        return _too_many(question, bound, closed)
    found = _sup(question, bound, tightness, run) if divided is None else _sum(question, bound, tightness, run, divided)
    weaker = behind_walls is not None and behind_walls.proved and not found.outcome.decided
    if behind_walls is not None and weaker and behind_walls.bound < min(found.proved_bound, total):
        return behind_walls
    if closed is not None and bound is None and not found.outcome.decided and total < found.proved_bound:
        return _by_closed_form(question, closed, 1.01 * total)
    return found


def _closed_form(question: Question) -> MaxAffineProof | None:
    if question.formula is None or question.engine == "factorised":
        return None
    heads = question.residual.heads
    return prove_max_affine(heads, question.formula, question.domain, len(heads))


def _by_closed_form(question: Question, closed: MaxAffineProof, bound: float) -> Certification:
    """A proof without a tree; a checker finds the closed form again by itself."""
    lower, witness = _seen_at_least(question, bound)
    lower = min(lower, closed.exact)
    nothing = SearchResult(True, False, b"", 0, 0, closed.exact, closed.rounding, lower, witness, np.empty(0))
    # What the two parts leave of the bound goes to the exact part, so that a checker has room.
    exact = max(rest_below(bound, closed.rounding), closed.exact)
    certificate = question.certificate(bound, exact, closed.rounding, nothing, "closed form: gates of affine pieces")
    return Certification(Outcome.PROVED, bound, lower, as_point(witness), certificate, proved_bound=bound)


def _seen_at_least(question: Question, accuracy: float) -> tuple[float, np.ndarray | None]:
    """An error that is certainly there: samples, and what lies round the walls, where gates are at their worst."""
    points, _ = question.worst(2000)
    lower, witness, _ = certain_at(question.residual, question.domain, points, accuracy)
    return lower, witness


def _too_many(question: Question, bound: float | None, closed: MaxAffineProof | None) -> Certification:
    """No tree of boxes has so many variables; a closed form that was found still answers the open question."""
    if closed is not None and bound is None:
        return _by_closed_form(question, closed, 1.01 * sum_rounded_up(closed.exact, closed.rounding))
    lower, witness = _seen_at_least(question, bound or 1e-9)
    return Certification(Outcome.TOO_MANY_VARIABLES, math.inf if bound is None else bound, lower, as_point(witness))


def _points(question: Question, table: Table, bound: float | None, limits: Limits | None) -> Certification:
    """The error at every point of a table; then, if `limits` are given for it, what holds between them."""
    points = table.points
    if dtype_name(question.network) == "float32":
        points = points.astype(np.float32).astype(float)
    inside = question.domain.contains(table.points)
    found = point_errors(question.residual.heads, points[inside], table.values[inside], bound or 1e-9)
    worst = int(np.argmax(found.lower)) if len(found.lower) else 0
    exact, rounding = float(np.max(found.upper, initial=0.0)), float(np.max(found.rounding, initial=0.0))
    total, lower = sum_rounded_up(exact, rounding), float(np.max(found.lower, initial=0.0))
    witness = points[inside][worst] if len(found.lower) else None
    result = SearchResult(
        True, False, b"", len(found.lower), len(found.lower), exact, rounding, lower, witness, found.upper
    )
    common = {"lower": lower, "witness": as_point(witness), "boxes": result.leaves, "leaf_upper": found.upper}
    stated = total if bound is None else bound
    if total > stated:
        refuted = float(np.max(found.lower - found.rounding)) > stated
        detail = "" if refuted else "rounding leaves it open" + dtype_advice(question)
        outcome = Outcome.REFUTED if refuted else Outcome.ROUNDING
        return Certification(outcome, stated, detail=detail, proved_bound=total, **common)
    between = None if limits is None else _between(question, table, limits)
    beyond = "" if between is not None else " and nothing between them"
    text = f"the bound covers the table's {result.leaves} points{beyond}"
    statement = replace(question, assumptions=(text, *question.assumptions))
    certificate = statement.certificate(stated, exact, rounding, result, "taylor models at the points of a table")
    certificate = replace(certificate, between=between)
    return Certification(Outcome.PROVED, stated, certificate=certificate, proved_bound=stated, **common)


def _between(question: Question, table: Table, limits: Limits) -> Between | None:
    """The smallest bound found with some work between the points of a grid table; None if there is none to state."""
    low = np.maximum(question.domain.lower, table.box.lower)
    high = np.minimum(question.domain.upper, table.box.upper)
    if table.axes is None or table.dim not in _BETWEEN_ORDERS or not np.all(low < high):
        return None
    part = Box.from_bounds(low, high, table.names)
    try:
        whole = pose(question.network, table.interpolant(), part, question.engine, _BETWEEN_ORDERS[table.dim])
    except InvalidInput:  # a side too narrow for a proof
        return None
    work = min(limits.work, _BETWEEN_WORK)
    found = _sup(whole, None, _BETWEEN_TIGHTNESS, Run(Limits(work, _BETWEEN_BOXES, limits.seconds)))
    proved = found.certificate or found.weaker
    if proved is None:
        return None
    return Between(
        bound=proved.bound,
        exact_part=proved.exact_part,
        rounding_part=proved.rounding_part,
        lower=found.lower,
        witness=found.witness,
        boxes=found.boxes,
        seconds=time.monotonic() - whole.started,
    )


def _integral(question: Question, p: float, bound: float | None, tightness: float | None, run: Run) -> Certification:
    """An L_p norm. Rounding adds its largest value times the p-th root of the volume."""
    from softwright.proof.search.integrate import integrate, root_up

    box = (question.domain.lower, question.domain.upper)
    residual = replace(question.residual, with_mean_square=True)
    _, _, sampled = lower_at(residual, question.domain.sample(32), bound or 1e-9)
    root = root_up(float(np.prod(box[1] - box[0])) * (1.0 + 1e-14), p)
    goal = None
    if bound is not None:
        share = max(0.01 * bound, 2.0 * float(np.max(sampled.rounding)) * root)
        goal = rest_below(bound, share) if share < bound else 0.0  # an infinite share has no difference
        if not goal > 0:
            detail = f"rounding alone may reach {share / 2:.3g}; ask for more" + dtype_advice(question)
            if not math.isfinite(share):
                detail = boundless_rounding(question)
            return Certification(Outcome.ROUNDING, bound, 0.0, detail=detail)
    found = integrate(residual, box, p, goal, run, tightness=aimed_tightness(tightness))
    rounding = 1.25 * found.rounding * root
    if bound is None:
        found.exact = max(found.exact * stated_factor(tightness), LEAST_SHARE * rounding)
    common = {"lower": found.lower, "boxes": found.leaves, "evaluations": found.evaluations}
    if bound is not None and found.lower > bound + rounding:
        return Certification(Outcome.REFUTED, bound, **common)
    total = sum_rounded_up(found.exact, rounding) if math.isfinite(found.exact + rounding) else math.inf
    stated = total if bound is None else bound
    if not found.finished or total > stated:
        outcome, detail = (Outcome.INTERRUPTED if found.interrupted else run.limits.outcome), ""
        if not found.interrupted and math.isfinite(found.exact) and not math.isfinite(rounding):
            outcome, detail = Outcome.ROUNDING, boundless_rounding(question)
        return Certification(outcome, stated, detail=detail, proved_bound=total, **common)
    result = SearchResult(
        True, False, found.tree, found.leaves, found.evaluations, found.exact, rounding, 0.0, None, np.empty(0)
    )
    exact = found.exact if bound is None else rest_below(bound, rounding)
    certificate = replace(
        question.certificate(stated, exact, rounding, result), norm="Lp", p=p, lower=min(found.lower, stated)
    )
    return Certification(Outcome.PROVED, stated, certificate=certificate, proved_bound=stated, **common)


def _walls(question: Question, bound: float | None, tightness: float | None, run: Run) -> Certification | None:
    """Slanted walls in closed form and the smooth rest by boxes, with half of the budget; None if there are none."""
    if question.formula is None or question.engine == "factorised":
        return None
    found = take_walls(question.residual, question.formula, question.domain)
    if found is None:
        return None
    return _sum(question, bound, tightness, Run(run.limits.halved()), (found.groups, found.terms), found.parts)


def _settles(found: Certification, bound: float | None, tightness: float | None) -> bool:
    """Whether the question is answered; sums over groups that share variables need not be tight."""
    if found.outcome is Outcome.REFUTED:
        return True
    return found.proved and (bound is not None or found.bound <= (1.0 + (tightness or 0.05)) * found.lower)


def _sum(
    question: Question,
    bound: float | None,
    tightness: float | None,
    run: Run,
    divided: tuple[list[Group], list[Term]],
    known: tuple[Part, ...] = (),
) -> Certification:
    """An additive problem: one proof for each group of variables, beside the parts that are known already."""
    found = prove_sum(question.residual, divided, question.domain, bound, run, tightness=tightness, known=known)
    if known:  # the groups share variables: where the whole is worst is not where each of them is
        points, _ = worst_points(
            question.error, question.residual.heads, question.domain.lower, question.domain.upper, 2000
        )
        lower, witness, _ = lower_at(question.residual, points, bound or 1e-9)
        if lower > found.lower:
            found.lower, found.witness = lower, witness
    common = {
        "lower": found.lower,
        "witness": as_point(found.witness),
        "boxes": found.leaves,
        "evaluations": found.evaluations,
    }
    if bound is not None and found.lower > bound:
        refuted = refuted_by(question, found.witness, found.lower, bound)
        if refuted is not None:
            return Certification(Outcome.REFUTED, bound, **{**common, "lower": refuted})
    if not found.parts:
        return Certification(found.outcome, math.inf if bound is None else bound, detail=found.detail, **common)
    exact, total = found.exact, sum_rounded_up(found.exact, found.rounding)
    if bound is not None:
        exact, total = rest_below(bound, found.rounding), bound
    method = "taylor, walls in closed form" if known else "taylor"
    certificate = question.certificate(total, exact, found.rounding, found, method)
    return Certification(Outcome.PROVED, total, certificate=certificate, proved_bound=total, **common)


def _sup(question: Question, bound: float | None, tightness: float | None, run: Run) -> Certification:
    """The sup norm over the whole domain by one search."""
    box = (question.domain.lower, question.domain.upper)
    count = {1: 2000, 2: 2500}.get(question.domain.dim, 3000)
    points, values = question.worst(count)
    accuracy = bound if bound is not None else max(float(values[0]), 1e-300)
    lower, witness, sampled = certain_at(question.residual, question.domain, points, accuracy)
    rounding = float(np.max(sampled.rounding[len(points) :]))
    if bound is None:
        _, _, sampled = lower_at(question.residual, question.domain.sample(32), accuracy)
        goal = Goal(sampled.exact_goal(), 1.1 * rounding, aimed_tightness(tightness))
        result = find(question.residual, box, goal, run, lower=lower, witness=witness, tree=question.tree())
        return conclude(question, bound, tightness, result, ended=run.limits.outcome)
    if lower > bound:
        refuted = refuted_by(question, witness, lower, bound)
        if refuted is not None:
            return Certification(Outcome.REFUTED, bound, refuted, as_point(witness))
    # The bound is shared between the exact part and the rounding part. How much rounding the worst leaf needs is only
    # known afterwards; if it was too much for the share, the search is repeated with the share it needs.
    share = max(min(max(2.0 * rounding, 0.01 * bound), 0.5 * (bound - 1.005 * lower)), 1.05 * rounding)
    result: SearchResult | None = None
    settled = False
    for _ in range(3):
        exact = rest_below(bound, share)
        if not exact > lower:
            break
        goal = Goal(exact * (1.0 - 1e-12), share * (1.0 - 1e-12))
        result = find(question.residual, box, goal, run, lower=lower, witness=witness, tree=question.tree())
        lower, witness = result.lower, result.witness
        settled = result.rounding <= share  # the exact part was proved for this very share
        if not result.finished or settled or run.limits.spent:
            break
        share = 1.05 * result.rounding
    if result is None or (result.finished and not settled):
        most = max(rounding, share / 1.05)
        detail = (
            f"the rounding of {dtype_name(question.network)} alone may reach {most:.3g} beside an exact error of "
            f"{lower:.3g}; ask for more than {lower + 1.1 * most:.3g}" + dtype_advice(question)
        )
        if not math.isfinite(most):
            detail = boundless_rounding(question)
        return Certification(Outcome.ROUNDING, bound, lower, as_point(witness), detail=detail)
    return conclude(question, bound, tightness, result, share, run.limits.outcome)
