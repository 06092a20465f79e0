"""What the nodes of a torch module's forward come to, one by one, as values (`values.py`).

`torch.fx` follows the module's own forward, so functional activations (`F.relu`), the order in which a forward uses
its layers, residual paths (`x + f(x)`, `cat`), constants and gates (`act(gate(x)) * up(x)`, `F.glu`, `chunk`) are read
as they run, not guessed from the children. What sums, constants and batch norm come to is in `branches.py`, what is
chosen by a comparison in `torch_choices.py`, weights made of weights in `torch_constants.py`; layers of Hugging Face's
transformers, which is not imported for that, are known by the names of their classes.

Values are read along the last axis. Axis 1 is the last one of tables of rows, (n, d), and only there: `cat(dim=1)`,
`glu(dim=1)`, BatchNorm1d and PReLU with several slopes go along it, and `rows` says that something did.
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

from softwright.errors import InvalidInput
from softwright.targets.mlp import values as algebra
from softwright.targets.mlp.activation import Activation, read_spelling, spellings
from softwright.targets.mlp.branches import Branch
from softwright.targets.mlp.dense import DenseLayer
from softwright.targets.mlp.torch_checks import DROPOUTS, call_name, no_weights
from softwright.targets.mlp.torch_choices import Condition, choice
from softwright.targets.mlp.torch_constants import dtype_of, held_by
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
from softwright.targets.mlp.torch_products import is_product, layer_of
from softwright.targets.mlp.torch_tracing import in_two
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
_JOINS = (torch.cat, torch.concat, torch.concatenate)
_HALVES = (torch.chunk, "chunk", torch.split, "split")
_AS_IT_IS = ("detach", "contiguous", "clone", torch.detach, torch.clone)
_INTO = {"float": torch.float32, "double": torch.float64, "half": torch.float16, "bfloat16": torch.bfloat16}
_CASTS = ("to", "type", "type_as", *_INTO)
_FILLED: dict[Any, float] = {torch.zeros_like: 0.0, torch.ones_like: 1.0}
_SUMS = {**dict.fromkeys((torch.mean, "mean"), True), **dict.fromkeys((torch.sum, "sum"), False)}


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
class Halves:
    """The two halves of the values of a branch, as `chunk` gives them."""

    branch: Branch


class Follower:
    """Follows a traced graph with a value for every node."""

    def __init__(self, module: nn.Module, graph: fx.Graph) -> None:
        self.graph = graph
        self.modules = dict(module.named_modules())
        self.values: dict[fx.Node, Any] = {}
        self.held = held_by(module, graph)
        self.dtype = dtype_of(module)
        self.rows = False  # whether axis 1 was taken for the last one
        self.casts: set[fx.Node] = set()  # into the dtype of the module, which are nothing in it
        self.flattens = False  # whether rows are made first, of whatever comes

    def is_last(self, axis: Any, node: fx.Node) -> bool:
        """Whether an axis of what a node is given is the last: -1 is, and 1 in tables of rows."""
        if axis == 1:
            self.rows = True
        return axis in (1, -1)

    def is_surely_last(self, axis: Any, node: fx.Node) -> bool:
        """The same of operations that are as common along other axes: x[:, a:b], sums."""
        return axis == -1

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
            weight = self._held(node.args[1]) if node.target is functional.linear and len(node.args) > 1 else None
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
        try:
            return self._step(node)
        except InvalidInput as error:
            return algebra.missing(*error.faults)

    def _step(self, node: fx.Node) -> Any:
        if node in self.held:
            return self._constant(node)
        if node.op == "get_attr":
            return algebra.missing(f"it uses {node.target}, which holds no numbers; use {KNOWN}")
        operands = [self._operand(entry) for entry in node.args]
        called, shown = node.target, f"the operation {call_name(node.target)}"
        if node.op == "call_module" and operands:
            return self._module(str(node.target), operands[0], node)
        if not operands:
            return algebra.missing(f"it uses {call_name(node.target)}, which no Linear layer holds; use {KNOWN}")
        if called in _JOINS:
            return self._join(node, shown)
        if is_product(called):
            return self._product(node, operands, shown)
        chosen = choice(called, operands, node.args, shown) if not node.kwargs else None
        if chosen is not None:
            return chosen
        if called in _OPERATIONS and all(isinstance(x, Value) for x in operands):
            return self._arithmetic(node, operands)
        first = operands[0]
        if called is operator.getitem and isinstance(first, Halves):
            return _half(first, int(node.args[1])) if isinstance(node.args[1], int) else _nothing(shown)
        if called in _CASTS and isinstance(first, Value | Condition):
            kept = isinstance(first, Condition) or self.keeps_dtype(node)
            self.casts |= {node} if kept and isinstance(first, Value) else set()
            return first if kept else _nothing(shown)
        if not isinstance(first, Value):
            return _nothing(shown)
        thing, rest = first.thing, node.args[1:]
        if called in _FILLED and isinstance(thing, Branch):
            return Value(_FILLED[called])
        if called is torch.full_like and len(operands) == 2 and isinstance(thing, Branch):
            return operands[1] if isinstance(operands[1], Value) else _nothing(shown)
        if called in _SUMS:
            return self._summed(node, first, shown)
        if called is operator.getitem:
            return self._slice(node, first, shown)
        if isinstance(thing, Missing) and called in (*_HALVES, functional.glu, functional.dropout):
            return first
        if called in _HALVES and isinstance(thing, Branch) and in_two(node, thing.width):
            axis = node.kwargs.get("dim", rest[1] if len(rest) > 1 else 0)
            return Halves(thing) if self.is_last(axis, node) else _nothing(shown)
        if called in _AS_IT_IS:
            return first
        if called in (functional.prelu, torch.prelu, "prelu") and len(operands) == 2 and isinstance(operands[1], Value):
            slopes = operands[1].thing
            if not isinstance(slopes, float | np.ndarray) or not (np.size(slopes) == 1 or self.is_last(1, node)):
                return _nothing(shown)
            return algebra.chained(first, lambda s: s.leaky(np.atleast_1d(slopes)), shown)
        if called is functional.glu:
            axis = node.kwargs.get("dim", rest[0] if rest else -1)
            return _glu(thing) if self.is_last(axis, node) else _nothing(shown)
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

    def _constant(self, node: fx.Node) -> Value:
        """A parameter or buffer, or what is made of them, as a number or one number for each value."""
        found, shown = self.held[node], node.target if node.op == "get_attr" else call_name(node.target)
        if isinstance(found, float | int) and not isinstance(found, bool):
            return Value(float(found))
        if isinstance(found, torch.Tensor) and found.numel() == (found.shape[-1] if found.ndim else 1):
            return Value(numbers(found).reshape(-1) if found.ndim else float(found))
        return algebra.missing(f"it uses {shown}, which is no vector and which no Linear layer holds; use {KNOWN}")

    def _held(self, entry: Any) -> torch.Tensor | None:
        """The tensor of weights that a node is, or that is made of weights."""
        found = self.held.get(entry) if isinstance(entry, fx.Node) else None
        return found if isinstance(found, torch.Tensor) and found.is_floating_point() else None

    def keeps_dtype(self, node: fx.Node) -> bool:
        """Whether a cast goes into the dtype that the module has; of an input, who knows which it comes in."""
        value = self._operand(node.args[0])
        if isinstance(value, Value) and isinstance(value.thing, Branch) and not value.thing.layers:
            return False
        if node.target in _INTO:
            return _INTO[str(node.target)] is getattr(torch, self.dtype)
        given = [self.held.get(x, x) if isinstance(x, fx.Node) else x for x in (*node.args[1:], *node.kwargs.values())]
        kinds = [x.dtype if isinstance(x, torch.Tensor) else x for x in given if not isinstance(x, str | torch.device)]
        return all(kind is getattr(torch, self.dtype) or isinstance(kind, bool) for kind in kinds)

    def _arithmetic(self, node: fx.Node, operands: list[Any]) -> Value:
        """Sums, products and the like; `alpha` of add and sub stands before the second operand."""
        kind, named = _OPERATIONS[node.target], dict(node.kwargs)
        factor = named.pop("alpha", 1)
        if named or not isinstance(factor, float | int):
            return _nothing(f"the operation {call_name(node.target)} with {', '.join(node.kwargs)}")
        if factor != 1 and len(operands) == 2:
            operands = [operands[0], algebra.arithmetic("mul", [operands[1], Value(float(factor))], kind)]
        if call_name(node.target) == "square":
            operands.append(Value(2.0))
        return algebra.arithmetic(kind, operands, call_name(node.target))

    def _summed(self, node: fx.Node, value: Value, shown: str) -> Value:
        """The sum or mean of all values, which is kept as one value."""
        given = {**dict(zip(("dim", "keepdim"), node.args[1:], strict=False)), **node.kwargs}
        axis = given.pop("dim", None)
        axis = axis[0] if isinstance(axis, list | tuple) and len(axis) == 1 else axis
        if given.pop("keepdim", False) is not True or given or not self.is_surely_last(axis, node):
            return algebra.also(value, _nothing(f"{shown} over another axis than the last, or without keepdim=True,"))
        return algebra.added_up(value, _SUMS[node.target], shown)

    def _slice(self, node: fx.Node, value: Value, shown: str) -> Value:
        """Some of the values: x[..., a:b], and x[:, a:b] of rows."""
        places: Any = node.args[1] if isinstance(node.args[1], tuple) else (node.args[1],)
        width = value.thing.width if isinstance(value.thing, Branch) else None
        ends = isinstance(places[-1], slice) and not any(isinstance(x, fx.Node) for x in node.all_input_nodes[1:])
        last = places[0] is Ellipsis or (places[0] == slice(None) and self.is_surely_last(1, node))
        if len(places) != 2 or not ends or not last or width is None:
            return algebra.also(value, _nothing(shown))
        return algebra.selected(value, np.arange(width)[places[1]], width, shown)

    def _product(self, node: fx.Node, operands: list[Any], shown: str) -> Value:
        """A product with weights that the module holds."""
        layer = layer_of(node, self._held)
        given = None if layer is None else self._operand(layer[0])
        if layer is None or not isinstance(given, Value):
            return next((x for x in operands if isinstance(x, Value) and isinstance(x.thing, Missing)), _nothing(shown))
        return algebra.linear(given, layer[1], layer[2])

    def _join(self, node: fx.Node, shown: str) -> Value:
        parts = node.args[0] if node.args and isinstance(node.args[0], list | tuple) else []
        axis = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else 0)
        found = [self._operand(part) for part in parts]
        if not all(isinstance(part, Value) for part in found) or not self.is_last(axis, node):
            return algebra.missing(
                "cat joins something else than the values of branches (dim=-1); join those, or name blocks"
            )
        return algebra.join(found, "cat")

    def _module(self, path: str, value: Any, node: fx.Node) -> Any:
        layer = self.modules[path]
        shown = f"{path} ({type(layer).__name__})"
        if not isinstance(value, Value):
            return _nothing(shown)
        if any(nn.parameter.is_lazy(tensor) for tensor in layer.parameters(recurse=False)):
            return algebra.missing(no_weights(shown))
        if isinstance(layer, nn.Linear) or is_transposed(layer):
            return algebra.linear(value, *weights_of(layer))
        by_axis = isinstance(layer, nn.modules.batchnorm._BatchNorm) or (
            isinstance(layer, nn.PReLU) and layer.num_parameters > 1
        )
        if by_axis and not self.is_last(1, node):
            return _nothing(f"{shown} along axis 1")
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
            if not self.is_last(layer.dim, node):
                return _nothing(f"{shown} along axis {layer.dim}")
            return value if isinstance(value.thing, Missing) else _glu(value.thing)
        if isinstance(layer, nn.Flatten):
            first = isinstance(value.thing, Branch) and not value.thing.layers and value.thing.plain
            first &= (layer.start_dim, layer.end_dim) == (1, -1)
            self.flattens |= first
            fault = f"{shown} may only come first, and with all axes but the first one; move it"
            return value if first else algebra.also(value, algebra.missing(fault))
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
    first, second = (_half(Halves(thing), part) for part in (0, 1))
    gate = algebra.function("sigmoid", second, Activation("sigmoid"), "GLU")
    return algebra.arithmetic("mul", [gate, first], "GLU")


def _half(halves: Halves, part: int) -> Value:
    layers = halves.branch.settled().layers
    if not layers or layers[-1].outputs % 2 or part not in (0, 1):
        return algebra.missing("chunk or GLU splits an odd number of outputs, or no Linear layer; give it an even one")
    last, size = layers[-1], layers[-1].outputs // 2
    rows = slice(part * size, (part + 1) * size)
    half = DenseLayer(last.weight[rows], last.bias[rows], last.activation)
    return algebra.of(Branch((*layers[:-1], half)))
