"""Separated values in text files: one reader for all of softwright.

The first line names the columns; commas, semicolons and tabs are told apart by it (.tsv: always tabs). Text is UTF-8,
with or without a byte order mark; names that end in .gz are unpacked, up to a size that an honest file of that length
may have. Lines are numbered as an editor does: a row that goes on over several lines, inside of quotes, stands where it
begins. A quote that is never closed swallows the rest of the file: it is refused, and its own line is named.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from softwright.errors import FileFormatError
from softwright.fileformat import reading

KINDS = (".csv", ".tsv", ".txt")  # and each of them with .gz
MOST_BYTES = 1 << 28  # in memory, where the file itself is small
_QUOTED = re.compile(r'"[^"]*("|$)')


def kind_of(path: Path) -> str:
    """The ending that says what a file holds; that of x.csv.gz is .csv, as far as such a file is read."""
    ending = path.suffix.lower()
    inner = Path(path.stem).suffix.lower() if ending == ".gz" else ""
    return inner if inner in KINDS else ending


def most_bytes(path: Path) -> int:
    """What the contents of a file may take in memory: compressed zeros grow a thousandfold."""
    return max(MOST_BYTES, 8 * path.stat().st_size)


class UnclosedQuote(Exception):
    """A file ends inside of quotes."""


class CsvRows:
    """An open file: its header, and then its rows with the numbers of their first lines; blank lines are left out."""

    def __init__(self, file: TextIO, delimiter: str | None = None) -> None:
        first = next((line for line in file if line.strip()), "")
        self.delimiter = delimiter or max(",;\t", key=_QUOTED.sub("", first).count)
        file.seek(0)
        self._ended = False
        self._reader = csv.reader(self._lines(file), delimiter=self.delimiter)
        self.line = 1  # of the row that was read last, or is being read
        self.header: list[str] = []
        self.header_line, self.header_end = "line 1", 1

    def read_header(self) -> None:
        self.header = [cell.strip() for cell in next(iter(self), (1, []))[1]]
        self.header_line, self.header_end = f"line {self.line}", self._reader.line_num

    def _lines(self, file: TextIO) -> Iterator[str]:
        yield from file
        self._ended = True

    def _row(self) -> list[str] | None:
        """The next row. The reader asks for a line beyond the last one only between rows, or inside of quotes."""
        self.line = self._reader.line_num + 1
        cells = next(self._reader, None)
        if cells is not None and self._ended:
            self.line += sum(map(_line_ends, cells[:-1]))  # quotes before it may hold line ends too
            raise UnclosedQuote(cells[-1])
        return cells

    @property
    def inside_quotes(self) -> bool:
        """Whether the row that is being read has gone on beyond its first line."""
        return self._reader.line_num > self.line

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        while (cells := self._row()) is not None:
            if len(cells) > 1 or any(cell.strip() for cell in cells):
                yield self.line, cells


def _line_ends(text: str) -> int:
    return len(re.findall(r"\r\n|\r|\n", text))


@contextmanager
def open_csv(path: Path) -> Iterator[CsvRows]:
    """The file for reading; what is wrong with it, then or later, is a `FileFormatError`."""
    if not path.is_file():
        raise FileFormatError(f"{path}: no such file")
    rows = None
    try:
        with io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="") as file:
            rows = CsvRows(file, "\t" if kind_of(path) == ".tsv" else None)
            rows.read_header()
            yield rows
    except UnicodeDecodeError as error:
        fault = f"{_undecodable(path)}, which is no UTF-8 ({error.reason})"
        other = "pandas.read_csv(..., encoding='latin-1') and sw.Table.from_frame"
        remedy = f"save the file as UTF-8, or read it with {other}"
        raise FileFormatError(f"{path} is not a CSV file in UTF-8: {fault}; {remedy}") from error
    except UnclosedQuote as error:
        raise FileFormatError(_unclosed(path, rows, str(error))) from error
    except csv.Error as error:
        if rows is not None and rows.inside_quotes:
            raise FileFormatError(_unclosed(path, rows, "")) from error
        line = 1 if rows is None else rows.line
        raise FileFormatError(f"{path} is not a CSV file: line {line}: {error}; mend that line") from error


def _unclosed(path: Path, rows: CsvRows | None, cell: str) -> str:
    """The fault of a quote that swallows what follows; `cell` is what it swallowed, if that is known."""
    line = 1 if rows is None else rows.line
    begins = cell.splitlines()[0][:40] if cell else ""
    opens = f"line {line}: a quote opens" + (f' before "{begins}"' if begins else "")
    return f"{path}: {opens} and is not closed in the lines that follow; close it in that line, or remove it"


def open_bytes(path: Path) -> BinaryIO:
    """The bytes of a file, unpacked if it is compressed."""
    if path.suffix.lower() != ".gz":
        return path.open("rb")
    most = most_bytes(path)
    with reading(path, "a gzip file", "write it again, or unpack it"), gzip.open(path) as packed:
        content = packed.read(most + 1)
    if len(content) > most:
        claim = f"holds more than {most / 2**20:.0f} MB in a file of {path.stat().st_size / 2**20:.1f} MB"
        raise FileFormatError(f"{path}: {claim}; unpack or split it")
    return io.BytesIO(content)


def _undecodable(path: Path) -> str:
    """The first line with bytes that are no UTF-8, its column and the byte."""
    with open_bytes(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                column = len(line[: error.start].decode("utf-8")) + 1
                return f"line {number}, character {column} is the byte 0x{line[error.start]:02x}"
    return "the end of its last line breaks off"


def csv_line(path: Path, row: int) -> str:
    """Where a row of data stands, for faults that are found later."""
    with open_csv(path) as rows:
        for number, (line, _) in enumerate(rows):
            if number == row:
                return f"line {line}"
    return f"row {row}"
