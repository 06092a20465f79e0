"""What differs between kinds of targets on their way to a network; a new kind registers itself with these functions.

problem_of   the target in the unit frame, and for a formula what its structure shows
fit_target   the heads: by strategy where the target can be asked anywhere, at its points for a table
observed     the error of the network that will run, where the target can be asked
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from softwright.approximation.choose import choose
from softwright.approximation.formula import Formula
from softwright.approximation.problem import Budget, Fit, OutOfBudget, Problem
from softwright.domain import Box
from softwright.targets import Expression, Table, Target
from softwright.work import count

_CALLABLE = 300  # nominal nanoseconds of one value of a function of which nothing is known


@singledispatch
def problem_of(
    target: Target, box: Box, tolerance: float, dtype: str, budget: Budget
) -> tuple[Problem, Formula | None]:
    """The target on [-1, 1]^d; nothing is known of its kinks. Of the queries left, a check of the result keeps some."""

    def values(t: np.ndarray) -> np.ndarray:
        if target.left is not None and len(t) > target.left - target.kept:
            raise OutOfBudget
        count(20_000 + _CALLABLE * len(t) * target.outputs)
        return target(box.from_unit(t))

    saves = target.left is not None
    return Problem(values, box.dim, target.outputs, tolerance, dtype, None, budget, saves_queries=saves), None


@problem_of.register
def _(target: Expression, box: Box, tolerance: float, dtype: str, budget: Budget) -> tuple[Problem, Formula | None]:
    formula = Formula(target, box)
    return Problem(formula.values, box.dim, target.outputs, tolerance, dtype, formula.kinks, budget), formula


@singledispatch
def fit_target(target: Target, box: Box, problem: Problem, formula: Formula | None, strategy: str) -> Fit:
    """Heads for the problem by the strategy asked for."""
    return choose(problem, formula, strategy)


@fit_target.register
def _(target: Table, box: Box, problem: Problem, formula: Formula | None, strategy: str) -> Fit:
    from softwright.approximation.strategies.table import fit_table  # formulas do without

    return fit_table(problem, target, box).because(*target.notes)
