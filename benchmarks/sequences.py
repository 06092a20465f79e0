"""Programs over sequences: what is proved, what is seen, what it costs. `python benchmarks/sequences.py [--hunt N]`

One row for every program of the library, in float64 and float32, at the lengths at which exactness is claimed: 512, and
4,096 for length, histogram, shift, reverse and stable sorting; parity to 64; real numbers at 128 (float64, tolerance
1e-6) and 32 (float32, 1e-3). `seen` is the largest deviation over random and adversarial sequences, seconds are CPU.
`--hunt N` goes on with fresh seeds until N tokens have been looked at. The peer, tracr at its default and at its best
settings (`tracr_peer.py`), runs beside ours, on the same sequences, where `--tracr PYTHON` names an environment that
has it; else it is skipped, with the reason.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch

import softwright as sw
from softwright.precision import precision_of
from softwright.programs.build import Construction, build
from softwright.programs.examples.library import LIBRARY, Example
from softwright.programs.meaning import Meaning, meaning
from softwright.programs.observe import observe
from softwright.result.observed import Observed

SYMBOLIC = ("length", "histogram", "shift", "reverse", "sort", "sort_unique", "sort_by_frequency", "fraction_previous")
SYMBOLIC += ("pair_balance", "shuffle_dyck_1", "shuffle_dyck_2", "detect_pattern", "induction", "count_less_frequent")
SYMBOLIC += ("most_frequent", "palindrome", "first_occurrence", "parity")
REAL = ("centre", "standardise", "softmax", "log_sum_exp", "moving_average", "exponential_smoothing", "cumulative_sum")
REAL += ("convolution", "running_maximum", "running_minimum", "centroid_distance", "centroid_distance_8", "trend")
REAL += ("regression_slope", "nadaraya_watson", "deep_sets", "deep_sets_2", "deep_sets_equivariant", "interpolate")
REAL += ("three_nearest", "n_body", "n_body_plane", "sort_reals", "median_reals")
LONG = ("length", "histogram", "shift", "reverse", "sort")
_LETTERS, _NUMBERS, _BRACKETS = ("s", sw.Symbols("abcdefgh")), ("k", sw.Integers(1, 8)), ("s", sw.Symbols("(){}"))
_OPEN = "b = sum((s[j] == '(') - (s[j] == ')') for j <= i)"
_CURLY = "c = sum((s[j] == '{') - (s[j] == '}') for j <= i)"
BESIDE: dict[str, tuple[tuple[str, Any], str]] = {  # tracr's programs, with the same meaning and the same tokens
    "length": (_LETTERS, "n"),
    "reverse": (_LETTERS, "s[n-1-i]"),
    "histogram": (_LETTERS, "count(s[j] == s[i])"),
    "sort": (_NUMBERS, "sorted(k)[i]"),
    "sort_unique": (_NUMBERS, "sorted(k)[i]"),
    "sort_by_frequency": (_LETTERS, "sorted(s, by=-count(s[j] == s[i]))[i]"),
    "fraction_previous": (_LETTERS, "mean((s[j] == 'a') for j <= i)"),
    "pair_balance": (_BRACKETS, "mean((s[j] == '(') - (s[j] == ')') for j <= i)"),
    "shuffle_dyck_1": (_BRACKETS, f"{_OPEN}; all(b >= 0) and last(b) == 0"),
    "shuffle_dyck_2": (_BRACKETS, f"{_OPEN}; {_CURLY}; all(b >= 0 and c >= 0) and last(b) == 0 and last(c) == 0"),
    "count_less_frequent": (_LETTERS, "h = count(s[j] == s[i]); count(h[j] <= 2)"),
    "shift": (_LETTERS, "prev(s, 1, default='a')"),
    "detect_pattern": (_LETTERS, "s == 'c' and prev(s, 1, default='a') == 'b' and prev(s, 2, default='b') == 'a'"),
    "count": (_LETTERS, "count(s[j] == 'a')"),
}
HEADINGS = f"{'program':22s} {'dtype':8s} {'n':>5s} {'layers':>6s} {'heads':>5s} {'width':>5s} {'parameters':>10s} "
HEADINGS += f"{'bound':>9s} {'seen':>9s} {'tokens':>8s} {'build s':>8s} {'verify s':>8s}  verdict"


def lengths_of(row: Example, dtype: str) -> list[tuple[int, float]]:
    """The lengths and tolerances of a program in the table."""
    real = meaning(row.text, row.tokens(4)).type_of(meaning(row.text, row.tokens(4)).outputs[0]).kind == "real"
    if row.name == "parity":
        return [(64, 1e-6)]
    if real and all(field != "s" for field in row.fields):
        return [(128 if row.longest == 64 else row.longest, max(1e-6, row.tol))] if dtype == "float64" else [(32, 1e-3)]
    tol = 1e-6 if dtype == "float64" else 1e-3
    return [(512, tol), *([(4096, tol)] if row.name in LONG else [])]


def measure(row: Example, dtype: str, longest: int, tol: float) -> int:
    """Print one row; how many tokens are off by more than the bound."""
    started = time.process_time()
    try:
        built = sw.compile(row.text, row.tokens(longest), tol=tol, dtype=dtype, progress=False)
        note = ""
    except sw.ToleranceNotReached as error:
        built, note = error.best, " (bound above the tolerance)"
    except sw.InvalidInput as error:
        print(f"{row.name:22s} {dtype:8s} {longest:5d} refused: {' '.join(error.faults[0].split())[:150]}", flush=True)
        return 0
    seconds, started = time.process_time() - started, time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        built.save(path := Path(folder) / "p.safetensors")
        verdict = sw.verify(path, progress=False)
    network, bound = built.network, built.certificate.bound
    seen = built.observed or Observed(float("nan"), (), 0)
    size = f"{network.depth:6d} {network.heads:5d} {network.width:5d} {built.plan.parameters:10d}"
    print(
        f"{row.name:22s} {dtype:8s} {longest:5d} {size} {bound:9.2e} {seen.error:9.2e} {seen.points:8d} "
        f"{seconds:8.2f} {time.process_time() - started:8.2f}  {verdict.status}{note}",
        flush=True,
    )
    return int(seen.error > bound)


def hunt(wanted: int, only: str) -> None:
    """Fresh random and adversarial sequences until so many tokens have been seen; every network is built once."""
    made: list[tuple[Meaning, Construction, float]] = []
    for row in LIBRARY.values():
        for dtype, tol in (("float64", 1e-6), ("float32", 1e-2)):
            if only in row.name:
                meant = meaning(row.text, row.tokens(24))
                try:
                    made.append((meant, build(meant, precision_of(dtype), Fraction(tol)), tol))
                except sw.InvalidInput:
                    continue
    count, beyond, seed, worst = 0, 0, 1, 0.0
    while made and count < wanted:
        for meant, construction, tol in made:
            seen = observe(construction.network, meant, tol, seed, rounds=3)
            bound = float(max(construction.errors))
            count, beyond = count + seen.points, beyond + (seen.error > bound)
            worst = max(worst, seen.error / bound if bound else seen.error)
        seed += 1
    print(f"hunt: {count} tokens, {beyond} violations, closest observed/bound {worst:.3f}", flush=True)


def peer(python: str, n: int, most: float) -> None:
    """tracr's programs beside ours on the same sequences: wrong tokens, layers, width, parameters, seconds to build."""
    found = subprocess.run([python, "-c", "import tracr, haiku"], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        reason = (found.stderr.strip().splitlines() or ["it does not start"])[-1]
        print(f"tracr: skipped, {reason}; give --tracr PYTHON of an environment with tracr, jax and dm-haiku")
        return
    print(f"\nbeside tracr, for sequences of up to {n} tokens")
    print(f"{'program':22s} {'by':26s} {'wrong':>11s} {'layers':>6s} {'width':>6s} {'parameters':>10s} {'seconds':>8s}")
    script = str(Path(__file__).with_name("tracr_peer.py"))
    with subprocess.Popen([python, script, str(n), str(most)], stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout or ():
            said = json.loads(line)
            name = said["program"]
            if "sequences" in said:
                for dtype in ("float64", "float32"):
                    print_beside(
                        name, f"softwright, {dtype}", beside(name, n, dtype, said["sequences"], said["wanted"])
                    )
            else:
                print_beside(name, f"tracr, {said['setting']}", said)


def print_beside(name: str, by: str, said: dict[str, Any]) -> None:
    if "error" in said:
        print(f"{name:22s} {by:26s} {said['error']}", flush=True)
        return
    wrong = f"{said['wrong']}/{said['tokens']}"
    sizes = f"{said['layers']:6d} {said['width']:6d} {said['parameters']:10d}"
    print(f"{name:22s} {by:26s} {wrong:>11s} {sizes} {said['seconds']:8.1f}", flush=True)


def beside(name: str, n: int, dtype: str, sequences: list[list[Any]], wanted: list[list[Any]]) -> dict[str, Any]:
    """The same program of ours on the same sequences; a token is wrong as it is for tracr."""
    (field, kind), text = BESIDE[name]
    started = time.process_time()
    built = sw.compile(text, {"length": (1, n), field: kind}, tol=1e-3, dtype=dtype, progress=False)
    seconds, wrong = time.process_time() - started, 0
    for tokens, right in zip(sequences, wanted, strict=True):
        for value, number in zip(built(**{field: tokens}), right, strict=True):
            if number is not None:
                bad = value != number if isinstance(number, str) else not abs(float(value) - number) <= 0.01
                wrong += bad
    network = built.network
    sizes = {"layers": network.depth, "width": network.width, "parameters": built.plan.parameters}
    return {"wrong": wrong, "tokens": sum(map(len, sequences)), **sizes, "seconds": seconds}


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--hunt", type=int, default=0, help="tokens to look at with fresh seeds")
    reader.add_argument("--core", action="store_true", help="of the library the programs that others are compared by")
    reader.add_argument("--only", default="", help="programs whose name holds this")
    reader.add_argument("--tracr", default=sys.executable, help="the Python of an environment with tracr")
    reader.add_argument("--beside", type=int, default=16, help="longest sequence of the table beside tracr; 0: none")
    reader.add_argument("--peer-seconds", type=float, default=120, help="CPU seconds that tracr has for one program")
    reader.add_argument("--only-hunt", action="store_true", help="no table, fresh seeds alone")
    reader.add_argument("--only-peer", action="store_true", help="the table beside tracr alone")
    options = reader.parse_args()
    torch.set_num_threads(1)
    if options.only_peer:
        peer(options.tracr, options.beside, options.peer_seconds)
        return
    if options.only_hunt:
        hunt(options.hunt, options.only)
        return
    print(HEADINGS)
    wrong = 0
    rows = [LIBRARY[name] for name in (*SYMBOLIC, *REAL)] if options.core else LIBRARY.values()
    for row in rows:
        if options.only in row.name:
            for dtype in ("float64", "float32"):
                for longest, tol in lengths_of(row, dtype):
                    wrong += measure(row, dtype, longest, tol)
    print(f"rows with a token beyond its bound: {wrong}")
    if options.hunt:
        hunt(options.hunt, options.only)
    if options.beside:
        peer(options.tracr, options.beside, options.peer_seconds)


if __name__ == "__main__":
    main()
