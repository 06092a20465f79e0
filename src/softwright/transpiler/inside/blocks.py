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
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
from torch import nn

from softwright.errors import Faults, InvalidInput
from softwright.precision import name_of, precision_of
from softwright.targets.mlp import (
    KNOWN,
    Activation,
    DenseLayer,
    DenseNetwork,
    Sides,
    Source,
    activation_of,
    check_parts,
    outline,
    read_source,
    run_module,
)
from softwright.transpiler.inside.calling import called_as
from softwright.transpiler.inside.finding import chain_parts, found_parts, norm_before
from softwright.transpiler.inside.following import check_result, inputs_of
from softwright.transpiler.inside.patches import PatchNetwork
from softwright.transpiler.inside.pieces import Cut
from softwright.transpiler.inside.watching import Watched, normalisation, running_inputs, watch
from softwright.transpiler.job import Job, Options, Part
from softwright.transpiler.network import TranspiledModule, TranspiledNetwork

LAYERS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
NORMALISED = (
    "inputs with |x_i| <= 1.001 (sqrt(d) |gain_i| + |shift_i|) + 1e-6, where its normalisation puts them unless the "
    "rows it is given are lost in rounding"
)


def has_layers(module: nn.Module) -> bool:
    return any(isinstance(part, LAYERS) for part in module.modules())


def find_job(
    module: nn.Module, names: Sequence[str] | None, faults: Faults, boxed: bool = True, notes: list[str] | None = None
) -> Job:
    """The blocks named, or the feed-forward part of every transformer layer, or what is found; faults are collected.

    `boxed` is whether the user gives a range; `notes` take what was not read, and why.
    """
    notes = [] if notes is None else notes
    if names is None and not has_layers(module):
        _check_mode(module, faults)
        seen = watch(module)
        parts = found_parts(module, seen, boxed, notes)
        parts += [] if seen is None else chain_parts(module, seen, parts)
        parts = [replace(part, sides=_range_of(module, part, seen)) for part in parts]
    else:
        parts = _find_parts(module, names, faults)
    faults.check(bool(parts) or bool(faults.found), "the module has no feed-forward block; name some in blocks=[...]")
    paths = [part.path for part in parts]

    def assemble(networks: list[TranspiledNetwork], options: Options) -> TranspiledModule:
        made = replace_blocks(module, parts, networks, options.dtype, options.tol or 0.0)
        own = copy.deepcopy(module).eval() if any(part.training for part in module.modules()) else module
        graph = outline(own, {}) if running_inputs(own) is None else None
        if graph is not None:
            check_result(own, made, inputs_of(own, graph), {}, options.tol or 0.0)
        return TranspiledModule(made, paths, options.layout)

    return Job(
        parts,
        name_of(next((p.dtype for p in module.parameters() if p.is_floating_point()), "float64")),
        statement="every replaced block is within the bound of the block it replaces, the latter in real arithmetic",
        target={
            "kind": "module",
            "text": f"{type(module).__name__}, feed-forward blocks {', '.join(path or '(all)' for path in paths)}",
            "blocks": [part.network.describe() for part in parts],
        },
        reasons=[*_said(module, parts), *notes],
        whole=module,
        assemble=assemble,
        runner=lambda result, part: _runner(result.module, part),
        ranges=NORMALISED,
    )


def _range_of(module: nn.Module, part: Part, seen: Watched | None) -> Sides | None:
    behind = [normalised_box(normalisation(norm, part.network.inputs)) for norm in part.behind]
    if behind and all(sides is not None for sides in behind):
        reach = np.max([sides[1] for sides in behind if sides is not None], axis=0)
        return -reach, reach
    if part.cut is not None:
        return None
    return normalised_box(norm_before(module, part.path, part.network.inputs, seen))


def _said(module: nn.Module, parts: Sequence[Part]) -> list[str]:
    """Block by block what becomes attention, and what stays as it is."""
    inside = tuple(path for part in parts for path in (part.absorbs or (part.path,)))
    stays: dict[str, int] = {}
    for path, layer in module.named_modules():
        own = any(True for _ in layer.parameters(recurse=False))
        if own and not any(path == block or path.startswith(f"{block}.") or not block for block in inside):
            stays[type(layer).__name__] = stays.get(type(layer).__name__, 0) + 1
    kept = ", ".join(f"{count} {name}" for name, count in stays.items()) or "nothing else"
    blocks = [f"{part.path or 'the module'}: {part.network.describe()['text']}" for part in parts]
    for cut in dict.fromkeys(part.cut for part in parts if part.cut is not None):
        blocks.append(f"{cut.path or 'the module'} is cut; as they were run {', '.join(cut.stays) or 'no others'}")
    return [*blocks, f"attention, normalisation and embeddings are the module's own: {kept}"]


