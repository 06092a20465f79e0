"""What one run of a model at its own example inputs shows: which layer's output is which layer's input.

Names tell little: `post_attention_layernorm` is the normalisation before the feed-forward block in Llama and the one
behind attention in Gemma 2. So a model that brings example inputs is run at them once, and a tensor that a layer gives
is followed by its storage: a layer whose input has the storage, the size and the version (the number of changes in
place) of another one's output was given that output, as it was or in another shape. Outputs are kept until the run is
over, so that no storage is used twice.

Two things are read off. *Normalisations*: the one whose output a block was given in every call. *Chains*: a Linear
layer, an activation and a Linear layer that follow one another in every call, wherever the forward around them calls
them; OPT, BART, Whisper, ALBERT and ConvNeXt have no module for their feed-forward part. Both are what was seen: the
ranges of inputs are named in the certificate and not claimed, and chains are compared with their layers as they run.

*Forms of normalisation.* x/rms(x) or (x - mean)/std, times a gain (a parameter, 1 + it in Gemma, or 1), plus a
shift, whatever these are called. Which of them a module computes is asked of the module itself, at random rows. All
have |y_i| <= sqrt(d) |gain_i| + |shift_i|.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from softwright.transpiler.inside.calling import Call, constant

_AGREES = 1e-4  # some norms compute in float32 whatever they are given
_SEED = 0


@dataclass
class Watched:
    """The outputs of layers during a run, and for every layer the paths whose outputs it was given, call by call."""

    outputs: list[tuple[str, Tensor, int]] = field(default_factory=list)  # path, tensor, version
    given: dict[str, list[set[str]]] = field(default_factory=dict)
    calls: dict[str, list[Call]] = field(default_factory=dict)  # with which options

    def before(self, path: str) -> list[str]:
        """The layers whose output one was given in every call; none if it was not called."""
        calls = self.given.get(path, [])
        return sorted(set.intersection(*calls)) if calls else []


def example_inputs(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Inputs that a model brings for itself or that its configuration describes; none for most modules."""
    known = getattr(model, "dummy_inputs", None)
    if isinstance(known, dict) and all(isinstance(value, Tensor) for value in known.values()):
        yield known
        words = known.get("input_ids")
        if words is not None and "decoder_input_ids" not in known:
            yield {"input_ids": words, "decoder_input_ids": words}
    config = getattr(model, "config", None)
    size = getattr(config, "image_size", None)
    bands, steps = getattr(config, "num_mel_bins", None), getattr(config, "max_source_positions", None)
    if getattr(model, "main_input_name", None) == "input_features" and bands and steps:  # speech, as Whisper has it
        sound = torch.rand((1, int(bands), 2 * int(steps)), generator=torch.Generator().manual_seed(_SEED))
        yield {"input_features": sound, "decoder_input_ids": torch.zeros((1, 4), dtype=torch.long)}
    if getattr(model, "main_input_name", None) == "pixel_values":
        sides = size if isinstance(size, list | tuple) else (size, size) if isinstance(size, int) else (32, 32)
        shape = (1, int(getattr(config, "num_channels", 3)), *(int(side) for side in sides))
        yield {"pixel_values": torch.rand(shape, generator=torch.Generator().manual_seed(_SEED))}


def running_inputs(model: nn.Module, dtype: torch.dtype | None = None) -> dict[str, Tensor] | None:
    """The first of a model's example inputs at which it runs, in its dtype or another; None if there are none."""
    kind = dtype or next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    for given in example_inputs(model):
        cast = {name: x.to(kind) if x.is_floating_point() else x for name, x in given.items()}
        try:
            with torch.no_grad():
                model(**cast)
        except Exception:  # noqa: S112  # whatever a foreign model raises at inputs that are not its own
            continue
        return cast
    return None


def watch(model: nn.Module) -> Watched | None:
    """One run of a model at its example inputs; None if it has none."""
    given = running_inputs(model)
    if given is None:
        return None
    seen = Watched()
    hooks = []
    for path, layer in model.named_modules():
        if path:
            hooks.append(layer.register_forward_pre_hook(_before(seen, path), with_kwargs=True))
        if path and not any(True for _ in layer.children()):
            hooks.append(layer.register_forward_hook(_after(seen, path)))
    try:
        with torch.no_grad():
            model(**given)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def _before(seen: Watched, path: str) -> Any:
    def hook(_: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        x = next((value for value in (*args, *named.values()) if isinstance(value, Tensor)), None)
        same = set() if x is None else {name for name, y, version in seen.outputs if _same(x, y, version)}
        seen.given.setdefault(path, []).append(same)
        options = {name: constant(value) for name, value in named.items()}
        seen.calls.setdefault(path, []).append(Call(tuple(map(constant, args)), options))

    return hook


def _after(seen: Watched, path: str) -> Any:
    def hook(_: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if isinstance(output, Tensor):
            seen.outputs.append((path, output, output._version))

    return hook


def _same(x: Tensor, y: Tensor, version: int) -> bool:
    """Whether x is the output y as it was given, in whatever shape."""
    return (
        x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
        and x.numel() == y.numel()
        and x._version == y._version == version
    )


def chains(model: nn.Module, seen: Watched, taken: set[str]) -> list[tuple[str, str, str]]:
    """Linear, activation, Linear that follow one another in every call, outside of what is taken: their paths."""
    found, used = [], set[str]()
    for last, layer in model.named_modules():
        if not isinstance(layer, nn.Linear):
            continue
        for middle in seen.before(last):
            first = [path for path in seen.before(middle) if isinstance(model.get_submodule(path), nn.Linear)]
            between = model.get_submodule(middle)
            if isinstance(between, nn.Linear | nn.Dropout) or len(first) != 1:
                continue
            three = (first[0], middle, last)
            often = {len(seen.given[path]) for path in three}
            inside = any(path == block or path.startswith(f"{block}.") for path in three for block in taken)
            if len(often) == 1 and not inside and used.isdisjoint(three):
                found.append(three)
                used.update(three)
    return found


def normalisation(norm: nn.Module, d: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Gain and shift (d,) of what normalises rows of d numbers; None if it is none of the known forms."""
    own = [p.detach().double().cpu().numpy() for p in norm.parameters() if p.is_floating_point()]
    if len(own) > 2 or any(p.shape != (d,) for p in own):
        return None
    x = np.random.default_rng(_SEED).normal(0.3, 1.0, (8, d))
    try:
        with torch.no_grad():
            y = copy.deepcopy(norm).double()(torch.tensor(x)).double().numpy()
    except Exception:  # whatever a foreign layer raises
        return None
    if y.shape != x.shape:
        return None
    centred = x - x.mean(axis=1, keepdims=True)
    for i, gain in enumerate((np.ones(d), *own)):
        others = [p for j, p in enumerate(own, 1) if j != i]
        if len(others) > 1:
            continue
        shift = others[0] if others else np.zeros(d)
        for factor in (gain, 1.0 + gain):
            for rows in (x, centred):
                wanted = rows / np.sqrt((rows**2).mean(axis=1, keepdims=True)) * factor + shift
                if np.abs(y - wanted).max() <= _AGREES * max(np.abs(wanted).max(), 1e-30):
                    return factor, shift
    return None
