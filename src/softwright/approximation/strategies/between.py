"""Between the rows of a grid: smooth, or as straight as the table itself.

A smooth head with few tokens for many rows is far better between the rows than linear interpolation of them. One whose
tokens are nearly as many as the rows meets them and does what it likes between: near a kink it overshoots, and is worse
than straight lines. Which of the two a table is, its own rows tell: every other node of each axis is left out, and the
rows there are asked of a smooth head of the others, of their multilinear interpolation, and of the cubic one that keeps
its shape (no extremum that the rows do not have, Fritsch and Carlson 1980), axis after axis.

If interpolation is the better one, the head is fitted to the table with cells divided by it: it then follows the
interpolation within the tolerance at the new nodes too, and cannot swing between the rows.

Few tokens can swing as well: a key that is steep beside the cells hides a bump in one of them. So a smooth head is held
against the cubic spline of the rows where that foretells rows which are left out, otherwise against the cubic that
keeps their shape, axis by axis, and must not be further from it than linear interpolation is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

_FEWEST = 5  # nodes of an axis of which every other one can be left out
_CLEARLY = 0.7  # of the error of straight lines at rows that are left out
_LOOK = 11  # parts of a cell at whose ends a look is taken
_MOST_PAIRED = 16  # tokens of which every two are looked at together
_MOST_ROWS = 60_000  # of a table with divided cells
WAYS = ("auto", "linear", "smooth")

Nodes = list[np.ndarray]
Predict = Callable[[Nodes, np.ndarray, Nodes], np.ndarray]  # nodes, F on them, other nodes -> F there


@dataclass(frozen=True)
class LeftOut:
    """The largest errors, over the range of each output, at rows that were left out."""

    smooth: float
    linear: float
    shaped: float

    @property
    def best(self) -> str:
        """The way with the least error; straight lines unless another is clearly better, for they surprise nobody."""
        if self.smooth <= min(_CLEARLY * self.linear, self.shaped):
            return "smooth"
        return "shaped" if self.shaped <= _CLEARLY * self.linear else "linear"

    def __str__(self) -> str:
        return (
            f"at every other row, left out, a smooth head errs by {self.smooth:.3g}, linear interpolation by "
            f"{self.linear:.3g} and cubic by {self.shaped:.3g}"
        )


def interpolated(nodes: Sequence[np.ndarray], F: np.ndarray, places: Sequence[np.ndarray], way: str) -> np.ndarray:
    """Values (n_1, ..., n_d, m) on one grid carried to another inside of it, axis after axis."""
    from scipy.interpolate import CubicSpline, PchipInterpolator

    for axis, (own, at) in enumerate(zip(nodes, places, strict=True)):
        along = np.moveaxis(F, axis, 0)
        if len(own) == len(at) and np.array_equal(own, at):
            continue
        if way == "spline" and len(own) > 2:
            moved = CubicSpline(own, along, axis=0)(at)
        elif way == "shaped" and len(own) > 2:
            moved = PchipInterpolator(own, along, axis=0)(at)
        else:
            k = np.clip(np.searchsorted(own, at, side="right") - 1, 0, len(own) - 2)
            share = ((at - own[k]) / (own[k + 1] - own[k])).reshape(-1, *[1] * (along.ndim - 1))
            moved = (1 - share) * along[k] + share * along[k + 1]
        F = np.moveaxis(moved, 0, axis)
    return F


class Inside:
    """The cells of an axis t (n,): what smooth columns (n, q) are inside of them, and how far from it a head may be,
    which is as far as straight lines between the rows are."""

    def __init__(self, t: np.ndarray, columns: np.ndarray) -> None:
        self.t, self.columns = t, columns
        seen = left_out([t], columns, lambda own, rows, at: interpolated(own, rows, at, "spline"))
        self.way = "spline" if seen is not None and seen.best == "smooth" else "shaped"
        shares = np.arange(1, _LOOK) / _LOOK
        self.even = (t[:-1, None] + np.diff(t)[:, None] * shares).ravel()
        straight = interpolated([t], columns, [self.even], "linear")
        self.bend = float(np.abs(self.wanted(self.even) - straight).max())

    def places(self, keys: np.ndarray, biases: np.ndarray) -> np.ndarray:
        """Where a look is taken: evenly, and where two tokens weigh the same, for a bump can be as thin as it likes."""
        if len(keys) > _MOST_PAIRED:
            return self.even
        i, j = np.triu_indices(len(keys), 1)
        steeper = np.abs(keys[i] - keys[j]) > 1e-9
        i, j = i[steeper], j[steeper]
        met = (biases[i] - biases[j]) / (keys[j] - keys[i])
        return np.concatenate([self.even, met[(met > self.t[0]) & (met < self.t[-1])]])

    def wanted(self, places: np.ndarray) -> np.ndarray:
        return interpolated([self.t], self.columns, [places], self.way)

    def swing(self, places: np.ndarray, found: np.ndarray) -> float:
        """How much further than straight lines a head with these columns is there, at most; 0 if it is nowhere."""
        return max(0.0, float(np.abs(found - self.wanted(places)).max()) - self.bend)


def left_out(nodes: Nodes, F: np.ndarray, smooth: Predict) -> LeftOut | None:
    """What three ways make of the rows at every other node; None if no axis has enough of them."""
    kept = [np.arange(0, len(t), 2) if len(t) >= _FEWEST else np.arange(len(t)) for t in nodes]
    kept = [k if k[-1] == len(t) - 1 else np.append(k, len(t) - 1) for k, t in zip(kept, nodes, strict=True)]
    if all(len(k) == len(t) for k, t in zip(kept, nodes, strict=True)):
        return None
    coarse, rows = [t[k] for k, t in zip(kept, nodes, strict=True)], F[np.ix_(*kept, np.arange(F.shape[-1]))]
    asked = np.ones(F.shape[:-1], dtype=bool)
    asked[np.ix_(*kept)] = False
    spread = np.ptp(F.reshape(-1, F.shape[-1]), axis=0) + 1e-300

    def error(found: np.ndarray) -> float:
        return float((np.abs(found - F)[asked] / spread).max())

    return LeftOut(
        error(smooth(coarse, rows, nodes)),
        error(interpolated(coarse, rows, nodes, "linear")),
        error(interpolated(coarse, rows, nodes, "shaped")),
    )


def divided(nodes: Nodes, times: int) -> Nodes | None:
    """The nodes of a table with every cell divided; None if that is too many rows."""
    shares = np.arange(1, times) / times
    parts = [np.concatenate([t, *(t[:-1] + np.diff(t) * share for share in shares)]) for t in nodes]
    found = [np.unique(t) for t in parts]
    return found if np.prod([float(len(t)) for t in found]) <= _MOST_ROWS else None
