"""One feed-forward network as heads: tokens fine enough for the tolerance, the modules, the bound, what is observed.

Exact tokens cost nothing and are always taken. Fitted ones come in several sizes, coarse to fine: the first whose bound
(without a proof: whose observed deviation) is within the tolerance is taken, the finest if there is no tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from softwright.result.observed import Observed
from softwright.targets.mlp import DenseNetwork, GatedNetwork, Sample
from softwright.transpiler.bound import Bound, bound_gated, bound_network, largest_gate
from softwright.transpiler.heads import fineness_levels, gated_of, network_of, plan_gate, tables_for
from softwright.transpiler.job import Options, Part
from softwright.transpiler.network import TranspiledNetwork

_EXACT_WORK = 60_000_000  # products of one check in long double, about a second


@dataclass(frozen=True)
class Fitted:
    """The heads of a part, their bound (None: not asked for), and what a plan says of them."""

    network: TranspiledNetwork
    bound: Bound | None
    heads: list[dict[str, Any]]

    def error(self, sample: Sample) -> float:
        """What is compared with the tolerance."""
        if self.bound is None:
            return observe(self.network, sample).error
        return self.bound.total


def points_for(network: DenseNetwork | GatedNetwork, layout: str) -> int:
    """At how many points a check of about a second looks."""
    work = sum(a * b for a, b in pairwise(network.sizes))
    return int(np.clip(_EXACT_WORK // work, 64, 4000 if layout == "softmax" else 400))


def fit(part: Part, sample: Sample, options: Options) -> Fitted:
    """The coarsest tokens whose error is within `tol`; the finest if there is no `tol` or none fits."""
    levels = fineness_levels(part.network)
    for fineness in range(levels - 1 if options.tol is not None else 0):
        found = _attempt(part, options, fineness)
        if options.tol is not None and found.error(sample) <= options.tol:
            return found
    return _attempt(part, options, levels - 1)


def observe(network: nn.Module, sample: Sample, axes: int = 2) -> Observed:
    """Largest deviation of what runs from the source as it runs; rows are given to it with so many axes."""
    dtype = next(iter(network.state_dict().values())).dtype
    x = torch.from_numpy(sample.points).to(dtype)
    with torch.no_grad():
        found = network(x.reshape((1,) * (axes - 2) + x.shape))
    values = found.double().cpu().numpy().reshape(sample.values.shape)
    errors = np.abs(values - sample.values).max(axis=1).astype(np.float64)
    worst = int(errors.argmax())
    return Observed(float(errors[worst]), tuple(sample.points[worst].tolist()), len(errors))


def _attempt(part: Part, options: Options, fineness: int) -> Fitted:
    """Network and bound with tokens of one fineness."""
    network, sides, dtype, layout = part.network, part.sides, options.dtype, options.layout
    bound: Bound | None = None
    if isinstance(network, GatedNetwork):
        plan = plan_gate(network, dtype, 1.0 if sides is None else largest_gate(network, sides), fineness)
        if options.certify:
            bound = bound_gated(network, plan.table, plan.steps, plan.shares, dtype, layout, sides)
        entry = {
            "units": network.gate.outputs,
            "activation": f"gate {network.gate.activation}",
            "tokens": 0 if plan.table is None else plan.table.tokens,
            "product heads": len(plan.steps),
        }
        return Fitted(gated_of(network, plan, dtype, layout), bound, [entry])
    tables = tables_for(network, dtype, fineness)
    if options.certify:
        bound = bound_network(network, tables, dtype, layout, sides)
    heads = [
        {"units": layer.outputs, "activation": str(layer.activation), "tokens": table.tokens}
        for layer, table in zip(network.layers, tables, strict=True)
        if table is not None
    ]
    return Fitted(network_of(network, tables, dtype, layout), bound, heads)
