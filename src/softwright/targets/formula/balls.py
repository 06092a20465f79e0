"""Formulas in ball arithmetic: the exact value at a point, or the range over a box, by python-flint.

A ball that is not finite means "not known to be defined here". Literals are the decimal numbers that were written, not
their float64 neighbours. A comparison is true, false or None: not decided; `where` then takes both branches in.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from flint import arb, fmpq

from softwright.targets.formula.functions import ELEMENTARY, Elementary
from softwright.targets.formula.nodes import Constant, Node, Number, Operation
from softwright.targets.formula.tape import Tape

Ball = Any  # flint.arb, which carries no type information
_LARGEST_POWER = 10_000  # integer exponents up to here are powers by multiplication


def exact_ball(value: Fraction | float) -> Ball:
    """The number itself (rounded only by the working precision)."""
    if isinstance(value, float):
        return arb(value)
    return arb(fmpq(value.numerator, value.denominator))


def evaluate(node: Node, values: Mapping[str, Ball]) -> Ball:
    """The ball of an expression at balls for its variables."""
    return ball_values(Tape((node,)), values)[0]


def ball_values(tape: Tape, values: Mapping[str, Ball]) -> list[Ball]:
    """The balls of the tape's outputs at balls for its variables."""
    literals = literals_of(tape)

    def leaf(index: int, node: Node) -> Ball:
        return _number(node) if isinstance(node, Number | Constant) else values[node.name]  # type: ignore[union-attr]

    def rule(index: int, name: str, arguments: list[Ball]) -> Ball:
        return _ruled(tape, literals, index, arguments)

    return tape.replay(leaf, rule)


def constant_balls(tape: Tape) -> dict[int, Ball]:
    """The balls of the steps that hold no variable."""
    literals = literals_of(tape)
    known: dict[int, Ball] = {}
    for index, (node, arguments) in enumerate(tape.steps):
        if tape.constant[index]:
            is_leaf = isinstance(node, Number | Constant)
            known[index] = _number(node) if is_leaf else _ruled(tape, literals, index, [known[a] for a in arguments])
    return known


def _number(node: Number | Constant) -> Ball:
    if isinstance(node, Number):
        return exact_ball(Fraction(node.text))
    return arb.pi() if node.name == "pi" else arb.const_e()


def _ruled(tape: Tape, literals: Mapping[int, Fraction], index: int, arguments: list[Ball]) -> Ball:
    node, positions = tape.steps[index]
    if not isinstance(node, Operation):
        raise RuntimeError("only operations have rules")
    if node.name == "pow":
        whole = integer_at(literals, positions[1])
        if whole is not None:
            base = arguments[0]
            return base**whole if whole >= 0 else 1 / base ** (-whole)
    return BALL_RULES[node.name](*arguments)


# Literals ---------------------------------------------------------------------------------------------------------


def literals_of(tape: Tape) -> dict[int, Fraction]:
    """The exact values of the steps that are written numbers, with or without signs."""
    known: dict[int, Fraction] = {}
    for index, (node, arguments) in enumerate(tape.steps):
        if isinstance(node, Number):
            known[index] = Fraction(node.text)
        elif isinstance(node, Operation) and node.name == "neg" and arguments[0] in known:
            known[index] = -known[arguments[0]]
    return known


def integer_at(literals: Mapping[int, Fraction], index: int) -> int | None:
    """The step's value if it is a written integer of moderate size, else None."""
    value = literals.get(index)
    if value is None or value.denominator != 1 or abs(value.numerator) > _LARGEST_POWER:
        return None
    return value.numerator


# Rules ------------------------------------------------------------------------------------------------------------


def inside(ball: Ball, domain: tuple[float, float]) -> Ball:
    """The part of the ball within the domain; NaN if there is none."""
    low, high = domain
    if not ball.is_finite() or ball < low or ball > high:
        return arb("nan")
    if (low == -math.inf or ball >= low) and (high == math.inf or ball <= high):
        return ball
    lower, upper = ball.lower(), ball.upper()
    return (lower if lower >= low else arb(low)).union(upper if upper <= high else arb(high))


def power_ball(base: Ball, exponent: Ball) -> Ball:
    """base ** exponent for base >= 0 and a real exponent; the part of the base below 0 is outside the domain."""
    if base < 0:
        # A negative base is defined for integer exponents only.
        integer = exponent.unique_fmpz() if exponent.is_integer() else None
        return base ** arb(integer) if integer is not None else arb("nan")
    if base > 0:
        return (exponent * base.log()).exp()
    if exponent > 0:  # 0 <= base <= top: monotone in the base, so the range is [0, max(top^exponent)]
        top = base.upper()
        if not top > 0:
            return arb(0)
        return arb(0).union((exponent * top.log()).exp().upper())
    return arb("nan")


def _less(left: Ball, right: Ball) -> bool | None:
    return True if left < right else False if left >= right else None


def _less_equal(left: Ball, right: Ball) -> bool | None:
    return True if left <= right else False if left > right else None


def _and(left: bool | None, right: bool | None) -> bool | None:
    return False if left is False or right is False else True if left and right else None


def _or(left: bool | None, right: bool | None) -> bool | None:
    return True if left or right else False if left is False and right is False else None


def _where(condition: bool | None, if_true: Ball, if_false: Ball) -> Ball:
    return if_true.union(if_false) if condition is None else if_true if condition else if_false


def _of_row(row: Elementary) -> Callable[..., Ball]:
    if len(row.slopes) > 1 or row.domain == (-math.inf, math.inf):
        return row.ball
    return lambda ball: row.ball(inside(ball, row.domain))


BALL_RULES: dict[str, Callable[..., Ball]] = {
    "neg": operator.neg,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "pow": power_ball,
    "min": lambda left, right: left.min(right),
    "max": lambda left, right: left.max(right),
    "less": _less,
    "less_equal": _less_equal,
    "and": _and,
    "or": _or,
    "where": _where,
    **{name: _of_row(row) for name, row in ELEMENTARY.items()},
}
