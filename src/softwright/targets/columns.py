"""Columns as people have them, as numbers: one rule for each kind, the same for frames and for files.

    numbers      as they are; infinities are refused
    truths       false is 0, true is 1
    dates        days since 1970-01-01 00:00 UTC; spans of time in days
    categories   of two levels one column, 0 and 1 in their order; of more, a column of 0 and 1 for each level
    missing      None, NaN, NaT, null, and in text one of `MISSING_TEXTS`

Texts are read as a column: as numbers if all are, else as dates (ISO 8601), else as true/false, else as categories. A
column of numbers in which a few cells are none is refused, with the line of each: it is a mistake, and no category. So
are texts that look like numbers or dates in another spelling (1,5 or 1/31/2026), and dates among other texts.
"""

from __future__ import annotations

import datetime
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib import import_module
from itertools import chain, count
from numbers import Integral, Real
from typing import Any

import numpy as np

from softwright.domain import is_usable
from softwright.errors import Faults

MISSING_TEXTS = ("", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan", "null", "NULL", "None", "NaT")
MOST_LEVELS = 64
_MISTAKES = 0.5  # of the cells of a column: if more than this share are numbers, the others are mistakes
_LISTED, _SHOWN = 5, 60
LARGEST_WHOLE = 2**53  # up to which float64 holds every integer
_DAY = np.timedelta64(1, "D")
_NUMERIC = re.compile(
    r"[-+]?[\d.,]+[dD][-+]?\d+|[-+]?0[xX][0-9a-fA-F]+|\d+(_\d+)+|[-+$\u20ac\u00a3]?\s*\d[\d.,'/: ]*\s*[%$\u20ac\u00a3]?"
)
_WHOLE = re.compile(r"[-+]?\d{16,}")
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d(\D|$)")


@dataclass(frozen=True)
class Column:
    """A column as numbers (n,), nan where it is missing; `levels` name the categories that the numbers count."""

    name: str
    kind: str  # number, truth, date, duration, category
    numbers: np.ndarray
    levels: tuple[str, ...] = ()

    def expanded(self) -> tuple[list[str], np.ndarray]:
        """Names and numbers (n, k) of the variables that stand for it."""
        if self.kind != "category" or len(self.levels) == 2:
            return [self.name], self.numbers[:, None]
        missing = np.isnan(self.numbers)[:, None]
        table = np.where(missing, np.nan, (self.numbers[:, None] == np.arange(len(self.levels))).astype(float))
        return _level_names(self.name, self.levels), table


def _level_names(name: str, levels: tuple[str, ...]) -> list[str]:
    """name_level, in letters, digits and underscores, told apart by a number where two would be alike."""
    found: list[str] = []
    for level in levels:
        text = f"{name}_{re.sub(r'[^0-9A-Za-z]+', '_', level).strip('_') or 'blank'}"
        found.append(text if text not in found else f"{text}_{len(found)}")
    return found


def column_of(name: str, given: Any, faults: Faults, levels: tuple[str, ...] = ()) -> Column:
    """A column of anything that holds numbers, truths, dates or texts; `levels` are those that are known already."""
    try:
        array, missing = _as_array(given)
    except (ValueError, TypeError) as error:
        faults.add(f"column {name!r} is no column of single values ({error}); give one value a row")
        return Column(name, "number", np.zeros(0))
    nothing = Column(name, "number", np.zeros(len(array)))
    if array.ndim != 1:
        faults.add(f"column {name!r} has shape {array.shape}; give one value a row")
        return nothing
    kind = array.dtype.kind
    if kind == "b":
        numbers = array.astype(np.float64)
        return Column(name, "truth", np.where(missing, np.nan, numbers))
    if kind in "iu":
        large = np.flatnonzero(~missing & ((array > LARGEST_WHOLE) | (array < -LARGEST_WHOLE))).tolist()
        _check_digits(name, ((row, int(array[row])) for row in large), None, faults)
    if kind == "f":
        with np.errstate(over="ignore"):  # of wider floats; infinities are refused
            array = array.astype(np.float64)
    if kind in "iuf":
        return _checked(Column(name, "number", np.where(missing, np.nan, array.astype(np.float64))), faults)
    if kind in "Mm":
        start = np.datetime64(0, "D") if kind == "M" else np.timedelta64(0, "D")
        lost = missing | np.isnat(array)
        days = np.where(lost, np.nan, (np.where(lost, start, array) - start) / _DAY)
        return Column(name, "date" if kind == "M" else "duration", days)
    if kind not in "OUSTV":
        faults.add(f"column {name!r} has the type {array.dtype}; give numbers, truths, dates or texts")
        return nothing
    return _of_objects(name, array.tolist(), missing, faults, levels)


def _as_array(given: Any) -> tuple[np.ndarray, np.ndarray]:
    """The values of a column, and which of them the frame itself says are missing."""
    if hasattr(given, "null_count") and hasattr(given, "to_pylist"):  # pyarrow
        if not hasattr(given, "chunks"):
            given = import_module("pyarrow").chunked_array([given])
        if hasattr(given.type, "value_type") and hasattr(given.type, "index_type"):
            given = given.cast(given.type.value_type)
        missing = np.asarray(given.is_null().to_numpy())
        whole = "int" in str(given.type) and missing.any()  # which would become floats, and lose digits
        array = np.asarray((given.fill_null(0) if whole else given).to_numpy())
    elif hasattr(given, "isna") and hasattr(given, "to_numpy"):  # pandas
        missing = np.asarray(given.isna().to_numpy())
        whole = getattr(given.dtype, "kind", "O") in "iu" and missing.any()
        array = np.asarray((given.fillna(0) if whole else given).to_numpy())
    elif hasattr(given, "is_null") and hasattr(given, "to_numpy"):  # polars
        missing = np.asarray(given.is_null().to_numpy())
        whole = given.dtype.is_integer() and missing.any()
        array = np.asarray((given.fill_null(0) if whole else given).to_numpy())
    else:
        array = np.atleast_1d(np.asarray(given))
        missing = np.zeros(array.shape[:1], dtype=bool)
        if isinstance(given, np.ma.MaskedArray) and array.ndim == 1:
            missing = np.ma.getmaskarray(given)
    return array, missing.astype(bool)


def _check_digits(name: str, whole: Iterable[tuple[int, int]], places: Sequence[str] | None, faults: Faults) -> None:
    """Integers (row, value) that float64 does not hold would become others, silently."""
    for row, value in whole:
        if abs(value) < 1 << 1023 and int(float(value)) != value:
            place = f"row {row}" if places is None else places[row]
            remedy = "subtract an offset from the column, or round it"
            digits = str(value)[:_SHOWN]
            faults.add(f"{place}, column {name}: {digits} has more digits than float64 holds; {remedy}")
            return


def _checked(column: Column, faults: Faults, places: Sequence[str] | None = None) -> Column:
    """The column; infinities are faults at these places, or in rows by their number."""
    rows = np.flatnonzero(np.isinf(column.numbers)).tolist()
    for row in rows[:_LISTED]:
        place = f"row {row}" if places is None else places[row]
        faults.add(f"{place}, column {column.name}: the value is infinite; remove the row or bound the value")
    if len(rows) > _LISTED:
        faults.add(f"{len(rows) - _LISTED} more cells of column {column.name} are infinite")
    return column


def _of_objects(name: str, values: list[Any], missing: np.ndarray, faults: Faults, levels: tuple[str, ...]) -> Column:
    """Python objects: all of one kind, or an error that names two rows that differ."""
    kinds: dict[str, int] = {}
    absent = missing.tolist()
    for row, value in enumerate(values):
        kind = "" if absent[row] else _kind(value)
        absent[row] = kind == ""
        kinds.setdefault(kind, row)
    kinds.pop("", None)
    if len(kinds) > 1:
        (first, row), (second, other) = list(kinds.items())[:2]
        faults.add(f"column {name!r} mixes {first}s (row {row}) and {second}s (row {other}); give one kind")
        return Column(name, "number", np.zeros(len(values)))
    kind = next(iter(kinds), "number")
    if kind == "text":
        texts = ["" if gone else str(value) for value, gone in zip(values, absent, strict=True)]
        return column_of_texts(name, texts, [f"row {row}" for row in range(len(texts))], faults, levels)
    if kind == "date":
        dated = [row for row, gone in enumerate(absent) if not gone and isinstance(values[row], datetime.datetime)]
        _check_zones(name, [values[row] for row in dated], [f"row {row}" for row in dated], faults)
        stamps = [None if gone else _utc(value) for value, gone in zip(values, absent, strict=True)]
        return column_of(name, np.array(stamps, dtype="datetime64[us]"), faults)
    if kind == "timedelta":
        spans = [None if gone else value for value, gone in zip(values, absent, strict=True)]
        return column_of(name, np.array(spans, dtype="timedelta64[us]"), faults)
    if kind not in ("number", "truth"):
        faults.add(f"row {kinds[kind]}, column {name!r}: a value is a {kind}; give numbers, truths, dates or texts")
        return Column(name, "number", np.zeros(len(values)))
    whole = ((row, int(value)) for row, value in enumerate(values) if not absent[row] and isinstance(value, Integral))
    _check_digits(name, whole, None, faults)
    numbers = np.array([math.nan if gone else _float(value) for value, gone in zip(values, absent, strict=True)])
    return _checked(Column(name, kind, numbers), faults)


def _float(value: Any) -> float:
    """The nearest float; numbers beyond all of them are infinite, which is refused later."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _kind(value: Any) -> str:
    if value is None or (isinstance(value, float | np.floating) and math.isnan(value)):
        return ""
    if isinstance(value, Decimal) and value.is_nan():
        return ""
    if isinstance(value, bool | np.bool_):
        return "truth"
    if isinstance(value, Real | Decimal):
        return "number"
    if isinstance(value, datetime.date | np.datetime64):
        return "date"
    return "text" if isinstance(value, str) else type(value).__name__


def _check_zones(name: str, stamps: list[datetime.datetime], places: Sequence[str], faults: Faults) -> None:
    """Times with and without a zone in one column: hours apart, and nobody knows how many."""
    zoned = [stamp.tzinfo is not None for stamp in stamps]
    if len(set(zoned)) > 1:
        some, others = places[zoned.index(True)], places[zoned.index(False)]
        mixed = f"{others}, column {name}: a time without a zone, where {some} has one"
        faults.add(f"{mixed}; write all times with their zone, or all without")


def _utc(value: Any) -> Any:
    """A date without its zone, in UTC."""
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    return value


def column_of_texts(
    name: str,
    texts: Sequence[str],
    places: Sequence[str],
    faults: Faults,
    levels: tuple[str, ...] = (),
    only_numbers: bool = False,
    decimal: str = ".",
) -> Column:
    """A column of texts by the rules above; `places` say where each of them stands, for faults.

    With `only_numbers` every other text is a mistake. `decimal` is what stands before the fraction of a number.
    """
    texts = [text.strip() for text in texts]
    present = [i for i, text in enumerate(texts) if text not in MISSING_TEXTS]
    numbers = np.full(len(texts), np.nan)
    if levels:
        return _coded(name, texts, present, places, levels, faults)
    parsed = {i: number for i in present if (number := number_in(texts[i], decimal)) is not None}
    if len(parsed) == len(present):
        large = [i for i in present if LARGEST_WHOLE < abs(parsed[i]) < math.inf and _WHOLE.fullmatch(texts[i])]
        whole = ((i, int(Decimal(texts[i]))) for i in large)  # int() of a text refuses thousands of leading zeros
        _check_digits(name, whole, places, faults)
        numbers[list(parsed)] = list(parsed.values())
        return _checked(Column(name, "number", numbers), faults, places)
    if only_numbers or len(parsed) > _MISTAKES * len(present):
        wrong = [i for i in present if i not in parsed]
        for i in wrong[:_LISTED]:
            remedy = f"mend or remove the line, or leave the cell empty{_other_comma(texts[i])}"
            faults.add(f"{places[i]}, column {name}: {shown(texts[i])} is not a number; {remedy}")
        if len(wrong) > _LISTED:
            faults.add(f"{len(wrong) - _LISTED} more cells of column {name} are not numbers")
        return Column(name, "number", numbers)
    try:
        stamps = [datetime.datetime.fromisoformat(texts[i]) for i in present]
    except ValueError:
        stamps = []
    if stamps:
        _check_zones(name, stamps, [places[i] for i in present], faults)
        stamps = [_utc(stamp) for stamp in stamps]
        days = (np.array(stamps, dtype="datetime64[us]") - np.datetime64(0, "D")) / _DAY
        numbers[present] = days
        return Column(name, "date", numbers)
    truths = {"true": 1.0, "false": 0.0}
    if all(texts[i].lower() in truths for i in present):
        numbers[present] = [truths[texts[i].lower()] for i in present]
        return Column(name, "truth", numbers)
    unclear = [(i, why) for i in present if (why := _unclear(texts[i], decimal))]
    for i, why in unclear[:_LISTED]:
        faults.add(f"{places[i]}, column {name}: {shown(texts[i])} {why}")
    if unclear:
        if len(unclear) > _LISTED:
            faults.add(f"{len(unclear) - _LISTED} more cells of column {name} are like these")
        return Column(name, "number", numbers)
    found = tuple(sorted({texts[i] for i in present}))
    if len(found) > MOST_LEVELS:
        first = f"{places[present[0]]}: {shown(texts[present[0]])} the first"
        most = f"column {name!r} has {len(found)} different texts, {first}"
        faults.add(f"{most}; at most {MOST_LEVELS} are categories: leave the column out, or give numbers")
        return Column(name, "number", np.zeros(len(texts)))
    return _coded(name, texts, present, places, found, faults)


def shown(text: str) -> str:
    """A cell in a message: its beginning, if it is long."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def _other_comma(text: str) -> str:
    """What else to try with a number that has a comma."""
    return "; of a text file with decimal commas: give decimal=','" if re.fullmatch(r"[-+]?\d*,\d+", text) else ""


def _unclear(text: str, decimal: str) -> str:
    """Why a text is no category: it looks like a number or a date in another spelling, or cannot be shown."""
    if not text.isprintable():
        return "holds characters that cannot be shown; mend the line"
    if _NUMERIC.fullmatch(text) and number_in(text, decimal) is None:
        remedy = f"write 1234{decimal}5 or 2026-01-31, or leave the column out{_other_comma(text)}"
        return f"looks like a number or a date and is none; {remedy}"
    if _ISO_DATE.match(text):
        return "is a date among texts that are none, or no day of the calendar; mend the line"
    return ""


def _coded(
    name: str, texts: Sequence[str], present: list[int], places: Sequence[str], levels: tuple[str, ...], faults: Faults
) -> Column:
    """Categories as their places among the levels."""
    codes = {level: float(i) for i, level in enumerate(levels)}
    numbers = np.full(len(texts), np.nan)
    unknown = [i for i in present if texts[i] not in codes]
    for i in unknown[:_LISTED]:
        known = ", ".join(levels)
        faults.add(f"{places[i]}, column {name}: {shown(texts[i])} is none of the categories {known}; mend the row")
    if len(unknown) > _LISTED:
        faults.add(f"{len(unknown) - _LISTED} more cells of column {name} are none of its categories")
    if not unknown:
        numbers[present] = [codes[texts[i]] for i in present]
    return Column(name, "category", numbers, levels)


def number_in(text: str, decimal: str = ".") -> float | None:
    """The number in a cell. Python also reads 1_000 as a number, which no other reader of CSV files does.

    Beside decimal commas a point would separate thousands: such texts are no numbers.
    """
    if decimal == ",":
        text = "_" if "." in text else text.replace(",", ".")
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def whole_frame(frame: Any, wanted: Sequence[str]) -> Any:
    """The frame with what it keeps elsewhere: rows of a lazy one, and levels of an index that are wanted by name."""
    if hasattr(frame, "collect_schema") and hasattr(
        frame, "collect"
    ):  # a lazy frame of polars; whole ones lack collect
        return frame.collect()
    if hasattr(frame, "reset_index") and hasattr(frame, "columns"):  # pandas
        missing = [name for name in wanted if name not in frame.columns]
        levels = [name for name in getattr(frame.index, "names", ()) if name is not None and name in missing]
        return frame.reset_index(level=levels) if levels else frame
    return frame


def frame_columns(frame: Any) -> list[str] | None:
    """The names of a frame's columns; None if it is no frame."""
    if isinstance(frame, Mapping):
        return [str(name) for name in frame]
    if isinstance(frame, np.ndarray):  # a structured array, as np.genfromtxt makes of a file with names
        return list(frame.dtype.names or ()) or None
    for attribute in ("column_names", "columns"):  # pyarrow; pandas, polars
        names = getattr(frame, attribute, None)
        if names is not None and hasattr(frame, "__getitem__"):
            return [str(name) for name in names]
    return None


def frame_column(frame: Any, name: str) -> Any:
    """A column by its name as text: frames of pandas and mappings may call theirs by numbers or tuples."""
    labels = frame if isinstance(frame, Mapping) else getattr(frame, "columns", ())
    if hasattr(frame, "column_names"):  # pyarrow, whose columns are no names
        return frame[name]
    return frame[next((label for label in labels if not isinstance(label, str) and str(label) == name), name)]


def usable_names(names: Sequence[str]) -> list[str]:
    """Names of columns as names of variables: ASCII letters, digits and underscores, each its own.

    Usable ones stay as they are; of others what can be kept is kept: "T [K]" becomes T_K, "1st" x_1st, "pi" pi_.
    """
    taken = [name for name in names if is_usable(name)]
    found: list[str] = []
    for place, name in enumerate(names, 1):
        if is_usable(name):
            found.append(name)
            continue
        plain = unicodedata.normalize("NFKD", name.replace("\u00df", "ss")).encode("ascii", "ignore").decode()
        text = re.sub(r"[^0-9A-Za-z]+", "_", plain).strip("_") or f"x{place}"
        text = f"x_{text}" if text[0].isdigit() else text if is_usable(text) else f"{text}_"
        ways = chain([text], (f"{text}_{k}" for k in count(2)))
        found.append(next(way for way in ways if way not in taken))
        taken.append(found[-1])
    return found


def as_variables(present: Sequence[str], names: Sequence[str]) -> list[str]:
    """Columns that are present, those called by the variable that they became where its own name is not there."""
    made = [usable_names([name])[0] for name in present]
    wanted = [name for name in names if name not in present]
    return [b if b in wanted and made.count(b) == 1 else a for a, b in zip(present, made, strict=True)]
