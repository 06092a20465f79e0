"""An `InContextStack` written with stock `nn.MultiheadAttention` modules: the same numbers, other code."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from softwright.attention.stack import StackLayer
from softwright.methods.network import InContextStack
from softwright.methods.prompts import read_prompt
from softwright.settings import as_proved


class MultiheadStack(nn.Module):
    """An `InContextStack` whose heads are run by stock `nn.MultiheadAttention` modules, the residual outside.

    The modules want embed_dim = heads * head_dim: tokens are padded with zeros to that width. They divide scores by
    sqrt(head_dim), which is folded into the query weights.
    """

    def __init__(self, stack: InContextStack) -> None:
        super().__init__()
        self.stack = stack
        self.blocks = nn.ModuleList([_multihead(layer) for layer in stack.distinct])

    def forward(self, x: Tensor, y: Tensor, queries: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        prompt = read_prompt(x, y, queries, sample_weight, self.stack.constants, self.stack.dtype, True)
        runs = [_runner(block) for block in self.blocks if isinstance(block, nn.MultiheadAttention)]
        with as_proved(self.stack.read):
            final = deque(self.stack.states(self.stack.embed(prompt), attend=runs), maxlen=1).pop()
            return prompt.unbatched(final["query"] @ self.stack.read)


def _multihead(layer: StackLayer) -> nn.MultiheadAttention:
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


def _runner(block: nn.MultiheadAttention) -> Callable[[Tensor, Tensor], Tensor]:
    def attend(rows: Tensor, keys: Tensor) -> Tensor:
        spare = block.embed_dim - rows.shape[-1]
        wide = pad(keys, (0, spare))
        return block(pad(rows, (0, spare)), wide, wide, need_weights=False)[0][..., : rows.shape[-1]]

    return attend
