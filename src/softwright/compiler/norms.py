"""Sums of squares under a root, roots beside what they nearly are, and arcs that reach the end of their domain.

**Norms.** sqrt(sum c_i z_i^2) has an unbounded slope where all z_i vanish, and a square that errs by e makes a root
that errs by sqrt(e). But a gate for z * z errs relatively to |z|, and then the root errs by no more than the gates do,
if each z_i is one column of the stream: what is a form of several is copied into one first. Sums of squares are found
after completing squares; one in disguise is a^2 + b^2 - 2 a b cos(t) = (a - b cos(t))^2 + (b sin(t))^2.

**Roots beside.** sqrt(a^2 + b) - a with b > 0 loses all digits where a^2 is large beside b. It is sqrt(b) G(a/sqrt(b))
with G(w) = sqrt(w^2 + 1) - w, a function of one variable whose logarithm is -asinh(w); so is the sum of the two.

**Arcs.** For -1 <= a <= 1, with a = sin(w): sqrt(1 + a) - sqrt(1 - a) = 2 sin(w/2), so that

    asin(a) = 2 asin((sqrt(1 + a) - sqrt(1 - a))/2),      acos(a) = pi/2 - asin(a),

where the outer asin keeps clear of its ends and the roots have their own tables.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, TypeGuard

from softwright.compiler.features import column_of
from softwright.compiler.forms import Additive, Form, polynomial
from softwright.compiler.nodes import (
    ONE,
    Constant,
    Node,
    Operation,
    add,
    div,
    exact_value,
    is_constant,
    mul,
    neg,
    number,
    of,
    power,
    rational,
    sub,
)
from softwright.targets.formula import additive_terms

if TYPE_CHECKING:
    from softwright.compiler.translate import Translator

Square = tuple[Fraction, Form]


def squares_of(self: Translator, node: Node) -> Form | None:
    """A tree that is a sum of at least two squares, as a form of squares of single columns; else None."""
    sides = law_of_cosines(self, node)
    if sides is None:
        found = _completed(self, self.build(node))
    else:
        found = [(Fraction(1), self.materialise(self.build(side))) for side in sides]
    if found is None or len(found) < 2:
        return None
    total = Form()
    for c, z in found:
        column = z if column_of(z, self.features) is not None else self.copy(z)
        total = total.plus(self.product(column, column).times(number(c)))
    return total


def _completed(self: Translator, additive: Additive) -> list[Square] | None:
    """[(c, z), ..] if an additive form is sum c z^2 exactly, c > 0."""
    rest = rational(additive.form.constant)
    if additive.form.terms or rest is None:
        return None
    found: list[Square] = []
    for atom, function in additive.parts:
        coefficients = polynomial(function)
        if coefficients is None or len(coefficients) != 3:
            return None
        c0, c1, c2 = map(rational, coefficients)
        if c0 is None or c1 is None or c2 is None or c2 <= 0:
            return None
        found.append((c2, atom.plus(Form(number(c1 / (2 * c2))))))
        rest += c0 - c1 * c1 / (4 * c2)
    return found if rest == 0 else None


def law_of_cosines(self: Translator, node: Node) -> tuple[Node, Node] | None:
    """(a - b cos(t), b sin(t)), whose squares add up to a^2 + b^2 - 2 a b cos(t); None if a sum is not this."""
    terms = [(sign, term) for sign, term in additive_terms(node)]
    if len(terms) != 3:
        return None
    squares, mixed = [], None
    for sign, term in terms:
        base = _root(self, term) if sign > 0 else None
        if base is not None:
            squares.append(base)
        else:
            mixed = (sign, term)
    if len(squares) != 2 or mixed is None:
        return None
    a, b = squares
    sign, term = mixed
    constant, factors = _factors(term)
    waves = [f for f in factors if isinstance(f, Operation) and f.name == "cos"]
    plain = [self._number(f) for f in factors if f not in waves]
    if len(waves) != 1 or sorted(plain) != sorted((self._number(a), self._number(b))) or abs(constant) != 2:
        return None
    (wave,) = waves
    along = mul(number(Fraction(1 if sign * constant < 0 else -1)), mul(b, wave))
    return sub(a, along), mul(b, of("sin", *wave.arguments))


def _root(self: Translator, node: Node) -> Node | None:
    """f if a term is f^2."""
    if isinstance(node, Operation) and node.name == "pow" and is_constant(node.arguments[1]):
        return node.arguments[0] if rational(node.arguments[1]) == 2 else None
    if isinstance(node, Operation) and node.name == "mul":
        first, second = node.arguments
        return first if self._number(first) == self._number(second) else None
    return None


def _factors(node: Node) -> tuple[Fraction, list[Node]]:
    """A product of a rational number and other factors."""
    if isinstance(node, Operation) and node.name == "mul":
        (c, first), (d, second) = map(_factors, node.arguments)
        return c * d, first + second
    if isinstance(node, Operation) and node.name == "neg":
        c, inner = _factors(node.arguments[0])
        return -c, inner
    value = exact_value(node) if is_constant(node) else None
    return (value, []) if value is not None else (Fraction(1), [node])


def root_beside(self: Translator, node: Node) -> tuple[Node, Node] | None:
    """(b, G) if a tree is sqrt(a^2 + b) - a or + a, which is sqrt(b) G, with b certainly positive and no constant."""
    if not isinstance(node, Operation) or node.name not in ("add", "sub"):
        return None
    first, second = node.arguments
    if node.name == "add" and not _is_root(first):
        first, second = second, first
    if not _is_root(first) or is_constant(second):
        return None
    inside = additive_terms(first.arguments[0])
    squares = [i for i, (sign, term) in enumerate(inside) if sign > 0 and self.same(_root(self, term), second)]
    if len(squares) != 1 or len(inside) < 2:
        return None
    b: Node | None = None
    for sign, term in (pair for i, pair in enumerate(inside) if i not in squares):
        signed = term if sign > 0 else neg(term)
        b = signed if b is None else add(b, signed)
    if b is None or is_constant(b) or not self.is_positive(b):
        return None

    def beside(w: Node) -> Node:
        return of(node.name, of("sqrt", add(power(w, number(2)), ONE)), w)

    w = div(second, of("sqrt", b))
    self.define(beside(w), self.apply(self.build(w), beside))  # of w itself, not of its square and of w
    return b, beside(w)


def _is_root(node: Node) -> TypeGuard[Operation]:
    return isinstance(node, Operation) and node.name == "sqrt"


def arc(self: Translator, node: Operation) -> Additive | None:
    """The rule of asin and acos whose argument reaches an end of [-1, 1]; None for other functions."""
    if node.name not in ("asin", "acos"):
        return None
    (a,) = node.arguments
    self.require(sub(ONE, a), ">= 0", "an arc is that of half the difference of two roots")
    self.require(add(ONE, a), ">= 0", "an arc is that of half the difference of two roots")
    # Each root is a feature: one table cannot be graded towards both ends.
    first, second = (Additive(self.materialise(self.build(of("sqrt", f(ONE, a))))) for f in (add, sub))
    whole = self.apply(first.plus(second.negated()).times(number(Fraction(1, 2))), lambda inner: of("asin", inner))
    whole = whole.times(number(2))
    if node.name == "asin":
        return whole
    return Additive.constant(div(Constant("pi"), number(2))).plus(whole.negated())
