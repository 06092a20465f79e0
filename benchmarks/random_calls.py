"""Random calls of `approximate` and what goes with it: does anything but softwright's own errors come out?

    python benchmarks/random_calls.py                       500 calls (pip install pandas pyarrow)
    python benchmarks/random_calls.py --seed 3 --count 200  others
    python benchmarks/random_calls.py --only 17             one call again, with its traceback

A call draws a target (a formula, a callable of one of many styles, a table from arrays, frames or files), a box and
options, most of them fit, some of them not: wrong types, signs, sizes, names, NaN, too few rows, callables that raise
or return nonsense. What is built is evaluated, printed, saved, loaded and verified. Expected are a result or one of
`InvalidInput` (with `UndefinedFormula`), `ToleranceNotReached` and `FileFormatError`; a warning of NumPy or Python, a
certificate that is NOT VERIFIED, an error seen above the bound and any other exception are faults. Each call has an
allowance of work and of CPU time; call `n` depends on the seed and `n` alone.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import math
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import softwright as sw

SECONDS = 120.0  # of CPU
NAMES = ("x", "y", "z", "u", "v", "w", "p", "q", "r", "s")
Rng = np.random.Generator


class TooLong(BaseException):
    """A call took more CPU time than it may."""


class OddResult(Exception):
    """A call came to an end that is not one of those expected."""


def pick(rng: Rng, items: Any) -> Any:
    items = list(items)
    return items[int(rng.integers(len(items)))]


# ------------------------------------------------------------------------------------------------------------- targets


def formula(rng: Rng, names: list[str], depth: int = 0) -> str:
    """A formula of the language, not always defined."""

    def inner() -> str:
        return formula(rng, names, depth + 1)

    way = int(rng.integers(0, 12 if depth < 3 else 2))
    if way <= 1:
        return pick(rng, [*names, *names, repr(round(float(rng.normal()) * 10 ** float(rng.integers(-3, 4)), 4)), "pi"])
    if way <= 4:
        return f"({inner()} {pick(rng, '+-*')} {inner()})"
    if way == 5:
        return f"({inner()})/({inner()} + {pick(rng, ['2', '5', '0.1'])})"
    if way == 6:
        return f"({inner()})**{pick(rng, ['2', '3', '0.5', '-1', '(1/3)', '1.7'])}"
    if way <= 9:
        words = "sin cos exp log sqrt abs tanh atan asin acosh erf cbrt relu sigmoid sinc gelu floor sign log1p gamma"
        return f"{pick(rng, words.split())}({inner()})"
    if way == 10:
        return f"{pick(rng, ['max', 'min', 'hypot', 'atan2', 'xlogy', 'mod'])}({inner()}, {inner()})"
    return f"where({inner()} {pick(rng, ['<', '<=', '>', '>='])} {inner()}, {inner()}, {inner()})"


def odd_text(rng: Rng) -> Any:
    odd = ["", " ", "x +", "sin", "sin()", "x y", "__import__('os')", "x**x**x**x", "1e999*x", "x = 2", "lambda x: x"]
    return pick(rng, [*odd, "\x00", "x" * 500, None, 3, b"x", ["x"], {"x": 1}, float("nan")])


def callables(rng: Rng, d: int) -> Callable[..., Any]:
    """Callables of many styles: most are functions of a point, some are not."""
    a = rng.normal(size=d)

    def columns(*x: Any) -> Any:
        return np.sin(sum(c * t for c, t in zip(a, x, strict=True)))

    def points(x: Any) -> Any:
        return np.exp(-(np.asarray(x) ** 2).sum(axis=-1))

    def two(*x: Any) -> Any:
        return [x[0] * 2, sum(t * t for t in x)]

    def scalar(*x: Any) -> float:
        return float(sum(math.tanh(t) for t in x))

    def kinked(*x: Any) -> Any:
        return np.abs(sum(x)) + np.maximum(x[0], 0.1)

    def raises(*x: Any) -> Any:
        raise pick(rng, [ValueError("no"), KeyError("k"), ZeroDivisionError("z"), RuntimeError("r")])

    def at_times(*x: Any) -> Any:
        if float(np.max(np.abs(x[0]))) > 0.9:
            raise ArithmeticError("beyond my range")
        return x[0]

    def nan(*x: Any) -> Any:
        return np.where(np.asarray(x[0]) > 0.3, np.nan, x[0])

    def complex_(*x: Any) -> Any:
        return np.asarray(x[0]) * 1j

    def text(*x: Any) -> Any:
        return "a value"

    def wrong_shape(*x: Any) -> Any:
        return np.zeros(3)

    def mixes(x: Any) -> Any:
        return x / np.max(x)

    def nothing(*x: Any) -> Any:
        return None

    def jumps(*x: Any) -> Any:
        return np.floor(3 * np.asarray(x[0]))

    def random(*x: Any) -> Any:
        return rng.normal(size=np.shape(x[0]))

    good = [columns, points, two, scalar, kinked]
    odd = [raises, at_times, nan, complex_, text, wrong_shape, mixes, nothing, jumps, random]
    return pick(rng, good if rng.random() < 0.75 else odd)


def column(rng: Rng, rows: int) -> Any:
    """A column of a frame as people have them."""
    start = datetime.date(2020, 1, 1)
    ways: list[Callable[[], Any]] = [
        lambda: rng.normal(size=rows),
        lambda: rng.normal(size=rows),
        lambda: np.arange(rows),
        lambda: [None if rng.random() < 0.2 else float(v) for v in rng.normal(size=rows)],
        lambda: [str(pick(rng, ["red", "green", "blue"])) for _ in range(rows)],
        lambda: [bool(b) for b in rng.integers(0, 2, rows)],
        lambda: [start + datetime.timedelta(days=int(k)) for k in rng.integers(0, 900, rows)],
        lambda: np.where(rng.random(rows) < 0.1, np.inf, 1.0),
        lambda: np.zeros(rows),
        lambda: [pick(rng, [1.5, "a", None, True, b"x", [1], start]) for _ in range(rows)],
        lambda: np.array(["2020-01-01", "2021-05-05T12:00"] * rows, dtype="datetime64[s]")[:rows],
    ]
    return pick(rng, ways)()


def kind_of(column: Any) -> str:
    """The kind of a column's type; objects if it is ragged."""
    try:
        return np.asarray(column).dtype.kind
    except ValueError:
        return "O"


