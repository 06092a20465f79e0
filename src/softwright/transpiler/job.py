"""What `transpile` has to do, read and checked: options, the networks to turn into heads, and what to make of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from softwright.targets.mlp import DenseNetwork, GatedNetwork, Sides, Source
from softwright.transpiler.network import TranspiledModule, TranspiledNetwork

Result = TranspiledNetwork | TranspiledModule


@dataclass(frozen=True)
class Options:
    """What a user asks for."""

    tol: float | None
    dtype: str
    layout: str
    certify: bool


@dataclass(frozen=True)
class Part:
    """A network to turn into heads: where it is in its module, what it is, and the range of its inputs."""

    path: str
    source: Source
    sides: Sides | None = None
    cut: Any = None  # the `Cut` of whose pieces it is one (`cutting.py`)
    absorbs: tuple[str, ...] = ()  # modules that became part of it
    chain: tuple[str, ...] = ()  # Linear, activation and Linear that it is, where no module holds them together
    behind: tuple[nn.Module, ...] = ()  # the layers whose outputs it is given, one for each call, where all are known
    padded: bool = False  # whether zeros stand beside what it is given
    called: Any = None  # (module, options): what it stands for, and how that was called when it was read

    @property
    def network(self) -> DenseNetwork | GatedNetwork:
        return self.source.network


@dataclass(frozen=True)
class Job:
    """The parts of a source, and how the result is put together and spoken of."""

    parts: list[Part]
    dtype: str  # that of the source
    statement: str  # what is bounded; for which inputs is added
    target: dict[str, Any]
    reasons: list[str]
    assemble: Callable[[list[TranspiledNetwork], Options], Result] = lambda networks, options: networks[0]
    runner: Callable[[Any, Part], nn.Module] = lambda result, part: result  # what takes a part's place
    ranges: str = ""  # in words, where parts bring their own
    boxed: bool = False  # whether the ranges are the user's
    source: Any = field(default=None, repr=False)
    whole: nn.Module | None = field(default=None, repr=False)  # the module around the parts

    @property
    def real(self) -> bool:
        """Whether a part has no range: then all speak of all inputs, in real arithmetic."""
        return any(part.sides is None for part in self.parts)
