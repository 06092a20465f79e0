"""What the compiler uses of the language of formulas, and exact constants.

The compiler rewrites syntax trees. Every coefficient that it meets or makes is a tree without variables, so it stays
the real number that was written (pi, 1/3, log(2)) and becomes a float only in a weight, where the difference is
charged. Sums and products of rational numbers are folded exactly. `Numbering` gives equal trees equal numbers in linear
time.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb

from softwright.proof.arithmetic.balls import ball_above, ball_below, precision
from softwright.targets.formula import Ball, Constant, Expression, Node, Number, Operation, Tape, Variable, evaluate
from softwright.targets.formula.algebra import ONE, ZERO, add, div, exact_value, mul, neg, number_node, of, power, sub
from softwright.targets.formula.derivative import differentiate
from softwright.targets.formula.formatting import format_node
from softwright.targets.formula.functions import ELEMENTARY, RULES
from softwright.targets.formula.intervals import Interval
from softwright.targets.formula.tape import postorder, variables_of

__all__ = [
    "BITS",
    "ELEMENTARY",
    "ONE",
    "RULES",
    "ZERO",
    "Ball",
    "CannotCompile",
    "Expression",
    "Interval",
    "Node",
    "Number",
    "Numbering",
    "Operation",
    "Tape",
    "U",
    "Variable",
    "add",
    "ball_above",
    "ball_below",
    "constant_ball",
    "constant_interval",
    "differentiate",
    "div",
    "evaluate",
    "exact_value",
    "has_jump",
    "is_constant",
    "is_zero",
    "mul",
    "neg",
    "number",
    "of",
    "plus",
    "power",
    "precision",
    "rational",
    "sub",
    "substitute",
    "text",
    "times",
    "value",
    "variables_of",
]

BITS = 240  # of the balls that hold constants
U = Variable("u")
_JUMPS = (
    {"where", "less", "less_equal", "and", "or"} | {name for name, row in ELEMENTARY.items() if row.jump} | {"atan2"}
)


class CannotCompile(Exception):
    """A sub-expression has no rule, or a side condition of its rule could not be proved: `reason` says which."""

    def __init__(self, node: Node | None, reason: str) -> None:
        self.node, self.reason = node, reason
        super().__init__(reason if node is None else f"{format_node(node, 80)}: {reason}")


class Numbering:
    """Numbers for trees: equal trees get the same one, by operation and numbers of arguments."""

    def __init__(self) -> None:
        self._of_object: dict[int, tuple[Node, int]] = {}  # the tree is kept, so that its id stays its own
        self._known: dict[Hashable, int] = {}

    def __call__(self, node: Node) -> int:
        for part in postorder((node,)):
            if id(part) in self._of_object:
                continue
            if isinstance(part, Operation):
                key: Hashable = (part.name, tuple(self._of_object[id(a)][1] for a in part.arguments))
            else:
                key = (type(part).__name__, part.text if isinstance(part, Number) else part.name)
            self._of_object[id(part)] = (part, self._known.setdefault(key, len(self._known)))
        return self._of_object[id(node)][1]


def number(exact: Fraction | float) -> Node:
    """The tree of a rational number, or of a float as the rational number that it is."""
    return number_node(Fraction(exact))


def plus(a: Node, b: Node) -> Node:
    """a + b for constants, folded where both are rational."""
    first, second = rational(a), rational(b)
    return add(a, b) if first is None or second is None else number(first + second)


def times(a: Node, b: Node) -> Node:
    first, second = rational(a), rational(b)
    return mul(a, b) if first is None or second is None else number(first * second)


def text(node: Node) -> str:
    return format_node(node)


def is_constant(node: Node) -> bool:
    return not variables_of((node,))


def rational(node: Node) -> Fraction | None:
    """The exact value if the tree spells a rational number of moderate length."""
    return exact_value(node) if is_constant(node) else None


@lru_cache(maxsize=100_000)
def constant_ball(node: Node) -> Ball:
    """A narrow ball around a constant."""
    with precision(BITS):
        ball = evaluate(node, {})
    if not ball.is_finite():
        raise CannotCompile(node, "this constant has no finite value")
    return ball


def value(node: Node) -> float:
    """The nearest float of a constant."""
    return float(constant_ball(node).mid())


def constant_interval(node: Node) -> Interval:
    ball = constant_ball(node)
    return Interval(np.asarray(ball_below(ball)), np.asarray(ball_above(ball)))


def is_zero(node: Node) -> bool:
    """Whether a constant is certainly zero."""
    return (isinstance(node, Number) and node.value == 0.0) or (is_constant(node) and exact_value(node) == 0)


def substitute(node: Node, given: Mapping[str, Node]) -> Node:
    """The tree with other trees in place of its variables; products and sums with 0 and 1 are simplified."""
    built: list[Node] = []
    simple = {"add": add, "sub": sub, "mul": mul, "div": div, "neg": neg, "pow": power}
    for part, positions in Tape((node,)).steps:
        if isinstance(part, Operation):
            arguments = [built[p] for p in positions]
            built.append(simple[part.name](*arguments) if part.name in simple else of(part.name, *arguments))
        else:
            built.append(given.get(part.name, part) if isinstance(part, Variable) else part)
    return built[-1]


def has_jump(node: Node) -> bool:
    """Whether a tree may jump: derivatives then say nothing about its range."""
    return any(isinstance(part, Operation) and part.name in _JUMPS for part in postorder((node,)))


def exponent_of(node: Node) -> Fraction | None:
    return rational(node)


def fraction_ball(exact: Fraction) -> Ball:
    with precision(BITS):
        return arb(exact.numerator) / exact.denominator


__all__ += ["Constant", "exponent_of", "fraction_ball"]
