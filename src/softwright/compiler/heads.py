"""Which heads compute a program, and the numbers of the stream that they read and write.

The stream has a column of ones, one column per input, one per feature, and codes that tell fixed tokens apart. A
feature is its column plus a form of other features (`offset`), so a form of features is a form of columns; its
coefficients are balls until they become weights. `Columns.row` rounds them to the type and bounds what that and the dot
product lose:

    |fl(row . x) - form|  <=  sum_i |c_i - fl(c_i)| |x_i| + gamma_n sum_i |fl(c_i)| |x_i| + n * smallest,

n the number of coefficients that are not zero, in any order of summation; columns with weight zero add exact zeros. A
row of one coefficient that is a power of two rounds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from flint import arb

from softwright.compiler.features import MAXIMUM, PRODUCT, Program
from softwright.compiler.forms import Form
from softwright.compiler.gates import ExponentialGate, MaximumGate, ProductGate, StepGate
from softwright.compiler.nodes import BITS, Ball, ball_above, constant_ball, precision
from softwright.compiler.tables import Frame, Table
from softwright.precision import Precision


@dataclass(frozen=True)
class TableHead:
    """One table for all features of one atom and layer; column q of its values belongs to features[q]."""

    features: tuple[int, ...]
    atom: Form
    layer: int
    frame: Frame
    table: Table


@dataclass(frozen=True)
class Heads:
    """The heads of a program, by feature; tables by group."""

    tables: tuple[TableHead, ...]
    products: Mapping[int, ProductGate]
    exponentials: Mapping[int, ExponentialGate]
    maxima: Mapping[int, MaximumGate]
    steps: Mapping[int, StepGate]
    copies: tuple[int, ...] = ()

    @property
    def tokens(self) -> int:
        """Tokens attended to, summed over the heads."""
        return sum(head.table.tokens for head in self.tables) + 2 * self.gates + len(self.copies)

    @property
    def count(self) -> int:
        return len(self.tables) + self.gates + len(self.copies)

    @property
    def factors(self) -> list[float]:
        """What gates multiply their values by when they write them."""
        products = [factor for gate in self.products.values() for factor in gate.factors]
        return products + [gate.factor for gate in self.exponentials.values()]

    @property
    def gates(self) -> int:
        one_head = len(self.exponentials) + len(self.maxima) + len(self.steps)
        return sum(gate.heads for gate in self.products.values()) + one_head


@dataclass(frozen=True)
class Row:
    """A form as weights of columns, and a bound of what computing it loses; `lost` is the part of the weights."""

    weights: dict[int, float]
    rounding: float
    lost: float = 0.0
    missed: dict[int, float] = field(default_factory=dict)  # what each weight is off by

    @property
    def is_relative(self) -> bool:
        """Whether it rounds once, relatively to its result: at most two weights, exact, that are powers of two."""
        exact = not any(self.missed.values()) and all(abs(math.frexp(w)[0]) == 0.5 for w in self.weights.values())
        return exact and len(self.weights) <= 2


class Columns:
    """Forms of features as forms of columns; column 0 is the constant 1, column 1 + j belongs to feature j."""

    def __init__(
        self, program: Program, products: Mapping[int, ProductGate], sizes: Mapping[int, float], precision_: Precision
    ) -> None:
        """`sizes` bounds the columns of features as they run, by feature."""
        self.program, self.products, self.sizes, self.precision = program, products, sizes, precision_
        self._offsets: dict[int, dict[int, Ball]] = {}

    def expanded(self, form: Form) -> dict[int, Ball]:
        """Coefficients of the columns."""
        with precision(BITS):
            total: dict[int, Ball] = {0: constant_ball(form.constant)}
            for k, c in form:
                for column, own in self._feature(k).items():
                    total[column] = total.get(column, arb(0)) + own * constant_ball(c)
        return total

    def _feature(self, k: int) -> dict[int, Ball]:
        if k not in self._offsets:
            feature = self.program.features[k]
            own: dict[int, Ball] = {}
            if feature.kind == MAXIMUM:
                own = dict(self.expanded(feature.base))
            elif feature.kind == PRODUCT:
                gate = self.products[k]
                with precision(BITS):
                    factor = arb(gate.center) - sum((arb(g) for g in gate.factors), arb(0)) / 2
                    own = {column: factor * c for column, c in self.expanded(feature.value).items()}
            with precision(BITS):
                own[1 + k] = own.get(1 + k, arb(0)) + 1
            self._offsets[k] = own
        return self._offsets[k]

    def size(self, column: int) -> float:
        return 1.0 if column == 0 else self.sizes[column - 1]

    def row(self, form: Form, scale: Ball | float = 1.0, shift: Ball | float = 0.0) -> Row:
        """scale * form - shift as weights, rounded to the type."""
        exact = self.expanded(form)
        kind = np.dtype(self.precision.name).type
        weights: dict[int, float] = {}
        with precision(BITS):
            lost, total = arb(0), arb(0)
            missed: dict[int, float] = {}
            for column, c in exact.items():
                wanted = c * scale - (shift if column == 0 else 0)
                rounded = float(kind(float(wanted.mid())))
                if not math.isfinite(rounded):
                    return Row({}, math.inf, math.inf)
                if rounded != 0.0:
                    weights[column] = rounded
                size = arb(self.size(column))
                lost += abs(wanted - rounded) * size
                missed[column] = ball_above(abs(wanted - rounded)) if not (wanted - rounded).is_zero() else 0.0
                total += abs(arb(rounded)) * size
            n = len(weights)
            if n == 1 and math.frexp(next(iter(weights.values())))[0] in (0.5, -0.5):
                return Row(weights, ball_above(lost), ball_above(lost), missed)
            if n == 1 and 0 in weights:  # a constant times 1
                return Row(weights, ball_above(lost), ball_above(lost), missed)
            u = arb(self.precision.unit)
            rounding = lost + n * u / (1 - n * u) * total + n * arb(self.precision.smallest)
            return Row(weights, ball_above(rounding), ball_above(lost), missed)
