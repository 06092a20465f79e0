"""One direction: a target f(t) = g(w.t) is a target of one variable, carried back along w.

With |w|_1 = 1 the argument s = w.t runs through [-1, 1], and a head in s with keys k_j is one in t with keys k_j w.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from softwright.approximation.formula import Formula
from softwright.approximation.problem import Fit, Problem
from softwright.approximation.strategies.line import fit_line
from softwright.approximation.structure import along_ridge, ridge_direction


def fit_direction(problem: Problem, formula: Formula | None = None) -> Fit | None:
    """The automatic choice for one variable, along the direction in which the target varies; None if there is none."""
    return fit_along(problem, fit_line)


def fit_along(problem: Problem, fit_one: Callable[[Problem], Fit | None]) -> Fit | None:
    """What `fit_one` makes of the target along its direction, as heads in all variables."""
    w = ridge_direction(problem)
    line = None if w is None else fit_one(along_ridge(problem, w))
    return None if line is None or w is None else _lifted(line, w)


def _lifted(line: Fit, w: np.ndarray) -> Fit:
    direction = ", ".join(f"{x:.4g}" for x in w / np.abs(w).max())
    reason = f"the target varies along one direction only, ({direction}) in the unit frame"
    heads = [head.along(w[None]) for head in line.in_unit_frame()]
    return Fit(heads, line.error, "ridge", (reason, *line.reasons), jumps=line.jumps)
