"""Columns of text and labels from .csv, .jsonl and .parquet files, row by row, so that a bar can show progress."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from softwright.errors import FileFormatError, InvalidInput
from softwright.fileformat import reading
from softwright.targets.table_files import CellFaults, column_places, open_csv, open_parquet

_EVERY = 4096
_TEXT = 32  # bytes that even an empty text takes in memory, and a list of it
Step = Callable[[float], None]  # called with the share of the file that is read


def read_rows(path: Path, wanted: Sequence[str], step: Step) -> list[list[Any]]:
    """The wanted columns, each a list with one entry per row."""
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        kinds = ", ".join(_READERS)
        raise InvalidInput(
            "reading rows", [f"files of kind {path.suffix or '(no suffix)'!r} are not read; use {kinds}"]
        )
    if not path.is_file():
        raise FileFormatError(f"{path}: no such file")
    columns: list[list[Any]] = [[] for _ in wanted]
    faults = CellFaults(f"reading {path.name}")
    for place, row in reader(path, wanted, step):
        for name, column, cell in zip(wanted, columns, row, strict=True):
            if cell is None:
                faults.add_cell(f"{place}: no value in column {name!r}; mend or remove the line")
            column.append(cell)
    faults.close("empty")
    faults.check(bool(columns[0]) or not wanted, "the file has no rows; add the data")
    faults.raise_if_any()
    step(1.0)
    return columns


def _csv(path: Path, wanted: Sequence[str], step: Step) -> Iterator[tuple[str, list[Any]]]:
    size, read = max(path.stat().st_size, 1), 0
    with open_csv(path) as rows:
        places = column_places(f"reading {path.name}", wanted, rows.header, rows.header_line)
        for number, (line, cells) in enumerate(rows):
            read += sum(map(len, cells)) + len(cells)
            if number % _EVERY == 0:
                step(min(read / size, 1.0))
            yield f"line {line}", [cells[i] if i < len(cells) else None for i in places]


def _jsonl(path: Path, wanted: Sequence[str], step: Step) -> Iterator[tuple[str, list[Any]]]:
    size, read = max(path.stat().st_size, 1), 0
    with reading(path, "a text file in UTF-8", "save it as one"), path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            read += len(line)
            if not line.strip():
                continue
            with reading(f"{path}: line {number}", "JSON", "mend or remove it"):
                row = json.loads(line)
            if not isinstance(row, dict):
                raise FileFormatError(f"{path}: line {number} is not a JSON object; write one object per line")
            if number == 1:
                column_places(f"reading {path.name}", wanted, list(row))
            if number % _EVERY == 1:
                step(min(read / size, 1.0))
            yield f"line {number}", [row.get(name) for name in wanted]


def _parquet(path: Path, wanted: Sequence[str], step: Step) -> Iterator[tuple[str, list[Any]]]:
    with open_parquet(path, f"reading {path.name}", wanted, cell=_TEXT) as file:
        total, number = max(file.metadata.num_rows, 1), 0
        for batch in file.iter_batches(columns=list(dict.fromkeys(wanted))):
            columns = [batch.column(name).to_pylist() for name in wanted]
            for row in zip(*columns, strict=True):
                number += 1
                yield f"row {number}", list(row)
            step(number / total)


_READERS: dict[str, Callable[[Path, Sequence[str], Step], Iterator[tuple[str, list[Any]]]]] = {
    ".csv": _csv,
    ".jsonl": _jsonl,
    ".parquet": _parquet,
}
