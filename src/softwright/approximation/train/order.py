"""The order of variables in a train: those that interact most are put next to each other.

At a few pairs of points x, y the mixed difference f(x_ij <- y) - f(x_i <- y) - f(x_j <- y) + f(x) says how strongly the
variables i and j act together. Ranks of a train grow with what crosses its bonds, so the order minimises
sum_ij w_ij |place_i - place_j|, by exchanges from several starts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def interactions(ask: Callable[[np.ndarray], np.ndarray], dim: int, pairs: int, rng: np.random.Generator) -> np.ndarray:
    """(d, d) mean sizes of mixed differences over pairs of points; pairs (1 + d + d (d - 1) / 2) queries."""
    found = np.zeros((dim, dim))
    both = [(i, j) for i in range(dim) for j in range(i)]
    for _ in range(pairs):
        here, there = rng.uniform(-1, 1, (2, dim))
        points = np.tile(here, (1 + dim + len(both), 1))
        for i in range(dim):
            points[1 + i, i] = there[i]
        for k, (i, j) in enumerate(both, 1 + dim):
            points[k, [i, j]] = there[[i, j]]
        values = ask(points)
        for k, (i, j) in enumerate(both, 1 + dim):
            mixed = values[k] - values[1 + i] - values[1 + j] + values[0]
            found[i, j] += float(np.abs(mixed).max())
    return found + found.T


def arranged(weights: np.ndarray, rng: np.random.Generator, starts: int = 8) -> tuple[int, ...]:
    """The variable of each place."""
    d = len(weights)
    best: tuple[float, tuple[int, ...]] | None = None
    for start in range(starts):
        order = np.arange(d) if start == 0 else rng.permutation(d)
        cost, changed = _cost(weights, order), True
        while changed:
            changed = False
            for i in range(d):
                for j in range(d):
                    trial = np.insert(np.delete(order, i), j, order[i])
                    new = _cost(weights, trial)
                    if new < cost * (1 - 1e-9):
                        order, cost, changed = trial, new, True
        if best is None or cost < best[0] * (1 - 1e-9):
            best = (cost, tuple(int(i) for i in order))
    if best is None:
        raise RuntimeError("at least one start was tried")
    return best[1]


def _cost(weights: np.ndarray, order: np.ndarray) -> float:
    places = np.empty(len(order), dtype=int)
    places[order] = np.arange(len(order))
    return float((weights * np.abs(places[:, None] - places)).sum())
