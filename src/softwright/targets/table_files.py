"""Tables in files. One reader and one writer of CSV; columns from .csv, .npz and .parquet files.

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
from softwright.targets.columns import MISSING_TEXTS, Column, column_of, column_of_texts

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
        self.header_line = f"line {max(self._reader.line_num, 1)}"

    @property
    def line(self) -> int:
        """The last line that was read."""
        return self._reader.line_num

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        return ((self._reader.line_num, cells) for cells in self._reader if cells)


@contextmanager
def open_csv(path: Path) -> Iterator[CsvRows]:
    """The file for reading; what is wrong with it, then or later, is a `FileFormatError`."""
    if not path.is_file():
        raise FileFormatError(f"{path}: no such file")
    rows = None
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = CsvRows(file)
            yield rows
    except UnicodeDecodeError as error:
        fault = f"{_undecodable(path)}, which is no UTF-8 ({error.reason}); save the file as UTF-8"
        raise FileFormatError(f"{path} is not a CSV file in UTF-8: {fault}") from error
    except csv.Error as error:
        where = f"line {rows.line if rows is not None else 1}"
        raise FileFormatError(f"{path} is not a CSV file: {where}: {error}; mend that line") from error


def _undecodable(path: Path) -> str:
    """The first line with bytes that are no UTF-8, its column and the byte."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                column = len(line[: error.start].decode("utf-8")) + 1
                return f"line {number}, character {column} is the byte 0x{line[error.start]:02x}"
    return "the end of its last line breaks off"


def write_csv(path: str | Path, rows: Iterable[Sequence[object]], delimiter: str = ",") -> None:
    """Write rows as they come; the file appears under its name only when all are written."""

    def write(stream: BinaryIO) -> None:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        try:
            csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
        finally:
            text.detach()  # which flushes, and leaves the stream to its owner

    write_atomically(path, write)


