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
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from torch import fx, nn
from torch.nn import functional

from softwright.errors import Faults, InvalidInput
from softwright.precision import name_of
from softwright.targets.mlp.activation import Activation, read_spelling, spellings
from softwright.targets.mlp.activations import NO_THRESHOLD
from softwright.targets.mlp.branches import LINEAR, Branch, joined, total
from softwright.targets.mlp.dense import DenseLayer, DenseNetwork, GatedNetwork
from softwright.targets.mlp.torch_checks import DROPOUTS, call_name, check_in_place, check_parts

_SPELLINGS = spellings("torch")
_CLASSES = [entry for entry in _SPELLINGS if isinstance(entry[1].call, type)]
_NAMES = [spelling.call.__name__ for row, spelling in _CLASSES if row.name != "identity"]
_CHAINS = (nn.PReLU, nn.SELU, nn.CELU, nn.LogSigmoid)  # activations that are chains of others
_MORE = ", ".join(layer.__name__ for layer in _CHAINS)
KNOWN = f"Linear, {', '.join(dict.fromkeys(_NAMES))}, {_MORE}, GLU, Identity, BatchNorm1d and Dropout (in eval mode)"
_SELU = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946  # alpha and scale, as torch has them
_QUICK = 1.702
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
_SUMS = {operator.add: 1.0, torch.add: 1.0, "add": 1.0}
_DIFFERENCES = {operator.sub: -1.0, torch.sub: -1.0, "sub": -1.0}
_PRODUCTS = (operator.mul, torch.mul, "mul")
_QUOTIENTS = (operator.truediv, torch.div, "div")
_NEGATIONS = (operator.neg, torch.neg, "neg")
_COMPARISONS = (operator.eq, operator.ne)
_JOINS = (torch.cat, torch.concat, torch.concatenate)


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


@dataclass
class _Half:
    """One half of the outputs of a branch, as `chunk` gives it."""

    branch: Branch
    part: int


@dataclass
class _Product:
    gate: Branch
    value: Branch
    down: DenseLayer | None = None


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if _is_foreign(m):
            return True
        return type(m).__module__.startswith("torch.nn") and not isinstance(m, nn.Sequential)

    def to_bool(self, obj: fx.Proxy) -> bool:
        """T5 asks whether a value has the dtype of a weight; in a module of one dtype it has."""
        node = obj.node
        if node.target in _COMPARISONS and any(_is_dtype(entry) for entry in node.args):
            return node.target is operator.eq
        return super().to_bool(obj)


def _is_dtype(value: Any) -> bool:
    return isinstance(value, fx.Node) and value.target is getattr and value.args[1:] == ("dtype",)


def _without_questions(graph: fx.Graph) -> fx.Graph:
    """The graph without weights and dtypes that were only looked at."""
    for node in reversed(list(graph.nodes)):
        if not node.users and (node.op == "get_attr" or node.target in _COMPARISONS or _is_dtype(node)):
            graph.erase_node(node)
    return graph


def _numbers(tensor: Any) -> np.ndarray:
    return tensor.detach().double().cpu().numpy()


def _is_foreign(layer: nn.Module) -> bool:
    """Whether it is a layer of transformers that is read by its name: an activation, or GPT-2's Linear layer."""
    where = type(layer).__module__
    return where == "transformers.activations" or _is_transposed(layer)


def _is_transposed(layer: nn.Module) -> bool:
    """Conv1D of transformers: a Linear layer that stores its weight (in, out)."""
    return type(layer).__module__ == "transformers.pytorch_utils" and type(layer).__name__ == "Conv1D"


def read_module(module: nn.Module, name: str | None = None) -> DenseNetwork | GatedNetwork:
    """The network that a module computes, layer by layer; raises `InvalidInput` with every fault found."""
    faults = Faults(name or type(module).__name__)
    check_parts(module, faults)
    try:
        if isinstance(module, nn.Linear):
            module = nn.Sequential(module)
        graph = _without_questions(_Tracer().trace(module))
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
    if isinstance(result, Branch):
        settled = faults.take(result.settled)
        faults.raise_if_any()
        return DenseNetwork(cast(Branch, settled).layers, dtype, label, reader.folded)
    raise InvalidInput(label, ["it does not end in a Linear layer after its gate; add one"])


