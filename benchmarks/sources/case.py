"""`Case`: a network to transpile, made when it is asked for, with the range of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    """`make` gives what a user hands over; `inputs`, for a model with blocks inside, what it is called with."""

    name: str
    make: Callable[[], Any]
    box: tuple[float, float] | None = (-1.0, 1.0)
    options: Mapping[str, Any] = field(default_factory=dict)
    inputs: Callable[[], Mapping[str, Any]] | None = None
