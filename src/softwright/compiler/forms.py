"""Linear forms of features, and additive forms: what every sub-expression becomes.

A `Form` is c + sum_i c_i y_i with features y_i and exact constants c. An `Additive` is a form plus functions of one
variable, each of a linear form of its own,

    c + sum_i c_i y_i + sum_a F_a(u_a),      u_a = y_i + sum of others,

where the *atom* u_a is normalised: its first coefficient is 1 and its constant 0, so that sin(2 x + 2 y) and exp(x + y)
are functions of the same atom x + y. Sums and multiples are free; functions of one atom compose as text; nothing is
approximated here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from softwright.compiler.nodes import (
    ONE,
    ZERO,
    Node,
    Operation,
    U,
    Variable,
    add,
    div,
    is_constant,
    is_zero,
    mul,
    neg,
    number,
    plus,
    rational,
    substitute,
    text,
    times,
)

Key = tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Form:
    """constant + sum of coefficient * feature; features by number, coefficients exact."""

    constant: Node = ZERO
    terms: tuple[tuple[int, Node], ...] = ()  # sorted by feature, none of them zero

    @classmethod
    def of(cls, constant: Node = ZERO, terms: dict[int, Node] | None = None) -> Form:
        kept = sorted((k, c) for k, c in (terms or {}).items() if not is_zero(c))
        return cls(constant, tuple(kept))

    @classmethod
    def feature(cls, number: int) -> Form:
        return cls(ZERO, ((number, ONE),))

    @property
    def key(self) -> tuple[str, Key]:
        return text(self.constant), tuple((k, text(c)) for k, c in self.terms)

    def __iter__(self) -> Iterator[tuple[int, Node]]:
        return iter(self.terms)

    def plus(self, other: Form) -> Form:
        terms = dict(self.terms)
        for k, c in other.terms:
            terms[k] = plus(terms[k], c) if k in terms else c
        return Form.of(plus(self.constant, other.constant), terms)

    def times(self, factor: Node) -> Form:
        return Form.of(times(factor, self.constant), {k: times(factor, c) for k, c in self.terms})

    def node(self, meaning: dict[int, Node]) -> Node:
        """The form as a tree, `meaning` in place of its features."""
        total: Node | None = None if not is_zero(self.constant) else ZERO
        for k, c in self.terms:
            term = mul(c, meaning[k])
            total = term if total is None or total is ZERO else add(total, term)
        if total is None:
            return self.constant
        return total if is_zero(self.constant) else add(total, self.constant)

    def normalised(self) -> tuple[Form, Node, Node]:
        """(atom, a, b) with this form = a * atom + b; the atom's first coefficient is 1 and its constant 0."""
        lead = self.terms[0][1]
        atom = Form.of(ZERO, {k: ONE if i == 0 else quotient(c, lead) for i, (k, c) in enumerate(self.terms)})
        return atom, lead, self.constant


NOTHING = Form()


def quotient(a: Node, b: Node) -> Node:
    """a/b for constants, exact where both are rational."""
    top, bottom = rational(a), rational(b)
    if top is not None and bottom is not None and bottom != 0:
        return number(top / bottom)
    return div(a, b)


def scaled(lead: Node, constant: Node, variable: Node = U) -> Node:
    """lead * u + constant as a tree."""
    return add(mul(lead, variable), constant)


@dataclass(frozen=True)
class Additive:
    """A form plus functions of atoms; `parts` maps the key of an atom to the atom and its function of `u`."""

    form: Form = field(default_factory=Form)
    parts: tuple[tuple[Form, Node], ...] = ()

    @classmethod
    def constant(cls, node: Node) -> Additive:
        return cls(Form(node))

    @property
    def is_constant(self) -> bool:
        return not self.parts and not self.form.terms

    def plus(self, other: Additive) -> Additive:
        parts = {atom.key: (atom, function) for atom, function in self.parts}
        for atom, function in other.parts:
            known = parts.get(atom.key)
            parts[atom.key] = (atom, function if known is None else add(known[1], function))
        return Additive(self.form.plus(other.form), tuple(parts.values()))

    def times(self, factor: Node) -> Additive:
        return Additive(self.form.times(factor), tuple((atom, mul(factor, f)) for atom, f in self.parts))

    def negated(self) -> Additive:
        return Additive(self.form.times(neg(ONE)), tuple((atom, neg(f)) for atom, f in self.parts))

    def single(self) -> tuple[Form, Node] | None:
        """(atom, F) if all of it is a function of one atom, else None."""
        if not self.parts:
            if not self.form.terms:
                return None
            atom, lead, constant = self.form.normalised()
            return atom, scaled(lead, constant)
        atom, function = next(iter(self.parts))
        if len(self.parts) > 1:
            return None
        if not self.form.terms:
            return atom, add(function, self.form.constant)
        other, lead, constant = self.form.normalised()
        return (atom, add(function, scaled(lead, constant))) if other.key == atom.key else None


