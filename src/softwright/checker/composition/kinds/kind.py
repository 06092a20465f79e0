"""What a kind of feature is to the proof: how it is bound to its heads, and what it says on many boxes at once.

Binding reads all numbers off the weights, never off the evidence. A visit gives, on each box,

    range      an enclosure of the exact feature
    partials   enclosures of its derivatives by the forms that it reads, between their exact values and those that run
    own, real  what its heads and the rows that they read add to its error, as it runs and in real arithmetic
    through    what the errors of the forms that it reads become (None: their sum through the partial derivatives)
    column     how large its column is, as it runs
    trouble    boxes on which this could not be said, or where its argument may leave what its heads are proved for:
               smaller ones may help

A kind is a row of `GATES` in `kinds/catalogue.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from softwright.checker.composition.intervals import Interval
from softwright.checker.composition.kinds.gates import Run
from softwright.checker.composition.program import Feature, Form
from softwright.checker.composition.rows import Coefficients, Columns
from softwright.checker.composition.weights import Gate

Array = np.ndarray


@dataclass(frozen=True)
class Visit:
    """What one feature says on n boxes."""

    range: Interval
    partials: Sequence[tuple[Form, Interval]]
    own: Array
    real: Array
    column: Array
    trouble: Array
    through: Array | None = None


class Flow(Protocol):
    """What has been found of the inputs and of earlier features, on n boxes."""

    count: int
    sizes: Array  # (n, columns) as they run

    def range(self, form: Form) -> Interval:
        """Of the exact form."""
        ...

    def error(self, form: Form) -> Array:
        """How far the form of the features that run may be from the exact one."""
        ...

    def combined(self, parts: Sequence[tuple[float, Form]]) -> Interval:
        """The range of a sum of multiples of forms."""
        ...

    def combined_error(self, parts: Sequence[tuple[float, Form]]) -> Array: ...


class Kind(Protocol):
    """A feature bound to its heads."""

    offset: Coefficients  # of columns: the feature is its column plus this

    def visit(self, flow: Flow) -> Visit: ...


@dataclass(frozen=True)
class GateKind:
    """A row: what binds a feature to its gates, and how many of them there are, at least and at most."""

    bind: Callable[[Feature, Sequence[Gate], Columns, Run], Kind]
    heads: tuple[int, int]


def upper_sum(*arrays: Array) -> Array:
    """A sum of non-negative arrays, rounded up; what is not a number is infinite."""
    with np.errstate(all="ignore"):
        found = sum(arrays, np.zeros(1)) * (1 + len(arrays) * 2.0**-51) + 1e-300
    return np.where(np.isnan(found), np.inf, found)


def upper_product(*arrays: Array | float) -> Array:
    """A product of non-negative arrays and numbers, rounded up; 0 times infinity is infinite here."""
    with np.errstate(all="ignore"):
        found = np.asarray(arrays[0], dtype=np.float64)
        for array in arrays[1:]:
            found = found * array * (1 + 2.0**-50) + 1e-300  # what underflows may be large again with the next factor
    return np.where(np.isnan(found), np.inf, found)
