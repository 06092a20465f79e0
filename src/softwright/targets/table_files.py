"""Named columns of numbers from .csv, .npz and .parquet files, with every bad cell reported at its place."""

from __future__ import annotations

import csv
import difflib
import zipfile
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

import numpy as np

from softwright.errors import Faults, FileFormatError, InvalidInput

_LISTED = 5


def read_columns(path: Path, wanted: Sequence[str]) -> dict[str, np.ndarray]:
    """The wanted columns as float64 arrays (n,) of one length."""
    subject = f"Table.load {path.name}"
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        fault = f"files of kind {path.suffix or '(no suffix)'!r} are not read; use {', '.join(_READERS)}"
        raise InvalidInput(subject, [fault])
    if not path.is_file():
        raise InvalidInput(subject, [f"there is no file {path}; check the path"])
    columns = reader(path, wanted)
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        fault = f"the columns have different lengths {lengths}; give one value a row in each"
        raise InvalidInput(subject, [fault])
    return columns


def _check_columns(path: Path, wanted: Sequence[str], present: Sequence[str]) -> None:
    faults = Faults(f"Table.load {path.name}")
    for name in wanted:
        if name not in present:
            close = difflib.get_close_matches(name, present, n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            faults.add(f"there is no column {name!r}{hint}; the columns are {', '.join(map(str, present))}")
    faults.raise_if_any()


def _read_csv(path: Path, wanted: Sequence[str]) -> dict[str, np.ndarray]:
    faults = Faults(f"Table.load {path.name}")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header_line = file.readline()
            delimiter = max(",;\t", key=header_line.count)
            header = [cell.strip() for cell in next(csv.reader([header_line], delimiter=delimiter), [])]
            if not any(header):
                raise InvalidInput(faults.subject, ["the file is empty; its first line must name the columns"])
            _check_columns(path, wanted, header)
            places = [header.index(name) for name in wanted]
            rows: list[list[float]] = []
            unlisted = 0
            reader = csv.reader(file, delimiter=delimiter)
            for cells in reader:
                if not cells:
                    continue
                row = [_cell(cells[place] if place < len(cells) else "") for place in places]
                for name, place, number in zip(wanted, places, row, strict=True):
                    if number is None and len(faults.found) < _LISTED:
                        written = repr(cells[place]) if place < len(cells) else "missing"
                        line = reader.line_num + 1
                        faults.add(f"line {line}, column {name}: {written} is not a number; mend or remove the line")
                    elif number is None:
                        unlisted += 1
                rows.append([0.0 if number is None else number for number in row])
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(f"{path} is not a CSV file in UTF-8 ({error}); save it as one") from error
    if unlisted:
        faults.add(f"{unlisted} more cells are not numbers")
    faults.check(bool(rows), "the file has no rows below its header; add the data")
    faults.raise_if_any()
    array = np.array(rows, dtype=np.float64)
    return {name: array[:, i] for i, name in enumerate(wanted)}


def _cell(text: str) -> float | None:
    """The number in a cell. Python also reads 1_000 as a number, which no other reader of CSV files does."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def _read_npz(path: Path, wanted: Sequence[str]) -> dict[str, np.ndarray]:
    faults = Faults(f"Table.load {path.name}")
    columns: dict[str, np.ndarray] = {}
    try:
        # allow_pickle stays off: a pickle in the file could run any code.
        with np.load(path, allow_pickle=False) as archive:
            _check_columns(path, wanted, archive.files)
            for name in wanted:
                columns[name] = archive[name]
    except InvalidInput:
        raise
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise FileFormatError(
            f"{path} is not an .npz file of plain arrays ({error}); write it with np.savez"
        ) from error
    for name, column in columns.items():
        faults.check(column.ndim == 1, f"array {name!r} has shape {column.shape}; save each column as a 1-D array")
        faults.check(
            column.dtype.kind in "fiub", f"array {name!r} has dtype {column.dtype}; save real numbers, such as float64"
        )
    faults.raise_if_any()
    return {name: column.astype(np.float64) for name, column in columns.items()}


def _read_parquet(path: Path, wanted: Sequence[str]) -> dict[str, np.ndarray]:
    faults = Faults(f"Table.load {path.name}")
    try:
        parquet = import_module("pyarrow.parquet")
        arrow = import_module("pyarrow")
    except ImportError as error:
        fault = "reading .parquet needs pyarrow; install it with: pip install 'softwright[table]'"
        raise InvalidInput(faults.subject, [fault]) from error
    try:
        _check_columns(path, wanted, parquet.read_schema(path).names)
        table = parquet.read_table(path, columns=list(wanted))
    except arrow.ArrowInvalid as error:
        raise FileFormatError(f"{path} is not a Parquet file ({error}); write it again") from error
    columns: dict[str, np.ndarray] = {}
    for name in wanted:
        column = table.column(name)
        kind = column.type
        is_number = arrow.types.is_floating(kind) or arrow.types.is_integer(kind) or arrow.types.is_boolean(kind)
        if faults.check(is_number, f"column {name!r} has the type {kind}; store real numbers"):
            columns[name] = np.asarray(column.to_numpy(), dtype=np.float64)  # a null becomes nan and is reported later
    faults.raise_if_any()
    return columns


_READERS: dict[str, Callable[[Path, Sequence[str]], dict[str, np.ndarray]]] = {
    ".csv": _read_csv,
    ".npz": _read_npz,
    ".parquet": _read_parquet,
}
