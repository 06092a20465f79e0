"""What a network is asked to be: a formula, a Python callable, or a table of values."""

from softwright.targets.coerce import as_target
from softwright.targets.formula.expression import Expression, Kink
from softwright.targets.formula.parser import parse
from softwright.targets.function import Function
from softwright.targets.table import Table
from softwright.targets.target import Target

__all__ = ["Expression", "Function", "Kink", "Table", "Target", "as_target", "parse"]
