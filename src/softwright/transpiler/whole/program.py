"""A transformer as a list of sublayers: x <- x + body(norm(x)) or x <- norm(x + body(x)), a last norm, a linear head.

The body is attention, whose weights are the module's own, or a feed-forward block that heads took the place of. A model
is read by its class; one that is not known here is refused by name. What was read is compared with the model as it runs
when a bound is asked for (`at_prompt`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from softwright.errors import InvalidInput
from softwright.result.built import Built
from softwright.targets.mlp import DenseNetwork, GatedNetwork

COVERED = "torch.nn.TransformerEncoder and TransformerEncoderLayer, and GPT-2 of transformers"


@dataclass(frozen=True)
class Linear:
    """W x + b."""

    weight: np.ndarray
    bias: np.ndarray


@dataclass(frozen=True)
class Norm:
    """gain (x - mean)/sqrt(variance + eps) + shift."""

    gain: np.ndarray
    shift: np.ndarray
    eps: float


@dataclass(frozen=True)
class Attention:
    """Softmax attention of `heads` heads, scores divided by the root of their size; causal or not."""

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    heads: int
    causal: bool


@dataclass(frozen=True)
class Block:
    """A replaced feed-forward block: the source, its proved bound entry by entry, and the range of inputs of that."""

    path: str
    source: DenseNetwork | GatedNetwork
    bound: float
    exact: float
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Sublayer:
    name: str
    body: Attention | Block
    norm: Norm
    first: bool  # the norm comes before the body, not after the sum


@dataclass(frozen=True)
class Program:
    sublayers: list[Sublayer]
    last: Norm | None = None
    head: Linear | None = None
    embed: Callable[[Any], np.ndarray] | None = field(default=None, compare=False)  # indices -> addends (k, T, d)


def refused(reason: str) -> InvalidInput:
    return InvalidInput("certify_at", [reason])


def numbers(tensor: Any, size: int = 0) -> np.ndarray:
    return np.zeros(size) if tensor is None else tensor.detach().double().cpu().numpy().copy()


def read_program(module: nn.Module, parts: Mapping[str, Built[Any]]) -> Program:
    """What a module with replaced blocks computes; refused, by name, where that is not known."""
    for name, read in READERS.items():
        if type(module).__name__ == name:
            return read(module, parts)
    raise refused(
        f"a {type(module).__name__} is not read as a whole; covered are {COVERED}; its blocks have certificates"
    )


def read_norm(norm: Any) -> Norm:
    if not isinstance(norm, nn.LayerNorm) or len(norm.normalized_shape) != 1:
        raise refused(f"a {type(norm).__name__} is not covered; LayerNorm over the last axis is")
    d = norm.normalized_shape[0]
    gain = np.ones(d) if norm.weight is None else numbers(norm.weight)
    return Norm(gain, numbers(norm.bias, d), float(norm.eps))


def read_block(path: str, parts: Mapping[str, Built[Any]]) -> Block:
    part = parts.get(path)
    if part is None or part.certificate is None or part.target.get("box") is None:
        why = "was not replaced" if part is None else "has no certificate with rounding"
        raise refused(f"block {path!r} {why}; transpile all blocks, with certify=True")
    if part.source.dtype != part.certificate.dtype:
        raise refused(f"the source is stored in {part.source.dtype}; transpile it in that dtype")
    low, high = (np.array(side) for side in part.target["box"])
    jumps = [str(each.activation) for each in part.source.layers if each.activation.row.jump is not None]
    if jumps:
        raise refused(f"block {path!r}: {jumps[0]} jumps where torch changes its formula, so that no slope bounds it")
    return Block(path, part.source, part.certificate.bound, part.certificate.exact_part, low, high)


def _encoder_layer(layer: Any, path: str, parts: Mapping[str, Built[Any]]) -> list[Sublayer]:
    attention = layer.self_attn
    usual = attention.in_proj_weight is not None and attention.bias_k is None and not attention.add_zero_attn
    if not usual:
        raise refused(f"{path or 'the layer'}: attention with other key sizes or added keys is not covered")
    d = attention.embed_dim
    weight, bias = numbers(attention.in_proj_weight), numbers(attention.in_proj_bias, 3 * d)
    q, k, v = (Linear(weight[i * d : (i + 1) * d], bias[i * d : (i + 1) * d]) for i in range(3))
    output = Linear(numbers(attention.out_proj.weight), numbers(attention.out_proj.bias, d))
    name = path or "layer"
    return [
        Sublayer(
            f"{name}, attention",
            Attention(q, k, v, output, attention.num_heads, False),
            read_norm(layer.norm1),
            layer.norm_first,
        ),
        Sublayer(f"{name}, block", read_block(path, parts), read_norm(layer.norm2), layer.norm_first),
    ]


def _encoder(module: Any, parts: Mapping[str, Built[Any]]) -> Program:
    found = [step for i, layer in enumerate(module.layers) for step in _encoder_layer(layer, f"layers.{i}", parts)]
    return Program(found, None if module.norm is None else read_norm(module.norm))


def _gpt2(module: Any, parts: Mapping[str, Built[Any]], prefix: str = "") -> Program:
    """GPT-2: Conv1D stores its weights the other way round."""
    c, found = module.config, []
    if c.add_cross_attention or getattr(c, "scale_attn_by_inverse_layer_idx", False) or not c.scale_attn_weights:
        raise refused("GPT-2 with cross-attention or scaled layers is not covered")
    for i, layer in enumerate(module.h):
        attention = layer.attn
        weight, bias = numbers(attention.c_attn.weight).T, numbers(attention.c_attn.bias)
        d = weight.shape[1]
        q, k, v = (Linear(weight[j * d : (j + 1) * d], bias[j * d : (j + 1) * d]) for j in range(3))
        output = Linear(numbers(attention.c_proj.weight).T, numbers(attention.c_proj.bias))
        heads = Attention(q, k, v, output, attention.num_heads, True)
        found.append(Sublayer(f"h.{i}, attention", heads, read_norm(layer.ln_1), True))
        found.append(Sublayer(f"h.{i}, block", read_block(f"{prefix}h.{i}.mlp", parts), read_norm(layer.ln_2), True))

    def embed(indices: Any) -> np.ndarray:
        given = torch.as_tensor(indices).reshape(-1)
        known, places = len(module.wte.weight), len(module.wpe.weight)
        if not bool(((given >= 0) & (given < known)).all()) or len(given) > places:
            raise refused(f"the prompt must hold at most {places} tokens, indices from 0 to {known - 1}")
        return np.stack([numbers(module.wte.weight[given]), numbers(module.wpe.weight[: len(given)])])

    return Program(found, read_norm(module.ln_f), None, embed)


def _gpt2_head(module: Any, parts: Mapping[str, Built[Any]]) -> Program:
    body = _gpt2(module.transformer, parts, "transformer.")
    weight = numbers(module.lm_head.weight)
    return Program(body.sublayers, body.last, Linear(weight, numbers(module.lm_head.bias, len(weight))), body.embed)


READERS: dict[str, Callable[[Any, Mapping[str, Built[Any]]], Program]] = {
    "TransformerEncoder": _encoder,
    "TransformerEncoderLayer": lambda module, parts: Program(_encoder_layer(module, "", parts)),
    "GPT2Model": _gpt2,
    "GPT2LMHeadModel": _gpt2_head,
}


def size_of_heads(attention: Attention) -> int:
    """The size of a query; torch and transformers see to it that heads share the width evenly."""
    return len(attention.query.bias) // attention.heads
