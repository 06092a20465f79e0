"""What differs between kinds of targets on their way to a network; a new kind registers itself with these functions.

problem_of   the target in the unit frame, and for a formula what its structure shows
fit_target   the heads: by strategy where the target can be asked anywhere, at its points for a table
observed     the error of the network that will run, where the target can be asked
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

import numpy as np

from softwright.approximation.choose import choose
from softwright.approximation.formula import Formula
from softwright.approximation.observe import sampled_error
from softwright.approximation.problem import Budget, Fit, Problem
from softwright.approximation.strategies.table import fit_table
from softwright.attention import AttentionNetwork, Head
from softwright.domain import Box
from softwright.result.observed import Observed
from softwright.targets import Expression, Table, Target


@singledispatch
def problem_of(
    target: Target, box: Box, tolerance: float, dtype: str, budget: Budget
) -> tuple[Problem, Formula | None]:
    """The target on [-1, 1]^d; nothing is known of its kinks."""
    return Problem(lambda t: target(box.from_unit(t)), box.dim, target.outputs, tolerance, dtype, None, budget), None


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
    return fit_table(problem, target, box)


@singledispatch
def observed(target: Target, network: AttentionNetwork, heads: Sequence[Head]) -> Observed:
    """The largest error seen at points that no builder saw; `heads` are those of the network, as data."""
    return sampled_error(network, target, heads=heads)


@observed.register
def _(target: Table, network: AttentionNetwork, heads: Sequence[Head]) -> Observed:
    errors = np.abs(network.evaluate(target.points) - target.values).max(axis=1)
    worst = int(errors.argmax())
    return Observed(float(errors[worst]), tuple(target.points[worst].tolist()), len(errors))
