"""`PairSums`: sums over pairs of tokens as forms of columns, and the order of real numbers that rests on them."""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction

from softwright.programs.columns import Form, Part
from softwright.programs.meaning import Meaning
from softwright.programs.pairs.kernels import Kernels, Monomials, is_direct
from softwright.programs.pairs.order import Order
from softwright.programs.pairs.products import kernel_of, leaf_of, parts_of_sum
from softwright.programs.reals.functions import U, node_of
from softwright.programs.terms import Term, shown
from softwright.programs.types import Refused


class PairSums(Part):
    """The part of a compiler that makes columns of sums over pairs."""

    meaning: Meaning

    @abstractmethod
    def allowed(self, term: Term) -> Fraction:
        """What a term's own heads may err by."""

    @abstractmethod
    def monomials(self, condition: Term) -> tuple[Monomials, int]:
        """The heads of a condition, and how many tokens they match at most."""

    def paired(self, term: Term) -> Form:
        """A sum or mean over pairs, or real numbers in order."""
        kind, name, holds = self.type(term), shown(term), ["real", term.number]
        if term.op == "sort":
            ends = kind.low, kind.high
            column = Order(self.board, self.pool, self.value).column(term, self.allowed(term), name, holds, ends)
            return Form.of(0, {column.number: Fraction(1)})
        parts = parts_of_sum(self.pool, term)
        if parts != [(Fraction(1), term)]:
            found = Form()
            for factor, part in parts:
                found = found + self.value(part) * factor
            return found
        value, kernel = kernel_of(term)
        leaf = leaf_of(kernel)
        domain, size = self.type(leaf), self.type(kernel).largest
        if domain.low == domain.high:
            raise Refused(term, f"{shown(leaf)} is one number alone; write that number")
        form = Form(Fraction(1)) if value is None else self.value(value)
        monomials, total = self.monomials(term.args[1])
        if not monomials:
            raise Refused(term, f"{name} is over a condition that no two tokens meet; write 0")
        column = Kernels(self.board, self.pool, self.value).column(
            node_of(kernel, {leaf.number: U}),
            leaf,
            (domain.low, domain.high),
            size,
            form,
            monomials,
            total,
            self.allowed(term),
            name,
            holds,
            (kind.low, kind.high),
            is_direct(kernel, leaf),
        )
        return Form.of(0, {column.number: Fraction(1)})
