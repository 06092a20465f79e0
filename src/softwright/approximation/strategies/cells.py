"""The papers' nearest-cell construction (paper B, sup-norm theorem), kept as the baseline.

A grid of G^d centres v_j with spacing h = 2/G, scores beta (v_j.t - |v_j|^2 / 2), values f(v_j). Its error is at most
omega_f(h sqrt d) + 2 |f| G^d e^{-(3/8) beta d h^2}, first order in h: sin(3x) to 1e-6 takes a million tokens. No
least squares, no finite temperature; `beta` is taken so that the second term is a tenth of the tolerance.
"""

from __future__ import annotations

import numpy as np

from softwright.approximation.formula import Formula
from softwright.approximation.problem import Fit, Problem, probe_points
from softwright.attention.head import Axis, Head


def cell_head(problem: Problem, cells: int) -> Head:
    """The construction with `cells` cells per axis."""
    d = problem.dim
    h = 2.0 / cells
    centres = -1 + h * (np.arange(cells) + 0.5)
    mesh = np.meshgrid(*[centres] * d, indexing="ij")
    values = problem.function(np.stack([grid.ravel() for grid in mesh], axis=1))
    size = max(float(np.abs(values).max()), 1e-300)
    spare = max(0.1 * problem.tolerance, 1e-300)
    beta = 8 / (3 * d * h**2) * np.log(max(2.0 * len(values) * size / spare, 2.0))
    axis = Axis(beta * centres, -0.5 * beta * centres**2)
    return Head.on_grid([axis] * d, values).centred()


def fit_cells(problem: Problem, formula: Formula | None = None) -> Fit:
    """More cells per axis until the tolerance is met or the tokens run out (they usually do)."""
    points = probe_points(problem.dim, 20_000, seed=41)
    wanted = problem.function(points)
    cells, best = 2, None
    while True:
        problem.budget.check()
        problem.budget.say(f"{cells} cells per axis")
        head = cell_head(problem, cells)
        error = float(np.abs(head(points) - wanted).max())
        reason = f"nearest cell, {cells} per axis (the papers' construction, error of first order in the cell size)"
        if best is None or error < best.error:
            best = Fit([head], error, "cells", (reason,))
        larger = int(np.ceil(1.4 * cells))
        if best.error <= problem.tolerance or float(larger) ** problem.dim > min(problem.budget.max_tokens, 2_000_000):
            return best
        cells = larger
