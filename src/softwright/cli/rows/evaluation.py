"""What evaluating the rows of a file has in common, whatever its format: the network, and what is said of points."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.cli.screen import Say
from softwright.errors import InvalidInput

if TYPE_CHECKING:
    from softwright.result.built import Built


class RowEvaluation:
    """The rows of `source` with the network's values behind them; `rows` and `outside` count while they are drawn."""

    def __init__(self, built: Built, source: Path, strict: bool, say: Say) -> None:
        self._built, self._source, self._strict, self._say = built, source, strict, say
        self._subject = f"evaluate {source.name}"
        self.rows = self.outside = 0

    def _values(self, points: np.ndarray[Any, Any], where: Callable[[int], str]) -> np.ndarray[Any, Any]:
        """Values (n, m) at the points (n, d) of a batch; `where` tells the place of its k-th row in the file."""
        box = self._built.network.box
        inside = box.contains(points)
        self.outside += int((~inside).sum())
        if self._strict and self.outside:
            place = where(int(np.argmin(inside)))
            fault = f"{place} lies outside the box {box}; remove it or leave --strict out"
            raise InvalidInput(self._subject, [fault])
        return self._built(points)

    def _done(self, rows: int) -> None:
        """So many more rows are written."""
        self.rows += rows
        self._say(f"{self.rows} rows")


def result_names(header: list[str], outputs: int) -> list[str]:
    """value, or value1, value2, ...; underscores are added until no column of the file has that name."""
    names = ["value"] if outputs == 1 else [f"value{i}" for i in range(1, outputs + 1)]
    while any(name in header for name in names):
        names = [name + "_" for name in names]
    return names
