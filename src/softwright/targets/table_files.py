"""Tables in files. One reader and one writer of CSV; columns of numbers from .csv, .npz and .parquet files.

CSV: the first line names the columns; commas, semicolons and tabs are told apart by it. Text is UTF-8, with or without
a byte order mark. Every fault names the file and its place; damaged and hostile files end in our errors, and what they
claim is weighed before memory is taken for it.
"""

from __future__ import annotations

import csv
import difflib
import io
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any, BinaryIO, TextIO

import numpy as np

from softwright.errors import Faults, FileFormatError, InvalidInput
from softwright.fileformat import reading, write_atomically

LISTED = 5  # bad cells that are named one by one
_MOST_BYTES = 1 << 28  # in memory, where the file itself is small


class CsvRows:
    """An open CSV file: its header, and then its rows with their line numbers; empty lines are passed over."""

    def __init__(self, file: TextIO) -> None:
        first = file.readline()
        self.delimiter = max(",;\t", key=first.count)
        file.seek(0)
        self._reader = csv.reader(file, delimiter=self.delimiter)
        self.header = [cell.strip() for cell in next(self._reader, [])]

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        return ((self._reader.line_num, cells) for cells in self._reader if cells)


@contextmanager
def open_csv(path: Path) -> Iterator[CsvRows]:
    """The file for reading; what is wrong with it, then or later, is a `FileFormatError`."""
    if not path.is_file():
        raise FileFormatError(f"{path}: no such file")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            yield CsvRows(file)
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(f"{path} is not a CSV file in UTF-8 ({error}); save it as one") from error


def write_csv(path: str | Path, rows: Iterable[Sequence[object]], delimiter: str = ",") -> None:
    """Write rows as they come; the file appears under its name only when all are written."""

    def write(stream: BinaryIO) -> None:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        try:
            csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
        finally:
            text.detach()  # which flushes, and leaves the stream to its owner

    write_atomically(path, write)


