"""`Formulas`: terms of real numbers at one token, computed by gates and curves (`shapes.py` says by which).

Curves and maxima share the tolerance: each may err by its share over how much its error matters to the outputs.
"""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from typing import Any

from softwright.programs.columns import Column, Form, Part
from softwright.programs.heads import NotPossible
from softwright.programs.reals.curves import Curves
from softwright.programs.reals.functions import is_map
from softwright.programs.reals.gates import Gates
from softwright.programs.reals.shapes import Shape, Shapes
from softwright.programs.terms import Term, shown

SHARE = Fraction(7, 8)  # of the tolerance, for curves and maxima; the rest is for rounding
_LEAST = Fraction(1, 10**15)


class Formulas(Part):
    """The part of a compiler that makes columns of products, functions and maxima."""

    tol: Fraction
    shapes: Shapes
    _allowed: dict[int, Fraction]

    @abstractmethod
    def codes(self, term: Term, low: int, bits: int) -> list[Column]:
        """The bits of a whole number."""

    def share_out(self, outputs: list[Term], share: Fraction) -> None:
        """Give every curve and maximum its share of the tolerance."""
        matters = self.shapes.multipliers(outputs)
        terms = [self.pool.terms[number] for number in matters if matters[number] > 0]
        approximate = [term for term in terms if self.shapes.is_approximate(term)]
        each = share * self.tol / max(1, len(approximate))
        self._allowed = {term.number: each / matters[term.number] for term in approximate}

    def allowed(self, term: Term) -> Fraction:
        """What a term's own head may err by."""
        return max(self._allowed.get(term.number, SHARE * self.tol), _LEAST)

    def formula(self, term: Term) -> Form:
        """A plain term of reals that is no combination with constant factors."""
        shape = self.shapes.of(term)
        if shape.kind == "linear":
            found = Form()
            for part, factor in zip(shape.parts, shape.factors, strict=True):
                found = found + self.value(part) * factor
            return found
        return Form.of(0, {self._column(term, shape).number: Fraction(1)})

    def _gates(self) -> Gates:
        bits = int(self.board.longest).bit_length()
        return Gates(self.board, [column.number for column in self.codes(self.pool.make("position"), 0, bits)])

    def _column(self, term: Term, shape: Shape) -> Column:
        kind, name, holds = self.type(term), shown(term), ["real", term.number]
        values: tuple[Fraction, Fraction] = kind.low, kind.high
        forms = [self.value(part) for part in shape.parts]
        kinds = [self.type(part) for part in shape.parts]
        ends = [(one.low, one.high) for one in kinds]
        if shape.kind == "product":
            return self._gates().product(forms[0], forms[1], kinds[0].largest, ends[1], values, holds, name)
        if shape.kind == "exponential":
            return self._gates().exponential(forms[0], forms[1], kinds[0].largest, ends[1], values, holds, name)
        if shape.kind == "maximum":
            return self._gates().maximum(forms[0], ends[0], self.allowed(term), holds, name)
        leaf, argument = shape.parts[0], term.args[0]
        try:
            return self._curve(term, leaf, values, holds, name)
        except NotPossible as error:
            if argument is leaf or not (is_map(term.op) or term.op == "pow") or self.type(argument).whole:
                raise
            try:  # of what the function itself is of: sqrt(1 - x**2) is singular at two x, and at one 1 - x**2
                return self._curve(term, argument, values, holds, name)
            except NotPossible:
                raise error from None

    def _curve(self, term: Term, leaf: Term, values: tuple[Fraction, Fraction], holds: list[Any], name: str) -> Column:
        """A function of one term."""
        form, kind = self.value(leaf), self.type(leaf)
        more: list[Any] = [*holds, [leaf.number]]
        try:
            return Curves(self.board).curve(
                self.shapes.node(term, leaf), form, (kind.low, kind.high), values, self.allowed(term), more, name
            )
        except NotPossible as error:
            raise NotPossible(f"as a function of {shown(leaf)}: {error}") from error
