"""Expressions in ball arithmetic: the exact value of a formula at a point, or its range over a box, by python-flint.

A ball that is not finite means "not known to be defined here". The prover uses this module for constants (literals are
the decimal numbers that were written, not their float64 neighbours), for witnesses, and to refuse a domain on which a
formula is plainly undefined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, ctx, fmpq

from softwright.targets.formula.nodes import Constant, Node, Number, Operation, Variable

Ball = Any  # flint.arb, which carries no type information


@contextmanager
def precision(bits: int, terms: int = 10) -> Iterator[None]:
    """Work with `bits` of precision and power series of `terms` terms inside the block."""
    old_bits, old_terms = ctx.prec, ctx.cap
    ctx.prec, ctx.cap = bits, max(terms, 10)
    try:
        yield
    finally:
        ctx.prec, ctx.cap = old_bits, old_terms


def exact_ball(value: Fraction | float) -> Ball:
    """The number itself (rounded only by the working precision)."""
    if isinstance(value, float):
        return arb(value)
    return arb(fmpq(value.numerator, value.denominator))


def interval_ball(lower: float, upper: float) -> Ball:
    """A ball that contains [lower, upper]."""
    return arb(lower).union(arb(upper))


def float_enclosure(ball: Ball) -> tuple[float, float]:
    """A float and an upper bound of its distance to every number of the ball; (0, inf) if the ball is unbounded."""
    if not ball.is_finite():
        return 0.0, math.inf
    middle = float(ball.mid())
    if not math.isfinite(middle):
        return 0.0, math.inf
    return middle, ball_above((ball - arb(middle)).abs_upper())


def ball_above(ball: Ball) -> float:
    """The least float64 (or the next one) that is not below any number of the ball."""
    if not ball.is_finite():
        return math.inf
    value = float(ball.upper())
    return value if arb(value) >= ball else math.nextafter(value, math.inf)


def ball_below(ball: Ball) -> float:
    return -ball_above(-ball)


_UNARY: dict[str, Callable[[Ball], Ball]] = {
    "neg": lambda x: -x,
    "sin": lambda x: x.sin(),
    "cos": lambda x: x.cos(),
    "tan": lambda x: x.tan(),
    "asin": lambda x: _clamped(x).asin(),
    "acos": lambda x: _clamped(x).acos(),
    "atan": lambda x: x.atan(),
    "sinh": lambda x: x.sinh(),
    "cosh": lambda x: x.cosh(),
    "tanh": lambda x: x.tanh(),
    "exp": lambda x: x.exp(),
    "log": lambda x: x.log(),
    "sqrt": lambda x: _non_negative(x).sqrt(),
    "abs": abs,
    "sign": lambda x: x.sgn(),
    "erf": lambda x: x.erf(),
}


def _non_negative(x: Ball) -> Ball:
    """The part of the ball on which a root is defined; NaN if there is none."""
    if x < 0:
        return arb("nan")
    return x.nonnegative_part() if not x >= 0 else x


def _clamped(x: Ball) -> Ball:
    """The part of the ball inside [-1, 1]; NaN if there is none."""
    if x > 1 or x < -1:
        return arb("nan")
    if x <= 1 and x >= -1:
        return x
    low, high = x.lower(), x.upper()
    return (low if low >= -1 else arb(-1)).union(high if high <= 1 else arb(1))


def integer_exponent(node: Node) -> int | None:
    """The exponent if it is an integer literal (with or without a sign), else None."""
    if isinstance(node, Operation) and node.name == "neg":
        inner = integer_exponent(node.arguments[0])
        return None if inner is None else -inner
    if isinstance(node, Number):
        value = Fraction(node.text)
        if value.denominator == 1 and abs(value.numerator) <= 10_000:
            return value.numerator
    return None


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


def evaluate(node: Node, values: Mapping[str, Ball]) -> Ball:
    """The ball of an expression at balls for its variables."""
    if isinstance(node, Number):
        return exact_ball(Fraction(node.text))
    if isinstance(node, Constant):
        return arb.pi() if node.name == "pi" else arb.const_e()
    if isinstance(node, Variable):
        return values[node.name]
    name, arguments = node.name, node.arguments
    if name == "pow":
        whole = integer_exponent(arguments[1])
        base = evaluate(arguments[0], values)
        if whole is not None:
            return base**whole if whole >= 0 else 1 / base ** (-whole)
        return power_ball(base, evaluate(arguments[1], values))
    if name == "where":
        return _choose(arguments, values)
    balls = [evaluate(argument, values) for argument in arguments]
    if name in _UNARY:
        return _UNARY[name](balls[0])
    left, right = balls
    match name:
        case "add":
            return left + right
        case "sub":
            return left - right
        case "mul":
            return left * right
        case "div":
            return left / right
        case "min":
            return left.min(right)
        case "max":
            return left.max(right)
    raise RuntimeError(f"operation {name} has no ball rule")


def _choose(arguments: tuple[Node, ...], values: Mapping[str, Ball]) -> Ball:
    condition, if_true, if_false = arguments
    if not isinstance(condition, Operation):
        raise RuntimeError("the condition of where() must be a comparison")
    left, right = (evaluate(argument, values) for argument in condition.arguments)
    strict = condition.name == "less"
    if left < right or (not strict and left <= right):
        return evaluate(if_true, values)
    if left > right or (strict and left >= right):
        return evaluate(if_false, values)
    return evaluate(if_true, values).union(evaluate(if_false, values))


def constant_value(node: Node) -> Ball | None:
    """The ball of a subtree without variables, else None."""
    return evaluate(node, {}) if not _has_variable(node) else None


def _has_variable(node: Node) -> bool:
    if isinstance(node, Variable):
        return True
    return isinstance(node, Operation) and any(_has_variable(argument) for argument in node.arguments)


def map_balls(function: Callable[[Ball], Ball], points: np.ndarray, bits: int = 80) -> tuple[np.ndarray, np.ndarray]:
    """Values (n,) of a ball function at float64 points (n,) with error bounds (n,); equal points are computed once."""
    distinct, back = np.unique(points, return_inverse=True)
    middle, error = np.empty(len(distinct)), np.empty(len(distinct))
    with precision(bits):
        for i, point in enumerate(distinct.tolist()):
            middle[i], error[i] = float_enclosure(function(arb(point))) if math.isfinite(point) else (0.0, math.inf)
    return middle[back], error[back]
