"""`NeuronHeads`: a layer of neurons phi(W x + b), every neuron a softmax head over the tokens of one `TokenTable`.

The number s = W x + b of a neuron is linear in the token x, so it belongs to the projections of a head: the query is
(s, 1), the key of token j is (k_j, b_j), its value v_j s + u_j. Five layouts run the same formula:

softmax    scores stacked along a leading axis, `torch.softmax` over it, or its closed form (`closed_softmax.py`). The
           fastest on a CPU, and the default.
double     the same in float64 on float32 weights and inputs; what `ends` a network rounds to float32, once.
sdpa       `scaled_dot_product_attention`. All neurons of all positions share keys and values (v_j, u_j), so they are
           the queries of one head; with what it returns, (v, u), the neuron is v s + u, since sum_j w_j (v_j s + u_j)
           = (sum_j w_j v_j) s + sum_j w_j u_j.
           Where all u_j are 0, or all v_j, numbers are enough: queries s, keys k_j, values v_j, or u_j, and the biases
           as `attn_mask`; the neuron is v s, or u.
multihead  the same head as a stock `torch.nn.MultiheadAttention` of width 4: queries (s, 1, 0, 0), tokens (k_j, b_j,
           v_j, u_j), of which the key projection takes the first two and the value projection the others. Queries are
           doubled, since stock attention divides scores by the root of 4. Of width 1 where numbers are enough,
           unless a file of an earlier version holds one of width 4.
           Where each neuron has two tokens without biases, sdpa and multihead take four neurons into one softmax
           (`grouped_heads.py`), unless `group` is 1, as in files of earlier versions.
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
from softwright.transpiler.closed_softmax import EvenTokens, Pair, by_powers, by_sigmoid, closed_form, derived
from softwright.transpiler.grouped_heads import by_groups, choices, group_of, groups, mixed, times
from softwright.transpiler.token_table import TokenTable

LAYOUTS = ("softmax", "double", "sdpa", "multihead", "sequence")
_CHUNK = {
    "softmax": 1 << 19,
    "sdpa": 1 << 18,
    "multihead": 1 << 18,
    "sequence": 1 << 22,
}  # of the largest temporary
_VECTOR = 16  # numbers of float32
WIDTH = 4  # of queries, keys and values of stock attention, whose root divides scores exactly
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
        group: int = 1,
        width: int | None = None,
    ) -> None:
        """`group`: how many neurons share a softmax, that of `group_of` or 1; `width` of stock attention, the least
        that there is unless given."""
        super().__init__()
        if layout not in LAYOUTS:
            raise InvalidInput("NeuronHeads", [f"layout {layout!r} is not known; use one of {', '.join(LAYOUTS)}"])
        if group not in (1, group_of(table, layout)):
            raise InvalidInput("NeuronHeads", [f"heads of these tokens cannot be taken by {group} in layout {layout}"])
        self.layout, self.ends, self.group = layout, False, group
        self.sloped = bool(table.slopes.any())
        self.heads, self.inputs = weight.shape
        self.register_buffer("tokens", torch.tensor(table.stacked, dtype=dtype))  # (4, p)
        self.register_buffer("weight", torch.tensor(weight, dtype=dtype))
        self.register_buffer("bias", torch.tensor(bias, dtype=dtype))
        if layout == "multihead":
            least = 1 if group == 1 and table.one_kind else WIDTH
            if width not in (None, least, WIDTH):
                raise InvalidInput("NeuronHeads", [f"these heads do not fit into stock attention of width {width}"])
            self.attention = stock_attention(dtype, group, width or least)

    @property
    def table(self) -> TokenTable:
        """The tokens as they are stored."""
        return TokenTable(*self.tokens.detach().double().cpu().numpy())

    def affine(self) -> tuple[Tensor, Tensor]:
        """W and b."""
        return self.weight, self.bias

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
        if self.layout == "double":
            s = linear(rows.double(), self.weight.double(), self.bias.double())  # (N, H)
            found = apply_table(s, self.tokens.double(), "softmax").reshape(*lead, self.heads)
            return found.to(self.tokens.dtype) if self.ends else found
        s = linear(rows, self.weight, self.bias)  # (N, H)
        if self.layout == "multihead":
            out = in_chunks(self._stock, s, _rows(self.layout, s, WIDTH if self.group == 1 else 1))
        elif self._shared(s):
            out = in_chunks(lambda part: by_groups(part, self.tokens, self.sloped), s, _rows(self.layout, s, 1))
        else:
            out = apply_table(s, self.tokens, self.layout)
        return out.reshape(*lead, self.heads)

    def _shared(self, s: Tensor) -> bool:
        """Whether neurons share a softmax: not where derivatives are taken, in which beta times roundings of the sums
        over a group would stand, and not in recorded graphs, which serve for derivatives too."""
        return self.group > 1 and not derived(s) and not looked_through()

    def _stock(self, s: Tensor) -> Tensor:
        if self._shared(s):
            return stock_groups(self.attention, s, self.tokens, self.sloped)
        if self.attention.embed_dim == 1:
            return stock_numbers(self.attention, s, self.tokens, self.sloped)
        return stock_single(self.attention, s, self.tokens, self.group)

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


def _rows(layout: str, s: Tensor, numbers: int) -> int:
    """How many rows of s (N, H) run at a time, with so many numbers for each neuron."""
    return max(1, _CHUNK[layout] // (numbers * s.shape[1]))


def apply_table(s: Tensor, tokens: Tensor, layout: str) -> Tensor:
    """The head at every entry of s (N, H), in chunks that stay in the cache or bound the memory."""
    if layout == "softmax":
        known = closed_form(s, tokens)
        if isinstance(known, Pair):
            return in_chunks(lambda part: by_sigmoid(part, known), s, _rows(layout, s, 2))
        if isinstance(known, EvenTokens):
            return by_powers(s, known)
        return in_chunks(lambda part: _by_softmax(part, tokens), s, _rows(layout, s, tokens.shape[1]))
    return in_chunks(lambda part: _by_sdpa(part, tokens), s, _rows(layout, s, WIDTH))


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


def stock_groups(attention: nn.Module, s: Tensor, tokens: Tensor, sloped: bool) -> Tensor:
    """The heads of pairs at every entry of s (N, H) by stock attention, four in one softmax."""
    key, value = choices(tokens, sloped)
    return mixed(attention(groups(s)[None], key[None], value[None], need_weights=False)[0], s, sloped)


def stock_single(attention: nn.Module, s: Tensor, tokens: Tensor, group: int) -> Tensor:
    """The head at every entry of s (N, H) by stock attention, made for groups or not."""
    key = value = _filled(tokens).T[None]  # (1, p, 4)
    if group > 1:  # the stock module takes keys and values as they are
        key, value = (pad(part.T[None], (0, WIDTH - 2)) for part in tokens.split(2))
    found = attention(_queries(s, WIDTH), key, value, need_weights=False)[0][0]  # (N H, 4)
    return torch.addcmul(found[:, 1], found[:, 0], s.reshape(-1)).reshape(s.shape)


def stock_numbers(attention: nn.Module, s: Tensor, tokens: Tensor, sloped: bool) -> Tensor:
    """The head at every entry of s (N, H) by stock attention of width 1, tokens having values of one kind."""
    keys, biases, slopes, offsets = _filled(tokens)
    key, value = (part[None, :, None] for part in (keys, slopes if sloped else offsets))
    mask = biases.expand(s.numel(), -1)  # (N H, p)
    found = attention(s.reshape(1, -1, 1), key, value, need_weights=False, attn_mask=mask)[0].reshape(s.shape)
    return times(found, s) if sloped else found


def _queries(s: Tensor, width: int) -> Tensor:
    """(1, N H, width): every number is a query (s, 1), or (s, 1, 0, 0)."""
    flat = s.reshape(-1)
    if derived(s) or looked_through():
        return torch.stack([flat, torch.ones_like(flat), *[torch.zeros_like(flat)] * (width - 2)], -1)[None]
    found = flat.new_zeros(1, len(flat), width)
    found[..., 0], found[..., 1] = flat, 1.0
    return found


def _filled(tokens: Tensor) -> Tensor:
    """Tokens (4, p), and such without weight up to a multiple of a vector of float32, which the kernel takes at once.

    Their score is -1e30 and their value 0: while one of the others is above -1e29, as for any s where keys have both
    signs or one is 0, e to the difference is 0, and nothing changes in any sum."""
    missing = -tokens.shape[1] % _VECTOR
    if tokens.dtype != torch.float32 or tokens.shape[1] < _VECTOR // 2 or not missing or looked_through():
        return tokens
    keys = tokens[0].tolist()
    if not min(keys) <= 0.0 <= max(keys):
        return tokens
    filled = pad(tokens, (0, missing))
    filled[1, tokens.shape[1] :] = -1e30
    return filled


def _by_sdpa(s: Tensor, tokens: Tensor) -> Tensor:
    tokens = _filled(tokens)
    if not looked_through():
        _, shifted, sloped, moved = (any(row) for row in tokens.tolist())
        if not (sloped and moved):
            keys, biases, slopes, offsets = tokens[:, None, None]  # (1, 1, p) each
            key, value = keys[..., None], (slopes if sloped else offsets)[..., None]
            mask = biases[None] if shifted else None
            query = s.reshape(1, 1, -1, 1)
            found = scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=1.0).reshape(s.shape)
            return times(found, s) if sloped else found
    key, value = (part.T.contiguous()[None, None] for part in tokens.split(2))  # (1, 1, p, 2)
    found = scaled_dot_product_attention(_queries(s, 2)[None], key, value, scale=1.0)[0, 0]  # (N H, 2)
    return torch.addcmul(found[:, 1], found[:, 0], s.reshape(-1)).reshape(s.shape)


def stock_attention(dtype: torch.dtype, group: int, width: int = WIDTH) -> nn.MultiheadAttention:
    """One head: queries (2 s, 2), keys (k_j, b_j) and values (v_j, u_j) of tokens (k_j, b_j, v_j, u_j); of groups,
    queries 2 (s_1, .., s_4), and keys and values as they are given; of width 1 all are as they are given."""
    module = nn.MultiheadAttention(width, 1, batch_first=True, dtype=dtype)
    query, key, value = torch.eye(width, dtype=dtype).repeat(3, 1, 1)
    if group == 1 and width == WIDTH:
        query[2:], key[2:], value[:] = 0.0, 0.0, 0.0
        value[0, 2] = value[1, 3] = 1.0
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.cat([math.sqrt(width) * query, key, value]))
        cast(Tensor, module.in_proj_bias).zero_()
        module.out_proj.weight.copy_(torch.eye(width, dtype=dtype))
        module.out_proj.bias.zero_()
    return module.train(False).requires_grad_(False)
