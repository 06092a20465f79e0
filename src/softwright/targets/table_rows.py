"""Rows of a table that cannot stay as they are, and what is done about them: one policy each, and a count of it.

    missing      a coordinate or a value is not there       "drop" leaves the row out;  "refuse" names it
    repeated     the same row again                         always kept once
    contradicting   the same point with other values        "mean" takes the mean of all its rows;  "first" keeps the
                                                            first;  "refuse" names them

`RowPolicy.applied` gives the rows in the order of the points, how many rows stand behind each, and notes that say in
words what was done. Rows that contradict each other also say how far measurements spread, which a fit to noisy data
asks for: with r_p rows at the point p, the variance within points is sum (y - mean_p)^2 / sum (r_p - 1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from softwright.domain import Box
from softwright.errors import Faults
from softwright.targets.points import show_point

MISSING, REPEATED = ("drop", "refuse"), ("mean", "first", "refuse")
_LISTED = 5


@dataclass(frozen=True)
class Rows:
    """Distinct points (n, d) in lexicographic order, values (n, m), and what was done to get there."""

    points: np.ndarray
    values: np.ndarray
    counts: np.ndarray  # (n,) rows behind each point
    first: np.ndarray  # (n,) where each point first stood
    spread: np.ndarray | None  # (m,) standard deviation of rows at the same point; None if there are none
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class RowPolicy:
    """What is done about rows with a missing number, and about rows that contradict an earlier one."""

    missing: str = "drop"
    repeated: str = "mean"
    place: Callable[[int], str] = "row {}".format  # where a row stands, for faults
    columns: tuple[tuple[str, ...], tuple[str, ...]] | None = None  # what points and values are called, if they are

    def faults(self) -> list[str]:
        found = []
        if self.missing not in MISSING:
            found.append(f"missing={self.missing!r} is not known; use {' or '.join(map(repr, MISSING))}")
        if self.repeated not in REPEATED:
            found.append(f"repeated={self.repeated!r} is not known; use {', '.join(map(repr, REPEATED))}")
        return found

    def check_cells(self, points: np.ndarray, values: np.ndarray, faults: Faults) -> None:
        """Record the cells that no policy mends."""
        remedy = "remove or mend these rows"
        for k, array in enumerate((points, values)):
            self._check(k, array, np.isinf(array), remedy, faults)
            if self.missing == "refuse":
                self._check(k, array, np.isnan(array), f"{remedy}, or give missing='drop'", faults)

    def _check(self, which: int, array: np.ndarray, bad: np.ndarray, remedy: str, faults: Faults) -> None:
        """Name the cells of points (0) or values (1) that are bad."""
        cells = np.argwhere(bad).tolist()
        if not cells:
            return
        names, what = (None, ("points: ", "values: ")[which]) if self.columns is None else (self.columns[which], "")
        listed = ", ".join(
            f"{self.place(row)} column {column if names is None else names[column]} is {array[row, column]}"
            for row, column in cells[:_LISTED]
        )
        more = f" and {len(cells) - _LISTED} more" if len(cells) > _LISTED else ""
        faults.add(f"{what}{listed}{more}; {remedy}")

    def applied(self, points: np.ndarray, values: np.ndarray, names: tuple[str, ...], faults: Faults) -> Rows:
        """The rows that stay; faults are recorded."""
        notes: list[str] = []
        total = len(points)
        gone = np.isnan(points).any(axis=1) | np.isnan(values).any(axis=1)
        if gone.any():
            notes.append(f"{int(gone.sum())} of {total} rows left out: a number is missing")
        rows = np.flatnonzero(~gone)
        if not len(rows) and total:
            faults.add(f"a number is missing in each of the {total} rows; mend the table")
        # -0.0 becomes 0.0: they are the same place
        points, values = points[rows] + 0.0, values[rows]
        distinct, first, group, counts = np.unique(
            points, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        group = group.reshape(-1)
        differs = np.any(values != values[first[group]], axis=1)
        means, spread = values[first], None
        if len(distinct) < len(points):
            contradicting = np.unique(group[differs])
            same = len(points) - len(distinct) - int(differs.sum())
            if same:
                notes.append(f"{same} row(s) repeat an earlier row")
            if self.repeated == "refuse":
                _name_contradictions(self.place, rows, points, first[group], differs, names, faults)
            elif len(contradicting):
                done = "the mean of their rows is taken" if self.repeated == "mean" else "their first row is kept"
                notes.append(f"{len(contradicting)} point(s) have several values: {done}")
            if self.repeated == "mean":
                # Around the first row of each point, so that rows that agree keep their value to the last bit.
                offsets = np.zeros_like(means)
                np.add.at(offsets, group, values - means[group])
                means = means + offsets / counts[:, None]
            middle = np.zeros_like(means)
            np.add.at(middle, group, values)
            middle /= counts[:, None]
            within = ((values - middle[group]) ** 2).sum(axis=0)
            spread = np.sqrt(within / (len(points) - len(distinct)))
        return Rows(distinct, means, counts, rows[first] if len(rows) else first, spread, tuple(notes))


def _name_contradictions(
    place: Callable[[int], str],
    rows: np.ndarray,
    points: np.ndarray,
    first: np.ndarray,
    differs: np.ndarray,
    names: tuple[str, ...],
    faults: Faults,
) -> None:
    found = np.flatnonzero(differs)
    for row in found[:_LISTED].tolist():
        pair = f"{place(int(rows[first[row]]))} and {place(int(rows[row]))}"
        both = f"{pair} give different values at {show_point(names, points[row])}"
        faults.add(f"{both}; keep one of them, or give repeated='mean'")
    if len(found) > _LISTED:
        faults.add(f"{len(found) - _LISTED} more rows contradict an earlier row; remove the contradictions")


def check_spacing(axes: Sequence[np.ndarray], box: Box) -> None:
    """Coordinates of a grid must stay apart in the box's unit frame, in which everything is built."""
    faults = Faults("Table")
    for name, axis, centre, half in zip(box.names, axes, box.center, box.halfwidth, strict=bool(axes)):
        same = np.flatnonzero(np.diff((axis - centre) / half) <= 0).tolist()
        if same:
            low, high = axis[same[0] : same[0] + 2].tolist()
            pair = f"{name}: {low!r} and {high!r} are the same to float64 beside a range of {2 * half:g}"
            faults.add(f"{pair}, one of {len(same)} such pairs; give the logarithm of {name}, or leave rows out")
    faults.raise_if_any()