def _find_parts(module: nn.Module, names: Sequence[str] | None, faults: Faults) -> list[Part]:
    _check_mode(module, faults)
    if names is None:
        names = [name for name, part in module.named_modules() if isinstance(part, LAYERS)]
    found = []
    for name in names:
        try:
            block = module.get_submodule(name)
        except AttributeError:
            known = [path for path, _ in module.named_modules() if path]
            faults.add(
                f"there is no block {name!r}; the module has {', '.join(known[:12])}{', ...' * (len(known) > 12)}"
            )
            continue
        inner = [(path, layer) for path, layer in block.named_modules() if isinstance(layer, LAYERS)]
        try:
            if inner:
                found += [_layer_part(".".join(filter(None, (name, path))), layer) for path, layer in inner]
            else:
                source = read_source(block, name or type(block).__name__)
                found.append(Part(name, source, called=(block, {})))
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
    batch = [
        name
        for name, part in module.named_modules()
        if isinstance(part, nn.modules.batchnorm._NormBase) and part.training and part.track_running_stats
    ]
    if batch:
        shown = ", ".join(batch[:4]) + ", ..." * (len(batch) > 4)
        faults.add(f"batch norm in training mode depends on the batch ({shown}); call module.eval() first")


def _layer_part(path: str, layer: Any) -> Part:
    """The feed-forward part of a transformer layer."""
    name = path or type(layer).__name__
    faults = Faults(name)
    replaced = {"linear1": layer.linear1, "linear2": layer.linear2, "activation": layer.activation}
    check_parts(nn.ModuleDict({key: part for key, part in replaced.items() if isinstance(part, nn.Module)}), faults)
    activation = activation_of(layer.activation)
    if activation is None:
        shown = getattr(layer.activation, "__name__", str(layer.activation))
        faults.add(f"activation {shown} has no attention form; use {KNOWN}")
    faults.raise_if_any()
    first, second = _dense(layer.linear1, cast(Activation, activation)), _dense(layer.linear2, Activation("identity"))
    network = DenseNetwork([first, second], name_of(layer.linear1.weight.dtype), name)
    decoder = isinstance(layer, nn.TransformerDecoderLayer)
    norm = getattr(layer, ("norm3" if decoder else "norm2") if layer.norm_first else ("norm2" if decoder else "norm1"))
    sides = normalised_box(normalisation(norm, first.inputs))
    return Part(path, Source(network, partial(run_module, layer, method="_ff_block")), sides)


def _dense(layer: nn.Linear, activation: Activation) -> DenseLayer:
    weight = layer.weight.detach().double().cpu().numpy().copy()
    bias = np.zeros(len(weight)) if layer.bias is None else layer.bias.detach().double().cpu().numpy().copy()
    return DenseLayer(weight, bias, activation)


def normalised_box(scaled: tuple[np.ndarray, np.ndarray] | None) -> Sides | None:
    """Where the outputs of a normalisation with this gain and shift lie, and a thousandth more: NORMALISED."""
    if scaled is None:
        return None
    gain, shift = scaled
    reach = (np.sqrt(len(gain)) * np.abs(gain) + np.abs(shift)) * 1.001 + 1e-6
    return -reach, reach


def replace_blocks(
    module: nn.Module, parts: Sequence[Part], networks: Sequence[TranspiledNetwork], dtype: str, tol: float = 0.0
) -> nn.Module:
    """A copy of the module, in eval mode, with attention in place of the blocks, each of which may be off by `tol`."""
    result = copy.deepcopy(module).eval().to(precision_of(dtype).torch_dtype)
    cuts: dict[Cut, list[TranspiledNetwork]] = {}
    for part, network in zip(parts, networks, strict=True):
        if part.cut is not None:
            called_as(network, (None, {}), part.source.taken)
            cuts.setdefault(part.cut, []).append(network)
            continue
        if part.chain:
            for path, step in zip(part.chain, (network.steps[0], nn.Identity(), network.steps[1]), strict=True):
                result = _replaced(result, path, step)
            continue
        if part.called is not None:
            called_as(network, part.called, part.source.taken)
        place = result.get_submodule(part.path)
        if isinstance(place, LAYERS):
            layer: Any = place
            layer.linear1, layer.linear2 = network.steps
            layer.activation = nn.Identity()
            layer.activation_relu_or_gelu = 0
        else:
            result = _replaced(result, part.path, network)
    for cut, pieces in cuts.items():
        made = cut.applied(result.get_submodule(cut.path), pieces)
        check_result(module.get_submodule(cut.path), made, cut.inputs, cut.given, tol)
        result = _replaced(result, cut.path, made.to(precision_of(dtype).torch_dtype))  # numbers of its forward too
    for part in result.modules():
        if isinstance(part, nn.TransformerEncoder):
            part.use_nested_tensor = part.enable_nested_tensor = False
    return result


def _replaced(module: nn.Module, path: str, new: nn.Module) -> nn.Module:
    """The module with another one at a path."""
    if not path:
        return new
    parent, _, name = path.rpartition(".")
    setattr(module.get_submodule(parent), name, new)
    return module


def _runner(module: nn.Module, part: Part) -> nn.Module:
    """What took the place of a block, alone."""
    if part.chain:
        return nn.Sequential(*(module.get_submodule(path) for path in part.chain))
    place: Any = module.get_submodule(part.path)
    if isinstance(place, PatchNetwork):
        return place.network
    return nn.Sequential(place.linear1, place.linear2) if isinstance(place, LAYERS) else place
