"""Functions of one atom with an unbounded slope at a point p inside its range: one clamped table for each side of it.

    F(u)  =  F(max(u, p)) + F(min(u, p)) - F(p)

for every F that has a value at p. Each of the two is constant beyond p and singular at p as seen from its own side, so
that it is a table whose keys are graded towards p (`graded.py`). On its side abs(a u + b), sign(a u + b) and
cbrt(a u + b) with a zero at p are what they are there: the side's function has no bend left. What a gate would make of
abs(u), off by d where u is 0, a root would turn into sqrt(d); here there is no gate.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from softwright.compiler.features import TABLE, Feature
from softwright.compiler.forms import Form, composed, polynomial
from softwright.compiler.nodes import (
    ONE,
    ZERO,
    CannotCompile,
    Node,
    Operation,
    is_constant,
    mul,
    neg,
    number,
    of,
    power,
    rational,
)
from softwright.compiler.tables import clamped, singular_end

if TYPE_CHECKING:
    from softwright.compiler.translate import Translator

_THIRD = Fraction(1, 3)
_NOTHING_AT_NOTHING = ("abs", "sqrt", "cbrt", "sign", "sin", "tan", "atan", "tanh", "sinh", "asinh")


def is_root(p: Fraction) -> bool:
    """Whether the slope of s**p is unbounded at 0, and its value is not."""
    return p > 0 and p.denominator != 1


def is_absolute(node: Node) -> bool:
    return isinstance(node, Operation) and node.name == "abs"


def zero_of(inner: Node) -> tuple[Fraction, int] | None:
    """(p, sign of the slope) of a tree a u + b with rational a and b."""
    coefficients = polynomial(inner, 1)
    if coefficients is None or len(coefficients) != 2:
        return None
    offset, slope = map(rational, coefficients)
    return None if offset is None or not slope else (-offset / slope, 1 if slope > 0 else -1)


def breaks(function: Node, low: float, high: float) -> list[Fraction]:
    """Points inside of (low, high) at which a root of abs(a u + b) or cbrt(a u + b) has an unbounded slope."""
    found: set[Fraction] = set()
    pending = [function]
    while pending:
        node = pending.pop()
        if not isinstance(node, Operation):
            continue
        pending += node.arguments
        inner = _under_root(node)
        zero = None if inner is None else zero_of(inner)
        if zero is not None:
            found.add(zero[0])
    return sorted(p for p in found if low < p < high)


def _under_root(node: Operation) -> Node | None:
    """What changes its sign under a root."""
    if node.name == "cbrt":
        return node.arguments[0]
    first = node.arguments[0]
    if not isinstance(first, Operation) or first.name != "abs":
        return None
    if node.name == "pow" and is_constant(node.arguments[1]):
        exponent = rational(node.arguments[1])
        return first.arguments[0] if exponent is None or is_root(exponent) else None
    return first.arguments[0] if node.name == "sqrt" else None


def has_two_sided_root(node: Node) -> bool:
    """Whether a formula takes a root of an absolute value."""
    pending = [node]
    while pending:
        found = pending.pop()
        if isinstance(found, Operation):
            if found.name != "cbrt" and _under_root(found) is not None:
                return True
            pending += found.arguments
    return False


def one_side(function: Node, point: Fraction, side: int) -> Node:
    """F where side (u - p) >= 0, without what bends or jumps at p."""
    if not isinstance(function, Operation) or is_constant(function):
        return function
    arguments = tuple(one_side(argument, point, side) for argument in function.arguments)
    zero = zero_of(arguments[0]) if function.name in ("abs", "sign", "cbrt") else None
    if zero is not None and zero[0] == point:
        above = zero[1] == side  # whether the argument is not negative here
        size = arguments[0] if above else neg(arguments[0])
        if function.name == "abs":
            return size
        found = ONE if function.name == "sign" else power(size, number(_THIRD))
        return found if above else neg(found)
    if function.name == "mul":
        return mul(*arguments)
    return of(function.name, *arguments) if function.name != "pow" else power(*arguments)


def at_point(function: Node, point: Fraction) -> Node:
    """F(p), the number 0 where that is what the tree spells."""
    if not isinstance(function, Operation):
        return number(point) if not is_constant(function) else function
    arguments = [at_point(argument, point) for argument in function.arguments]
    exact = [rational(argument) for argument in arguments]
    if (
        function.name in ("abs", "sqrt", "cbrt", "sign", "sin", "tan", "atan", "tanh", "sinh", "asinh")
        and exact[0] == 0
    ):
        return ZERO
    if function.name == "pow" and exact[0] == 0 and exact[1] is not None and exact[1] > 0:
        return ZERO
    found = of(function.name, *arguments)
    value = rational(found)
    return found if value is None else number(value)


# Tables of a translator -----------------------------------------------------------------------------------------------


def table(self: Translator, atom: Form, function: Node) -> Form:
    """The form of F(atom): a table, clamped where F is singular at an end, or two of them about a point inside."""
    score = self.forward.form(atom)
    low, high = float(score.lower[0]), float(score.upper[0])
    inside = breaks(function, low, high)
    if len(inside) == 1:
        (point,) = inside
        right, left = (_clamped(self, atom, one_side(function, point, side), (point, side), True) for side in (1, -1))
        return right.plus(left).plus(Form(neg(at_point(function, point))))
    end = singular_end(function, low, high)
    if end is not None:
        return _clamped(self, atom, function, end, False)
    if not self.functions.enclose(function, score)[1].all():
        self.keep(atom, self.ranges.refined(self.meaning(atom)))
        if not self.functions.enclose(function, self.forward.form(atom))[1].all():
            meaning = composed(function, self.meaning(atom))
            raise CannotCompile(meaning, "may be undefined on the range that was proved for its argument")

    def make(i: int) -> Feature:
        meaning = composed(function, self.meaning(atom))
        return Feature(i, TABLE, self.layer(atom), meaning, score=atom, function=function)

    return Form.feature(self.feature((TABLE, atom.key, self._number(function)), make))


def _clamped(self: Translator, atom: Form, function: Node, end: tuple[Fraction, int], two_sided: bool) -> Form:
    """A table that is singular at a point; if the atom lies on both sides of it, that says what it means."""
    held = clamped(function, *end)
    meaning = composed(held if two_sided else function, self.meaning(atom))

    def make(i: int) -> Feature:
        return Feature(i, TABLE, self.layer(atom), meaning, score=atom, function=held, end=end)

    return Form.feature(self.feature((TABLE, atom.key, self._number(held)), make))
