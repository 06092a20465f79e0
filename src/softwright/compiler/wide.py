"""Sums of positive terms that span many decades, with one term taken out.

K**n + c**n may be 1e-8 here and 1e4 there. A column that holds it is off by what rounding leaves of 1e4, and then its
logarithm means nothing where it is small. But each term is the exponential of something moderate, so

    a + b = a (1 + exp(log b - log a)),      a, b > 0,

where the second factor is a function of one variable, and the logarithm of the first one is known already. Nothing is
lost on the way, however wide the range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from softwright.compiler.nodes import ONE, Node, Operation, add, is_constant, mul, neg, of, sub

if TYPE_CHECKING:
    from softwright.compiler.translate import Translator


def taken_out(self: Translator, node: Node, cancels: Callable[[Node], bool] = is_constant) -> tuple[Node, Node] | None:
    """(a, 1 + exp(log b - log a)) for a sum a + b of positive terms that is not certainly clear of zero; else None.

    Of the two terms one that `cancels` is taken out, if there is one.
    """
    if not isinstance(node, Operation) or node.name != "add" or is_constant(node) or self.is_positive(node):
        return None
    first, second = node.arguments
    if cancels(second) and not cancels(first):
        first, second = second, first
    a, b = _logarithm(self, first), _logarithm(self, second)
    if a is None or b is None:
        return None
    for term in (first, second):
        if not is_constant(term):
            self.require(term, "> 0", "a sum of positive terms is one of them times one plus an exponential")
    return first, add(ONE, of("exp", sub(b, a)))


def _logarithm(self: Translator, node: Node) -> Node | None:
    """The logarithm of a term that is certainly positive, taken apart; None where that is not known."""
    if is_constant(node):
        return of("log", node) if self.ranges.of(node).low > 0 else None
    if isinstance(node, Operation):
        if node.name == "exp":
            return node.arguments[0]
        if node.name in ("mul", "div"):
            a, b = (_logarithm(self, argument) for argument in node.arguments)
            if a is None or b is None:
                return None
            return add(a, b if node.name == "mul" else neg(b))
        if node.name == "pow" and self.is_positive(node.arguments[0]):
            return mul(node.arguments[1], of("log", node.arguments[0]))
    return of("log", node) if self.is_positive(node) else None
