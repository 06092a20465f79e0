"""What keeps a torch module from being what its layers say, each by name with its remedy.

A module is read from its own forward (`torch_reader.py`) and from the weights it holds. Hooks change values on the way
from one layer to the next without a trace in the forward; `weight_norm`, `spectral_norm` and pruning of the older kind
keep a weight that is computed anew before every call, so what is stored may be out of date; operations in place change
a value that is used elsewhere under its old name. All of them are refused here; what none of these checks knows is
found by running the module beside its reading (`source.py`).
"""

from __future__ import annotations

import inspect
import operator
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional
from torch.nn.modules import module as module_hooks
from torch.nn.utils import parametrize, prune
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from softwright.errors import Faults

DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.AlphaDropout, nn.FeatureAlphaDropout)
_CHANGES = (operator.iadd, operator.isub, operator.imul, operator.itruediv)  # a += b
_PLAIN = {operator.iadd: operator.add, operator.isub: operator.sub, operator.imul: operator.mul,
          operator.itruediv: operator.truediv}  # fmt: skip
_VIEWS = (operator.getitem, functional.dropout)
_TURNED = ("T", "mT", "H", "mH", "data", "real")  # attributes that share memory
_VIEWED = (  # functions and methods whose result may share the memory of what they are given
    "chunk", "split", "unbind", "tensor_split", "hsplit", "view", "view_as", "reshape", "reshape_as", "flatten",
    "ravel", "unflatten", "transpose", "swapaxes", "swapdims", "permute", "movedim", "moveaxis", "t", "squeeze",
    "unsqueeze", "expand", "expand_as", "broadcast_to", "narrow", "select", "detach", "contiguous", "diagonal",
    "unfold", "to", "type_as", "float", "double", "type", "atleast_2d", "atleast_3d",
)  # fmt: skip
_RECOMPUTED = {  # a pre-hook that sets a weight before every call: how it is called and how it is undone
    WeightNorm: ("weight_norm", "torch.nn.utils.remove_weight_norm"),
    SpectralNorm: ("spectral_norm", "torch.nn.utils.remove_spectral_norm"),
    prune.BasePruningMethod: ("pruning", "torch.nn.utils.prune.remove"),
}


def check_parts(module: nn.Module, faults: Faults) -> None:
    """Record hooks, weights that are out of date, missing weights, training mode, and forwards set on an object."""
    if module_hooks._global_forward_hooks or module_hooks._global_forward_pre_hooks:
        faults.add("a forward hook on all modules is registered, which may change what they compute; remove it first")
    for path, part in module.named_modules():
        where = f"{path} ({type(part).__name__})" if path else type(part).__name__
        if any(nn.parameter.is_lazy(tensor) for tensor in part.parameters(recurse=False)):
            faults.add(no_weights(where))
            continue
        own = [*part.parameters(recurse=False), *part.buffers(recurse=False)]
        if any(tensor.is_meta for tensor in own):
            faults.add(
                f"{where} is on the device meta, which holds no weights; give the module with its weights loaded"
            )
        if any(tensor.is_complex() for tensor in own):
            faults.add(f"{where} holds complex numbers, and weights of softmax are real; write it with real layers")
        _check_hooks(part, where, faults)
        _check_mode(part, where, faults)
        if "forward" in vars(part):
            inner = " (of a compiled module that is _orig_mod)" if hasattr(part, "_orig_mod") else ""
            faults.add(f"{where} has a forward set on the object; give the module without it{inner}")


def no_weights(where: str) -> str:
    return f"{where} has no weights yet; call the module once, so that it knows its sizes"


def _check_hooks(part: nn.Module, where: str, faults: Faults) -> None:
    for hook in part._forward_hooks.values():
        faults.add(f"{where} has the forward hook {call_name(hook)}, which may change its result; remove it first")
    for hook in part._forward_pre_hooks.values():
        known = next((entry for kind, entry in _RECOMPUTED.items() if isinstance(hook, kind)), None)
        if known is None:
            faults.add(
                f"{where} has the forward pre-hook {call_name(hook)}, which may change its input; remove it first"
            )
        elif isinstance(hook, SpectralNorm) and part.training:
            faults.add(f"{where} is in training mode, where spectral_norm changes its weight; call module.eval() first")
        elif not torch.equal(getattr(part, _tensor_of(hook)), _recomputed(part, hook)):
            faults.add(
                f"{where} holds a {_tensor_of(hook)} that is out of date, because {known[0]} computes it anew before "
                f"every call; call the module once, or undo it with {known[1]}"
            )
    if parametrize.is_parametrized(part) and part.training:
        every = [p for entries in part.parametrizations.values() for p in entries]  # type: ignore[union-attr,operator]
        if any(isinstance(p, _SpectralNorm) for p in every):
            faults.add(f"{where} is in training mode, where spectral_norm changes its weight; call module.eval() first")


def _tensor_of(hook: Any) -> str:
    return hook._tensor_name if isinstance(hook, prune.BasePruningMethod) else hook.name


