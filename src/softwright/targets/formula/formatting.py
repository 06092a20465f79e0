"""`format_node`: the text of a tree, with no more parentheses than the grammar needs to read the same tree back."""

from __future__ import annotations

from softwright.targets.formula.nodes import Node, Number, Operation
from softwright.targets.formula.tape import Tape

# How tightly each form binds; `NEGATION` sits between products and powers, so -x**2 is -(x**2) and -x*y is (-x)*y.
CHOICE, OR, AND, NOT, COMPARISON, SUM, PRODUCT, NEGATION, POWER, ATOM = range(10)

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


def format_node(node: Node, longest: int | None = None) -> str:
    """Text that `parse` reads back as this very tree, if the tree is within the parser's limits of length and depth.

    A tree whose parts are shared may be far longer as a text than as a tree: with `longest`, texts beyond it end in
    "...", which is for messages.
    """
    texts: list[tuple[str, int]] = []  # the text of each step and how tightly its outermost form binds
    for step_node, positions in Tape((node,)).steps:
        text, binding = _format_step(step_node, [texts[p] for p in positions])
        texts.append((text if longest is None or len(text) <= longest else f"{text[: longest - 3]}...", binding))
    return texts[-1][0]


def most_characters(tape: Tape) -> int:
    """At least as many characters as the texts of a tape's outputs have, found without writing them."""
    lengths: list[int] = []
    for node, positions in tape.steps:
        own = len(node.text if isinstance(node, Number) else node.name)
        lengths.append(own + sum(lengths[p] + 5 for p in positions))  # 5: " and ", or a comma and parentheses
    return sum(lengths[output] + 2 for output in tape.outputs)


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
