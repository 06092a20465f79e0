"""A small head by its formula: scores, exp, one product with the values and a column of ones.

    y = (e^(s - max s) [V G 1]),     head = y_V / y_1 + (y_G / y_1) t

The fused kernel is made for long rows of scores; for a few tokens the calls inside it cost more than its arithmetic. A
few thousand points at a time, so that scores stay in the processor's cache, this is two to three times faster in
float64 than the fused kernel is with up to about twenty tokens, and as fast as the fused kernel in float32.

*Rounding.* Scores are sums of d + 1 terms, the largest is subtracted, one exp is taken for each token, no blocks are
joined; sums run over all tokens in some order, and one division replaces a reciprocal and a product. Every step is one
that `proof/arithmetic/rounding.py` counts for the fused kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from softwright.chunks import in_chunks
from softwright.settings import looked_through

if TYPE_CHECKING:
    from softwright.attention.layer import SoftmaxHead

MOST_TOKENS = 24  # beyond so many the fused kernel is faster
_SCORES = 1 << 16  # at a time


def suits(head: SoftmaxHead, t: Tensor) -> bool:
    """Whether the head is small, and nobody asks for derivatives or records what runs."""
    return head.tokens <= MOST_TOKENS and not (t.requires_grad or head.keys.requires_grad or looked_through())


def plain_head(head: SoftmaxHead, t: Tensor) -> Tensor:
    """(q, d) -> (q, m), computed in the type of t."""
    d, m = head.keys.shape[1], head.values.shape[1]
    keys, biases = head.keys.T.to(t.dtype), head.biases.to(t.dtype)
    columns = [head.values] if head.slopes is None else [head.values, head.slopes.flatten(1)]
    values = torch.cat([*columns, torch.ones_like(head.biases)[:, None]], dim=1).to(t.dtype)  # (N, m + m d + 1)

    def attend(t: Tensor) -> Tensor:
        weights = torch.addmm(biases, t, keys)  # (q, N)
        weights.sub_(weights.amax(dim=1, keepdim=True)).exp_()
        sums = weights @ values
        out = sums[:, :-1] / sums[:, -1:]
        y = out[:, :m]
        if head.slopes is not None:
            for i in range(d):
                y = torch.addcmul(y, out[:, m + i : m + m * d : d], t[:, i : i + 1])
        return y

    return in_chunks(attend, t, max(1, _SCORES // head.tokens))
