"""Where to look in a box: random points, corners and what lies near them, a diagonal; and climbs from the worst."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Errors = Callable[[np.ndarray], np.ndarray]  # points (n, d) -> (n,)


@dataclass(frozen=True)
class Effort:
    """How many points are drawn, from how many of them is climbed, in how many steps."""

    samples: int
    starts: int
    steps: int
    seed: int = 0


QUICK, LONG = Effort(1500, 4, 40), Effort(6000, 8, 80)


def spread(low: np.ndarray, high: np.ndarray, effort: Effort) -> np.ndarray:
    """The first points, (n, d)."""
    rng, d = np.random.default_rng(effort.seed), len(low)
    corners = np.array(np.meshgrid(*[[0.0, 1.0]] * min(d, 8))).reshape(min(d, 8), -1).T
    corners = np.concatenate([corners, rng.integers(0, 2, (len(corners), d - corners.shape[1]))], axis=1)
    near = np.abs(corners[:, None] - np.geomspace(1e-12, 1e-2, 11)[:, None]).reshape(-1, d)
    line = np.linspace(0, 1, 201)[:, None] * np.ones(d)
    unit = np.concatenate([rng.random((effort.samples, d)), corners, near, line])
    return np.clip(low + unit * (high - low), low, high)


def near(places: list[float], low: np.ndarray, high: np.ndarray, effort: Effort) -> np.ndarray:
    """Points with a coordinate at one of these places or beside it, at all distances, (n, d)."""
    rng, d, found = np.random.default_rng(effort.seed + 2), len(low), [np.empty((0, len(low)))]
    offsets = np.concatenate([[0.0], *(sign * np.geomspace(1e-17, 0.1, 69) for sign in (-1, 1))])
    for place in [p for value in places for p in {value, -value, abs(value) ** 0.5, -(abs(value) ** 0.5)}][:40]:
        for axis in range(d):
            points = low + rng.random((len(offsets), d)) * (high - low)
            points[:, axis] = place + offsets
            found.append(points[(points[:, axis] >= low[axis]) & (points[:, axis] <= high[axis])])
    return np.concatenate(found)


def climb(errors: Errors, points: np.ndarray, low: np.ndarray, high: np.ndarray, effort: Effort) -> np.ndarray:
    """The ends of climbs from the worst of the points, by random moves that grow shorter, (starts, d)."""
    rng, d = np.random.default_rng(effort.seed + 1), len(low)
    best = points[np.argsort(-_seen(errors, points))[: effort.starts]]
    step = 0.02 * (high - low)
    for _ in range(effort.steps):
        moves = np.clip(best[:, None] + rng.uniform(-1, 1, (len(best), 12, d)) * step, low, high)
        tried = np.concatenate([best[:, None], moves], axis=1)  # (starts, 13, d)
        chosen = _seen(errors, tried.reshape(-1, d)).reshape(len(best), -1).argmax(axis=1)
        best = tried[np.arange(len(best)), chosen]
        step = step * 0.75
    return best


def _seen(errors: Errors, points: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        found = errors(points)
    return np.where(np.isnan(found), np.inf, found)