def column_places(subject: str, wanted: Sequence[str], present: Sequence[str]) -> list[int]:
    """Where each wanted column stands among those present; all faults together."""
    faults = Faults(subject)
    for name in wanted:
        if name not in present:
            close = difflib.get_close_matches(name, present, n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            faults.add(f"there is no column {name!r}{hint}; the columns are {', '.join(map(str, present))}")
        elif list(present).count(name) > 1:
            faults.add(f"there are {list(present).count(name)} columns {name!r}; rename all but one")
    faults.raise_if_any()
    return [list(present).index(name) for name in wanted]


def number_in(text: str) -> float | None:
    """The number in a cell. Python also reads 1_000 as a number, which no other reader of CSV files does."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


class CellFaults(Faults):
    """Faults of single cells: the first few are named, the rest are counted."""

    def __init__(self, subject: str) -> None:
        super().__init__(subject)
        self._unlisted = 0

    def add_cell(self, fault: str) -> None:
        if len(self.found) < LISTED:
            self.add(fault)
        else:
            self._unlisted += 1

    def close(self, what: str) -> None:
        """Name the number of those not listed; `what` they are in words."""
        if self._unlisted:
            self.add(f"{self._unlisted} more cells are {what}")


# Columns of numbers ----------------------------------------------------------------------------------------------


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
        fault = f"the columns have different lengths {lengths}; give one value per row in each"
        raise InvalidInput(subject, [fault])
    return columns


def _read_csv(path: Path, wanted: Sequence[str]) -> dict[str, np.ndarray]:
    faults = CellFaults(f"Table.load {path.name}")
    numbers: list[list[float]] = []
    with open_csv(path) as rows:
        if not any(rows.header):
            raise InvalidInput(faults.subject, ["the file is empty; its first line must name the columns"])
        places = column_places(faults.subject, wanted, rows.header)
        for line, cells in rows:
            row = [number_in(cells[place] if place < len(cells) else "") for place in places]
            for name, place, number in zip(wanted, places, row, strict=True):
                if number is None:
                    written = repr(cells[place]) if place < len(cells) else "missing"
                    faults.add_cell(f"line {line}, column {name}: {written} is not a number; mend or remove the line")
            numbers.append([0.0 if number is None else number for number in row])
    faults.close("not numbers")
    faults.check(bool(numbers), "the file has no rows below its header; add the data")
    faults.raise_if_any()
    array = np.array(numbers, dtype=np.float64)
    return {name: array[:, i] for i, name in enumerate(wanted)}


def _read_npz(path: Path, wanted: Sequence[str]) -> dict[str, np.ndarray]:
    """Arrays of numbers. Shape and type are read before the array is, so that a small file cannot claim much memory.

    A pickle in the file could run any code: arrays of objects are refused by their type, nothing is ever unpickled.
    """
    faults = Faults(f"Table.load {path.name}")
    columns: dict[str, np.ndarray] = {}
    with reading(path, "an .npz file of plain arrays", "write it with np.savez"), zipfile.ZipFile(path) as archive:
        members = [name.removesuffix(".npy") for name in archive.namelist()]
        places = column_places(faults.subject, wanted, members)
        for name, place in zip(wanted, places, strict=True):
            with archive.open(archive.infolist()[place]) as stream:
                shape, dtype = _npy_header(stream)
                fault = f"array {name!r} has shape {shape}; save each column as a 1-D array"
                good = faults.check(len(shape) == 1, fault)
                fault = f"array {name!r} has dtype {dtype}; save real numbers, such as float64"
                if not faults.check(dtype.kind in "fiub", fault) or not good:
                    continue
                _check_size(path, 8 * shape[0] * len(wanted))
                data = stream.read(shape[0] * dtype.itemsize)
                if len(data) != shape[0] * dtype.itemsize or stream.read(1):
                    raise ValueError(f"the array {name!r} does not hold the {shape[0]} numbers that it claims")
                columns[name] = np.frombuffer(data, dtype).astype(np.float64)
    faults.raise_if_any()
    return columns


def _npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array, from the head of its .npy file."""
    headers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, _, dtype = headers[np.lib.format.read_magic(stream)](stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never read")
    if min(shape, default=0) < 0:
        raise ValueError(f"an array claims the shape {shape}")
    return shape, dtype


def _check_size(path: Path, size: int) -> None:
    """Refuse what would take more memory than any honest file of this size: compressed zeros grow a thousandfold."""
    own = path.stat().st_size
    most = max(_MOST_BYTES, 8 * own)
    if size > most:
        claim = f"claims {size / 2**20:.0f} MB of data in a file of {own / 2**20:.1f} MB"
        raise FileFormatError(f"{path}: {claim}; at most {most / 2**20:.0f} MB are read: split it, or save it as .csv")


def _read_parquet(path: Path, wanted: Sequence[str]) -> dict[str, np.ndarray]:
    faults = Faults(f"Table.load {path.name}")
    parts: dict[str, list[np.ndarray]] = {name: [] for name in wanted}
    with open_parquet(path, faults.subject, wanted) as file:
        arrow = import_module("pyarrow")
        for name in wanted:
            kind = file.schema_arrow.field(name).type
            is_number = arrow.types.is_floating(kind) or arrow.types.is_integer(kind) or arrow.types.is_boolean(kind)
            faults.check(is_number, f"column {name!r} has the type {kind}; store real numbers")
        faults.raise_if_any()
        for batch in file.iter_batches(columns=list(wanted)):
            for name in wanted:
                column = batch.column(name).to_numpy(zero_copy_only=False)  # a null becomes nan and is reported later
                parts[name].append(np.asarray(column, dtype=np.float64))
    return {name: np.concatenate([np.zeros(0), *column]) for name, column in parts.items()}


@contextmanager
def open_parquet(path: Path, subject: str, wanted: Sequence[str], cell: int = 8) -> Iterator[Any]:
    """A `pyarrow.parquet.ParquetFile` with the wanted columns; what is wrong with it, then or later, is our error.

    `cell` is the number of bytes that a value takes in memory: a repeated value takes next to none in the file.
    """
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError as error:
        fault = "reading .parquet needs pyarrow; install it with: pip install 'softwright[table]'"
        raise InvalidInput(subject, [fault]) from error
    with reading(path, "a Parquet file", "write it again"), parquet.ParquetFile(path) as file:
        column_places(subject, wanted, file.schema_arrow.names)
        groups = [file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups)]
        _check_size(path, max(file.metadata.num_rows * len(wanted) * cell, *groups, 0))
        yield file


_READERS: dict[str, Callable[[Path, Sequence[str]], dict[str, np.ndarray]]] = {
    ".csv": _read_csv,
    ".npz": _read_npz,
    ".parquet": _read_parquet,
}
