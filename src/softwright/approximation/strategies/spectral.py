"""Constant values on a uniform grid at a finite temperature, in one variable or several.

    g(t) = sum_j v_j softmax_j(k_j.t + b_j),   keys and biases in closed form, the values by least squares

Smooth targets converge geometrically in the tokens per axis. Modest values come first, because large ones of
alternating sign cost rounding; only where they do not reach is the dtype's own limit used.
"""

from __future__ import annotations

from softwright.approximation.formula import Formula
from softwright.approximation.problem import Fit, Problem, best_of
from softwright.approximation.strategies.grid import fit_grid
from softwright.approximation.strategies.line import fit_spectral_line
from softwright.approximation.strategies.scattered import fit_scattered

_MODEST = 100.0  # values, relative to the target's range


def fit_spectral(problem: Problem, formula: Formula | None = None) -> Fit | None:
    """A uniform grid with constant values."""
    if problem.dim == 1:
        return fit_spectral_line(problem)
    modest = fit_grid(problem, optimise=False, affine=False, cap=_MODEST)
    if modest is not None and modest.error <= problem.tolerance:
        return modest
    return best_of([modest, fit_grid(problem, optimise=False, affine=False), fit_scattered(problem)], problem.tolerance)
