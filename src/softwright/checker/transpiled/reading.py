"""A transpiled network and its source, read from a file: names, shapes and numbers, before anything is proved.

    model       dtype, layout, names (of the activations, for people), steps: heads {inputs, heads, and group: 4 where
                four neurons share a softmax}, linear {inputs, outputs}, gated {inputs, heads, second, activated}
    target      kind "network", text, sizes, activations [{name, parameters}], sha256 of the source's weights, box
                [low, high] or null, weights: "network" where the tensors of the network are the source's, "reference"
                where the file keeps the source's own beside them
    tensors     steps.<i>.*, all of the model's dtype; reference.layers.<i>.weight and .bias, float64

The source is a chain phi(W x + b), or W_d (phi(W_g x + b_g) * (W_u x + b_u)) + b_d. Its weights are in the file, one
way or the other: what is said of a network whose weights nobody has cannot be proved."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from softwright.checker.entries import check_entries, is_flag, is_number, is_object, is_size, is_text, list_of
from softwright.checker.precision import Precision, as_run
from softwright.checker.refusal import require
from softwright.checker.transpiled.activations import Activation, read_activation
from softwright.checker.transpiled.layouts import (
    LAYOUTS,
    Stored,
    StoredProducts,
    Tensors,
    read_heads,
    read_linear,
    read_products,
)
from softwright.fileformat import ModelFile

Array = np.ndarray
MODEL = {"kind": is_text, "dtype": is_text, "layout": is_text, "names": list_of(is_text), "steps": list_of(is_object)}
STEPS: dict[str, dict[str, Any]] = {
    "heads": {"step": is_text, "inputs": is_size, "heads": is_size, "group": lambda value: value == 4},
    "linear": {"step": is_text, "inputs": is_size, "outputs": is_size},
    "gated": {
        "step": is_text,
        "inputs": is_size,
        "heads": is_size,
        "second": is_number,
        "activated": is_flag,
        "group": lambda value: value == 4,
    },
}
TARGET = {
    "kind": lambda value: value == "network",
    "text": is_text,
    "sizes": list_of(is_size),
    "activations": list_of(is_object),
    "sha256": is_text,
    "box": lambda value: value is None or (list_of(list_of(is_number))(value) and len(value) == 2),
    "weights": lambda value: value in ("network", "reference"),
}
NO_SOURCE = "the file does not hold the weights of the source, only what the cast made of them; transpile it again"


@dataclass(frozen=True)
class Source:
    """Weights and biases, layer by layer, and activations; of a gated block: gate, value, output."""

    weights: list[Array]
    biases: list[Array]
    activations: list[Activation]


@dataclass(frozen=True)
class Network:
    """What the network stores, layer by layer as the source has them, and how it is run."""

    precision: Precision
    layout: str
    layers: list[Stored]
    products: StoredProducts | None
    second: float
    source: Source
    box: tuple[Array, Array] | None

    @property
    def verbatim(self) -> bool:
        """Whether every weight is stored as it was."""
        pairs = zip(self.layers, self.source.weights, self.source.biases, strict=True)
        return all(np.array_equal(x.weight, W) and np.array_equal(x.bias, b) for x, W, b in pairs)


def read_network(file: ModelFile) -> Network:
    """Everything that needs no proof is checked here."""
    model, target = file.sections["model"], file.sections["target"]
    check_entries(model, MODEL, "the model")
    check_entries(target, TARGET, "the target", ("weights",))
    layout = model["layout"]
    require(layout in LAYOUTS, f"unknown layout {layout!r}")
    precision = as_run(model["dtype"], layout)
    subject = file.subject_tensors
    require(
        all(str(array.dtype) == precision.name for array in subject.values()), "a tensor is not of the model's dtype"
    )
    require(all(np.isfinite(array).all() for array in file.tensors.values()), "tensors hold NaN or infinite entries")
    tensors = Tensors(subject)
    layers, products, second = _read_steps(model["steps"], tensors, layout)
    unknown = sorted(tensors.left)
    require(not unknown, f"unknown tensor {unknown[0] if unknown else ''!r}")
    source = _read_source(file, target, layers, products is not None)
    _check_texts(model, target, source, products is not None)
    return Network(precision, layout, layers, products, second, source, _read_box(target, layers[0].weight.shape[1]))


def _read_steps(steps: list[dict[str, Any]], tensors: Tensors, layout: str) -> tuple[list[Stored], Any, float]:
    """The layers, the products of a gated block, and what its second tokens are multiplied by."""
    require(steps, "the network has no steps")
    layers: list[Stored] = []
    products, second = None, 0.0
    for i, entry in enumerate(steps):
        kind, prefix = str(entry.get("step")), f"steps.{i}."
        require(kind in STEPS, f"unknown step {kind!r}")
        check_entries(entry, STEPS[kind], f"step {i} of the model", ("group",))
        if kind == "heads":
            layers.append(read_heads(tensors, prefix, entry["heads"], entry["inputs"], layout, "group" in entry))
        elif kind == "linear":
            layers.append(read_linear(tensors, prefix, entry["outputs"], entry["inputs"]))
        else:
            require(i == 0 and len(steps) == 2 and steps[1].get("step") == "linear", "a gated block is two steps")
            second = float(entry["second"])
            products = read_products(
                tensors, prefix, entry["heads"], entry["inputs"], layout, entry["activated"], "group" in entry
            )
            layers += [products.gate, products.value]
    chain = layers if products is None else [layers[1], *layers[2:]]
    for before, after in pairwise(chain):
        require(after.weight.shape[1] == len(before.bias), "the sizes of two steps do not meet")
    return layers, products, second


def _read_source(file: ModelFile, target: dict[str, Any], layers: list[Stored], gated: bool) -> Source:
    """The source's own weights, known by their digest, with its activations."""
    activations = [read_activation(entry) for entry in target["activations"]]
    if gated:
        require(len(activations) == 1, "a gated block has one activation")
        activations += [read_activation({"name": "identity", "parameters": []})] * 2
    require(len(activations) == len(layers), "every layer has one activation")
    reference = Tensors(file.reference_tensors)
    if reference.left:
        require(target.get("weights") == "reference", "the target does not speak of the reference tensors")
        weights, biases = [], []
        for i, layer in enumerate(layers):
            weights.append(reference.take(f"layers.{i}.weight", *layer.weight.shape))
            biases.append(reference.take(f"layers.{i}.bias", *layer.bias.shape))
        unknown = sorted(reference.left)
        require(not unknown, f"unknown reference tensor {unknown[0] if unknown else ''!r}")
        require(all(str(x.dtype) == "float64" for x in (*weights, *biases)), "a reference tensor is not of float64")
        for layer, weight, bias in zip(layers, weights, biases, strict=True):
            same = all(map(np.array_equal, _cast(weight, bias, layer.weight.dtype), (layer.weight, layer.bias)))
            require(same, "the network's weights are not those of the source, rounded")
    else:
        require(target.get("weights", "network") == "network", "the reference tensors are missing")
        weights = [layer.weight.astype(np.float64) for layer in layers]
        biases = [layer.bias.astype(np.float64) for layer in layers]
    found = hashlib.sha256()
    for weight, bias, activation in zip(weights, biases, activations, strict=True):
        described = {"name": activation.name, "parameters": list(activation.parameters)}
        found.update(f"{described}|{weight.shape}|".encode())
        found.update(np.ascontiguousarray(weight, "<f8").tobytes())
        found.update(np.ascontiguousarray(bias, "<f8").tobytes())
    same = found.hexdigest() == target["sha256"]
    require(same, "the reference tensors are not the source (SHA-256)" if file.reference_tensors else NO_SOURCE)
    return Source(weights, biases, activations)


