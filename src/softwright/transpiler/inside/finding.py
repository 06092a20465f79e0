"""Feed-forward blocks of a model that nobody has named: which submodules are networks of their own, and their ranges.

A submodule is a block if its forward can be read (`targets/mlp`), and holds an activation between or behind Linear
layers. They are looked for from the outside in, so a block is as large as it can be; what is inside of one is not
looked at again. That finds the feed-forward parts of BERT, DistilBERT, GPT-2, GPT-NeoX, Llama, Mistral, Qwen, T5, ViT
and of models like them, whatever their classes are called. Layers that no module of their own holds together are found
where the model runs at its example inputs (`watching.py`).

What a block is given comes, in these models, from a normalisation, which is seen in that run; a model without example
inputs is looked through for one beside the block, under one of a few names. Its outputs lie in |x_i| <= sqrt(d)
|gain_i| + |shift_i|, for RMSNorm too, which bounds x/rms(x) by sqrt(d). The range is named in the certificate, which
does not say that inputs stay in it: a model that feeds its block from elsewhere is not covered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from softwright.errors import InvalidInput
from softwright.targets.mlp import DenseNetwork, outline, read_source
from softwright.transpiler.inside.calling import Calls, Manner, calls_in, manner_of
from softwright.transpiler.inside.cutting import cut_parts
from softwright.transpiler.inside.watching import Watched, chains, normalisation, running_inputs
from softwright.transpiler.job import Part

Scaled = tuple[np.ndarray, np.ndarray]  # gain and shift

# Names of normalisations whose output a block takes, relative to the modules around it, the nearest first.
_BEFORE = (
    *(
        "pre_feedforward_layernorm",
        "post_attention_layernorm",
        "ln_2",
        "layernorm_after",
        "sa_layer_norm",
        "layer_norm",
    ),
    *("norm2", "ffn_norm", "attention.output.LayerNorm"),
)


def found_parts(module: nn.Module, seen: Watched | None, boxed: bool, notes: list[str]) -> list[Part]:
    """Every block of a module, outermost first, without ranges; pieces of what has no blocks.

    `seen` is a run at example inputs; `boxed` is whether ranges are given; `notes` take what stays, and why.
    """
    return _Search(module, seen, boxed, notes).parts(module, "", Manner({}, ()), {})


@dataclass
class _Search:
    """A walk through a module from the outside in, which keeps how every part is called."""

    whole: nn.Module
    watched: Watched | None
    boxed: bool
    notes: list[str]
    met: set[int] = field(default_factory=set)

    def parts(self, module: nn.Module, path: str, manner: Manner | None, calls: Calls) -> list[Part]:
        found: list[Part] = []
        if manner is not None and _has_forward(module):
            graph = outline(module, manner.given)
            calls = calls if graph is None else {**calls, **calls_in(module, graph)}
        for name, child in module.named_children():
            if id(child) in self.met:  # a module that stands in two places is one module
                continue
            self.met.add(id(child))
            inner = f"{path}.{name}" if path else name
            known = calls.get(id(child)) or ([] if self.watched is None else self.watched.calls.get(inner, []))
            own = manner_of(child, known)
            part = self._readable(child, inner, own)
            found += self.parts(child, inner, own, calls) if part is None else [part]
        if not found and manner is not None and _has_forward(module):
            found = cut_parts(module, path, manner, self.boxed, self.notes)
        return found

    def _readable(self, module: nn.Module, path: str, manner: Manner | None) -> Part | None:
        """The module as a block, if it is a network with an activation."""
        if not any(p.ndim == 2 for p in module.parameters()):
            return None
        try:
            source = read_source(module, path, {} if manner is None else manner.given)
        except InvalidInput:
            return None
        if all(layer.activation.name == "identity" for layer in source.network.layers):
            return None
        if manner is None:
            self.notes.append(
                f"{path} stays: it has options, and its calls cannot be followed or differ; name it in blocks=[...]"
            )
            return None
        return Part(path, source, behind=manner.behind, called=(module, manner.given))


def _has_forward(module: nn.Module) -> bool:
    """Whether a module has a forward of its own that may be cut: not a layer of torch, nor one of transformers."""
    where = type(module).__module__
    return isinstance(module, nn.Sequential) or not where.startswith(("torch.nn", "transformers"))


def chain_parts(module: nn.Module, seen: Watched, found: Sequence[Part]) -> list[Part]:
    """Feed-forward parts that no module of their own holds: layers that were seen to follow one another."""
    taken = {path for part in found for path in (part.absorbs or (part.path,))}
    parts = []
    for paths in chains(module, seen, taken):
        try:
            source = read_source(nn.Sequential(*(module.get_submodule(path) for path in paths)), paths[0])
        except InvalidInput:
            continue
        layers = source.network.layers
        if isinstance(source.network, DenseNetwork) and len(layers) == 2 and layers[0].activation.name != "identity":
            parts.append(Part(paths[0], source, absorbs=paths, chain=paths))
    return parts


def norm_before(module: nn.Module, path: str, inputs: int, seen: Watched | None) -> Scaled | None:
    """Gain and shift of the normalisation whose outputs a block at `path` takes: the one that was seen to give them,
    or one that stands beside or around the block under a usual name."""
    for given in () if seen is None else seen.before(path):
        found = normalisation(module.get_submodule(given), inputs)
        if found is not None:
            return found
    around = path
    while around and (seen is None or path not in seen.given):
        around = around.rpartition(".")[0]
        parent = module.get_submodule(around)
        for name in _BEFORE:
            try:
                found = normalisation(parent.get_submodule(name), inputs)
            except AttributeError:
                continue
            if found is not None:
                return found
    return None


def deviation(one: nn.Module, other: nn.Module, dtype: torch.dtype) -> float | None:
    """How far two models are apart at the inputs that a model brings for itself; None without any."""
    given = running_inputs(one, dtype)
    if given is None:
        return None
    try:
        with torch.no_grad():
            left, right = (_first(model(**given)) for model in (one, other))
    except Exception as error:  # whatever a foreign model raises
        fault = f"with attention in place of its blocks the model fails ({error}); name others in blocks=[...]"
        raise InvalidInput("transpile", [fault]) from error
    return float((left.double() - right.double()).abs().max())


def _first(output: Any) -> torch.Tensor:
    """The first tensor of what a model returns."""
    while not isinstance(output, torch.Tensor):
        output = next(iter(output.values())) if hasattr(output, "values") else output[0]
    return output
