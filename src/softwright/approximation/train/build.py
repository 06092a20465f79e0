"""From a function that can be asked to a tensor train: lines, order, sweeps, and a look at points that were not asked.

lines       along every variable through a few points: the map and the number of nodes of its axis
order       of the variables, by how they interact
sweeps      of cross approximation, until points at random are met; where they are not, an axis gets more nodes, or
            the worst of these points becomes a pivot of all bonds
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from softwright.approximation.problem import OutOfBudget, probe_points
from softwright.approximation.train.axes import MOST_NODES, axis_for
from softwright.approximation.train.cross import Cross, Train
from softwright.approximation.train.order import arranged, interactions
from softwright.approximation.train.sampler import Sampler

_LINES = 3  # through as many points an axis is looked at
_PAIRS = 3  # of points, for the order
_SWEEPS = 60
_WIDEST = 60  # rank
_LOOK = 200  # points at random that decide when to stop


@dataclass(frozen=True)
class Trained:
    """A train and the largest error at points that it was not made from; a sample."""

    train: Train
    error: float


def train_of(
    ask: Callable[[np.ndarray], np.ndarray],
    dim: int,
    outputs: int,
    tolerance: float,
    *,
    seed: int = 5,
    tick: Callable[[], None] = lambda: None,
) -> Trained | None:
    """The train within `tolerance` of the function on [-1, 1]^d, or the best that was found; `ask` may end the search
    by `OutOfBudget` once there are no more queries. None if they end before there is a first train."""
    rng = np.random.default_rng(seed)
    best: Trained | None = None
    try:
        points = probe_points(dim, _LOOK if dim > 2 else _LOOK // 2, seed)
        values = ask(points)
        axes = [axis_for(_line(ask, points, i), 0.05 * tolerance) for i in range(dim)]
        order = arranged(interactions(ask, dim, _PAIRS, rng), rng) if dim > 2 else tuple(range(dim))
        sampler = Sampler(ask, order, [axes[i] for i in order])
        cross = Cross(sampler, outputs, _start(sampler, points, values), rng)
        small, still = 0.2 * tolerance, 0
        for _ in range(_SWEEPS):
            tick()
            grown = cross.sweep(small)
            train = cross.train()
            errors = np.abs(train(points) - values).max(axis=1)
            found = Trained(train, float(errors.max()))
            if best is None or found.error < best.error:
                best, still = found, 0
            else:
                still += 1
            if found.error <= 0.4 * tolerance or max(cross.ranks) > _WIDEST or still > 12:
                break
            if not grown:
                _mend(cross, points[errors.argmax()], tolerance, small)
    except OutOfBudget:
        pass
    return best


def _line(ask: Callable[[np.ndarray], np.ndarray], points: np.ndarray, i: int) -> Callable[[np.ndarray], np.ndarray]:
    """Values (n, lines) along variable i through a few points."""
    through = points[i * _LINES % (len(points) - _LINES) :][:_LINES]

    def along(t: np.ndarray) -> np.ndarray:
        asked = np.repeat(through[None], len(t), axis=0)
        asked[:, :, i] = t[:, None]
        return ask(asked.reshape(-1, points.shape[1])).reshape(len(t), -1)

    return along


def _nearest(sampler: Sampler, point: np.ndarray) -> tuple[int, ...]:
    found = []
    for place, axis in enumerate(sampler.axes):
        found.append(int(np.abs(axis.places - point[sampler.order[place]]).argmin()))
    return tuple(found)


def _start(sampler: Sampler, points: np.ndarray, values: np.ndarray) -> tuple[int, ...]:
    """Where the function is largest of what was seen: the first pivot."""
    place, output = np.unravel_index(np.abs(values).argmax(), values.shape)
    return (*_nearest(sampler, points[place]), int(output))


def _mend(cross: Cross, worst: np.ndarray, tolerance: float, small: float) -> None:
    """No bond shows what is missing: finer axes, or the worst point's neighbour as a pivot of all bonds."""
    coarse = cross.coarse(0.1 * tolerance)
    axes = cross.sampler.axes
    for place in coarse:
        axes[place] = replace(axes[place], nodes=min(axes[place].nodes + 2, MOST_NODES))
    if not coarse:
        for output in range(cross.outputs):
            cross.join((*_nearest(cross.sampler, worst), output))
        cross.prune(0.05 * small)