def polynomial(node: Node, most: int = 4) -> list[Node] | None:
    """Coefficients [c0, c1, ..] if the tree is a polynomial in `u` of degree at most `most`, else None."""
    if is_constant(node):
        return [node]
    if isinstance(node, Variable):
        return [ZERO, ONE]
    if not isinstance(node, Operation):
        return None
    if node.name == "pow":
        exponent = rational(node.arguments[1])
        base = polynomial(node.arguments[0], most)
        if exponent is None or base is None or exponent.denominator != 1 or not 0 <= exponent <= most:
            return None
        result: list[Node] = [ONE]
        for _ in range(int(exponent)):
            result = _product(result, base)
        return result if len(result) <= most + 1 else None
    if node.name not in ("neg", "add", "sub", "mul", "div"):
        return None
    parts = [polynomial(argument, most) for argument in node.arguments]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if node.name == "neg":
        return [neg(c) for c in known[0]]
    first, second = known
    if node.name == "div":
        return [quotient(c, second[0]) for c in first] if len(second) == 1 else None
    if node.name == "mul":
        result = _product(first, second)
        return result if len(result) <= most + 1 else None
    if node.name == "sub":
        second = [neg(c) for c in second]
    size = max(len(first), len(second))
    padded = [[*p, *[ZERO] * (size - len(p))] for p in (first, second)]
    return _trimmed([add(a, b) for a, b in zip(*padded, strict=True)])


def _product(a: list[Node], b: list[Node]) -> list[Node]:
    result: list[Node] = [ZERO] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            result[i + j] = add(result[i + j], mul(x, y))
    return _trimmed(result)


def _trimmed(coefficients: list[Node]) -> list[Node]:
    while len(coefficients) > 1 and is_zero(coefficients[-1]):
        coefficients = coefficients[:-1]
    return coefficients


def exponentials(node: Node) -> list[tuple[Node, Node, Node]] | None:
    """[(c, a, b), ..] if the tree is a sum of c exp(a u + b), else None; a is zero in a constant term."""
    if is_constant(node):
        return [(node, ZERO, ZERO)]
    if not isinstance(node, Operation):
        return None
    if node.name == "exp":
        inner = polynomial(node.arguments[0])
        return [(ONE, inner[1], inner[0])] if inner is not None and len(inner) == 2 else None
    if node.name == "neg":
        found = exponentials(node.arguments[0])
        return None if found is None else [(neg(c), a, b) for c, a, b in found]
    if node.name in ("add", "sub"):
        left, right = (exponentials(argument) for argument in node.arguments)
        if left is None or right is None:
            return None
        return left + [(c if node.name == "add" else neg(c), a, b) for c, a, b in right]
    if node.name in ("mul", "div"):
        first, second = node.arguments
        if node.name == "div" and is_constant(second):
            found = exponentials(first)
            return None if found is None else [(quotient(c, second), a, b) for c, a, b in found]
        if node.name == "mul":
            for factor, other in ((first, second), (second, first)):
                if is_constant(factor):
                    found = exponentials(other)
                    return None if found is None else [(mul(factor, c), a, b) for c, a, b in found]
    return None


def stripped(node: Node) -> tuple[Node, Node]:
    """(c, F) with node = c F and no constant factor left at the top of F."""
    factor: Node = ONE
    while isinstance(node, Operation):
        if node.name == "neg":
            factor, node = neg(factor), node.arguments[0]
        elif node.name == "mul" and is_constant(node.arguments[0]):
            factor, node = mul(factor, node.arguments[0]), node.arguments[1]
        elif node.name == "mul" and is_constant(node.arguments[1]):
            factor, node = mul(factor, node.arguments[1]), node.arguments[0]
        elif node.name == "div" and is_constant(node.arguments[1]):
            factor, node = quotient(factor, node.arguments[1]), node.arguments[0]
        else:
            break
    return factor, node


def composed(function: Node, inner: Node) -> Node:
    """F(g(u)) as a tree."""
    return substitute(function, {"u": inner})
