"""A layer of a stack as a stock `nn.MultiheadAttention` module: the same numbers, other code."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from softwright.attention.stack import StackLayer


def as_multihead(layer: StackLayer) -> nn.MultiheadAttention:
    """The module wants embed_dim = heads * head_dim: tokens are padded with zeros to that width. It divides scores by
    sqrt(head_dim), which is folded into the query weights."""
    heads, width, k = layer.Wq.shape
    size = max(k, layer.Wv.shape[2], -(-width // heads))
    block = nn.MultiheadAttention(heads * size, heads, bias=False, batch_first=True, dtype=layer.Wq.dtype).train(False)
    joint = torch.zeros(3, heads, size, heads * size, dtype=layer.Wq.dtype)
    out = torch.zeros(heads * size, heads, size, dtype=layer.Wq.dtype)
    joint[0, :, :k, :width] = math.sqrt(size) * layer.Wq.transpose(1, 2)
    joint[1, :, :k, :width] = layer.Wk.transpose(1, 2)
    joint[2, :, : layer.Wv.shape[2], :width] = layer.Wv.transpose(1, 2)
    out[:width, :, : layer.Wo.shape[1]] = layer.Wo.permute(2, 0, 1)
    with torch.no_grad():
        block.in_proj_weight.copy_(joint.flatten(0, 2))
        block.out_proj.weight.copy_(out.flatten(1))
    return block.requires_grad_(False)


def runner(block: nn.MultiheadAttention) -> Callable[[Tensor, Tensor], Tensor]:
    """What runs the heads of a layer in a stack: rows (B, T, D) look at keys (B, S, D)."""

    def attend(rows: Tensor, keys: Tensor) -> Tensor:
        spare = block.embed_dim - rows.shape[-1]
        wide = pad(keys, (0, spare))
        return block(pad(rows, (0, spare)), wide, wide, need_weights=False)[0][..., : rows.shape[-1]]

    return attend
