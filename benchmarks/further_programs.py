"""Programs as others would write them, compared with plain Python: `python benchmarks/further_programs.py [--only T]`.

The rows of data/further_programs.csv are what a user of RASP, somebody who studies learning in context, and an engineer
of signals may ask for; none of them is in the library. Each is compiled in float64 (tolerance 1e-6) and float32 (1e-2),
for sequences of up to 12 tokens, compared with the reading of tests/programs/plain_python.py on all short sequences of
few values and on random ones, saved and verified. A float32 bound above the tolerance is told, not counted as wrong.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch

import softwright as sw
from softwright.programs.written import read_tokens

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.programs.plain_python import Plain

PLACE = Path(__file__).parent / "data" / "further_programs.csv"
LONGEST, SHORT, FEW, RANDOM = 12, 3, 3, 8
PYTHON = 1e-12  # what the plain reading may err by, in functions of reals


def values_of(tokens: sw.Sequence, name: str) -> list[Any]:
    """A few values of a field, ends among them."""
    field = tokens.fields[name]
    if field.kind == "real":
        return [field.low, field.high, float(np.float32(0.7 * field.low + 0.3 * field.high))]
    codes = tokens.codes(name)
    return codes if len(codes) <= FEW else [codes[0], codes[len(codes) // 2], codes[-1]]


def sequences(tokens: sw.Sequence, rng: np.random.Generator) -> Iterator[dict[str, list[Any]]]:
    """All short sequences of few values, by field; then random ones."""
    few = [values_of(tokens, name) for name in tokens.names]
    for n in range(1, SHORT + 1):
        for rows in itertools.islice(itertools.product(itertools.product(*few), repeat=n), 120):
            yield {name: [row[k] for row in rows] for k, name in enumerate(tokens.names)}
    for n in (*range(1, LONGEST + 1), *([LONGEST] * RANDOM)):
        yield {
            name: rng.uniform(f.low, f.high, n).astype(np.float32).astype(float).tolist()
            if f.kind == "real"
            else [int(c) for c in rng.choice(tokens.codes(name), n)]
            for name, f in tokens.fields.items()
        }


def leads(text: str, fields: dict[str, list[Any]]) -> bool:
    """Whether the margin that a program names is kept; the rows name 0.01 of x."""
    ordered = sorted(fields.get("x", [0.0]))
    return "margin" not in text or len(ordered) < 2 or ordered[-1] - ordered[-2] >= 0.01


def wrong(built: Any, text: str, tokens: sw.Sequence) -> tuple[int, int]:
    """How many tokens are off by more than the bound, and how many there were."""
    bad = count = 0
    for fields in sequences(tokens, np.random.default_rng(7)):
        if not leads(text, fields):
            continue
        rows = torch.tensor([fields[name] for name in tokens.names], dtype=torch.float64).T[None]
        with torch.no_grad():
            found = built.network(rows.to(built.network.dtype))[0].double().numpy()
        exact = {name: [Fraction(v) for v in row] for name, row in fields.items()}
        for (
            wanted,
            got,
        ) in zip(Plain(text, exact, tokens.symbols).outputs, found, strict=True):
            for one, value, kind in zip(wanted, got, built.network.outputs, strict=True):
                allowed = built.certificate.bound + PYTHON * max(1.0, abs(float(one))) if kind == "real" else 0.0
                bad += not abs(float(value) - float(one)) <= allowed
            count += 1
    return bad, count


def measure(row: dict[str, str], dtype: str) -> str:
    """One line about a program in one dtype; the first word is the outcome."""
    tokens, started = read_tokens(f"length=1:{LONGEST} {row['fields']}"), time.process_time()
    note = "right"
    try:
        built = sw.compile(
            row["program"], tokens, tol=1e-6 if dtype == "float64" else 1e-2, dtype=dtype, progress=False
        )
    except sw.ToleranceNotReached as error:
        built, note = error.best, "told"  # its bound is above the tolerance
    except sw.SoftwrightError as error:
        return f"refused {' '.join(str(error).split())[:200]}"
    seconds = time.process_time() - started
    bad, count = wrong(built, row["program"], tokens)
    with tempfile.TemporaryDirectory() as folder:
        built.save(path := Path(folder) / "p.safetensors")
        verdict = sw.verify(path, progress=False)
    note = note if bad == 0 and verdict.verified else "WRONG"
    size = f"{built.network.depth} layers {built.network.heads} heads"
    return f"{note} {size}, bound {built.certificate.bound:.1e}, {bad} of {count}, {seconds:.2f} s, {verdict.status}"


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--only", default="", help="programs whose text holds this")
    reader.add_argument("--dtype", default="", choices=("", "float64", "float32"), help="one type alone")
    options = reader.parse_args()
    torch.set_num_threads(1)
    with PLACE.open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if options.only in row["program"]]
    outcomes: Counter[tuple[str, str]] = Counter()
    for row in rows:
        for dtype in [options.dtype] if options.dtype else ["float64", "float32"]:
            line = measure(row, dtype)
            outcomes[dtype, line.split()[0]] += 1
            print(f"{row['who']:6s} {row['program'][:60]:60s} {dtype} {line}", flush=True)
    for (dtype, outcome), count in sorted(outcomes.items()):
        print(f"{dtype}: {count} of {len(rows)} {outcome}")


if __name__ == "__main__":
    main()
