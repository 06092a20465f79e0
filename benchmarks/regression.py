"""What became slower: CPU time of the same calls here and in a work tree of an older commit, as ratios of one run.

    python benchmarks/regression.py                    against the last release
    python benchmarks/regression.py --against COMMIT
    python benchmarks/regression.py --tree FOLDER      against a work tree that is there
    python benchmarks/regression.py --rounds 1         in half a minute

The last release is the last tag; as long as there is none, it is the commit of `FIRST`. Both trees run the same calls,
one tree after the other and three times in turn (--rounds); quick calls are repeated. The least time of each call
counts, on one thread, without the first of its kind, which also loads modules (the first line is one that counts it).
A call that the old tree does not know is named and not compared. Ratios above 1.3 are reported, and make the exit
code 1; exit code 2 says that there was nothing to compare with.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
MOST = 1.3
FIRST = "3099659"  # the first version that built, proved and stored what is asked below
_SCRIPT = r"""
import json, os, tempfile, time
import numpy as np, torch
start = time.process_time()
import softwright as sw
sw.approximate("sin(3*x)", {"x": (-1, 1)}, tol=1e-4)
found = {"first approximate after import torch": time.process_time() - start}
torch.set_num_threads(1)
line, plane = {"x": (-1, 1)}, {"x": (-1, 1), "y": (-1, 1)}
rng = np.random.default_rng(0)


def timed(name, call):
    least, spent = None, 0.0
    try:
        for number in range(6):
            start = time.process_time()
            result = call()
            took = time.process_time() - start
            if number or took > 2:  # the first call of a kind also loads what the others need
                least, spent = (took if least is None else min(least, took)), spent + took
            if spent > 0.3:
                break
        found[name] = least
        return result
    except Exception:  # the version does not know it
        found[name] = None


timed("sin(20*x) to 1e-6", lambda: sw.approximate("sin(20*x)", line, tol=1e-6, certify=False))
timed("abs(sin(5*x)) to 1e-6", lambda: sw.approximate("abs(sin(5*x))", line, tol=1e-6, certify=False))
text = "sin(3*x)*exp(-y**2)"
built = timed(text + " on a grid", lambda: sw.approximate(text, plane, tol=1e-6, strategy="grid", certify=False))
proved = timed("the same with proof", lambda: sw.approximate(text, plane, tol=1e-6, strategy="grid"))
points = rng.uniform(-1, 1, (300_000, 2))
timed("300,000 points of it", lambda: built(points))
timed("1,000 single points of it", lambda: [built(x=0.3, y=0.1) for _ in range(1000)])
file = os.path.join(tempfile.mkdtemp(), "it.safetensors")
timed("save it", lambda: proved.save(file))
timed("load it", lambda: sw.load(file))
timed("verify it", lambda: sw.verify(file))
unique = [list(row) for row in dict.fromkeys(map(tuple, rng.integers(0, 9, (2000, 6)).tolist()))]
timed("2,000 sequences memorised", lambda: sw.memorize(unique, list(range(len(unique)))))
torch.manual_seed(0)
layers = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2)).double()
timed("64 neurons transpiled", lambda: sw.transpile(layers, box=(-1, 1)))
timed("ridge in context", lambda: sw.in_context("ridge", features=3, penalty=0.1))
timed("theorem A1", lambda: sw.theorem("A1").build(points=50, tokens=3, dim=2))
count = "count(s[j] == s[i])"
timed("a program of symbols", lambda: sw.compile(count, sw.Sequence(length=(1, 32), s=sw.Symbols("abc"))))
print(json.dumps(found))
"""


def times(tree: Path) -> dict[str, float | None]:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = {**os.environ, **threads, "PYTHONPATH": str(tree / "src")}
    said = subprocess.run([sys.executable, "-c", _SCRIPT], env=environment, capture_output=True, text=True, check=False)
    if said.returncode:
        print(said.stderr.strip().splitlines()[-1] if said.stderr.strip() else f"exit code {said.returncode}")
        sys.exit(2)
    return json.loads(said.stdout.splitlines()[-1])


def compared(old: Path, rounds: int = 3) -> int:
    """Print a line for every call; how many became too slow."""
    now: dict[str, list[float]] = {}
    before: dict[str, list[float]] = {}
    for _ in range(rounds):
        for tree, into in ((HERE, now), (old, before)):
            for name, seconds in times(tree).items():
                if seconds is not None:
                    into.setdefault(name, []).append(seconds)
    ratios: list[float] = []
    for name, mine in now.items():
        least = min(mine)
        if name not in before:
            print(f"{name:<38} {least:8.3f} s, not there before")
            continue
        ratios.append(least / max(min(before[name]), 1e-6))
        told = f"{least:8.3f} s, was {min(before[name]):8.3f} s: {ratios[-1]:5.2f} x"
        print(f"{name:<38} {told}{'  SLOWER' if ratios[-1] > MOST else ''}")
    slower = sum(ratio > MOST for ratio in ratios)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan
    print(f"{slower} of {len(ratios)} more than {MOST} x slower; geometric mean {mean:.2f} x")
    return slower


def git(*arguments: str) -> tuple[str, str]:
    """What git says, and why it failed."""
    done = subprocess.run(["git", "-C", str(HERE), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip(), done.stderr.strip() if done.returncode else ""


def main() -> None:
    parser = argparse.ArgumentParser(description="What became slower")
    parser.add_argument("--against", help="a commit or tag")
    parser.add_argument("--tree", type=Path, help="a work tree that is there")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if given.tree:
        sys.exit(1 if compared(given.tree.resolve(), given.rounds) else 0)
    commit = given.against or git("describe", "--tags", "--abbrev=0")[0] or FIRST
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "old"
        fault = git("worktree", "add", "--detach", str(place), commit)[1]
        if fault:
            print(f"there is no commit {commit} to compare with (a clone with its history has it): {fault}")
            sys.exit(2)
        print(f"beside {commit}")
        try:
            slower = compared(place, given.rounds)
        finally:
            git("worktree", "remove", "--force", str(place))
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