def table(rng: Rng, folder: Path) -> Any:
    """A table, or what raises while it is made."""
    d, rows, way = int(rng.integers(1, 5)), int(rng.choice([0, 2, 5, 30, 30, 200])), int(rng.integers(7))
    more: dict[str, Any] = {}
    if rng.random() < 0.4:
        more = {"missing": pick(rng, ["drop", "refuse", "keep", 3]), "repeated": pick(rng, ["mean", "first", "refuse"])}
    if way <= 1:
        x = rng.uniform(-1, 1, (rows, d))
        if way == 1 and rows > 2:
            x[int(rng.integers(rows))] = pick(rng, [np.nan, x[0], 1e300, np.inf])
        with np.errstate(all="ignore"):
            y = pick(rng, [np.sin(x.sum(axis=1)), np.stack([x[:, 0], x[:, 0] ** 2], axis=1), x[:, 0] * 0 + 1, x])
        return sw.Table(x, y, **more)
    if way == 2:
        side = [np.linspace(0, 1, int(rng.integers(1, 8))) for _ in range(min(d, 3))]
        mesh = np.meshgrid(*side, indexing="ij")
        return sw.Table.grid(side, pick(rng, [sum(mesh), np.exp(mesh[0]), np.abs(mesh[-1] - 0.5), np.zeros(3)]))
    columns = {name: column(rng, rows) for name in (*NAMES[:d], "out")}
    inputs, outputs = list(NAMES[:d]), ["out"]
    if rng.random() < 0.15:
        inputs = pick(rng, [[], ["nothing"], "x", inputs + inputs[:1], None])
    if way == 3:
        return sw.Table.from_frame(columns, inputs, outputs, **more)
    if way == 4:
        pandas: Any = import_module("pandas")
        return sw.Table.from_frame(pandas.DataFrame(columns), inputs, outputs, **more)
    path = folder / f"t.{pick(rng, ['csv', 'csv', 'csv', 'npz', 'parquet', 'txt', 'xlsx'])}"
    if path.suffix == ".npz":
        arrays: dict[str, Any] = {k: np.asarray(v, dtype=float) for k, v in columns.items() if kind_of(v) in "fi"}
        np.savez(path, **arrays)
    elif path.suffix == ".parquet":
        pandas: Any = import_module("pandas")
        pandas.DataFrame({k: v for k, v in columns.items() if kind_of(v) in "fiM"}).to_parquet(path)
    else:
        lines = [",".join(columns), *(",".join(str(c[k]) for c in columns.values()) for k in range(rows))]
        if rng.random() < 0.3 and lines:
            at = int(rng.integers(len(lines)))
            lines[at] = pick(rng, ["", "1,2", lines[at] + ",9", '"' + lines[at], "\ufeff" + lines[at], "a;b"])
        path.write_text("\n".join(lines), encoding="utf-8")
    return sw.Table.load(path, inputs, outputs, **more)


# ------------------------------------------------------------------------------------------------------------- options


def sides(rng: Rng, d: int) -> Any:
    """A box: mostly a good one."""
    if rng.random() < 0.1:
        odd = [
            None,
            {},
            {"x": (1, 0)},
            {"x": (0, np.inf)},
            {"t": (0, 1)},
            [(0, 1)] * (d + 1),
            "x=0:1",
            {"x": 3},
            (0, 1),
        ]
        return pick(rng, odd)
    scale = 10.0 ** float(rng.choice([0] * 9 + [-9, 6, 30]))
    lows = np.round(rng.uniform(-2, 1, d), 3)
    bounds = [
        (float(low * scale), float((low + w) * scale)) for low, w in zip(lows, rng.uniform(0.1, 3, d), strict=True)
    ]
    return dict(zip(NAMES, bounds, strict=False)) if rng.random() < 0.8 else bounds


