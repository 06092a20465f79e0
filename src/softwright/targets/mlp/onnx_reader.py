"""ONNX graphs of Gemm, MatMul, Add and activations, read as a chain, and run by onnx's reference evaluator.

Any other node is a fault, and all faults come together. Constants are taken as the file holds them: the slope of a
HardSigmoid is the float32 of its attribute, the limits of a Clip are those of its inputs by their position.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import erf

from softwright.errors import Faults, FileFormatError, InvalidInput
from softwright.targets.mlp.activation import Activation, read_spelling, spellings
from softwright.targets.mlp.dense import DenseLayer, DenseNetwork, Runner
from softwright.targets.mlp.onnx_spelt import LONGEST, spelt_out

_SPELLINGS = spellings("onnx")
_OPERATORS = ", ".join(dict.fromkeys(spelling.call for _, spelling in _SPELLINGS))


def read_onnx(source: Path) -> tuple[DenseNetwork, Runner]:
    """The network of a graph, and the graph itself as it runs. Needs softwright[onnx]."""
    try:
        import onnx
    except ImportError:
        raise InvalidInput(
            "transpile", ["the package onnx is missing; install it with: pip install 'softwright[onnx]'"]
        ) from None
    try:
        model = onnx.load(str(source))
    except Exception as error:  # protobuf, onnx and the operating system each raise their own
        raise FileFormatError(f"{source}: not a readable ONNX file ({_first(error)}); export it again") from error
    try:
        network = _read_graph(model.graph, source)
    except InvalidInput:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:  # a graph that is no graph
        raise FileFormatError(f"{source}: not a readable ONNX graph ({_first(error)}); export it again") from error
    (name,) = _inputs(model.graph)
    return network, lambda points, dtype: _evaluated(model, name, points, dtype)


def _inputs(graph: Any) -> list[str]:
    constants = {tensor.name for tensor in graph.initializer}
    return [str(entry.name) for entry in graph.input if entry.name not in constants]


def _read_graph(graph: Any, source: Path) -> DenseNetwork:
    faults = Faults(str(source))
    constants = _constants(graph, faults)
    inputs = _inputs(graph)
    faults.check(len(inputs) == 1, f"the graph has inputs {', '.join(inputs) or 'none'}; a network here has one")
    faults.check(len(graph.output) == 1, f"the graph has {len(graph.output)} outputs; a network here has one")
    faults.raise_if_any()
    chain = _Chain(constants, faults)
    _follow(graph, inputs[0], chain, faults)
    faults.raise_if_any()
    return DenseNetwork(chain.layers, chain.dtype, source.stem)


def _constants(graph: Any, faults: Faults) -> dict[str, np.ndarray]:
    """The arrays of initializers and Constant nodes, by name."""
    import onnx

    tensors = {tensor.name: tensor for tensor in graph.initializer}
    found: dict[str, np.ndarray] = {}
    for node in graph.node:
        if node.op_type == "Constant" and node.output:
            options = _options(node)
            if "value" in options:
                tensors[node.output[0]] = options["value"]
            elif isinstance(options.get("value_float"), float):
                found[node.output[0]] = np.asarray(options["value_float"], dtype=np.float32)
    for name, tensor in tensors.items():
        try:
            found[name] = onnx.numpy_helper.to_array(tensor)
        except Exception as error:  # truncated data, unknown types: whatever the file holds
            faults.add(f"the constant {name} cannot be read ({_first(error)}); export the graph again")
    return found


def _options(node: Any) -> dict[str, Any]:
    import onnx

    return {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}


def _first(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _follow(graph: Any, current: str, chain: _Chain, faults: Faults) -> None:
    """The nodes in order, each on the result of the one before."""
    nodes = [node for node in graph.node if node.op_type != "Constant"]
    done = 0
    for place, node in enumerate(nodes):
        if place < done:
            continue
        try:
            spelt = spelt_out(nodes[place : place + LONGEST], current, chain.constants) if chain.layers else None
        except InvalidInput as error:
            faults.found += [f"node {node.name or node.op_type}: {fault}" for fault in error.faults]
            return
        if spelt is not None:
            chain.activate(spelt[0])
            done = place + spelt[1]
            current = nodes[done - 1].output[0]
            continue
        if node.op_type == "Softmax" and node.output[:1] == [graph.output[0].name]:
            faults.add("the graph ends in Softmax; cut it off (attention outputs the logits) and export again")
            continue
        if current not in node.input or not node.output:
            faults.add(f"node {node.name or node.op_type} does not follow the one before it; only chains are read")
            continue
        chain.add(node.op_type, list(node.input), current, _options(node))
        current = node.output[0]
    if not faults.found:
        faults.check(current == graph.output[0].name, "the graph's output is not the end of its chain")


def _evaluated(model: Any, name: str, points: np.ndarray, dtype: str) -> np.ndarray:
    """The graph at points (n, d) by onnx's reference evaluator, its numbers as they are, in arithmetic of the dtype."""
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    class Erf(OpRun):  # onnx's own rounds every result to float32
        op_domain = ""

        def _run(self, x: np.ndarray) -> tuple[np.ndarray]:
            return (erf(x).astype(x.dtype),)

    class Gelu(OpRun):  # onnx's own is made of its Erf
        op_domain = ""

        def _run(self, x: np.ndarray, approximate: str | None = None) -> tuple[np.ndarray]:
            form = "gelu_tanh" if (approximate or self.approximate) == "tanh" else "gelu"  # type: ignore[attr-defined]
            return (Activation(form)(x).astype(x.dtype),)

    ready = _in_dtype(model, dtype)
    (entry,) = [entry for entry in ready.graph.input if entry.name == name]
    sizes = [dimension.dim_value for dimension in entry.type.tensor_type.shape.dim][1:]
    shape = (len(points), *sizes) if len(sizes) > 1 and int(np.prod(sizes)) == points.shape[1] else points.shape
    with np.errstate(all="ignore"):
        evaluator = ReferenceEvaluator(ready, new_ops=[Erf, Gelu])
        (found,) = evaluator.run(None, {name: points.astype(dtype).reshape(shape)})
    return np.asarray(found, dtype=np.float64)


