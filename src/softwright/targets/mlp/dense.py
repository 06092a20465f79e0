"""Feed-forward networks as plain data: what `transpile` reads, whatever library the network came from.

    a_0 = x,   a_l = phi_l(W_l a_{l-1} + b_l),   output a_L                                   `DenseNetwork`
    W_d (phi(W_g x + b_g) * (W_u x + b_u)) + b_d                                              `GatedNetwork`

Weights are float64 copies, exactly the numbers that the source holds; `dtype` remembers what they were. The function
meant is the one of real arithmetic. Readers: `torch_reader.py` (modules), `onnx_reader.py`, `files.py` (our own files)
and `estimators.py` (scikit-learn). `source.py` runs what was read beside its reading.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from softwright.errors import Faults
from softwright.fileformat import write_model
from softwright.targets.mlp.activation import Activation

# Points (n, d) and a dtype -> what the user's own thing gives there, (n, m), run in that dtype; None if it cannot be.
Runner = Callable[[np.ndarray, str], np.ndarray | None]
FILE_KIND = "mlp"


@dataclass(frozen=True, eq=False)
class DenseLayer:
    """phi(W x + b): weight (out, in), bias (out,)."""

    weight: np.ndarray
    bias: np.ndarray
    activation: Activation

    @property
    def inputs(self) -> int:
        return self.weight.shape[1]

    @property
    def outputs(self) -> int:
        return self.weight.shape[0]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        kind = x.dtype.type
        return self.activation(x @ self.weight.T.astype(kind) + self.bias.astype(kind))


def _reference(points: np.ndarray, exact: bool) -> np.ndarray:
    return np.asarray(points, dtype=np.longdouble if exact else np.float64)


class DenseNetwork:
    """A chain of dense layers; shapes and finiteness are checked when it is made."""

    def __init__(
        self, layers: Sequence[DenseLayer], dtype: str = "float64", name: str = "network", folded: bool = False
    ) -> None:
        faults = Faults(name)
        faults.check(bool(layers), "there is no Linear layer in it; give a network with at least one")
        for i, layer in enumerate(layers):
            check_layer(layer, f"layer {i + 1}", faults)
            if i and layer.weight.ndim == 2 and layers[i - 1].weight.ndim == 2:
                gets = layers[i - 1].outputs
                faults.check(
                    layer.inputs == gets, f"layer {i + 1} takes {layer.inputs} numbers but gets {gets}; mend the shapes"
                )
        faults.raise_if_any()
        self.layers = tuple(layers)
        self.dtype = dtype
        self.name = name
        self.folded = folded  # whether weights were made of several numbers of the source, and rounded

    @property
    def inputs(self) -> int:
        return self.layers[0].inputs

    @property
    def outputs(self) -> int:
        return self.layers[-1].outputs

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.inputs, *(layer.outputs for layer in self.layers))

    def __call__(self, points: np.ndarray, exact: bool = False) -> np.ndarray:
        """Outputs (n, m) at points (n, d), in float64, or nearly exact: in numpy's long double (slow)."""
        x = _reference(points, exact)
        for layer in self.layers:
            x = layer(x)
        return x

    def describe(self) -> dict[str, Any]:
        """What a certificate says of its target: sizes, activations, and the SHA-256 of all weights."""
        return {
            "kind": "network",
            "text": f"{self.name} {'-'.join(map(str, self.sizes))}, {activations_of(self.layers)}",
            "sizes": list(self.sizes),
            "activations": [layer.activation.describe() for layer in self.layers],
            "sha256": digest(self.layers),
        }

    def save(self, path: str | Path) -> None:
        """One safetensors file that `read_file` and the command line read; nothing in it can be executed."""
        tensors: dict[str, np.ndarray] = {}
        kind = np.float32 if self.dtype == "float32" else np.float64
        for i, layer in enumerate(self.layers):
            tensors[f"layers.{i}.weight"] = layer.weight.astype(kind)
            tensors[f"layers.{i}.bias"] = layer.bias.astype(kind)
        model = {
            "kind": FILE_KIND,
            "name": self.name,
            "dtype": self.dtype,
            "activations": [layer.activation.describe() for layer in self.layers],
        }
        write_model(path, tensors, {"model": model})


class GatedNetwork:
    """A feed-forward block with a gate: SwiGLU (silu), GEGLU (gelu), ReGLU, GLU (sigmoid), bilinear (identity)."""

    def __init__(self, gate: DenseLayer, value: DenseLayer, down: DenseLayer, dtype: str, name: str = "block") -> None:
        faults = Faults(name)
        for layer, what in ((gate, "the gate"), (value, "the value"), (down, "the output layer")):
            check_layer(layer, what, faults)
        if not faults.found:
            faults.check(
                gate.weight.shape == value.weight.shape,
                f"gate and value have shapes {gate.weight.shape} and {value.weight.shape}; they must agree",
            )
            faults.check(
                down.inputs == gate.outputs,
                f"the output layer takes {down.inputs} numbers but gets {gate.outputs}; mend the shapes",
            )
        for layer, what in ((value, "the value"), (down, "the output layer")):
            faults.check(layer.activation.name == "identity", f"{what} must be linear, not {layer.activation}")
        faults.raise_if_any()
        self.gate, self.value, self.down, self.dtype, self.name = gate, value, down, dtype, name

    @property
    def layers(self) -> tuple[DenseLayer, DenseLayer, DenseLayer]:
        return self.gate, self.value, self.down

    @property
    def inputs(self) -> int:
        return self.gate.inputs

    @property
    def outputs(self) -> int:
        return self.down.outputs

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.inputs, self.gate.outputs, self.outputs)

    def __call__(self, points: np.ndarray, exact: bool = False) -> np.ndarray:
        x = _reference(points, exact)
        return self.down(self.gate(x) * self.value(x))

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "network",
            "text": f"{self.name} {'-'.join(map(str, self.sizes))}, gate {self.gate.activation}",
            "sizes": list(self.sizes),
            "activations": [self.gate.activation.describe()],
            "sha256": digest(self.layers),
        }


def check_layer(layer: DenseLayer, what: str, faults: Faults) -> None:
    """Record what is wrong with one layer on its own."""
    weight, bias = layer.weight, layer.bias
    if not faults.check(weight.ndim == 2 and weight.size > 0, f"{what}: weights of shape {weight.shape} are no matrix"):
        return
    faults.check(
        bias.shape == (layer.outputs,),
        f"{what}: a bias of shape {bias.shape} for {layer.outputs} outputs; it needs shape ({layer.outputs},)",
    )
    for array, name in ((weight, "weight"), (bias, "bias")):
        bad = int(np.count_nonzero(~np.isfinite(array)))
        faults.check(bad == 0, f"{what}: {bad} NaN or infinite entries in the {name}; train or load it again")


def digest(layers: Sequence[DenseLayer]) -> str:
    found = hashlib.sha256()
    for layer in layers:
        found.update(f"{layer.activation.describe()}|{layer.weight.shape}|".encode())
        found.update(np.ascontiguousarray(layer.weight, "<f8").tobytes())
        found.update(np.ascontiguousarray(layer.bias, "<f8").tobytes())
    return found.hexdigest()


def activations_of(layers: Sequence[DenseLayer]) -> str:
    """The distinct activations in order, as text: "relu", "gelu and tanh", "linear"."""
    names = list(dict.fromkeys(str(layer.activation) for layer in layers if layer.activation.name != "identity"))
    return " and ".join(names) or "linear"