OPTIONS: dict[str, tuple[list[Any], list[Any]]] = {
    "tol": ([1e-2, 1e-3, 1e-4, 0.5, 1e-6], [0, -1, "a", np.nan, np.inf, None, 1e-300, True]),
    "relative": ([True, False, True], [None, "yes", 2]),
    "strategy": (["auto", "layer", "ridge", "grid", "pieces", "scattered", "sum", "spectral", "compose", "affine"],
                 ["best", None, 3, ""]),
    "dtype": (["float64", "float32"], ["float16", int, None, 64]),
    "engine": (["auto", "sdpa", "factorised", "double"], ["gpu", None]),
    "gap": ([1e-3, 1e-6], [0, -1, "wide"]),
    "norm": (["sup", "L1", "L2", 2], ["max", 0, -1, None]),
    "style": (["plain", "readable"], ["nice", None]),
    "max_tokens": ([10, 100, 100_000], [0, -3, 1.5, None]),
    "max_queries": ([200, 3000], [1, -1, "many"]),
    "noise": (["auto", 0.1], [-1, "loud", np.nan]),
    "between": (["auto", "linear", "smooth"], ["cubic", None]),
    "certify": ([True, False], [None, 3]),
    "tightness": ([0.1, 1.0, None], [-1, "tight", 0]),
}  # fmt: skip


def options(rng: Rng) -> dict[str, Any]:
    found: dict[str, Any] = {"tol": pick(rng, OPTIONS["tol"][0])}
    for name in rng.permutation(list(OPTIONS))[: int(rng.integers(0, 4))]:
        found[str(name)] = pick(rng, OPTIONS[str(name)][0 if rng.random() < 0.93 else 1])
    if rng.random() < 0.02:
        found["colour"] = "red"
    return found


def call(rng: Rng, folder: Path) -> tuple[str, Callable[[], Any]]:
    """What is called, in words, and the call."""
    d = int(rng.choice([1, 1, 1, 2, 2, 3, 4, 9]))
    given, box, kind = options(rng), sides(rng, d), pick(rng, ["formula", "formula", "formula", "callable", "table"])
    allowed = {"max_work": 1.5, "max_seconds": 300.0, "progress": False}
    if kind == "table":
        return f"table {given}", lambda: sw.approximate(table(rng, folder), **given, **allowed)
    if kind == "callable":
        target = callables(rng, d)
        words = f"{target.__name__} {box} {given}"
        return words, lambda: sw.approximate(target, box, **given, **allowed)
    text = odd_text(rng) if rng.random() < 0.03 else formula(rng, list(NAMES[:d]))
    if isinstance(text, str) and rng.random() < 0.1:
        text = f"{text}, {formula(rng, list(NAMES[:d]))}"
    return f"{text!r} {box} {given}", lambda: sw.approximate(text, box, **given, **allowed)


# ------------------------------------------------------------------------------------------------------------ one call


def used(built: Any, folder: Path) -> str:
    """The result as a user would use it, and a word on it."""
    box = built.network.box if hasattr(built.network, "box") else None
    repr(built)
    built._repr_html_()
    built.save(path := folder / "f.safetensors")
    again = sw.load(path)
    if box is not None:
        points = box.sample(50, seed=1)
        if not np.array_equal(built(points), again(points)):
            raise OddResult("the loaded network answers otherwise")
    if built.certificate is None:
        return "unproved"
    verdict = sw.verify(path, max_seconds=600)
    if verdict.status == "NOT VERIFIED":
        raise OddResult(f"NOT VERIFIED: {verdict.reason}")
    return verdict.status


def outcome(number: int, seed: int, folder: Path) -> tuple[str, str, str]:
    """Word, what was called, and the traceback of a fault."""
    rng = np.random.default_rng([seed, number])
    words, made = call(rng, folder)

    def stop(*_: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return used(made(), folder), words, ""
    except (sw.InvalidInput, sw.ToleranceNotReached, sw.FileFormatError) as error:
        return type(error).__name__, words, ""
    except TypeError as error:
        if "colour" in words and "colour" in str(error):
            return "unknown option", words, ""
        return "FAULT TypeError", words, traceback.format_exc()
    except TooLong:
        return "FAULT too long", words, traceback.format_exc()
    except Exception as error:
        return f"FAULT {type(error).__name__}", words, traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--only", type=int)
    given = parser.parse_args()
    numbers = [given.only] if given.only is not None else range(given.first, given.first + given.count)
    counts: collections.Counter[str] = collections.Counter()
    for number in numbers:
        started = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            word, words, trace = outcome(number, given.seed, Path(folder))
        counts[word] += 1
        spent = time.process_time() - started
        if word.startswith("FAULT") or given.only is not None or spent > 60:
            print(f"{number} {word} ({spent:.1f} s): {words[:300]}\n{trace[-1500:]}", flush=True)
        if (number + 1) % 50 == 0:
            print(number + 1, dict(counts), flush=True)
    faults = sum(n for word, n in counts.items() if word.startswith("FAULT"))
    print(f"{sum(counts.values())} calls: {dict(counts)}; {faults} faults")


if __name__ == "__main__":
    main()
