"""`Target`: what a network is asked to be. Points (n, d) in, values (n, m) out, both float64."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    from softwright.domain import Box


class Target(ABC):
    """A function from named variables to `outputs` numbers.

    Subclasses are `Expression` (a formula: values, derivatives and enclosures), `Function` (a Python callable) and
    `Table` (values at given points). What differs between them for a builder is a method here; what differs for a
    proof or a strategy is registered there (`proof/models/targets.py`, `approximation/by_target.py`).
    """

    kind: ClassVar[str]  # names the class in what `describe` returns
    names: tuple[str, ...]
    outputs: int

    @abstractmethod
    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Values (n, outputs) at points (n, d); float64 in, float64 out."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What is stored with a model so that a reader knows what was asked: JSON-ready, with a `kind` entry."""

    @classmethod
    def rebuilt(cls, description: Mapping[str, Any]) -> Target | None:
        """The target of a stored description; None if a description does not hold it (a callable, a table)."""
        return None

    def faults_on(self, box: Box) -> list[str]:
        """What makes the target impossible to build on this box, each with its remedy."""
        return []

    def given_points(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Points (n, d) and values (n, m) where these are all that the target is; None if it can be asked anywhere."""
        return None

    @property
    def is_known_between_points(self) -> bool:
        """Whether a proof can rest on more than the values at single points."""
        return True

    @property
    def left(self) -> int | None:
        """How many points may still be asked for; None if there is no limit."""
        return None

    @property
    def kept(self) -> int:
        """How many of these are for the check of a result."""
        return 0

    @property
    def dim(self) -> int:
        return len(self.names)
