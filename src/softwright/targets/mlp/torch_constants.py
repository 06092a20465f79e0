"""What the nodes of a traced graph come to that depend on weights alone: W B A of a LoRA layer, a masked weight, zeros.

They are worked out as the source does it, by the same operations in its own dtype (float32 for half precision, which is
how such a module is run), so that what is read is the weight that the source uses, rounding included. A node is left
alone if it changes something in place, if it fails, or if it draws random numbers, which the state of the generator
tells. Where weights are made so, the same in another dtype would be another weight: the source is then looked at in its
own dtype alone.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.node import map_arg

from softwright.precision import PRECISIONS, name_of
from softwright.targets.mlp.torch_layers import numbers_of

_MADE = (torch.zeros, torch.ones, torch.full, torch.arange, torch.eye, torch.linspace)
_IN_PLACE = (operator.iadd, operator.isub, operator.imul, operator.itruediv, setattr)
_SAME_NUMBERS = (  # what only arranges the numbers of a weight
    torch.t, torch.transpose, torch.permute, torch.reshape, torch.flatten, torch.squeeze, torch.unsqueeze,
    torch.detach, torch.clone, torch.chunk, torch.split, operator.getitem, getattr,
    "t", "transpose", "permute", "reshape", "view", "flatten", "squeeze", "unsqueeze", "detach", "clone",
    "contiguous", "chunk", "split", "expand", "expand_as", "view_as", "size", "dim", "numel",
)  # fmt: skip


def dtype_of(module: nn.Module) -> str:
    """That of the module's weights."""
    return name_of(next((p.dtype for p in numbers_of(module)), torch.float64))


def held_by(module: nn.Module, graph: fx.Graph) -> dict[fx.Node, Any]:
    """The nodes that are weights, or are made of weights alone, and what they come to."""
    modules = dict(module.named_modules())
    kind = dtype_of(module)
    runs_in = getattr(torch, kind if kind in PRECISIONS else "float32")
    found: dict[fx.Node, Any] = {}
    for node in graph.nodes:
        if node.op == "get_attr":
            owner, _, name = str(node.target).rpartition(".")
            value = getattr(modules[owner], name, None)
            if isinstance(value, Tensor) and not nn.parameter.is_lazy(value) and not value.is_meta:
                found[node] = value.detach()
        elif node.target is getattr and node.args[1:] == ("dtype",):
            found[node] = getattr(torch, kind)  # of whatever it is asked: modules of one dtype are read
        elif node.op in ("call_function", "call_method") and _of_weights(node, found):
            value = _worked_out(node, found, runs_in)
            if value is not None:
                found[node] = value
    return found


def made_in(graph: fx.Graph, held: dict[fx.Node, Any]) -> set[fx.Node]:
    """The held nodes that are made of the numbers of weights, rather than being some of them."""
    made: set[fx.Node] = set()
    for node in graph.nodes:
        if node in held:
            plain = node.op == "get_attr" or node.target in _SAME_NUMBERS or node.target in _MADE
            if not plain or any(entry in made for entry in node.all_input_nodes):
                made.add(node)
    return made


def _of_weights(node: fx.Node, found: dict[fx.Node, Any]) -> bool:
    inputs = node.all_input_nodes
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    changes = name.endswith("_") and not name.endswith("__")
    if changes or node.target in _IN_PLACE or "out" in node.kwargs or node.kwargs.get("inplace"):
        return False
    return all(entry in found for entry in inputs) and (bool(inputs) or node.target in _MADE)


def _worked_out(node: fx.Node, found: dict[fx.Node, Any], kind: torch.dtype) -> Any:
    """What a node comes to; None if it cannot be had, or is random."""

    def given(entry: fx.Node) -> Any:
        value = found[entry]
        if isinstance(value, Tensor):
            return value.to("cpu", kind) if value.is_floating_point() else value.cpu()
        return value

    args: Any = map_arg(node.args, given)
    named: Any = map_arg(node.kwargs, given)
    before = torch.get_rng_state()
    try:
        with torch.no_grad():
            value = getattr(args[0], node.target)(*args[1:], **named) if isinstance(node.target, str) else (
                node.target(*args, **named)
            )  # fmt: skip
    except Exception:  # whatever a foreign expression raises
        return None
    finally:
        random = not torch.equal(before, torch.get_rng_state())
        torch.set_rng_state(before)
    return None if random else value
