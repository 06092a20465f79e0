"""`GatedHeads`: a layer of gated units phi(a) b, with a = W_g x + c_g and b = W_u x + c_u, made of softmax heads.

A gate that is itself a softmax weight needs one head: sigmoid(a) b = {a: b, 0: 0} and tanh(a) b = {a: b, -a: -b},
exactly. Any other gate needs a product. Heads {k delta u: b, -k delta u: -b} return b tanh(k delta u), and

    b u  =  b/delta sum_k c_k tanh(k delta u) + error,     sum_k c_k k = 1,  sum_k c_k k^{2n+1} = 0 for 0 < n < K,

with the odd Richardson weights c_k, k = 1..K (theory, section 5). The Taylor coefficients t_n of tanh satisfy
|t_n| <= (2/pi)^{2n}, because tanh z = sum_i 8z/((2i-1)^2 pi^2 + 4 z^2); so for |u| <= U and rho = delta U

    |error| <= |b| U sum_k |c_k| k q_k^{2K} / (1 - q_k^2),     q_k = 2 k rho/pi < 1,

while rounding costs about one unit in the last place of 1, times |b| U/rho. rho is where the two meet. The product is
therefore accurate relative to U, the largest |phi(a)| allowed for, which is why a block with such a gate needs the
range of its inputs. Here u = phi(a) comes from `NeuronHeads`, so the unit is two layers of attention.

By attention kernels a head {t: b, c t: c b} runs as b {t: 1, c t: c}, and four units share a softmax
(`grouped_heads.py`), but for files of earlier versions (`group` 1) and where derivatives are taken.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad, scaled_dot_product_attention

from softwright.chunks import in_chunks
from softwright.errors import InvalidInput
from softwright.settings import as_proved, looked_through
from softwright.transpiler.closed_softmax import derived
from softwright.transpiler.grouped_heads import GROUP, GROUPED_LAYOUTS, by_groups, group_of
from softwright.transpiler.neuron_heads import (
    LAYOUTS,
    NeuronHeads,
    stock_attention,
    stock_groups,
    stock_single,
    widened,
)
from softwright.transpiler.token_table import TokenTable

GATED_LAYOUTS = ("softmax", "sdpa", "multihead")
_CHUNK = 1 << 20


class GatedHeads(nn.Module):
    """(..., d) -> (..., H). `steps` are k delta and `shares` c_k/delta, (K,); none of both for a direct gate."""

    steps: Tensor
    shares: Tensor
    gate_weight: Tensor
    gate_bias: Tensor
    value_weight: Tensor
    value_bias: Tensor

    def __init__(
        self,
        gate: tuple[np.ndarray, np.ndarray],
        value: tuple[np.ndarray, np.ndarray],
        table: TokenTable | None,
        second: float,
        steps: np.ndarray,
        shares: np.ndarray,
        dtype: torch.dtype = torch.float64,
        layout: str = "softmax",
        group: int = 1,
    ) -> None:
        """`group`: how many units share a softmax, 4 or 1."""
        super().__init__()
        if layout not in GATED_LAYOUTS:
            known = " or ".join(GATED_LAYOUTS)
            why = "has no gated form; use" if layout in LAYOUTS else "is not known; use"
            raise InvalidInput("GatedHeads", [f"layout {layout!r} {why} {known}"])
        if group not in (1, GROUP) or (group > 1 and layout not in GROUPED_LAYOUTS):
            raise InvalidInput("GatedHeads", [f"units cannot be taken by {group} in layout {layout}"])
        self.layout, self.second, self.group = layout, second, group
        self.heads, self.inputs = gate[0].shape
        if table is None:
            self.gate = None
            self._keep(dtype, gate_weight=gate[0], gate_bias=gate[1])
        else:
            self.gate = NeuronHeads(*gate, table, dtype, layout, 1 if group == 1 else group_of(table, layout))
        self._keep(dtype, value_weight=value[0], value_bias=value[1], steps=steps, shares=shares)
        if layout == "multihead" and group > 1:
            self.product = stock_attention(dtype, group)
        elif layout == "multihead":
            self.product = _stock_product(
                self.heads, self.steps.double().numpy(), self.shares.double().numpy(), second, dtype
            )

    def _keep(self, dtype: torch.dtype, **arrays: np.ndarray) -> None:
        for name, array in arrays.items():
            self.register_buffer(name, torch.tensor(array, dtype=dtype))

    def extra_repr(self) -> str:
        return f"inputs={self.inputs}, units={self.heads}, heads per unit={len(self.steps)}, layout={self.layout!r}"

    def forward(self, x: Tensor) -> Tensor:
        with as_proved(x):
            return self._run(widened(x, self.steps))

    def _run(self, x: Tensor) -> Tensor:
        lead = x.shape[:-1]
        rows = x.reshape(-1, self.inputs)
        step = max(1, _CHUNK // (self.heads * len(self.steps)))
        return in_chunks(self._rows, rows, step).reshape(*lead, self.heads)

    def _rows(self, x: Tensor) -> Tensor:
        u = linear(x, self.gate_weight, self.gate_bias) if self.gate is None else self.gate(x)  # (N, H)
        b = linear(x, self.value_weight, self.value_bias)
        if self.group > 1 and (self.layout == "multihead" or not (derived(u) or looked_through())):
            return self._groups(u, b)
        if self.layout == "multihead":
            signs = x.new_tensor([1.0, self.second])[:, None]  # tokens (u, b) and second (u, b)
            tokens = torch.cat([u, b], dim=1)[:, None] * signs  # (N, 2, 2H)
            query = x.new_zeros(x.shape[0], 1, self.product.embed_dim)
            return self.product(query, tokens, tokens, need_weights=False)[0][:, 0, : self.heads]
        if self.layout == "softmax" and self.second in (0.0, -1.0) and not looked_through():
            return self._closed(u, b)
        direct = self.steps.shape[0] == 1 and not looked_through() and float(self.shares[0]) == 1.0
        total = None
        for step, share in zip(self.steps, self.shares, strict=True):
            part = self._head(step * u, b)
            term = part if direct else share * part
            total = term if total is None else total + term
        return cast(Tensor, total)

    def _groups(self, u: Tensor, b: Tensor) -> Tensor:
        """The same, four units to a softmax, or by the stock module that is made for that."""
        second, total = self.second, None
        tokens = u.new_tensor([[1.0, second], [0.0, 0.0], [0.0, 0.0], [1.0, second]])
        shared = not (derived(u) or looked_through())
        for step, share in zip(self.steps, self.shares, strict=True):
            t = step * u  # (N, H)
            if self.layout == "sdpa":
                part = by_groups(t, tokens, False)
            else:
                stock = cast(nn.Module, self.product)
                part = stock_groups(stock, t, tokens, False) if shared else stock_single(stock, t, tokens, self.group)
            term = share * (part * b)
            total = term if total is None else total + term
        return cast(Tensor, total)

    def _closed(self, u: Tensor, b: Tensor) -> Tensor:
        """The same, the softmax of two tokens being a sigmoid: w for c = 0, 2 w - 1 for c = -1."""
        total = None
        for step, share in zip(self.steps.tolist(), self.shares.tolist(), strict=True):
            rate = step if self.second == 0.0 else 2.0 * step
            part = torch.sigmoid(u if rate == 1.0 else u * rate)  # (N, H)
            part = part if self.second == 0.0 else part * 2.0 - 1.0
            first = part if share == 1.0 else part * share
            total = first if total is None else torch.add(total, part, alpha=share)
        return cast(Tensor, total) * b

    def _head(self, score: Tensor, b: Tensor) -> Tensor:
        """{score: b, second * score: second * b}"""
        scores = torch.stack([score, self.second * score])  # (2, N, H)
        if self.layout == "softmax":
            weights = torch.softmax(scores, dim=0)
            return weights[0] * b if self.second == 0.0 else (weights[0] - weights[1]) * b
        key = scores.permute(1, 2, 0)[..., None]  # (N, H, 2, 1)
        value = torch.stack([b, self.second * b], -1)[..., None]
        query = torch.ones_like(b)[..., None, None]  # (N, H, 1, 1)
        return scaled_dot_product_attention(query, key, value, scale=1.0)[..., 0, 0]


def _stock_product(
    heads: int, steps: np.ndarray, shares: np.ndarray, second: float, dtype: torch.dtype
) -> nn.MultiheadAttention:
    """Stock attention over the two tokens (u, b) and second (u, b): a head for every unit and every step."""
    order = len(steps)
    size = heads * order
    module = nn.MultiheadAttention(size, size, kdim=2 * heads, vdim=2 * heads, batch_first=True, dtype=dtype)
    key, value = np.zeros((size, 2 * heads)), np.zeros((size, 2 * heads))
    out = np.zeros((size, size))
    unit = np.repeat(np.arange(heads), order)
    rows = np.arange(size)
    key[rows, unit] = np.tile(steps, heads)
    value[rows, heads + unit] = 1.0
    out[unit, rows] = np.tile(shares, heads)
    with torch.no_grad():
        if module.in_proj_weight is not None:
            stacked = np.concatenate([np.zeros((size, size)), key, value])
            module.in_proj_weight.copy_(torch.tensor(stacked, dtype=dtype))
        else:
            cast(Tensor, module.q_proj_weight).zero_()
            cast(Tensor, module.k_proj_weight).copy_(torch.tensor(key, dtype=dtype))
            cast(Tensor, module.v_proj_weight).copy_(torch.tensor(value, dtype=dtype))
        cast(Tensor, module.in_proj_bias).copy_(pad(torch.ones(size, dtype=dtype), (0, 2 * size)))
        module.out_proj.weight.copy_(torch.tensor(out, dtype=dtype))
        module.out_proj.bias.zero_()
    return module.train(False).requires_grad_(False)
