"""Feed-forward networks from files: ONNX graphs of Gemm, MatMul, Add and activations, and our own safetensors files.

Nothing is unpickled, ever: torch's `.pt` and `.pth` files and joblib's files hold programs, so they get an error that
says how to convert them. An ONNX graph is read as a chain; any other node is a fault, and all faults come together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import erf

from softwright.errors import Faults, FileFormatError, ForeignFile, InvalidInput
from softwright.fileformat import read_model
from softwright.targets.mlp.activation import Activation, read_spelling, spellings
from softwright.targets.mlp.activations import sigmoid
from softwright.targets.mlp.dense import FILE_KIND, DenseLayer, DenseNetwork

_PICKLES = {".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".joblib"}
_SPELLINGS = spellings("onnx")
_OPERATORS = ", ".join(dict.fromkeys(spelling.call for _, spelling in _SPELLINGS))
# Activations that exporters spell out: the operations in order, all of them made of the input and constants.
_SPELT = {
    ("Sigmoid", "Mul"): "silu",
    ("Softplus", "Tanh", "Mul"): "mish",
    ("Div", "Erf", "Add", "Mul", "Mul"): "gelu",
    ("Mul", "Erf", "Add", "Mul", "Mul"): "gelu",
    ("Mul", "Mul", "Mul", "Add", "Mul", "Tanh", "Add", "Mul", "Mul"): "gelu_tanh",
}
_OPERATIONS: dict[str, Callable[..., np.ndarray]] = {
    "Mul": np.multiply,
    "Add": np.add,
    "Div": np.divide,
    "Erf": erf,
    "Tanh": np.tanh,
    "Sigmoid": sigmoid,
    "Softplus": lambda x: np.logaddexp(0, x),
}


def read_file(path: str | Path) -> DenseNetwork:
    """The network in an ONNX file or in a file that `save_mlp` wrote."""
    source = Path(path)
    ending = source.suffix.lower()
    if ending in _PICKLES:
        raise FileFormatError(
            f"{source}: {ending} files are pickles, which can run any program, so they are never loaded; in Python, "
            "convert once with softwright.save_mlp(module, 'model.safetensors') or torch.onnx.export(module, ...)"
        )
    if not source.is_file():
        raise FileFormatError(f"{source}: no such file")
    if ending == ".onnx":
        return read_onnx(source)
    if ending == ".safetensors":
        return _read_own(source)
    raise FileFormatError(f"{source}: give a .onnx file, or a .safetensors file written by softwright.save_mlp")


def _read_own(source: Path) -> DenseNetwork:
    try:
        content = read_model(source)
    except ForeignFile as error:
        raise FileFormatError(
            f"{source}: the file names no activations, so the network is not known from it; build the module in "
            "Python, load these tensors into it, and write it with softwright.save_mlp(module, path)"
        ) from error
    model = content.sections["model"]
    if model.get("kind") != FILE_KIND:
        raise FileFormatError(
            f"{source}: holds a network of kind {model.get('kind')!r}, which is attention already; give an MLP"
        )
    try:
        layers = [
            DenseLayer(
                content.tensors[f"layers.{i}.weight"].astype(np.float64),
                content.tensors[f"layers.{i}.bias"].astype(np.float64),
                Activation(entry["name"], tuple(entry["parameters"])),
            )
            for i, entry in enumerate(model["activations"])
        ]
        return DenseNetwork(layers, str(model["dtype"]), str(model["name"]))
    except (LookupError, TypeError) as error:
        raise FileFormatError(f"{source}: the file does not describe an MLP ({error}); save it again") from error


def read_onnx(source: Path) -> DenseNetwork:
    """A chain of Gemm, MatMul, Add and activations. Needs softwright[onnx]."""
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError:
        raise InvalidInput(
            "transpile", ["the package onnx is missing; install it with: pip install 'softwright[onnx]'"]
        ) from None
    try:
        graph = onnx.load(str(source)).graph
    except (DecodeError, OSError, ValueError) as error:
        raise FileFormatError(f"{source}: not a readable ONNX file ({error}); export it again") from error
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    faults = Faults(str(source))
    chain = _Chain(constants, faults)
    inputs = [entry.name for entry in graph.input if entry.name not in constants]
    faults.check(len(inputs) == 1, f"the graph has inputs {', '.join(inputs) or 'none'}; a network here has one")
    current = inputs[0] if inputs else ""
    nodes, done = [], 0
    for node in graph.node:
        options = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
        if node.op_type != "Constant":
            nodes.append((node, options))
        elif "value" in options:
            constants[node.output[0]] = onnx.numpy_helper.to_array(options["value"])
    for place, (node, options) in enumerate(nodes):
        if place < done:
            continue
        spelt = _spelt_out([node for node, _ in nodes[place : place + 9]], current, constants)
        if spelt is not None and chain.layers:
            name, length = spelt
            chain.activate(Activation(name))
            done = place + length
            current = nodes[done - 1][0].output[0]
            continue
        if node.op_type == "Softmax" and node.output[0] == graph.output[0].name:
            faults.add("the graph ends in Softmax; cut it off (attention outputs the logits) and export again")
            continue
        if current not in node.input:
            faults.add(f"node {node.name or node.op_type} does not follow the one before it; only chains are read")
            continue
        chain.add(node.op_type, [name for name in node.input if name], current, options)
        current = node.output[0]
    if not faults.found:
        faults.check(current == graph.output[0].name, "the graph's output is not the end of its chain")
    faults.raise_if_any()
    return DenseNetwork(chain.layers, chain.dtype, source.stem)


def _spelt_out(nodes: Sequence[Any], source: str, constants: dict[str, np.ndarray]) -> tuple[str, int] | None:
    """The activation that the next nodes spell out, and how many they are; it is confirmed by its values."""
    s = np.linspace(-6.0, 6.0, 41)
    for operations, name in _SPELT.items():
        values: dict[str, Any] = {source: s}
        window = nodes[: len(operations)]
        if tuple(node.op_type for node in window) != operations:
            continue
        for node in window:
            known = [values.get(entry, constants.get(entry)) for entry in node.input]
            if any(value is None or np.size(value) not in (1, s.size) for value in known):
                break
            values[node.output[0]] = _OPERATIONS[node.op_type](*(np.asarray(value, dtype=float) for value in known))
        else:
            if np.allclose(values[window[-1].output[0]], Activation(name)(s), rtol=0, atol=1e-5):
                return name, len(operations)
    return None


class _Chain:
    """Layers as they are read off a graph."""

    def __init__(self, constants: dict[str, np.ndarray], faults: Faults) -> None:
        self.constants, self.faults = constants, faults
        self.layers: list[DenseLayer] = []
        self.dtype = "float32"

    def add(self, kind: str, names: list[str], current: str, options: dict[str, Any]) -> None:
        others = [self.constants.get(name) for name in names if name != current]
        if kind in ("Gemm", "MatMul"):
            self._product(kind, names, current, others, options)
        elif kind == "Add":
            self._bias(others)
        elif kind in ("Identity", "Dropout") or (kind == "Flatten" and not self.layers):
            return
        else:
            found = self._activation(kind, others, options)
            if found is None:
                self.faults.add(f"node {kind} has no attention form; use Gemm, MatMul, Add, {_OPERATORS}, or Dropout")
            elif not self.layers:
                self.faults.add(f"{kind} comes before any Gemm or MatMul; put a linear layer first")
            else:
                self.activate(found)

    def _product(
        self, kind: str, names: list[str], current: str, others: list[np.ndarray | None], options: dict[str, Any]
    ) -> None:
        matrix = others[0] if others else None
        plain = options.get("alpha", 1.0) == 1.0 and options.get("beta", 1.0) == 1.0 and not options.get("transA", 0)
        if matrix is None or matrix.ndim != 2 or names[0] != current or not plain:
            self.faults.add(f"{kind} must be input times constant matrix, with alpha = beta = 1; export it again")
            return
        self.dtype = str(matrix.dtype)
        weight = matrix.astype(np.float64)
        weight = weight if kind == "Gemm" and options.get("transB", 0) else weight.T
        bias = np.zeros(len(weight))
        if len(others) > 1:
            if others[1] is None:
                self.faults.add("Gemm has a bias that is no constant; export the graph with constants folded")
                return
            bias = np.broadcast_to(others[1].astype(np.float64).reshape(-1), bias.shape).copy()
        self.layers.append(DenseLayer(np.ascontiguousarray(weight), bias, Activation("identity")))

    def _bias(self, others: list[np.ndarray | None]) -> None:
        if not self.layers or not others or others[0] is None or self.layers[-1].activation.name != "identity":
            self.faults.add("Add must add a constant after Gemm or MatMul; only chains of layers are read")
            return
        last = self.layers.pop()
        added = others[0].astype(np.float64).reshape(-1)
        if added.size not in (1, last.outputs):
            self.faults.add(f"Add adds {added.size} numbers to {last.outputs} outputs; mend the shapes")
        elif np.any(last.bias):
            # A second bias is kept as a layer of its own, so that no sum is rounded.
            self.layers += [last, DenseLayer(np.eye(last.outputs), np.broadcast_to(added, last.bias.shape).copy(),
                                             Activation("identity"))]  # fmt: skip
        else:
            bias = np.broadcast_to(added, last.bias.shape).copy()
            self.layers.append(DenseLayer(last.weight, bias, last.activation))

    def activate(self, found: Activation) -> None:
        last = self.layers[-1]
        if last.activation.name == "identity":
            self.layers[-1] = DenseLayer(last.weight, last.bias, found)
        else:
            self.layers.append(DenseLayer(np.eye(last.outputs), np.zeros(last.outputs), found))

    def _activation(self, kind: str, others: list[np.ndarray | None], options: dict[str, Any]) -> Activation | None:
        def option(position: int, name: str, default: Any) -> Any:
            value = options.get(name, default)
            if kind == "Clip" and name not in options:
                value = others[position] if position < len(others) else None
            if name == "alpha" and kind == "HardSigmoid" and abs(float(value or 0.0) - 1 / 6) < 1e-7:
                return 1 / 6  # torch exports the float32 nearest to 1/6
            return value.decode() if isinstance(value, bytes) else value

        found = read_spelling([entry for entry in _SPELLINGS if entry[1].call == kind], option)
        if found is None and kind == "Clip" and option(1, "max", None) is None and option(0, "min", None) == 0:
            return Activation("relu")
        return found
