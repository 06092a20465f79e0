"""A stack of attention layers, read from a file: names, shapes and numbers, before anything is said of what it does.

    tensors   base_<segment> (T, D) and embed_<segment> (inputs, D); layers.<i>.Wq, Wk (H, D, k), Wv (H, D, v),
              Wo (H, v, D), R (D, D) where it is not the identity; read, read_coefficient (D,)
    model     settings, dtype, slots (names of columns), sources (segment -> input, or "fixed"), shapes, program (layers
              in the order they run), layers (rows, keys, label, shapes), guards, coefficient_segment, head, tail

A layer adds sum_h softmax((X_rows Wq_h)(X_keys Wk_h)^T)(X_keys Wv_h) Wo_h to X_rows R. `expected_heads` writes such
weights from what a head reads and writes, so that a file can be compared with what its statement presupposes entry by
entry; numbers that a proof leaves free are read from the tensors first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from softwright.checker.entries import is_size
from softwright.checker.precision import Precision, precision_of
from softwright.checker.refusal import require
from softwright.fileformat import ModelFile

OMEGA = 2.0**20  # below the others' scores, a token weighs nothing: e^-OMEGA is 0 in every type
MODEL = {"kind", "settings", "dtype", "slots", "sources", "shapes", "program", "layers", "guards"} | {
    "coefficient_segment", "head", "tail"
}  # fmt: skip
Pair = tuple[np.ndarray, np.ndarray]  # what a score reads from the row and from the key, (D,) or (D, k)


@dataclass(frozen=True)
class Layer:
    """One layer as stored, its numbers as float64 (which holds float32 exactly)."""

    label: str
    rows: tuple[str, ...]
    keys: tuple[str, ...]
    tensors: dict[str, np.ndarray]

    @property
    def heads(self) -> int:
        return len(self.tensors["Wq"])


@dataclass(frozen=True)
class ExpectedHead:
    """Score sum over pairs of (x_i Q).(x_j K), value x_j V (D, v), written by O (v, D)."""

    pairs: Sequence[Pair]
    V: np.ndarray
    O: np.ndarray  # noqa: E741

    def padded(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        query, key = (
            np.concatenate([pair[side].reshape(len(self.V), -1) for pair in self.pairs], axis=1) for side in (0, 1)
        )
        block = {"Wq": query, "Wk": key, "Wv": self.V, "Wo": self.O}[name]
        require(all(a <= b for a, b in zip(block.shape, shape, strict=True)), f"{name} is too small")
        wanted = np.zeros(shape)
        wanted[: block.shape[0], : block.shape[1]] = block
        return wanted


@dataclass(frozen=True)
class Stack:
    settings: dict[str, Any]
    precision: Precision
    slots: dict[str, tuple[int, int]]
    sources: dict[str, str]
    program: list[Layer]  # in the order they run, the same object where a layer repeats
    head: int
    tail: int
    coefficients: str  # the segment at which they are read
    guards: list[dict[str, Any]]
    tensors: dict[str, np.ndarray]

    @property
    def width(self) -> int:
        return max(stop for _, stop in self.slots.values())

    def at(self, slot: str) -> int:
        return self.slots[slot][0]

    def vector(self, **weights: float) -> np.ndarray:
        """(D,): a token, or a functional of a token, with these numbers in all places of the slots named."""
        vector = np.zeros(self.width)
        for slot, weight in weights.items():
            vector[slice(*self.slots[slot])] = weight
        return vector

    def block(self, slot: str, first: int | None = None) -> np.ndarray:
        """(D, size): reads a slot, or its first places; its transpose writes it."""
        start, stop = self.slots[slot]
        size = stop - start if first is None else first
        block = np.zeros((self.width, size))
        block[start : start + size] = np.eye(size)
        return block

    def residual(self, *changes: tuple[str, str, float]) -> np.ndarray:
        """(D, D): the identity, but for blocks (from, to, factor)."""
        matrix = np.eye(self.width)
        for source, target, factor in changes:
            (a, b), (c, d) = self.slots[source], self.slots[target]
            matrix[a:b, c:d] = factor * np.eye(b - a)
        return matrix

    def same(self, found: np.ndarray, wanted: np.ndarray, what: str, slack: float = 0.0) -> None:
        """Every entry is what it must be, rounded to the type of the file. Whole numbers are met exactly, zeros, ones
        and powers of two among them; others, which were computed, up to `slack` of their size."""
        require(found.shape == wanted.shape, f"{what} has another shape than the statement presupposes")
        rounded = wanted.astype(self.precision.name).astype(np.float64)
        room = np.where(wanted == np.rint(wanted), 0.0, slack * np.abs(wanted))
        require(bool((np.abs(found - rounded) <= room).all()), f"{what} is not what the statement presupposes")

    def same_tokens(self, name: str, wanted: np.ndarray, slack: float = 0.0) -> None:
        self.same(self.tensors[name], np.atleast_2d(wanted), name, slack)

    def same_layer(
        self,
        layer: Layer,
        label: str,
        rows: Sequence[str],
        keys: Sequence[str],
        heads: Sequence[ExpectedHead],
        R: np.ndarray | None = None,
        slack: float = 0.0,
    ) -> None:
        """The layer has these segments, heads and residual map, and nothing else."""
        where = f"the layer {label!r}"
        require(layer.label == label, f"where {where} should run, there is {layer.label!r}")
        require(layer.rows == tuple(rows) and layer.keys == tuple(keys), f"{where} sees or changes other segments")
        require(layer.heads == len(heads), f"{where} has another number of heads")
        require(("R" in layer.tensors) == (R is not None), f"{where} has another residual map")
        if R is not None:
            self.same(layer.tensors["R"], R, f"R of {where}", slack)
        for name in ("Wq", "Wk", "Wv", "Wo"):
            tensor = layer.tensors[name]
            for h, head in enumerate(heads):
                self.same(tensor[h], head.padded(name, tensor.shape[1:]), f"{name} of head {h} of {where}", slack)


def read_stack(file: ModelFile) -> Stack:
    """The stack of a file; nothing missing, nothing besides, every number finite."""
    model = file.sections["model"]
    require(set(model) == MODEL, "the model's description has other entries than that of a stack")
    precision = precision_of(model["dtype"])
    slots: dict[str, tuple[int, int]] = {str(name): (a, b) for name, (a, b) in model["slots"].items()}
    end = 0
    for start, stop in slots.values():
        laid = type(start) is type(stop) is int and start == end < stop
        require(laid, "the columns of the tokens are not laid out one after the other")
        end = stop
    expected: dict[str, tuple[int, ...]] = {name: tuple(shape) for name, shape in model["shapes"].items()}
    named = {f"base_{name}" for name in model["sources"]} | {"read", "read_coefficient"}
    named |= {f"embed_{name}" for name, source in model["sources"].items() if source != "fixed"}
    require(set(expected) == named, "the tokens of the file are not those that it describes")
    for i, layer in enumerate(model["layers"]):
        require(set(layer) == {"rows", "keys", "label", "shapes"}, f"layer {i} is described in another way")
        require(set(layer["shapes"]) - {"R"} == {"Wq", "Wk", "Wv", "Wo"}, f"layer {i} has other weights")
        expected |= {f"layers.{i}.{name}": tuple(shape) for name, shape in layer["shapes"].items()}
    sizes = [size for shape in expected.values() for size in shape]
    require(all(map(is_size, sizes)), "the shape of a tensor is damaged")
    require(set(file.tensors) == set(expected), "the file holds other tensors than it describes")
    tensors = {}
    for name, shape in expected.items():
        tensor = file.tensors[name]
        require(tensor.shape == shape and tensor.dtype == np.dtype(precision.name), f"{name} has another shape or type")
        require(bool(np.isfinite(tensor).all()), f"{name} holds numbers that are not finite")
        require(end in shape and math.prod(shape) > 0, f"{name} does not fit tokens of {end} columns")
        tensors[name] = tensor.astype(np.float64)
    layers = []
    for i, layer in enumerate(model["layers"]):
        known = set(layer["rows"]) | set(layer["keys"])
        require(known <= set(model["sources"]), f"layer {i} names a segment that does not exist")
        own = {name: tensors[f"layers.{i}.{name}"] for name in layer["shapes"]}
        heads, k, v = own["Wq"].shape[0], own["Wq"].shape[2], own["Wv"].shape[2]
        shapes = {"Wq": (heads, end, k), "Wk": (heads, end, k), "Wv": (heads, end, v), "Wo": (heads, v, end)}
        shapes["R"] = (end, end)
        require(all(tensor.shape == shapes[name] for name, tensor in own.items()), f"layer {i} has odd shapes")
        layers.append(Layer(str(layer["label"]), tuple(layer["rows"]), tuple(layer["keys"]), own))
    places = [*model["program"], model["head"], model["tail"]]
    require(all(type(place) is int and place >= 0 for place in places), "the program is damaged")
    program = [layers[place] for place in model["program"]]
    require(len(set(map(id, program))) == len(layers), "a layer of the file is never run")
    return Stack(
        dict(model["settings"]), precision, slots, dict(model["sources"]), program, model["head"],
        model["tail"], str(model["coefficient_segment"]), list(model["guards"]), tensors,
    )  # fmt: skip
