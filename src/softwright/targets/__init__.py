"""What a network is asked to be: a formula, a Python callable, or a table of values."""

from softwright.targets.coerce import as_target
from softwright.targets.formula import Expression, Kink, Node, evaluate, parse
from softwright.targets.function import Function
from softwright.targets.table import Interpolant, Table
from softwright.targets.target import Target

__all__ = [
    "Expression",
    "Function",
    "Interpolant",
    "Kink",
    "Node",
    "Table",
    "Target",
    "as_target",
    "evaluate",
    "parse",
]
