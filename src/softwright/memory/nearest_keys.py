"""Finding the key that an id belongs to among millions: a sorted coordinate for stored ids, a k-d tree for all others.

A stored sequence's id lies within a proved radius of its key. Along the coordinate in which the keys spread most, only
a handful of keys lie in a window that narrow; they are compared in full. Only ids that have no key within the radius,
which no stored sequence has, pay for a nearest-neighbour query. The search computes in float64; the radius it is given
leaves room for its rounding.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.spatial import KDTree


class NearestKeys:
    """Keys (N, r) prepared for search."""

    def __init__(self, keys: np.ndarray) -> None:
        self.keys = np.asarray(keys, dtype=np.float64)
        spread = self.keys.var(axis=0) if len(self.keys) else np.zeros(self.keys.shape[1])
        self.axis = int(spread.argmax()) if len(spread) else 0
        self.order = np.argsort(self.keys[:, self.axis], kind="stable")
        self.sorted = self.keys[self.order]  # (N, r)
        self.line = np.ascontiguousarray(self.sorted[:, self.axis])

    def within(self, ids: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
        """The nearest key (Q,) no farther than `radius`, -1 where there is none, and the distance (Q,), inf there."""
        queries = len(ids)
        at = np.searchsorted(self.line, ids[:, self.axis] - radius)
        found, best = np.full(queries, -1, dtype=np.int64), np.full(queries, np.inf)
        active = np.arange(queries)
        while len(active):
            place = at[active]
            inside = place < len(self.line)
            inside[inside] = self.line[place[inside]] <= ids[active[inside], self.axis] + radius
            active, place = active[inside], place[inside]
            distance = np.sqrt(((self.sorted[place] - ids[active]) ** 2).sum(axis=1))
            better = (distance <= radius) & (distance < best[active])
            found[active[better]], best[active[better]] = place[better], distance[better]
            at[active] += 1
        return np.where(found >= 0, self.order[np.maximum(found, 0)] if len(self.order) else -1, -1), best

    @cached_property
    def _tree(self) -> KDTree:
        return KDTree(self.keys)

    def nearest(self, ids: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Distances and indices (Q, min(count, N)) of the nearest keys."""
        count = min(count, len(self.keys))
        distance, index = self._tree.query(ids, k=count)
        return np.asarray(distance).reshape(len(ids), count), np.asarray(index).reshape(len(ids), count)
