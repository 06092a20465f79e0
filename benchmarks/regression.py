"""What became slower: CPU time of the same calls here and in a work tree of an older commit, as ratios of one run.

    python benchmarks/regression.py                    against the last tag, or the first commit if there is none
    python benchmarks/regression.py --against COMMIT
    python benchmarks/regression.py --tree FOLDER      against a work tree that is there

Both trees run the same script, one after the other and three times in turn (--rounds); the least time of each call
counts. A call that one of them does not know is left out. Ratios above 1.3 are reported, and make the exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
MOST = 1.3
_SCRIPT = r"""
import json, time
import numpy as np, torch
start = time.process_time()
import softwright as sw
sw.approximate("sin(3*x)", {"x": (-1, 1)}, tol=1e-4)
found = {"first approximate": time.process_time() - start}
torch.set_num_threads(1)
line, plane = {"x": (-1, 1)}, {"x": (-1, 1), "y": (-1, 1)}
rng = np.random.default_rng(0)


def timed(name, call):
    try:
        start = time.process_time()
        result = call()
        found[name] = time.process_time() - start
        return result
    except Exception as error:
        found[name] = None


timed("sin(20*x) 1e-6", lambda: sw.approximate("sin(20*x)", line, tol=1e-6, certify=False))
timed("abs(sin(5*x)) 1e-6", lambda: sw.approximate("abs(sin(5*x))", line, tol=1e-6, certify=False))
text = "sin(3*x)*exp(-y**2)"
built = timed(text + " 1e-6", lambda: sw.approximate(text, plane, tol=1e-6, strategy="grid", certify=False))
timed("proof of it", lambda: sw.certify(built.network, text, bound=1e-6))
points = rng.uniform(-1, 1, (300_000, 2))
timed("300,000 points", lambda: built(points))
timed("1,000 single points", lambda: [built(x=0.3, y=0.1) for _ in range(1000)])
sequences = [list(map(int, row)) for row in rng.integers(0, 9, (2000, 6))]
unique = [list(row) for row in dict.fromkeys(map(tuple, sequences))]
timed("2,000 sequences memorised", lambda: sw.memorize(unique, list(range(len(unique)))))
print(json.dumps(found))
"""


def times(tree: Path) -> dict[str, float | None]:
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    said = subprocess.run([sys.executable, "-c", _SCRIPT], env=environment, capture_output=True, text=True, check=True)
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
    slower = 0
    for name, mine in now.items():
        if name in before:
            ratio = min(mine) / min(before[name])
            slower += ratio > MOST
            told = f"{min(mine):8.3f} s, was {min(before[name]):8.3f} s: {ratio:5.2f} x"
            print(f"{name:<32} {told}{'  SLOWER' if ratio > MOST else ''}")
    return slower


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(HERE), *arguments], capture_output=True, text=True, check=False
    ).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description="What became slower")
    parser.add_argument("--against", help="a commit or tag")
    parser.add_argument("--tree", type=Path, help="a work tree that is there")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if given.tree:
        sys.exit(1 if compared(given.tree.resolve(), given.rounds) else 0)
    commit = given.against or git("describe", "--tags", "--abbrev=0") or git("rev-list", "--max-parents=0", "HEAD")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "old"
        git("worktree", "add", "--detach", str(place), commit)
        try:
            slower = compared(place, given.rounds)
        finally:
            git("worktree", "remove", "--force", str(place))
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