def _in_dtype(model: Any, dtype: str) -> Any:
    """A copy of the graph whose inputs and constants have the dtype."""
    import onnx

    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    graph = copied.graph
    wanted = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    del graph.value_info[:]
    for entry in (*graph.input, *graph.output):
        entry.type.tensor_type.elem_type = wanted
    options = [entry for node in graph.node if node.op_type == "Constant" for entry in node.attribute]
    for tensor in (*graph.initializer, *(entry.t for entry in options if entry.name == "value")):
        array = onnx.numpy_helper.to_array(tensor)
        if array.dtype.kind == "f":
            tensor.CopyFrom(onnx.numpy_helper.from_array(array.astype(dtype), tensor.name))
    return copied


class _Chain:
    """Layers as they are read off a graph."""

    def __init__(self, constants: dict[str, np.ndarray], faults: Faults) -> None:
        self.constants, self.faults = constants, faults
        self.layers: list[DenseLayer] = []
        self.dtype = "float32"

    def add(self, kind: str, names: list[str], current: str, options: dict[str, Any]) -> None:
        """One node; `names` are its inputs in their places, "" for those left out."""
        others = [self.constants.get(name) for name in names if name and name != current]
        if kind in ("Gemm", "MatMul"):
            self._product(kind, names, current, others, options)
        elif kind == "Add":
            self._bias(others)
        elif kind == "Dropout":
            random = self.constants.get(names[2]) if len(names) > 2 else None
            self.faults.check(random is None or not np.any(random), "Dropout is in training mode; export in eval mode")
        elif kind == "Identity" or (kind == "Flatten" and not self.layers):
            return
        else:
            found = self._activation(kind, names, options)
            if found is not None and not self.layers:
                self.faults.add(f"{kind} comes before any Gemm or MatMul; put a linear layer first")
            elif found is not None:
                self.activate(found)

    def _product(
        self, kind: str, names: list[str], current: str, others: list[np.ndarray | None], options: dict[str, Any]
    ) -> None:
        matrix = others[0] if others else None
        plain = options.get("alpha", 1.0) == 1.0 and options.get("beta", 1.0) == 1.0 and not options.get("transA", 0)
        if matrix is None or matrix.ndim != 2 or matrix.dtype.kind != "f" or names[0] != current or not plain:
            self.faults.add(f"{kind} must be input times constant matrix, with alpha = beta = 1; export it again")
            return
        self.dtype = str(matrix.dtype)
        weight = matrix.astype(np.float64)
        weight = weight if kind == "Gemm" and options.get("transB", 0) else weight.T
        bias = np.zeros(len(weight))
        if len(others) > 1:
            bias = self._spread(others[1], len(weight), f"{kind} has a bias")
        if bias is not None:
            self.layers.append(DenseLayer(np.ascontiguousarray(weight), bias, Activation("identity")))

    def _spread(self, given: np.ndarray | None, size: int, what: str) -> np.ndarray | None:
        """A constant for every output, or None and a fault."""
        if given is None or given.dtype.kind != "f":
            self.faults.add(f"{what} that is no constant of numbers; export the graph with constants folded")
        elif given.size not in (1, size):
            self.faults.add(f"{what} of {given.size} numbers for {size} outputs; mend the shapes")
        else:
            return np.broadcast_to(given.astype(np.float64).reshape(-1), (size,)).copy()
        return None

    def _bias(self, others: list[np.ndarray | None]) -> None:
        if not self.layers or not others or self.layers[-1].activation.name != "identity":
            self.faults.add("Add must add a constant after Gemm or MatMul; only chains of layers are read")
            return
        last = self.layers[-1]
        added = self._spread(others[0], last.outputs, "Add adds something")
        if added is None:
            return
        if np.any(last.bias):  # a second bias is kept as a layer of its own, so that no sum is rounded
            self.layers.append(DenseLayer(np.eye(last.outputs), added, Activation("identity")))
        else:
            self.layers[-1] = DenseLayer(last.weight, added, last.activation)

    def activate(self, found: Activation) -> None:
        last = self.layers[-1]
        if last.activation.name == "identity":
            self.layers[-1] = DenseLayer(last.weight, last.bias, found)
        else:
            self.layers.append(DenseLayer(np.eye(last.outputs), np.zeros(last.outputs), found))

    def _activation(self, kind: str, names: list[str], options: dict[str, Any]) -> Activation | None:
        """The activation that a node is; None and a fault otherwise."""

        def option(position: int, name: str, default: Any) -> Any:
            value = options.get(name, default)
            if kind == "Clip" and name not in options and len(names) > position + 1 and names[position + 1]:
                value = self.constants.get(names[position + 1], np.empty(0))
            return value.decode(errors="replace") if isinstance(value, bytes) else value

        try:
            found = read_spelling([entry for entry in _SPELLINGS if entry[1].call == kind], option)
            low, high = (option(i, name, None) for i, name in enumerate(("min", "max"))) if kind == "Clip" else (1, 1)
            if found is None and high is None and low is not None and float(low) == 0.0:
                return Activation("relu")
        except InvalidInput as error:
            self.faults.found += error.faults
            return None
        except (TypeError, ValueError):
            self.faults.add(f"node {kind} has an option that is no number; export the graph again")
            return None
        if found is None and kind == "Clip":
            self.faults.add("Clip without both limits is only known as Clip(min=0), a Relu; give min and max")
        elif found is None:
            self.faults.add(f"node {kind} has no attention form; use Gemm, MatMul, Add, {_OPERATORS}, or Dropout")
        return found
