"""float32: how much rounding is proved, and how much is there. Nine networks, by both engines.

    python benchmarks/single_precision.py
    python benchmarks/single_precision.py --networks 8    without the last, which takes most of the time

For every network: the rounding part that is proved for engine "sdpa", and the largest rounding that is seen, i.e. the
difference between the run and the same float32 numbers in float64 (whose own rounding is a billionth of it), at random
points and on the way up from the worst of them; then the whole bound for engine "double" against the largest error
against the formula that is seen. Every bound is verified.
"""

from __future__ import annotations

import argparse
import copy
import math
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from acceptance import Line, printed

import softwright as sw
from softwright.attention.network import AttentionNetwork
from softwright.targets import Expression

FRANKE = (
    "0.75*exp(-((9*x-2)**2 + (9*y-2)**2)/4) + 0.75*exp(-(9*x+1)**2/49 - (9*y+1)/10)"
    " + 0.5*exp(-((9*x-7)**2 + (9*y-3)**2)/4) - 0.2*exp(-(9*x-4)**2 - (9*y-7)**2)"
)
LINE, PLANE = {"x": (-1, 1)}, {"x": (-1, 1), "y": (-1, 1)}
CUBE = {**PLANE, "z": (-1, 1)}
JOBS: list[tuple[str, dict[str, Any], float]] = [
    ("sin(3*x)", LINE, 1e-4),
    ("1/(1 + 25*x**2)", LINE, 1e-3),
    ("abs(x - 0.3)", LINE, 1e-3),
    ("sin(20*x)", LINE, 1e-3),
    ("sin(x + 2*y)*exp(-x**2)", PLANE, 1e-3),
    (FRANKE, {"x": (0, 1), "y": (0, 1)}, 5e-3),
    ("sin(3*x) + exp(-2*y)", PLANE, 1e-3),
    ("x*y*z", CUBE, 1e-3),
    ("1/(1 + x**2 + y**2 + z**2)", CUBE, 1e-3),
]


@dataclass
class Row:
    """One network: what is proved and what is seen."""

    text: str
    tokens: int
    boxes: int  # engine sdpa
    proved: float  # rounding, engine sdpa
    seen: float
    bound: float  # all of it, engine double
    error: float
    verified: bool
    checking: float  # CPU seconds
    seconds: float

    @property
    def ratio(self) -> float:
        return self.proved / self.seen

    @property
    def total(self) -> float:
        return self.bound / self.error


def climbed(network: AttentionNetwork, gap, points: int, seed: int = 5) -> float:
    """The largest value of `gap` (points -> values) at random float32 points of the box, and uphill of them."""
    box, rng = network.box, np.random.default_rng(seed)

    def rounded(x: np.ndarray) -> np.ndarray:
        x = np.clip(x, box.lower, box.upper).astype(np.float32).astype(float)
        return x[box.contains(x)]

    x = rounded(box.sample(points, seed))
    values = gap(x)
    best = float(values.max())
    start = x[np.argsort(-values)[:200]]
    for step in (0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5, 1e-6):
        trial = rounded(
            (start[:, None] + step * box.halfwidth * rng.normal(size=(len(start), 60, box.dim))).reshape(-1, box.dim)
        )
        values = gap(trial)
        best = max(best, float(values.max()))
        start = np.concatenate([start, trial])[np.argsort(-np.concatenate([gap(start), values]))[:200]]
    return best


def rows(points: int = 200_000, networks: int = len(JOBS)) -> Iterator[Row]:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for text, box, tol in JOBS[:networks]:
            started = time.process_time()
            built = sw.approximate(text, box, tol=tol, dtype="float32", strategy="layer", certify=False, progress=False)
            network, target = built.network, Expression(text, sw.Box(box))
            wide = copy.deepcopy(network).to(torch.float64)
            network.engine = wide.engine = "sdpa"
            verified, proved, checking = True, {}, 0.0
            for engine in ("sdpa", "double"):
                network.engine = engine
                proved[engine] = sw.certify(network, text, tightness=0.05, progress=False).certificate
                path = Path(folder) / "network.safetensors"
                replace(built, certificate=proved[engine], unproved="").save(path)
                before = time.process_time()
                verified = verified and bool(sw.verify(path, progress=False))
                checking += time.process_time() - before

            def rounding(x: np.ndarray, network=network, wide=wide) -> np.ndarray:
                return np.abs(network.evaluate(x, engine="sdpa") - wide.evaluate(x)).max(axis=1)

            def error(x: np.ndarray, network=network, target=target) -> np.ndarray:
                return np.abs(network.evaluate(x, engine="double") - target(x)).max(axis=1)

            yield Row(
                "Franke" if text == FRANKE else text,
                network.tokens,
                proved["sdpa"].boxes,
                proved["sdpa"].rounding_part,
                climbed(network, rounding, points),
                proved["double"].bound,
                climbed(network, error, points),
                verified,
                checking,
                time.process_time() - started,
            )


def print_rows(points: int = 200_000, networks: int = len(JOBS)) -> list[Line]:
    print(
        '| network | tokens | boxes | rounding proved, "sdpa" | seen | ratio | bound, "double" | error seen | ratio '
        "| verified | in CPU s |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|", flush=True)
    table = []
    for row in rows(points, networks):
        table.append(row)
        cells = (
            f"{row.proved:.2g} | {row.seen:.2g} | {row.ratio:.1f} | {row.bound:.4g} | {row.error:.4g} | {row.total:.3f}"
        )
        told = f"{'yes' if row.verified else 'NO'} | {row.checking:.1f}"
        print(f"| {row.text} | {row.tokens} | {row.boxes} | {cells} | {told} |", flush=True)
    ratios = sorted(row.ratio for row in table)
    median, totals = ratios[len(ratios) // 2], max(row.total for row in table)
    seconds, all_verified = math.fsum(row.seconds for row in table), all(row.verified for row in table)
    print(f"\n{seconds:.0f} s CPU")
    word = "all verified" if all_verified else "NOT all verified"
    return [
        Line(
            f'float32, proved / seen in total, {len(table)} networks, engine "double"',
            f"{totals:.3f}, {word}",
            "1.2",
            totals <= 1.2 and all_verified,
        ),
        Line(
            "the same, rounding, dense engine",
            f"{ratios[-1]:.1f}, median {median:.1f}, {word}",
            "40, median 15",
            ratios[-1] <= 40 and median <= 15 and all_verified,
        ),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="float32, proved and seen")
    parser.add_argument("--points", type=int, default=200_000, help="that are looked at to find the largest error")
    parser.add_argument("--networks", type=int, default=len(JOBS), help="the first so many; the last takes most time")
    given = parser.parse_args()
    raise SystemExit(0 if printed(print_rows(given.points, given.networks)) else 1)
