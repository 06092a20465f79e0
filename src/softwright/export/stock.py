"""A network run by stock `nn.MultiheadAttention`: the same numbers, nobody's code but torch's.

    module = stock_attention(built);      module(x)

Tokens are padded with zeros to embed_dim = heads * head_dim, and head_dim is a power of 4, so that the division of
scores by its root, folded into the query weights, is exact.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from softwright.export.token_stack import Layer, TokenStack, token_stack

if TYPE_CHECKING:
    from softwright.result.built import Built


class StockAttention(nn.Module):
    """What the network takes -> what it gives, through `nn.MultiheadAttention` blocks with a residual."""

    def __init__(self, stack: TokenStack) -> None:
        super().__init__()
        self.stack = stack
        self.blocks = nn.ModuleList([_block(layer) for layer in stack.layers])

    def forward(self, *given: Tensor) -> Tensor:
        tokens = self.stack.base + self.stack.embed(*given)  # (q, S, D)
        for part in self.blocks:
            block = cast(nn.MultiheadAttention, part)
            wide = pad(tokens, (0, block.embed_dim - tokens.shape[-1]))
            out = block(wide, wide, wide, need_weights=False)[0]
            tokens = tokens + out[..., : tokens.shape[-1]]
        return self.stack.answer(tokens @ self.stack.read)


def head_size(*sizes: int) -> int:
    """The least power of 4 that holds all of these sizes."""
    size = 4
    while size < max(sizes):
        size *= 4
    return size


def _block(layer: Layer) -> nn.MultiheadAttention:
    H, D, k = layer.Wq.shape
    v = layer.Wv.shape[2]
    size = head_size(k, v, -(-D // H))
    wide, dtype = H * size, layer.Wq.dtype
    block = nn.MultiheadAttention(wide, H, bias=False, batch_first=True, dtype=dtype).eval()
    joint, out = torch.zeros(3, H, size, wide, dtype=dtype), torch.zeros(wide, H, size, dtype=dtype)
    joint[0, :, :k, :D] = math.sqrt(size) * layer.Wq.transpose(1, 2)
    joint[1, :, :k, :D] = layer.Wk.transpose(1, 2)
    joint[2, :, :v, :D] = layer.Wv.transpose(1, 2)
    out[:D, :, :v] = layer.Wo.permute(2, 0, 1)
    with torch.no_grad():
        block.in_proj_weight.copy_(joint.flatten(0, 2))
        block.out_proj.weight.copy_(out.flatten(1))
    return block.requires_grad_(False)


def stock_attention(built: Built[Any], **sizes: int) -> StockAttention:
    """The network as stock attention; `length=` of a program."""
    return StockAttention(token_stack(built, **sizes))
