"""Reading torch modules: any module whose forward is a chain of Linear layers and activations, with or without a gate.

`torch.fx` follows the module's own forward, so functional activations (`F.relu`), the order in which a forward uses
its layers, residual paths (`x + f(x)`, `cat`), constants and gates (`act(gate(x)) * up(x)`, `F.glu`, `chunk`) are read
as they run, not guessed from the children. What sums, constants and batch norm come to is in `branches.py`; layers of
Hugging Face's transformers, which is not imported for that, are known by the names of their classes.
Anything else in the graph is a fault that names the operation. All faults of a module are listed together.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import fx, nn
from torch.nn import functional

from softwright.errors import Faults, InvalidInput
from softwright.precision import name_of
from softwright.targets.mlp import values as algebra
from softwright.targets.mlp.activation import Activation, read_spelling, spellings
from softwright.targets.mlp.branches import Branch
from softwright.targets.mlp.dense import DenseLayer, DenseNetwork, GatedNetwork
from softwright.targets.mlp.torch_checks import DROPOUTS, call_name, check_in_place, check_parts, no_weights
from softwright.targets.mlp.torch_layers import (
    CLAMPS,
    MADE_OF_OTHERS,
    SHRINKS,
    batch_norm,
    called_sum,
    chain_of,
    is_transposed,
    numbers,
    sum_of,
    weights_of,
)
from softwright.targets.mlp.torch_tracing import in_two, traced
from softwright.targets.mlp.values import Missing, Product, Value

_SPELLINGS = spellings("torch")
_CLASSES = [entry for entry in _SPELLINGS if isinstance(entry[1].call, type)]
_NAMES = [spelling.call.__name__ for row, spelling in _CLASSES if row.name != "identity"]
_MORE = ", ".join(layer.__name__ for layer in MADE_OF_OTHERS)
KNOWN = f"Linear, {', '.join(dict.fromkeys(_NAMES))}, {_MORE}, GLU, Identity, BatchNorm1d and Dropout (in eval mode)"
_ROOT = math.sqrt(2 / math.pi)
_FOREIGN = {  # classes of transformers.activations
    "GELUActivation": Activation("gelu"),
    "PytorchGELUTanh": Activation("gelu_tanh"),
    "GELUTanh": Activation("gelu_tanh"),
    "NewGELUActivation": Activation("gelu_cubic", (_ROOT, 0.044715)),
    "FastGELUActivation": Activation("gelu_cubic", (0.7978845608, 0.044715)),
    "AccurateGELUActivation": Activation("gelu_cubic", (_ROOT, 0.044715)),
    "SiLUActivation": Activation("silu"),
    "MishActivation": Activation("mish"),
    "LinearActivation": Activation("identity"),
}
_OPERATIONS: dict[Any, str] = {
    **dict.fromkeys((operator.add, operator.iadd, torch.add, "add", "add_"), "add"),
    **dict.fromkeys((operator.sub, operator.isub, torch.sub, "sub", "sub_"), "sub"),
    **dict.fromkeys((operator.mul, operator.imul, torch.mul, "mul", "mul_"), "mul"),
    **dict.fromkeys((operator.truediv, operator.itruediv, torch.div, "div", "div_"), "div"),
    **dict.fromkeys((operator.neg, torch.neg, "neg"), "neg"),
    **dict.fromkeys((operator.pow, torch.pow, "pow", torch.square, "square"), "pow"),
}
_SPELT: dict[Any, str] = {  # only inside spelt activations
    **dict.fromkeys((torch.erf, "erf", torch.special.erf), "erf"),
    **dict.fromkeys((torch.abs, "abs", operator.abs), "abs"),
}
_INSIDE = ("tanh", "sigmoid")  # activations that also occur there; torch's softplus has a jump
_PRODUCTS = (torch.matmul, torch.mm, operator.matmul, "matmul", "mm", "__matmul__")
_TRANSPOSED = (torch.t, "t", torch.transpose, "transpose")
_JOINS = (torch.cat, torch.concat, torch.concatenate)
_HALVES = (torch.chunk, "chunk", torch.split, "split")
_AS_IT_IS = ("detach", "contiguous", "clone", torch.detach, torch.clone)


def activation_of(layer: nn.Module | Callable[..., Any]) -> Activation | None:
    """The activation that a module or a plain function is; None if it is none that is known."""
    if not isinstance(layer, nn.Module):
        return _functional(layer, (), {})
    # A class or an object with a forward of its own may compute anything.
    own = "forward" in vars(layer)
    if not own and type(layer).__module__ == "transformers.activations" and type(layer).__name__ in _FOREIGN:
        return _FOREIGN[type(layer).__name__]
    found = [] if own else [entry for entry in _CLASSES if type(layer).forward is entry[1].call.forward]
    return read_spelling(found, lambda position, name, default: getattr(layer, name))


def _functional(function: Any, rest: tuple[Any, ...], named: dict[str, Any]) -> Activation | None:
    """A functional activation with its options."""

    def option(position: int, name: str, default: Any) -> Any:
        return rest[position] if len(rest) > position else named.get(name, default)

    return read_spelling([entry for entry in _SPELLINGS if entry[1].call == function], option)


@dataclass(frozen=True)
class _Halves:
    """The two halves of the values of a branch, as `chunk` gives them."""

    branch: Branch


def read_module(module: nn.Module, name: str | None = None) -> DenseNetwork | GatedNetwork:
    """The network that a module computes, layer by layer; raises `InvalidInput` with every fault found."""
    faults = Faults(name or type(module).__name__)
    whole = nn.Sequential(module) if isinstance(module, nn.Linear) else module
    graph = check_module(whole, faults)
    if graph is None:
        faults.raise_if_any()
        raise InvalidInput(faults.subject, ["its forward cannot be followed; write it as torch.nn.Sequential"])
    result = Follower(whole, graph).result()
    if isinstance(result.thing, Missing):
        faults.found += [fault for fault in dict.fromkeys(result.thing.faults) if fault not in faults.found]
    faults.raise_if_any()
    return network_from(result, dtype_of(module), name or type(module).__name__)


def check_module(module: nn.Module, faults: Faults) -> fx.Graph | None:
    """The graph of a module's forward; None, and faults, if it cannot be followed. Other faults are recorded too."""
    if isinstance(module, torch.jit.ScriptModule):
        faults.add("it is compiled by torch.jit, which hides its forward; give the module that it was made from")
        return None
    check_parts(module, faults)
    if any(tensor.is_meta or tensor.is_complex() for tensor in (*module.parameters(), *module.buffers())):
        return None
    try:
        graph = traced(module)
    except Exception as error:  # whatever a foreign forward raises when it is traced
        faults.add(f"its forward cannot be followed ({error}); write it as torch.nn.Sequential")
        return None
    check_in_place(graph, dict(module.named_modules()), faults)
    return graph


