"""Attacks on proofs: random networks, the worst input that climbing finds, judged in balls; and claims that are false.

    python benchmarks/proof_attacks.py                                    500 networks and 200 false claims a family
    python benchmarks/proof_attacks.py --family grids --first 0 --count 100 --claims 40 --save FOLDER
    python benchmarks/proof_attacks.py --add FOLDER                       one table of all pieces

    grids       grid heads, whose models are made axis by axis, against sums of sines, both engines
    gates       heads that are maxima of affine pieces, of which some meet at a point and some do not
    float32     the rounding of float32 networks, engines "sdpa" and "double", by batches and memory orders as they come
    solution    least squares and ridge in context, against the exact solution in balls
    prompts     transformers with replaced blocks at a prompt and in a ball round it, against the exact source in balls

A network violates if an error that is certain (the run, or the network in real arithmetic, in balls of 200 bits at the
end of a climb) is above its bound. A false claim states less than such an error, or speaks of another network than the
one that was proved: none may be proved or verified. The exit code is 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attacking import grids, prompts, single_precision, solution
from attacking.result import Result
from flint import ctx

FAMILIES: dict[str, Callable[[np.random.Generator, bool], Result]] = {
    "grids": grids.attack,
    "gates": grids.attack_gates,
    "float32": single_precision.attack,
    "solution": solution.attack,
    "prompts": prompts.attack,
}


def run(family: str, first: int, count: int, claims: int) -> list[dict[str, Any]]:
    rows, made = [], 0
    for seed in range(first, first + count):
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = FAMILIES[family](np.random.default_rng([seed, len(family)]), made < claims)
        made += found.claims
        row = {"family": family, "seed": seed, "share": found.share, "claims": found.claims, "proved": found.proved}
        rows.append({**row, "what": found.what, "seconds": time.process_time() - started})
        if found.share > 1 or found.proved:
            print(f"FAULT in {family} {seed}: {row}, {found.what}", flush=True)
    return rows


def report(rows: list[dict[str, Any]]) -> str:
    lines = ["| family | networks | violations | closest to its bound | false claims | proved | CPU s |"]
    lines.append("|---|---:|---:|---:|---:|---:|---:|")
    for family in FAMILIES:
        own = [row for row in rows if row["family"] == family]
        if own:
            shares = [row["share"] for row in own]
            tried, proved = (sum(row[name] for row in own) for name in ("claims", "proved"))
            cells = len(own), sum(share > 1 for share in shares), f"{max(shares):.4f}", tried, proved
            spent = sum(row["seconds"] for row in own)
            lines.append(f"| {family} | {' | '.join(map(str, cells))} | {spent:.0f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", choices=list(FAMILIES), action="append")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--claims", type=int, default=200)
    parser.add_argument("--save", type=Path, help="a folder for the rows of this piece")
    parser.add_argument("--add", type=Path, help="a folder of pieces to be added up")
    options = parser.parse_args()
    torch.set_num_threads(1)
    ctx.prec = 200
    if options.add is not None:
        rows = [row for piece in sorted(options.add.glob("*.json")) for row in json.loads(piece.read_text("utf-8"))]
    else:
        rows = []
        for family in options.family or FAMILIES:
            own = run(family, options.first, options.count, options.claims)
            rows += own
            if options.save is not None:
                options.save.mkdir(parents=True, exist_ok=True)
                (options.save / f"{family}-{options.first}-{options.count}.json").write_text(json.dumps(own), "utf-8")
    print(report(rows))
    sys.exit(1 if any(row["share"] > 1 or row["proved"] for row in rows) else 0)


if __name__ == "__main__":
    main()
