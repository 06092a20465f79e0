"""Rows: forms of features as the weights of columns that a head reads, and how far off that is.

A feature is its column plus a form of other features (its *offset*: b for a maximum, a multiple of z for a product), so
a form of features is a form of columns, with balls for coefficients c_i. With the stored weights w_i, and x_i the
columns as they run,

    |w . x - form|        <=  sum_i |c_i - w_i| |x_i|                       in real arithmetic: `lost`
    |fl(w . x) - w . x|   <=  gamma_n sum_i |w_i| |x_i| + n * smallest      `rounded`

n the number of weights that are not 0, in any order of summation, fused or not; columns of weight 0 add exact zeros. A
single weight that is a power of two, or that of the constant 1, rounds nothing but what underflows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from flint import arb, ctx

from softwright.checker.composition.intervals import above
from softwright.checker.composition.program import BITS, Form
from softwright.checker.precision import Precision
from softwright.checker.transpiled.outward import gamma, product

Coefficients = dict[int, arb]  # by column
ROOM = 2.0**10  # that everything which runs leaves to the largest number
MOST_TRIED = 8  # columns that may tell the scale of a row


@dataclass(frozen=True)
class Row:
    """Bounds of |c - w| and |w| by column, and how often a product with the columns is rounded."""

    missed: np.ndarray  # (columns,)
    weights: np.ndarray  # moduli
    roundings: int
    precision: Precision

    @classmethod
    def of(cls, exact: Mapping[int, arb], stored: np.ndarray, precision: Precision) -> Row:
        missed = np.abs(stored).astype(np.float64)
        with ctx.workprec(BITS):
            for column, c in exact.items():
                missed[column] = above(abs(c - arb(float(stored[column]))))
        used = np.flatnonzero(stored)
        plain = len(used) == 1 and (used[0] == 0 or abs(math.frexp(float(stored[used[0]]))[0]) == 0.5)
        return cls(missed, np.abs(stored), 0 if plain else len(used), precision)

    @property
    def is_relative(self) -> bool:
        """Whether at most two weights are exact powers of two: one rounding, relative to the result."""
        used = self.weights[self.weights > 0]
        return len(used) <= 2 and not self.missed.any() and bool((np.frexp(used)[0] == 0.5).all())

    def lost(self, sizes: np.ndarray) -> np.ndarray:
        """(n,) for columns of at most these sizes (n, columns)."""
        return product(sizes, self.missed)

    def rounded(self, sizes: np.ndarray) -> np.ndarray:
        """The same; infinite where a sum may come near overflow."""
        tiny, size = (1 + self.roundings) * self.precision.smallest * 2, product(sizes, self.weights)
        lost = size * (gamma(self.roundings, self.precision.unit) * (1 + 2**-50)) + tiny
        return np.where(size < self.precision.largest / ROOM, lost, np.inf)


class Columns:
    """Forms of features as coefficients of columns; grows with every feature whose offset is known."""

    def __init__(self, inputs: int, features: int) -> None:
        self.count = 1 + inputs + features
        self.offsets: dict[int, Coefficients] = {i: {} for i in range(inputs)}

    def expanded(self, form: Form) -> Coefficients:
        with ctx.workprec(BITS):
            found: Coefficients = {0: form.offset}
            for i, c in form.balls.items():
                for column, own in (*self.offsets[i].items(), (1 + i, arb(1))):
                    found[column] = found.get(column, arb(0)) + own * c
        return found

    def scaled(self, coefficients: Coefficients, scale: arb, shift: arb) -> Coefficients:
        """scale * (form - shift)."""
        with ctx.workprec(BITS):
            found = {column: c * scale for column, c in coefficients.items()}
            found[0] = (coefficients[0] - shift) * scale
        return found


def scale_of(coefficients: Coefficients, stored: np.ndarray) -> arb | None:
    """Which multiple of a form the stored row is, the constant apart: the weight of one column over its coefficient.

    Any number would do, since what the row misses of the multiple is charged; the column is the one that makes the
    others miss least, relative to themselves. None if no column tells.
    """
    columns = [column for column, c in coefficients.items() if column and stored[column] and not c.contains(0)]
    columns = sorted(columns, key=lambda column: -abs(stored[column]))[:MOST_TRIED]
    best: tuple[float, arb] | None = None
    with ctx.workprec(BITS):
        for column in columns:
            scale = arb(float(stored[column])) / coefficients[column]
            off = max(above(abs(scale * coefficients[k] / float(stored[k]) - 1)) for k in columns)
            if best is None or off < best[0]:
                best = off, scale
    return None if best is None else best[1]
