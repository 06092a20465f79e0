"""Columns of text and labels from .csv, .jsonl and .parquet files, row by row, so that a bar can show progress."""

from __future__ import annotations

import csv
import difflib
import json
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from softwright.errors import Faults, FileFormatError, InvalidInput

_LISTED = 5
_EVERY = 4096
Step = Callable[[float], None]  # called with the share of the file that is read


def read_rows(path: Path, wanted: Sequence[str], step: Step) -> list[list[Any]]:
    """The wanted columns, each a list with one entry a row."""
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        kinds = ", ".join(_READERS)
        raise InvalidInput(
            "reading rows", [f"files of kind {path.suffix or '(no suffix)'!r} are not read; use {kinds}"]
        )
    if not path.is_file():
        raise FileFormatError(f"{path}: no such file")
    columns: list[list[Any]] = [[] for _ in wanted]
    faults = Faults(f"reading {path.name}")
    unlisted = 0
    try:
        for place, row in reader(path, wanted, step):
            for name, column, cell in zip(wanted, columns, row, strict=True):
                if cell is None and len(faults.found) < _LISTED:
                    faults.add(f"{place}: no value in column {name!r}; mend or remove the line")
                elif cell is None:
                    unlisted += 1
                column.append(cell)
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(f"{path}: not a text file in UTF-8 ({error}); save it as one") from error
    if unlisted:
        faults.add(f"{unlisted} more cells are empty")
    faults.check(bool(columns[0]) or not wanted, "the file has no rows; add the data")
    faults.raise_if_any()
    step(1.0)
    return columns


def _csv(path: Path, wanted: Sequence[str], step: Step) -> Iterator[tuple[str, list[Any]]]:
    size = max(path.stat().st_size, 1)
    with path.open("rb") as raw:
        first = raw.readline().decode("utf-8-sig")
    delimiter = max(",;\t", key=first.count)
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file, delimiter=delimiter)
        header = [cell.strip() for cell in next(rows, [])]
        _check(path, wanted, header)
        places = [header.index(name) for name in wanted]
        read = 0
        for number, cells in enumerate(rows):
            if not cells:
                continue
            read += sum(map(len, cells)) + len(cells)
            if number % _EVERY == 0:
                step(min(read / size, 1.0))
            yield f"line {rows.line_num}", [cells[i] if i < len(cells) else None for i in places]


def _jsonl(path: Path, wanted: Sequence[str], step: Step) -> Iterator[tuple[str, list[Any]]]:
    size, read = max(path.stat().st_size, 1), 0
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            read += len(line)
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise FileFormatError(f"{path}: line {number} is not JSON ({error}); mend or remove it") from error
            if not isinstance(row, dict):
                raise FileFormatError(f"{path}: line {number} is not a JSON object; write one object a line")
            if number == 1:
                _check(path, wanted, list(row))
            if number % _EVERY == 1:
                step(min(read / size, 1.0))
            yield f"line {number}", [row.get(name) for name in wanted]


def _parquet(path: Path, wanted: Sequence[str], step: Step) -> Iterator[tuple[str, list[Any]]]:
    try:
        parquet, arrow = import_module("pyarrow.parquet"), import_module("pyarrow")
    except ImportError as error:
        fault = "reading .parquet needs pyarrow; install it with: pip install 'softwright[table]'"
        raise InvalidInput(f"reading {path.name}", [fault]) from error
    try:
        file = parquet.ParquetFile(path)
    except arrow.ArrowInvalid as error:
        raise FileFormatError(f"{path}: not a Parquet file ({error}); write it again") from error
    with file:
        _check(path, wanted, file.schema_arrow.names)
        total, number = max(file.metadata.num_rows, 1), 0
        for batch in file.iter_batches(columns=list(dict.fromkeys(wanted))):
            columns = [batch.column(name).to_pylist() for name in wanted]
            for row in zip(*columns, strict=True):
                number += 1
                yield f"row {number}", list(row)
            step(number / total)


def _check(path: Path, wanted: Sequence[str], present: Sequence[str]) -> None:
    faults = Faults(f"reading {path.name}")
    for name in wanted:
        if name not in present:
            close = difflib.get_close_matches(name, present, n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            faults.add(f"there is no column {name!r}{hint}; the columns are {', '.join(map(str, present))}")
    faults.raise_if_any()


_READERS: dict[str, Callable[[Path, Sequence[str], Step], Iterator[tuple[str, list[Any]]]]] = {
    ".csv": _csv,
    ".jsonl": _jsonl,
    ".parquet": _parquet,
}
