"""`SeparateHeads`: how files of earlier versions hold the layout multihead, a stock head for each neuron.

For {0: 0; beta s: s} a stock module is given sequences of 16 positions under a mask that leaves each position itself
and the sink token, which is `add_zero_attn`; a masked token has the weight 0 exactly. Other tables have p tokens (v_j
x, v_j, u_j, k_j, b_j), made linearly from x, which every head projects for itself: p times the work of the layer and
more, which is why it is no longer built.
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from softwright.chunks import in_chunks
from softwright.settings import looked_through
from softwright.transpiler.neuron_heads import NeuronHeads
from softwright.transpiler.token_table import TokenTable

_CHUNK = 1 << 21  # entries of the largest temporary
_MASKED = 16  # positions of one sequence with a zero token, each of which sees itself alone


class SeparateHeads(NeuronHeads):
    """(..., d) -> (..., H): H neurons, one stock head each."""

    def __init__(self, weight: np.ndarray, bias: np.ndarray, table: TokenTable, dtype: torch.dtype) -> None:
        nn.Module.__init__(self)  # its weights are those of the stock module
        self.layout = "multihead"
        self.heads, self.inputs = weight.shape
        self.register_buffer("tokens", torch.tensor(table.stacked, dtype=dtype))  # (4, p)
        self.attention = _separate_attention(weight, bias, self.table, dtype)

    def _run(self, x: Tensor) -> Tensor:
        return self._multihead(x.reshape(-1, x.shape[-1])).reshape(*x.shape[:-1], self.heads)

    def affine(self) -> tuple[Tensor, Tensor]:
        """W and b as the value projection of the stock module holds them."""
        module, d = self.attention, self.inputs
        value = module.v_proj_weight if module.in_proj_weight is None else module.in_proj_weight[2 * module.embed_dim :]
        if module.add_zero_attn:
            return cast(Tensor, value), module.in_proj_bias[2 * module.embed_dim :]
        rows = slice(0, module.head_dim * self.heads, module.head_dim)
        return cast(Tensor, value)[rows, :d], cast(Tensor, value)[rows, d]

    def _multihead(self, rows: Tensor) -> Tensor:
        step = max(1, _CHUNK // (self.attention.embed_dim * self.tokens.shape[1]))
        return in_chunks(self._projected, rows, step - step % _MASKED if step > _MASKED else step)

    def _projected(self, rows: Tensor) -> Tensor:
        size = self.attention.embed_dim
        if self.attention.add_zero_attn:
            return self._with_sink(rows)
        k, b, v, u = self.tokens  # (p,) each
        constant = torch.stack([v, u, k, b], dim=1).expand(rows.shape[0], -1, 4)  # (N, p, 4)
        tokens = torch.cat([rows[:, None] * v[:, None], constant], dim=2)  # (N, p, d + 4)
        query = pad(rows, (0, size - self.inputs))[:, None]  # (N, 1, E)
        return self.attention(query, tokens, tokens, need_weights=False)[0][:, 0, : self.heads]

    def _with_sink(self, rows: Tensor) -> Tensor:
        """Sequences of some positions, each of which sees itself and the zero token; single ones if little is known."""
        # A weight of 0 keeps numbers out, but not what is no number.
        alone = looked_through() or rows.shape[0] < _MASKED or not bool(torch.isfinite(rows).all())
        length = 1 if alone else _MASKED
        missing = -rows.shape[0] % length if length > 1 else 0
        tokens = (pad(rows, (0, 0, 0, missing)) if missing else rows).reshape(-1, length, self.inputs)
        query = rows.new_zeros(tokens.shape[0], length, self.attention.embed_dim)
        mask = None
        if length > 1:
            mask = torch.full((length, length), -math.inf, dtype=rows.dtype, device=rows.device).fill_diagonal_(0.0)
        found = self.attention(query, tokens, tokens, need_weights=False, attn_mask=mask)[0]
        return found.reshape(-1, self.attention.embed_dim)[: rows.shape[0], : self.heads]


def _separate_attention(
    weight: np.ndarray, bias: np.ndarray, table: TokenTable, dtype: torch.dtype
) -> nn.MultiheadAttention:
    """Stock multi-head attention with one head per neuron; the output projection passes the heads on."""
    H, d = weight.shape
    W, c = torch.tensor(weight, dtype=dtype), torch.tensor(bias, dtype=dtype)
    beta = table.sink_gate
    if beta is not None:
        module = nn.MultiheadAttention(H, H, add_zero_attn=True, kdim=d, vdim=d, batch_first=True, dtype=dtype)
        query, key, value = torch.zeros(H, H, dtype=dtype), W, W
        offset = torch.cat([torch.full((H,), beta, dtype=dtype), c, c])
        out = torch.eye(H, dtype=dtype)
    else:
        width = 2 if table.biases.any() else 1  # a head of width 1 has no room for biases; its scores are not scaled
        size = max(H, math.ceil(d / width))  # the query holds x, so width * size >= d
        wide = width * size
        module = nn.MultiheadAttention(wide, size, kdim=d + 4, vdim=d + 4, batch_first=True, dtype=dtype)
        root = math.sqrt(width)  # stock attention divides scores by the root of the head's width
        first, second = slice(0, width * H, width), slice(1, width * H, width)
        query, key, value = (torch.zeros(wide, n, dtype=dtype) for n in (wide, d + 4, d + 4))
        offset = torch.zeros(3 * wide, dtype=dtype)
        query[first, :d] = root * W
        offset[first] = root * c
        key[first, d + 2] = 1.0
        if width == 2:
            offset[second] = root
            key[second, d + 3] = 1.0
        value[first, :d] = W
        value[first, d] = c
        value[first, d + 1] = 1.0
        out = torch.zeros(wide, wide, dtype=dtype)
        out[torch.arange(H), width * torch.arange(H)] = 1.0
    with torch.no_grad():
        if module.in_proj_weight is not None:  # torch packs the three when kdim = vdim = embed_dim
            module.in_proj_weight.copy_(torch.cat([query, key, value]))
        else:
            cast(Tensor, module.q_proj_weight).copy_(query)
            cast(Tensor, module.k_proj_weight).copy_(key)
            cast(Tensor, module.v_proj_weight).copy_(value)
        cast(Tensor, module.in_proj_bias).copy_(offset)
        module.out_proj.weight.copy_(out)
        module.out_proj.bias.zero_()
    return module.train(False).requires_grad_(False)