def dtype_of(module: nn.Module) -> str:
    return name_of(next((p.dtype for p in module.parameters()), torch.float64))


def network_from(value: Value, dtype: str, label: str) -> DenseNetwork | GatedNetwork:
    """The network that a value is."""
    thing = value.thing
    if isinstance(thing, Product) and thing.down is not None and len(thing.gate.layers) == 1:
        return GatedNetwork(thing.gate.layers[0], thing.value.layers[0], thing.down, dtype, label)
    if isinstance(thing, Branch):
        try:
            return DenseNetwork(thing.settled().layers, dtype, label, value.folded)
        except InvalidInput as error:
            raise InvalidInput(label, error.faults) from error
    if isinstance(thing, Product) and thing.down is not None:
        raise InvalidInput(label, ["a gate stands behind other layers; name its block alone in blocks=[...]"])
    if isinstance(thing, Missing):
        raise InvalidInput(label, list(thing.faults))
    raise InvalidInput(label, ["it does not end in a Linear layer after its gate; add one"])


class Follower:
    """Follows a traced graph with a value for every node."""

    def __init__(self, module: nn.Module, graph: fx.Graph) -> None:
        self.graph = graph
        self.modules = dict(module.named_modules())
        self.values: dict[fx.Node, Any] = {}

    def result(self) -> Value:
        """What the module gives for its first input."""
        inputs = 0
        for node in self.graph.nodes:
            if node.op == "placeholder":
                inputs += 1
                second = f"its forward takes a second input {node.target!r}; a network here has one"
                known = algebra.of(Branch(size=self._size(node))) if inputs == 1 else None
                self.values[node] = known or algebra.missing(second)
                if inputs > 1 and not node.args:
                    return self.values[node]
            elif node.op == "output":
                found = self.values.get(node.args[0]) if isinstance(node.args[0], fx.Node) else None
                known = isinstance(found, Value) and isinstance(found.thing, Branch | Product | Missing)
                return found if known else algebra.missing("its output is not one tensor made of known layers")  # type: ignore[return-value]
            else:
                self.values[node] = self.step(node)
        return algebra.missing("it has no output")

    def _size(self, given: fx.Node, alone: bool = False) -> int | None:
        """How many values the input has, by the first Linear layer or batch norm that it reaches one by one.

        `alone`: a node inside a graph, which may have other axes and meet values of other widths on its way.
        """
        after, seen = list(given.users), set[fx.Node]()
        while after:
            node = after.pop(0)
            layer = self.modules.get(str(node.target)) if node.op == "call_module" else None
            weight = self._tensor(node.args[1]) if node.target is functional.linear and len(node.args) > 1 else None
            if weight is not None and weight.ndim == 2:
                return weight.shape[1]
            if isinstance(layer, nn.Linear) or (not alone and isinstance(layer, nn.BatchNorm1d)):
                return layer.in_features if isinstance(layer, nn.Linear) else layer.num_features
            plain = activation_of(layer) or chain_of(layer) or sum_of(layer) if layer is not None else None
            each = plain is not None or isinstance(layer, DROPOUTS) or self.activation(node) is not None
            meets = node.target in _OPERATIONS and not (alone and len(node.all_input_nodes) > 1)
            if (each or meets) and node not in seen:
                seen.add(node)
                after += node.users
        return None

    def step(self, node: fx.Node) -> Any:
        """The value of a node from those of its operands."""
        if node.op == "get_attr":
            return self._constant(str(node.target))
        operands = [self._operand(entry) for entry in node.args]
        if node.op == "call_module":
            return self._module(str(node.target), operands[0])
        if not operands:
            return algebra.missing(f"it uses {call_name(node.target)}, which no Linear layer holds; use {KNOWN}")
        called, shown = node.target, f"the operation {call_name(node.target)}"
        if called in _JOINS:
            return self._join(node, shown)
        if called is functional.linear or called in _PRODUCTS or called is torch.addmm:
            return self._product(node, operands, shown)
        if called in _OPERATIONS and not node.kwargs and all(isinstance(x, Value) for x in operands):
            if call_name(called) == "square":
                operands.append(Value(2.0))
            return algebra.arithmetic(_OPERATIONS[called], operands, call_name(called))
        first = operands[0]
        if called is operator.getitem and isinstance(first, _Halves):
            return _half(first, int(node.args[1])) if isinstance(node.args[1], int) else _nothing(shown)
        if not isinstance(first, Value):
            return _nothing(shown)
        thing, rest = first.thing, node.args[1:]
        if isinstance(thing, Missing) and called in (*_HALVES, functional.glu, functional.dropout):
            return first
        if called in _HALVES and isinstance(thing, Branch) and in_two(node, thing.width):
            return _Halves(thing)
        if called in _AS_IT_IS:
            return first
        if called in (functional.prelu, torch.prelu, "prelu") and len(operands) == 2 and isinstance(operands[1], Value):
            slopes = operands[1].thing
            if not isinstance(slopes, float | np.ndarray):
                return _nothing(shown)
            return algebra.chained(first, lambda s: s.leaky(np.atleast_1d(slopes)), shown)
        if called is functional.glu:
            return _glu(thing)
        if called is functional.dropout:
            random = node.kwargs.get("training", rest[1] if len(rest) > 1 else True)
            return first if not random else algebra.missing("dropout is random in training mode; call module.eval()")
        if called in (functional.hardswish, "hardswish"):
            return algebra.chained(first, algebra.hard_swish, shown)
        if called in (functional.selu, torch.selu, functional.celu, torch.celu, functional.logsigmoid):
            layer = self._made_of(called, rest, dict(node.kwargs))
            return _nothing(shown) if layer is None else algebra.chained(first, layer, shown)
        if called in CLAMPS or called in SHRINKS:
            plain = not any(isinstance(entry, fx.Node) for entry in (*rest, *node.kwargs.values()))
            total = called_sum(called, rest, dict(node.kwargs)) if plain else None
            return _nothing(shown) if total is None else total(first, shown)
        found = self.activation(node)
        if found is not None or called in _SPELT:
            name = _SPELT.get(called) or (found.name if found is not None and found.name in _INSIDE else "")
            return algebra.function(name, first, found, shown)
        return algebra.also(first, _nothing(shown))

    @staticmethod
    def _made_of(called: Any, rest: tuple[Any, ...], named: dict[str, Any]) -> Callable[[Branch], Any] | None:
        if called in (functional.celu, torch.celu):
            alpha = rest[0] if rest else named.get("alpha", 1.0)
            return chain_of(nn.CELU(float(alpha)))
        return chain_of(nn.SELU() if called in (functional.selu, torch.selu) else nn.LogSigmoid())

    def activation(self, node: fx.Node) -> Activation | None:
        rest = tuple(node.args[1:])
        plain = not any(isinstance(entry, fx.Node) for entry in (*rest, *node.kwargs.values()))
        return _functional(node.target, rest, dict(node.kwargs)) if plain else None

    def _operand(self, entry: Any) -> Any:
        if isinstance(entry, fx.Node):
            return self.values.get(entry)
        return Value(float(entry)) if isinstance(entry, float | int) and not isinstance(entry, bool) else entry

    def _constant(self, path: str) -> Value:
        """A parameter or buffer as a number or one number for each value."""
        owner, _, name = path.rpartition(".")
        found = getattr(self.modules[owner], name)
        if isinstance(found, torch.Tensor) and found.numel() == (found.shape[-1] if found.ndim else 1):
            return Value(numbers(found).reshape(-1) if found.ndim else float(found))
        return algebra.missing(f"it uses {path}, which is no vector and which no Linear layer holds; use {KNOWN}")

    def _tensor(self, entry: Any) -> torch.Tensor | None:
        """The parameter or buffer that a node is, or its transpose."""
        if not isinstance(entry, fx.Node):
            return None
        if entry.op == "get_attr":
            owner, _, name = str(entry.target).rpartition(".")
            found = getattr(self.modules[owner], name)
            return found if isinstance(found, torch.Tensor) and not nn.parameter.is_lazy(found) else None
        if entry.target in _OPERATIONS and _OPERATIONS[entry.target] in ("mul", "div") and len(entry.args) == 2:
            return self._scaled(entry)
        turned = entry.target in _TRANSPOSED or (entry.target is getattr and entry.args[1:] in (("T",), ("mT",)))
        found = self._tensor(entry.args[0]) if turned and entry.args else None
        return found.T if found is not None and found.ndim == 2 and not entry.kwargs else None

    def _scaled(self, entry: fx.Node) -> torch.Tensor | None:
        """A weight times or over a number, as layers with an equalised learning rate have it."""
        by_number = [isinstance(x, float | int) and not isinstance(x, bool) for x in entry.args]
        found = [None if plain else self._tensor(x) for x, plain in zip(entry.args, by_number, strict=True)]
        left, right = (x if plain else y for x, y, plain in zip(entry.args, found, by_number, strict=True))
        single = [plain or (y is not None and y.numel() == 1) for y, plain in zip(found, by_number, strict=True)]
        kind = _OPERATIONS[entry.target]
        if left is None or right is None or not (single[1] or (single[0] and kind == "mul")) or entry.kwargs:
            return None
        left, right = (x.detach().double() if isinstance(x, torch.Tensor) else x for x in (left, right))
        result = left * right if kind == "mul" else left / right  # type: ignore[operator]
        return result if isinstance(result, torch.Tensor) else None

    def _product(self, node: fx.Node, operands: list[Any], shown: str) -> Value:
        """x W^T + b by functional.linear, x W, or b + x W by addmm, with weights that the module holds."""
        adds = node.target is torch.addmm
        names = ("bias", "input", "weight") if adds else ("input", "weight", "bias")
        first = operands[1] if adds and len(operands) > 1 else operands[0]
        given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
        if adds and node.kwargs:
            return _nothing(shown)
        weight, bias = self._tensor(given.get("weight")), self._tensor(given.get("bias"))
        plain = given.get("bias") is None or (bias is not None and bias.ndim == 1)
        if not isinstance(first, Value) or weight is None or weight.ndim != 2 or not plain:
            return _nothing(shown)
        matrix = numbers(weight if node.target is functional.linear else weight.T).copy()
        return algebra.linear(first, matrix, np.zeros(len(matrix)) if bias is None else numbers(bias).copy())

    def _join(self, node: fx.Node, shown: str) -> Value:
        parts = node.args[0] if node.args and isinstance(node.args[0], list | tuple) else []
        axis = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else 0)
        found = [self._operand(part) for part in parts]
        if axis not in (1, -1) or not all(isinstance(part, Value) for part in found):
            return algebra.missing(
                "cat joins something else than the values of branches (dim=-1); join those, or name blocks"
            )
        return algebra.join(found, "cat")

    def _module(self, path: str, value: Any) -> Any:
        layer = self.modules[path]
        shown = f"{path} ({type(layer).__name__})"
        if not isinstance(value, Value):
            return _nothing(shown)
        if any(nn.parameter.is_lazy(tensor) for tensor in layer.parameters(recurse=False)):
            return algebra.missing(no_weights(shown))
        if isinstance(layer, nn.Linear) or is_transposed(layer):
            return algebra.linear(value, *weights_of(layer))
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            return _normalised(shown, layer, value)
        chain = chain_of(layer)
        if chain is not None:
            return algebra.chained(value, chain, shown)
        total = sum_of(layer)
        if total is not None:
            return total(value, shown)
        if isinstance(layer, DROPOUTS):
            return value
        if isinstance(layer, nn.GLU):
            return value if isinstance(value.thing, Missing) else _glu(value.thing)
        if isinstance(layer, nn.Flatten):
            first = isinstance(value.thing, Branch) and not value.thing.layers
            return value if first else algebra.also(value, algebra.missing(f"{shown} may only come first; move it"))
        found = activation_of(layer)
        if found is None:
            return algebra.also(value, algebra.missing(f"layer {shown} has no attention form; use {KNOWN}"))
        return algebra.function(found.name if found.name in _INSIDE else "", value, found, shown)


