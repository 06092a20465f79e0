"""Whether a module does what its traced graph says: `torch.fx` follows the operations of a forward, not its memory.

`y += x` is traced as y = y + x, though it also changes every other name of y. So before a module is cut, its graph and
the module itself are run side by side, at inputs whose shapes follow from the first layer that takes them. Where no
such inputs are found, a forward that changes values in place (`+=`, seen in its source) is not cut.
"""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx, nn

_SIDES = (8, 16, 28, 32)  # of images and sequences to try
_SAME = 1e-6  # the same operations in the same order: what differs more is another function


def not_as_traced(module: nn.Module, graph: fx.Graph, given: Mapping[str, Any]) -> str:
    """What keeps a module from being its graph, in words; nothing if they agree at random inputs, or if there are none
    to try and nothing is changed in place. `given` are options that it is called with."""
    modules = dict(module.named_modules())
    shapes = [_shape(node, modules) for node in graph.nodes if node.op == "placeholder" and not node.args]
    if shapes and all(shape is not None for shape in shapes):
        for side in _SIDES:
            sizes = [[side if n < 0 else n for n in shape or ()] for shape in shapes]
            found = _apart(module, fx.GraphModule(module, graph), sizes, given)
            if found is not None:
                return found
    if any(_changes_in_place(part) for part in module.modules()):
        return "changes values in place, and is not cut; write a = a + b instead of a += b"
    return ""


def _apart(module: nn.Module, traced: nn.Module, sizes: list[list[int]], given: Mapping[str, Any]) -> str | None:
    """Whether two modules give the same at random inputs of these sizes; None if they do not run there."""
    kind = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)
    generator = torch.Generator().manual_seed(5)
    inputs = [torch.randn(shape, generator=generator).to(kind) for shape in sizes]
    before = torch.get_rng_state()
    try:
        with torch.no_grad():
            left = _tensors(module(*copy.deepcopy(inputs), **given))
            random = not torch.equal(before, torch.get_rng_state())
            right = _tensors(traced(*copy.deepcopy(inputs)))
    except Exception:  # whatever a foreign forward raises at shapes that do not fit
        return None
    finally:
        torch.set_rng_state(before)
    if random:
        return "draws random numbers when it is called, and is not cut; leave them out"
    if len(left) == len(right) and all(_close(a, b) for a, b in zip(left, right, strict=True)):
        return ""
    return "does something else than the operations of its forward, and is not cut; leave out what works in place"


def _shape(node: fx.Node, modules: dict[str, nn.Module]) -> list[int] | None:
    """The shape of an input by the first layer that takes it; -1 stands for the side of an image."""
    waiting, seen = [node], {node}
    while waiting:
        current = waiting.pop(0)
        layer: Any = modules.get(str(current.target)) if current.op == "call_module" else None
        if isinstance(layer, nn.Linear):
            return [5, layer.in_features]
        if isinstance(layer, nn.LayerNorm | nn.RMSNorm):
            return [5, *layer.normalized_shape]
        if isinstance(layer, nn.BatchNorm1d):
            return [5, layer.num_features]
        if isinstance(layer, nn.Conv1d | nn.Conv2d):
            return [2, layer.in_channels, *([-1] * (1 if isinstance(layer, nn.Conv1d) else 2))]
        following = [user for user in current.users if user not in seen]
        seen.update(following)
        waiting += following
    return None


def _tensors(output: Any) -> list[torch.Tensor]:
    if isinstance(output, torch.Tensor):
        return [output]
    entries = output.values() if isinstance(output, dict) else output if isinstance(output, list | tuple) else ()
    return [tensor for entry in entries for tensor in _tensors(entry)]


def _close(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape:
        return False
    return bool(torch.allclose(one.double(), other.double(), rtol=_SAME, atol=_SAME, equal_nan=True))


def _changes_in_place(module: nn.Module) -> bool:
    """Whether the source of a forward changes a value in place; a forward whose source nobody has might."""
    if type(module).__module__.startswith("torch."):
        return False
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(type(module).forward)))
    except (OSError, TypeError, SyntaxError):
        return True
    return any(isinstance(node, ast.AugAssign) for node in ast.walk(tree))
