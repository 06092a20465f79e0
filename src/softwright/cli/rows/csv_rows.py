"""Rows of a CSV file through a network, in batches: all columns are kept and the results are appended."""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from softwright.cli.rows.evaluation import RowEvaluation, result_names
from softwright.cli.screen import printable
from softwright.errors import InvalidInput
from softwright.targets.columns import as_variables, number_in
from softwright.targets.table_files import CellFaults, CsvRows, column_places, open_csv, write_csv

_BATCH = 20_000  # rows in memory at a time


class Evaluation(RowEvaluation):
    """The same of a CSV file."""

    def write(self, destination: Path | None) -> None:
        """To a file, or to stdout if None; a bad row leaves nothing behind in either."""
        with open_csv(self._source) as rows:
            if destination is not None:
                write_csv(destination, self._results(rows), rows.delimiter)
                return
            with tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as spool:
                csv.writer(spool, delimiter=rows.delimiter, lineterminator="\n").writerows(self._results(rows))
                spool.seek(0)
                shown = sys.stdout.isatty()  # data go to a pipe as they are, but a terminal would obey them
                for line in spool:
                    sys.stdout.write(printable(line.rstrip("\n")) + "\n" if shown else line)

    def _results(self, rows: CsvRows) -> Iterator[list[str]]:
        network = self._built.network
        header = as_variables(rows.header, network.names)
        missing = [name for name in network.names if name not in header]
        if missing:
            fault = f"no column {', '.join(missing)}; the first line must name {', '.join(network.names)}"
            raise InvalidInput(self._subject, [fault])
        places = column_places(self._subject, network.names, header, rows.header_line)
        yield [*rows.header, *result_names(rows.header, network.outputs)]
        numbered = iter(rows)
        while batch := list(islice(numbered, _BATCH)):
            points = self._points(batch, places, network.names, len(rows.header))
            found = self._values(points, lambda k, batch=batch: f"line {batch[k][0]}")
            for (_, cells), values in zip(batch, found.tolist(), strict=True):
                padded = (cells + [""] * len(rows.header))[: len(rows.header)]
                yield [*padded, *[repr(value) for value in values]]
            self._done(len(batch))

    def _points(
        self, batch: list[tuple[int, list[str]]], places: list[int], names: tuple[str, ...], width: int
    ) -> np.ndarray[Any, Any]:
        """The points (n, d) of a batch; all bad cells are reported together."""
        points = _plain_numbers(batch, places, width)
        if points is not None:
            return points
        faults = CellFaults(self._subject)
        points = np.zeros((len(batch), len(places)))
        for row, (line, cells) in enumerate(batch):
            if any(cells[width:]):
                faults.add_cell(f"line {line}: {len(cells)} cells under {width} names; mend or remove the line")
            for column, place in enumerate(places):
                text = cells[place] if place < len(cells) else ""
                number = number_in(text)
                if number is None or not np.isfinite(number):
                    where = f"line {line}, column {names[column]}"
                    faults.add_cell(f"{where}: {text!r} is not a finite number; mend or remove the line")
                else:
                    points[row, column] = number
        faults.close("not finite numbers")
        faults.raise_if_any()
        return points


def _plain_numbers(batch: list[tuple[int, list[str]]], places: list[int], width: int) -> np.ndarray[Any, Any] | None:
    """The points (n, d) of a batch, a column at a time; None if it has a fault: the reader by cells then names it."""
    if any(len(cells) != width for _, cells in batch):
        return None
    columns = [[cells[place] for _, cells in batch] for place in places]
    if any("_" in "".join(column) for column in columns):  # see `number_in`
        return None
    try:
        points = np.array([list(map(float, column)) for column in columns]).T
    except ValueError:
        return None
    return np.ascontiguousarray(points) if np.isfinite(points).all() else None
