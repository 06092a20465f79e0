"""Feed-forward blocks inside larger modules: finding them, reading them, and putting heads in their place.

`torch.nn.TransformerEncoderLayer` and `TransformerDecoderLayer` compute linear2(dropout(activation(linear1(x)))).
There the heads take the place of linear1 and of the activation, and linear2 stays as the output projection of the
heads, so the layer's own code runs unchanged. Two of torch's shortcuts would go round it and are switched off: the
fused fast path reads linear1 and linear2 itself (`activation_relu_or_gelu = 0` keeps it away), and nested tensors
lead to it.

The input of such a block is the output of a LayerNorm: in real arithmetic |x_i| <= sqrt(d) |gain_i| + |shift_i|
whatever the module is given, so a bound of the block that includes rounding needs no box from the user. A LayerNorm
that runs can leave that range: where a row varies less than its own rounding (1e6 + 0.1 in float32) nothing but
rounding is normalised. So the certificate names the range and does not say that inputs stay in it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from softwright.attention.network import DTYPES
from softwright.errors import Faults, InvalidInput
from softwright.targets.mlp import KNOWN, Activation, DenseLayer, DenseNetwork, GatedNetwork, activation_of, read_module
from softwright.transpiler.network import TranspiledNetwork

LAYERS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
NORMALISED = (
    "inputs with |x_i| <= 1.001 (sqrt(d) |gain_i| + |shift_i|) + 1e-6, where its LayerNorm puts them unless the rows "
    "it is given are lost in rounding"
)
Sides = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Block:
    """One block to replace: where it is, what it computes, and the range of its inputs where that is known."""

    path: str
    network: DenseNetwork | GatedNetwork
    box: Sides | None
    is_layer: bool


def has_layers(module: nn.Module) -> bool:
    return any(isinstance(part, LAYERS) for part in module.modules())


def find_blocks(module: nn.Module, names: list[str] | None, faults: Faults) -> list[Block]:
    """The blocks named, or the feed-forward part of every transformer layer; faults are collected."""
    _check_mode(module, faults)
    if names is None:
        names = [name for name, part in module.named_modules() if isinstance(part, LAYERS)]
    found = []
    for name in names:
        try:
            part = module.get_submodule(name)
        except AttributeError:
            known = [path for path, _ in module.named_modules() if path]
            faults.add(
                f"there is no block {name!r}; the module has {', '.join(known[:12])}{', ...' * (len(known) > 12)}"
            )
            continue
        inner = [(path, p) for path, p in part.named_modules() if isinstance(p, LAYERS)]
        try:
            if inner:
                for path, layer in inner:
                    found.append(_layer_block(".".join(filter(None, (name, path))), cast(Any, layer)))
            else:
                found.append(Block(name, read_module(part, name or type(part).__name__), None, False))
        except InvalidInput as error:
            faults.found += [f"{error.subject}: {fault}" for fault in error.faults]
    return found


def _check_mode(module: nn.Module, faults: Faults) -> None:
    random = [
        name
        for name, part in module.named_modules()
        if (isinstance(part, nn.Dropout) and part.p > 0 and part.training)
        or (isinstance(part, nn.MultiheadAttention) and part.dropout > 0 and part.training)
    ]
    if random:
        shown = ", ".join(random[:4]) + ", ..." * (len(random) > 4)
        faults.add(f"dropout in training mode is random ({shown}); call module.eval() first")


def _layer_block(path: str, layer: Any) -> Block:
    """The feed-forward part of a transformer layer."""
    activation = activation_of(layer.activation)
    if activation is None:
        shown = getattr(layer.activation, "__name__", str(layer.activation))
        raise InvalidInput(path or "layer", [f"activation {shown} has no attention form; use {KNOWN}"])
    first, second = _dense(layer.linear1, activation), _dense(layer.linear2, Activation("identity"))
    dtype = str(layer.linear1.weight.dtype).removeprefix("torch.")
    network = DenseNetwork([first, second], dtype, path or type(layer).__name__)
    decoder = isinstance(layer, nn.TransformerDecoderLayer)
    norm = getattr(layer, ("norm3" if decoder else "norm2") if layer.norm_first else ("norm2" if decoder else "norm1"))
    return Block(path, network, normalised_box(norm), True)


def _dense(layer: nn.Linear, activation: Activation) -> DenseLayer:
    weight = layer.weight.detach().double().cpu().numpy().copy()
    bias = np.zeros(len(weight)) if layer.bias is None else layer.bias.detach().double().cpu().numpy().copy()
    return DenseLayer(weight, bias, activation)


def normalised_box(norm: nn.Module) -> Sides | None:
    """Where the outputs of a LayerNorm over its last axis lie, and a thousandth more: NORMALISED."""
    if not isinstance(norm, nn.LayerNorm) or len(norm.normalized_shape) != 1:
        return None
    d = norm.normalized_shape[0]
    gain = np.ones(d) if norm.weight is None else np.abs(norm.weight.detach().double().cpu().numpy())
    shift = np.zeros(d) if norm.bias is None else norm.bias.detach().double().cpu().numpy()
    reach = (np.sqrt(d) * gain + np.abs(shift)) * 1.001 + 1e-6
    return -reach, reach


def replace_blocks(module: nn.Module, blocks: list[Block], networks: list[TranspiledNetwork], dtype: str) -> nn.Module:
    """A copy of the module, in eval mode, with attention in place of the blocks."""
    result = copy.deepcopy(module).eval().to(DTYPES[dtype])
    for block, network in zip(blocks, networks, strict=True):
        if not block.is_layer:
            if not block.path:
                result = network
                continue
            parent, _, name = block.path.rpartition(".")
            setattr(result.get_submodule(parent), name, network)
            continue
        layer: Any = result.get_submodule(block.path)
        layer.linear1, layer.linear2 = network.steps
        layer.activation = nn.Identity()
        layer.activation_relu_or_gelu = 0
    for part in result.modules():
        if isinstance(part, nn.TransformerEncoder):
            part.use_nested_tensor = part.enable_nested_tensor = False
    return result


def block_runner(module: nn.Module, block: Block) -> nn.Module:
    """The replaced block alone, for checks."""
    if not block.is_layer:
        return module.get_submodule(block.path) if block.path else module
    layer: Any = module.get_submodule(block.path)
    return nn.Sequential(layer.linear1, layer.linear2)


def module_dtype(module: nn.Module) -> str:
    """The dtype of a module's parameters."""
    first = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float64)
    return str(first).removeprefix("torch.")
