"""The 100 Feynman equations, compiled into stacks: built, proved, tokens, layers and CPU seconds, at three tolerances.

    python benchmarks/feynman.py                       all of them, with default options
    python benchmarks/feynman.py --tol 1e-6 --names I.6.2 I.41.16
    python benchmarks/feynman.py --strategy compose    as stacks, whatever one layer would take
    python benchmarks/feynman.py --dtype float32 --tol 1e-3

Tolerances are relative to half the range of the equation on its box. An equation that is not built is named with the
reason. Seconds are CPU seconds of build, check and proof; `verify` proves every file again where the checker can.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import softwright as sw

DATA = Path(__file__).resolve().parent / "data" / "feynman.csv"


class Row(NamedTuple):
    name: str
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
    started = time.process_time()
    try:
        built = sw.approximate(
            text, box, tol=tol, relative=True, strategy=options.strategy, dtype=options.dtype, progress=False
        )
    except (sw.InvalidInput, sw.ToleranceNotReached) as error:
        reason = str(error).splitlines()[0]
        return Row(name, False, 0, 0, time.process_time() - started, "", reason[:110])
    seconds = time.process_time() - started
    status = ""
    if options.verify and built.certificate is not None:
        with tempfile.TemporaryDirectory() as folder:
            built.save(path := Path(folder) / "row.safetensors")
            status = sw.verify(path).status
    layers = getattr(built.network, "depth", 1)
    return Row(name, built.certificate is not None, built.plan.tokens, layers, seconds, status, built.unproved)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--tol", type=float, nargs="+", default=[1e-3, 1e-6, 1e-9])
    parser.add_argument("--names", nargs="*", default=[])
    parser.add_argument("--strategy", default="auto")
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--verify", action="store_true")
    options = parser.parse_args()
    for tol in options.tol:
        rows = []
        for name, text, box in equations(options.names):
            row = run(name, text, box, options, tol)
            rows.append(row)
            if options.names or not row.proved:
                said = f"{row.tokens} tokens, {row.layers} layers, {row.seconds:.2f} s {row.status}"
                print(f"  {name:10s} {'proved' if row.proved else 'not proved: ' + row.reason} {said}", flush=True)
        good = [row for row in rows if row.proved]
        if not good:
            continue
        tokens, seconds = [row.tokens for row in good], [row.seconds for row in good]
        verified = sum(row.status == "VERIFIED" for row in good)
        print(
            f"tol {tol:g} ({options.dtype}): {len(good)} of {len(rows)} proved"
            + (f", {verified} VERIFIED" if options.verify else "")
            + f"; tokens median {np.median(tokens):g}, most {max(tokens)}, sum {sum(tokens)};"
            f" layers at most {max(row.layers for row in good)};"
            f" CPU s median {np.median(seconds):.2f}, most {max(seconds):.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