def column_places(subject: str, wanted: Sequence[str], present: Sequence[str], line: str = "") -> list[int]:
    """Where each wanted column stands among those present; all faults together, with the line that names them."""
    faults = Faults(subject)
    where = f"{line}: " if line else ""
    for name in wanted:
        if name not in present:
            close = difflib.get_close_matches(name, present, n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            known = ", ".join(map(str, present))
            add = "add it to the first line of the file" if line else "add it"
            faults.add(f"{where}there is no column {name!r}{hint}; the columns are {known}: name one of them, or {add}")
        elif list(present).count(name) > 1:
            faults.add(f"{where}there are {list(present).count(name)} columns {name!r}; rename all but one")
    faults.raise_if_any()
    return [list(present).index(name) for name in wanted]


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


# Columns ---------------------------------------------------------------------------------------------------------


def read_numbers(path: Path, wanted: Sequence[str]) -> dict[str, np.ndarray]:
    """The wanted columns as float64 arrays (n,) of one length; what is missing is nan, other texts are faults."""
    columns = read_columns(path, wanted, wanted)
    faults = Faults(f"Table.load {path.name}")
    for name, column in columns.items():
        faults.check(column.kind != "category", f"column {name!r} holds texts; store real numbers")
    lengths = {name: len(column.numbers) for name, column in columns.items()}
    same = len(set(lengths.values())) <= 1
    faults.check(same, f"the columns have different lengths {lengths}; give one value per row in each")
    faults.raise_if_any()
    return {name: column.numbers for name, column in columns.items()}


def read_columns(path: Path, wanted: Sequence[str], numbers: Sequence[str] = ()) -> dict[str, Column]:
    """The wanted columns, by the rules of `columns.py`; those among `numbers` hold numbers, or have faults."""
    subject = f"Table.load {path.name}"
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        fault = f"files of kind {path.suffix or '(no suffix)'!r} are not read; use {', '.join(_READERS)}"
        raise InvalidInput(subject, [fault])
    if not path.is_file():
        raise InvalidInput(subject, [f"there is no file {path}; check the path"])
    return reader(path, wanted, numbers)


def _read_csv(path: Path, wanted: Sequence[str], numbers: Sequence[str]) -> dict[str, Column]:
    """pyarrow where it is there and finds numbers alone, else a cell at a time, which names what is wrong with one."""
    faults = Faults(f"Table.load {path.name}")
    with open_csv(path) as rows:
        if not any(rows.header):
            raise InvalidInput(faults.subject, ["the file is empty; its first line must name the columns"])
        places = column_places(faults.subject, wanted, rows.header, rows.header_line)
        quickly = _csv_by_arrow(path, wanted, rows.header, rows.delimiter)
        if quickly is not None:
            return quickly
        texts: list[list[str]] = [[] for _ in wanted]
        lines: list[str] = []
        short = CellFaults(faults.subject)
        for line, cells in rows:
            lines.append(f"line {line}")
            if len(cells) > len(rows.header):
                more = f"line {line}: {len(cells)} cells under {len(rows.header)} columns"
                short.add_cell(
                    f"{more}, the first one too many is {cells[len(rows.header)]!r}; mend or remove the line"
                )
            for name, place, column in zip(wanted, places, texts, strict=True):
                column.append(cells[place] if place < len(cells) else "")
                if place >= len(cells):
                    ends = f"line {line}, column {name}: the line ends before it, after {len(cells)} cell(s)"
                    short.add_cell(f"{ends}; mend or remove the line")
    faults.check(bool(lines), "the file has no rows below its header; add the data")
    faults.raise_if_any()
    short.close("missing or too many")
    found = {}
    for name, column in zip(wanted, texts, strict=True):
        found[name] = column_of_texts(name, column, lines, faults, only_numbers=name in numbers)
    faults.found += short.found
    faults.raise_if_any()
    return found


def csv_line(path: Path, row: int) -> str:
    """Where a row of data stands in a CSV file, for faults that are found later."""
    with open_csv(path) as rows:
        for number, (line, _) in enumerate(rows):
            if number == row:
                return f"line {line}"
    return f"row {row}"


def _csv_by_arrow(path: Path, wanted: Sequence[str], header: list[str], delimiter: str) -> dict[str, Column] | None:
    """Columns that hold nothing but numbers and missing cells, to the same bits; None if that is not so.

    Both readers round decimal numbers correctly, so that they agree; whatever pyarrow does not take for a number, or
    for a row, is left to the other reader.
    """
    try:
        arrow, csv_reader = import_module("pyarrow"), import_module("pyarrow.csv")
    except ImportError:
        return None
    options = csv_reader.ConvertOptions(
        column_types=dict.fromkeys(wanted, arrow.float64()),
        include_columns=list(wanted),
        null_values=list(MISSING_TEXTS),
        quoted_strings_can_be_null=True,
    )
    reading = csv_reader.ReadOptions(column_names=header, skip_rows=1, use_threads=False)
    parsing = csv_reader.ParseOptions(delimiter=delimiter, newlines_in_values=False)
    try:
        table = csv_reader.read_csv(path, reading, parsing, options)
    except (arrow.ArrowException, OSError, ValueError):
        return None
    found = {}
    for name in wanted:
        numbers = np.array(table.column(name).to_numpy(), dtype=np.float64)
        if not len(numbers) or np.isinf(numbers).any():
            return None
        found[name] = Column(name, "number", numbers)
    return found


def _read_npz(path: Path, wanted: Sequence[str], numbers: Sequence[str]) -> dict[str, Column]:
    """Arrays of numbers, truths, dates or texts. Shape and type are read before the array is, so that a small file
    cannot claim much memory.

    A pickle in the file could run any code: arrays of objects are refused by their type, nothing is ever unpickled.
    """
    faults = Faults(f"Table.load {path.name}")
    columns: dict[str, Column] = {}
    with reading(path, "an .npz file of plain arrays", "write it with np.savez"), zipfile.ZipFile(path) as archive:
        members = [name.removesuffix(".npy") for name in archive.namelist()]
        places = column_places(faults.subject, wanted, members)
        for name, place in zip(wanted, places, strict=True):
            with archive.open(archive.infolist()[place]) as stream:
                shape, dtype = _npy_header(stream)
                fault = f"array {name!r} has shape {shape}; save each column as a 1-D array"
                good = faults.check(len(shape) == 1, fault)
                fault = f"array {name!r} has dtype {dtype}; save real numbers, such as float64"
                kinds = "fiub" if name in numbers else "fiubMmU"
                if not faults.check(dtype.kind in kinds and dtype.itemsize > 0, fault) or not good:
                    continue
                _check_size(path, max(8, dtype.itemsize) * shape[0] * len(wanted))
                data = stream.read(shape[0] * dtype.itemsize)
                if len(data) != shape[0] * dtype.itemsize or stream.read(1):
                    raise ValueError(f"the array {name!r} does not hold the {shape[0]} numbers that it claims")
                columns[name] = column_of(name, np.frombuffer(data, dtype), faults)
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


def _read_parquet(path: Path, wanted: Sequence[str], numbers: Sequence[str]) -> dict[str, Column]:
    faults = Faults(f"Table.load {path.name}")
    columns: dict[str, Column] = {}
    with open_parquet(path, faults.subject, wanted) as file:
        table = file.read(columns=list(wanted))
        for name in wanted:
            if hasattr(table.column(name).type, "num_fields") and table.column(name).type.num_fields:
                held = table.column(name).type
                faults.add(f"column {name!r} has the type {held}; store one number, date or text a row")
                continue
            columns[name] = column_of(name, table.column(name), faults)
            plain = name not in numbers or columns[name].kind in ("number", "truth")
            faults.check(plain, f"column {name!r} has the type {table.column(name).type}; store real numbers")
    faults.raise_if_any()
    return columns


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


_READERS: dict[str, Callable[[Path, Sequence[str], Sequence[str]], dict[str, Column]]] = {
    ".csv": _read_csv,
    ".npz": _read_npz,
    ".parquet": _read_parquet,
}