def _recomputed(part: nn.Module, hook: Any) -> torch.Tensor:
    """The weight that the hook would set before the next call; nothing is changed by asking."""
    with torch.no_grad():
        if isinstance(hook, prune.BasePruningMethod):
            return hook.apply_mask(part)
        if isinstance(hook, SpectralNorm):
            return hook.compute_weight(part, do_power_iteration=False)
        return hook.compute_weight(part)


def _check_mode(part: nn.Module, where: str, faults: Faults) -> None:
    """Training mode of what is random or changes in it."""
    if (isinstance(part, DROPOUTS) and part.training and part.p > 0) or (isinstance(part, nn.RReLU) and part.training):
        faults.add(f"{where} is in training mode and random; call module.eval() first")
    elif isinstance(part, nn.modules.batchnorm._BatchNorm) and part.training:
        faults.add(f"{where} is in training mode; call module.eval() first")


def check_in_place(graph: fx.Graph, modules: dict[str, nn.Module], faults: Faults) -> None:
    """Record operations whose results nobody uses, and those in place on a value that is used again afterwards."""
    nodes = list(graph.nodes)
    for place, node in enumerate(nodes):
        if node.op in ("placeholder", "output", "get_attr"):
            continue
        shown = _shown(node, modules)
        if not node.users and not _without_effect(node, modules):
            faults.add(
                f"the result of {shown} is not used: it does nothing, or it works in place on a value that is used "
                "under its old name; use its result, or remove it"
            )
        elif node.kwargs.get("out") is not None:
            faults.add(f"{shown} writes into another tensor (out=...); use its result instead")
        elif _in_place(node, modules):
            root = _root(node, modules)
            again = [
                entry
                for later in nodes[place + 1 :]
                for entry in later.all_input_nodes
                if _root(entry, modules) is root and not _is_made_of(entry, node, modules)
            ]
            faults.check(
                not again, f"{shown} works in place on a value that is used again later; leave out inplace, or the _"
            )


def out_of_place(graph: fx.Graph) -> None:
    """y += x as y = y + x: the same once nobody uses y under its old name, as `check_in_place` has seen."""
    for node in graph.nodes:
        if node.op == "call_function" and node.target in _PLAIN:
            node.target = _PLAIN[node.target]


def _without_effect(node: fx.Node, modules: dict[str, nn.Module]) -> bool:
    """Whether nothing comes of a node but its result: a layer that does not work in place, one of several results."""
    looks = node.target in (operator.getitem, getattr) or call_name(node.target) in ("size", "dim", "numel")
    return looks or (node.op == "call_module" and not _in_place(node, modules))


def _in_place(node: fx.Node, modules: dict[str, nn.Module]) -> bool:
    if node.op == "call_module":
        layer = modules[str(node.target)]
        return bool(getattr(layer, "inplace", False)) and not isinstance(layer, DROPOUTS)
    if node.target in _CHANGES:
        return not _is_size(node.args[0])
    if call_name(node.target).endswith("_"):
        return True
    if node.target is functional.dropout or not callable(node.target):
        return False
    try:
        return bool(inspect.signature(node.target).bind(*node.args, **node.kwargs).arguments.get("inplace", False))
    except (TypeError, ValueError):  # a built-in function: those in place end in _
        return False


def _is_size(entry: Any) -> bool:
    """Whether an operand is a size of a tensor, a plain number: n += 1 changes no other name of it."""
    while isinstance(entry, fx.Node) and entry.target is operator.getitem:
        entry = entry.args[0]
    return isinstance(entry, fx.Node) and (
        (entry.target is getattr and entry.args[1] not in _TURNED) or entry.target in ("size", "dim", "numel")
    )


def _before(node: fx.Node, modules: dict[str, nn.Module]) -> fx.Node | None:
    """The node whose memory this one shares, if it makes none of its own."""
    if not node.op.startswith("call") or not node.args or not isinstance(node.args[0], fx.Node):
        return None
    if node.op == "call_module":
        shares = isinstance(modules[str(node.target)], (nn.Identity, nn.Flatten, nn.Unflatten, *DROPOUTS))
    elif node.target is getattr:
        shares = node.args[1] in _TURNED
    else:
        shares = node.target in _VIEWS or call_name(node.target) in _VIEWED
    return node.args[0] if shares or _in_place(node, modules) else None


def _root(node: fx.Node, modules: dict[str, nn.Module]) -> fx.Node:
    while (before := _before(node, modules)) is not None:
        node = before
    return node


def _is_made_of(node: fx.Node, other: fx.Node, modules: dict[str, nn.Module]) -> bool:
    """Whether a node is another one or shares its memory with it by way of its result."""
    found: fx.Node | None = node
    while found is not None and found is not other:
        found = _before(found, modules)
    return found is other


def _shown(node: fx.Node, modules: dict[str, nn.Module]) -> str:
    if node.op == "call_module":
        return f"{node.target} ({type(modules[str(node.target)]).__name__})"
    return f"the operation {call_name(node.target)}"


def call_name(function: Any) -> str:
    return function if isinstance(function, str) else getattr(function, "__name__", type(function).__name__)
