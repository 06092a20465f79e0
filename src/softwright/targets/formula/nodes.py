"""The syntax tree of an expression: four kinds of node, nothing executable.

An expression is data. Everything that gives it a meaning (NumPy values, torch values, derivatives, interval
enclosures, Taylor models, the text form) is a walk over these nodes with a table from operation name to rule, so that a
new meaning never touches the parser.
"""

from __future__ import annotations

from dataclasses import dataclass

# name -> number of arguments. `less` and `less_equal` stand only as the first argument of `where`.
OPERATIONS: dict[str, int] = {
    "neg": 1,
    "add": 2,
    "sub": 2,
    "mul": 2,
    "div": 2,
    "pow": 2,
    "sin": 1,
    "cos": 1,
    "tan": 1,
    "asin": 1,
    "acos": 1,
    "atan": 1,
    "sinh": 1,
    "cosh": 1,
    "tanh": 1,
    "exp": 1,
    "log": 1,
    "sqrt": 1,
    "abs": 1,
    "sign": 1,
    "erf": 1,
    "min": 2,
    "max": 2,
    "less": 2,
    "less_equal": 2,
    "where": 3,
}
CONSTANTS: tuple[str, ...] = ("pi", "e")


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
    """`name` is a key of OPERATIONS; `arguments` has as many entries as that key says."""

    name: str
    arguments: tuple[Node, ...]


Node = Number | Constant | Variable | Operation
