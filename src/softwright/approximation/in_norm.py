"""`approximate(norm="L1")` and "L2": the error is to be small in the mean, so formulas may jump.

A formula with jumps becomes a stack whose gates are as steep as the tolerance asks (`compiler/integrals.py`). One
without is built for the sup norm that the tolerance allows, tol/vol^(1/p), and what was proved is said of the norm.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from softwright.approximation.problem import Budget, OutOfBudget
from softwright.attention import AttentionNetwork
from softwright.domain import Box
from softwright.errors import Faults, ToleranceNotReached
from softwright.precision import Precision
from softwright.proof.prover import certify, exponent_of
from softwright.result.built import Built
from softwright.result.observed import Observed
from softwright.targets import Expression, Target
from softwright.threads import one_pool_thread

LARGEST_EXPONENT = 8
_POINTS = 40_000
_SHARE = 0.97  # of the tolerance, for a formula that does not jump


def norm_faults(norm: Any, target: Target | None, gap: Any, strategy: Any) -> list[str]:
    """What is wrong with a norm, alone and beside the other options."""
    faults = Faults("approximate")
    p = None if norm == "sup" else faults.take(exponent_of, norm)
    if p is None:
        return faults.found
    whole = p == int(p) and p <= LARGEST_EXPONENT
    faults.check(whole, f"norm {norm!r} is not built for; use 'sup', or 'L1' to 'L{LARGEST_EXPONENT}'")
    faults.check(gap is None, "gap= and norm= are two ways to allow jumps; give one of them")
    formula = isinstance(target, Expression)
    faults.check(target is None or formula, f"norm={norm!r} is for formulas; this target is none, use norm='sup'")
    jumping = isinstance(target, Expression) and _jumps(target)
    stacks = strategy in ("auto", "compose") or not jumping
    faults.check(stacks, f"jumps in a norm are for stacks; use strategy='compose' or leave it out, not {strategy!r}")
    return faults.found


def in_norm(
    target: Target,
    box: Box,
    tolerance: float,
    norm: str | float,
    precision: Precision,
    budget: Budget,
    in_sup_norm: Callable[..., Built[Any]],
) -> Built[Any]:
    """A network within the tolerance in the norm; `in_sup_norm(target, box, tol=...)` builds for the sup norm."""
    p = int(exponent_of(norm) or 1)
    if isinstance(target, Expression) and _jumps(target):
        stack = stack_in_norm(target, box, tolerance, p, precision, budget)
        if stack is not None:
            return stack
    enough = _SHARE * tolerance / float(np.prod(box.upper - box.lower)) ** (1.0 / p)
    return restated(in_sup_norm(target, box, tol=enough), target, tolerance, p, budget)


def _jumps(target: Expression) -> bool:
    return any(kink.jump for kink in target.kinks())


def seen_in_norm(built: Built[Any], target: Target, p: int) -> Observed:
    """The norm as a sample shows it, and the worst point of that sample."""
    network = built.network
    box: Box = network.box
    points = box.from_unit(np.random.default_rng(977).uniform(-1, 1, (_POINTS, box.dim)))
    points = np.clip(points.astype(str(network.dtype).rpartition(".")[2]).astype(float), box.lower, box.upper)
    errors = np.abs(network.evaluate(points) - target(points)).max(axis=1)
    worst = int(errors.argmax())
    mean = float(np.mean(errors**p) * np.prod(box.upper - box.lower))
    return Observed(mean ** (1.0 / p), tuple(points[worst].tolist()), len(points))


def restated(built: Built[Any], target: Target, tolerance: float, p: int, budget: Budget) -> Built[Any]:
    """A network without jumps that meets a sup norm, with what that says of the L_p norm."""
    seen = seen_in_norm(built, target, p)
    plan = replace(built.plan, tolerance=tolerance)
    built, proved = replace(built, observed=seen, plan=plan), built.certificate
    if proved is None:
        return built
    if not isinstance(built.network, AttentionNetwork):
        from softwright.approximation.composed import composed_in_norm

        return composed_in_norm(built, p)
    with one_pool_thread():
        answer = certify(
            built.network, target, bound=tolerance, norm=p, max_work=budget.max_work, max_seconds=budget.max_seconds
        )
    if answer.certificate is not None:
        return replace(built, certificate=answer.certificate)
    return replace(built, certificate=None, unproved=f"undecided ({answer.reason})")


def stack_in_norm(
    target: Expression, box: Box, tolerance: float, p: int, precision: Precision, budget: Budget
) -> Built[Any] | None:
    """The stack of a formula with jumps, proved; `ToleranceNotReached` carries what was found otherwise. None if every
    comparison is decided on the box, and what is left is affine."""
    from softwright.approximation.composed import composed_built, composed_certified
    from softwright.approximation.strategies.compose import fit_in_norm

    started = time.monotonic()
    try:
        with one_pool_thread():
            found = fit_in_norm(target, box, tolerance, p, precision, budget)
    except OutOfBudget:
        spent = f"max_work = {budget.max_work:g} or max_seconds = {budget.max_seconds:g}"
        raise ToleranceNotReached(f"no stack was finished within {spent}; allow more, or a larger tol", None) from None
    if found is None:
        return None
    fit, compiled, norm = found
    built = composed_built(fit, compiled, target, tolerance, started)
    built = replace(built, observed=seen_in_norm(built, target, p))
    if norm.bound <= tolerance and compiled.heads.tokens <= budget.max_tokens:
        return composed_certified(built, compiled, norm)
    size = f"{compiled.heads.tokens} tokens"
    lines = [f"asked for an {norm.name} norm of {tolerance:.3g}, proved {norm.bound:.3g} with {size}"]
    lines += [f"  {fault}" for fault in compiled.proof.faults[:2]]
    lines.append(
        "  bands cannot be thinner than what rounding leaves of a condition, 1e-12 in float64, 1e-5 in float32:"
    )
    lines.append("  ask for a larger tol, or give gap= to leave bands out")
    raise ToleranceNotReached("\n".join(lines), replace(built, unproved=f"undecided (proved {norm.bound:.3g})"))
