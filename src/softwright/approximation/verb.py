"""`approximate`: the whole way of the data in one function.

    target -> problem in the unit frame -> heads -> network in the dtype asked for -> check -> proof -> result

All input is checked before any work starts. A check that misses (rounding in float32, a corner no builder saw) sends
the problem back with a tighter tolerance, a few times; what is returned has met the tolerance, and
`ToleranceNotReached` carries the best network otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from softwright.approximation.choose import STRATEGIES, choose
from softwright.approximation.formula import Formula
from softwright.approximation.observe import observe
from softwright.approximation.plan import make_plan
from softwright.approximation.problem import Budget, Fit, OutOfBudget, Problem, probe_points
from softwright.approximation.strategies.table import fit_table
from softwright.attention import DTYPES, AttentionNetwork
from softwright.domain import Box
from softwright.errors import Faults, InvalidInput, ToleranceNotReached
from softwright.proof.prover import certify as prove
from softwright.proof.search.search import Progress as ProofState
from softwright.result.built import Built
from softwright.result.observed import Observed
from softwright.targets import Expression, Function, Table, Target, as_target

_PROOF_SECONDS = 30.0  # a proof takes well under a second, or it will not come
_ROUNDS = 3  # how often a missed check may send the problem back
Progress = Callable[[str], None]


def approximate(
    target: str | Callable[..., Any] | Target | tuple[Any, Any],
    box: Box | Mapping[str, Sequence[float]] | None = None,
    *,
    tol: float = 1e-6,
    relative: bool = False,
    strategy: str = "auto",
    dtype: str = "float64",
    max_tokens: int = 100_000,
    max_seconds: float = 60.0,
    certify: bool = True,
    progress: Progress | None = None,
) -> Built:
    """An attention network within `tol` of the target, with a certificate where the target allows a proof.

    target       a formula ("sin(3*x)*exp(-y**2)"), a Python callable, a `Table`, or any `Target`
    box          the domain, `Box(x=(-1, 1))`; a table brings its own
    tol          largest allowed deviation, absolute; with `relative`, times half the range of the target
    strategy     "auto" or one of spectral, affine, grid, pieces, ridge, sum, scattered, cells
    dtype        "float64" or "float32": what the network runs in, and what is checked and proved
    max_tokens, max_seconds    the budget; `ToleranceNotReached` carries the best result if it does not suffice
    certify      prove the tolerance over the whole box, rounding included; a callable needs a `Function` with bounds
                 on its derivatives for that. A table is proved at its points, and if they fill a grid, a second bound
                 between them is found (`certificate.between`). False leaves the error observed, i.e. sampled
    progress     called with a short message as the work goes on
    """
    started = time.monotonic()
    target, box = _checked(target, box, tol, strategy, dtype, max_tokens, max_seconds)
    budget = Budget(max_tokens, max_seconds, progress or (lambda message: None))
    tolerance = _absolute(target, box, tol, relative)
    problem, formula = _problem(target, box, tolerance, dtype, budget)
    best: Built | None = None
    for _ in range(_ROUNDS):
        try:
            # The linear algebra is thousands of small problems: one thread is several times faster than a pool.
            with threadpool_limits(limits=1):
                if isinstance(target, Table):
                    fit = fit_table(problem, target, box)
                else:
                    fit = choose(problem, formula, strategy)
                built = _finish(fit, target, box, tolerance, dtype, started)
        except OutOfBudget:
            break
        seen = built.observed_error
        if seen <= tolerance:
            if not certify:
                return replace(built, unproved="not asked for")
            budget.say("proving")
            built, seen = _prove(built, target, tolerance, max_seconds, budget)
            if built.certificate is not None or not _worth_another_round(built):
                return built
        if best is None or _better(built, best, tolerance):
            best = built
        if fit.error > problem.tolerance or budget.exhausted:
            break
        if best.observed_error <= tolerance:  # only the proof is missing: worth as much again, not the whole budget
            budget.max_seconds = min(budget.max_seconds, 3.0 * (time.monotonic() - started))
        budget.say("the check or the proof missed the tolerance; tightening")
        problem = replace(problem, tolerance=problem.tolerance * float(np.clip(0.8 * tolerance / seen, 0.1, 0.5)))
    if best is None:
        raise ToleranceNotReached(
            f"no network was finished within {max_seconds:g} s; allow more with max_seconds, or a larger tol", None
        )
    if best.observed_error > tolerance or best.unproved == _REFUTED:
        raise ToleranceNotReached(_advice(best, tolerance, problem, time.monotonic() - started, max_seconds), best)
    return best


_REFUTED = "the proof found a point beyond the tolerance"
_ROUNDING = "rounding leaves too little room"


def _prove(built: Built, target: Target, tolerance: float, max_seconds: float, budget: Budget) -> tuple[Built, float]:
    """The result with its certificate, or with the reason why there is none, and the error that is certain.

    A target that carries no bounds cannot be proved: the result says so and its error stays observed.
    """
    if isinstance(target, Function) and target.lipschitz is None and target.second_derivative is None:
        reason = "a callable without bounds on its derivatives can only be sampled; see Function(second_derivative=...)"
        return replace(built, unproved=reason), built.observed_error

    def report(state: ProofState) -> None:
        done = f"{state.proved_volume:.0%} of the box proved in {state.boxes} boxes ({state.boxes_per_second:.0f}/s)"
        budget.say(f"proving: {done}, error between {state.lower:.2g} and {state.upper:.2g}")

    seconds = min(max_seconds, _PROOF_SECONDS)
    with threadpool_limits(limits=1):
        result = prove(built.network, target, bound=tolerance, max_seconds=seconds, progress=report)
    if result.certificate is not None:
        return replace(built, certificate=result.certificate), built.observed_error
    if result.status == "refuted":
        return replace(built, unproved=_REFUTED), result.lower
    if "rounding" in result.reason:
        return replace(built, unproved=f"{_ROUNDING} ({result.reason})"), 2 * tolerance
    return replace(built, unproved=f"undecided ({result.reason})"), built.observed_error


def _worth_another_round(built: Built) -> bool:
    """Tighter values may turn a refuted network, or one whose rounding is too coarse, into one that is proved."""
    return built.unproved == _REFUTED or built.unproved.startswith(_ROUNDING)


def _better(new: Built, old: Built, tolerance: float) -> bool:
    if old.observed_error <= tolerance:
        return new.observed_error <= tolerance and new.network.tokens < old.network.tokens
    return new.observed_error < old.observed_error


def _checked(
    target: Any, box: Any, tol: float, strategy: str, dtype: str, max_tokens: int, max_seconds: float
) -> tuple[Target, Box]:
    """Everything that can be wrong with the input, found before any work and reported together."""
    faults = Faults("approximate")
    if isinstance(target, Table) and box is None:
        box = target.box
    if isinstance(box, Mapping):
        try:
            box = Box(box)
        except InvalidInput as error:
            faults.found += error.faults
            box = None
    elif not isinstance(box, Box):
        faults.add(f"box must be a Box, for example Box(x=(-1, 1)), got {type(box).__name__}")
        box = None
    number = isinstance(tol, int | float) and np.isfinite(tol) and tol > 0
    faults.check(number, f"tol must be a positive number, got {tol!r}; try tol=1e-6")
    faults.check(strategy in STRATEGIES, f"unknown strategy {strategy!r}; choose from {', '.join(STRATEGIES)}")
    faults.check(dtype in DTYPES, f"unknown dtype {dtype!r}; choose from {', '.join(DTYPES)}")
    faults.check(isinstance(max_tokens, int) and max_tokens >= 1, f"max_tokens must be at least 1, got {max_tokens!r}")
    faults.check(max_seconds > 0, f"max_seconds must be positive, got {max_seconds!r}")
    checked: Target | None = None
    if box is not None:
        try:
            checked = as_target(target, box)
            _check_target(checked, box, faults)
        except InvalidInput as error:
            faults.found += error.faults
    elif isinstance(target, str):
        try:
            Expression(target)
        except InvalidInput as error:
            faults.found += error.faults
    faults.raise_if_any()
    if checked is None or box is None:
        raise RuntimeError("unreachable: missing target or box is a fault")
    return checked, box


def _check_target(target: Target, box: Box, faults: Faults) -> None:
    if not faults.check(
        tuple(target.names) == box.names,
        f"the target's variables are {', '.join(target.names)}, the box has {', '.join(box.names)}; name them alike",
    ):
        return
    if isinstance(target, Expression):
        faults.found += target.find_undefined(box)
    elif isinstance(target, Table):
        outside = ~box.contains(target.points)
        faults.check(
            not outside.any(),
            f"{int(outside.sum())} point(s) of the table lie outside the box; widen the box or leave it out",
        )


def _absolute(target: Target, box: Box, tol: float, relative: bool) -> float:
    """The tolerance in the target's units; relative means times half its range (never larger than max|f|)."""
    if not relative:
        return float(tol)
    values = target.values if isinstance(target, Table) else target(box.from_unit(probe_points(box.dim, 6000, seed=61)))
    half_range = 0.5 * float((values.max(axis=0) - values.min(axis=0)).max())
    if half_range == 0:
        half_range = max(float(np.abs(values).max()), 1.0)
    return float(tol) * half_range


