"""Does a certified network ever exceed its bound? Random networks of every verb, and a search for the worst input.

    python benchmarks/climb.py                          1,000 networks
    python benchmarks/climb.py --first 200 --count 50   networks 200 to 250 of the same run
    python benchmarks/climb.py --save FOLDER            keeps the counts of this piece there, files that violate beside
    python benchmarks/climb.py --add FOLDER             one table of all pieces in a folder

Networks are drawn verb by verb (`climbing/`), written to a file and loaded again; what runs is what was loaded, in its
own dtype, against the reference in balls of 200 bits (`judging/`). Approximations are climbed by their exact gradient
in 60 digits too. A violation is an error above the certificate's bound; the run ends with exit code 1.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from climbing import approximate, in_context, memorize, theorem, transpile
from climbing.job import Job
from judging.claim import CannotJudge, Claim, Seen
from judging.kinds import JUDGES
from judging.search import LONG, Effort

import softwright as sw
from softwright.fileformat import read_model

DRAWS: dict[str, Callable[[np.random.Generator], Job | None]] = {
    "approximate": approximate.draw,
    "memorize": memorize.draw,
    "transpile": transpile.draw,
    "in context": in_context.draw,
    "theorem": theorem.draw,
}
MOST_DRAWS = 50
Row = dict[str, Any]  # trial, verb, what, share, cause, detail


def drawn(verb: str, seed: int, trial: int) -> Job | None:
    """The first certified network that the generator of this trial draws."""
    rng = np.random.default_rng([seed, trial])
    for _ in range(MOST_DRAWS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            job = DRAWS[verb](rng)
        if job is not None and job.built.certificate is not None:
            return job
    return None


def climbed(job: Job, path: Path, effort: Effort) -> Seen:
    """The worst that is seen of a network that was written and loaded."""
    job.built.save(path)
    file, loaded = read_model(path), sw.load(path)
    claim = Claim(path, file.tensors, file.sections, known=job.known)
    return JUDGES[claim.kind](claim, loaded, effort) | job.further(claim, loaded)


def run(first: int, count: int, seed: int, effort: Effort, place: Path, keep: Path | None) -> list[Row]:
    rows, verbs, path = [], list(DRAWS), place / "climbed.safetensors"
    for trial in range(first, first + count):
        verb = verbs[trial % len(verbs)]
        job = drawn(verb, seed, trial)
        if job is None:
            continue
        row: Row = {"trial": trial, "verb": verb, "what": job.what}
        try:
            seen = climbed(job, path, replace(effort, seed=trial))
            row |= {"share": float(min(seen.share, 1e300)), "cause": seen.cause, "detail": seen.detail}
        except CannotJudge as error:
            row |= {"share": None, "cause": "beyond the judge", "detail": str(error)}
        rows.append(row)
        if row["share"] is not None and row["share"] > 1:
            print(f"VIOLATION in trial {trial}: {job.what}: {row['cause']} ({row['detail']})", flush=True)
            if keep is not None and path.exists():
                shutil.copyfile(path, keep / f"violation-{seed}-{trial}.safetensors")
        if count >= 100 and (trial + 1) % 50 == 0:
            print(f"{trial + 1}: {len(rows)} networks", flush=True)
    return rows


def report(rows: list[Row]) -> str:
    lines = ["| verb | networks | violations | closest to its bound | median | unjudged |", "|---|---|---|---|---|---|"]
    for verb in (*DRAWS, "**all**"):
        own = [row for row in rows if verb in (row["verb"], "**all**")]
        shares = sorted(row["share"] for row in own if row["share"] is not None)
        closest, median = (f"{shares[-1]:.4f}", f"{shares[len(shares) // 2]:.2g}") if shares else ("", "")
        wrong = sum(share > 1 for share in shares)
        lines.append(f"| {verb} | {len(own)} | {wrong} | {closest} | {median} | {len(own) - len(shares) or ''} |")
    best = max((row for row in rows if row["share"] is not None), key=lambda row: row["share"], default=None)
    return "\n".join([*lines, "", f"the closest: {best['what']}, {best['detail']}" if best else "no network"])


def violations(rows: list[Row]) -> int:
    return sum(row["share"] is not None and row["share"] > 1 for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first network, for a run in pieces")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, help="a folder for the counts of this piece, and for files that violate")
    parser.add_argument("--add", type=Path, help="a folder of pieces to be added up")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.add is not None:
        rows = [row for piece in sorted(options.add.glob("*.json")) for row in json.loads(piece.read_text("utf-8"))]
    else:
        if options.save is not None:
            options.save.mkdir(parents=True, exist_ok=True)
        started = time.process_time()
        with tempfile.TemporaryDirectory() as place:
            rows = run(options.first, options.count, options.seed, LONG, Path(place), options.save)
        if options.save is not None:
            piece = options.save / f"{options.seed}-{options.first}-{options.count}.json"
            piece.write_text(json.dumps(rows, indent=1), "utf-8")
        print(f"{time.process_time() - started:.0f} s")
    print(report(rows))
    sys.exit(1 if violations(rows) else 0)


if __name__ == "__main__":
    main()
