"""`Target`: what a network is asked to be. Points (n, d) in, values (n, m) out, both float64."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np


class Target(ABC):
    """A function from named variables to `outputs` numbers.

    Subclasses are `Expression` (a formula: values, derivatives and enclosures), `Function` (a Python callable) and
    `Table` (values at given points).
    """

    names: tuple[str, ...]
    outputs: int

    @abstractmethod
    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Values (n, outputs) at points (n, d); float64 in, float64 out."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What is stored with a model so that a reader knows what was asked: JSON-ready, with a `kind` entry."""

    @property
    def dim(self) -> int:
        return len(self.names)
