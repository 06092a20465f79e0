"""Least squares on some rows of a long table, checked on all of them, the worst of which are exchanged in.

Values with p unknowns do not become better by rows that say the same again. They are solved for on `EACH` p rows,
evenly drawn, and checked on as many others; only what meets the goal there is checked on all rows. The rows that it
misses by most then join those it is solved from, and after a few rounds it meets the goal on all rows or is given up:
then more tokens are needed. So the work for a candidate grows with rows by its last check alone, and tokens do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from softwright.approximation.fitting.tall import Design, largest_miss, misses, solved
from softwright.work import count

EACH, LEAST = 6, 3_000  # rows for an unknown, and at least
LONG = 3  # a table is long if it has more than so many times the rows that are drawn
ROUNDS, SHARE = 6, 16  # exchanges, and which part of the rows drawn joins in each


class Rows:
    """The rows of a table: points (n, d) and values (n, q)."""

    def __init__(self, points: np.ndarray, values: np.ndarray, seed: int = 0) -> None:
        self.points, self.values = points, values
        self.order = np.random.default_rng(seed).permutation(len(points))

    def drawn(self, unknowns: int) -> int | None:
        """How many rows the values are solved from; None if from all."""
        most = max(LEAST, EACH * unknowns)
        return most if len(self.points) > LONG * most else None

    def solve(
        self, design: Design, unknowns: int, strength: float, goal: float, proceed: Callable[[], bool]
    ) -> tuple[np.ndarray, float, bool]:
        """Values, their largest error, and whether that is the error on all rows: else on some, and above the goal."""
        most = self.drawn(unknowns)
        if most is None:
            v = solved(design, self.points, self.values, unknowns, strength)
            return v, largest_miss(design, self.points, self.values, v), True
        own, others = self.order[:most], self.order[most : 2 * most]
        best, least = np.zeros(0), math.inf
        for _ in range(ROUNDS):
            v = solved(design, self.points[own], self.values[own], unknowns, strength)
            seen = max(self.miss(design, own, v), self.miss(design, others, v))
            if math.isinf(least) and seen > goal:
                return v, seen, False
            off = self.all_misses(design, v)
            if off.max() < least:
                best, least = v, float(off.max())
            if least <= goal or not proceed():
                break
            worst = np.argpartition(off, -(most // SHARE))[-(most // SHARE) :]
            own = np.union1d(own, worst[off[worst] > 0.5 * goal])
        return best, least, True

    def miss(self, design: Design, rows: np.ndarray, v: np.ndarray) -> float:
        return largest_miss(design, self.points[rows], self.values[rows], v)

    def all_misses(self, design: Design, v: np.ndarray) -> np.ndarray:
        """The largest error of every row (n,)."""
        count(10 * len(self.points) * len(v))
        return misses(design, self.points, self.values, v)