@np.errstate(over="ignore")
def _cast(weight: Array, bias: Array, dtype: np.dtype) -> tuple[Array, Array]:
    return weight.astype(dtype), bias.astype(dtype)


def _check_texts(model: dict[str, Any], target: dict[str, Any], source: Source, gated: bool) -> None:
    """What is told to people is what the source is: sizes, and activations by name."""
    first = source.weights[0]
    chain = source.weights if not gated else [source.weights[0], source.weights[2]]
    sizes = [first.shape[1], *(len(weight) for weight in chain)]
    require(target["sizes"] == sizes, f"the sizes should be {sizes}")
    if gated:
        names = [f"gate {source.activations[0]}", "identity"]
        told = names[0]
    else:
        names = [str(activation) for activation in source.activations]
        told = " and ".join(dict.fromkeys(name for name in names if name != "identity")) or "linear"
    require(model["names"] == names, f"the names of the steps should be {names}")
    ending = f" {'-'.join(map(str, sizes))}, {told}"
    require(target["text"].endswith(ending), f"the target should be called{ending}")


def _read_box(target: dict[str, Any], inputs: int) -> tuple[Array, Array] | None:
    if target["box"] is None:
        return None
    low, high = (np.array(side, dtype=np.float64) for side in target["box"])
    require(low.shape == high.shape == (inputs,) and (low <= high).all(), "the box does not fit the inputs")
    return low, high
