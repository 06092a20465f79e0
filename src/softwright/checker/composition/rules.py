"""`RULES`: how each operation of the language becomes a polynomial over atoms, one row each; others are atoms.

A rule gets the node and the normal forms of its arguments. What a rule needs to be true of signs it asks for, and
where that is not proved it leaves the function as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from flint import fmpq

from softwright.checker.composition.dag import Node
from softwright.checker.composition.polynomials import UNIT, Poly, constant, fraction, plus, scaled, tidy, whole
from softwright.checker.refusal import require

if TYPE_CHECKING:
    from softwright.checker.composition.normal import Normaliser

HALF = fmpq(1, 2)
Rule = Callable[["Normaliser", Node, list[Poly]], Poly]


def _power(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    base, exponent = x
    if not exponent or (len(exponent) == 1 and UNIT in exponent):
        q = fraction(exponent.get(UNIT, fmpq(0)))
        # Whether a power is one of whole order is what the text says, not what it is worth.
        spelt = self.dag.rational(node.arguments[1])
        require(
            not whole(q) or spelt is not None or self.ranges.is_positive(node.arguments[0]), "an exponent is unclear"
        )
        return self.raised(base, q)
    return self.exponential(self.times(exponent, self.logarithm(base)))


def _absolute(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    """What is proved of the argument as it is spelt may be lost in its factors."""
    side = self.node_sign(node.arguments[0])
    return scaled(x[0], side) if side != 0 else self.absolute(x[0])


def _extreme(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    side = HALF if node.kind == "max" else -HALF
    result = x[0]
    if len(x) == 2:  # whose sign is asked for, as the formula has it
        self.spell(self.dag.difference(*node.arguments), plus(x[0], x[1], -1))
    for other in x[1:]:
        size = self.absolute(plus(result, other, -1))
        result = plus(scaled(plus(result, other), HALF), size, side)
    return result


def _compare(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    result = constant(1)
    for symbol, a, b in zip(node.payload, x, x[1:], strict=False):
        less, more = (a, b) if symbol[0] == "<" else (b, a)
        if symbol in ("<", ">"):
            truth = self.step(plus(more, less, -1))
        else:
            truth = plus(constant(1), self.step(plus(less, more, -1)), -1)
        result = self.times(result, truth)
    return result


def _and(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    result = constant(1)
    for p in x:
        result = self.times(result, p)
    return result


def _not(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    return plus(constant(1), x[0], -1)


def _or(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    return _not(self, node, [_and(self, node, [_not(self, node, [p]) for p in x])])


def _where(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    condition, first, second = x
    return plus(second, self.times(condition, plus(first, second, -1)))


def _hypotenuse(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    square = plus(self.power(x[0], 2), self.power(x[1], 2))
    spelt = self.dag.sum([(1, self.dag.power(a, fmpq(2))) for a in node.arguments])
    self.spell(spelt, square)
    return self.raised(square, fraction(HALF))


def _angle(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    """By half planes of proved sign; else the function itself."""
    above, right = (self.node_sign(a, strict=True) for a in node.arguments)
    y, z = x
    pi = self.single(self.atom("pi", None))
    if right > 0 or (right < 0 and self.node_sign(node.arguments[0]) != 0):
        angle = self.function("atan", [self.times(y, self.power(z, -1))])
        turn = 0 if right > 0 else 1 if self.node_sign(node.arguments[0]) > 0 else -1
        if turn == -1 and above == 0:  # y = 0 may be there, where the angle is pi and not -pi
            return self.function("atan2", x)
        return plus(angle, pi, turn)
    if above != 0:
        angle = self.function("atan", [self.times(z, self.power(y, -1))])
        return plus(scaled(pi, above * HALF), angle, -1)
    return self.function("atan2", x)


def _x_log_y(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    if self.ranges.is_positive(node.arguments[1]):
        return self.times(x[0], self.logarithm(x[1]))
    return self.function("xlogy", x)


def _cube_root(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    side = self.node_sign(self.node(x[0]))  # the same node for all ways to spell it
    if side == 0:  # of both parts of u = max(u, 0) - max(-u, 0), one of which is 0
        size, third = self.absolute(x[0]), fraction(fmpq(1, 3))
        above, below = (self.raised(scaled(plus(size, x[0], sign), HALF), third) for sign in (1, -1))
        return plus(above, below, -1)
    return scaled(self.raised(scaled(x[0], side), fraction(fmpq(1, 3))), side)


def _wave(numerator: str, denominator: str) -> Rule:
    """A quotient of sine and cosine; "" is 1."""

    def rule(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
        top = self.function(numerator, x) if numerator else constant(1)
        return self.times(top, self.power(self.function(denominator, x), -1))

    return rule


def _hyperbolic(sign: int) -> Rule:
    def rule(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
        return scaled(plus(self.exponential(x[0]), self.exponential(scaled(x[0], -1)), sign), HALF)

    return rule


def _in_base(base: int) -> Rule:
    def rule(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
        return self.times(self.logarithm(x[0]), self.power(self.logarithm(constant(base)), -1))

    return rule


def _sign(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    return plus(self.step(x[0]), self.step(scaled(x[0], -1)), -1)


def _step(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    return plus(constant(1), self.step(scaled(x[0], -1)), -1)


def _normal_density(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    bell = self.exponential(scaled(self.power(x[0], 2), -HALF))
    root = self.fractional(scaled(self.single(self.atom("pi", None)), 2), tidy(fraction(-HALF)))
    return self.times(bell, root)


def _normal_share(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    error = self.function("erf", [self.times(x[0], self.constant_power(fmpq(2), fraction(-HALF)))])
    return scaled(plus(constant(1), error), HALF)


def _arc_cosine(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    quarter = scaled(self.single(self.atom("pi", None)), HALF)
    return plus(quarter, self.function("asin", x), -1)


def _gelu(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    return self.times(x[0], _normal_share(self, node, x))


def _whole_part(self: Normaliser, argument: int) -> Poly | None:
    """The floor of a node, if it is one number on the whole box."""
    low, high = self.ranges.range(argument)
    if not (math.isfinite(low) and math.isfinite(high)):
        return None
    least = math.floor(0.5 * (low + high))
    decided = self.ranges.within(argument, least, math.nextafter(least + 1, -math.inf))
    return constant(least) if decided else None


def _floor(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    found = _whole_part(self, node.arguments[0])
    return self.function("floor", x) if found is None else found


def _ceiling(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    found = _whole_part(self, self.dag.sum([(-1, node.arguments[0])]))
    return scaled(self.function("floor", [scaled(x[0], -1)]) if found is None else found, -1)


def _round(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    """floor(u + 1/2) where u is not half of an odd number anywhere."""
    moved = self.dag.sum([(1, node.arguments[0]), (1, self.dag.number(HALF))])
    found = _whole_part(self, moved)
    least = None if found is None else found.get(UNIT, fmpq(0))
    if least is None or not float(least) < self.ranges.range(moved)[0]:
        return self.function("round", x)
    return constant(least)


def _modulus(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    """a - b floor(a/b) where that floor is one number."""
    quotient = self.dag.product([(1, node.arguments[0]), (-1, node.arguments[1])])
    if self.ranges.sign(node.arguments[1]) == 0:
        return self.function("mod", x)
    found = _whole_part(self, quotient)
    return self.function("mod", x) if found is None else plus(x[0], self.times(x[1], found), -1)


RULES: dict[str, Rule] = {
    "pow": _power,
    "sqrt": lambda self, node, x: self.raised(x[0], fraction(HALF)),
    "cbrt": _cube_root,
    "exp": lambda self, node, x: self.exponential(x[0]),
    "expm1": lambda self, node, x: plus(self.exponential(x[0]), constant(1), -1),
    "exp2": lambda self, node, x: self.exponential(self.times(x[0], self.logarithm(constant(2)))),
    "log": lambda self, node, x: self.logarithm(x[0]),
    "log1p": lambda self, node, x: self.logarithm(plus(x[0], constant(1))),
    "log2": _in_base(2),
    "log10": _in_base(10),
    "abs": _absolute,
    "max": _extreme,
    "min": _extreme,
    "compare": _compare,
    "and": _and,
    "or": _or,
    "not": _not,
    "where": _where,
    "sign": _sign,
    "step": _step,
    "floor": _floor,
    "ceil": _ceiling,
    "round": _round,
    "mod": _modulus,
    "hypot": _hypotenuse,
    "atan2": _angle,
    "xlogy": _x_log_y,
    "tan": _wave("sin", "cos"),
    "cot": _wave("cos", "sin"),
    "sec": _wave("", "cos"),
    "csc": _wave("", "sin"),
    "coth": _wave("", "tanh"),
    "sinh": _hyperbolic(-1),
    "cosh": _hyperbolic(1),
    "acos": _arc_cosine,
    "erfc": lambda self, node, x: plus(constant(1), self.function("erf", x), -1),
    "normcdf": _normal_share,
    "normpdf": _normal_density,
    "gamma": lambda self, node, x: self.exponential(self.function("lgamma", x)),
    "silu": lambda self, node, x: self.times(x[0], self.function("sigmoid", x)),
    "gelu": _gelu,
}
