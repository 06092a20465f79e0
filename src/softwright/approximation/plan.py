"""The plan of an approximation: what each head is, how large its scores and values are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.approximation.problem import Fit
from softwright.result.plan import Plan

if TYPE_CHECKING:
    from softwright.attention import AttentionNetwork, Head


def make_plan(fit: Fit, network: AttentionNetwork, heads: Sequence[Head], tolerance: float, started: float) -> Plan:
    """`heads` are those of the network, as data: the numbers that run."""
    return Plan.of(
        network,
        started,
        strategy=fit.strategy,
        heads=[_described(head) for head in heads],
        tokens=network.tokens,
        parameters=sum(head.parameters for head in heads),
        tolerance=tolerance,
        reasons=fit.reasons,
    )


def _described(head: Head) -> dict[str, Any]:
    return {
        "tokens": head.tokens,
        "structure": " x ".join(str(a.tokens) for a in head.axes) + " grid" if head.axes else head.structure,
        "values": "affine" if head.affine else "constant",
        "largest_score": float((np.abs(head.keys).sum(axis=1) + np.abs(head.biases)).max()),
        "largest_value": float(np.abs(head.values).max()),
    }
