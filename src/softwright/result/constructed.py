"""What every network that softwright returns can do besides running: say what it is, be stored, be rebuilt.

A file holds the tensors of `state_dict` and, as JSON, what `describe` returns; `rebuilt` makes the network of the two.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np

from softwright.fileformat import weights_sha256

if TYPE_CHECKING:  # what a file says of a network is read without torch
    import torch
    from torch import nn


@runtime_checkable
class Network(Protocol):
    """A `torch.nn.Module` whose weights were computed, as every verb returns one."""

    kind: ClassVar[str]  # "approximation", "memory", ...: a row of `kinds.KINDS`

    @property
    def dtype(self) -> torch.dtype: ...

    def facts(self) -> list[tuple[str, str]]:
        """What it takes and gives, one line each, for tables on screen."""
        ...

    def evaluate(self, *inputs: Any, **named: Any) -> Any:
        """NumPy in, NumPy out: one positional argument, or None and what the network takes by name."""
        ...

    def state_dict(self) -> dict[str, Any]: ...


@runtime_checkable
class Constructed(Network, Protocol):
    """A network that a file can hold."""

    def describe(self) -> dict[str, Any]:
        """Everything but the tensors that rebuilding takes, ready for JSON."""
        ...

    @classmethod
    def rebuilt(cls, model: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Self:
        """The network of a description and its tensors, as they were stored."""
        ...


def tensors_of(network: nn.Module | Network) -> dict[str, np.ndarray]:
    """The tensors of a network as they are stored."""
    held = network.state_dict().items()
    return {name: x if isinstance(x, np.ndarray) else x.detach().cpu().numpy() for name, x in held}


def digest_of(network: nn.Module | Network) -> str:
    """The SHA-256 by which certificates name the weights they speak of."""
    return weights_sha256(tensors_of(network))


def load_tensors(network: nn.Module, tensors: Mapping[str, np.ndarray]) -> None:
    """Put stored tensors into a network of the right shape; a missing or foreign tensor is an error."""
    import torch

    network.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in tensors.items()})


class Room:
    """Room for the tensors of a file, taken by the shapes that it names: all together they can have no more entries
    than the tensors hold, so that no memory is taken for what a file only says."""

    def __init__(self, tensors: Mapping[str, np.ndarray]) -> None:
        self.left = sum(array.size for array in tensors.values())

    def take(self, shape: Iterable[Any]) -> tuple[int, ...]:
        """The shape as whole numbers; a `ValueError` if there is no room for it."""
        sizes = tuple(operator.index(size) for size in shape)
        if any(size < 0 for size in sizes) or math.prod(sizes) > self.left:
            raise ValueError(f"no tensors are stored for a shape of {' x '.join(map(str, sizes))}")
        self.left -= math.prod(sizes)
        return sizes
