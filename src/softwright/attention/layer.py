"""Softmax heads as torch modules, run by `scaled_dot_product_attention`.

Every head is vanilla attention. The query of a point t is (t, 1), the key of token j is (k_j, b_j), so the score is
k_j.t + b_j with scale 1. Constant values make it cross-attention to fixed tokens. Affine values v_j + G_j t are values
of tokens that carry t, i.e. of self-attention (see `self_attention.py` for that token matrix spelt out). No weight
depends on them, so

    sum_j w_j (v_j + G_j t)  =  sum_j w_j v_j  +  (sum_j w_j G_j) t:

m (1 + d) constant values are attended to at once and contracted with t at the end. This is as fast as stock attention
and makes no token for each query. The rounding bounds of prover (rounding.py) and checker (head.py) charge this order.

The numbers of a head are parameters that ask for no gradient: nothing trains unless `requires_grad_` says so, and what
was built can then be trained further like any module. What must not move, the frame of a network, is a buffer.

Two facts of the CPU kernels decide the shapes: unequal widths of keys and values fall to a slow kernel, so both are
padded with zeros to the same width; and the default scale is 1/sqrt(width), so `scale=1.0` is passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from softwright.attention.head import Axis, Head, Structure
from softwright.attention.plain import plain_head, suits
from softwright.chunks import in_chunks, rows_within


def _parameter(array: np.ndarray, dtype: torch.dtype) -> nn.Parameter:
    return nn.Parameter(torch.tensor(array, dtype=dtype), requires_grad=False)


class SoftmaxHead(nn.Module):
    """One head: parameters keys (N, d), biases (N,), values (N, m) and, for affine values, slopes (N, m, d)."""

    keys: nn.Parameter
    biases: nn.Parameter
    values: nn.Parameter
    slopes: nn.Parameter | None

    def __init__(self, head: Head, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.structure: Structure = head.structure
        self.axis_sizes: tuple[int, ...] = tuple(axis.tokens for axis in head.axes)
        self.keys = _parameter(head.keys, dtype)
        self.biases = _parameter(head.biases, dtype)
        self.values = _parameter(head.values, dtype)
        self.slopes = None if head.slopes is None else _parameter(head.slopes, dtype)

    @property
    def tokens(self) -> int:
        return self.keys.shape[0]

    def forward(self, t: Tensor) -> Tensor:
        """(q, d) -> (q, m), in chunks that bound the memory; computed in the type of t."""
        if suits(self, t):
            return plain_head(self, t)
        N, d = self.keys.shape
        m = self.values.shape[1]
        key = torch.cat([self.keys, self.biases[:, None]], dim=1)  # (N, d+1)
        value = self.values if self.slopes is None else torch.cat([self.values, self.slopes.flatten(1)], dim=1)
        width = max(d + 1, value.shape[1])
        keys, values = pad(key, (0, width - d - 1)).to(t.dtype), pad(value, (0, width - value.shape[1])).to(t.dtype)
        rest = pad(t.new_ones(1, 1), (0, width - d - 1))  # what a query has beside t: (1, 0, ..., 0)

        def attend(t: Tensor) -> Tensor:
            query = torch.cat([t, rest.expand(t.shape[0], -1)], dim=1)  # (q, width)
            out = scaled_dot_product_attention(query[None, None], keys[None, None], values[None, None], scale=1.0)[0, 0]
            y = out[:, :m]
            if self.slopes is not None:
                for i in range(d):  # as many passes over (q, m) as coordinates, and no product (q, m, d) in between
                    y = torch.addcmul(y, out[:, m + i : m + m * d : d], t[:, i : i + 1])
            return y  # (q, m)

        # A fused kernel holds no scores; others hold them twice, and a query is copied once.
        return in_chunks(attend, t, rows_within((2 * N + 4 * width) * t.element_size()))

    def to_head(self) -> Head:
        """The head as data: the very numbers that run, in float64."""
        keys, biases, values = (p.detach().double().cpu().numpy() for p in (self.keys, self.biases, self.values))
        slopes = None if self.slopes is None else self.slopes.detach().double().cpu().numpy()
        if self.structure == "grid":
            axes = _axes_of_grid(keys, biases, self.axis_sizes)
            if axes is not None:
                return Head(keys, biases, values, slopes, "grid", axes)
            return Head(keys, biases, values, slopes, "scattered")
        return Head(keys, biases, values, slopes, self.structure)


def _axes_of_grid(keys: np.ndarray, biases: np.ndarray, sizes: Sequence[int]) -> tuple[Axis, ...] | None:
    """Recover the axes from the keys and biases of a grid; None if the parameters no longer form a grid."""
    d = len(sizes)
    grid_keys = keys.reshape(*sizes, d)
    grid_biases = biases.reshape(sizes)
    corner = grid_biases[(0,) * d]
    axes = []
    rebuilt = np.full(tuple(sizes), corner)
    for i in range(d):
        line = tuple(slice(None) if j == i else 0 for j in range(d))
        axis_keys, axis_biases = grid_keys[line][:, i], grid_biases[line]
        shape = [-1 if j == i else 1 for j in range(d)]
        if not np.array_equal(grid_keys[..., i], np.broadcast_to(axis_keys.reshape(shape), tuple(sizes))):
            return None
        rebuilt = rebuilt + (axis_biases - corner).reshape(shape)
        axes.append(Axis(axis_keys, axis_biases - (corner if i else 0.0)))
    return tuple(axes) if np.allclose(rebuilt, grid_biases, rtol=1e-6, atol=1e-6) else None


class AttentionLayer(nn.Module):
    """Several heads side by side; their outputs add up (the output map W_O is the sum)."""

    def __init__(self, heads: Sequence[Head], dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.heads = nn.ModuleList([SoftmaxHead(head, dtype) for head in heads])

    def __iter__(self) -> Iterator[SoftmaxHead]:
        return (cast(SoftmaxHead, head) for head in self.heads)

    @property
    def tokens(self) -> int:
        return sum(head.tokens for head in self)

    def forward(self, t: Tensor) -> Tensor:
        """(q, d) -> (q, m)"""
        return reduce(torch.add, (head(t) for head in self))
