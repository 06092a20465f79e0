"""`differentiate`: the derivative of a tree as a tree, kept small by dropping zeros and ones as they arise.

The chain rule, one step of the tape at a time, so that shared sub-expressions have shared derivatives. At kinks a
one-sided choice is made: abs' = sign, min and max follow the argument they take, sign' = 0 and where' = where of the
derivatives (the jump itself has no derivative and gets none).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from softwright.targets.formula.nodes import Constant, Node, Number, Operation, Variable
from softwright.targets.formula.tape import Tape

ZERO, ONE, TWO = Number(0.0, "0"), Number(1.0, "1"), Number(2.0, "2")
_LONGEST_EXACT = 30  # digits to which exact constants are folded; longer ones stay as operations


def differentiate(node: Node, name: str) -> Node:
    """d node / d name."""
    tape = Tape((node,))
    derivatives: list[Node] = []
    for step, positions in tape.steps:
        if isinstance(step, Operation):
            # Arguments are taken from the tape and not from the node: equal ones are then the same object.
            arguments = tuple(tape.steps[p].node for p in positions)
            derivatives.append(_chain_rule(step, arguments, tuple(derivatives[p] for p in positions)))
        else:
            derivatives.append(ONE if isinstance(step, Variable) and step.name == name else ZERO)
    return derivatives[-1]


# Constructors that simplify ---------------------------------------------------------------------------------------


def _is(node: Node, value: int) -> bool:
    return isinstance(node, Number) and node.value == value


def add(a: Node, b: Node) -> Node:
    if _is(a, 0):
        return b
    if _is(b, 0):
        return a
    if isinstance(b, Operation) and b.name == "neg":
        return sub(a, b.arguments[0])
    if isinstance(a, Number) and isinstance(b, Number):
        return _folded(Fraction(a.text) + Fraction(b.text), Operation("add", (a, b)))
    return Operation("add", (a, b))


def sub(a: Node, b: Node) -> Node:
    if _is(b, 0):
        return a
    if _is(a, 0):
        return neg(b)
    if isinstance(a, Number) and isinstance(b, Number):
        return _folded(Fraction(a.text) - Fraction(b.text), Operation("sub", (a, b)))
    return Operation("sub", (a, b))


def neg(a: Node) -> Node:
    if _is(a, 0):
        return ZERO
    if isinstance(a, Operation) and a.name == "neg":
        return a.arguments[0]
    return Operation("neg", (a,))


def mul(a: Node, b: Node) -> Node:
    if _is(a, 0) or _is(b, 0):
        return ZERO
    if _is(a, 1):
        return b
    if _is(b, 1):
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
    if _is(a, 0):
        return ZERO
    if _is(b, 1):
        return a
    if isinstance(a, Operation) and a.name == "neg":
        return neg(div(a.arguments[0], b))
    return Operation("div", (a, b))


def power(base: Node, exponent: Node) -> Node:
    if _is(exponent, 0):
        return ONE
    return base if _is(exponent, 1) else Operation("pow", (base, exponent))


def _of(name: str, *arguments: Node) -> Node:
    return Operation(name, arguments)


# Exact constants --------------------------------------------------------------------------------------------------


def exact_value(node: Node) -> Fraction | None:
    """The rational number that numbers, signs and the four operations spell, unless it grows long."""
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
    return _if_short(first / second) if node.name == "div" and second else None


def _if_short(value: Fraction) -> Fraction | None:
    limit = 10**_LONGEST_EXACT
    return value if abs(value.numerator) < limit and value.denominator < limit else None


def _folded(value: Fraction, otherwise: Node) -> Node:
    return otherwise if _if_short(value) is None else number_node(value)


def number_node(value: Fraction) -> Node:
    """The node of a rational number: a decimal if it ends within a few digits, else a quotient."""
    if value < 0:
        return neg(number_node(-value))
    for digits in range(_LONGEST_EXACT):
        scaled = value * 10**digits
        if scaled.denominator == 1:
            written = str(scaled.numerator).rjust(digits + 1, "0")
            text = f"{written[:-digits]}.{written[-digits:]}" if digits else written
            return Number(float(value), text)
    top, bottom = str(value.numerator), str(value.denominator)
    return div(Number(float(value.numerator), top), Number(float(value.denominator), bottom))


def _less_one(exponent: Node) -> Node:
    exact = exact_value(exponent)
    return number_node(exact - 1) if exact is not None else sub(exponent, ONE)


# Rules ------------------------------------------------------------------------------------------------------------


def _chain_rule(node: Operation, arguments: tuple[Node, ...], derivatives: tuple[Node, ...]) -> Node:
    if all(_is(derivative, 0) for derivative in derivatives):
        return ZERO
    if node.name in _UNARY:
        return mul(_UNARY[node.name](arguments[0], node), derivatives[0])
    return _OTHER[node.name](node, arguments, derivatives)


# name -> derivative of the function at u, given u and the node f(u) itself
_UNARY: dict[str, Callable[[Node, Node], Node]] = {
    "sin": lambda u, f: _of("cos", u),
    "cos": lambda u, f: neg(_of("sin", u)),
    "tan": lambda u, f: add(ONE, power(f, TWO)),
    "asin": lambda u, f: div(ONE, _of("sqrt", sub(ONE, power(u, TWO)))),
    "acos": lambda u, f: neg(div(ONE, _of("sqrt", sub(ONE, power(u, TWO))))),
    "atan": lambda u, f: div(ONE, add(ONE, power(u, TWO))),
    "sinh": lambda u, f: _of("cosh", u),
    "cosh": lambda u, f: _of("sinh", u),
    "tanh": lambda u, f: sub(ONE, power(f, TWO)),
    "exp": lambda u, f: f,
    "log": lambda u, f: div(ONE, u),
    "sqrt": lambda u, f: div(ONE, mul(TWO, f)),
    "abs": lambda u, f: _of("sign", u),
    "erf": lambda u, f: mul(div(TWO, _of("sqrt", Constant("pi"))), _of("exp", neg(power(u, TWO)))),
}

_Arguments = tuple[Node, ...]


def _product_rule(node: Node, of: _Arguments, by: _Arguments) -> Node:
    return add(mul(by[0], of[1]), mul(of[0], by[1]))


def _quotient_rule(node: Node, of: _Arguments, by: _Arguments) -> Node:
    # (u' - (u/v) v') / v repeats u/v itself, which the tape holds already, and needs no square of v.
    return div(sub(by[0], mul(node, by[1])), of[1])


def _power_rule(node: Node, of: _Arguments, by: _Arguments) -> Node:
    base, exponent = of
    through_base = mul(mul(exponent, power(base, _less_one(exponent))), by[0]) if not _is(by[0], 0) else ZERO
    if _is(by[1], 0):
        return through_base
    rate = ONE if base == Constant("e") else _of("log", base)
    return add(through_base, mul(mul(node, rate), by[1]))


def _choose(condition: Node, a: Node, b: Node) -> Node:
    return a if a is b or (isinstance(a, Number) and a == b) else _of("where", condition, a, b)


_OTHER: dict[str, Callable[[Node, _Arguments, _Arguments], Node]] = {
    "neg": lambda node, of, by: neg(by[0]),
    "add": lambda node, of, by: add(by[0], by[1]),
    "sub": lambda node, of, by: sub(by[0], by[1]),
    "mul": _product_rule,
    "div": _quotient_rule,
    "pow": _power_rule,
    "sign": lambda node, of, by: ZERO,
    "less": lambda node, of, by: ZERO,
    "less_equal": lambda node, of, by: ZERO,
    "min": lambda node, of, by: _choose(_of("less", of[0], of[1]), by[0], by[1]),
    "max": lambda node, of, by: _choose(_of("less", of[1], of[0]), by[0], by[1]),
    "where": lambda node, of, by: _choose(of[0], by[1], by[2]),
}
