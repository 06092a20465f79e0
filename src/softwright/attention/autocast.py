"""What runs inside a network is what was proved, whatever autocast says outside.

Autocast is what training loops run in; it would compute products of float32 numbers in bfloat16 and void every bound
without a word. So every forward of a network switches it off for itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor

Options = ParamSpec("Options")
Module = TypeVar("Module")
Forward = Callable[Concatenate[Module, Tensor, Options], Tensor]


def no_autocast(tensor: Tensor) -> torch.autocast:
    """A context without autocast on the tensor's device."""
    return torch.autocast(tensor.device.type, enabled=False)


def without_autocast(forward: Forward[Module, Options]) -> Forward[Module, Options]:
    """A forward that runs in its own dtype always."""

    @wraps(forward)
    def run(module: Module, inputs: Tensor, /, *args: Options.args, **kwargs: Options.kwargs) -> Tensor:
        with no_autocast(inputs):
            return forward(module, inputs, *args, **kwargs)

    return run
