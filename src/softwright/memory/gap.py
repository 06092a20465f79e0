"""The smallest distance between any two of N keys, and whether it exceeds a floor.

On a line, sort. In more dimensions a k-d tree on the few coordinates that spread most finds every pair that is close in
those; pairs that are close in all coordinates are among them, because leaving out coordinates never lengthens a
distance. The radius doubles until a pair is met, so the answer is the smallest distance itself, or, where too many
pairs would have to be listed, a radius within which there is none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree

_COORDINATES = 3
_MOST_PAIRS = 4_000_000
_DOUBLINGS = 40
DOWN = 1.0 - 1e-12  # pays for the rounding of distances in float64


@dataclass(frozen=True)
class Closest:
    """No two keys are closer than `gap`; `pair` are two that are the closest seen, (-1, -1) if none was met."""

    gap: float
    pair: tuple[int, int] = (-1, -1)


def closest(keys: np.ndarray, floor: float) -> Closest:
    """The gap of keys (N, r). A gap below `floor` may be reported as soon as one such pair is found."""
    if len(keys) < 2:
        return Closest(max(1.0, 4.0 * floor))
    return _on_line(keys[:, 0]) if keys.shape[1] == 1 else _in_space(keys, floor)


def _on_line(keys: np.ndarray) -> Closest:
    order = np.argsort(keys, kind="stable")
    steps = np.diff(keys[order])
    at = int(steps.argmin())
    return Closest(float(steps[at]) * DOWN, (int(order[at]), int(order[at + 1])))


def _in_space(keys: np.ndarray, floor: float) -> Closest:
    axes = np.argsort(-keys.var(axis=0), kind="stable")[:_COORDINATES]
    tree = KDTree(keys[:, axes])
    extent = float(np.linalg.norm(np.ptp(keys, axis=0)))
    radius, proved = max(floor, 1e-300) * (1.0 + 1e-9), 0.0
    for _ in range(_DOUBLINGS):
        near = (tree.count_neighbors(tree, radius) - len(keys)) // 2
        if near > _MOST_PAIRS:
            break
        pairs = tree.query_pairs(radius, output_type="ndarray") if near else np.zeros((0, 2), dtype=np.intp)
        found = _nearest_pair(keys, pairs)
        if found is not None and found.gap <= radius:
            return found
        proved = radius
        if radius > extent:
            break
        radius *= 2.0
    return Closest(proved * DOWN)


def _nearest_pair(keys: np.ndarray, pairs: np.ndarray) -> Closest | None:
    if not len(pairs):
        return None
    squares = np.zeros(len(pairs))
    for axis in range(keys.shape[1]):
        squares += (keys[pairs[:, 0], axis] - keys[pairs[:, 1], axis]) ** 2
    at = int(squares.argmin())
    return Closest(float(np.sqrt(squares[at])) * DOWN, (int(pairs[at, 0]), int(pairs[at, 1])))
