"""What a formula must satisfy beyond its grammar: known names, bounded depth, finite constants."""

from __future__ import annotations

import itertools
import keyword
from collections.abc import Mapping, Sequence

import numpy as np

from softwright.targets.formula.definitions import DEFINED
from softwright.targets.formula.enclosure import OUTSIDE, constant_intervals
from softwright.targets.formula.formatting import format_node
from softwright.targets.formula.functions import ROWS
from softwright.targets.formula.nodes import CONSTANTS, Operation
from softwright.targets.formula.suggestions import function_meant, variable_meant
from softwright.targets.formula.tape import Step, Tape
from softwright.targets.formula.tokens import FormulaFaults, Token
from softwright.targets.formula.values import fold_constants

DEEPEST = 200  # levels of nesting, in the text and in the tree
WORDS = ("and", "or", "not", "if", "else")
FUNCTIONS: tuple[str, ...] = tuple(sorted({"min", "max", "where", *DEFINED, *(row.name for row in ROWS)}))
# The functions of the first version of the language were never variables. A newer name may be a variable of an older
# formula, so it is a function only where "(" follows it.
NEVER_VARIABLES = frozenset(
    ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "log", "sqrt", "abs", "sign", "erf")
) | {"min", "max", "where"}


def check_variables(names: Sequence[str], faults: FormulaFaults) -> None:
    """The names given for variables, before anything is read."""
    for name in names:
        if name in NEVER_VARIABLES or name in CONSTANTS:
            faults.add(f"the variable name {name!r} is the name of a function or constant; rename the variable")
        elif name in WORDS:
            faults.add(f"the variable name {name!r} is a word of the language; rename the variable")


def check_names(tokens: list[Token], names: Sequence[str] | None, faults: FormulaFaults) -> None:
    """Every name of the text is a function with its argument, a constant, or a variable that may be."""
    listed = False
    for token, following in itertools.pairwise(tokens):
        if token.kind != "name" or token.text in WORDS:
            continue
        name, known = token.text, names is None or token.text in names
        if following.text == "(":
            if name not in FUNCTIONS:
                more = function_meant(name, FUNCTIONS)
                if names is not None and known:
                    more += f"; for a product write {name}*(...)"
                if not more and not listed:  # the whole list once, and only to those who get no better advice
                    more, listed = f"; known: {', '.join(FUNCTIONS)}", True
                faults.at(token.position, f"unknown function {name!r}{more}")
        elif name in NEVER_VARIABLES or (name in FUNCTIONS and not known):
            faults.at(token.position, f"{name!r} is a function; give its argument in parentheses, {name}(...)")
        elif name.startswith("__"):
            faults.at(
                token.position, f"{name!r} cannot be a variable; names do not start with two underscores, rename it"
            )
        elif name in CONSTANTS:
            continue
        elif names is None and keyword.iskeyword(name):
            faults.at(token.position, f"{name!r} is a word of Python and not a variable; a formula has no statements")
        elif names is not None and not known:
            faults.at(
                token.position,
                f"unknown variable {name!r}{variable_meant(name, names)}; the variables are {', '.join(names)}",
            )


def check_depth(tape: Tape, faults: FormulaFaults) -> None:
    depth: list[int] = []
    for _, arguments in tape.steps:
        depth.append(1 + max((depth[a] for a in arguments), default=0))
    if max(depth) > DEEPEST:
        faults.add(
            f"the formula nests {max(depth)} operations, more than {DEEPEST}; simplify it or use a Python callable"
        )


def check_constants(tape: Tape, places: dict[int, int], faults: FormulaFaults) -> None:
    """Sub-expressions without variables must have a finite value: 1/0, log(-1) and 9**9**9**9 have none.

    float64 finds a finite tan(pi/2) and 1/sin(pi), since its pi is not pi; their enclosures are unbounded.
    """
    folded, ranges = fold_constants(tape), constant_intervals(tape)
    undefined = {i for i in folded if _is_undefined(tape.steps[i], folded)}
    finite = {i: bool(np.isfinite(folded[i]) & np.isfinite(ranges[i]).all()) and i not in undefined for i in folded}
    for index, value in folded.items():
        step = tape.steps[index]
        if finite[index] or not all(finite[a] for a in step.arguments):
            continue  # fine, or a consequence of a fault already listed
        what = "exceeds float64" if np.isinf(value) and index not in undefined else "is undefined"
        part = format_node(step.node, 60)
        faults.at(places.get(id(step.node), 0), f"{part} {what}; every constant part must be a finite number")


def _is_undefined(step: Step, folded: Mapping[int, float]) -> bool:
    """Whether the arguments of a constant step lie outside the operation's domain."""
    name = step.node.name if isinstance(step.node, Operation) else ""
    return name in OUTSIDE and bool(OUTSIDE[name](*(np.float64(folded[a]) for a in step.arguments)))
