"""The rules of single operations: how each becomes an additive form, and what must be proved for it.

abs, max and min whose sign is known on the box are one of their sides; so is `where` with a known condition. A power
with a variable exponent is exp(b log a) for a positive a. Everything that is used is recorded as a condition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from softwright.compiler import monomials
from softwright.compiler.forms import Additive
from softwright.compiler.nodes import (
    ONE,
    CannotCompile,
    Node,
    Operation,
    Variable,
    add,
    div,
    is_constant,
    mul,
    neg,
    number,
    of,
    power,
    rational,
    sub,
)

if TYPE_CHECKING:
    from softwright.compiler.translate import Translator


def _sum(self: Translator, node: Operation) -> Additive:
    first, second = (self.build(argument) for argument in node.arguments)
    return first.plus(second if node.name == "add" else second.negated())


def _negation(self: Translator, node: Operation) -> Additive:
    return self.build(node.arguments[0]).negated()


def _power(self: Translator, node: Operation) -> Additive:
    base, exponent = node.arguments
    exact = rational(exponent) if is_constant(exponent) else None
    if exact is not None:
        return monomials.build(self, node)
    if is_constant(base) and self.ranges.of(base).low > 0:
        return self.build(of("exp", mul(exponent, of("log", base))))
    if not self.is_positive(base):
        raise CannotCompile(node, "a power with this exponent needs a base that is certainly positive")
    self.require(base, "> 0", "a**b = exp(b*log(a))")
    return self.build(of("exp", mul(exponent, of("log", base))))


def _exponential(self: Translator, node: Operation) -> Additive:
    return self.apply(self.build(node.arguments[0]), lambda inner: of("exp", inner))


def _logarithm(self: Translator, node: Operation) -> Additive:
    (argument,) = node.arguments
    if not self.is_positive(argument):
        apart = monomials.taken_out(self, argument)
        if apart is not None:
            first, second = (self.build(of("log", part)) for part in apart)
            return first.plus(second)
        raise CannotCompile(node, "the logarithm of what may not be positive")
    if isinstance(argument, Operation) and argument.name in ("mul", "div", "sqrt", "pow"):
        split = monomials.logarithm(self, argument)
        if split is not None:
            return split
    if isinstance(argument, Operation) and argument.name == "exp":
        return self.build(argument.arguments[0])
    if isinstance(argument, Operation) and argument.name == "pow" and not is_constant(argument.arguments[1]):
        base, exponent = argument.arguments
        self.require(base, "> 0", "log(a**b) = b*log(a)")
        return self.build(mul(exponent, of("log", base)))
    return self.apply(self.build(argument), lambda inner: of("log", inner))


def _absolute(self: Translator, node: Operation) -> Additive:
    (argument,) = node.arguments
    found = self.range_of(argument)
    if found.low < 0 < found.high:
        found = self.ranges.of(argument)
    if found.low >= 0:
        self.require(argument, ">= 0", "abs(a) = a")
        return self.build(argument)
    if found.high <= 0:
        self.require(argument, "<= 0", "abs(a) = -a")
        return self.build(argument).negated()
    form = self.materialise(self.build(argument))
    return Additive(self.maximum(form, form.times(neg(ONE))))


def _extreme(self: Translator, node: Operation) -> Additive:
    first, second = node.arguments
    difference = sub(first, second)
    found = self.range_of(difference)
    if found.low < 0 < found.high:
        found = self.ranges.of(difference)
    larger = node.name == "max"
    if found.low >= 0 or found.high <= 0:
        self.require(difference, ">= 0" if found.low >= 0 else "<= 0", f"{node.name}(a, b) takes one side")
        return self.build(first if (found.low >= 0) == larger else second)
    sign = ONE if larger else neg(ONE)
    a, b = (self.materialise(self.build(argument).times(sign)) for argument in node.arguments)
    return Additive(self.maximum(a, b)).times(sign)


def _choice(self: Translator, node: Operation) -> Additive:
    condition, first, second = node.arguments
    if self.same(first, second):
        return self.build(first)
    if isinstance(condition, Variable):  # a comparison that is a step: q + [c > 0] (p - q)
        rest = self.materialise(self.build(sub(first, second)))
        return self.build(second).plus(Additive(self.step(condition.name, rest)))
    known = _decided(self, condition)
    if known is None:
        raise CannotCompile(
            node,
            "where jumps or bends where its condition changes, and that lies in the box; give a gap, gap=1e-6",
        )
    return self.build(first if known else second)


def _decided(self: Translator, condition: Node) -> bool | None:
    """Whether a condition holds everywhere (True), nowhere (False), or is not decided."""
    if not isinstance(condition, Operation):
        return None
    if condition.name in ("and", "or"):
        left, right = (_decided(self, argument) for argument in condition.arguments)
        decisive = condition.name == "or"
        if left is decisive or right is decisive:
            return decisive
        return None if left is None or right is None else not decisive
    difference = sub(condition.arguments[1], condition.arguments[0])
    if is_constant(difference):
        found = self.ranges.of(difference)
    else:
        found = self.range_of(difference)
        if found.low <= 0 <= found.high:
            found = self.ranges.of(difference)
    if found.low > 0 or (found.low >= 0 and condition.name == "less_equal"):
        self.require(difference, "> 0" if found.low > 0 else ">= 0", "the condition of a choice holds")
        return True
    if found.high < 0 or (found.high <= 0 and condition.name == "less"):
        self.require(neg(difference), "> 0" if found.high < 0 else ">= 0", "the condition of a choice fails")
        return False
    return None


def _hypotenuse(self: Translator, node: Operation) -> Additive:
    a, b = node.arguments
    two = number(2)
    return self.build(of("sqrt", add(power(a, two), power(b, two))))


def _angle(self: Translator, node: Operation) -> Additive:
    y, x = node.arguments
    if self.is_positive(x):
        self.require(x, "> 0", "atan2(y, x) = atan(y/x)")
        return self.build(of("atan", div(y, x)))
    raise CannotCompile(node, "an angle whose second argument may not be positive")


def _x_log_y(self: Translator, node: Operation) -> Additive:
    x, y = node.arguments
    if not self.is_positive(y) and self._number(x) == self._number(y) and self.touches_zero(y):
        self.require(y, ">= 0", "xlogy(y, y) is a function of one variable")
        return self.apply(self.build(y), lambda inner: of("xlogy", inner, inner))
    if not self.is_positive(y):
        raise CannotCompile(node, "the logarithm of what may not be positive")
    self.require(y, "> 0", "xlogy(x, y) = x*log(y)")
    return self.build(mul(x, of("log", y)))


RULES_OF: dict[str, Callable[[Translator, Operation], Additive]] = {
    "neg": _negation,
    "add": _sum,
    "sub": _sum,
    "mul": monomials.build,
    "div": monomials.build,
    "sqrt": monomials.build,
    "pow": _power,
    "exp": _exponential,
    "log": _logarithm,
    "abs": _absolute,
    "max": _extreme,
    "min": _extreme,
    "where": _choice,
    "hypot": _hypotenuse,
    "atan2": _angle,
    "xlogy": _x_log_y,
}
