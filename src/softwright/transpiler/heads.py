"""From plain layers to heads: which tokens each activation gets, and the modules that run them.

Exact tokens cost nothing, so they are always taken. Fitted tokens (GELU, softplus) come in several sizes: `tables_for`
takes one `fineness`, 0 for the coarsest table of each activation, and the pipeline raises it until the bound is met.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import nn

from softwright.attention.richardson import richardson
from softwright.precision import precision_of
from softwright.targets.mlp import DenseNetwork, GatedNetwork
from softwright.transpiler.gated_heads import GatedHeads
from softwright.transpiler.grouped_heads import GROUP, GROUPED_LAYOUTS, group_of
from softwright.transpiler.network import Projection, TranspiledNetwork
from softwright.transpiler.neuron_heads import NeuronHeads
from softwright.transpiler.token_table import TokenTable
from softwright.transpiler.tokens import FINEST, direct_gate, table_for, token_counts

_ORDER = {"float64": 4, "float32": 3}
_ROUNDING = {"float64": 2.0**-51, "float32": 2.0**-21}


def tables_for(network: DenseNetwork, dtype: str, fineness: int = FINEST) -> list[TokenTable | None]:
    """A table for every layer; None for layers without an activation, which stay linear maps."""
    return [
        None if layer.activation.name == "identity" else table_for(layer.activation, dtype, fineness)
        for layer in network.layers
    ]


def fineness_levels(network: DenseNetwork | GatedNetwork) -> int:
    """How many sizes of tables there are to try."""
    activations = [network.gate.activation] if isinstance(network, GatedNetwork) else [
        layer.activation for layer in network.layers
    ]  # fmt: skip
    return max(1, *(len(token_counts(activation)) for activation in activations))


def network_of(network: DenseNetwork, tables: list[TokenTable | None], dtype: str, layout: str) -> TranspiledNetwork:
    """The attention network."""
    steps: list[nn.Module] = []
    names = []
    for layer, table in zip(network.layers, tables, strict=True):
        if table is None:
            steps.append(Projection(layer.weight, layer.bias, precision_of(dtype).torch_dtype, layout))
        else:
            kind, group = precision_of(dtype).torch_dtype, group_of(table, layout)
            steps.append(NeuronHeads(layer.weight, layer.bias, table, kind, layout, group))
        names.append(str(layer.activation))
    return TranspiledNetwork(steps, names, layout)


@dataclass(frozen=True)
class GatePlan:
    """How a gate is multiplied: its tokens (none if direct), the second token, steps k delta, shares c_k/delta."""

    table: TokenTable | None
    second: float
    steps: np.ndarray
    shares: np.ndarray


def plan_gate(network: GatedNetwork, dtype: str, largest: float, fineness: int = FINEST) -> GatePlan:
    """`largest` is U, the largest |phi(a)| to allow for; a direct gate does not use it."""
    activation = network.gate.activation
    second = direct_gate(activation)
    if second is not None:
        return GatePlan(None, second, np.ones(1), np.ones(1))
    order = _ORDER[dtype]
    c, k = np.array(richardson(order), dtype=np.float64), np.arange(1.0, order + 1)
    rho = np.geomspace(1e-4, 1.2 / order, 400)
    q = 2 * k * rho[:, None] / np.pi
    truncation = (np.abs(c) * k * q ** (2 * order) / (1 - q**2)).sum(axis=1)
    best = float(rho[(truncation + _ROUNDING[dtype] * np.abs(c).sum() / rho).argmin()])
    delta = 2.0 ** np.floor(np.log2(best / largest))  # a power of two: k delta u is not rounded
    table = None if activation.name == "identity" else table_for(activation, dtype, fineness)
    return GatePlan(table, -1.0, k * delta, c / delta)


def gated_of(network: GatedNetwork, plan: GatePlan, dtype: str, layout: str) -> TranspiledNetwork:
    gate, value = ((layer.weight, layer.bias) for layer in (network.gate, network.value))
    heads = GatedHeads(
        gate,
        value,
        plan.table,
        plan.second,
        plan.steps,
        plan.shares,
        precision_of(dtype).torch_dtype,
        layout,
        GROUP if layout in GROUPED_LAYOUTS else 1,
    )
    down = Projection(network.down.weight, network.down.bias, precision_of(dtype).torch_dtype)
    return TranspiledNetwork([heads, down], [f"gate {network.gate.activation}", "identity"], layout)
