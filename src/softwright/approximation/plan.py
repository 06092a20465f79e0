"""The plan of an approximation: what each head is, how large its scores and values are."""

from __future__ import annotations

import numpy as np

from softwright.approximation.problem import Fit
from softwright.attention import AttentionNetwork
from softwright.result.plan import Plan


def make_plan(fit: Fit, network: AttentionNetwork, tolerance: float, dtype: str, seconds: float) -> Plan:
    heads = []
    for head in network.heads():
        heads.append(
            {
                "tokens": head.tokens,
                "structure": " x ".join(str(a.tokens) for a in head.axes) + " grid" if head.axes else head.structure,
                "values": "affine" if head.affine else "constant",
                "largest_score": float((np.abs(head.keys).sum(axis=1) + np.abs(head.biases)).max()),
                "largest_value": float(np.abs(head.values).max()),
            }
        )
    return Plan(
        strategy=fit.strategy,
        tolerance=tolerance,
        heads=heads,
        tokens=network.tokens,
        parameters=network.parameter_count,
        dtype=dtype,
        seconds=seconds,
        reasons=list(fit.reasons),
    )
