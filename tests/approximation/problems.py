"""Problems in the unit frame for the builders' tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from softwright.approximation.formula import Formula
from softwright.approximation.problem import Budget, Problem
from softwright.domain import Box
from softwright.targets import Expression


def unit_box(*names: str) -> Box:
    return Box(dict.fromkeys(names, (-1, 1)))


def formula_problem(text: str, box: Box, tolerance: float, dtype: str = "float64") -> tuple[Problem, Formula]:
    """The problem of a formula, with its kinks known, as the pipeline states it."""
    formula = Formula(Expression(text, box), box)
    budget = Budget(max_work=60)
    return Problem(
        formula.values, box.dim, formula.expression.outputs, tolerance, dtype, formula.kinks, budget
    ), formula


def black_box(function: Callable[[np.ndarray], np.ndarray], dim: int, tolerance: float) -> Problem:
    """The problem of a function of points (n, d) -> (n,) about which nothing is known."""
    return Problem(lambda t: np.asarray(function(t)).reshape(len(t), -1), dim, 1, tolerance, budget=Budget(max_work=60))
