"""`ComposedNetwork`: a formula as a stack of attention layers over one data token and fixed tokens.

The sequence is the data token, which holds a 1, the inputs and the features, and T fixed tokens that are read and never
written. A layer is vanilla attention with W_Q, W_K, W_V, W_O and a residual stream, nothing else:

    x  <-  x + sum_h softmax((x Wq_h) (X Wk_h)^T) (X Wv_h) Wo_h,      X = [x, fixed tokens].

Two kinds of heads. A *table* looks at fixed tokens alone: its scores are k_j t + b_j with t a linear form of x. A
*gate* looks at the data token itself and at the first fixed token, which has score 0 and value 0. Tokens that a head
does not look at get a score so low that their weight underflows to exactly 0, so leaving them out of the sums, as
`forward` does, changes nothing but time; `states` and `multihead` run every layer over the whole sequence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from softwright.attention.few_points import points_by_name
from softwright.attention.gates_in_columns import gates_in_columns, suits
from softwright.attention.multihead import as_multihead, runner
from softwright.attention.one_point_of_stacks import stack_at_one_point, stack_of_array
from softwright.attention.stack import AttentionStack, Blueprint, StackLayer
from softwright.attention.view import AttentionView
from softwright.chunks import in_chunks, rows_within
from softwright.domain import Box
from softwright.errors import InvalidInput
from softwright.settings import looked_through, runs_as_proved

DATA, BANK = "data", "bank"


class ComposedNetwork(AttentionStack):
    """Points of a box in, values out. `features` are the texts of what the columns of the stream hold, by column."""

    kind: ClassVar[str] = "composition"
    read: Tensor

    def __init__(
        self,
        blueprint: Blueprint,
        read: np.ndarray,
        box: Box,
        features: Sequence[str],
        tables: Sequence[int],
        tokens: int,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        """`tables` says how many heads of each layer are tables: they come first. `read` (D, m) gives the outputs;
        `tokens` is how many tokens the heads look at, summed over heads."""
        super().__init__(blueprint, dtype)
        self.box, self.features, self.tables = box, tuple(features), tuple(tables)
        self.tokens = tokens
        self.register_buffer("read", torch.tensor(read, dtype=dtype))

    @property
    def names(self) -> tuple[str, ...]:
        return self.box.names

    @property
    def outputs(self) -> int:
        return self.read.shape[1]

    @property
    def heads(self) -> int:
        return sum(layer.heads for layer in self.distinct)

    def embedded(self, x: Tensor) -> dict[str, Tensor]:
        """The sequence of points (n, d), by segment: (n, 1, D) and (n, T, D)."""
        return self.sequence({"point": x[:, None]})

    def forward(self, x: Tensor) -> Tensor:
        """(..., d) -> (..., m), in chunks that bound the memory."""
        if not looked_through():
            found = stack_at_one_point(self, x)
            if found is not None:
                return found
        return self._forward(x)

    @runs_as_proved
    def _forward(self, x: Tensor) -> Tensor:
        if x.shape[-1:] != (self.box.dim,):
            wanted = f"{self.box.dim} number(s), {', '.join(self.names)}"
            raise InvalidInput("ComposedNetwork", [f"the last axis must hold {wanted}; got shape {tuple(x.shape)}"])
        if x.dtype != self.dtype:
            fault = f"input is {x.dtype}, the network {self.dtype}; use x.to({self.dtype}) or network.to({x.dtype})"
            raise InvalidInput("ComposedNetwork", [fault])
        points = x.reshape(-1, x.shape[-1])
        widest = max(layer.heads * (6 * layer.Wq.shape[2] + self.fixed_tokens) for layer in self.distinct)
        rows = rows_within(x.element_size() * (widest + 2 * self.width))
        return in_chunks(self._run, points, rows).reshape(*x.shape[:-1], self.outputs)

    def _run(self, x: Tensor) -> Tensor:
        """(n, d) -> (n, m)"""
        for stream in self._states(x):
            x = stream
        return x @ self.read

    def _states(self, x: Tensor) -> Iterator[Tensor]:
        """The data tokens (n, D) before the first layer and after each, looking only at tokens that have weight."""
        stream = x @ self.get_buffer(f"embed_{DATA}") + self.get_buffer(f"base_{DATA}")
        yield stream
        bank = self.get_buffer(f"base_{BANK}")  # (T, D)
        for place, count in zip(self.program, self.tables, strict=True):
            layer = self.distinct[place]
            out = []
            if count:
                out.append(_table_heads(layer, count, stream, bank))
            if count < layer.heads:
                out.append(_gate_heads(layer, count, stream, bank[0]))
            mixed = torch.cat(out)  # (H, n, v)
            stream = stream + torch.einsum("hnv,hvd->nd", mixed, layer.Wo)
            yield stream

    def columns(self, points: Any) -> dict[str, np.ndarray]:
        """What every column of the stream holds at points (n, d), by its text."""
        x = torch.tensor(np.asarray(points, dtype=np.float64)).to(self.dtype)
        with torch.no_grad():
            *_, last = self._states(x)
        return {text: last[:, i].double().numpy() for i, text in enumerate(self.features)}

    def whole_sequence(self, x: Tensor) -> Tensor:
        """(n, d) -> (n, m) with every layer over the whole sequence: `scaled_dot_product_attention` as it comes."""
        *_, last = self.states(self.embedded(x))
        return (last[DATA] @ self.read)[:, 0]

    def multihead(self, x: Tensor) -> Tensor:
        """(n, d) -> (n, m) with every layer a stock `nn.MultiheadAttention` over the whole sequence."""
        runs = [runner(as_multihead(layer)) for layer in self.distinct]
        *_, last = self.states(self.embedded(x), attend=runs)
        return (last[DATA] @ self.read)[:, 0]

    def evaluate(self, points: Any = None, /, **named: Any) -> np.ndarray:
        """NumPy in, NumPy out: points (..., d) in any float type, or one array per variable by name."""
        points = np.asarray(self._points(named) if points is None else points, dtype=np.float64)
        found = stack_of_array(self, points)
        if found is not None:
            return found
        with torch.no_grad():
            if suits(self, points, self.get_buffer(f"base_{BANK}")[0]):
                layers = [self.layer_at(position) for position in range(self.depth)]
                frame = self.get_buffer(f"embed_{DATA}"), self.get_buffer(f"base_{DATA}")
                return gates_in_columns(layers, *frame, self.read, points)
            return self(torch.tensor(points).to(self.dtype)).double().numpy()

    def attention(self, points: Any = None, /, **named: Any) -> AttentionView:
        """What the data token of one point reads in every layer and head."""
        from softwright.attention.stack_view import view_of_stack

        x = np.asarray(self._points(named) if points is None else points, dtype=np.float64)
        if x.size != self.box.dim:
            raise InvalidInput("attention", [f"give one point, {self.box.dim} number(s); got shape {x.shape}"])
        point = torch.tensor(x.reshape(1, -1)).to(self.dtype)
        return view_of_stack(self, self.embedded(point), rows=DATA)

    def _points(self, named: Mapping[str, Any]) -> np.ndarray:
        return points_by_name(self.names, named, "ComposedNetwork")

    def facts(self) -> list[tuple[str, str]]:
        sides = ", ".join(f"{name} in [{low:g}, {high:g}]" for name, low, high in self.box)
        return [
            ("domain", sides),
            ("layers", f"{self.depth} of softmax attention, {self.heads} heads"),
            ("tokens", f"{self.tokens} over all heads, {self.fixed_tokens} fixed ones and the data token"),
            ("width", str(self.width)),
            ("features", str(len(self.features) - 1 - self.box.dim)),
        ]

    def describe(self) -> dict[str, Any]:
        return {
            "box": self.box.as_dict(),
            "variables": list(self.names),
            "features": list(self.features),
            "tables": list(self.tables),
            "tokens": self.tokens,
            **super().describe(),
        }

    @classmethod
    def rebuilt(cls, model: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Self:
        network = super().rebuilt(model, tensors)
        network.box = Box({name: model["box"][name] for name in model["variables"]})
        network.features = tuple(model["features"])
        network.tables = tuple(int(count) for count in model["tables"])
        network.tokens = int(model["tokens"])
        return network

    def extra_repr(self) -> str:
        size = f"{self.depth} layers, {self.tokens} tokens, {self.dtype}"
        return f"{', '.join(self.names)} -> {self.outputs} output(s), {size}"


def _table_heads(layer: StackLayer, count: int, stream: Tensor, bank: Tensor) -> Tensor:
    """The first heads of a layer on streams (n, D): all points are queries of the same fixed tokens. (H, n, v)"""
    queries = stream[None] @ layer.Wq[:count]  # (H, n, k)
    keys, values = bank[None] @ layer.Wk[:count], bank[None] @ layer.Wv[:count]  # (H, T, k), (H, T, v)
    return scaled_dot_product_attention(queries, keys, values, scale=1.0)


def _gate_heads(layer: StackLayer, first: int, stream: Tensor, null: Tensor) -> Tensor:
    """The other heads: each point looks at its own token and at the null token. (H, n, v)"""
    queries = stream[None] @ layer.Wq[first:]  # (H, n, k)
    own_keys, own_values = stream[None] @ layer.Wk[first:], stream[None] @ layer.Wv[first:]
    null_keys, null_values = null @ layer.Wk[first:], null @ layer.Wv[first:]  # (H, k), (H, v)
    keys = torch.stack([own_keys, null_keys[:, None].expand_as(own_keys)], dim=2)  # (H, n, 2, k)
    values = torch.stack([own_values, null_values[:, None].expand_as(own_values)], dim=2)  # (H, n, 2, v)
    return scaled_dot_product_attention(queries[:, :, None], keys, values, scale=1.0)[:, :, 0]
