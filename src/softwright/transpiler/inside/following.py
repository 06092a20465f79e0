"""Whether a module does what its traced graph says, and what was made of it what it does: both are run.

`torch.fx` follows the operations of a forward, and not all that a program can do beside them. So before a module is
cut, its graph and the module itself are run side by side, and when its pieces have been replaced, what came out and the
module. The inputs are random, of shapes that follow from the first layer that takes them, or else from the sizes of its
weights: the first with which the module runs.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from softwright.errors import InvalidInput
from softwright.transpiler.inside.calling import OtherAxes

_SIDES = (8, 16, 28, 32, 64)  # of images and sequences to try
_SAME = 1e-6  # the same operations in the same order: what differs more is another function
_MOVED = 1e-6  # how much inputs are moved, relative to their size, to see how much a module makes of a difference
_STEEP = 1e3  # how many times that, and
_ROUGH = 1e-2  # what part of its values, pieces within their bounds may move a module
_ENOUGH = 3  # inputs
_TRIES = 96  # shapes that are tried at most
_WIDTHS = 12  # sizes of weights that are tried as sizes of inputs
Inputs = tuple[Tensor, ...]


def not_as_traced(module: nn.Module, graph: fx.Graph, given: Mapping[str, Any]) -> tuple[str, list[Inputs]]:
    """What keeps a module from being its graph, in words, or nothing; and inputs at which it runs, if any are found.

    `given` are options that it is called with.
    """
    traced = fx.GraphModule(module, graph)
    found: list[Inputs] = []
    for inputs in _tried(module, graph):
        before = torch.get_rng_state()
        try:
            left = _run(module, inputs, given)
            if left is None:
                continue
            if not torch.equal(before, torch.get_rng_state()):
                return "draws random numbers when it is called, and is not cut; leave them out", []
            right = _run(traced, inputs, {})
            one = [x[:1] for x in inputs]
            alone, followed = _run(module, one, given), _run(traced, one, {})
        finally:
            torch.set_rng_state(before)
        if not _all_close(left, right) or not (alone is None or _all_close(alone, followed)):
            told = (
                "does something else than the operations of its forward, and is not cut; leave out what works in place"
            )
            return told, []
        found.append(inputs)
        if len(found) == _ENOUGH:
            break
    return "", found


def inputs_of(module: nn.Module, graph: fx.Graph) -> list[Inputs]:
    """Random inputs at which a module runs; none if none are found."""
    before = torch.get_rng_state()
    runs = (inputs for inputs in _tried(module, graph) if _run(module, inputs, {}) is not None)
    found = list(itertools.islice(runs, _ENOUGH))
    torch.set_rng_state(before)
    return found


def check_result(
    module: nn.Module, made: nn.Module, several: Sequence[Inputs], given: Mapping[str, Any], tol: float = 0.0
) -> None:
    """Raise `InvalidInput` if what was made of a module fails at inputs at which that runs, gives other shapes, or is
    far from it, farther than a small change of its inputs explains, or pieces that are off by `tol`.

    It may refuse some of these inputs, with the axes for which it was read, but not all.
    """
    refused: OtherAxes | None = None
    for inputs in several:
        try:
            _check(module, made, inputs, given, tol)
            return
        except OtherAxes as error:
            refused = error
    if refused is not None:
        raise refused


def _check(module: nn.Module, made: nn.Module, inputs: Inputs, given: Mapping[str, Any], tol: float) -> None:
    kind = _dtype_of(made)
    cast = [x.to(kind) if x.is_floating_point() else x for x in inputs]
    moved = [x * (1 + _MOVED) if x.is_floating_point() else x for x in inputs]
    left, other = _run(module, inputs, given), _run(module, moved, given)
    if left is None or other is None:
        return
    try:
        with torch.no_grad():
            right = tensors_of(made(*copy.deepcopy(cast), **given))
    except OtherAxes:
        raise
    except Exception as error:  # whatever a foreign forward raises
        fault = f"with attention in place of its pieces, in {kind}, {type(module).__name__} fails ({error})"
        kinds = sorted({str(x.dtype) for x in (*module.parameters(), *module.buffers()) if x.is_floating_point()})
        mend = f"bring {' and '.join(kinds)} to one dtype" if len(kinds) > 1 else "name blocks that can be read"
        raise InvalidInput("transpile", [f"{fault}; {mend}"]) from error
    room = _STEEP * tol
    if len(left) == len(right) and all(_near(a, b, c, room) for a, b, c in zip(left, right, other, strict=True)):
        return
    fault = f"with attention in place of its pieces {type(module).__name__} gives something else"
    raise InvalidInput("transpile", [f"{fault} at inputs of shapes {[tuple(x.shape) for x in inputs]}; name blocks"])


def _all_close(left: list[Tensor], right: list[Tensor] | None) -> bool:
    return right is not None and len(left) == len(right) and all(map(_close, left, right))


def _run(module: nn.Module, inputs: Sequence[Tensor], given: Mapping[str, Any]) -> list[Tensor] | None:
    """What a module gives; None if it does not run."""
    try:
        with torch.no_grad():
            return tensors_of(module(*copy.deepcopy(list(inputs)), **given))
    except Exception:  # whatever a foreign forward raises at shapes that do not fit
        return None


def _tried(module: nn.Module, graph: fx.Graph) -> Iterator[tuple[Tensor, ...]]:
    modules = dict(module.named_modules())
    places = [node for node in graph.nodes if node.op == "placeholder" and not node.args]
    kind = _dtype_of(module)
    generator = torch.Generator().manual_seed(5)
    shapes = [_shapes(node, modules) for node in places]
    widths = list(dict.fromkeys(size for p in module.parameters() for size in reversed(p.shape)))[:_WIDTHS]
    guessed = [[shape(w) for w in widths] for shape in _GUESSES]
    known = [sizes or [shape for shapes in guessed for shape in shapes] for sizes in shapes]
    if not places or not all(known):
        return
    if len(places) > 1:  # inputs of one module are mostly of one kind
        every: Iterator[Any] = itertools.chain(zip(*known, strict=False), itertools.product(*known))
    else:
        every = ((shape,) for shape in known[0])
    whole = [_takes_indices(node, modules) for node in places]
    for sizes in itertools.islice(every, _TRIES):
        yield tuple(
            torch.randint(0, 2, size, generator=generator)
            if is_whole
            else torch.randn(size, generator=generator).to(kind)
            for size, is_whole in zip(sizes, whole, strict=True)
        )


_GUESSES = (
    lambda width: [5, width],
    lambda width: [2, 5, width],
    lambda width: [2, width, 16],
    lambda width: [2, width, 16, 16],
    lambda width: [2, 3, 5, width],
)


def _dtype_of(module: nn.Module) -> torch.dtype:
    numbers = (tensor for tensor in (*module.parameters(), *module.buffers()) if tensor.is_floating_point())
    return next((tensor.dtype for tensor in numbers), torch.float32)


def _takes_indices(node: fx.Node, modules: dict[str, nn.Module]) -> bool:
    return any(isinstance(modules.get(str(user.target)), nn.Embedding | nn.EmbeddingBag) for user in node.users)


def _shapes(node: fx.Node, modules: dict[str, nn.Module]) -> list[list[int]]:
    """Shapes of an input by the first layer that takes it; none if no layer says."""
    waiting, seen = [node], {node}
    while waiting:
        current = waiting.pop(0)
        layer: Any = modules.get(str(current.target)) if current.op == "call_module" else None
        if isinstance(layer, nn.Linear):
            return [[*lead, layer.in_features] for lead in ([5], [2, 5], [2, 3, 5])]
        if isinstance(layer, nn.LayerNorm | nn.RMSNorm):
            return [[*lead, *layer.normalized_shape] for lead in ([5], [2, 5], [2, 3, 5])]
        if isinstance(layer, nn.BatchNorm1d):
            return [[5, layer.num_features], [5, layer.num_features, 8]]
        if isinstance(layer, nn.Embedding | nn.EmbeddingBag):
            return [[2, 5], [5]]
        if isinstance(layer, nn.RNNBase):
            return [[2, 5, layer.input_size]]
        if isinstance(layer, nn.MultiheadAttention):
            return [[2, 5, layer.embed_dim]]
        if isinstance(layer, nn.Bilinear):
            return [[5, layer.in1_features]]
        if isinstance(layer, nn.modules.conv._ConvNd):
            return [[2, layer.in_channels, *[side] * len(layer.kernel_size)] for side in _SIDES]
        following = [user for user in current.users if user not in seen]
        seen.update(following)
        waiting += following
    return []


def tensors_of(output: Any) -> list[Tensor]:
    """All tensors of what a module returns."""
    if isinstance(output, Tensor):
        return [output]
    entries = output.values() if isinstance(output, dict) else output if isinstance(output, list | tuple) else ()
    return [tensor for entry in entries for tensor in tensors_of(entry)]


def _close(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape:
        return False
    return bool(torch.allclose(one.double(), other.double(), rtol=_SAME, atol=_SAME, equal_nan=True))


def _near(one: Tensor, other: Tensor, moved: Tensor, room: float) -> bool:
    if one.shape != other.shape:
        return False
    a, b, c = (x.double().nan_to_num() for x in (one, other, moved))
    if not a.numel():
        return True
    room += _ROUGH * float(a.abs().max()) + _STEEP * float((a - c).abs().max()) + _ROUGH
    return float((a - b).abs().max()) <= room