def _nothing(shown: str) -> Value:
    return algebra.missing(f"{shown} has no attention form; use {KNOWN}")


def _normalised(shown: str, layer: Any, value: Value) -> Value:
    if not isinstance(layer, nn.BatchNorm1d) or layer.running_var is None:
        return algebra.also(value, algebra.missing(f"{shown} does not normalise values one by one; use BatchNorm1d"))
    if layer.training:
        return value  # its fault is recorded already
    scale, shift = batch_norm(layer)
    return algebra.chained(value, lambda branch: branch.scaled(scale, shift), shown)


def _glu(thing: Any) -> Value:
    if not isinstance(thing, Branch):
        return algebra.missing("GLU does not follow a Linear layer; put torch.nn.Linear before it")
    first, second = (_half(_Halves(thing), part) for part in (0, 1))
    gate = algebra.function("sigmoid", second, Activation("sigmoid"), "GLU")
    return algebra.arithmetic("mul", [gate, first], "GLU")


def _half(halves: _Halves, part: int) -> Value:
    layers = halves.branch.settled().layers
    if not layers or layers[-1].outputs % 2 or part not in (0, 1):
        return algebra.missing("chunk or GLU splits an odd number of outputs, or no Linear layer; give it an even one")
    last, size = layers[-1], layers[-1].outputs // 2
    rows = slice(part * size, (part + 1) * size)
    half = DenseLayer(last.weight[rows], last.bias[rows], last.activation)
    return algebra.of(Branch((*layers[:-1], half)))
