"""Tokens at scattered centres: for tables, and for moderate dimension when nothing better is known.

Centres are picked from the points so that they cover them evenly (farthest-point order); every centre c has the score
of a Gaussian of common width s, (c / s^2).t - |c|^2 / (2 s^2), and the values, constant or affine, solve one
least-squares problem. The width is a multiple of the typical distance between neighbouring centres; a few multiples
are tried on points held out. Of a long table some rows are solved from and the worst exchanged in (`exchange.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from softwright.approximation.fitting.exchange import Rows
from softwright.approximation.fitting.tall import largest_miss
from softwright.approximation.formula import Formula
from softwright.approximation.problem import Fit, Problem, probe_points, scaling_of
from softwright.attention.head import Head
from softwright.work import count

_WIDTHS = (0.7, 1.0, 1.5, 2.2, 3.2)
_MOST_UNKNOWNS = 1600
_MOST_CENTRES = 25_000  # rows among which centres are picked


def farthest_points(points: np.ndarray, most: int) -> np.ndarray:
    """Indices of at most `most` points, each farthest from those before it: an even cover in a fixed order."""
    count(min(most, len(points)) * (20_000 + 2 * points.size))
    chosen = [int(np.argmin(((points - points.mean(axis=0)) ** 2).sum(axis=1)))]
    distance = ((points - points[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < min(most, len(points)):
        index = int(distance.argmax())
        if distance[index] == 0:
            break
        chosen.append(index)
        distance = np.minimum(distance, ((points - points[index]) ** 2).sum(axis=1))
    return np.array(chosen)


def _head(centres: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray]:
    keys = centres / width**2
    return keys, -0.5 * (centres**2).sum(axis=1) / width**2


def _design(keys: np.ndarray, biases: np.ndarray, affine: bool, points: np.ndarray) -> np.ndarray:
    weights = Head(keys, biases, np.zeros((len(keys), 1))).weights(points)
    if not affine:
        return weights
    return np.hstack([weights, *[weights * points[:, i : i + 1] for i in range(points.shape[1])]])


def fit_points(
    points: np.ndarray,
    values: np.ndarray,
    problem: Problem,
    *,
    strategy: str = "scattered",
    check: np.ndarray | None = None,
) -> Fit:
    """Fewest scattered tokens that meet the tolerance at the given points (n, d), values (n, m).

    With `check`, points held out: the error counts the problem's function there as well.
    """
    d = points.shape[1]
    scaling = scaling_of(values)
    F = (values - scaling.middle) / scaling.scale
    relative = min(0.9 * problem.tolerance / scaling.scale, 0.5)
    strength = 0.3 * relative / problem.value_cap(scaling.scale)
    wanted = None if check is None else (problem.function(check) - scaling.middle) / scaling.scale
    best: Fit | None = None
    rest: Callable[[], float] = float  # the error of the best one on rows that it was not checked on
    tokens, rows = 2, Rows(points, F)

    def proceed() -> bool:
        return best is None or not problem.budget.exhausted

    some = points[np.sort(rows.order[:_MOST_CENTRES])]
    order = farthest_points(some, min(len(some), _MOST_UNKNOWNS))
    while proceed():
        on = f", on {rows.drawn(tokens):,} of {len(points):,} rows" if rows.drawn(tokens) else ""
        problem.budget.say(f"{tokens} scattered tokens{on}")
        for affine in (True, False):
            if tokens * (1 + d * affine) > min(len(points), _MOST_UNKNOWNS):
                continue
            centres = some[order[:tokens]]
            spacing = _spacing(centres)
            for multiple in _WIDTHS:
                if not proceed():
                    break
                keys, biases = _head(centres, multiple * spacing)
                design = partial(_design, keys, biases, affine)
                v, error, on_all = rows.solve(design, tokens * (1 + d * affine), strength, relative, proceed)
                if check is not None and wanted is not None:
                    error = max(error, largest_miss(design, check, wanted, v))
                if best is None or error * scaling.scale < best.error:
                    rest = float if on_all else partial(largest_miss, design, points, F, v)
                    N = len(centres)
                    slopes = None
                    if affine:
                        slopes = np.stack([v[N * (i + 1) : N * (i + 2)] for i in range(d)], axis=2) * scaling.scale
                    head = Head(keys, biases, v[:N] * scaling.scale + scaling.middle, slopes)
                    kind = "affine" if affine else "constant"
                    reason = f"{N} tokens at scattered centres, {kind} values, width {multiple:g} spacings"
                    best = Fit([head.centred()], error * scaling.scale, strategy, (reason,))
                if best.error <= relative * scaling.scale:
                    return best
        limit = min(len(order), problem.budget.max_tokens, _MOST_UNKNOWNS)
        if tokens >= limit:
            break
        tokens = min(limit, int(np.ceil(1.6 * tokens)))
    if best is None:
        raise RuntimeError("at least one token was tried")
    return replace(best, error=max(best.error, rest() * scaling.scale))


def _spacing(centres: np.ndarray) -> float:
    if len(centres) < 2:
        return 1.0
    from scipy.spatial import KDTree

    return float(np.median(KDTree(centres).query(centres, k=2)[0][:, 1]))


def fit_scattered(problem: Problem, formula: Formula | None = None, *, samples: int = 4000) -> Fit:
    """Scattered tokens for a function that can be asked anywhere."""
    points = probe_points(problem.dim, samples, seed=31)
    return fit_points(points, problem.function(points), problem, check=probe_points(problem.dim, samples, seed=32))
