"""A network run by stock `nn.MultiheadAttention`: the same numbers, nobody's code but torch's.

    module = stock_attention(built);      module(x)

Tokens are padded with zeros to embed_dim = heads * head_dim, and head_dim is a power of 4, so that the division of
scores by its root, folded into the query weights, is exact. A block holds 4 embed_dim**2 numbers, so a layer of many
heads becomes several blocks side by side, each just as wide as a token, whose outputs are added.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from softwright.errors import InvalidInput
from softwright.export.token_stack import Layer, TokenStack, token_stack

if TYPE_CHECKING:
    from softwright.result.built import Built

WIDEST = 512  # embed_dim of a block that holds a whole layer: its work grows with the square
MOST = 1 << 28  # numbers of all blocks: 2 GiB in float64, and about as much again while one is made


class StockAttention(nn.Module):
    """What the network takes -> what it gives, through `nn.MultiheadAttention` blocks with a residual."""

    def __init__(self, stack: TokenStack) -> None:
        super().__init__()
        self.stack = stack
        parts = [_parts(layer) for layer in stack.layers]
        every = [heads for part in parts for heads in part]
        if (numbers := sum(4 * _width(heads) ** 2 for heads in every)) > MOST:
            fault = f"stock attention would hold {numbers} numbers, more than {MOST}"
            raise InvalidInput("export", [f"{fault}; use .onnx, or build it for a larger tolerance"])
        self.blocks = nn.ModuleList([_block(heads) for heads in every])
        self.side_by_side = [len(part) for part in parts]

    def forward(self, *given: Tensor) -> Tensor:
        tokens = self.stack.base + self.stack.embed(*given)  # (q, S, D)
        blocks = iter(self.blocks)
        for count in self.side_by_side:
            added = [_through(cast(nn.MultiheadAttention, next(blocks)), tokens) for _ in range(count)]
            tokens = tokens + sum(added[1:], added[0])
        return self.stack.answer(tokens @ self.stack.read)


def _through(block: nn.MultiheadAttention, tokens: Tensor) -> Tensor:
    wide = pad(tokens, (0, block.embed_dim - tokens.shape[-1]))
    return block(wide, wide, wide, need_weights=False)[0][..., : tokens.shape[-1]]


def head_size(*sizes: int) -> int:
    """The least power of 4 that holds all of these sizes."""
    size = 4
    while size < max(sizes):
        size *= 4
    return size


def _parts(layer: Layer) -> list[Layer]:
    """The heads of a layer, together or in groups that need no more room than a token."""
    H, D, k = layer.Wq.shape
    if _width(layer) <= WIDEST:
        return [layer]
    group = -(-D // head_size(k, layer.Wv.shape[2]))
    every = (layer.Wq, layer.Wk, layer.Wv, layer.Wo)
    return [Layer(*(one[first : first + group] for one in every)) for first in range(0, H, group)]


def _head_dim(layer: Layer) -> int:
    H, D, k = layer.Wq.shape
    return head_size(k, layer.Wv.shape[2], -(-D // H))


def _width(layer: Layer) -> int:
    return len(layer.Wq) * _head_dim(layer)


def _block(layer: Layer) -> nn.MultiheadAttention:
    H, D, k = layer.Wq.shape
    v, size = layer.Wv.shape[2], _head_dim(layer)
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
