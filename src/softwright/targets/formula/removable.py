"""Removable points: where a formula is undefined as it is written, and a function of the language is its limit there.

    sin(a)/b           sinc(a) = sin(a)/a, 1 at a = 0              where b vanishes with a
    (1 - cos(a))/b     0.5*a**2*sinc(0.5*a)**2 = 1 - cos(a)        likewise
    a*log(b)           xlogy(a, b), 0 at a = 0                     where a vanishes with b

A formula means what it says: at such a point it has no value, and no certificate may speak of one. So it is refused,
and the refusal names the function whose value there is the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from softwright.targets.formula.formatting import format_node
from softwright.targets.formula.nodes import Node, Number, Operation
from softwright.targets.formula.tape import Tape

_SHORT = 40  # letters of a part that is repeated in a hint

Vanishes = Callable[[Node], bool]  # whether a part of the formula is 0 at the point


def continuous_twin(tape: Tape, step: int, vanishes: Vanishes) -> str:
    """What to write instead of a step that is undefined at a point, if a function is continuous there; else empty."""
    node = tape.steps[step].node
    if not isinstance(node, Operation):
        return ""
    if node.name == "log":
        return next(_logarithms(tape, step, node.arguments[0], vanishes), "")
    if node.name != "div":
        return ""
    for factor in _factors(node.arguments[0]):
        if isinstance(factor, Operation) and factor.name == "sin" and vanishes(factor.arguments[0]):
            inner = _shown(factor.arguments[0])
            return f"sinc(u) is sin(u)/u with its limit 1 at u = 0, and sin({inner}) is ({inner})*sinc({inner})"
        inner = _less_cosine(factor)
        if inner is not None and vanishes(inner):
            u = _shown(inner)
            return f"1 - cos({u}) is 0.5*({u})**2*sinc(0.5*({u}))**2, and sinc has its limit 1 at 0"
    return ""


def _logarithms(tape: Tape, step: int, inner: Node, vanishes: Vanishes) -> Iterator[str]:
    """Products of the logarithm with something that vanishes where it does not exist."""
    log = tape.steps[step].node
    for parent, arguments in tape.steps:
        if not isinstance(parent, Operation) or parent.name != "mul" or step not in arguments:
            continue
        other = parent.arguments[1] if parent.arguments[0] == log else parent.arguments[0]
        if vanishes(other):
            a, b = _shown(other), _shown(inner)
            yield f"xlogy({a}, {b}) is ({a})*log({b}) with its limit 0 there"


def _factors(node: Node) -> Iterator[Node]:
    """The factors of a product, without signs."""
    if isinstance(node, Operation) and node.name in ("neg", "mul"):
        for argument in node.arguments:
            yield from _factors(argument)
    else:
        yield node


def _less_cosine(node: Node) -> Node | None:
    """u, if the node is 1 - cos(u)."""
    if isinstance(node, Operation) and node.name == "sub":
        one, cosine = node.arguments
        if isinstance(one, Number) and one.value == 1.0 and isinstance(cosine, Operation) and cosine.name == "cos":
            return cosine.arguments[0]
    return None


def _shown(node: Node) -> str:
    return format_node(node, _SHORT)
