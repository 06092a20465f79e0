"""`approximate`: the whole way of the data in one function.

    target -> problem in the unit frame -> heads -> network in the dtype asked for -> check -> proof -> result

All input is checked before any work starts. A check that misses (rounding in float32, a corner no builder saw) sends
the problem back with a tighter tolerance, a few times; what is returned has met the tolerance, and
`ToleranceNotReached` carries the best network otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from softwright.approximation.advice import advice_on
from softwright.approximation.by_target import fit_target, problem_of
from softwright.approximation.candidates import (
    Candidate,
    beside_layer,
    beside_stack,
    finished,
    looked_at,
    proved_as_stack,
)
from softwright.approximation.catalogue import listed
from softwright.approximation.in_norm import in_norm
from softwright.approximation.observe import observed
from softwright.approximation.plan import make_plan
from softwright.approximation.problem import Budget, Fit, OutOfBudget, Problem
from softwright.approximation.readable import fit_readable, readable_as_it_is, told, unreadable
from softwright.approximation.request import absolute_tolerance, check_resolution, checked, largest_value
from softwright.approximation.strategies.compose import proved_stack
from softwright.attention import AttentionNetwork, usual_engine
from softwright.domain import Box
from softwright.errors import ToleranceNotReached
from softwright.precision import Dtype, Precision
from softwright.progress import Progress, reporting
from softwright.proof import beyond_range
from softwright.proof import certify as prove
from softwright.result.built import Built
from softwright.result.outcome import Outcome
from softwright.targets import Expression, Function, Table, Target
from softwright.threads import one_pool_thread

_PROOF_WORK = 30.0  # a proof takes well under one unit, or it will not come
# Work for one layer with no more tokens than a stack that is proved already: in one variable it mostly has fewer; in
# several what has a chance (a grid of small rank, a sum over few variables each) is found with little.
_ONE_LAYER_OF_ONE, _ONE_LAYER_OF_MANY = 30.0, 4.0
_NOT_ASKED = Outcome.NOT_ASKED.value
# Of all work, for one layer of a smooth formula of which no stack is proved: in float64 few are met then, in float32 it
# may be rounding alone that kept the stack from its proof.
_AFTER_A_STACK = 0.07
_NOISY_TOKENS = 200  # at most, of a fit to noisy rows
_ROUNDS = 3  # how often a missed check may send the problem back


def approximate(
    target: str | Callable[..., Any] | Target | tuple[Any, Any],
    box: Any = None,
    *,
    tol: float = 1e-6,
    relative: bool = False,
    strategy: str = "auto",
    style: str = "plain",
    dtype: Dtype = "float64",
    engine: str = "auto",
    gap: float | None = None,
    norm: str | float = "sup",
    max_tokens: int = 100_000,
    max_work: float = 60.0,
    max_seconds: float = 600.0,
    max_queries: int | None = None,
    noise: float | str | None = None,
    between: str = "auto",
    certify: bool = True,
    tightness: float | None = 0.1,
    progress: Progress = None,
) -> Built[Any]:
    """An attention network within `tol` of the target, with a certificate where the target allows a proof.

    target       a formula ("sin(3*x)*exp(-y**2)"), a Python callable, a `Table`, or any `Target`
    box          the domain, `Box(x=(-1, 1))`, a mapping, or a pair for every variable; a table brings its own
    tol          largest allowed deviation, absolute; with `relative`, times half the range of the target
    strategy     one of STRATEGIES
    style        "plain", or "readable": no token holds more than twice the target's range, and the plan tells what each
                 adds and what that costs in tokens
    dtype        "float64" or "float32", or the torch.dtype: what the network runs in, and what is checked and proved
    engine       how a network of one layer runs, and is proved: "sdpa", "factorised" or, in float32, "double" (float64
                 inside, rounded once); "auto" is "double" for float32 networks with at most 20 tokens a head, where it
                 takes 1.4 to 2.7 times as long and the formula has no kinks, else "sdpa". Stacks have one engine
    gap          allows jumps (`where`, sign, floor, ...) of a formula: the error is proved wherever no comparison a < b
                 has |b - a| < gap; inside that band the network passes from one value of the jump to the other
    norm         "sup", or "L1", "L2", ...: (integral of |network - formula|^p)^(1/p) over the box is what `tol` bounds;
                 jumps of a formula are allowed then, everywhere
    max_tokens, max_work    the budget; `ToleranceNotReached` carries the best result if it does not suffice. Work is
                 counted, about a second of one core a unit, so the same call gives the same network on a busy machine
    max_queries  how many points a callable may be asked for, those that observe the error included; None: any number.
                 The plan says how many it was
    noise        of a table: "auto", or the standard deviation of its values. The rows are then measurements, not values
                 to meet: tokens are chosen by cross-validation, the result is a fit and says so, with its rms and
                 coverage in `plan.noise` and its residuals as the figure; `tol` and `certify` do not apply
    between      of a table on a grid: "smooth" between the rows, "linear", which follows their multilinear
                 interpolation, or "auto": smooth, unless rows that are left out show that interpolation is better
    max_seconds  a last resort by the clock; the plan says so if it ended the search
    certify      prove the tolerance over the whole box, rounding included; a callable needs a `Function` with bounds
                 on its derivatives for that. A table is proved at its points, and if they fill a grid, a second bound
                 between them is found (`certificate.between`). False leaves the error observed, i.e. sampled
    tightness    of a formula that is proved to be within `tol`: go on, with a little more work, to a bound that exceeds
                 an error which is certainly there by this share at most, and state that; None states `tol`
    progress     a function that is given short messages; None reports by itself, False not at all
    """
    started = time.monotonic()
    with reporting(progress, "checking the input") as say:
        limits = {"max_tokens": max_tokens, "max_work": max_work, "max_seconds": max_seconds}
        switches = {"relative": relative, "certify": certify}
        before = target.asked if isinstance(target, Function) else 0
        wanted, domain, precision = checked(
            target,
            box,
            tol,
            strategy,
            dtype,
            gap,
            norm,
            limits,
            tightness,
            switches,
            max_queries,
            noise,
            style,
            between,
            engine,
        )
        if isinstance(wanted, Function):
            wanted.allow(max_queries, before)
        if noise is not None and isinstance(wanted, Table):
            return _fitted_to_noise(wanted, domain, noise, precision, max_tokens, started, engine)
        budget = Budget(max_tokens, max_work, max_seconds, say)
        tolerance = absolute_tolerance(wanted, domain, tol, relative)
        if norm == "sup":
            check_resolution(wanted, domain, tolerance, precision)
        if norm != "sup":
            more = {"strategy": strategy, "dtype": dtype, "certify": certify, "progress": say, **limits}
            more["engine"] = engine
            built = in_norm(wanted, domain, tolerance, norm, precision, budget, partial(approximate, **more))
            return _told(built if certify else replace(built, certificate=None, unproved=_NOT_ASKED), budget)
        problem, formula = problem_of(wanted, domain, tolerance, precision.name, budget)
        problem = replace(problem, gap=gap, between=between)
        stack, missing, plainly = None, "", None
        if style == "readable":
            same = {"tol": tolerance, "dtype": dtype, "certify": certify, "progress": say, "tightness": tightness}
            same |= {"max_queries": max_queries, "engine": engine, **limits}
            built, plainly = readable_as_it_is(problem, partial(approximate, wanted, domain, **same))
            if built is not None:
                return _told(built, budget)
            say("building with small values")
        elif strategy == "auto" and engine in ("auto", "sdpa"):
            with one_pool_thread():
                compiled = proved_stack(problem, formula)
            stack, missing = (None, compiled) if isinstance(compiled, str) else (compiled, "")
        if stack is not None:
            budget.max_tokens = min(max_tokens, stack.tokens)
            budget.end_in(_ONE_LAYER_OF_ONE if problem.dim == 1 else _ONE_LAYER_OF_MANY)
            problem = replace(problem, only_fewer=True)
        elif style == "plain" and strategy == "auto" and formula is not None and _is_smooth_of_many(problem, precision):
            budget.end_in(_AFTER_A_STACK * max_work)
        best: Candidate | None = None
        for _ in range(_ROUNDS):
            try:
                # The linear algebra is thousands of small problems: one thread is several times faster than a pool.
                with one_pool_thread():
                    if style == "readable":
                        fit = fit_readable(problem)
                    else:
                        fit = fit_target(wanted, domain, problem, formula, strategy)
                    if fit is None:
                        break
                    found = finished(fit, wanted, domain, tolerance, precision, started, engine)
            except OutOfBudget:
                break
            if found.error <= tolerance:
                if style == "readable":
                    found = replace(found, built=told(found.built, problem, plainly))
                if not certify and (stack is None or fit.tokens <= stack.tokens):
                    built = beside_stack(found, stack, missing).built
                    return _told(replace(built, certificate=None, unproved=_NOT_ASKED), budget)
                if stack is not None and fit.tokens > stack.tokens:
                    best = found
                    break
                say("proving")
                hurried = stack is not None and problem.dim > 1
                found = _proved(found, wanted, budget, 1.0 if hurried else _PROOF_WORK, tightness)
                if found.outcome is Outcome.PROVED:
                    return _told(beside_stack(found, stack, missing).built, budget)
                if not found.outcome.may_yield or hurried:
                    best = found
                    break
            if best is None or _better(found.built, best.built, tolerance):
                best = found
            if fit.error > problem.tolerance or budget.exhausted:
                break
            if best.built.observed_error <= tolerance:  # only the proof is missing: worth as much again, no more
                budget.end_after(3.0)
            if found.outcome is Outcome.REFUTED and problem.dim == 1 and len(found.witness) == 1:
                say("the proof found an error that no sample had seen; building with a closer look there")
                place = float(domain.to_unit(np.array([found.witness]))[0, 0])
                problem = replace(problem, suspects=(*problem.suspects, place))
                continue
            say("the check or the proof missed the tolerance; tightening")
            tighter = problem.tolerance * float(np.clip(0.8 * tolerance / found.error, 0.1, 0.5))
            problem = replace(problem, tolerance=tighter)
    if stack is not None:
        found = looked_at(stack, wanted, domain, tolerance, precision, started)
        if found is None:  # what the formula's own rounding leaves of the tolerance is too little for the look
            more = {"dtype": dtype, "gap": gap, "certify": certify, "tightness": tightness, "progress": progress}
            return approximate(target, box, tol=tolerance, strategy="layer", engine=engine, **more, **limits)
        layer = best if best is not None and best.fit.tokens > stack.tokens else None
        built = beside_layer(found, layer).built
        return _told(built if certify else replace(built, certificate=None, unproved=_NOT_ASKED), budget)
    if best is None and style == "readable" and not budget.exhausted:
        raise ToleranceNotReached(unreadable(problem, formula), None)
    if best is None:
        raise ToleranceNotReached(
            f"no network was finished within {_limit(budget, max_queries)}; allow more with it, or a larger tol", None
        )
    best = beside_stack(best, None, missing)
    if best.built.observed_error > tolerance or best.outcome is Outcome.REFUTED:
        largest = largest_value(wanted, domain) if isinstance(wanted, Expression) else 0.0
        advice = advice_on(best.built.observed_error, best.fit, tolerance, problem, largest, precision)
        raise ToleranceNotReached(advice, _told(best.built, budget))
    return _told(best.built, budget)


approximate.__doc__ = str(approximate.__doc__).replace("one of STRATEGIES", f"one of\n{listed(' ' * 17)}")


def _is_smooth_of_many(problem: Problem, precision: Precision) -> bool:
    return precision.name == "float64" and problem.dim > 1 and not problem.kinks


def _proved(found: Candidate, target: Target, budget: Budget, work: float, tightness: float | None) -> Candidate:
    """The candidate with its certificate, or with the reason why there is none.

    A target that carries no bounds cannot be proved: its error stays observed.
    """
    tolerance = found.built.plan.tolerance
    if found.fit.composed is not None:
        return proved_as_stack(found, found.fit.composed, tolerance)
    hopeless = _hopeless(found.fit, target)
    if hopeless is None and any(beyond_range(each.numpy()) for each in found.built.network.state_dict().values()):
        hopeless = Outcome.RANGE
    if hopeless is not None:
        return replace(found, built=replace(found.built, unproved=hopeless.value), outcome=hopeless)
    with one_pool_thread():
        most = min(budget.max_work, work)
        aim = tightness if isinstance(target, Expression) else None
        answer = prove(
            found.built.network,
            target,
            bound=tolerance,
            tightness=aim,
            max_work=most,
            max_seconds=budget.max_seconds,
        )
    error, outcome = found.error, answer.outcome
    if outcome is Outcome.PROVED:
        return replace(found, built=replace(found.built, certificate=answer.certificate), outcome=outcome)
    if outcome is Outcome.REFUTED:
        error, unproved = answer.lower, outcome.value
    elif outcome is Outcome.ROUNDING:
        error, unproved = 2 * tolerance, f"{outcome.value} ({answer.reason})"
    else:
        unproved = f"undecided ({answer.reason})"
    built = replace(found.built, unproved=unproved)
    return replace(found, built=built, error=error, outcome=outcome, witness=tuple(answer.witness))


def _fitted_to_noise(
    table: Table,
    box: Box,
    noise: float | str,
    precision: Precision,
    max_tokens: int,
    started: float,
    engine: str,
) -> Built[Any]:
    """A network that follows the rows without repeating their noise.

    No function is to be met at the rows, so there is no tolerance and no bound: what is reported is the cross-validated
    rms, and the share of rows within 1.96 of it of what the other folds predict (95 % if errors are normal).
    """
    from softwright.approximation.noisy import fit_noisy

    sd = None if isinstance(noise, str) else float(noise)
    with one_pool_thread():
        found = fit_noisy(table.points, table.values, box, sd=sd, most_tokens=min(max_tokens, _NOISY_TOKENS))
    asked = usual_engine(found.heads, precision.torch_dtype) if engine == "auto" else engine
    network = AttentionNetwork(found.heads, box, precision.torch_dtype, engine=asked)
    rms = [float(each) for each in found.rms]
    shown = ", ".join(f"{each:.3g}" for each in rms)
    reasons = (
        *table.notes,
        f"a fit to noisy rows, chosen by {found.folds} folds: {found.words}",
        f"cross-validated rms {shown}; {100 * found.coverage:.1f} % of rows within 1.96 rms of the others' word",
    )
    heads = network.heads()
    plan = make_plan(Fit(found.heads, max(rms), "noisy", reasons), network, heads, 0.0, started)
    plan = replace(plan, noise={"rms": rms, "coverage": float(found.coverage), "folds": found.folds, "sd": sd})
    seen = observed(network, table, heads)
    return Built(
        network=network,
        plan=plan,
        target=table.describe(),
        observed=seen,
        source=table,
        unproved=Outcome.NOISY.value,
    )


def _better(new: Built[Any], old: Built[Any], tolerance: float) -> bool:
    if old.observed_error <= tolerance:
        return new.observed_error <= tolerance and new.network.tokens < old.network.tokens
    return new.observed_error < old.observed_error


def _limit(budget: Budget, max_queries: int | None) -> str:
    """The limit that ended the search."""
    if budget.out_of_time:
        return f"max_seconds = {budget.max_seconds:g}"
    if budget.out_of_work or max_queries is None:
        return f"max_work = {budget.max_work:g}"
    return f"max_queries = {max_queries}"


def _hopeless(fit: Fit, target: Target) -> Outcome | None:
    """Why no proof is tried; None if one is."""
    if fit.gates is not None:
        return Outcome.TRAIN
    if not target.is_known_between_points:
        return Outcome.NO_PROMISE
    return None if target.left is None else Outcome.QUERIES


def _told(built: Built[Any], budget: Budget) -> Built[Any]:
    """The result, which says so if the clock had a part in it, and how often a callable was asked."""
    if isinstance(built.source, Function):
        asked = built.source.asked - built.source.since
        built = replace(built, plan=replace(built.plan, queries=asked))
    if not budget.out_of_time:
        return built
    told = f"max_seconds = {budget.max_seconds:g} ended the search: with more time the network may be another one"
    return replace(built, plan=replace(built.plan, reasons=[*built.plan.reasons, told]))
