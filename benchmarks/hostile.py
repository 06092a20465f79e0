"""Hostile inputs: no traceback, no hang, no memory, no code. Whatever is found is listed with the seed that repeats it.

    python benchmarks/hostile.py                         50,000 inputs over all kinds, in two processes
    python benchmarks/hostile.py --count 500             a small run
    python benchmarks/hostile.py --kind onnx --first 17 --count 1      one input again

The kinds are those of `hostility/`: formulas, arguments, CSV, NPZ, lines of JSON, Parquet, ONNX, tokenizer and model
files; random ones and valid ones with bits flipped, pieces cut, exchanged and doubled, sizes that lie, nesting without
end, odd characters, wrong types, bombs, and Python code in every text. Input `n` of a kind depends on the seed, the
kind and `n` alone. Each is given to the library or to the command line inside a worker process under an alarm (10 CPU
seconds), a limit of memory, and an audit hook (`hostility/guard.py`). An exception that is not one of softwright's own
is a traceback. A process that ends, or works for a minute without a word, counts against the input it was working on.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import starmap
from multiprocessing.connection import Connection
from pathlib import Path

PIECE = 5000  # inputs for one process
SILENCE, STARVED = 60.0, 1800.0  # seconds that a worker may work, and that it may wait for a processor, without a word
REPORT = 50  # inputs after which a worker tells what it found
ALIVE, FOUND, DONE = "alive", "found", "done"


@dataclass
class Tally:
    """What came of the inputs of one kind."""

    inputs: int = 0
    words: Counter[str] = field(default_factory=Counter)
    tracebacks: list[str] = field(default_factory=list)
    hangs: list[str] = field(default_factory=list)
    executed: list[str] = field(default_factory=list)
    slowest: float = 0.0
    resident: float = 0.0

    def add(self, other: Tally) -> None:
        self.inputs += other.inputs
        self.words += other.words
        self.tracebacks += other.tracebacks
        self.hangs += other.hangs
        self.executed += other.executed
        self.slowest, self.resident = max(self.slowest, other.slowest), max(self.resident, other.resident)

    @property
    def findings(self) -> list[str]:
        return [*self.tracebacks, *self.hangs, *self.executed]


def attack(kind: str, first: int, count: int, seed: int, tell: Connection | None = None) -> Tally:
    """Inputs `first` to `first + count - 1` of a kind, in this process; what is left to tell at the end."""
    import numpy as np
    from hostility import KINDS
    from hostility.folder import Folder
    from hostility.guard import Guard, HangError, resident

    total = tally = Tally()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        folder, attacker = Folder(Path(name).resolve()), KINDS[kind][0]()
        tempfile.tempdir = name  # so that temporary files are written in the folder, too
        attacker.prepare(folder)
        guard = Guard(folder.path)
        for number in range(first, first + count):
            if tell is not None:
                tell.send((ALIVE, number))
            rng = np.random.default_rng([seed, sorted(KINDS).index(kind), number])
            started, place = time.process_time(), f"{kind} --first {number} --seed {seed}"
            try:
                with guard.watching():
                    word = attacker.attack(rng, folder)
            except HangError:
                word = "hang"
                tally.hangs.append(place)
            except Exception as error:
                word = "traceback"
                lines = traceback.extract_tb(error.__traceback__)
                ours = [line for line in lines if "softwright" in line.filename] or lines
                at = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
                tally.tracebacks.append(f"{place}: {type(error).__name__} at {at}: {str(error)!r:.120}")
            tally.executed += [f"{place}: {event}" for event in guard.seen]
            guard.seen.clear()
            tally.words[word] += 1
            tally.inputs += 1
            tally.slowest = max(tally.slowest, time.process_time() - started)
            tally.resident = resident()
            if tell is not None and tally.inputs == REPORT:
                tell.send((FOUND, tally))
                total = tally = Tally()
        tempfile.tempdir = None
    return total


def _work(tell: Connection, kind: str, first: int, count: int, seed: int) -> None:
    """A worker process: one piece of a kind."""
    os.environ["OMP_NUM_THREADS"] = "1"
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)  # libraries of other languages print there
    import hostility  # noqa: F401 (imported before memory is limited)
    import torch
    from hostility.guard import limit_memory

    torch.set_num_threads(1)
    limit_memory()
    tell.send((DONE, attack(kind, first, count, seed, tell)))


def run_piece(kind: str, first: int, count: int, seed: int) -> Tally:
    """A piece in a process of its own; begun again behind an input that ends or silences the process."""
    total, end = Tally(), first + count
    while total.inputs < count:
        here, there = multiprocessing.Pipe(duplex=False)
        start = first + total.inputs
        worker = multiprocessing.get_context("spawn").Process(
            target=_work, args=(there, kind, start, end - start, seed)
        )
        worker.start()
        there.close()
        ended, at = listen(here, worker.pid or 0, total)
        worker.kill()
        worker.join()
        if ended != DONE:
            at = start if at is None else at
            if (lost := at - first - total.inputs) > 0:  # what was not told yet is done again
                total.add(run_piece(kind, at - lost, lost, seed))
            place = f"{kind} --first {at} --seed {seed}"
            (total.hangs if ended == "hang" else total.tracebacks).append(f"{place}: {ended}")
            total.words[ended] += 1
            total.inputs += 1
    return total


def listen(here: Connection, pid: int, total: Tally) -> tuple[str, int | None]:
    """What a worker tells goes to `total`; how it ended, and at which input."""
    at: int | None = None
    heard, worked = time.monotonic(), 0.0
    try:
        while True:
            if here.poll(2.0):
                word, content = here.recv()
                heard, worked = time.monotonic(), cpu_seconds(pid)
                if word == ALIVE:
                    at = content
                    continue
                total.add(content)
                if word == DONE:
                    return DONE, at
            elif cpu_seconds(pid) - worked > SILENCE or time.monotonic() - heard > STARVED:
                return "hang", at
    except EOFError:
        return "the process ended", at


def cpu_seconds(pid: int) -> float:
    """What a process has worked so far; nothing if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def report(tallies: dict[str, Tally], seconds: float) -> None:
    print("| kind | inputs | tracebacks | hangs | code run | slowest (CPU s) | resident (MB) | how they ended |")
    print("|---|---|---|---|---|---|---|---|")
    for kind, tally in tallies.items():
        words = ", ".join(f"{word} {n}" for word, n in tally.words.most_common())
        counts = f"{len(tally.tracebacks)} | {len(tally.hangs)} | {len(tally.executed)}"
        print(f"| {kind} | {tally.inputs:,} | {counts} | {tally.slowest:.1f} | {tally.resident:.0f} | {words} |")
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    print(
        f"\n{total.inputs:,} inputs in {seconds:.0f} s: {len(total.tracebacks)} tracebacks, {len(total.hangs)} hangs, "
        f"{len(total.executed)} times code run, at most {total.resident:.0f} MB resident"
    )
    for finding in total.findings:
        print(f"  {finding}")


def main() -> None:
    from hostility import KINDS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS, help="this kind alone")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--here", action="store_true", help="in this process, for a debugger")
    options = parser.parse_args()
    shares = {options.kind: 1.0} if options.kind else {kind: share for kind, (_, share) in KINDS.items()}
    started, tallies = time.perf_counter(), {kind: Tally() for kind in shares}
    pieces = []
    for kind, share in shares.items():
        end = options.first + max(1, round(options.count * share))
        pieces += [(kind, at, min(PIECE, end - at), options.seed) for at in range(options.first, end, PIECE)]
    with ThreadPoolExecutor(options.processes) as pool:
        found_by_piece = starmap(attack, pieces) if options.here else pool.map(run_piece, *zip(*pieces, strict=True))
        for piece, found in zip(pieces, found_by_piece, strict=True):
            tallies[piece[0]].add(found)
            print(f"{piece[0]} from {piece[1]}: {found.inputs} inputs, {len(found.findings)} findings", file=sys.stderr)
            print(*found.findings, sep="\n", end="\n" * bool(found.findings), file=sys.stderr, flush=True)
    report(tallies, time.perf_counter() - started)
    raise SystemExit(1 if any(tally.findings for tally in tallies.values()) else 0)


if __name__ == "__main__":
    main()
