"""`NeuronHeads`: a layer of neurons phi(W x + b), every neuron a softmax head over the tokens of one `TokenTable`.

The number s = W x + b of a neuron is linear in the token x, so it belongs to the projections of a head: the query is
(s, 1), the key of token j is (k_j, b_j), its value v_j s + u_j. Four layouts run the same formula:

softmax    scores stacked along a leading axis, `torch.softmax` over it. The fastest on a CPU, and the default.
sdpa       `scaled_dot_product_attention`, positions folded into the batch. Neurons share keys, so a head has eight of
           them: a query for each, and their values v_j s + u_j side by side, of which each query wants its own.
multihead  stock `torch.nn.MultiheadAttention` weights. For {0: 0; beta s: s} sequences of 16 positions under a mask
           that leaves each position itself and the sink token, which is `add_zero_attn`; a masked token has the weight
           0 exactly. Other tables have p tokens (v_j x, v_j, u_j, k_j, b_j), made linearly from x.
sequence   one plain sequence: all positions and the sink tokens together, no mask. Positions carry a one-hot e_i; query
           i holds -Omega (1 - e_i), so tokens of other positions get the score -Omega, kept scores are not touched.
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad, scaled_dot_product_attention

from softwright.chunks import in_chunks
from softwright.errors import InvalidInput
from softwright.precision import name_of
from softwright.settings import as_proved, looked_through
from softwright.transpiler.token_table import TokenTable

LAYOUTS = ("softmax", "sdpa", "multihead", "sequence")
_CHUNK = {"softmax": 1 << 19, "sdpa": 1 << 21, "multihead": 1 << 21, "sequence": 1 << 22}  # of the largest temporary
_GROUP = 8  # neurons of one head of `sdpa`: keys and values are as wide, since unequal widths fall to a slow kernel
_MASKED = 16  # positions of one sequence of stock attention with a zero token, each of which sees itself alone
WINDOW = 16  # positions in one sequence when the input has no axis of positions
_LONGEST = 256
OMEGA = {"float64": 1e150, "float32": 1e30}


def widened(x: Tensor, weight: Tensor) -> Tensor:
    """The numbers of a half-precision input, exactly, in the dtype of the weights: what autocast may hand over."""
    return x.to(weight.dtype) if x.dtype in (torch.bfloat16, torch.float16) else x


class NeuronHeads(nn.Module):
    """(..., d) -> (..., H): H neurons, one head each."""

    tokens: Tensor
    weight: Tensor
    bias: Tensor

    def __init__(
        self,
        weight: np.ndarray,
        bias: np.ndarray,
        table: TokenTable,
        dtype: torch.dtype = torch.float64,
        layout: str = "softmax",
    ) -> None:
        super().__init__()
        if layout not in LAYOUTS:
            raise InvalidInput("NeuronHeads", [f"layout {layout!r} is not known; use one of {', '.join(LAYOUTS)}"])
        self.layout = layout
        self.heads, self.inputs = weight.shape
        self.register_buffer("tokens", torch.tensor(table.stacked, dtype=dtype))  # (4, p)
        if layout == "multihead":
            self.attention = _stock_attention(weight, bias, self.table, dtype)
        else:
            self.register_buffer("weight", torch.tensor(weight, dtype=dtype))
            self.register_buffer("bias", torch.tensor(bias, dtype=dtype))

    @property
    def table(self) -> TokenTable:
        """The tokens as they are stored."""
        return TokenTable(*self.tokens.detach().double().cpu().numpy())

    def extra_repr(self) -> str:
        return f"inputs={self.inputs}, heads={self.heads}, tokens={self.tokens.shape[1]}, layout={self.layout!r}"

    def forward(self, x: Tensor) -> Tensor:
        with as_proved(x):
            return self._run(widened(x, self.tokens))

    def _run(self, x: Tensor) -> Tensor:
        lead = x.shape[:-1]
        if self.layout == "sequence":
            return self._sequences(x)
        rows = x.reshape(-1, x.shape[-1])  # (N, d)
        if self.layout == "multihead":
            out = self._multihead(rows)
        else:
            out = apply_table(linear(rows, self.weight, self.bias), self.tokens, self.layout)
        return out.reshape(*lead, self.heads)

    def _multihead(self, rows: Tensor) -> Tensor:
        step = max(1, _CHUNK["multihead"] // (self.attention.embed_dim * self.tokens.shape[1]))
        return in_chunks(self._stock, rows, step - step % _MASKED if step > _MASKED else step)

    def _stock(self, rows: Tensor) -> Tensor:
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

    def _sequences(self, x: Tensor) -> Tensor:
        shape = x.shape
        if x.dim() >= 3 and shape[-2] <= _LONGEST:
            return self._batches(x.reshape(-1, *shape[-2:])).reshape(*shape[:-1], self.heads)
        rows = x.reshape(-1, self.inputs)
        window = 1 if looked_through() else WINDOW  # how many rows would be missing is not known then
        missing = 0 if window == 1 else -rows.shape[0] % window
        windows = pad(rows, (0, 0, 0, missing)).reshape(-1, window, self.inputs)
        found = self._batches(windows).reshape(-1, self.heads)
        return (found[: rows.shape[0]] if missing else found).reshape(*shape[:-1], self.heads)

    def _batches(self, x: Tensor) -> Tensor:
        """Sequences (B, n, d), as many at a time as the memory for their scores allows."""
        n, p = x.shape[1], self.tokens.shape[1]
        step = max(1, _CHUNK["sequence"] // (self.heads * n * (n + 1) * p))
        return in_chunks(self._sequence, x, step)

    def _sequence(self, x: Tensor) -> Tensor:
        """x (B, n, d): n positions; tokens with affine values exist once per position, constant ones (sinks) once."""
        batch, n, _ = x.shape
        s = linear(x, self.weight, self.bias).transpose(1, 2)  # (B, H, n)
        k, b, v, u = self.tokens
        if looked_through():  # all tokens exist once per position then: the same sums
            (k_own, b_own, v_own, u_own), (k_all, b_all, u_all) = (k, b, v, u), (k[:0], b[:0], u[:0])
        else:
            affine = v != 0
            k_own, b_own, v_own, u_own = k[affine], b[affine], v[affine], u[affine]
            k_all, b_all, u_all = k[~affine], b[~affine], u[~affine]
        copies, sinks = k_own.shape[0], k_all.shape[0]
        eye = torch.eye(n, dtype=x.dtype, device=x.device)
        omega = OMEGA.get(name_of(x.dtype), 1e4)
        query = torch.cat([torch.stack([s, torch.ones_like(s)], -1), (omega * (eye - 1)).expand(*s.shape, n)], -1)
        own = torch.cat(
            [
                torch.stack([k_own, b_own], -1).expand(n, copies, 2),
                eye[:, None].expand(n, copies, n),
            ],
            -1,
        ).reshape(n * copies, n + 2)
        key = torch.cat([own, pad(torch.stack([k_all, b_all], -1), (0, n))])  # (S, n + 2), S = n copies + sinks
        value = (s[..., None] * v_own + u_own).reshape(batch, self.heads, n * copies)
        value = torch.cat([value, u_all.expand(batch, self.heads, sinks)], -1)[..., None]  # (B, H, S, 1)
        out = scaled_dot_product_attention(query, key.expand(batch, self.heads, -1, -1), value, scale=1.0)
        return out[..., 0].transpose(1, 2)  # (B, n, H)


def apply_table(s: Tensor, tokens: Tensor, layout: str) -> Tensor:
    """The head at every entry of s (N, H), in chunks that stay in the cache or bound the memory."""
    count = tokens.shape[1] * s.shape[1]
    step = max(1, _CHUNK[layout] // count)
    run = _by_softmax if layout == "softmax" else _by_sdpa
    return in_chunks(lambda part: run(part, tokens), s, step)


def _by_softmax(s: Tensor, tokens: Tensor) -> Tensor:
    keys, biases, slopes, offsets = tokens
    scores = torch.addcmul(biases[:, None, None], keys[:, None, None], s)  # (p, N, H)
    weights = torch.softmax(scores, dim=0)
    slope, offset = _mixed(weights, slopes), _mixed(weights, offsets)
    if slope is None:
        return torch.zeros_like(s) if offset is None else offset
    return slope * s if offset is None else torch.addcmul(offset, slope, s)


def _mixed(weights: Tensor, values: Tensor) -> Tensor | None:
    """sum_j w_j value_j (N, H); tokens of value 0 only take part in the softmax."""
    if looked_through():
        return torch.tensordot(values, weights, 1)
    used = [(j, value) for j, value in enumerate(values.tolist()) if value != 0.0]
    if len(used) > 4:
        return torch.tensordot(values, weights, 1)
    total = None
    for j, value in used:
        term = weights[j] if value == 1.0 else weights[j] * value
        total = term if total is None else total + term
    return total


def _by_sdpa(s: Tensor, tokens: Tensor) -> Tensor:
    """Neurons in groups: a head has one query for each neuron of its group, and their values side by side."""
    count, neurons = s.shape
    keys, biases, slopes, offsets = tokens
    missing = -neurons % _GROUP
    own = pad(s, (0, missing)) if missing else s
    groups = own.shape[1] // _GROUP
    grouped = own.reshape(count, groups, _GROUP)
    query = pad(torch.stack([grouped, torch.ones_like(grouped)], -1), (0, _GROUP - 2))  # (N, groups, G, G)
    key = pad(torch.stack([keys, biases], -1), (0, _GROUP - 2)).expand(count, groups, tokens.shape[1], _GROUP)
    value = torch.addcmul(offsets[:, None], slopes[:, None], grouped[:, :, None])  # (N, groups, p, G)
    found = scaled_dot_product_attention(query, key, value, scale=1.0)  # of query g the number g is wanted
    return torch.diagonal(found, dim1=2, dim2=3).reshape(count, -1)[:, :neurons]


def _stock_attention(
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
