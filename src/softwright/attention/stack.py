"""`AttentionStack`: a residual stream of named columns under layers of softmax attention and linear maps.

Tokens are rows. A layer is softmax attention, a linear map of the residual stream, and nothing else:

    X_rows  <-  X_rows R  +  sum_h softmax( (X_rows Wq_h) (X_keys Wk_h)^T ) (X_keys Wv_h) Wo_h,

R the identity unless given. There is no feed-forward block, no normalisation and no mask: a head that must not see a
token gives it a score of -Omega, so that its weight underflows to exactly 0 and the scores of all others stay as they
are. The softmax is that of `scaled_dot_product_attention`.

`Slots` gives the columns of the stream names, so that a head is written as what it reads and writes. The sequence
consists of segments: those with a source hold one token per row of that input, made by one linear map; the others are
fixed tokens. A layer updates the segments `rows` and looks at the segments `keys`; what is in no `rows` is read-only.
Layers that repeat are stored once: `program` lists them in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from softwright.chunks import rows_within
from softwright.errors import Faults
from softwright.precision import name_of, precision_of
from softwright.result.constructed import Room, load_tensors
from softwright.settings import as_proved, looked_through

FIXED = "fixed"
Stream = dict[str, Tensor]  # segment -> (batch, tokens, width)


class Slots:
    """Names for the coordinates of a token."""

    def __init__(self, **sizes: int) -> None:
        self.places: dict[str, tuple[int, int]] = {}
        self.width = 0
        for name, size in sizes.items():
            self.places[name] = (self.width, self.width + size)
            self.width += size

    def select(self, name: str) -> np.ndarray:
        """(D, size): reads a slot when it multiplies a token, writes it when transposed."""
        start, stop = self.places[name]
        matrix = np.zeros((self.width, stop - start))
        matrix[start:stop] = np.eye(stop - start)
        return matrix

    def vector(self, **weights: float) -> np.ndarray:
        """(D,): a linear functional of a token, or a token, from the values of its slots."""
        vector = np.zeros(self.width)
        for name, weight in weights.items():
            start, stop = self.places[name]
            vector[start:stop] = weight
        return vector

    def residual(self, *changes: tuple[str, str, float]) -> np.ndarray:
        """(D, D): the residual map; each change (from, to, factor) sets that block, the rest is the identity."""
        matrix = np.eye(self.width)
        for source, target, factor in changes:
            (a, b), (c, d) = self.places[source], self.places[target]
            matrix[a:b, c:d] = factor * np.eye(b - a)
        return matrix


@dataclass(frozen=True)
class Segment:
    """Tokens of one kind: `base` (T, D), and unless the source is FIXED a linear map `embed` (inputs, D) of the rows of
    the input that `source` names, added to the one base row."""

    name: str
    source: str
    base: np.ndarray
    embed: np.ndarray | None = None


@dataclass(frozen=True)
class HeadWeights:
    """One head: Wq, Wk (D, k), Wv (D, v), Wo (v, D)."""

    Wq: np.ndarray
    Wk: np.ndarray
    Wv: np.ndarray
    Wo: np.ndarray


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """The heads of a layer, the segments it updates, those it reads, and the linear map of the residual stream."""

    heads: list[HeadWeights]
    rows: tuple[str, ...]
    keys: tuple[str, ...]
    R: np.ndarray | None = None
    label: str = ""


@dataclass(frozen=True)
class Blueprint:
    """Everything that makes a stack: the names of its columns, its tokens, and its layers in order."""

    slots: dict[str, tuple[int, int]]
    segments: list[Segment]
    program: list[LayerWeights]


_Part = tuple[Tensor, Tensor]
_Used = tuple[_Part, _Part, _Part, _Part]


class StackLayer(nn.Module):
    """One layer; all heads are padded to a common size so that one call of SDPA runs them."""

    Wq: Tensor
    Wk: Tensor
    Wv: Tensor
    Wo: Tensor
    R: Tensor | None

    def __init__(
        self,
        shapes: Mapping[str, Sequence[int]],
        rows: Sequence[str],
        keys: Sequence[str],
        label: str,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.rows, self.keys, self.label = tuple(rows), tuple(keys), label
        self._known: tuple[Any, _Used] | None = None
        for name in ("Wq", "Wk", "Wv", "Wo"):
            self.register_buffer(name, torch.zeros(*shapes[name], dtype=dtype))
        self.register_buffer("R", torch.zeros(*shapes["R"], dtype=dtype) if "R" in shapes else None)

    @classmethod
    def of(cls, weights: LayerWeights, dtype: torch.dtype) -> StackLayer:
        k = max(head.Wq.shape[1] for head in weights.heads)
        v = max(head.Wv.shape[1] for head in weights.heads)

        def stacked(name: str, size: int, axis: int) -> np.ndarray:
            matrices = [getattr(head, name) for head in weights.heads]
            shape = list(matrices[0].shape)
            shape[axis] = size
            padded = np.zeros((len(matrices), *shape), dtype=np.result_type(*matrices))
            for place, matrix in zip(padded, matrices, strict=True):
                place[: matrix.shape[0], : matrix.shape[1]] = matrix
            return padded

        tensors = {
            "Wq": stacked("Wq", k, 1),  # (H, D, k)
            "Wk": stacked("Wk", k, 1),
            "Wv": stacked("Wv", v, 1),  # (H, D, v)
            "Wo": stacked("Wo", v, 0),  # (H, v, D)
        }
        if weights.R is not None:
            tensors["R"] = weights.R
        layer = cls(
            {name: array.shape for name, array in tensors.items()}, weights.rows, weights.keys, weights.label, dtype
        )
        for name, array in tensors.items():
            getattr(layer, name).copy_(torch.from_numpy(array))
        return layer

    @property
    def heads(self) -> int:
        return self.Wq.shape[0]

    def attend(self, rows: Tensor, keys: Tensor) -> Tensor:
        """(B, T, D), (B, S, D) -> the sum over the heads (B, T, D)."""
        if looked_through():
            key, value, query = keys[:, None] @ self.Wk, keys[:, None] @ self.Wv, rows[:, None] @ self.Wq
            mixed = scaled_dot_product_attention(query, key, value, scale=1.0)  # (B, H, T, v)
            return mixed.transpose(1, 2).flatten(2) @ self.Wo.flatten(0, 1)
        (q, Wq), (k, Wk), (v, Wv), (o, Wo) = self._used()
        key = keys[..., k][:, None] @ Wk  # (B, H, S, k)
        value = keys[..., v][:, None] @ Wv  # (B, H, S, v)
        out = torch.zeros_like(rows)
        step = rows_within(self.row_bytes(len(rows), keys.shape[1]))  # rows do not see each other
        for start in range(0, max(1, rows.shape[1]), step):
            part = slice(start, start + step)
            mixed = scaled_dot_product_attention(rows[:, part, q][:, None] @ Wq, key, value, scale=1.0)
            out[:, part, o] = mixed.transpose(1, 2).flatten(2) @ Wo  # from (B, H, T, v)
        return out

    def row_bytes(self, batch: int, keys: int) -> int:
        """What one row of every sequence of a batch takes while it attends: scores, held twice, and its parts."""
        return batch * self.heads * (2 * keys + self.Wq.shape[2] + self.Wv.shape[2]) * self.Wq.element_size()

    def _used(self) -> _Used:
        """The coordinates that any head reads or writes, each with the weights there: a token is wide, a layer looks at
        a few of its slots, and leaving out products with zero changes nothing but time. Found again when a weight
        changes: the tensors are kept, so that no other has their address while it is compared."""
        tensors = (self.Wq, self.Wk, self.Wv, self.Wo)
        state = tuple((tensor.data_ptr(), tensor._version) for tensor in tensors)
        if self._known is None or self._known[0][0] != state:
            axes = ((0, 2), (0, 2), (0, 2), (0, 1))
            q, k, v, o = [(w != 0).sum(dim=axis).nonzero()[:, 0] for w, axis in zip(tensors, axes, strict=True)]
            read = (q, self.Wq[:, q]), (k, self.Wk[:, k]), (v, self.Wv[:, v])
            self._known = ((state, tensors), (*read, (o, self.Wo[..., o].flatten(0, 1))))
        return self._known[1]

    def description(self) -> dict[str, Any]:
        shapes = {name: list(tensor.shape) for name, tensor in self.named_buffers()}
        return {"rows": list(self.rows), "keys": list(self.keys), "label": self.label, "shapes": shapes}


def apply_layer(layer: StackLayer, stream: Stream, attend: Callable[[Tensor, Tensor], Tensor] | None = None) -> Stream:
    """The stream after one layer; `attend` runs the heads in another way."""
    with as_proved(layer.Wq):
        rows = torch.cat([stream[name] for name in layer.rows], dim=1)
        keys = torch.cat([stream[name] for name in layer.keys], dim=1)
        kept = rows if layer.R is None else rows @ layer.R
        changed = kept + (layer.attend if attend is None else attend)(rows, keys)
    lengths = [stream[name].shape[1] for name in layer.rows]
    return {**stream, **dict(zip(layer.rows, changed.split(lengths, dim=1), strict=True))}


class AttentionStack(nn.Module):
    """Layers of attention over a sequence of segments; subclasses say what goes in and what is read out."""

    def __init__(self, blueprint: Blueprint, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.slots = dict(blueprint.slots)
        self.sources = {segment.name: segment.source for segment in blueprint.segments}
        for segment in blueprint.segments:
            self.register_buffer(f"base_{segment.name}", torch.tensor(segment.base, dtype=dtype))
            if segment.embed is not None:
                self.register_buffer(f"embed_{segment.name}", torch.tensor(segment.embed, dtype=dtype))
        unique = list({id(layer): layer for layer in blueprint.program}.values())
        place = {id(layer): i for i, layer in enumerate(unique)}
        self.program = [place[id(layer)] for layer in blueprint.program]
        self.layers = nn.ModuleList([StackLayer.of(layer, dtype) for layer in unique])

    @property
    def dtype(self) -> torch.dtype:
        return self.get_buffer(f"base_{next(iter(self.sources))}").dtype

    @property
    def width(self) -> int:
        return max(stop for _, stop in self.slots.values())

    @property
    def depth(self) -> int:
        """Attention layers that a sequence passes."""
        return len(self.program)

    @property
    def parameter_count(self) -> int:
        return sum(tensor.numel() for tensor in self.state_dict().values())

    @property
    def fixed_tokens(self) -> int:
        return sum(len(self.get_buffer(f"base_{name}")) for name, source in self.sources.items() if source == FIXED)

    @property
    def distinct(self) -> list[StackLayer]:
        """The different layers; `program` says where each one runs."""
        return [layer for layer in self.layers if isinstance(layer, StackLayer)]

    def layer_at(self, position: int) -> StackLayer:
        return self.distinct[self.program[position]]

    def sequence(self, inputs: Mapping[str, Tensor]) -> Stream:
        """The tokens by segment, from inputs (B, rows, columns) by source: one linear map each, and the fixed ones."""
        batch = next(iter(inputs.values())).shape[0]
        stream: Stream = {}
        for name, source in self.sources.items():
            base = self.get_buffer(f"base_{name}")
            if source == FIXED:
                stream[name] = base.expand(batch, -1, -1)
                continue
            with as_proved(base):
                stream[name] = inputs[source] @ self.get_buffer(f"embed_{name}") + base
        return stream

    def states(
        self, stream: Stream, attend: Sequence[Callable[[Tensor, Tensor], Tensor]] | None = None
    ) -> Iterator[Stream]:
        """The stream after 0, 1, .., depth layers; `attend` runs the heads of each kind of layer in another way."""
        yield stream
        layers = self.distinct
        for place in self.program:
            stream = apply_layer(layers[place], stream, None if attend is None else attend[place])
            yield stream

    def describe(self) -> dict[str, Any]:
        return {
            "dtype": name_of(self.dtype),
            "slots": {name: list(place) for name, place in self.slots.items()},
            "sources": self.sources,
            "shapes": {name: list(tensor.shape) for name, tensor in self.named_buffers(recurse=False)},
            "program": self.program,
            "layers": [layer.description() for layer in self.distinct],
        }

    @classmethod
    def rebuilt(cls, model: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Self:
        dtype = precision_of(model["dtype"]).torch_dtype
        network = cls.__new__(cls)
        nn.Module.__init__(network)
        network.slots = {name: (int(a), int(b)) for name, (a, b) in model["slots"].items()}
        network.sources = dict(model["sources"])
        network.program = [int(place) for place in model["program"]]
        room = Room(tensors)
        for name, shape in model["shapes"].items():
            network.register_buffer(name, torch.zeros(*room.take(shape), dtype=dtype))
        stored = []
        for layer in model["layers"]:
            shapes = {name: room.take(shape) for name, shape in layer["shapes"].items()}
            stored.append(StackLayer(shapes, layer["rows"], layer["keys"], layer["label"], dtype))
        network.layers = nn.ModuleList(stored)
        load_tensors(network, tensors)
        return network


def check_blueprint(blueprint: Blueprint, dtype: str = "float64") -> None:
    """Raise if a builder made what cannot run: unknown segments, widths that differ, weights that overflow."""
    largest = precision_of(dtype).largest
    faults = Faults("AttentionStack")
    names = {segment.name for segment in blueprint.segments}
    width = max(stop for _, stop in blueprint.slots.values())
    seen: set[int] = set()
    for i, layer in enumerate(blueprint.program):
        if id(layer) in seen:  # steps of a method are one layer again and again
            continue
        seen.add(id(layer))
        unknown = {*layer.rows, *layer.keys} - names
        faults.check(not unknown, f"layer {i} names segments {sorted(unknown)} that do not exist")
        for head in layer.heads:
            faults.check(head.Wq.shape[0] == head.Wk.shape[0] == width, f"layer {i} has a head of another width")
        weights = [getattr(head, name) for head in layer.heads for name in ("Wq", "Wk", "Wv", "Wo")]
        most = max(float(np.abs(matrix).max()) for matrix in weights)
        remedy = f"has a weight of {most:.3g}, beyond {dtype}; use float64 or less extreme bounds"
        if not faults.check(most <= largest, f"layer {i} ({layer.label}) {remedy}"):
            break
    faults.raise_if_any()
