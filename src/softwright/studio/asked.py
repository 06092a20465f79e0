"""What can be asked of the studio: one row per kind of job, with the entries that it takes.

Here only the form is checked, types and sizes; what a formula or a file means is found out in the worker, which has
limits and may be lost. `build` runs there: it gets the entries, the path of the file that was sent, and `say`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softwright.approximation.catalogue import STRATEGIES
from softwright.errors import Faults, InvalidInput
from softwright.methods.methods import METHODS
from softwright.precision import PRECISIONS

LONGEST = 20_000  # characters of a text
_SHORT = 200
Say = Callable[[str], None]


@dataclass(frozen=True)
class Entry:
    """An entry of a form: `kind` is text, number, whole or truth, or the names that may be chosen from."""

    kind: str | tuple[str, ...]
    default: Any = None
    longest: int = _SHORT


@dataclass(frozen=True)
class Told:
    """What a job made, with facts beside those that the result itself tells."""

    built: Any
    rows: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Asked:
    """A kind of job: its entries, the endings of the file it wants (none: no file), and what a worker runs."""

    name: str
    entries: Mapping[str, Entry]
    build: Callable[[dict[str, Any], Path | None, Say], Any]
    files: tuple[str, ...] = ()


def read_request(data: Any) -> tuple[Asked, dict[str, Any], str]:
    """The kind of job, its entries and the id of its file; all faults in one `InvalidInput`."""
    faults = Faults("job")
    if not isinstance(data, dict):
        raise InvalidInput("job", ["a job is a JSON object"])
    what = str(data.get("what"))
    row = ASKED.get(what)
    if row is None:
        raise InvalidInput("job", [f"what = {what[:40]!r}; choose from {', '.join(ASKED)}"])
    unknown = [str(name)[:40] for name in data if name not in {"what", "file", *row.entries}]
    faults.check(not unknown, f"unknown entries {', '.join(unknown[:5])}; {row.name} takes {', '.join(row.entries)}")
    found = {name: _read(name, entry, data.get(name, entry.default), faults) for name, entry in row.entries.items()}
    file = data.get("file", "")
    faults.check(isinstance(file, str) and len(file) < 100, "file is the id of a file that was sent")
    faults.check(bool(file) or not row.files, f"{row.name} needs a file ({', '.join(row.files)}); send it first")
    faults.raise_if_any()
    return row, found, file if row.files else ""


def _read(name: str, entry: Entry, value: Any, faults: Faults) -> Any:
    if isinstance(entry.kind, tuple):
        faults.check(value in entry.kind, f"{name} = {str(value)[:40]!r}; choose from {', '.join(entry.kind)}")
    elif entry.kind == "text":
        good = isinstance(value, str) and len(value) <= entry.longest
        faults.check(good, f"{name} is a text of at most {entry.longest} characters")
    elif entry.kind == "truth":
        faults.check(isinstance(value, bool), f"{name} is true or false")
    else:
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if faults.check(value is None or number, f"{name} is a number") and entry.kind == "whole" and value is not None:
            faults.check(value == int(value) and 1 <= value <= 10_000, f"{name} is a whole number from 1 to 10000")
    return value


def title_of(row: Asked, entries: Mapping[str, Any], file_name: str) -> str:
    """A line for the history."""
    what = entries.get("formula") or entries.get("program") or entries.get("model")
    given = entries.get("method") or file_name
    return str(what or f"{row.name} {given}")[:300]


# What workers run -----------------------------------------------------------------------------------------------------


def _sides(text: str) -> dict[str, tuple[float, float]]:
    """ "x=-1:1 y=-pi:pi": every end is a constant of the formula language."""
    from softwright.targets import Expression

    faults, sides = Faults("domain"), {}
    for part in text.replace(",", " ").split():
        name, _, ends = part.partition("=")
        low, colon, high = ends.partition(":")
        if not faults.check(bool(name and colon), f"{part[:40]!r} is not NAME=LOW:HIGH, such as x=-1:1"):
            continue
        try:
            sides[name] = tuple(float(Expression(end, ("unused",))([[0.0]])[0, 0]) for end in (low, high))  # type: ignore[arg-type]
        except InvalidInput as error:
            faults.add(f"{part[:40]!r}: {error.faults[0] if error.faults else error}")
    faults.check(bool(sides) or bool(faults.found), "no domain; give NAME=LOW:HIGH for every variable, such as x=-1:1")
    faults.raise_if_any()
    return sides


def _approximate(entries: dict[str, Any], file: Path | None, say: Say) -> Any:
    from softwright.approximation.verb import approximate

    options = {"tol": entries["tol"], "dtype": entries["dtype"], "certify": entries["certify"], "progress": say}
    return approximate(entries["formula"], _sides(entries["domain"]), strategy=entries["strategy"], **options)


def _table(entries: dict[str, Any], file: Path | None, say: Say) -> Any:
    from softwright.approximation.verb import approximate
    from softwright.targets import Table

    inputs, outputs = (_names(entries[name]) for name in ("inputs", "outputs"))
    table = Table.load(_given(file), inputs, outputs)
    return approximate(table, tol=entries["tol"], dtype=entries["dtype"], progress=say)


def _memorize(entries: dict[str, Any], file: Path | None, say: Say) -> Any:
    from softwright.memory.verb import memorize

    texts, labels = _rows(_given(file), (entries["text"], entries["label"]))
    options = {"tokenizer": entries["tokenizer"], "dtype": entries["dtype"], "label_kind": "classes"}
    return memorize(texts, labels, positional=not entries["unordered"], progress=say, **options)


def _transpile(entries: dict[str, Any], file: Path | None, say: Say) -> Any:
    from softwright.transpiler.verb import transpile

    low, high = entries["low"], entries["high"]
    return transpile(_given(file), None if low is None or high is None else (low, high), progress=say)


def _in_context(entries: dict[str, Any], file: Path | None, say: Say) -> Any:
    from softwright.methods.verb import in_context

    penalty = {} if entries["penalty"] is None else {"penalty": entries["penalty"]}
    return in_context(
        entries["method"], features=int(entries["features"]), dtype=entries["dtype"], progress=say, **penalty
    )


def _fit(entries: dict[str, Any], file: Path | None, say: Say) -> Told:
    """A stack in context for the columns of a file, and what it fits to its rows."""
    from softwright.methods.verb import in_context
    from softwright.targets import Table

    inputs = _names(entries["inputs"])
    table = Table.load(_given(file), inputs, [entries["target"]])
    penalty = {} if entries["penalty"] is None else {"penalty": entries["penalty"]}
    built = in_context(entries["method"], features=len(inputs), dtype=entries["dtype"], progress=say, **penalty)
    say(f"fitting {len(table.points)} rows")
    weights, constant = built.network.fitted(table.points, table.values[:, 0])
    found = [(f"coefficient of {name}", f"{w:.10g}") for name, w in zip(inputs, weights, strict=True)]
    return Told(built, (("rows", str(len(table.points))), *found, ("intercept", f"{float(constant):.10g}")))


def _compile(entries: dict[str, Any], file: Path | None, say: Say) -> Any:
    from softwright.programs.verb import compile as compiled
    from softwright.programs.written import read_tokens

    options = {"tol": entries["tol"], "dtype": entries["dtype"], "progress": say}
    return compiled(entries["program"].strip(), read_tokens(entries["tokens"]), **options)


def _zoo(entries: dict[str, Any], file: Path | None, say: Say) -> Told:
    from softwright.zoo import load, recipe

    say("taking it out of the zoo")
    return Told(
        load(entries["model"]), tuple(row for row in recipe(entries["model"]).rows() if row[0] in ("group", "says"))
    )


def zoo_rows() -> dict[str, list[list[str]]]:
    """The models of the zoo by group: name, and what it is."""
    from softwright.zoo import groups, names, recipe

    return {group: [[name, recipe(name).says or recipe(name).what] for name in names(group)] for group in groups()}


def _open(entries: dict[str, Any], file: Path | None, say: Say) -> Any:
    from softwright.result.built import load

    say("reading the file")
    return load(_given(file))


def _verify(entries: dict[str, Any], file: Path | None, say: Say) -> Any:
    from softwright.checker.verify import reprove_file

    return reprove_file(_given(file), progress=say)


def _given(file: Path | None) -> Path:
    if file is None:
        raise InvalidInput("job", ["the file that was sent is not here any more; send it again"])
    return file


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _rows(path: Path, wanted: tuple[str, str]) -> tuple[list[str], list[str]]:
    """Two columns of a .csv file, or two entries of the objects of a .jsonl file."""
    from softwright.targets.table_files import column_places, open_csv

    found: list[list[str]] = []
    if path.suffix == ".csv":
        with open_csv(path) as rows:
            places = column_places("reading rows", wanted, rows.header, rows.header_line)
            found = [[cells[i] for i in places] for _, cells in rows if len(cells) > max(places)]
    else:
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
                found.append([str(entry[name]) for name in wanted])
            except (ValueError, TypeError, LookupError, RecursionError):
                fault = f"line {number} is no JSON object with {' and '.join(wanted)}; mend it"
                raise InvalidInput("reading rows", [fault]) from None
    if not found:
        raise InvalidInput("reading rows", ["the file has no rows; add the data"])
    return [row[0] for row in found], [row[1] for row in found]


_TOL = Entry("number", 1e-6)
_DTYPE = Entry(tuple(PRECISIONS), "float64")
_STRATEGIES, _METHODS = ("auto", *STRATEGIES), tuple(METHODS)
ASKED: dict[str, Asked] = {
    row.name: row
    for row in (
        Asked(
            "approximate",
            {
                "formula": Entry("text", "", LONGEST),
                "domain": Entry("text", "", 2000),
                "tol": _TOL,
                "dtype": _DTYPE,
                "strategy": Entry(_STRATEGIES, "auto"),
                "certify": Entry("truth", True),
            },
            _approximate,
        ),
        Asked(
            "table",
            {"inputs": Entry("text", "", 2000), "outputs": Entry("text", "", 2000), "tol": _TOL, "dtype": _DTYPE},
            _table,
            (".csv", ".npz", ".parquet"),
        ),
        Asked(
            "memorize",
            {
                "text": Entry("text", "text"),
                "label": Entry("text", "label"),
                "tokenizer": Entry(("whitespace", "bytes"), "whitespace"),
                "unordered": Entry("truth", False),
                "dtype": _DTYPE,
            },
            _memorize,
            (".csv", ".jsonl"),
        ),
        Asked(
            "transpile",
            {"low": Entry("number", -1.0), "high": Entry("number", 1.0)},
            _transpile,
            (".onnx", ".safetensors"),
        ),
        Asked(
            "in_context",
            {
                "method": Entry(_METHODS, "ridge"),
                "features": Entry("whole", 1),
                "penalty": Entry("number", None),
                "dtype": _DTYPE,
            },
            _in_context,
        ),
        Asked(
            "fit",
            {
                "method": Entry(_METHODS, "ridge"),
                "inputs": Entry("text", "", 2000),
                "target": Entry("text", "y"),
                "penalty": Entry("number", None),
                "dtype": _DTYPE,
            },
            _fit,
            (".csv", ".npz", ".parquet"),
        ),
        Asked(
            "compile",
            {
                "program": Entry("text", "", LONGEST),
                "tokens": Entry("text", "", LONGEST),
                "tol": _TOL,
                "dtype": _DTYPE,
            },
            _compile,
        ),
        Asked("zoo", {"model": Entry("text", "")}, _zoo),
        Asked("open", {}, _open, (".safetensors",)),
        Asked("verify", {}, _verify, (".safetensors", ".onnx")),
    )
}
ENDINGS = tuple(sorted({ending for row in ASKED.values() for ending in row.files}))
