"""`format_node`: the text of a tree, with no more parentheses than the grammar needs to read the same tree back."""

from __future__ import annotations

from softwright.targets.formula.nodes import Node, Number, Operation
from softwright.targets.formula.tape import Tape

# How tightly each form binds; `NEGATION` sits between products and powers, so -x**2 is -(x**2) and -x*y is (-x)*y.
OR, AND, COMPARISON, SUM, PRODUCT, NEGATION, POWER, ATOM = range(8)

BINDING: dict[str, int] = {
    "or": OR,
    "and": AND,
    "less": COMPARISON,
    "less_equal": COMPARISON,
    "add": SUM,
    "sub": SUM,
    "mul": PRODUCT,
    "div": PRODUCT,
    "neg": NEGATION,
    "pow": POWER,
}
_SYMBOL = {
    "or": " or ",
    "and": " and ",
    "less": " < ",
    "less_equal": " <= ",
    "add": " + ",
    "sub": " - ",
    "mul": "*",
    "div": "/",
    "pow": "**",
}


def format_node(node: Node) -> str:
    """Text that `parse` reads back as this very tree, if the tree is within the parser's limits of length and depth."""
    texts: list[tuple[str, int]] = []  # the text of each step and how tightly its outermost form binds
    for step_node, positions in Tape((node,)).steps:
        texts.append(_format_step(step_node, [texts[p] for p in positions]))
    return texts[-1][0]


def _format_step(node: Node, arguments: list[tuple[str, int]]) -> tuple[str, int]:
    if isinstance(node, Number):
        return node.text, ATOM
    if not isinstance(node, Operation):
        return node.name, ATOM
    if node.name not in BINDING:
        return f"{node.name}({', '.join(text for text, _ in arguments)})", ATOM
    binding = BINDING[node.name]
    if node.name == "neg":
        return "-" + _at_least(arguments[0], NEGATION), binding
    left, right = arguments
    if node.name == "pow":  # right associative, and the exponent may carry its own minus sign
        return f"{_at_least(left, ATOM)}**{_at_least(right, NEGATION)}", binding
    return _at_least(left, binding) + _SYMBOL[node.name] + _at_least(right, binding + 1), binding


def _at_least(formatted: tuple[str, int], binding: int) -> str:
    text, own = formatted
    return text if own >= binding else f"({text})"
