"""Which formulas are affine: those need no approximation.

`is_affine` folds exactly in rational arithmetic (0.1*x + 0.2*x has the coefficient 0.3, rounded once at the end);
irrational constants enter as their float64 neighbours. It follows the form of the formula and does not search for
cancellations of products: x*y - x*y is not recognised.
"""

from __future__ import annotations

import math
from fractions import Fraction

from softwright.targets.formula.nodes import CONSTANT_VALUES, Constant, Node, Number, Variable
from softwright.targets.formula.tape import Tape
from softwright.targets.formula.values import fold_constants

_LARGEST_EXACT_POWER = 16  # higher powers of constants are rounded to float64 before they go on
_LONGEST_EXACT = 4096  # bits; longer fractions are rounded too, so that time stays bounded


class _Form:
    """coefficients . variables + constant, exactly."""

    __slots__ = ("coefficients", "constant")

    def __init__(self, coefficients: dict[str, Fraction], constant: Fraction) -> None:
        self.coefficients = {name: value for name, value in coefficients.items() if value}
        self.constant = constant

    def scaled(self, factor: Fraction) -> _Form:
        return _Form({n: _shorten(c * factor) for n, c in self.coefficients.items()}, _shorten(self.constant * factor))

    def plus(self, other: _Form) -> _Form:
        names = {**self.coefficients, **other.coefficients}
        total = {n: _shorten(self.coefficients.get(n, _NONE) + other.coefficients.get(n, _NONE)) for n in names}
        return _Form(total, _shorten(self.constant + other.constant))


_NONE = Fraction(0)


def is_affine(node: Node) -> tuple[dict[str, float], float] | None:
    """(coefficient of each variable, constant) if the node is affine in the variables, else None."""
    form = _forms(Tape((node,)))[-1]
    if form is None:
        return None
    try:
        return {name: float(value) for name, value in form.coefficients.items()}, float(form.constant)
    except OverflowError:  # a coefficient beyond float64
        return None


def _forms(tape: Tape) -> list[_Form | None]:
    folded = fold_constants(tape)
    forms: list[_Form | None] = []
    for index, (node, arguments) in enumerate(tape.steps):
        form = _form(node, [forms[a] for a in arguments])
        if form is None and index in folded and math.isfinite(folded[index]):
            form = _Form({}, Fraction(folded[index]))  # sin(1), sqrt(2): a constant, known to float64
        forms.append(form)
    return forms


def _form(node: Node, arguments: list[_Form | None]) -> _Form | None:
    if isinstance(node, Number):
        return _Form({}, Fraction(node.text))
    if isinstance(node, Constant):
        return _Form({}, Fraction(CONSTANT_VALUES[node.name]))
    if isinstance(node, Variable):
        return _Form({node.name: Fraction(1)}, _NONE)
    known = [argument for argument in arguments if argument is not None]
    if len(known) < len(arguments):
        return None
    first, last = known[0], known[-1]
    if node.name == "neg":
        return first.scaled(Fraction(-1))
    if node.name == "add":
        return first.plus(last)
    if node.name == "sub":
        return first.plus(last.scaled(Fraction(-1)))
    if node.name == "mul":
        if last.coefficients:
            first, last = last, first
        return None if last.coefficients else first.scaled(last.constant)
    if node.name == "div":
        return None if last.coefficients or not last.constant else first.scaled(1 / last.constant)
    if node.name == "pow":
        return _power(first, last)
    return None


def _power(base: _Form, exponent: _Form) -> _Form | None:
    if exponent.coefficients or exponent.constant.denominator != 1:
        return None
    if exponent.constant == 1:
        return base
    if exponent.constant == 0:
        return _Form({}, Fraction(1))
    if base.coefficients or not base.constant or abs(exponent.constant) > _LARGEST_EXACT_POWER:
        return None
    return _Form({}, _shorten(base.constant ** int(exponent.constant)))


def _shorten(value: Fraction) -> Fraction:
    bits = value.numerator.bit_length() + value.denominator.bit_length()
    if bits <= _LONGEST_EXACT:
        return value
    try:
        return Fraction(float(value))
    except OverflowError:
        return value
