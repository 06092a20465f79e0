"""CSV files: the one reader and the one writer of them.

The first line names the columns; commas, semicolons and tabs are told apart by it. Text is UTF-8, with or without a
byte order mark. Every fault names the file and, where there is one, the line.
"""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from softwright.errors import Faults, FileFormatError
from softwright.fileformat import write_atomically

LISTED = 5  # bad cells that are named one by one


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
