"""Tables: values at given points, met at those points.

A regular grid keeps its product structure: along every axis the smallest uniform (or optimised) axis of tokens that
meets the unfolded data is found, and the values solve one Kronecker least-squares problem on the grid itself.
Scattered points take scattered tokens. Both measure the error at the table's points; between the rows of a grid the
head is smooth, or follows their interpolation where that is better (`between.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from softwright.approximation.fitting.axis_search import AxisFit, AxisProblem, search_optimised, search_uniform
from softwright.approximation.fitting.least_squares import design, kron_evaluate, kron_ridge_solve, regularisation
from softwright.approximation.fitting.tall import is_held, parts, shortened
from softwright.approximation.problem import Fit, OutOfBudget, Problem, affine_fit, scaling_of
from softwright.approximation.strategies.between import Inside, divided, interpolated, left_out
from softwright.approximation.strategies.grid import grid_head
from softwright.approximation.strategies.scattered import fit_points
from softwright.approximation.strategies.straight import gated_axis, paired_axis, steepest, stepped_axis
from softwright.attention.head import Axis
from softwright.domain import Box
from softwright.targets import Table

_MOST_SLICES = 200
_LOOK, _BETWEEN = 11, 3.0  # parts of a cell at whose ends a look is taken, and how many tolerances it may be off there
# Between the rows a head errs more than at them: at the rows it may aim at so many times less than the tolerance, as
# long as that takes no more than so many times the tokens.
_CLOSER, _WORTH = (10.0, 5.0, 2.5), 1.6
_PLENTY = 40  # rows for a token along an axis: nothing hides between them
_KINDS = {"linear": "multilinear", "shaped": "shape-preserving cubic"}
_DENSE = 4  # tokens for a row, at most, of a head that follows an interpolation
_FEW = 0.5  # tokens for a row along an axis: with no more a head has no freedom to swing between the rows
_FIT_ROWS, _CHECK_ROWS = 4_000, 20_000  # of a long axis, while tokens are searched; the result is checked on all


class _AxisData(AxisProblem):
    """An axis problem that knows its functions only at the table's own coordinates.

    A long axis is searched on some of its rows, evenly spread, at least eight for an unknown: tokens do not follow
    from rows that say the same again. What is found is solved for and checked on all of them (`fit_table`).
    """

    spare = 1

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
        self.inside = Inside(t, columns) if 2 < len(t) <= _FIT_ROWS else None

    def samples(self, unknowns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        fit = _some(len(self.t), max(_FIT_ROWS, 8 * unknowns))
        check = _some(len(self.t), max(_CHECK_ROWS, 8 * unknowns))
        return self.t[fit], self.data[fit], self.t[check], self.data[check]

    def fit(self, axis: Axis, affine: bool, sup: bool = False) -> AxisFit:
        """As everywhere; what swings between the rows, hidden from them, is no fit."""
        found = super().fit(axis, affine, sup)
        if self.inside is None or len(self.t) >= _PLENTY * axis.tokens or found.error > self.tolerance:
            return found
        places = self.inside.places(axis.keys, axis.biases)
        swing = self.inside.swing(places, design(axis, places, affine) @ found.values)
        return found if swing <= _BETWEEN * self.tolerance else replace(found, error=max(found.error, swing))


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


_Found = tuple[float, tuple[AxisFit, ...], np.ndarray]  # error, axes, values


def _on_grid(
    problem: Problem,
    nodes: list[np.ndarray],
    F: np.ndarray,
    relative: float,
    cap: float,
    first: bool = True,
    given: dict[int, AxisFit] | None = None,
) -> _Found | None:
    """(error, axes, values) of the smallest grid of tokens found; the first attempt of all ends whatever it takes."""
    d = len(nodes)
    share, best = relative / (1.5 * d if d > 1 else 1.0), None

    def tick() -> None:
        if best is not None or not first:  # a table without any network is of no use
            problem.budget.check()

    for _ in range(5):
        if best is not None and problem.budget.exhausted:
            break
        problem.budget.say("fitting the table axis by axis")
        try:
            axes = tuple(
                (given or {}).get(i)
                or _axis_fit(
                    t, _slices(np.moveaxis(F, i, 0).reshape(len(t), -1)), share, max(2.0, cap ** (1 / d)), tick
                )
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
    return best


def fit_table(problem: Problem, table: Table, box: Box) -> Fit:
    """Heads that meet the table at its points."""
    points, values = box.to_unit(table.points), table.values
    trivial = affine_fit(problem, points, values)
    if trivial is not None:
        return trivial
    if table.axes is None or len(table.axes) > 4:
        return fit_points(points, values, problem)
    scaling = scaling_of(values)
    m = values.shape[1]
    nodes = [(axis - c) / h for axis, c, h in zip(table.axes, box.center, box.halfwidth, strict=True)]
    order = np.lexsort(table.points.T[::-1])  # rows in C order of the axes, whatever order the table came in
    F = ((values[order] - scaling.middle) / scaling.scale).reshape(*[len(n) for n in nodes], m)
    relative = min(0.9 * problem.tolerance / scaling.scale, 0.5)
    cap = problem.value_cap(scaling.scale)
    best = _on_grid(problem, nodes, F, relative, cap)
    if best is None:
        raise RuntimeError("at least one grid was tried")

    def as_fit(found: _Found, *more: str) -> Fit:
        error, axes, solved = found
        shape, source = (" x ".join(map(str, each)) for each in ([a.tokens for a in axes], [len(n) for n in nodes]))
        reason = f"a table on a {source} grid: a {shape} grid of tokens, met at the table's points"
        head = grid_head(axes, solved, scaling.scale, scaling.middle)
        return Fit([head], error * scaling.scale, "spectral", (reason, *more))

    many = not _are_few(best[1], nodes)
    if not many and best[0] <= relative and problem.between == "auto":
        kept = _held(problem, nodes, F, best, relative, cap)
        best, many = kept or best, kept is None
    if problem.between != "smooth" and (many or best[0] > relative or problem.between == "linear"):
        found, why = _straightened(problem, nodes, F, relative, cap)
        if found is not None:
            return as_fit(found, why)
    fit = as_fit(best)
    if fit.error <= problem.tolerance:
        return fit
    return min((fit, fit_points(points, values, problem)), key=lambda f: f.error)


def _are_few(axes: tuple[AxisFit, ...], nodes: list[np.ndarray]) -> bool:
    return all(axis.tokens <= _FEW * len(t) for axis, t in zip(axes, nodes, strict=True))


def _swings(found: _Found, nodes: list[np.ndarray], F: np.ndarray) -> float:
    """How much further than linear interpolation the head is from a smooth table inside of the cells of any axis."""
    _, axes, values = found
    worst = 0.0
    for i, (axis, t) in enumerate(zip(axes, nodes, strict=True)):
        if len(t) < 2 or len(t) >= _PLENTY * axis.tokens:
            continue
        inside = Inside(t, np.moveaxis(F, i, 0).reshape(len(t), -1))
        within = inside.places(axis.axis.keys, axis.axis.biases)
        places = [within if k == i else own for k, own in enumerate(nodes)]
        there = kron_evaluate([design(a.axis, at, a.affine) for a, at in zip(axes, places, strict=True)], values)
        worst = max(worst, inside.swing(within, np.moveaxis(there, i, 0).reshape(len(within), -1)))
    return worst


def _held(
    problem: Problem, nodes: list[np.ndarray], F: np.ndarray, best: _Found, relative: float, cap: float
) -> _Found | None:
    """A smooth head that does not swing between the rows, closer to them than asked if few tokens do that; None if
    there is none."""
    if all(len(t) >= _PLENTY * axis.tokens for axis, t in zip(best[1], nodes, strict=True)):
        return best
    most = _WORTH * _tokens(best)
    for closer in _CLOSER:
        found = _on_grid(problem, nodes, F, relative / closer, cap, first=False)
        if found is None or found[0] > best[0] or _tokens(found) > most or not _are_few(found[1], nodes):
            continue
        if _swings(found, nodes, F) <= _BETWEEN * relative:
            return found
    return best if _swings(best, nodes, F) <= _BETWEEN * relative else None


def _tokens(found: _Found) -> int:
    return math.prod(axis.tokens for axis in found[1])


def _straightened(
    problem: Problem, nodes: list[np.ndarray], F: np.ndarray, relative: float, cap: float
) -> tuple[_Found | None, str]:
    """A grid that follows interpolation of the table between its rows, if that is the better one, and why."""

    def smooth(coarse: list[np.ndarray], rows: np.ndarray, places: list[np.ndarray]) -> np.ndarray:
        found = _on_grid(problem, coarse, rows, relative, cap, first=False)
        if found is None:
            return np.full((*[len(t) for t in places], F.shape[-1]), np.inf)
        matrices = [design(axis.axis, t, axis.affine) for axis, t in zip(found[1], places, strict=True)]
        return kron_evaluate(matrices, found[2])

    seen = left_out(nodes, F, smooth) if problem.between == "auto" else None
    way = seen.best if seen is not None else "linear" if problem.between == "linear" else "smooth"
    if way == "smooth":
        return None, ""
    for each in dict.fromkeys((way, "linear")):
        problem.budget.say("following the table between its rows")
        found = [_following(problem, nodes, F, relative, cap, each, paired) for paired in (False, True)]
        good = [one for one in found if one is not None and _tokens(one[1]) <= _DENSE * F[..., 0].size]
        if good:
            off, best = min(good, key=lambda one: _tokens(one[1]))
            reach = max(off, best[0]) * problem.tolerance / (relative / 0.9)
            told = f"between the rows it follows their {_KINDS[each]} interpolation, seen to be within {reach:.3g}"
            return best, told if seen is None else f"{told}: {seen}"
    if seen is None:
        return None, ""
    steps = {i: stepped_axis(t, relative) for i, t in enumerate(nodes)}
    found = _on_grid(problem, nodes, F, relative, cap, first=False, given=steps)
    if found is None or found[0] > relative:
        return None, ""
    return found, f"between the rows it passes from one to the next, never beyond them: {seen}"


def _following(
    problem: Problem, nodes: list[np.ndarray], F: np.ndarray, relative: float, cap: float, way: str, paired: bool
) -> tuple[float, _Found] | None:
    """A grid that was seen to follow that interpolation between the rows, and how closely; with pairs of tokens in the
    cells of all axes but the longest, or with what a search finds for these."""
    unseen, longest = divided(nodes, _LOOK) or divided(nodes, 3), int(np.argmax([len(t) for t in nodes]))
    if unseen is None or (paired and (way != "linear" or len(nodes) == 1)):
        return None
    given: dict[int, AxisFit] = {}
    if way == "linear":
        given[longest] = gated_axis(nodes[longest], F, longest, relative)
        cap *= max(1.0, steepest(nodes[longest], F, longest))  # affine values are as large as the slopes are
    if paired:
        given |= {i: paired_axis(t, F, i, relative) for i, t in enumerate(nodes) if i != longest and len(t) > 2}
    for times in (4, 8):
        places = divided(nodes, times)
        if places is None:
            break
        G = interpolated(nodes, F, places, way)
        found = _on_grid(problem, places, G, relative, cap, first=False, given=given)
        if found is None:
            break
        off = _miss(found[1], unseen, interpolated(nodes, F, unseen, way), found[2])
        if found[0] <= relative and off <= (1.0 if times == 4 else _BETWEEN) * relative / 0.9:
            return off, found
    return None
