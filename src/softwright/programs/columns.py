"""`Board`: the columns of the stream, what each holds for all sequences, and the heads that write them.

A column is written once. It is exact (its numbers are whole, none of them 0, and the run computes them exactly), or it
is off by at most `error`. Exact columns are never 0, for a weight of e^-64 of another value is absorbed by all numbers
but 0: so whole numbers are stored as k - low + 1 and truth values as -1 and 1.

A `Form` is a constant and a combination of columns with exact fractions; the run has its coefficients as the nearest
numbers of the dtype, and `Board.run_error` charges that, the columns' errors and the rounding of the product.

A `Part` of the compiler makes columns of some kinds of terms, and asks the whole for those of others.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.precision import Precision
from softwright.programs.lemmas import Arithmetic

if TYPE_CHECKING:
    from softwright.programs.reals.roots import Root
    from softwright.programs.terms import Pool, Term
    from softwright.programs.types import Type

ONE, NULL, DEFAULT, BANK, INDEX, SQUARE = range(6)
STRUCTURE = ("one", "null", "default", "bank", "index", "square")
FIRST_ROW = 1  # of the bank's rows the first is the null token; then those of tables, then one for every default
MOST_DEFAULTS = 64


@dataclass
class Column:
    """One coordinate of the stream; low and high are those of the numbers that it should hold."""

    number: int
    name: str
    holds: list[Any]  # what, as the certificate says it
    low: Fraction
    high: Fraction
    exact: bool
    layer: int
    error: Fraction = Fraction(0)
    rows: list[Fraction] = field(default_factory=list)  # what stands there in the bank's rows, from the first
    default: Fraction | None = None  # what stands there in the row that is this column's default
    flag: int = -1  # the column that marks this row
    fill: Fraction = Fraction(0)  # what stands there in the bank's rows beyond `rows`
    root: Root | None = None  # how near to 0 it comes, if it is a sum of squares

    @property
    def here(self) -> Fraction:
        """The most that it can be in a run, at data tokens."""
        return max(abs(self.low), abs(self.high)) + self.error

    @property
    def largest(self) -> Fraction:
        """The most that it can be in a run, at any token."""
        return max(abs(self.low), abs(self.high), self.at_bank) + self.error

    @property
    def at_bank(self) -> Fraction:
        """The most that it is in the bank."""
        return max((abs(value) for value in (*self.rows, self.default or Fraction(0))), default=Fraction(0))


@dataclass(frozen=True)
class Form:
    """constant + sum of coefficient times column."""

    constant: Fraction = Fraction(0)
    parts: tuple[tuple[int, Fraction], ...] = ()

    @classmethod
    def of(cls, constant: Fraction | int, parts: dict[int, Fraction]) -> Form:
        return cls(Fraction(constant), tuple(sorted((k, Fraction(v)) for k, v in parts.items() if v != 0)))

    def __add__(self, other: Form | Fraction | int) -> Form:
        if not isinstance(other, Form):
            return Form(self.constant + other, self.parts)
        parts = dict(self.parts)
        for column, factor in other.parts:
            parts[column] = parts.get(column, Fraction(0)) + factor
        return Form.of(self.constant + other.constant, parts)

    def __mul__(self, factor: Fraction | int) -> Form:
        return Form.of(self.constant * factor, {k: v * factor for k, v in self.parts})

    def __sub__(self, other: Form | Fraction | int) -> Form:
        return self + (other * -1 if isinstance(other, Form) else -other)


@dataclass
class Head:
    """One head as data. `where` are the factors of its condition:

    ["equal", columns of j, columns of i]   the numbers in these columns are the same
    ["flag", side, column, sign]            the column of that token is `sign`, 1 or -1
    """

    kind: str
    layer: int
    writes: list[tuple[int, Fraction]]  # column and factor, for each value
    values: list[Form] = field(default_factory=list)
    where: list[list[Any]] = field(default_factory=list)
    causal: bool = False
    query: Form | None = None  # what is looked up in the bank, the score of token j, or of a gate
    numbers: dict[str, Any] = field(default_factory=dict)
    text: str = ""


class Board:
    """All columns and heads of one network that is being built."""

    def __init__(self, precision: Precision, longest: int) -> None:
        self.precision, self.longest = precision, longest
        self.columns: list[Column] = []
        self.heads: list[Head] = []
        self.bank_rows = FIRST_ROW
        for name in STRUCTURE:
            self.column(name, [name], 0, 1, exact=True, layer=0)
        self.columns[ONE].low = Fraction(1)

    def column(
        self,
        name: str,
        holds: list[Any],
        low: Fraction | int,
        high: Fraction | int,
        *,
        exact: bool,
        layer: int,
        error: Fraction | int = 0,
        rows: list[Fraction] | None = None,
    ) -> Column:
        number = len(self.columns)
        made = Column(
            number, name, holds, Fraction(low), Fraction(high), exact, layer, Fraction(error), list(rows or [])
        )
        self.columns.append(made)
        return made

    @property
    def arithmetic(self) -> Arithmetic:
        return Arithmetic(self.precision, self.longest, self.most_rows)

    most_rows: int = FIRST_ROW + 2048 + MOST_DEFAULTS  # of the bank, for bounds that are needed before it is known

    def layer_of(self, *forms: Form) -> int:
        """The layer after which all of these can be read."""
        return max((self.columns[k].layer for form in forms for k, _ in form.parts), default=0)

    def size(self, form: Form) -> Fraction:
        """The sum of the sizes of all terms in a run, at data tokens."""
        return abs(form.constant) + sum((abs(v) * self.columns[k].here for k, v in form.parts), Fraction(0))

    def stored(self, number: Fraction) -> Fraction:
        """The nearest number of the dtype."""
        kind = np.float32 if self.precision.name == "float32" else np.float64
        return Fraction(float(kind(float(number))))

    def is_exact(self, form: Form) -> bool:
        """Whether a run computes a form without any error: whole numbers of a common unit that never grow too large."""
        numbers = [form.constant, *(v for _, v in form.parts)]
        if not all(self.columns[k].exact for k, _ in form.parts):
            return False
        unit = max(number.denominator for number in numbers)
        powers = all((number.denominator & (number.denominator - 1)) == 0 for number in numbers)
        return powers and unit <= 2**20 and self.size(form) * unit < 2 ** (self.precision.digits - 1)

    def run_error(self, form: Form) -> Fraction:
        """|what a run computes - the form of what its columns should hold|."""
        if self.is_exact(form):
            return Fraction(0)
        own = sum((abs(v) * self.columns[k].error for k, v in form.parts), Fraction(0))
        if len(form.parts) == 1 and form.constant == 0 and _is_power(form.parts[0][1]):
            return own
        numbers = [(form.constant, Fraction(1)), *((v, self.columns[k].here) for k, v in form.parts)]
        coefficients = sum((abs(v - self.stored(v)) * size for v, size in numbers), Fraction(0))
        tiny = Fraction(self.precision.smallest) * 4 * len(numbers)
        return own + coefficients + self.arithmetic.gamma(len(numbers) + 3) * (self.size(form) + coefficients) + tiny

    def stray(self, form: Form, factor: Fraction = Fraction(1)) -> Fraction:
        """What tokens of the bank that are shut out may add to a value: each weighs `floor` or less."""
        stored = sum((abs(v) * self.columns[k].at_bank for k, v in form.parts), Fraction(0))
        return 4 * self.arithmetic.tokens * self.arithmetic.floor * abs(factor) * stored

    def defaulted(self, column: Column, default: Fraction) -> None:
        """Give a column a row of the bank that holds its default, and the column that marks this row."""
        column.default = self.stored(default)
        column.flag = self.column(
            f"default of {column.name}", ["mark", column.number], 0, 1, exact=True, layer=0
        ).number

    def bank(self, rows: int) -> None:
        """Make room for a table of so many tokens."""
        self.bank_rows = max(self.bank_rows, FIRST_ROW + rows)


class Part(ABC):
    """What every part of the compiler has: the board, the pool of terms, the value and the type of a term."""

    board: Board
    pool: Pool

    @abstractmethod
    def value(self, term: Term) -> Form:
        """The form of columns that a term is."""

    @abstractmethod
    def type(self, term: Term) -> Type:
        """What a term is, and its range."""


def _is_power(number: Fraction) -> bool:
    size = abs(number)
    return size > 0 and math.frexp(float(size))[0] == 0.5 and Fraction(float(size)) == size