class _Reader:
    """Follows a traced graph with a value for every node."""

    def __init__(self, module: nn.Module, faults: Faults) -> None:
        self.modules = dict(module.named_modules())
        self.faults = faults
        self.folded = False  # whether constants or paths became part of weights

    def read(self, graph: fx.Graph) -> Branch | _Product | None:
        values: dict[fx.Node, Any] = {}
        inputs = 0
        for node in graph.nodes:
            if node.op == "placeholder":
                inputs += 1
                values[node] = Branch() if inputs == 1 else None
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
        if node.op == "get_attr":
            return self._constant(str(node.target))
        operands = [values.get(a) if isinstance(a, fx.Node) else a for a in node.args]
        if any(isinstance(a, fx.Node) and values.get(a) is None for a in node.args):
            return None  # its fault is recorded where it arose
        if node.op == "call_module":
            return self._module(str(node.target), operands[0])
        if not operands:
            self.faults.add(f"it uses {call_name(node.target)}, which no Linear layer holds; use {KNOWN}")
            return None
        function, rest = node.target, tuple(operands[1:])
        if function in _JOINS:
            return self._join(node, values)
        if not node.kwargs and len(operands) <= 2 and any(isinstance(value, Branch) for value in operands):
            made = self._arithmetic(function, operands)
            if made is not None:
                self.folded = True
                return self.faults.take(made)
        if function in (torch.chunk, "chunk") and isinstance(operands[0], Branch) and rest[:1] == (2,):
            return [_Half(operands[0], 0), _Half(operands[0], 1)]
        if function is operator.getitem and isinstance(operands[0], list):
            return self._half(cast(list[_Half], operands[0])[cast(int, operands[1])])
        if function is functional.glu:
            return self._glu(operands[0])
        if function is functional.dropout:
            random = node.kwargs.get("training", rest[1] if len(rest) > 1 else True)
            self.faults.check(not random, "dropout is random in training mode; call module.eval() first")
            return operands[0]
        found = _functional(function, rest, dict(node.kwargs)) if isinstance(operands[0], (Branch, _Product)) else None
        if found is not None:
            return self._activate(operands[0], found)
        self.faults.add(f"the operation {call_name(function)} has no attention form; use {KNOWN}")
        return None

    def _constant(self, path: str) -> Any:
        """A parameter or buffer as a number or one number for each value; a fault if it is neither."""
        owner, _, name = path.rpartition(".")
        found = getattr(self.modules[owner], name)
        if isinstance(found, torch.Tensor) and found.numel() == (found.shape[-1] if found.ndim else 1):
            return _numbers(found).reshape(-1) if found.ndim else float(found)
        self.faults.add(f"it uses {path}, which is no vector and which no Linear layer holds; use {KNOWN}")
        return None

    def _arithmetic(self, function: Any, operands: list[Any]) -> Callable[[], Any] | None:
        """What a sum, difference, product, quotient or sign of branches and constants makes; None if it is none."""
        if function in _NEGATIONS and len(operands) == 1:
            return lambda: operands[0].scaled(-1.0)
        if len(operands) != 2:
            return None
        left, right = operands
        both = isinstance(left, Branch) and isinstance(right, Branch)
        if function in _PRODUCTS and both:
            return lambda: self._product(left, right)
        sign = _SUMS.get(function) or _DIFFERENCES.get(function)
        if sign is not None and both:
            return lambda: total(left, right.scaled(sign) if sign < 0 else right)
        branch, constant = (left, right) if isinstance(left, Branch) else (right, left)
        if both or not isinstance(constant, float | int | np.ndarray):
            return None
        if isinstance(constant, np.ndarray) and branch.width not in (None, len(constant)) and len(constant) > 1:
            return None
        value = (
            constant if isinstance(constant, np.ndarray) and len(constant) > 1 else float(np.asarray(constant).item())
        )
        if sign is not None:
            own = 1.0 if branch is left else sign
            return lambda: branch.scaled(own, value if branch is right else sign * value)
        if function in _PRODUCTS:
            return lambda: branch.scaled(value)
        if function in _QUOTIENTS and branch is left and np.all(value != 0):
            return lambda: branch.scaled(1.0 / value)
        return None

    def _join(self, node: fx.Node, values: dict[fx.Node, Any]) -> Any:
        parts = node.args[0] if node.args and isinstance(node.args[0], list | tuple) else []
        found = [values.get(part) for part in parts if isinstance(part, fx.Node)]
        axis = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else 0)
        good = len(found) == len(parts) > 0 and all(isinstance(part, Branch) for part in found)
        if not good or axis not in (1, -1):
            self.faults.add("cat joins something else than the values of branches (dim=-1); join those, or name blocks")
            return None
        self.folded = True
        return self.faults.take(joined, cast(list[Branch], found))

    def _module(self, path: str, value: Any) -> Any:
        layer = self.modules[path]
        if isinstance(layer, nn.Linear) or _is_transposed(layer):
            return self._linear(layer, value)
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            return self._normalised(path, layer, value)
        if isinstance(value, Branch) and (made := self._chain(layer, value)) is not None:
            self.folded = True
            return self.faults.take(made)
        if isinstance(layer, DROPOUTS):
            return value
        if isinstance(layer, nn.GLU):
            return self._glu(value)
        if isinstance(layer, nn.Flatten):
            self.faults.check(not getattr(value, "layers", [1]), f"{path} (Flatten) may only come first; move it")
            return value
        found = activation_of(layer)
        if found is None:
            self.faults.add(f"layer {path} ({type(layer).__name__}) has no attention form; use {KNOWN}")
            return value
        return self._activate(value, found)

    def _chain(self, layer: nn.Module, value: Branch) -> Callable[[], Branch] | None:
        """Activations that are chains of others, module by module; None if it is none of them."""
        if "forward" in vars(layer):
            return None
        match layer:
            case nn.PReLU():
                return lambda: value.leaky(layer.weight.detach().double().cpu().numpy())
            case nn.SELU():
                return lambda: value.activated(Activation("elu", _SELU[:1])).scaled(_SELU[1])
            case nn.CELU():
                return lambda: value.scaled(1 / layer.alpha).activated(Activation("elu", (1.0,))).scaled(layer.alpha)
            case nn.LogSigmoid():
                smooth = Activation("softplus", (1.0, NO_THRESHOLD))
                return lambda: value.scaled(-1.0).activated(smooth).scaled(-1.0)
        if type(layer).__name__ == "QuickGELUActivation" and _is_foreign(layer):
            return lambda: value.scaled(_QUICK).activated(Activation("silu")).scaled(1 / _QUICK)
        return None

    def _normalised(self, path: str, layer: Any, value: Any) -> Any:
        """Batch norm in eval mode: (s - mean)/sqrt(variance + eps) gain + shift, value by value."""
        if not isinstance(layer, nn.BatchNorm1d) or layer.running_var is None or not isinstance(value, Branch):
            self.faults.add(f"{path} ({type(layer).__name__}) does not normalise values one by one; use BatchNorm1d")
            return None
        if layer.training:
            return value  # its fault is recorded already
        mean, variance = (_numbers(x) for x in (layer.running_mean, layer.running_var))
        gain, shift = (1.0, 0.0) if layer.weight is None else (_numbers(x) for x in (layer.weight, layer.bias))
        scale = gain / np.sqrt(variance + layer.eps)
        self.folded = True
        return value.scaled(scale, shift - mean * scale)

    def _linear(self, layer: Any, value: Any) -> Any:
        if nn.parameter.is_lazy(layer.weight):
            return None  # its fault is recorded already
        weight = layer.weight.detach().double().cpu().numpy().copy()
        weight = weight.T.copy() if _is_transposed(layer) else weight
        bias = np.zeros(len(weight)) if layer.bias is None else layer.bias.detach().double().cpu().numpy().copy()
        if isinstance(value, Branch):
            return value.linear(weight, bias)
        dense = DenseLayer(weight, bias, LINEAR)
        if isinstance(value, _Product) and value.down is None:
            return replace(value, down=dense)
        self.faults.add("a Linear layer follows a gated block; name the block alone in blocks=[...]")
        return None

    def _activate(self, value: Any, found: Activation) -> Any:
        if found.name == "identity" or value is None:
            return value
        if not isinstance(value, Branch):
            self.faults.add(f"{found} does not follow a Linear layer; put torch.nn.Linear before it")
            return value
        return self.faults.take(value.activated, found)

    def _glu(self, value: Any) -> Any:
        if not isinstance(value, Branch):
            self.faults.add("GLU does not follow a Linear layer; put torch.nn.Linear before it")
            return None
        first, second = self._half(_Half(value, 0)), self._half(_Half(value, 1))
        return self._product(self._activate(second, Activation("sigmoid")), first)

    def _half(self, half: _Half) -> Branch | None:
        layers = half.branch.settled().layers
        if not layers or layers[-1].outputs % 2:
            self.faults.add("chunk or GLU splits an odd number of outputs, or no Linear layer; give it an even Linear")
            return None
        last, size = layers[-1], layers[-1].outputs // 2
        rows = slice(half.part * size, (half.part + 1) * size)
        return Branch((*layers[:-1], DenseLayer(last.weight[rows], last.bias[rows], last.activation)))

    def _product(self, left: Any, right: Any) -> Any:
        settled = [side.settled() if side.layers else side for side in (left, right) if isinstance(side, Branch)]
        sides = [side for side in settled if len(side.layers) == 1]
        if len(sides) < 2:
            self.faults.add("a product of anything but two Linear branches of the input has no attention form here")
            return None
        active = [side for side in sides if side.layers[0].activation.name != "identity"]
        if len(active) == 2:
            self.faults.add("both factors of a gate have an activation; one of them must be linear")
            return None
        gate = active[0] if active else sides[0]
        return _Product(gate, sides[1] if gate is sides[0] else sides[0])
