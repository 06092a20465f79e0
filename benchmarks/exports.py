"""Kinds x exporters: the largest deviation from torch beside the claim's rounding part, in both dtypes.

    python benchmarks/exports.py [--points 100000] [--rows theorem --rows program] [--write docs/exports.md]
    python benchmarks/exports.py --times                 the last column alone
    python benchmarks/exports.py --only-c                the last two columns; the page keeps the others
    python benchmarks/exports.py --put LOG --write PAGE  the rows that an earlier run printed

Every exported file answers batches of 1, of 7, and of 5,000 until all points are answered (`exporting/`). A cell is the
largest deviation over the points; two runs that a claim covers differ by at most twice its rounding part, which stands
in the first column. Cells of runtimes that are not installed stay empty; "none" is what a format does not hold, and the
reason is printed. C is compiled at -O0, -O2 and -O3 by every compiler found; the last column is torch's CPU time in a
batch of 20,000 over that of C, called for one input after another: so much less CPU does one point cost there.
With --rows, only networks whose names hold one of the words are measured, and the page keeps its other rows.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from exporting.networks import LARGEST, MANY, NETWORKS, inputs
from exporting.runs import ALL_ASK, EXPORTERS, Run, c_runs

import softwright as sw
from softwright.export.selftest import allowance, answered

BATCHES, DTYPES = (1, 7, LARGEST), ("float64", "float32")
SOME, TURNS, ENOUGH = 20_000, 12, 2.0  # points in a batch, turns and CPU seconds, for times


def deviation(run: Run, given: tuple[np.ndarray, ...], y: np.ndarray) -> float:
    """The largest difference to torch over batches of every size, the largest of them over all points."""
    worst, largest = 0.0, BATCHES[-1]
    parts = [slice(0, size) for size in BATCHES[:-1]]
    for part in (*parts, *(slice(at, at + largest) for at in range(0, len(y), largest))):
        found = np.asarray(run(*(array[part] for array in given)))
        assert found.shape == y[part].shape and found.dtype == y.dtype
        off = np.abs(found.astype(float) - y[part])
        if not np.isfinite(off).all():
            return np.inf
        worst = max(worst, float(off.max()))
    return worst


def faster(built: sw.Built[Any], run: Run, given: tuple[np.ndarray, ...]) -> float:
    """Torch's CPU time in one batch over that of C at one point after another, the least of several turns of each."""
    few, turns = tuple(array[:SOME] for array in given), []
    while len(turns) < TURNS and (len(turns) < 3 or sum(map(sum, turns)) < ENOUGH):
        turns.append((_seconds(lambda: answered(built, few)), _seconds(lambda: run(*few))))
    by_torch, by_c = (min(turn[i] for turn in turns) for i in range(2))
    return by_torch / by_c


