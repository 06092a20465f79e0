"""`certify`: a proof that a network is close to its target, or a point where it is not.

    certify(network, target, bound=1e-6)       proved, refuted (with a witness), or undecided within the budget
    certify(network, target, tightness=0.05)   the smallest bound it can prove: sup |g - f| in [lower, (1 + tightness)
    lower]

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
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

import numpy as np
from flint import arb

from softwright.attention.network import AttentionNetwork
from softwright.domain import Box
from softwright.errors import Faults, InvalidInput
from softwright.proof.arithmetic.balls import ball_below, precision
from softwright.proof.closed.max_affine import MaxAffineProof, prove_max_affine
from softwright.proof.closed.walls import take_walls
from softwright.proof.models.exact_heads import dtype_name
from softwright.proof.question import Certification, Problem, Status, as_point, below, pose
from softwright.proof.search.additive import Group, Term
from softwright.proof.search.integrate import integrate, root_up
from softwright.proof.search.points_prover import point_errors
from softwright.proof.search.probe import worst_points
from softwright.proof.search.search import Budget, Goal, Outcome, Progress, Run, lower_at, search
from softwright.proof.search.sum_prover import prove_sum, split_problem
from softwright.result.between import Between
from softwright.result.certificate import Part, sum_rounded_up
from softwright.targets import Expression, Interpolant, Table, evaluate

_BETWEEN_ORDERS = {1: 6, 2: 6, 3: 5}  # cells are small boxes already: low orders are enough, and quick
_BETWEEN_SECONDS, _BETWEEN_BOXES, _BETWEEN_TIGHTNESS = 5.0, 200_000, 0.1
_SLACK = 0.02  # share of the stated bound kept free, so that a checker with other enclosures agrees


def exponent_of(norm: str | float) -> float | None:
    """None for "sup", p for "L1", "L2", "L1.5" or a number."""
    if norm == "sup":
        return None
    text = norm[1:] if isinstance(norm, str) and norm[:1] in "Ll" else norm
    try:
        p = float(text)
    except ValueError:
        p = math.nan
    if not 1.0 <= p < math.inf:
        raise InvalidInput("certify", [f"norm {norm!r} is not known; use 'sup', 'L1', 'L2' or a number p >= 1"])
    return p


def certify(
    network: AttentionNetwork,
    target: Any,
    *,
    bound: float | None = None,
    tightness: float | None = None,
    domain: Box | None = None,
    norm: str | float = "sup",
    engine: str = "sdpa",
    max_seconds: float = 60.0,
    max_boxes: int = 200_000,
    executor: Executor | None = None,
    progress: Callable[[Progress], None] | None = None,
    order: int | None = None,
    between: bool = True,
) -> Certification:
    """Prove that the network is within `bound` of the target on the domain, or find the smallest bound (`tightness`).

    target       a formula, an `Expression`, a `Function` with a promise, a `Table` (proved at its points), what
                 `Table.interpolant()` returns (a grid table over its whole box), or a feed-forward `torch.nn.Module`
    bound, tightness   the two questions, see above; with neither, tightness = 0.05
    domain       a box with the network's variables; the network's own box unless given
    norm         "sup", or "L1", "L2", any p >= 1: (integral of |network - target|^p)^(1/p)
    engine       how the network will be run: "sdpa" or "factorised"
    max_seconds, max_boxes     the budget
    executor     a `concurrent.futures.Executor` of processes that bounds batches of boxes
    progress     called after every round with a `Progress`
    order        degree of the Taylor models; chosen by the number of variables unless given
    between      for a table on a grid whose claim is proved: spend up to 5 more seconds on the smallest bound between
                 its points, kept as `certificate.between`
    """
    faults = Faults("certify")
    if bound is not None:
        faults.check(tightness is None, "bound and tightness are two questions; ask one of them")
        faults.check(math.isfinite(bound) and bound > 0, f"bound {bound} must be a positive number")
    elif tightness is None:
        tightness = 0.05
    if tightness is not None:
        faults.check(1e-3 <= tightness <= 10, f"tightness {tightness} must lie between 0.001 and 10; 0.05 is usual")
    faults.check(max_seconds > 0 and max_boxes > 0, "max_seconds and max_boxes must be positive")
    p: float | None = None
    try:
        p = exponent_of(norm)
    except InvalidInput as error:
        faults.found += error.faults
    faults.raise_if_any()
    problem = pose(network, target, domain, engine, order)
    run = Run(Budget(max_seconds, max_boxes), executor, progress)
    if isinstance(problem.target, Table):
        if p is not None:
            raise InvalidInput("certify", ["a table has no integral; use norm='sup', which is the error at its points"])
        return _points(problem, problem.target, bound, max_seconds if between else 0.0)
    if p is not None:
        if isinstance(problem.target, Interpolant):
            raise InvalidInput("certify", ["integrals over a table's interpolant are not proved; use norm='sup'"])
        return _integral(problem, p, bound, tightness, run)
    closed = _closed_form(problem)
    total = math.inf if closed is None else sum_rounded_up(closed.exact, closed.rounding)
    if closed is not None and bound is not None and total <= bound:
        return _by_closed_form(problem, closed, bound)
    behind_walls = _walls(problem, bound, tightness, max_seconds, max_boxes)
    if behind_walls is not None and (behind_walls.status == "refuted" or _settles(behind_walls, bound, tightness)):
        return behind_walls
    divided = split_problem(problem.residual, problem.target, problem.domain.names)
    found = _sup(problem, bound, tightness, run) if divided is None else _sum(problem, bound, tightness, run, divided)
    weaker = behind_walls is not None and behind_walls.proved and found.status == "undecided"
    if behind_walls is not None and weaker and behind_walls.bound < min(found.proved_bound, total):
        return behind_walls
    if closed is not None and bound is None and found.status == "undecided" and total < found.proved_bound:
        return _by_closed_form(problem, closed, 1.01 * total)
    return found


def _closed_form(problem: Problem) -> MaxAffineProof | None:
    if not isinstance(problem.target, Expression) or problem.engine != "sdpa":
        return None
    heads = problem.residual.heads
    return prove_max_affine(heads, problem.target.nodes, problem.domain, len(heads))


def _by_closed_form(problem: Problem, closed: MaxAffineProof, bound: float) -> Certification:
    """A proof without a tree; a checker finds the closed form again by itself."""
    lower, witness, _ = lower_at(problem.residual, problem.domain.sample(64), bound)
    lower = min(lower, closed.exact)
    nothing = Outcome(True, False, b"", 0, 0, closed.exact, closed.rounding, lower, witness, np.empty(0))
    # What the two parts leave of the bound goes to the exact part, so that a checker has room.
    exact = max(below(bound, closed.rounding), closed.exact)
    certificate = problem.certificate(bound, exact, closed.rounding, nothing, "closed form: gates of affine pieces")
    common = {"lower": lower, "witness": as_point(witness), "proved_bound": bound}
    return _finish(problem, Certification("proved", bound, certificate=certificate, **common))


def _points(problem: Problem, table: Table, bound: float | None, seconds: float) -> Certification:
    """The error at every point of a table; then, if `seconds` are given for it, what holds between them."""
    points = table.points
    if dtype_name(problem.network) == "float32":
        points = points.astype(np.float32).astype(float)
    inside = problem.domain.contains(table.points)
    found = point_errors(problem.residual.heads, points[inside], table.values[inside], bound or 1e-9)
    worst = int(np.argmax(found.lower)) if len(found.lower) else 0
    exact, rounding = float(np.max(found.upper, initial=0.0)), float(np.max(found.rounding, initial=0.0))
    total, lower = sum_rounded_up(exact, rounding), float(np.max(found.lower, initial=0.0))
    witness = points[inside][worst] if len(found.lower) else None
    outcome = Outcome(
        True, False, b"", len(found.lower), len(found.lower), exact, rounding, lower, witness, found.upper
    )
    common = {"lower": lower, "witness": as_point(witness), "boxes": outcome.leaves, "leaf_upper": found.upper}
    stated = total if bound is None else bound
    if total > stated:
        status: Status = "refuted" if float(np.max(found.lower - found.rounding)) > stated else "undecided"
        reason = "" if status == "refuted" else "rounding leaves it open" + _dtype_advice(problem)
        return _finish(problem, Certification(status, stated, reason=reason, proved_bound=total, **common))
    between = _between(problem, table, min(seconds, _BETWEEN_SECONDS)) if seconds > 0 else None
    beyond = "" if between is not None else " and nothing between them"
    text = f"the bound covers the table's {outcome.leaves} points{beyond}"
    statement = replace(problem, assumptions=(text, *problem.assumptions))
    certificate = statement.certificate(stated, exact, rounding, outcome, "taylor models at the points of a table")
    certificate = replace(certificate, between=between)
    return _finish(problem, Certification("proved", stated, certificate=certificate, proved_bound=stated, **common))


def _between(problem: Problem, table: Table, seconds: float) -> Between | None:
    """The smallest bound found in this time between the points of a grid table; None if there is none to state."""
    low = np.maximum(problem.domain.lower, table.box.lower)
    high = np.minimum(problem.domain.upper, table.box.upper)
    if table.axes is None or table.dim not in _BETWEEN_ORDERS or not np.all(low < high):
        return None
    part = Box.from_bounds(low, high, table.names)
    try:
        whole = pose(problem.network, table.interpolant(), part, problem.engine, _BETWEEN_ORDERS[table.dim])
    except InvalidInput:  # a side too narrow for a proof
        return None
    found = _sup(whole, None, _BETWEEN_TIGHTNESS, Run(Budget(seconds, _BETWEEN_BOXES)))
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
        seconds=time.perf_counter() - whole.started,
    )


def _integral(problem: Problem, p: float, bound: float | None, tightness: float | None, run: Run) -> Certification:
    """An L_p norm. Rounding adds its largest value times the p-th root of the volume."""
    box = (problem.domain.lower, problem.domain.upper)
    residual = replace(problem.residual, with_mean_square=True)
    _, _, sampled = lower_at(residual, problem.domain.sample(32), bound or 1e-9)
    root = root_up(float(np.prod(box[1] - box[0])) * (1.0 + 1e-14), p)
    goal = None
    if bound is not None:
        share = max(0.01 * bound, 2.0 * float(np.max(sampled.rounding)) * root)
        goal = below(bound, share) if share < bound else 0.0  # an infinite share has no difference
        if not goal > 0:
            reason = f"rounding alone may reach {share / 2:.3g}; ask for more" + _dtype_advice(problem)
            return _finish(problem, Certification("undecided", bound, 0.0, reason=reason))
    found = integrate(residual, box, p, goal, run, tightness=_inner(tightness))
    if bound is None:
        found.exact *= _outer(tightness)
    rounding = 1.25 * found.rounding * root
    common = {"lower": found.lower, "boxes": found.leaves, "evaluations": found.evaluations}
    if bound is not None and found.lower > bound + rounding:
        return _finish(problem, Certification("refuted", bound, **common))
    total = sum_rounded_up(found.exact, rounding) if math.isfinite(found.exact + rounding) else math.inf
    stated = total if bound is None else bound
    if not found.finished or total > stated:
        reason = "interrupted" if found.interrupted else "the budget is spent; raise max_seconds or max_boxes"
        return _finish(problem, Certification("undecided", stated, reason=reason, proved_bound=total, **common))
    outcome = Outcome(
        True, False, found.tree, found.leaves, found.evaluations, found.exact, rounding, 0.0, None, np.empty(0)
    )
    exact = found.exact if bound is None else below(bound, rounding)
    certificate = replace(
        problem.certificate(stated, exact, rounding, outcome), norm="Lp", p=p, lower=min(found.lower, stated)
    )
    return _finish(problem, Certification("proved", stated, certificate=certificate, proved_bound=stated, **common))


def _inner(tightness: float | None) -> float:
    """What the search aims at, so that the stated bound with its slack is as tight as asked."""
    asked = 0.05 if tightness is None else tightness
    return (1.0 + asked) / (1.0 + _SLACK * min(1.0, asked / 0.05)) - 1.0


def _outer(tightness: float | None) -> float:
    """By how much the stated bound exceeds what was proved: room for a checker with other enclosures."""
    return 1.0 + 0.5 * _SLACK * min(1.0, (0.05 if tightness is None else tightness) / 0.05)


def _walls(
    problem: Problem, bound: float | None, tightness: float | None, max_seconds: float, max_boxes: int
) -> Certification | None:
    """Slanted walls in closed form and the smooth rest by boxes, with half of the budget; None if there are none."""
    if not isinstance(problem.target, Expression) or problem.engine != "sdpa":
        return None
    found = take_walls(problem.residual, problem.target.nodes, problem.domain)
    if found is None:
        return None
    run = Run(Budget(0.5 * max_seconds, max(1, max_boxes // 2)))
    return _sum(problem, bound, tightness, run, (found.groups, found.terms), found.parts)


def _settles(found: Certification, bound: float | None, tightness: float | None) -> bool:
    """Whether the question is answered; sums over groups that share variables need not be tight."""
    return found.proved and (bound is not None or found.bound <= (1.0 + (tightness or 0.05)) * found.lower)


def _sum(
    problem: Problem,
    bound: float | None,
    tightness: float | None,
    run: Run,
    divided: tuple[list[Group], list[Term]],
    known: tuple[Part, ...] = (),
) -> Certification:
    """An additive problem: one proof for each group of variables, beside the parts that are known already."""
    found = prove_sum(problem.residual, divided, problem.domain, bound, run, tightness=tightness, known=known)
    if known:  # the groups share variables: where the whole is worst is not where each of them is
        points, _ = worst_points(
            problem.error, problem.residual.heads, problem.domain.lower, problem.domain.upper, 2000
        )
        lower, witness, _ = lower_at(problem.residual, points, bound or 1e-9)
        if lower > found.lower:
            found.lower, found.witness = lower, witness
    common = {
        "lower": found.lower,
        "witness": as_point(found.witness),
        "boxes": found.leaves,
        "evaluations": found.evaluations,
    }
    if bound is not None and found.lower > bound:
        refuted = _refute(problem, found.witness, found.lower, bound)
        if refuted is not None:
            return _finish(problem, Certification("refuted", bound, **{**common, "lower": refuted}))
    if not found.parts:
        asked = bound if bound is not None else math.inf
        reason = "interrupted" if found.interrupted else found.reason
        return _finish(problem, Certification("undecided", asked, reason=reason, **common))
    exact, total = found.exact, sum_rounded_up(found.exact, found.rounding)
    if bound is not None:
        exact, total = below(bound, found.rounding), bound
    method = "taylor, walls in closed form" if known else "taylor"
    certificate = problem.certificate(total, exact, found.rounding, found, method)
    return _finish(problem, Certification("proved", total, certificate=certificate, proved_bound=total, **common))


def _sup(problem: Problem, bound: float | None, tightness: float | None, run: Run) -> Certification:
    """The sup norm over the whole domain by one search."""
    box = (problem.domain.lower, problem.domain.upper)
    count = {1: 2000, 2: 2500}.get(problem.domain.dim, 3000)
    points, values = worst_points(problem.error, problem.residual.heads, *box, count)
    accuracy = bound if bound is not None else max(float(values[0]), 1e-300)
    lower, witness, _ = lower_at(problem.residual, points, accuracy)
    _, _, sampled = lower_at(problem.residual, problem.domain.sample(32), accuracy)
    rounding = float(np.max(sampled.rounding))
    if bound is None:
        goal = Goal(max(0.05 * rounding, 1e-300), 1.1 * rounding, _inner(tightness))
        outcome = search(problem.residual, box, goal, run, lower=lower, witness=witness, tree=problem.tree())
        return _conclude(problem, bound, tightness, outcome)
    if lower > bound:
        refuted = _refute(problem, witness, lower, bound)
        if refuted is not None:
            return _finish(problem, Certification("refuted", bound, refuted, as_point(witness)))
    # The bound is shared between the exact part and the rounding part. How much rounding the worst leaf needs is only
    # known afterwards; if it was too much for the share, the search is repeated with the share it needs.
    share = max(min(max(2.0 * rounding, 0.01 * bound), 0.5 * (bound - 1.005 * lower)), 1.05 * rounding)
    outcome: Outcome | None = None
    settled = False
    for _ in range(3):
        exact = below(bound, share)
        if not exact > lower:
            break
        goal = Goal(exact * (1.0 - 1e-12), share * (1.0 - 1e-12))
        outcome = search(problem.residual, box, goal, run, lower=lower, witness=witness, tree=problem.tree())
        lower, witness = outcome.lower, outcome.witness
        settled = outcome.rounding <= share  # the exact part was proved for this very share
        if not outcome.finished or settled or run.budget.spent:
            break
        share = 1.05 * outcome.rounding
    if outcome is None or (outcome.finished and not settled):
        most = max(rounding, share / 1.05)
        reason = (
            f"the rounding of {dtype_name(problem.network)} alone may reach {most:.3g} beside an exact error of "
            f"{lower:.3g}; ask for more than {lower + 1.1 * most:.3g}" + _dtype_advice(problem)
        )
        return _finish(problem, Certification("undecided", bound, lower, as_point(witness), reason=reason))
    return _conclude(problem, bound, tightness, outcome, share)


def _dtype_advice(problem: Problem) -> str:
    return ", or use float64" if dtype_name(problem.network) == "float32" else ""


def _refute(problem: Problem, witness: np.ndarray | None, lower: float, bound: float) -> float | None:
    """The error that the network really makes near the witness, if it certainly exceeds the bound.

    The exact error at the witness exceeds the bound; what runs is the rounded network. So it is run, at the witness in
    its own dtype, and compared with the formula in ball arithmetic. Without a formula the rounding bound decides.
    """
    if witness is None:
        return None
    if isinstance(problem.target, Expression):
        point = np.asarray(witness, dtype=np.float32 if dtype_name(problem.network) == "float32" else np.float64)
        inside = np.clip(point.astype(float), problem.domain.lower, problem.domain.upper)
        if np.array_equal(inside, point.astype(float)):
            output = problem.network.evaluate(point.astype(float)[None], engine=problem.engine)[0]
            worst = 0.0
            with precision(200):
                named = {name: arb(float(x)) for name, x in zip(problem.domain.names, point, strict=True)}
                for node, value in zip(problem.target.nodes, output, strict=True):
                    gap = abs(evaluate(node, named) - arb(float(value)))
                    worst = max(worst, ball_below(gap) if gap.is_finite() else 0.0)
            if worst > bound:
                return worst
    _, _, found = lower_at(problem.residual, witness[None], bound)
    certain = lower - float(found.rounding[0])
    return certain if certain > bound else None


def _conclude(
    problem: Problem, bound: float | None, tightness: float | None, outcome: Outcome, share: float = 0.0
) -> Certification:
    common = {
        "lower": outcome.lower,
        "witness": as_point(outcome.witness),
        "boxes": outcome.leaves,
        "evaluations": outcome.evaluations,
        "leaf_upper": outcome.leaf_upper,
    }
    if bound is not None and outcome.refuted:
        found = _refute(problem, outcome.witness, outcome.lower, bound)
        if found is not None:
            return _finish(problem, Certification("refuted", bound, **{**common, "lower": found}))
    weaker = None
    if math.isfinite(outcome.exact) and math.isfinite(outcome.rounding):
        slack = _outer(tightness)
        exact, rounding = max(outcome.exact * slack, outcome.lower), outcome.rounding * slack
        weaker = problem.certificate(sum_rounded_up(exact, rounding), exact, rounding, outcome)
    if outcome.finished and bound is not None:
        stated = min(share, 1.25 * outcome.rounding)
        certificate = problem.certificate(bound, below(bound, stated), stated, outcome)
        return _finish(problem, Certification("proved", bound, certificate=certificate, proved_bound=bound, **common))
    if outcome.finished and weaker is not None:
        return _finish(
            problem, Certification("proved", weaker.bound, certificate=weaker, proved_bound=weaker.bound, **common)
        )
    proved = weaker.bound if weaker is not None else math.inf
    if outcome.interrupted:
        reason = "interrupted"
    elif outcome.refuted:
        reason = "the exact error exceeds what the rounding leaves of the bound" + _dtype_advice(problem)
    else:
        reason = "the budget is spent; raise max_seconds or max_boxes, or ask for a larger bound"
    asked = bound if bound is not None else proved
    return _finish(
        problem, Certification("undecided", asked, reason=reason, proved_bound=proved, weaker=weaker, **common)
    )


def _finish(problem: Problem, result: Certification) -> Certification:
    result.seconds = time.perf_counter() - problem.started
    return result
