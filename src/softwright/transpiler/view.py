"""The attention of a transpiled network, neuron by neuron.

A neuron is a head over the tokens of its layer's table, whose scores are lines in s = w.x + b; x is what the layer is
given, in the first layer the user's input. A token is called after the part of the s-axis on which its line is the
highest, where it takes most of the weight: of a ReLU, "s <= 0" and "s >= 0".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from softwright.attention.token_names import leading_intervals
from softwright.attention.view import AttentionView, HeadView, check_size
from softwright.errors import InvalidInput
from softwright.transpiler.neuron_heads import NeuronHeads
from softwright.transpiler.separate_heads import SeparateHeads
from softwright.transpiler.token_table import TokenTable

if TYPE_CHECKING:
    from softwright.transpiler.network import TranspiledNetwork


def view_of(network: TranspiledNetwork, inputs: Any) -> AttentionView:
    """All neurons of all layers at the inputs (..., d)."""
    separate = any(isinstance(step, SeparateHeads) for step in network.steps)
    if separate or not any(isinstance(step, NeuronHeads) for step in network.steps):
        what = "stock heads, one for each neuron" if separate else "products of heads"
        raise InvalidInput("attention", [f"the layers are {what}; call the modules of built.network.steps on tensors"])
    x = torch.as_tensor(np.asarray(inputs, dtype=np.float64)).to(network.dtype)
    if x.shape[-1:] != (network.inputs,):
        raise InvalidInput("attention", [f"the last axis must hold {network.inputs} number(s), got {tuple(x.shape)}"])
    x = x.reshape(-1, network.inputs)  # (q, d)
    views: list[HeadView] = []
    for number, (step, name) in enumerate(zip(network.steps, network.names, strict=True), 1):
        if isinstance(step, NeuronHeads):
            views += _neurons(step, f"layer {number} ({name})", x)
        with torch.no_grad():
            x = step(x)
    return AttentionView([f"input {i}" for i in range(len(x))], views)


def _neurons(step: NeuronHeads, where: str, x: torch.Tensor) -> list[HeadView]:
    table = step.table
    check_size(len(x) + step.inputs, step.heads * table.tokens)
    names = token_names(table)
    weight, bias = (tensor.detach().double().numpy() for tensor in (step.weight, step.bias))  # (H, d), (H,)
    given = x.double().numpy()  # (q, d)
    s = given @ weight.T + bias  # (q, H)
    views = []
    for h in range(step.heads):
        weights = table.weights(s[:, h])  # (q, p)
        keys = np.multiply.outer(table.keys, weight[h])  # (p, d)
        slopes = np.multiply.outer(table.slopes, weight[h])[:, None]  # (p, 1, d)
        values = (table.offsets + table.slopes * bias[h])[:, None]  # (p, 1)
        shifted = table.biases + table.keys * bias[h]  # (p,)
        views.append(HeadView(f"{where}, neuron {h + 1}", names, given, weights, keys, shifted, values, slopes))
    return views


def token_names(table: TokenTable) -> list[str]:
    """What each token of a table is called: the part of the s-axis on which it leads."""
    names = []
    for j, interval in enumerate(leading_intervals(table.keys, table.biases, -np.inf, np.inf), 1):
        if interval is None:
            names.append(f"token {j}")
        elif interval == (-np.inf, np.inf):
            names.append("always")
        elif interval[0] == -np.inf:
            names.append(f"s <= {interval[1]:.4g}")
        elif interval[1] == np.inf:
            names.append(f"s >= {interval[0]:.4g}")
        else:
            names.append(f"{interval[0]:.4g} <= s <= {interval[1]:.4g}")
    return names