def _seconds(call: Callable[[], Any]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def row(name: str, dtype: str, points: int, exporters: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The cells of one network, those of `exporters` and of C, and what went beyond its claim."""
    torch.set_num_threads(1)
    built = NETWORKS[name](dtype)
    rounding = built.certificate.rounding_part if built.certificate is not None else 0.0
    x = inputs(name, built, points)
    y = answered(built, x)
    many = inputs(name, built, points, MANY) if built.kind == "in_context" and exporters else x
    allowed, why = allowance(built, float(np.abs(y).max()))
    cells = [name, dtype, f"{rounding:.1e}" if "rounding part" in why else f"{allowed:.1e} allowed"]
    beyond = []

    def cell(label: str, runs: list[Run], given: tuple[np.ndarray, ...]) -> str:
        wanted = y if given is x else answered(built, given)
        off = max((deviation(run, given, wanted) for run in runs), default=None)
        if off is not None and not off <= allowed:
            beyond.append(f"{name} {dtype} {label}: {off:.3g} > {allowed:.3g}")
        return "" if off is None else f"{off:.1e}"

    with TemporaryDirectory() as folder:
        for label, make in exporters.items():
            given = many if make in ALL_ASK else x
            try:
                run = make(built, Path(folder), given)
            except sw.InvalidInput as error:
                cells.append("none")
                print(f"{name} {dtype} {label}: {str(error)[:150]}", flush=True)
                continue
            cells.append(cell(label, [] if run is None else [run], given))
        try:
            runs = c_runs(built, Path(folder), x)
        except sw.InvalidInput as error:
            print(f"{name} {dtype} C: {str(error)[:150]}", flush=True)
            return [*cells, "none", "none"], beyond
        cells.append(cell("C", list(runs.values()), x))
        ratios = [f"{faster(built, runs[label], x):.1f}" for label in ("gcc -O2", "clang -O2") if label in runs]
        cells.append(" / ".join(ratios))
    return cells, beyond


def times(name: str, dtype: str) -> str:
    """Both compilers' code beside torch, and nothing else."""
    torch.set_num_threads(1)
    built = NETWORKS[name](dtype)
    x = inputs(name, built, SOME)
    with TemporaryDirectory() as folder:
        try:
            runs = c_runs(built, Path(folder), x, ("-O2",))
        except sw.InvalidInput as error:
            return f"{name}, {dtype}: {error}"
        return f"{name}, {dtype}: " + ", ".join(f"{label} {faster(built, run, x):.2f}" for label, run in runs.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--write", type=Path, help="put the table into this page, between its two marks")
    parser.add_argument("--rows", action="append", default=[], help="a word of the names of the networks to measure")
    parser.add_argument("--dtype", action="append", choices=DTYPES, help="both unless given")
    parser.add_argument("--times", action="store_true", help="measure the last column alone, and write no table")
    parser.add_argument("--only-c", action="store_true", help="measure the last two columns alone")
    parser.add_argument("--put", type=Path, action="append", default=[], help="what runs printed: put its rows alone")
    options = parser.parse_args()
    wanted = [name for name in NETWORKS if not options.rows or any(word in name for word in options.rows)]
    if options.times:
        for name, dtype in ((name, dtype) for name in wanted for dtype in options.dtype or DTYPES):
            print(times(name, dtype), flush=True)
        return
    compilers = [name for name in ("gcc", "clang") if shutil.which(name)]
    exporters = {} if options.only_c else EXPORTERS
    head = [
        "network",
        "dtype",
        "rounding part",
        *exporters,
        f"C ({', '.join(compilers)})",
        f"torch CPU / C CPU ({', '.join(compilers)})",
    ]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    beyond: list[str] = []
    if options.put:
        found = [line for log in options.put for line in log.read_text("utf-8").splitlines()]
        said = [one for one in found if one.startswith("| ")]
        put([said[0], *(one for one in said if not one.startswith(lines[0][:20]))], options.write)
        return
    print("\n".join(lines), flush=True)
    for name in wanted:
        for dtype in options.dtype or DTYPES:
            try:
                cells, over = row(name, dtype, options.points, exporters)
            except sw.SoftwrightError as error:
                cells, over = [name, dtype, f"none: {str(error)[:120]}", *[""] * (len(head) - 3)], []
            lines.append(f"| {' | '.join(cells)} |")
            beyond += over
            print("\n".join((lines[-1], *over)), flush=True)
    print("\n".join(beyond) or "no cell beyond its claim")
    if options.write:
        put([lines[0], *lines[2:]], options.write)


def put(lines: list[str], page: Path) -> None:
    """Write the table between the page's two marks; what of it was not measured anew stays. The first line names the
    columns, the others are rows."""
    before, mark, rest = page.read_text("utf-8").partition("<!-- exports -->\n")
    table, end, after = rest.partition("<!-- end -->\n")
    if not mark or not end:
        raise SystemExit(f"{page} has no marks <!-- exports --> and <!-- end -->")
    head, *kept = [_cells(line) for line in table.splitlines() if not line.startswith("|---")]
    rows = {(row[0], row[1]): dict(zip(head, row, strict=True)) for row in kept}
    new, *measured = map(_cells, lines)
    head += [name for name in new if name not in head]
    for row in measured:
        rows[row[0], row[1]] = rows.get((row[0], row[1]), {}) | dict(zip(new, row, strict=True))
    order = list(NETWORKS)
    places = sorted((row for row in rows if row[0] in order), key=lambda row: order.index(row[0]))
    written = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    written += [f"| {' | '.join(rows[place].get(name, '') for name in head)} |" for place in places]
    page.write_text(f"{before}{mark}{chr(10).join(written)}\n{end}{after}", "utf-8")


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


if __name__ == "__main__":
    main()
