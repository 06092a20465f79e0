"""TracrBench in softwright's language: `python benchmarks/tracrbench.py [--dtype float32] [--only NUMBER]`.

Every row of data/tracrbench.csv is compiled for sequences of 1 to its own longest length and of 1 to 64, proved, saved
and verified from the file. Its outputs are compared with a plain Python function (tracr_meanings.py) on sequences
of several lengths: whole numbers, symbols and truth values must be equal, reals within the bound (and the rounding
of the Python function). A row passes if nothing is wrong at both lengths. Seconds are CPU.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tracr_meanings import MEANINGS, Row

import softwright as sw
from softwright.programs.written import read_tokens

PLACE = Path(__file__).parent / "data" / "tracrbench.csv"
LONG = 64
SEQUENCES = 24  # for each length that is looked at
PYTHON = 1e-14  # relative error of the plain functions


@dataclass(frozen=True)
class Case:
    number: int
    says: str
    longest: int
    fields: str
    text: str
    meaning: Row


def cases() -> list[Case]:
    with PLACE.open(encoding="utf-8", newline="") as stream:
        return [
            Case(number := int(r["number"]), r["says"], int(r["longest"]), r["fields"], r["program"], MEANINGS[number])
            for r in csv.DictReader(stream)
        ]


def random_sequence(tokens: sw.Sequence, n: int, rng: np.random.Generator) -> list[Any]:
    """Of the one field that these programs have; few different values in one case of three."""
    (field,) = tokens.fields.values()
    values = list(field.symbols) if field.kind == "symbol" else list(field.values)
    if rng.random() < 1 / 3:
        values = [values[int(k)] for k in rng.integers(0, len(values), 2)]
    drawn = [values[int(k)] for k in rng.integers(0, len(values), n)]
    return sorted(drawn, key=values.index) if rng.random() < 0.2 else drawn


def wrong_tokens(built: Any, case: Case, tokens: sw.Sequence, rng: np.random.Generator) -> tuple[int, int]:
    """How many tokens come out otherwise than the plain function says, and how many there were."""
    name, symbols = tokens.names[0], tokens.symbols
    wrong = count = 0
    for n in sorted({1, 2, 3, tokens.longest // 2 + 1, tokens.longest}):
        batch = [random_sequence(tokens, min(n, tokens.longest), rng) for _ in range(SEQUENCES)]
        x, lengths, _ = built.network.encoded(**{name: batch})
        with torch.no_grad():
            found = built.network(x, lengths).double().numpy()
        for sequence, rows in zip(batch, found, strict=True):
            for value, row in zip(case.meaning(sequence), rows, strict=False):
                parts = value if isinstance(value, tuple) else (value,)
                numbers = [float(symbols.index(part)) if isinstance(part, str) else float(part) for part in parts]
                for wanted, got, kind in zip(numbers, row, built.network.outputs, strict=True):
                    allowed = built.certificate.bound + PYTHON * max(1.0, abs(wanted)) if kind == "real" else 0.0
                    wrong += not abs(got - wanted) <= allowed
            count += len(sequence)
    return wrong, count


def measure(case: Case, longest: int, dtype: str) -> tuple[bool, str]:
    """Whether a program is right and verified at a length, and a line about it."""
    tokens, started = read_tokens(f"length=1:{longest} {case.fields}"), time.process_time()
    tol = 1e-6 if dtype == "float64" else 1e-2
    try:
        built = sw.compile(case.text, tokens, tol=tol, dtype=dtype, progress=False)
    except sw.SoftwrightError as error:
        return False, f"refused: {str(error).splitlines()[0][:110]}"
    seconds = time.process_time() - started
    wrong, count = wrong_tokens(built, case, tokens, np.random.default_rng(case.number))
    with tempfile.TemporaryDirectory() as folder:
        built.save(path := Path(folder) / "p.safetensors")
        verdict = sw.verify(path, progress=False)
    network, bound = built.network, built.certificate.bound
    what = "exact" if bound == 0 else f"{bound:.1e}"
    size = f"{network.depth:2d} layers {network.heads:3d} heads width {network.width:4d}"
    line = f"{size} {built.plan.parameters:8d} parameters, {what:8s} {wrong} of {count} wrong, {seconds:5.2f} s"
    line = f"{line}, {verdict.status}"
    return wrong == 0 and verdict.status == "VERIFIED" and built.observed_error <= bound, line


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--dtype", default="float64", choices=("float64", "float32"))
    reader.add_argument("--only", type=int, default=0, help="one program, by number")
    reader.add_argument("--every", type=int, default=1, help="every so many programs alone")
    reader.add_argument("--first", type=int, default=0, help="from which one on")
    options = reader.parse_args()
    torch.set_num_threads(1)
    passed = total = 0
    for case in cases()[options.first :: options.every]:
        if options.only not in (0, case.number):
            continue
        results = [(n, *measure(case, n, options.dtype)) for n in (case.longest, LONG)]
        total += 1
        passed += all(good for _, good, _ in results)
        for n, good, line in results:
            print(f"{case.number:3d} {case.says:34s} n {n:2d} {'pass' if good else 'FAIL'}  {line}", flush=True)
    print(f"{passed} of {total} right, proved and verified at their own lengths and at {LONG}, {options.dtype}")


if __name__ == "__main__":
    main()
