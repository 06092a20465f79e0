"""Tables: values at given points, met at those points.

A regular grid keeps its product structure: along every axis the smallest uniform (or optimised) axis of tokens that
meets the unfolded data is found, and the values solve one Kronecker least-squares problem on the grid itself.
Scattered points take scattered tokens. Both measure the error at the table's points; between them the head is smooth
and nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from softwright.approximation.fitting.axis_search import AxisFit, AxisProblem, search_optimised, search_uniform
from softwright.approximation.fitting.least_squares import design, kron_evaluate, kron_ridge_solve, regularisation
from softwright.approximation.fitting.tall import is_held, parts, shortened
from softwright.approximation.problem import Fit, OutOfBudget, Problem, affine_fit, scaling_of
from softwright.approximation.strategies.grid import grid_head
from softwright.approximation.strategies.scattered import fit_points
from softwright.domain import Box
from softwright.targets import Table

_MOST_SLICES = 200
_FIT_ROWS, _CHECK_ROWS = 4_000, 20_000  # of a long axis, while tokens are searched; the result is checked on all


class _AxisData(AxisProblem):
    """An axis problem that knows its functions only at the table's own coordinates.

    A long axis is searched on some of its rows, evenly spread, at least eight for an unknown: tokens do not follow
    from rows that say the same again. What is found is solved for and checked on all of them (`fit_table`).
    """

    def __init__(
        self,
        t: np.ndarray,
        columns: np.ndarray,
        tolerance: float,
        value_cap: float,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(lambda s: columns, tolerance, value_cap, tick)
        self.t, self.data = t, columns

    def samples(self, unknowns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        fit = _some(len(self.t), max(_FIT_ROWS, 8 * unknowns))
        check = _some(len(self.t), max(_CHECK_ROWS, 8 * unknowns))
        return self.t[fit], self.data[fit], self.t[check], self.data[check]


def _some(rows: int, most: int) -> np.ndarray | slice:
    """About that many of the rows, both ends among them; all if they are not more than five times as many."""
    if rows <= 5 * most:
        return slice(None)
    return np.unique(np.linspace(0, rows - 1, most).astype(np.int64))


def _axis_fit(
    t: np.ndarray, columns: np.ndarray, tolerance: float, cap: float, tick: Callable[[], None] = lambda: None
) -> AxisFit:
    if len(t) == 1:
        return search_uniform(_AxisData(t, columns, np.inf, cap), False, 1)
    setting = _AxisData(t, columns, tolerance, cap, tick)
    fit = search_uniform(setting, False, min(len(t), 200))
    fewer = search_optimised(setting, False, fit.tokens, 10 * cap, most_tokens=min(16, len(t) // 3), iterations=25)
    return fewer or fit


def _slices(columns: np.ndarray) -> np.ndarray:
    """Some of many slices along an axis (n, slices), evenly spread; the values are solved for with all of them."""
    return columns[:, _some(columns.shape[1], _MOST_SLICES)]


def _values(axes: tuple[AxisFit, ...], nodes: list[np.ndarray], F: np.ndarray, strength: float) -> np.ndarray:
    """The values tensor (p_1, ..., p_d, m); an axis with too many rows to hold is solved by its triangle."""
    points, matrices = float(np.prod(F.shape[:-1])), []
    for i, (axis, t) in enumerate(zip(axes, nodes, strict=True)):
        columns = partial(design, axis.axis, affine=axis.affine)
        unknowns = axis.tokens * (1 + axis.affine)
        if is_held(len(t), unknowns):
            matrices.append(columns(t))
            continue
        along = np.moveaxis(F, i, 0)
        triangle, short = shortened(columns, t, along.reshape(len(t), -1), unknowns)
        matrices.append(triangle)
        F = np.moveaxis(short.reshape(unknowns, *along.shape[1:]), 0, i)
    return kron_ridge_solve(matrices, F, strength, points)


def _miss(axes: tuple[AxisFit, ...], nodes: list[np.ndarray], F: np.ndarray, values: np.ndarray) -> float:
    """The largest error at the table's points, some rows of the longest axis at a time."""
    longest = int(np.argmax([len(t) for t in nodes]))
    others = F.size // len(nodes[longest])
    worst = []
    for part in parts(len(nodes[longest]), axes[longest].tokens * (1 + axes[longest].affine) + others):
        places = [t[part] if i == longest else t for i, t in enumerate(nodes)]
        matrices = [design(axis.axis, t, axis.affine) for axis, t in zip(axes, places, strict=True)]
        wanted = F[(slice(None),) * longest + (part,)]
        worst.append(np.abs(kron_evaluate(matrices, values) - wanted).max())
    return float(np.max(worst))


def fit_table(problem: Problem, table: Table, box: Box) -> Fit:
    """Heads that meet the table at its points."""
    points, values = box.to_unit(table.points), table.values
    trivial = affine_fit(problem, points, values)
    if trivial is not None:
        return trivial
    if table.axes is None or len(table.axes) > 4:
        return fit_points(points, values, problem)
    scaling = scaling_of(values)
    d, m = len(table.axes), values.shape[1]
    nodes = [(axis - c) / h for axis, c, h in zip(table.axes, box.center, box.halfwidth, strict=True)]
    order = np.lexsort(table.points.T[::-1])  # rows in C order of the axes, whatever order the table came in
    F = ((values[order] - scaling.middle) / scaling.scale).reshape(*[len(n) for n in nodes], m)
    relative = min(0.9 * problem.tolerance / scaling.scale, 0.5)
    cap = problem.value_cap(scaling.scale)
    share, best = relative / (1.5 * d if d > 1 else 1.0), None

    def tick() -> None:
        if best is not None:  # the first attempt always ends: a table without any network is of no use
            problem.budget.check()

    for _ in range(5):
        if best is not None and problem.budget.exhausted:
            break
        problem.budget.say("fitting the table axis by axis")
        try:
            axes = tuple(
                _axis_fit(t, _slices(np.moveaxis(F, i, 0).reshape(len(t), -1)), share, max(2.0, cap ** (1 / d)), tick)
                for i, t in enumerate(nodes)
            )
        except OutOfBudget:
            break
        solved = _values(axes, nodes, F, regularisation(relative, cap))
        error = _miss(axes, nodes, F, solved)
        if best is None or error < best[0]:
            best = (error, axes, solved)
        if error <= relative:
            break
        share *= float(np.clip(0.6 * relative / error, 0.02, 0.5))
    if best is None:
        raise RuntimeError("at least one grid was tried")
    error, axes, solved = best
    shape = " x ".join(str(axis.tokens) for axis in axes)
    source = " x ".join(str(len(n)) for n in nodes)
    reason = f"a table on a {source} grid: a {shape} grid of tokens, met at the table's points"
    fit = Fit([grid_head(axes, solved, scaling.scale, scaling.middle)], error * scaling.scale, "spectral", (reason,))
    return (
        fit
        if fit.error <= problem.tolerance
        else min((fit, fit_points(points, values, problem)), key=lambda f: f.error)
    )
