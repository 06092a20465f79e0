"""A head by its formula, with tokens as rows: scores, exp, one product with a row of ones and the values.

    W = e^(K t + b - max),     Y = [1 V G]^T W,     head = Y_V / Y_1 + sum_i t_i (Y_Gi / Y_1),

t being the points as columns. Every step takes whole rows of points, in the order of memory, and sums over tokens are
those of one product; scores have only their own d coordinates. The fused kernel is made for long rows of scores: for a
few tokens the calls inside it cost more than its arithmetic, and it wants keys as wide as values. Points go some at a
time, so that scores stay in the processor's cache. Beside the fused kernel, one thread of a processor with 256 bits:
a quarter to a half of its time with a dozen tokens, 0.6 to 0.9 with fifty, 0.8 to 1 with 128, the same with 300; with
the 35 columns of five affine outputs in six variables 0.45 of it with fifty tokens and 0.75 with 1,000 (float64).

*Rounding.* Scores are sums of d + 1 terms, the largest is subtracted, one exp is taken for each token, no blocks are
joined; sums run over all tokens in some order. As in the fused kernel, a reciprocal that all columns share and a
product normalise every column, before they are contracted with t. Every step is one that
`proof/arithmetic/rounding.py` counts for the fused kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from softwright.chunks import in_chunks
from softwright.settings import derivatives_taken, looked_through

if TYPE_CHECKING:
    from softwright.attention.layer import SoftmaxHead

MOST_TOKENS = 128  # beyond so many the fused kernel is as fast
_WIDE, _MOST_WIDE = 3, 1024  # unless values are so many times as wide as keys, which it fills up: float64, so many
_NUMBERS = 1 << 18  # of a part: scores and columns


def suits(head: SoftmaxHead, t: Tensor) -> bool:
    """Whether tokens as rows are the faster way for points (q, d), and nobody asks for derivatives or records what
    runs."""
    (N, d), width = head.keys.shape, head.values.shape[1]
    if head.slopes is not None:
        width *= 1 + d
    wide = width >= _WIDE * (d + 1) and t.dtype == torch.float64
    most = _MOST_WIDE if wide else MOST_TOKENS
    if most < N:
        return False
    if not t.is_cpu or looked_through() or derivatives_taken() or torch._C._get_tracing_state():
        return False
    asked = t.requires_grad or any(one.requires_grad for one in head.parameters())
    return not (asked and torch.is_grad_enabled())


def plain_head(head: SoftmaxHead, t: Tensor) -> Tensor:
    """(q, d) -> (q, m), computed in the type of t."""
    (N, d), m = head.keys.shape, head.values.shape[1]
    keys, biases = head.keys.to(t.dtype), head.biases.to(t.dtype)[:, None]
    columns = [torch.ones_like(biases), head.values.to(t.dtype)]
    if head.slopes is not None:
        columns.append(head.slopes.to(t.dtype).transpose(1, 2).reshape(N, d * m))
    table = torch.cat(columns, dim=1).T.contiguous()  # (1 + m + d m, N)

    def attend(t: Tensor) -> Tensor:
        along = t.T.contiguous()  # (d, q)
        weights = torch.addmm(biases, keys, along)  # (N, q)
        weights.sub_(weights.amax(dim=0)).exp_()
        sums = table @ weights
        out = sums[1:].mul_(sums[0].reciprocal_())
        y = out[:m]
        if head.slopes is not None:
            for i in range(d):
                y.addcmul_(out[m * (i + 1) : m * (i + 2)], along[i])
        return y.T

    return in_chunks(attend, t, max(16, _NUMBERS // (N + d + len(table))))
