"""`certify`: a proof that a network is close to its target, or a point where it is not.

    certify(network, target, bound=1e-6)       proved, refuted (with a witness), or undecided within the budget
    certify(network, target, tightness=0.05)   the smallest bound it can prove: sup |g - f| in [lower, (1 + tightness) lower]

The statement proved is that of `Certificate`: |fl(g) - f| <= exact_part + rounding_part <= bound on the whole domain, for
the network with the parameters it has, run in its dtype by the engine named. The proof of |g - f| <= exact_part is a
bisection tree on whose leaves Taylor models meet the bound (`search.py`, `residual.py`, `taylor_head.py`); the rounding
part is bounded on the same leaves (`rounding.py`).

The prover itself assumes IEEE float64 arithmetic rounded to nearest and matrix products that add n products in some order
(no Strassen-like schemes); `verify` re-proves a certificate in ball arithmetic without these assumptions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from torch import nn

from softwright.attention.network import AttentionNetwork
from softwright.certify.ball_expression import ball_below, evaluate, precision
from softwright.certify.certificate import Certificate, sum_rounded_up
from softwright.certify.exact_network import check_network, dtype_name, exact_heads, float_values
from softwright.certify.integrate import integrate, root_up
from softwright.certify.mlp_models import MlpTarget
from softwright.certify.points_prover import point_errors
from softwright.certify.probe import worst_points
from softwright.certify.residual import ORDERS, Residual
from softwright.certify.rounding import ASSUMPTIONS
from softwright.certify.search import Budget, Goal, Outcome, Progress, lower_at, search, start_levels
from softwright.certify.series import Basis
from softwright.certify.sum_prover import SumOutcome, prove_sum, split_problem
from softwright.certify.target_models import models_of
from softwright.certify.taylor_model import TaylorModel
from softwright.domain import Box
from softwright.errors import Faults, InvalidInput
from softwright.fileformat import weights_sha256
from softwright.targets.coerce import as_target
from softwright.targets.expression import Expression
from softwright.targets.table import Table
from softwright.targets.target import Target

Status = Literal["proved", "refuted", "undecided"]
_SLACK = 0.02  # share of the stated bound kept free, so that a checker with other enclosures agrees


@dataclass
class Certification:
    """What `certify` found. `certificate` is there exactly when `status` is "proved".

    `bound` is what was asked (or, with `tightness`, what was found); `lower` is the largest error that is certain, seen at
    `witness`. An undecided search still proved something: `proved_bound` (infinite if it was cut off too early), with
    `weaker` the certificate of that. `leaf_upper` holds the proved error on every leaf, in the order of the tree.
    """

    status: Status
    bound: float
    lower: float
    witness: tuple[float, ...] = ()
    certificate: Certificate | None = None
    reason: str = ""
    boxes: int = 0
    evaluations: int = 0
    seconds: float = 0.0
    proved_bound: float = math.inf
    weaker: Certificate | None = None
    leaf_upper: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)

    @property
    def proved(self) -> bool:
        return self.status == "proved"

    def __str__(self) -> str:
        if self.status == "proved":
            return f"proved: {self.certificate}"
        at = ", ".join(f"{x:.17g}" for x in self.witness)
        if self.status == "refuted":
            return f"refuted: the error is at least {self.lower:.6g} > {self.bound:.6g} at ({at})"
        return f"undecided: {self.reason}; the error is between {self.lower:.4g} and {self.proved_bound:.4g}"


@dataclass(frozen=True)
class Problem:
    """A checked question: what is to be proved, on what, for which run."""

    network: AttentionNetwork
    target: Target
    domain: Box
    engine: str
    residual: Residual
    assumptions: tuple[str, ...]
    started: float

    def error(self, points: np.ndarray) -> np.ndarray:
        """|g - f| in plain float64, largest output; 0 where f is undefined. Only steers."""
        with np.errstate(all="ignore"):
            difference = np.abs(float_values(self.residual.heads, points) - self.target(points) - self.residual.constant)
        return np.nan_to_num(np.max(difference, axis=1), nan=0.0, posinf=0.0)

    def certificate(
        self, bound: float, exact: float, rounding: float, outcome: Outcome | SumOutcome, method: str = "taylor"
    ) -> Certificate:
        return Certificate(
            norm="sup",
            bound=bound,
            exact_part=exact,
            rounding_part=rounding,
            domain={name: (low, high) for name, low, high in self.domain},
            dtype=dtype_name(self.network),
            engine=self.engine,
            method=method,
            order=self.residual.order,
            boxes=outcome.leaves,
            tree=outcome.parts if isinstance(outcome, SumOutcome) else (outcome.tree or None),
            weights_sha256=network_sha256(self.network),
            target=self.target.describe(),
            version=_version(),
            seconds=time.perf_counter() - self.started,
            assumptions=self.assumptions,
            lower=outcome.lower,
            witness=_point(outcome.witness),
        )


def _point(witness: np.ndarray | None) -> tuple[float, ...]:
    return () if witness is None else tuple(float(x) for x in witness)


def _version() -> str:
    from softwright import __version__

    return __version__


def network_sha256(network: AttentionNetwork) -> str:
    """The hash of the weights as a model file stores them."""
    return weights_sha256({name: tensor.detach().cpu().numpy() for name, tensor in network.state_dict().items()})


def pose(
    network: AttentionNetwork, target: Any, domain: Box | None, engine: str, order: int | None = None
) -> Problem:
    """Check a question and bring it to the form the search needs; all faults at once."""
    started = time.perf_counter()
    faults = Faults("certify")
    if not isinstance(network, AttentionNetwork):
        raise InvalidInput("certify", [f"{type(network).__name__} is not an AttentionNetwork; build one first"])
    check_network(network, engine, faults)
    box = domain if domain is not None else network.box
    faults.check(
        box.names == network.names,
        f"the domain has the sides {', '.join(box.names)}, the network takes {', '.join(network.names)}; name them alike",
    )
    try:
        if isinstance(target, nn.Sequential):
            target = MlpTarget(target, network.names)
        wanted = as_target(target, network.box)
    except InvalidInput as error:
        faults.found += error.faults
        wanted = None
    if wanted is not None:
        faults.check(
            wanted.outputs == network.outputs,
            f"the target has {wanted.outputs} output(s), the network {network.outputs}; they must agree",
        )
        if isinstance(wanted, Expression) and box.names == network.names:
            faults.found += [report for report in wanted.find_undefined(box) if "may be" not in report]
    faults.check(
        network.box.dim in ORDERS, f"{network.box.dim} variables are more than the {max(ORDERS)} that can be certified"
    )
    faults.raise_if_any()
    if wanted is None:
        raise InvalidInput("certify", ["no target given"])
    models, assumptions = (_nothing, ()) if isinstance(wanted, Table) else models_of(wanted, network.names, box)
    residual = Residual(
        heads=exact_heads(network, engine),
        target=models,
        dim=box.dim,
        outputs=network.outputs,
        order=order or ORDERS[box.dim],
        constant=np.zeros(network.outputs),
    )
    return Problem(network, wanted, box, engine, residual, (*assumptions, *ASSUMPTIONS[dtype_name(network)]), started)


def _nothing(shape: Basis, centers: np.ndarray, radii: np.ndarray) -> list[TaylorModel]:
    """A table has no models between its points; it is certified at them."""
    raise InvalidInput("certify", ["a table is certified at its points only"])


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
) -> Certification:
    """Prove that the network is within `bound` of the target on the domain, or find the smallest bound (`tightness`)."""
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
    budget = Budget(max_seconds, max_boxes)
    if isinstance(problem.target, Table):
        if p is not None:
            raise InvalidInput("certify", ["a table has no integral; use norm='sup', which is the error at its points"])
        return _points(problem, problem.target, bound)
    if p is not None:
        return _integral(problem, p, bound, tightness, budget, executor, progress)
    if split_problem(problem.residual, problem.target, problem.domain.names) is not None:
        return _sum(problem, bound, tightness, budget, executor, progress)
    return _sup(problem, bound, tightness, budget, executor, progress)


def _points(problem: Problem, table: Table, bound: float | None) -> Certification:
    """The error at every point of a table."""
    points = table.points
    if dtype_name(problem.network) == "float32":
        points = points.astype(np.float32).astype(float)
    inside = problem.domain.contains(table.points)
    found = point_errors(problem.residual.heads, points[inside], table.values[inside], bound or 1e-9)
    worst = int(np.argmax(found.lower)) if len(found.lower) else 0
    exact, rounding = float(np.max(found.upper, initial=0.0)), float(np.max(found.rounding, initial=0.0))
    total, lower = sum_rounded_up(exact, rounding), float(np.max(found.lower, initial=0.0))
    witness = points[inside][worst] if len(found.lower) else None
    outcome = Outcome(True, False, b"", len(found.lower), len(found.lower), exact, rounding, lower, witness, found.upper)
    common = {"lower": lower, "witness": _point(witness), "boxes": outcome.leaves, "leaf_upper": found.upper}
    stated = total if bound is None else bound
    if total > stated:
        status: Status = "refuted" if float(np.max(found.lower - found.rounding)) > stated else "undecided"
        reason = "" if status == "refuted" else "rounding leaves it open" + _dtype_advice(problem)
        return _finish(problem, Certification(status, stated, reason=reason, proved_bound=total, **common))
    text = f"the statement covers the table's {outcome.leaves} points and nothing between them"
    statement = replace(problem, assumptions=(text, *problem.assumptions))
    certificate = statement.certificate(stated, exact, rounding, outcome, "taylor models at the points of a table")
    return _finish(problem, Certification("proved", stated, certificate=certificate, proved_bound=stated, **common))


def _integral(
    problem: Problem,
    p: float,
    bound: float | None,
    tightness: float | None,
    budget: Budget,
    executor: Executor | None,
    progress: Callable[[Progress], None] | None,
) -> Certification:
    """An L_p norm. Rounding adds its largest value times the p-th root of the volume."""
    low, high = problem.domain.lower, problem.domain.upper
    residual = replace(problem.residual, with_mean_square=True)
    _, _, sampled = lower_at(residual, problem.domain.sample(32), bound or 1e-9)
    root = root_up(float(np.prod(high - low)) * (1.0 + 1e-14), p)
    goal = None
    if bound is not None:
        share = max(0.01 * bound, 2.0 * float(np.max(sampled.rounding)) * root)
        goal = _below(bound, share)
        if not goal > 0:
            reason = f"rounding alone may reach {share / 2:.3g}; ask for more" + _dtype_advice(problem)
            return _finish(problem, Certification("undecided", bound, 0.0, reason=reason))
    found = integrate(residual, low, high, p, goal, tightness, budget, executor, progress)
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
    exact = found.exact if bound is None else _below(bound, rounding)
    certificate = replace(
        problem.certificate(stated, exact, rounding, outcome), norm="Lp", p=p, lower=min(found.lower, stated)
    )
    return _finish(problem, Certification("proved", stated, certificate=certificate, proved_bound=stated, **common))


def _sum(
    problem: Problem,
    bound: float | None,
    tightness: float | None,
    budget: Budget,
    executor: Executor | None,
    progress: Callable[[Progress], None] | None,
) -> Certification:
    """An additive problem: one proof for each group of variables."""
    divided = split_problem(problem.residual, problem.target, problem.domain.names)
    if divided is None:
        return _sup(problem, bound, tightness, budget, executor, progress)
    found = prove_sum(problem.residual, *divided, problem.domain, bound, tightness, budget, executor, progress)
    common = {"lower": found.lower, "witness": _point(found.witness), "boxes": found.leaves, "evaluations": found.evaluations}
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
        exact, total = _below(bound, found.rounding), bound
    certificate = problem.certificate(total, exact, found.rounding, found)
    return _finish(problem, Certification("proved", total, certificate=certificate, proved_bound=total, **common))


def _sup(
    problem: Problem,
    bound: float | None,
    tightness: float | None,
    budget: Budget,
    executor: Executor | None,
    progress: Callable[[Progress], None] | None,
) -> Certification:
    low, high = problem.domain.lower, problem.domain.upper
    count = {1: 2000, 2: 2500}.get(problem.domain.dim, 3000)
    points, values = worst_points(problem.error, problem.residual.heads, low, high, count)
    accuracy = bound if bound is not None else max(float(values[0]), 1e-300)
    lower, witness, _ = lower_at(problem.residual, points, accuracy)
    _, _, sampled = lower_at(problem.residual, problem.domain.sample(32), accuracy)
    rounding = float(np.max(sampled.rounding))
    if bound is None:
        inner = (1.0 + (tightness or 0.0)) / (1.0 + _SLACK * min(1.0, (tightness or 0.0) / 0.05)) - 1.0
        goal = Goal(max(0.05 * rounding, 1e-300), 1.1 * rounding, inner)
        outcome = search(problem.residual, low, high, goal, budget, start_levels(problem.residual), lower, witness, executor, progress)
        return _conclude(problem, bound, tightness, outcome)
    if lower > bound:
        refuted = _refute(problem, witness, lower, bound)
        if refuted is not None:
            return _finish(problem, Certification("refuted", bound, refuted, _point(witness)))
    # The bound is shared between the exact part and the rounding part. How much rounding the worst leaf needs is only known
    # afterwards; if it was too much for the share, the search is repeated with the share it needs.
    share = max(min(max(2.0 * rounding, 0.01 * bound), 0.5 * (bound - 1.005 * lower)), 1.05 * rounding)
    outcome: Outcome | None = None
    for _ in range(3):
        exact = _below(bound, share)
        if not exact > lower:
            break
        goal = Goal(exact * (1.0 - 1e-12), share * (1.0 - 1e-12))
        outcome = search(problem.residual, low, high, goal, budget, start_levels(problem.residual), lower, witness, executor, progress)
        lower, witness = outcome.lower, outcome.witness
        if not outcome.finished or outcome.rounding <= share or budget.spent:
            break
        share = 1.05 * outcome.rounding
    if outcome is None or (outcome.finished and outcome.rounding > share):
        reason = (
            f"the rounding of {dtype_name(problem.network)} alone may reach {max(rounding, share / 1.05):.3g} beside an exact "
            f"error of {lower:.3g}; ask for more than {lower + 1.1 * max(rounding, share / 1.05):.3g}" + _dtype_advice(problem)
        )
        return _finish(problem, Certification("undecided", bound, lower, _point(witness), reason=reason))
    return _conclude(problem, bound, tightness, outcome, share)


def _dtype_advice(problem: Problem) -> str:
    return ", or use float64" if dtype_name(problem.network) == "float32" else ""


def _below(bound: float, part: float) -> float:
    """The largest float whose exact sum with `part` does not exceed `bound`."""
    rest = bound - part
    while Fraction(rest) + Fraction(part) > Fraction(bound):
        rest = math.nextafter(rest, -math.inf)
    return rest


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
                from flint import arb

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
        "witness": _point(outcome.witness),
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
        slack = 1.0 + 0.5 * _SLACK * min(1.0, (tightness or 0.05) / 0.05)
        exact, rounding = max(outcome.exact * slack, outcome.lower), outcome.rounding * slack
        weaker = problem.certificate(sum_rounded_up(exact, rounding), exact, rounding, outcome)
    if outcome.finished and bound is not None:
        stated = min(share, 1.25 * outcome.rounding)
        certificate = problem.certificate(bound, _below(bound, stated), stated, outcome)
        return _finish(problem, Certification("proved", bound, certificate=certificate, proved_bound=bound, **common))
    if outcome.finished and weaker is not None:
        return _finish(problem, Certification("proved", weaker.bound, certificate=weaker, proved_bound=weaker.bound, **common))
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
