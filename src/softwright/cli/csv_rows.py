"""Rows of a CSV file through a network, in batches: all columns are kept and the results are appended."""

from __future__ import annotations

import csv
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from softwright.errors import Faults, FileFormatError, InvalidInput

if TYPE_CHECKING:
    import numpy as np

    from softwright.result.built import Built

_BATCH = 20_000  # rows in memory at a time
_LISTED = 5


def evaluate_csv(
    built: Built, source: Path, destination: Path | None, strict: bool, say: Callable[[str], None]
) -> tuple[int, int]:
    """Write the rows with their results to `destination` (stdout if None); returns (rows, rows outside the box).

    The destination appears only when all rows are done; a bad row leaves nothing behind.
    """
    if not source.is_file():
        raise FileFormatError(f"{source}: no such file")
    if destination is not None and not destination.parent.is_dir():
        raise FileFormatError(f"{destination}: the folder {destination.parent} does not exist; create it first")
    folder = None if destination is None else destination.parent
    handle, temporary = tempfile.mkstemp(prefix="softwright", suffix=".part", dir=folder)
    try:
        with os.fdopen(handle, "w+", encoding="utf-8", newline="") as sink:
            counts = _copy_with_results(built, source, sink, strict, say)
            if destination is None:
                sink.seek(0)
                for line in sink:
                    sys.stdout.write(line)
        if destination is None:
            Path(temporary).unlink()
        else:
            Path(temporary).chmod(0o644)
            Path(temporary).replace(destination)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return counts


def _copy_with_results(
    built: Built, source: Path, sink: IO[str], strict: bool, say: Callable[[str], None]
) -> tuple[int, int]:
    network = built.network
    try:
        with source.open(newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            delimiter = max(",;\t", key=first.count)
            header = [cell.strip() for cell in next(csv.reader([first], delimiter=delimiter), [])]
            missing = [name for name in network.names if name not in header]
            if missing:
                fault = f"no column {', '.join(missing)}; the first line must name {', '.join(network.names)}"
                raise InvalidInput(f"evaluate {source.name}", [fault])
            places = [header.index(name) for name in network.names]
            writer = csv.writer(sink, delimiter=delimiter, lineterminator="\n")
            writer.writerow([*header, *_result_names(header, network.outputs)])
            rows = outside = 0
            for batch in _batches(csv.reader(file, delimiter=delimiter)):
                points = _points(batch, places, network.names, source)
                inside = network.box.contains(points)
                outside += int((~inside).sum())
                if strict and outside:
                    line = next(number for (number, _), good in zip(batch, inside, strict=True) if not good)
                    fault = f"line {line} lies outside the box {network.box}; remove it or leave --strict out"
                    raise InvalidInput(f"evaluate {source.name}", [fault])
                for (_, cells), values in zip(batch, built(points).tolist(), strict=True):
                    padding = [""] * (len(header) - len(cells))
                    writer.writerow([*cells, *padding, *[repr(value) for value in values]])
                rows += len(batch)
                say(f"{rows} rows")
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(f"{source} is not a CSV file in UTF-8 ({error}); save it as one") from error
    return rows, outside


def _batches(reader: Any) -> Iterator[list[tuple[int, list[str]]]]:
    """Batches of (line in the file, cells); the header is line 1, empty lines are passed over."""
    numbered = ((reader.line_num + 1, cells) for cells in reader if cells)
    while batch := list(islice(numbered, _BATCH)):
        yield batch


def _points(batch: list[tuple[int, list[str]]], places: list[int], names: tuple[str, ...], source: Path) -> np.ndarray:
    import numpy as np

    faults = Faults(f"evaluate {source.name}")
    points = np.zeros((len(batch), len(places)))
    unlisted = 0
    for row, (line, cells) in enumerate(batch):
        for column, place in enumerate(places):
            text = cells[place] if place < len(cells) else ""
            try:
                points[row, column] = float(text)
                good = bool(np.isfinite(points[row, column]))
            except ValueError:
                good = False
            if not good and len(faults.found) < _LISTED:
                where = f"line {line}, column {names[column]}"
                faults.add(f"{where}: {text!r} is not a finite number; mend or remove the line")
            elif not good:
                unlisted += 1
    if unlisted:
        faults.add(f"{unlisted} more cells are not finite numbers")
    faults.raise_if_any()
    return points


def _result_names(header: list[str], outputs: int) -> list[str]:
    """value, or value1, value2, ...; underscores are added until no column of the file has that name."""
    names = ["value"] if outputs == 1 else [f"value{i}" for i in range(1, outputs + 1)]
    while any(name in header for name in names):
        names = [f"{name}_" for name in names]
    return names
