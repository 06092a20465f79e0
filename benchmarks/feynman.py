"""The 100 Feynman equations with default options: built, proved, tokens, layers and CPU seconds, at three tolerances.

    python benchmarks/feynman.py --verify              all of them; `verify` proves every file again
    python benchmarks/feynman.py --tol 1e-6 --names I.6.2 I.41.16
    python benchmarks/feynman.py --strategy compose    as stacks, whatever one layer would take
    python benchmarks/feynman.py --strategy layer --tol 1e-3    as one layer, for the comparison below
    python benchmarks/feynman.py --dtype float32 --tol 1e-3 1e-4
    python benchmarks/feynman.py --part 1/4 --log a.jsonl  a quarter of them; every row goes to the file as well
    python benchmarks/feynman.py --summary *.jsonl     what such files hold, together

Tolerances are relative to half the range of the equation on its box. An equation that is not proved is named with the
reason. Seconds are CPU seconds of build, check and proof. A summary of files with rows of one layer also compares: the
tokens of the default choice and of stacks over those equations that one layer proves.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

import softwright as sw

DATA = Path(__file__).resolve().parent / "data" / "feynman.csv"
ONE_LAYER = "layer"


class Row(NamedTuple):
    name: str
    tol: float
    dtype: str
    strategy: str
    proved: bool
    tokens: int
    layers: int
    seconds: float
    status: str
    reason: str


def equations(names: list[str]) -> list[tuple[str, str, sw.Box]]:
    with DATA.open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = []
    for row in rows:
        sides = dict(side.split("=") for side in row["box"].split())
        box = sw.Box({name: tuple(map(float, ends.split(":"))) for name, ends in sides.items()})
        if not names or row["name"] in names:
            found.append((row["name"], row["formula"], box))
    return found


def run(name: str, text: str, box: sw.Box, options: argparse.Namespace, tol: float) -> Row:
    asked = (name, tol, options.dtype, options.strategy)
    started = time.process_time()
    try:
        built = sw.approximate(
            text,
            box,
            tol=tol,
            relative=True,
            strategy=options.strategy,
            dtype=options.dtype,
            max_work=options.max_work,
            progress=False,
        )
    except (sw.InvalidInput, sw.ToleranceNotReached) as error:
        reason = str(error).splitlines()[0]
        return Row(*asked, False, 0, 0, time.process_time() - started, "", reason[:110])
    seconds = time.process_time() - started
    status = ""
    if options.verify and built.certificate is not None:
        with tempfile.TemporaryDirectory() as folder:
            built.save(path := Path(folder) / "row.safetensors")
            status = sw.verify(path).status
    layers = getattr(built.network, "depth", 1)
    return Row(*asked, built.certificate is not None, built.plan.tokens, layers, seconds, status, built.unproved)


def described(row: Row) -> str:
    said = f"{row.tokens} tokens, {row.layers} layers, {row.seconds:.2f} s {row.status}"
    return f"  {row.name:10s} {'proved' if row.proved else 'not proved: ' + row.reason} {said}"


def summary(rows: list[Row]) -> str:
    """One line about rows of one setting."""
    good = [row for row in rows if row.proved]
    head = f"tol {rows[0].tol:g} ({rows[0].dtype}, {rows[0].strategy}): {len(good)} of {len(rows)} proved"
    if not good:
        return head
    tokens, seconds = [row.tokens for row in good], [row.seconds for row in rows]
    verified = sum(row.status == "VERIFIED" for row in good)
    return (
        head
        + (f", {verified} VERIFIED" if any(row.status for row in good) else "")
        + f"; tokens median {np.median(tokens):g}, most {max(tokens)}, sum {sum(tokens)};"
        f" layers at most {max(row.layers for row in good)};"
        f" CPU s median {np.median(seconds):.2f}, most {max(seconds):.2f} (what is not proved included)"
    )


def compared(rows: Iterable[Row]) -> list[str]:
    """Tokens over the equations that one layer proves: of one layer, of the default choice, of stacks."""
    found: dict[tuple[float, str], dict[str, dict[str, Row]]] = {}
    for row in rows:
        if row.proved:
            found.setdefault((row.tol, row.dtype), {}).setdefault(row.strategy, {})[row.name] = row
    said = []
    for (tol, dtype), by in found.items():
        single = by.pop(ONE_LAYER, {})
        if not single or not by:
            continue
        line = f"tol {tol:g} ({dtype}): {len(single)} by one layer, {sum(r.tokens for r in single.values())} tokens"
        for strategy, others in by.items():
            both = [others[name] for name in single if name in others]
            more = [r.name for r in both if r.tokens > single[r.name].tokens]
            line += f"; {strategy}: {len(both)} of them, {sum(r.tokens for r in both)} tokens"
            line += f", more than one layer: {', '.join(more) or 'none'}"
        said.append(line)
    return said


def summarise(rows: list[Row]) -> None:
    settings = list(dict.fromkeys((row.tol, row.dtype, row.strategy) for row in rows))
    for setting in settings:
        # The last row of an equation counts: one that was run again is not counted twice.
        latest = {row.name: row for row in rows if (row.tol, row.dtype, row.strategy) == setting}
        for row in latest.values():
            if not row.proved or row.status not in ("", "VERIFIED"):
                print(described(row))
        print(summary(list(latest.values())), flush=True)
    for line in compared(rows):
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--tol", type=float, nargs="+", default=[1e-3, 1e-6, 1e-9])
    parser.add_argument("--names", nargs="*", default=[])
    parser.add_argument("--strategy", default="auto")
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--max-work", type=float, default=60.0)
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--part", default="1/1", help="for example 2/4: the second quarter of the equations")
    parser.add_argument("--log", type=Path, help="a file that gets a line of JSON for each row")
    parser.add_argument("--summary", type=Path, nargs="+", help="run nothing; tell what these files hold")
    options = parser.parse_args()
    if options.summary:
        lines = [line for path in options.summary for line in path.read_text().splitlines()]
        summarise([Row(**json.loads(line)) for line in lines])
        return
    part, parts = map(int, options.part.split("/"))
    rows = []
    for tol in options.tol:
        for name, text, box in equations(options.names)[part - 1 :: parts]:
            row = run(name, text, box, options, tol)
            rows.append(row)
            if options.names or not row.proved:
                print(described(row), flush=True)
            if options.log is not None:
                with options.log.open("a") as file:
                    file.write(json.dumps(row._asdict()) + "\n")
    summarise(rows)


if __name__ == "__main__":
    main()
