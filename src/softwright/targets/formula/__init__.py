"""The language of formulas."""

from softwright.targets.formula.affine import is_affine
from softwright.targets.formula.balls import (
    Ball,
    constant_balls,
    evaluate,
    exact_ball,
    integer_at,
    literals_of,
    power_ball,
)
from softwright.targets.formula.expression import Expression, Kink
from softwright.targets.formula.functions import ELEMENTARY, FAMILIES, ROWS, Elementary
from softwright.targets.formula.nodes import Constant, Node, Number, Operation, Variable
from softwright.targets.formula.parser import parse
from softwright.targets.formula.tape import Tape, variables_of
from softwright.targets.formula.terms import additive_terms

__all__ = [
    "ELEMENTARY",
    "FAMILIES",
    "ROWS",
    "Ball",
    "Constant",
    "Elementary",
    "Expression",
    "Kink",
    "Node",
    "Number",
    "Operation",
    "Tape",
    "Variable",
    "additive_terms",
    "constant_balls",
    "evaluate",
    "exact_ball",
    "integer_at",
    "is_affine",
    "literals_of",
    "parse",
    "power_ball",
    "variables_of",
]
