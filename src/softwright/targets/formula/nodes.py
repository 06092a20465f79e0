"""The syntax tree of an expression: four kinds of node, nothing executable.

An expression is data. Everything that gives it a meaning (NumPy values, torch values, derivatives, interval
enclosures, Taylor models, the text form) is a walk over these nodes with a table from operation name to rule, so that a
new meaning never touches the parser.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

CONSTANT_VALUES: dict[str, float] = {"pi": math.pi, "e": math.e}
CONSTANTS: tuple[str, ...] = tuple(CONSTANT_VALUES)


@dataclass(frozen=True, slots=True)
class Number:
    """A literal; `text` is what was written (exact, in decimal), `value` the nearest float64."""

    value: float
    text: str


@dataclass(frozen=True, slots=True)
class Constant:
    """`pi` or `e`, the real number and not its float64 neighbour."""

    name: str


@dataclass(frozen=True, slots=True)
class Variable:
    name: str


@dataclass(frozen=True, slots=True)
class Operation:
    """`name` is a key of `functions.OPERATIONS`; `arguments` has as many entries as that key says."""

    name: str
    arguments: tuple[Node, ...]


Node = Number | Constant | Variable | Operation
