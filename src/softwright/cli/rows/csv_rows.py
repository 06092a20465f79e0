"""Rows of a CSV file through a network, in batches: all columns are kept and the results are appended."""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.cli.screen import Say, printable
from softwright.errors import InvalidInput
from softwright.targets.columns import number_in
from softwright.targets.table_files import CellFaults, CsvRows, column_places, open_csv, write_csv

if TYPE_CHECKING:
    from softwright.result.built import Built

_BATCH = 20_000  # rows in memory at a time


class Evaluation:
    """The rows of `source` with the network's values behind them; `rows` and `outside` count while they are drawn."""

    def __init__(self, built: Built, source: Path, strict: bool, say: Say) -> None:
        self._built, self._source, self._strict, self._say = built, source, strict, say
        self._subject = f"evaluate {source.name}"
        self.rows = self.outside = 0

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
        missing = [name for name in network.names if name not in rows.header]
        if missing:
            fault = f"no column {', '.join(missing)}; the first line must name {', '.join(network.names)}"
            raise InvalidInput(self._subject, [fault])
        places = column_places(self._subject, network.names, rows.header, rows.header_line)
        yield [*rows.header, *result_names(rows.header, network.outputs)]
        numbered = iter(rows)
        while batch := list(islice(numbered, _BATCH)):
            points = self._points(batch, places, network.names, len(rows.header))
            inside = network.box.contains(points)
            self.outside += int((~inside).sum())
            if self._strict and self.outside:
                line = next(number for (number, _), good in zip(batch, inside, strict=True) if not good)
                fault = f"line {line} lies outside the box {network.box}; remove it or leave --strict out"
                raise InvalidInput(self._subject, [fault])
            for (_, cells), values in zip(batch, self._built(points).tolist(), strict=True):
                padded = (cells + [""] * len(rows.header))[: len(rows.header)]
                yield [*padded, *[repr(value) for value in values]]
            self.rows += len(batch)
            self._say(f"{self.rows} rows")

    def _points(
        self, batch: list[tuple[int, list[str]]], places: list[int], names: tuple[str, ...], width: int
    ) -> np.ndarray[Any, Any]:
        """The points (n, d) of a batch; all bad cells are reported together."""
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


def result_names(header: list[str], outputs: int) -> list[str]:
    """value, or value1, value2, ...; underscores are added until no column of the file has that name."""
    names = ["value"] if outputs == 1 else [f"value{i}" for i in range(1, outputs + 1)]
    while any(name in header for name in names):
        names = [f"{name}_" for name in names]
    return names
