"""Where something is least on a box: a search by halving steps, many starts at once; no proof of anything.

Each round tries a step up and a step down along every variable from every start, and all steps that help at once; it
takes the best of them if it is better, and halves the steps of variables along which none helps. Points stay in the
box.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_ROUNDS, _STARTS = 40, 16


def lowest(
    value: Callable[[np.ndarray], np.ndarray], points: np.ndarray, lower: np.ndarray, upper: np.ndarray, most: int
) -> np.ndarray:
    """Points (k, d) of the box near which `value` (n, d) -> (n,) is least; about `most` points are asked for."""
    dim = points.shape[1]

    def at(points: np.ndarray) -> np.ndarray:
        return np.nan_to_num(value(points), nan=np.inf)

    found = at(points)
    first = np.argsort(found, kind="stable")[:_STARTS]
    best, least = points[first].copy(), found[first]
    step = np.full(best.shape, 0.25)
    rounds = min(_ROUNDS, max(1, most // (2 * dim * len(best))))
    moves = np.concatenate([np.eye(dim), -np.eye(dim)]) * (upper - lower)  # (2 d, d)
    for _ in range(rounds):
        trial = np.clip(best[:, None] + step[:, None, :] * moves, lower, upper)  # (k, 2 d, d)
        values = at(trial.reshape(-1, dim)).reshape(len(best), 2 * dim)
        up, down = values[:, :dim], values[:, dim:]
        helps = np.minimum(up, down) < least[:, None]  # (k, d)
        sign = np.where(helps, np.where(up <= down, 1.0, -1.0), 0.0)
        together = np.clip(best + sign * step * (upper - lower), lower, upper)
        trial = np.concatenate([trial, together[:, None]], axis=1)
        values = np.concatenate([values, at(together)[:, None]], axis=1)
        rows, chosen = np.arange(len(best)), values.argmin(axis=1)
        better = values[rows, chosen] < least
        best = np.where(better[:, None], trial[rows, chosen], best)
        least = np.where(better, values[rows, chosen], least)
        step = np.where(helps, step, 0.5 * step)
        if least.min() < 0:
            break
    return best
