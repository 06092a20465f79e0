"""Every benchmark in a short form, one page of results: what `make bench` runs.

    python benchmarks/all.py                      short forms, two at a time, into docs/benchmarks.md
    python benchmarks/all.py --full               the long forms, without a limit of time
    python benchmarks/all.py --only fast,grids    some of them, on the screen alone

A row of `ROWS` is a script with its short and its long arguments; a script without a row runs without arguments. Each
is a process of its own with one thread.
In the short form it gets `LIMIT` seconds by the clock: one that needs longer is stopped, and the page shows what it had
said by then. All of them together get `TOTAL`: near its end rows get what is left of it, `LEAST` at least. A row that
fails is written down as what it is, and the next one runs. Peers are part of the scripts, so that they ran in the same
minutes on the same machine. The page names processor, versions and date, and no host, user or folder.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import math
import os
import platform
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
LIMIT = 40.0  # seconds of a short form
TOTAL, LEAST = 720.0, 5.0  # seconds of all short forms, and of one that begins when they are over
LINES = 14  # of a script's output that are shown, if its row says nothing else
_PACKAGES = ("softwright", "torch", "numpy", "scipy", "numba", "scikit-learn", "onnxruntime")


@dataclass(frozen=True)
class Row:
    script: str
    short: str = ""
    full: str = ""
    more: float = 0.0  # seconds beyond the limit, for what measures many things
    lines: int = LINES


ROWS = (
    Row("fast", "--short", more=80, lines=60),
    Row("fast", "--growth 100", "--full"),
    Row("trees", "--short"),
    Row("large_grids", "--short", "--verify --workers 2", more=20),
    Row("regression", "--rounds 1"),
    Row("approximate", "--rows exp(x) --adam-seconds 1"),
    Row("certify", "--quick --no-verify --part boxes --only sin --seconds 1"),
    Row("compile", "--rows circle --one-layer 0", "--peers 120"),
    Row("feynman", "--tol 1e-3 --part 1/20 --verify", "--verify"),
    Row("primitives", "--tol 1e-3"),
    Row("engineering", "--rows griewank heron"),
    Row("grammar", "--count 6 --points 2000", "--verify"),
    Row("callables", "--rows circuit --no-peers"),
    Row("random_calls", "--count 10"),
    Row("tables", "--part sizes --rows 2500"),
    Row("datasets", "--rows diabetes"),
    Row("memory", "--points 2000 --only affine"),
    Row("runtimes", "--points 1000 --no-compile", "--points 100000"),
    Row("memorize", "--quick --part recall", "--seconds 60"),
    Row("transpile", "--quick --part speed"),
    Row("transpile_soundness", "--networks 5 --points 1000"),
    Row("networks", "--only relu --steps 20"),
    Row("sequences", "--core --only length --beside 0", "--core"),
    Row("tracrbench", "--every 30"),
    Row("further_programs", "--only sort"),
    Row("in_context", "--quick ols"),
    Row("methods", "linear --random 2"),
    Row("end_to_end", "--prompts 1 --false 1"),
    Row("exports", "--points 1000 --rows line --dtype float64"),
    Row("zoo", "--part 0/200"),
    Row("exp_accuracy", "--stride 1000"),
    Row("single_precision", "--networks 8"),
    Row("soundness", "--quick --networks 2 --claims 2 --mutations 3 --extremes 6"),
    Row("proof_attacks", "--family grids --count 3 --claims 2"),
    Row("brought", "--list named guards --only 1 2 --tol 1e-3"),
    Row("climb", "--count 3"),
    Row("false_claims", "--count 10"),
    Row("forge", "--count 5 --kind approximation-s", more=20),
    Row("extremes", "--count 50"),
    Row("stack_attacks", "--networks 2"),
    Row("program_attacks", "--forge 1 --claims 1 --kind symbols", more=40),
    Row("onnx_forgery", "--graphs 10"),
    Row("hostile", "--count 50", more=20),
    Row("tracing", "--only tree"),
    Row("cluster", "--part same --bound 2e-4", "--part all", more=30),
    Row("pages", "--only kinds", more=50),
    Row("studio_load", "--builds 4 --clients 2"),
    Row("studio_attack", "--requests 50"),
)


APART = ("all", "studio_server", "tracr_peer")  # what others start, or needs what no package index has


def rows_of(folder: Path = HERE) -> list[Row]:
    """The rows, and one for every other script of the folder."""
    scripts = {path.stem for path in folder.glob("*.py") if '__name__ == "__main__"' in path.read_text("utf-8")}
    known = [row for row in ROWS if row.script in scripts]
    return [*known, *(Row(name) for name in sorted(scripts - {row.script for row in ROWS} - set(APART)))]


@dataclass(frozen=True)
class Told:
    """What became of a row: its seconds, how it ended, and the end of what it said."""

    row: Row
    arguments: str
    seconds: float
    ended: str
    lines: list[str]


def arguments_of(row: Row, full: bool) -> list[str]:
    return (row.full if full else row.short).split()


def run(row: Row, full: bool, limit: float = LIMIT, until: float = math.inf) -> Told:
    """One row; a short form is stopped after `limit` seconds and what the row has more, and soon after `until`."""
    chosen, limit = arguments_of(row, full), max(LEAST, min(limit + row.more, until - time.monotonic()))
    command = [sys.executable, str(HERE / f"{row.script}.py"), *chosen]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE.parent / "src"), environment.get("PYTHONPATH")]))
    start = time.monotonic()
    # A group of its own: what a script starts ends with it.
    process = subprocess.Popen(
        command,
        cwd=HERE.parent,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=None if full else limit)
        ended = "ended" if process.returncode == 0 else f"exit code {process.returncode}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        ended = f"stopped after {limit:.0f} s"
    seconds = time.monotonic() - start
    lines = [without_places(line.rstrip())[:160] for line in said.splitlines() if line.strip()]
    return Told(row, " ".join(chosen), seconds, ended, lines[-row.lines :])


def without_places(text: str) -> str:
    """The text without folders and hosts of this machine."""
    for place in (str(HERE.parent), str(Path.home()), sys.prefix):
        text = text.replace(place, "...")
    text = text.replace(platform.node(), "...") if len(platform.node()) > 2 else text
    return re.sub(r"(?:/(?:tmp|root|home|work|usr|var|opt)(?:/[\w.+-]+)+)", "...", text)


def processor() -> str:
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def versions() -> str:
    known = []
    for name in _PACKAGES:
        try:
            known.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join([f"Python {platform.python_version()}", *known])


def page(told: list[Told], full: bool, seconds: float, rows: int) -> str:
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    load = os.getloadavg()[1] if hasattr(os, "getloadavg") else float("nan")
    form = "long forms" if full else f"short forms, about {LIMIT:.0f} s each at most"
    ended = f"{sum(one.ended == 'ended' for one in told)} of {len(told)}"
    ran = "" if len(told) == rows else f" (a run that was stopped: {rows - len(told)} of {rows} benchmarks are missing)"
    out = [
        "# Benchmarks",
        "",
        f"Written by `make bench` on {day}: {form}, {seconds / 60:.0f} minutes in all{ran}, {ended} ended by",
        f"themselves. {processor()}, {os.cpu_count()} cores, load {load:.0f}; {versions()}.",
        "Short forms show that everything runs and in which range figures are; figures that the other pages quote come",
        "from long forms (`make bench FULL=1`), each named there. Exit code 1 is how a benchmark says that",
        "something is missed; what it misses is in its lines. A package that is not installed is named by its row.",
        "",
        "| benchmark | arguments | s | |",
        "|---|---|---|---|",
        *(f"| [{t.row.script}](#{t.row.script}) | `{t.arguments}` | {t.seconds:.0f} | {t.ended} |" for t in told),
        "",
    ]
    for one in told:
        out += [
            f"## {one.row.script}",
            "",
            f"`{' '.join([one.row.script + '.py', one.arguments]).strip()}`: {one.ended}",
            "",
        ]
        out += ["```text", *one.lines, "```", ""]
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description="Every benchmark, one page")
    parser.add_argument("--full", action="store_true", help="the long forms, one after the other")
    parser.add_argument("--only", default="", help="scripts, separated by commas; the page is not written")
    parser.add_argument("--seconds", type=float, default=LIMIT, help="of a short form at most")
    parser.add_argument("--out", type=Path, default=PAGE)
    given = parser.parse_args()
    rows = [row for row in rows_of() if not given.only or row.script in given.only.split(",")]
    start = time.monotonic()
    until = start + TOTAL
    with ThreadPoolExecutor(1 if given.full else 2) as pool:
        told = []
        for one in pool.map(lambda row: run(row, given.full, given.seconds, until), rows):
            told.append(one)
            print(f"{one.row.script:<24} {one.seconds:6.1f} s  {one.ended}", flush=True)
            if given.only:
                print("\n".join(one.lines))
            else:  # after each, so that a run that is stopped leaves what it has
                given.out.write_text(page(told, given.full, time.monotonic() - start, len(rows)))


if __name__ == "__main__":
    main()
