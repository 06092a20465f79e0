"""Nodes made with the simplifications that derivatives need (zeros and ones are dropped as they arise), and the exact
rational values of constant nodes."""

from __future__ import annotations

from fractions import Fraction

from softwright.targets.formula.nodes import Node, Number, Operation
from softwright.targets.formula.tape import Tape

ZERO, ONE, TWO = Number(0.0, "0"), Number(1.0, "1"), Number(2.0, "2")
_LONGEST_EXACT = 30  # digits to which exact constants are folded; longer ones stay as operations
_LARGEST_POWER = 100  # to which an exact constant is raised
_LARGEST_BITS, _HALF_RANGE = 1000, 2**512  # of a whole number that is a float, and a power of two to divide by


def is_number(node: Node, value: int) -> bool:
    return isinstance(node, Number) and node.value == value


def add(a: Node, b: Node) -> Node:
    if is_number(a, 0):
        return b
    if is_number(b, 0):
        return a
    if isinstance(b, Operation) and b.name == "neg":
        return sub(a, b.arguments[0])
    if isinstance(a, Number) and isinstance(b, Number):
        return _folded(Fraction(a.text) + Fraction(b.text), Operation("add", (a, b)))
    return Operation("add", (a, b))


def sub(a: Node, b: Node) -> Node:
    if is_number(b, 0):
        return a
    if is_number(a, 0):
        return neg(b)
    if isinstance(a, Number) and isinstance(b, Number):
        return _folded(Fraction(a.text) - Fraction(b.text), Operation("sub", (a, b)))
    return Operation("sub", (a, b))


def neg(a: Node) -> Node:
    if is_number(a, 0):
        return ZERO
    if isinstance(a, Operation) and a.name == "neg":
        return a.arguments[0]
    return Operation("neg", (a,))


def mul(a: Node, b: Node) -> Node:
    if is_number(a, 0) or is_number(b, 0):
        return ZERO
    if is_number(a, 1):
        return b
    if is_number(b, 1):
        return a
    for factor, other in ((a, b), (b, a)):
        if isinstance(factor, Operation) and factor.name == "neg":
            return neg(mul(factor.arguments[0], other))
    if isinstance(b, Number) and not isinstance(a, Number):
        a, b = b, a
    if isinstance(a, Number) and isinstance(b, Number):
        return _folded(Fraction(a.text) * Fraction(b.text), Operation("mul", (a, b)))
    if isinstance(a, Number) and isinstance(b, Operation) and b.name == "mul" and isinstance(b.arguments[0], Number):
        factor = mul(a, b.arguments[0])
        if isinstance(factor, Number):  # 3*(2*x) is 6*x
            return Operation("mul", (factor, b.arguments[1]))
    return Operation("mul", (a, b))


def div(a: Node, b: Node) -> Node:
    if is_number(a, 0):
        return ZERO
    if is_number(b, 1):
        return a
    if isinstance(a, Operation) and a.name == "neg":
        return neg(div(a.arguments[0], b))
    return Operation("div", (a, b))


def power(base: Node, exponent: Node) -> Node:
    if is_number(exponent, 0):
        return ONE
    return base if is_number(exponent, 1) else Operation("pow", (base, exponent))


def of(name: str, *arguments: Node) -> Node:
    return Operation(name, arguments)


# Exact constants --------------------------------------------------------------------------------------------------


def exact_value(node: Node) -> Fraction | None:
    """The rational number that numbers, signs, the four operations and whole powers spell, unless it grows long."""
    known: list[Fraction | None] = []
    for step, positions in Tape((node,)).steps:
        arguments = [known[p] for p in positions]
        known.append(_exact_step(step, arguments))
    return known[-1]


def _exact_step(node: Node, arguments: list[Fraction | None]) -> Fraction | None:
    if isinstance(node, Number):
        return _if_short(Fraction(node.text))
    values = [argument for argument in arguments if argument is not None]
    if not isinstance(node, Operation) or len(values) < len(arguments):
        return None
    if node.name == "neg":
        return -values[0]
    first, second = values if len(values) == 2 else (Fraction(0), Fraction(0))
    if node.name == "add":
        return _if_short(first + second)
    if node.name == "sub":
        return _if_short(first - second)
    if node.name == "mul":
        return _if_short(first * second)
    if node.name == "pow":
        return _exact_power(first, second)
    return _if_short(first / second) if node.name == "div" and second else None


def _exact_power(base: Fraction, exponent: Fraction) -> Fraction | None:
    """A whole power that stays short."""
    if exponent.denominator != 1 or abs(exponent) > _LARGEST_POWER or (base == 0 and exponent < 0):
        return None
    return _if_short(base ** int(exponent))


def _if_short(value: Fraction) -> Fraction | None:
    limit = 10**_LONGEST_EXACT
    return value if abs(value.numerator) < limit and value.denominator < limit else None


def _folded(value: Fraction, otherwise: Node) -> Node:
    return otherwise if _if_short(value) is None else number_node(value)


def number_node(value: Fraction) -> Node:
    """The node of a rational number: a decimal if it ends within a few digits, else a quotient.

    Numerators and denominators beyond all floats, as those of 1e-300 are, lose powers of two first.
    """
    if value < 0:
        return neg(number_node(-value))
    for digits in range(_LONGEST_EXACT):
        scaled = value * 10**digits
        if scaled.denominator == 1:
            written = str(scaled.numerator).rjust(digits + 1, "0")
            text = f"{written[:-digits]}.{written[-digits:]}" if digits else written
            return Number(float(value), text)
    if value.denominator.bit_length() > _LARGEST_BITS and value.denominator % _HALF_RANGE == 0:
        return div(number_node(value * _HALF_RANGE), number_node(Fraction(_HALF_RANGE)))
    if value.numerator.bit_length() > _LARGEST_BITS and value.numerator % _HALF_RANGE == 0:
        return mul(number_node(value / _HALF_RANGE), number_node(Fraction(_HALF_RANGE)))
    top, bottom = str(value.numerator), str(value.denominator)
    return div(Number(float(value.numerator), top), Number(float(value.denominator), bottom))


def less_one(exponent: Node) -> Node:
    exact = exact_value(exponent)
    return number_node(exact - 1) if exact is not None else sub(exponent, ONE)
