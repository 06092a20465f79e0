"""Tables in files: columns from text (.csv, .tsv, .txt, also with .gz; see `csv_files.py`), .npz and .parquet files.

Every fault names the file and its place; damaged and hostile files end in our errors, and what they claim is weighed
before memory is taken for it. Kinds of files that others read well are refused with the call that does it.
"""

from __future__ import annotations

import csv
import difflib
import io
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from softwright.errors import Faults, FileFormatError, InvalidInput
from softwright.fileformat import reading, write_atomically
from softwright.targets.columns import LARGEST_WHOLE, MISSING_TEXTS, Column, column_of, column_of_texts, shown
from softwright.targets.csv_files import KINDS, CsvRows, kind_of, most_bytes, open_bytes, open_csv

LISTED = 5  # bad cells that are named one by one


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
            known = ", ".join(map(str, present)) or "none"
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


def read_columns(
    path: Path, wanted: Sequence[str], numbers: Sequence[str] = (), decimal: str = "."
) -> dict[str, Column]:
    """The wanted columns, by the rules of `columns.py`; those among `numbers` hold numbers, or have faults.

    `decimal` is what stands before the fraction of numbers in text files.
    """
    faults = Faults(f"Table.load {path.name}")
    kind = kind_of(path)
    faults.check(kind in KINDS or kind in _READERS, _not_read(path, wanted, numbers))
    if faults.check(decimal in (".", ","), f"decimal={decimal!r} is not known; use '.' or ','"):
        text = decimal == "." or kind not in _READERS
        faults.check(text, f"decimal={decimal!r} is for text files; leave it out")
    faults.raise_if_any()
    faults.check(path.is_file(), f"there is no file {path}; check the path")
    faults.raise_if_any()
    return _read_csv(path, wanted, numbers, decimal) if kind in KINDS else _READERS[kind](path, wanted, numbers)


def _not_read(path: Path, wanted: Sequence[str], numbers: Sequence[str]) -> str:
    """The fault of a file of another kind, with the call that reads it where others do."""
    known = f"{', '.join([*KINDS, *(f'{kind}.gz' for kind in KINDS), *_READERS])}"
    fault = f"files of kind {path.suffix or '(no suffix)'!r} are not read; "
    call = _ELSEWHERE.get(path.suffix.lower())
    if call is None:
        return f"{fault}use {known}"
    inputs = [name for name in wanted if name not in numbers]
    columns = f"{inputs}, {list(numbers)}"
    return f"{fault}use sw.Table.from_frame({call.format(repr(path.name))}, {columns}), or one of {known}"


def _read_csv(path: Path, wanted: Sequence[str], numbers: Sequence[str], decimal: str) -> dict[str, Column]:
    """pyarrow where it is there and finds numbers alone, else a cell at a time, which names what is wrong with one."""
    faults = Faults(f"Table.load {path.name}")
    with open_csv(path) as rows:
        if not any(rows.header):
            raise InvalidInput(faults.subject, ["the file is empty; its first line must name the columns"])
        if len(rows.header) == 1 and rows.header[0] not in wanted and len(rows.header[0].split()) > 1:
            fault = (
                f"{rows.header_line}: {shown(rows.header[0])} holds no comma, semicolon or tab between names; remove "
            )
            other = f"sw.Table.from_frame(pandas.read_csv({path.name!r}, sep=r'\\s+'), ...)"
            remedy = f"lines above the names of columns, or read columns that blanks separate with {other}"
            raise InvalidInput(faults.subject, [fault + remedy])
        places = column_places(faults.subject, wanted, rows.header, rows.header_line)
        quickly = _csv_by_arrow(path, wanted, rows, decimal)
        if quickly is not None:
            return quickly
        texts: list[list[str]] = [[] for _ in wanted]
        lines: list[str] = []
        short = CellFaults(faults.subject)
        for line, cells in rows:
            lines.append(f"line {line}")
            beyond = next((cell for cell in cells[len(rows.header) :] if cell.strip()), None)
            if beyond is not None:
                more = f"line {line}: {len(cells)} cells under {len(rows.header)} columns"
                short.add_cell(f"{more}, the first one too many is {shown(beyond)}; mend or remove the line")
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
        found[name] = column_of_texts(name, column, lines, faults, (), name in numbers, decimal)
    faults.found += short.found
    faults.raise_if_any()
    return found


def _csv_by_arrow(path: Path, wanted: Sequence[str], rows: CsvRows, decimal: str) -> dict[str, Column] | None:
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
        decimal_point=decimal,
    )
    reading = csv_reader.ReadOptions(column_names=rows.header, skip_rows=rows.header_end, use_threads=False)
    try:
        with open_bytes(path) as file:
            # An open quote at the end of a block, or of the file, passes for a closed one unless rows may span lines.
            quotes = sum(block.count(b'"') for block in iter(partial(file.read, 1 << 20), b""))
            if quotes % 2:
                return None
            file.seek(0)
            parsing = csv_reader.ParseOptions(delimiter=rows.delimiter, newlines_in_values=quotes > 0)
            table = csv_reader.read_csv(file, reading, parsing, options)
    except (arrow.ArrowException, OSError, ValueError):
        return None
    found = {}
    for name in wanted:
        numbers = np.array(table.column(name).to_numpy(), dtype=np.float64)
        if not len(numbers) or (np.abs(numbers) > LARGEST_WHOLE).any():  # whose digits the other reader looks at
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
    """Refuse what would take more memory than any honest file of this size."""
    own, most = path.stat().st_size, most_bytes(path)
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
    ".npz": _read_npz,
    ".parquet": _read_parquet,
}
_ELSEWHERE = {
    **dict.fromkeys((".xlsx", ".xls", ".xlsm", ".ods"), "pandas.read_excel({})"),
    ".json": "pandas.read_json({})",
    **dict.fromkeys((".jsonl", ".ndjson"), "pandas.read_json({}, lines=True)"),
    **dict.fromkeys((".feather", ".arrow"), "pandas.read_feather({})"),
    **dict.fromkeys((".zip", ".bz2", ".xz", ".zst"), "pandas.read_csv({})"),
    **dict.fromkeys((".dat", ".prn", ".asc"), "pandas.read_csv({}, sep=r'\\s+')"),
    ".orc": "pandas.read_orc({})",
    ".dta": "pandas.read_stata({})",
    ".sas7bdat": "pandas.read_sas({})",
    **dict.fromkeys((".h5", ".hdf5", ".hdf"), "pandas.read_hdf({})"),
}