def _problem(target: Target, box: Box, tolerance: float, dtype: str, budget: Budget) -> tuple[Problem, Formula | None]:
    if isinstance(target, Expression):
        formula = Formula(target, box)
        return Problem(formula.values, box.dim, target.outputs, tolerance, dtype, formula.kinks, budget), formula
    return Problem(lambda t: target(box.from_unit(t)), box.dim, target.outputs, tolerance, dtype, None, budget), None


def _finish(fit: Fit, target: Target, box: Box, tolerance: float, dtype: str, started: float) -> Built:
    network = AttentionNetwork(fit.heads, box, DTYPES[dtype], fit.origin)
    if isinstance(target, Table):
        errors = np.abs(network.evaluate(target.points) - target.values).max(axis=1)
        worst = int(errors.argmax())
        observed = Observed(float(errors[worst]), tuple(target.points[worst].tolist()), len(errors))
    else:
        observed = observe(network, target)
    plan = make_plan(fit, network, tolerance, dtype, time.monotonic() - started)
    return Built(network=network, plan=plan, target=target.describe(), observed=observed, source=target)


def _advice(best: Built, tolerance: float, problem: Problem, seconds: float, max_seconds: float) -> str:
    """What was reached, and what to change."""
    lines = [f"asked for {tolerance:.3g}, reached {best.observed_error:.3g} with {best.network.tokens} token(s)"]
    jumps = [reason for reason in best.plan.reasons if "jumps" in reason]
    if jumps:
        lines += [f"  {reason}" for reason in jumps]
        lines.append(
            "  no continuous network can meet a jump in the sup norm: exclude it from the box or smooth the target"
        )
    elif seconds >= max_seconds:
        lines.append("  the time is used up: raise max_seconds")
    elif problem.dim > 1 and problem.kinks:
        lines.append(
            "  the formula has kinks that are neither flat nor along one direction, which heads resolve slowly: "
            "try a larger tol, or give the parts between the kinks their own boxes"
        )
    elif problem.dtype == "float32" and tolerance < 1e-5:
        lines.append("  float32 rounding sets a floor near 1e-5 for many targets: use dtype='float64' or a larger tol")
    else:
        lines.append("  try a larger tol, a smaller box, or split the target where it is not smooth")
    return "\n".join(lines)
