"""Feed-forward blocks of a model that nobody has named: which submodules are networks of their own, and their ranges.

A submodule is a block if its forward can be read (`targets/mlp`), and holds an activation between or behind Linear
layers. They are looked for from the outside in, so a block is as large as it can be; what is inside of one is not
looked at again. That finds the feed-forward parts of BERT, DistilBERT, GPT-2, GPT-NeoX, Llama, Mistral, Qwen, T5, ViT
and of models like them, whatever their classes are called.

What a block is given comes, in these models, from a normalisation beside it, under one of a few names. Its outputs lie
in |x_i| <= sqrt(d) |gain_i| + |shift_i|, for RMSNorm too, which bounds x/rms(x) by sqrt(d). The range is named in the
certificate, which does not say that inputs stay in it: a model that feeds its block from elsewhere is not covered.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from softwright.errors import InvalidInput
from softwright.targets.mlp import read_source
from softwright.transpiler.cutting import cut_parts
from softwright.transpiler.job import Part

# Names of normalisations whose output a block takes, relative to the modules around it, the nearest first.
_BEFORE = (
    *(
        "post_attention_layernorm",
        "pre_feedforward_layernorm",
        "ln_2",
        "layernorm_after",
        "sa_layer_norm",
        "layer_norm",
    ),
    *("norm2", "ffn_norm", "attention.output.LayerNorm"),
)


def found_parts(module: nn.Module) -> list[Part]:
    """Every block of a module, outermost first, without ranges; pieces of what has no blocks."""
    return _parts(module, "", set())


def _parts(module: nn.Module, path: str, seen: set[int]) -> list[Part]:
    found: list[Part] = []
    for name, child in module.named_children():
        if id(child) in seen:  # a module that stands in two places is one module
            continue
        seen.add(id(child))
        inner = f"{path}.{name}" if path else name
        part = _readable(child, inner)
        found += _parts(child, inner, seen) if part is None else [part]
    if not found and _has_forward(module):
        found = cut_parts(module, path)
    return found


def _has_forward(module: nn.Module) -> bool:
    """Whether a module has a forward of its own that may be cut: not a layer of torch, nor one of transformers."""
    where = type(module).__module__
    return isinstance(module, nn.Sequential) or not where.startswith(("torch.nn", "transformers"))


def _readable(module: nn.Module, path: str) -> Part | None:
    """The module as a block, if it is a network with an activation."""
    if not any(p.ndim == 2 for p in module.parameters()):
        return None
    try:
        source = read_source(module, path)
    except InvalidInput:
        return None
    active = any(layer.activation.name != "identity" for layer in source.network.layers)
    return Part(path, source) if active else None


def norm_before(module: nn.Module, path: str, inputs: int) -> nn.Module | None:
    """The normalisation whose outputs a block at `path` takes, if one stands beside it or around it."""
    around = path
    while around:
        around = around.rpartition(".")[0]
        parent = module.get_submodule(around)
        for name in _BEFORE:
            try:
                norm: Any = parent.get_submodule(name)
            except AttributeError:
                continue
            gain = getattr(norm, "weight", None)
            if isinstance(gain, torch.Tensor) and gain.shape == (inputs,):
                return norm
    return None


def deviation(one: nn.Module, other: nn.Module, dtype: torch.dtype) -> float | None:
    """How far two models are apart at the inputs that a model brings for itself (`dummy_inputs`); None without any."""
    given = getattr(one, "dummy_inputs", None)
    if not isinstance(given, dict):
        return None
    try:
        with torch.no_grad():
            given = {name: x.to(dtype) if x.is_floating_point() else x for name, x in given.items()}
            left, right = (_first(model(**given)) for model in (one, other))
    except Exception:  # whatever a foreign model raises at inputs of its own
        return None
    return float((left.double() - right.double()).abs().max())


def _first(output: Any) -> torch.Tensor:
    """The first tensor of what a model returns."""
    while not isinstance(output, torch.Tensor):
        output = next(iter(output.values())) if hasattr(output, "values") else output[0]
    return output
