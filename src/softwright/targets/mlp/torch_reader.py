"""Reading torch modules: any module whose forward is a chain of Linear layers and activations, with or without a gate.

`torch.fx` follows the module's own forward, so functional activations (`F.relu`), the order in which a forward uses
its layers and gates (`act(gate(x)) * up(x)`, `F.glu`, `chunk`) are read as they run, not guessed from the children.
Anything else in the graph is a fault that names the operation. All faults of a module are listed together.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from torch import fx, nn
from torch.nn import functional

from softwright.errors import Faults, InvalidInput
from softwright.precision import name_of
from softwright.targets.mlp.activation import Activation, read_spelling, spellings
from softwright.targets.mlp.dense import DenseLayer, DenseNetwork, GatedNetwork
from softwright.targets.mlp.torch_checks import DROPOUTS, call_name, check_in_place, check_parts

_SPELLINGS = spellings("torch")
_CLASSES = [entry for entry in _SPELLINGS if isinstance(entry[1].call, type)]
_NAMES = [spelling.call.__name__ for row, spelling in _CLASSES if row.name != "identity"]
KNOWN = f"Linear, {', '.join(dict.fromkeys(_NAMES))}, GLU, Identity and Dropout (in eval mode)"


def activation_of(layer: nn.Module | Callable[..., Any]) -> Activation | None:
    """The activation that a module or a plain function is; None if it is none that is known."""
    if not isinstance(layer, nn.Module):
        return _functional(layer, (), {})
    # A class or an object with a forward of its own may compute anything.
    own = "forward" in vars(layer)
    found = [] if own else [entry for entry in _CLASSES if type(layer).forward is entry[1].call.forward]
    return read_spelling(found, lambda position, name, default: getattr(layer, name))


def _functional(function: Any, rest: tuple[Any, ...], named: dict[str, Any]) -> Activation | None:
    """A functional activation with its options."""

    def option(position: int, name: str, default: Any) -> Any:
        return rest[position] if len(rest) > position else named.get(name, default)

    return read_spelling([entry for entry in _SPELLINGS if entry[1].call == function], option)


@dataclass
class _Half:
    """One half of the outputs of a branch, as `chunk` gives it."""

    branch: _Branch
    part: int


@dataclass
class _Branch:
    """A chain of layers applied to the input."""

    layers: list[DenseLayer]


@dataclass
class _Product:
    gate: _Branch
    value: _Branch
    down: DenseLayer | None = None


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return type(m).__module__.startswith("torch.nn") and not isinstance(m, nn.Sequential)


def read_module(module: nn.Module, name: str | None = None) -> DenseNetwork | GatedNetwork:
    """The network that a module computes, layer by layer; raises `InvalidInput` with every fault found."""
    faults = Faults(name or type(module).__name__)
    check_parts(module, faults)
    try:
        if isinstance(module, nn.Linear):
            module = nn.Sequential(module)
        graph = _Tracer().trace(module)
    except Exception as error:  # whatever a foreign forward raises when it is traced
        faults.add(f"its forward cannot be followed ({error}); write it as torch.nn.Sequential")
        faults.raise_if_any()
        raise
    reader = _Reader(module, faults)
    check_in_place(graph, reader.modules, faults)
    result = reader.read(graph)
    faults.raise_if_any()
    dtype = name_of(next((p.dtype for p in module.parameters()), torch.float64))
    label = name or type(module).__name__
    if isinstance(result, _Product) and result.down is not None:
        return GatedNetwork(result.gate.layers[0], result.value.layers[0], result.down, dtype, label)
    if isinstance(result, _Branch):
        return DenseNetwork(result.layers, dtype, label)
    raise InvalidInput(label, ["it does not end in a Linear layer after its gate; add one"])


class _Reader:
    """Follows a traced graph with a value for every node."""

    def __init__(self, module: nn.Module, faults: Faults) -> None:
        self.modules = dict(module.named_modules())
        self.faults = faults

    def read(self, graph: fx.Graph) -> _Branch | _Product | None:
        values: dict[fx.Node, Any] = {}
        inputs = 0
        for node in graph.nodes:
            if node.op == "placeholder":
                inputs += 1
                values[node] = _Branch([]) if inputs == 1 else None
                self.faults.check(
                    inputs == 1 or bool(node.args),
                    f"its forward takes a second input {node.target!r}; a network here has one",
                )
            elif node.op == "output":
                result = values.get(node.args[0]) if isinstance(node.args[0], fx.Node) else None
                if result is None:
                    self.faults.check(bool(self.faults.found), "its output is not one tensor made of known layers")
                return result
            else:
                values[node] = self._step(node, values)
        return None

    def _step(self, node: fx.Node, values: dict[fx.Node, Any]) -> Any:
        operands = [values.get(a) if isinstance(a, fx.Node) else a for a in node.args]
        if any(isinstance(a, fx.Node) and values.get(a) is None for a in node.args):
            return None  # its fault is recorded where it arose
        if node.op == "call_module":
            return self._module(str(node.target), operands[0])
        if not operands:
            self.faults.add(f"it uses {call_name(node.target)}, which no Linear layer holds; use {KNOWN}")
            return None
        function, rest = node.target, tuple(operands[1:])
        if function in (operator.mul, torch.mul, "mul") and len(operands) == 2:
            return self._product(*operands)
        if function in (torch.chunk, "chunk") and isinstance(operands[0], _Branch) and rest[:1] == (2,):
            return [_Half(operands[0], 0), _Half(operands[0], 1)]
        if function is operator.getitem and isinstance(operands[0], list):
            return self._half(cast(list[_Half], operands[0])[cast(int, operands[1])])
        if function is functional.glu:
            return self._glu(operands[0])
        if function is functional.dropout:
            random = node.kwargs.get("training", rest[1] if len(rest) > 1 else True)
            self.faults.check(not random, "dropout is random in training mode; call module.eval() first")
            return operands[0]
        found = _functional(function, rest, dict(node.kwargs)) if isinstance(operands[0], (_Branch, _Product)) else None
        if found is not None:
            return self._activate(operands[0], found)
        self.faults.add(f"the operation {call_name(function)} has no attention form; use {KNOWN}")
        return None

    def _module(self, path: str, value: Any) -> Any:
        layer = self.modules[path]
        if isinstance(layer, nn.Linear):
            return self._linear(layer, value)
        if isinstance(layer, DROPOUTS):
            return value
        if isinstance(layer, nn.GLU):
            return self._glu(value)
        if isinstance(layer, nn.Flatten):
            self.faults.check(not getattr(value, "layers", [1]), f"{path} (Flatten) may only come first; move it")
            return value
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            return value  # its fault is recorded already
        found = activation_of(layer)
        if found is None:
            self.faults.add(f"layer {path} ({type(layer).__name__}) has no attention form; use {KNOWN}")
            return value
        return self._activate(value, found)

    def _linear(self, layer: nn.Linear, value: Any) -> Any:
        if nn.parameter.is_lazy(layer.weight):
            return None  # its fault is recorded already
        weight = layer.weight.detach().double().cpu().numpy().copy()
        bias = np.zeros(len(weight)) if layer.bias is None else layer.bias.detach().double().cpu().numpy().copy()
        dense = DenseLayer(weight, bias, Activation("identity"))
        if isinstance(value, _Branch):
            return _Branch([*value.layers, dense])
        if isinstance(value, _Product) and value.down is None:
            return replace(value, down=dense)
        self.faults.add("a Linear layer follows a gated block; name the block alone in blocks=[...]")
        return None

    def _activate(self, value: Any, found: Activation) -> Any:
        if found.name == "identity" or value is None:
            return value
        if not isinstance(value, _Branch) or not value.layers:
            self.faults.add(f"{found} does not follow a Linear layer; put torch.nn.Linear before it")
            return value
        last = value.layers[-1]
        if last.activation.name == "identity":
            return _Branch([*value.layers[:-1], replace(last, activation=found)])
        size = last.outputs
        return _Branch([*value.layers, DenseLayer(np.eye(size), np.zeros(size), found)])

    def _glu(self, value: Any) -> Any:
        if not isinstance(value, _Branch):
            self.faults.add("GLU does not follow a Linear layer; put torch.nn.Linear before it")
            return None
        first, second = self._half(_Half(value, 0)), self._half(_Half(value, 1))
        return self._product(self._activate(second, Activation("sigmoid")), first)

    def _half(self, half: _Half) -> _Branch | None:
        layers = half.branch.layers
        if not layers or layers[-1].outputs % 2:
            self.faults.add("chunk or GLU splits an odd number of outputs, or no Linear layer; give it an even Linear")
            return None
        last, size = layers[-1], layers[-1].outputs // 2
        rows = slice(half.part * size, (half.part + 1) * size)
        return _Branch([*layers[:-1], DenseLayer(last.weight[rows], last.bias[rows], last.activation)])

    def _product(self, left: Any, right: Any) -> Any:
        sides = [side for side in (left, right) if isinstance(side, _Branch) and len(side.layers) == 1]
        if len(sides) < 2:
            self.faults.add("a product of anything but two Linear branches of the input has no attention form here")
            return None
        active = [side for side in sides if side.layers[0].activation.name != "identity"]
        if len(active) == 2:
            self.faults.add("both factors of a gate have an activation; one of them must be linear")
            return None
        gate = active[0] if active else sides[0]
        return _Product(gate, sides[1] if gate is sides[0] else sides[0])
