"""The additive terms of a formula: what remains when +, - and negation are taken apart at the top."""

from __future__ import annotations

from softwright.targets.formula.nodes import Node, Operation


def additive_terms(node: Node) -> list[tuple[int, Node]]:
    """The terms of a sum with their signs, from left to right: a - (b + c) gives +a, -b, -c."""
    found: list[tuple[int, Node]] = []
    pending = [(1, node)]
    while pending:
        sign, current = pending.pop()
        if isinstance(current, Operation) and current.name in ("add", "sub"):
            left, right = current.arguments
            pending += [(sign if current.name == "add" else -sign, right), (sign, left)]
        elif isinstance(current, Operation) and current.name == "neg":
            pending.append((-sign, current.arguments[0]))
        else:
            found.append((sign, current))
    return found
