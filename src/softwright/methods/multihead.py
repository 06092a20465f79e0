"""An `InContextStack` written with stock `nn.MultiheadAttention` modules: the same numbers, other code."""

from __future__ import annotations

from collections import deque

from torch import Tensor, nn

from softwright.attention.multihead import as_multihead, runner
from softwright.methods.network import InContextStack
from softwright.methods.prompts import read_prompt
from softwright.settings import as_proved


class MultiheadStack(nn.Module):
    """An `InContextStack` whose heads are run by stock `nn.MultiheadAttention` modules, the residual outside.

    `attention/multihead.py` says how a layer becomes such a module.
    """

    def __init__(self, stack: InContextStack) -> None:
        super().__init__()
        self.stack = stack
        self.blocks = nn.ModuleList([as_multihead(layer) for layer in stack.distinct])

    def forward(self, x: Tensor, y: Tensor, queries: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        prompt = read_prompt(x, y, queries, sample_weight, self.stack.constants, self.stack.dtype, True)
        runs = [runner(block) for block in self.blocks if isinstance(block, nn.MultiheadAttention)]
        with as_proved(self.stack.read):
            stream = self.stack.embed(self.stack.asked(prompt))
            final = deque(self.stack.states(stream, attend=runs), maxlen=1).pop()
            return prompt.unbatched(self.stack.answered(prompt, final["query"]))
