"""Candidates for a result: networks with the fits that they come from; and the stack that one layer is compared with.

A stack is compiled and proved first: its tokens are the limit for one layer. Its network is made and looked at only if
no layer has as few.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.approximation.fitting.rounded import MOST_UNKNOWNS, settled
from softwright.approximation.observe import observed
from softwright.approximation.plan import make_plan
from softwright.approximation.problem import Fit, probe_points
from softwright.attention import AttentionNetwork, usual_engine
from softwright.domain import Box
from softwright.precision import Precision
from softwright.result.built import Built
from softwright.result.outcome import Outcome
from softwright.targets import Expression, Target

if TYPE_CHECKING:
    from softwright.approximation.composed import Compiled


@dataclass(frozen=True)
class Candidate:
    """A network with the fit it comes from, how its proof ended, and the error that is certain."""

    built: Built[Any]
    fit: Fit
    error: float
    outcome: Outcome = Outcome.NOT_ASKED
    witness: tuple[float, ...] = ()  # of a refutation: where the error is


def finished(
    fit: Fit, target: Target, box: Box, tolerance: float, precision: Precision, started: float, engine: str = "auto"
) -> Candidate:
    """The network of a fit in its dtype, looked at for the first time."""
    if fit.composed is not None:
        from softwright.approximation.composed import composed_built

        built = composed_built(fit, fit.composed, target, tolerance, started)
        return Candidate(built, fit, built.observed_error)
    if fit.gates is not None:
        from softwright.approximation.composed import gates_built

        built = gates_built(fit, fit.gates, target, box, tolerance, precision, started)
        return Candidate(built, fit, built.observed_error)
    dtype = precision.torch_dtype
    if engine == "auto":
        # Gates and walls of kinks are proved in closed forms, which speak of stock attention.
        kinked = isinstance(target, Expression) and bool(target.kinks())
        engine = "sdpa" if kinked else usual_engine(fit.heads, dtype)
    network = AttentionNetwork(fit.heads, box, dtype, fit.origin, engine)
    heads = network.heads()
    seen = observed(network, target, heads)
    if seen.error > tolerance >= fit.error and precision.name == "float32" and isinstance(target, Expression):
        closer = _settled(fit, network, target, tolerance)
        again = None if closer is None else AttentionNetwork(closer.heads, box, dtype, fit.origin, engine)
        seen_again = None if again is None else observed(again, target, again.heads())
        if closer and again and seen_again and seen_again.error < seen.error:
            fit, network, heads, seen = closer, again, again.heads(), seen_again
    plan = make_plan(fit, network, heads, tolerance, started)
    built = Built(network=network, plan=plan, target=target.describe(), observed=seen, source=target)
    return Candidate(built, fit, seen.error)


def _settled(fit: Fit, network: AttentionNetwork, target: Expression, tolerance: float) -> Fit | None:
    """The fit, its values solved again for keys that are rounded as the network's are; None if it is not for that."""
    if len(fit.heads) > 1 or fit.heads[0].structure == "gates":
        return None
    head = fit.heads[0]
    unknowns = head.tokens * (1 + head.dim * head.affine)
    if unknowns > MOST_UNKNOWNS:
        return None
    unit = probe_points(head.dim, 400 + 12 * unknowns, 3)
    x = network.box.from_unit(np.sin(0.5 * np.pi * unit)).astype(np.float32).astype(float)
    x = x[network.box.contains(x)]
    t = (x - network.center.double().numpy()) * network.scale.double().numpy()
    closer = settled(head, t, target(x), tolerance)
    return None if closer is None else replace(fit, heads=[closer])


def proved_as_stack(found: Candidate, compiled: Compiled, tolerance: float) -> Candidate:
    """A stack comes with its proof: errors of heads times adjoints."""
    if compiled.proof.faults or compiled.proof.bound > tolerance:
        why = [*compiled.proof.faults[:1], f"the proof of the stack reaches {compiled.proof.bound:.3g}"][0]
        unproved = f"undecided ({why})"
        return replace(found, built=replace(found.built, unproved=unproved), outcome=Outcome.BUDGET)
    from softwright.approximation.composed import composed_certified

    return replace(found, built=composed_certified(found.built, compiled), outcome=Outcome.PROVED)


def looked_at(
    stack: Fit, target: Target, box: Box, tolerance: float, precision: Precision, started: float
) -> Candidate | None:
    """The network of a stack that is proved, with its certificate; None if a look at it shows an error above `tol`."""
    if stack.composed is None:
        raise TypeError("looked_at is for stacks")
    found = proved_as_stack(finished(stack, target, box, tolerance, precision, started), stack.composed, tolerance)
    return found if found.outcome is Outcome.PROVED and found.error <= tolerance else None


def beside_stack(found: Candidate, stack: Fit | None, missing: str) -> Candidate:
    """One layer, with a reason: the stack that it is compared with, or why none is there (`missing`)."""
    if stack is not None and stack.composed is not None:
        has = f"a stack of {stack.composed.program.depth} layer(s), proved as well, has {stack.tokens}"
        return _because(found, f"one layer of {found.fit.tokens} tokens: {has}")
    return _because(found, f"one layer of {found.fit.tokens} tokens: {missing}") if missing else found


def beside_layer(found: Candidate, layer: Candidate | None) -> Candidate:
    """A stack, with a reason that compares it with one layer."""
    single = "no layer of so few was found that is proved" if layer is None else f"one layer has {layer.fit.tokens}"
    compiled: Any = found.fit.composed
    return _because(found, f"a stack of {found.fit.tokens} tokens in {compiled.program.depth} layer(s): {single}")


def _because(found: Candidate, reason: str) -> Candidate:
    plan = replace(found.built.plan, reasons=[*found.built.plan.reasons, reason])
    return replace(found, built=replace(found.built, plan=plan))
