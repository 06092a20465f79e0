"""From a stack to a result: the network, what a look at it shows, its plan and, of a formula, its certificate."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.approximation.observe import climbed, fresh_points
from softwright.approximation.problem import Fit, probe_points
from softwright.attention.composition import ComposedNetwork
from softwright.compiler.build import Compiled
from softwright.compiler.evidence import certificate_in_norm, certificate_of
from softwright.compiler.features import INPUT
from softwright.compiler.layout import network_of
from softwright.compiler.look import contradiction, gate_points, outside_bands
from softwright.domain import Box
from softwright.precision import Precision
from softwright.result.built import Built
from softwright.result.plan import Plan
from softwright.targets import Expression, Target

if TYPE_CHECKING:
    from softwright.approximation.train.gates import GateStack
    from softwright.compiler.integrals import NormProof

_POINTS = 12_000

__all__ = ["Compiled", "composed_built", "composed_certified", "composed_in_norm", "gates_built"]


def composed_built(fit: Fit, compiled: Compiled, target: Target, tolerance: float, started: float) -> Built[Any]:
    """The network of a compiled formula, looked at where its error hides; a look that contradicts the proof raises."""
    network, box = network_of(compiled), compiled.box
    points = np.concatenate([box.from_unit(probe_points(box.dim, _POINTS, seed=977)), gate_points(compiled)])
    program = compiled.program
    counts = (lambda x: outside_bands(program, box, x)) if program.differences else None
    seen = climbed(network, target, points, counts=counts)
    if not compiled.proof.faults and seen.error > compiled.proof.bound and isinstance(target, Expression):
        worst = np.asarray(seen.point)
        contradiction(compiled, target, worst, network.evaluate(worst[None])[0])
    plan = Plan.of(
        network,
        started,
        strategy=fit.strategy,
        heads=described_heads(compiled),
        tokens=compiled.heads.tokens,
        parameters=network.parameter_count,
        tolerance=tolerance,
        reasons=fit.reasons,
    )
    return Built(network=network, plan=plan, target=target.describe(), observed=seen, source=target)


def composed_certified(built: Built[Any], compiled: Compiled, norm: NormProof | None = None) -> Built[Any]:
    """With the certificate, in the sup norm unless another one was proved."""
    network: ComposedNetwork = built.network
    certificate = certificate_of(compiled, network, built.source, time.monotonic() - built.plan.seconds, norm)
    return replace(built, certificate=certificate)


def composed_in_norm(built: Built[Any], p: int) -> Built[Any]:
    """A stack that is proved in the sup norm, with what that says of an L_p norm."""
    proved: Any = built.certificate
    return replace(built, certificate=certificate_in_norm(proved, p, built.network.box))


def described_heads(compiled: Compiled) -> list[dict[str, Any]]:
    """What every head computes, layer by layer."""
    program, heads = compiled.program, compiled.heads
    every = compiled.proof.shares.items()
    shares = {k: share if math.isfinite(share) else None for k, share in every}  # None: it has no proof
    found: list[dict[str, Any]] = []
    for number in range(1, program.depth + 1):
        for table in (head for head in heads.tables if head.layer == number):
            texts = "; ".join(program.described(program.features[k]) for k in table.features)
            known = [share for k in table.features if (share := shares[k]) is not None]
            share = max(known) if len(known) == len(table.features) else None
            found.append({"layer": number, "tokens": table.table.tokens, "computes": texts, "share": share})
        for f in program.features:
            if f.layer != number or f.kind == INPUT or f.function is not None:
                continue
            copies = heads.products[f.number].heads if f.number in heads.products else 1
            for copy in range(copies):
                part = f" ({copy + 1} of {copies})" if copies > 1 else ""
                text = f"{program.described(f)}{part}"
                found.append({"layer": number, "tokens": 2, "computes": text, "share": shares[f.number]})
    return found


def gates_built(
    fit: Fit, stack: GateStack, target: Target, box: Box, tolerance: float, precision: Precision, started: float
) -> Built[Any]:
    """The network of a stack of gates in its dtype, looked at where it was not made."""
    network = stack.network(box, precision)
    count, climbers = fresh_points(target, _POINTS)
    points = box.from_unit(probe_points(box.dim, count, seed=977))
    seen = climbed(network, target, points, climbers=climbers)
    plan = Plan.of(
        network,
        started,
        strategy=fit.strategy,
        heads=_described_gates(stack, box),
        tokens=stack.tokens,
        parameters=network.parameter_count,
        tolerance=tolerance,
        reasons=fit.reasons,
    )
    return Built(network=network, plan=plan, target=target.describe(), observed=seen, source=target)


def _described_gates(stack: GateStack, box: Box) -> list[dict[str, Any]]:
    """One line a layer."""
    found = []
    for number, layer in enumerate(stack.layers, 1):
        rows, columns = layer.constant.shape
        text = f"state times a {rows} x {columns} matrix of functions of {box.names[layer.variable]}"
        tokens = 2 * len(layer.slopes) + 1
        found.append({"layer": number, "tokens": tokens, "computes": text, "share": layer.error})
    return found
