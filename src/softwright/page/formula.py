"""A formula as data for the page: the tape of its steps, constants folded as Python folds them.

    ["x", i]              the variable of that number
    ["c", number]         a constant, finite as the parser demands
    [operation, a, b..]   on the results of earlier steps

The page replays the list with a table of functions of its own (assets/formula.js); no text is ever run as a program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from softwright.errors import SoftwrightError
from softwright.targets.formula import Expression
from softwright.targets.formula.functions import FAMILIES, OPERATIONS
from softwright.targets.formula.nodes import Operation, Variable
from softwright.targets.formula.tape import Tape
from softwright.targets.formula.values import fold_constants

KNOWN = frozenset(OPERATIONS) - {row.name for row in FAMILIES}  # what assets/formula.js has a rule for
LONGEST = 3000  # steps of a formula that a page evaluates


def tape_of(expression: Expression) -> dict[str, Any] | None:
    """The tape, or None for a formula that is too long or holds what pages have no rule for."""
    tape: Tape = expression.tape
    if len(tape) > LONGEST:
        return None
    folded, steps = fold_constants(tape), []
    for index, (node, arguments) in enumerate(tape.steps):
        if index in folded:
            steps.append(["c", folded[index]])
        elif isinstance(node, Variable):
            steps.append(["x", expression.names.index(node.name)])
        elif isinstance(node, Operation) and node.name in KNOWN:
            steps.append([node.name, *arguments])
        else:
            return None
    return {"steps": steps, "outputs": list(tape.outputs)}


def tape_of_text(text: str, names: Sequence[str]) -> dict[str, Any] | None:
    """The same of a text that a file holds; None if it cannot be read."""
    try:
        return tape_of(Expression(text, names))
    except SoftwrightError:
        return None
