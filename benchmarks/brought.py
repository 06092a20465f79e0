"""Formulas as people bring them, with default options: built, proved and VERIFIED, or refused with a reason.

    python benchmarks/brought.py                            all lists at 1e-3 and 1e-6
    python benchmarks/brought.py --list named guards        some of them
    python benchmarks/brought.py --list further --only 3 17 --tol 1e-6

`named`    formulas that once failed: infinite slopes, SI units, kinks on several axes, removable points, log-like axes
`guards`   branches of `where`, `max` and `min` whose functions have no value, or no slope, beyond the border of a guard
`many`     sums and affine formulas of 9 to 20 variables
`further`  sixty of engineering, physics, finance and statistics, 1 to 12 variables, guards, kinks and SI units
`functions`  every continuous function of the language on its own example, which the tests build at 1e-4 alone

Tolerances are relative to half the range in `further` and in rows marked R, absolute elsewhere.
A row is good if it is proved, VERIFIED and not seen above its bound at 100,000 points and 20,000 points beside the
borders of its guards and the ends of its box; or if it must be refused and is, before work. "NOT VERIFIED" of what was
proved, and an error that README does not name, are faults whatever the list.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
from sources.brought import LISTS, Row

import softwright as sw

FAULTS = ("NOT VERIFIED", "ABOVE ITS BOUND", "EXCEPTION")


def near(box: sw.Box, seed: int) -> np.ndarray:
    """Points of the box whose coordinates are near its ends, its middle, 0 and 1, at all distances."""
    rng = np.random.default_rng(seed)
    points = box.sample(20_000, seed=seed)
    width = box.upper - box.lower
    places = np.stack([box.lower, box.upper, (box.lower + box.upper) / 2, 0 * width, 0 * width + 1])
    chosen = np.take_along_axis(places, rng.integers(0, len(places), points.shape), axis=0)
    offsets = width * rng.choice([-1.0, 1.0], points.shape) * 10.0 ** rng.uniform(-16, -0.5, points.shape)
    moved = np.where(rng.random(points.shape) < 0.7, chosen + offsets, points)
    return np.clip(moved, box.lower, box.upper)


def run(row: Row, tol: float, dtype: str) -> tuple[str, str]:
    """One word and what there is to say."""
    box = sw.Box(row.box)
    started = time.process_time()

    def spent() -> str:
        return f"{time.process_time() - started:.1f} s"

    try:
        built = sw.approximate(row.text, box, tol=tol, relative=row.relative, dtype=dtype, progress=False)
    except sw.ToleranceNotReached as error:
        return "not met", f"{str(error)[:200]!r} {spent()}"
    except sw.SoftwrightError as error:
        return "refused", f"{type(error).__name__} {str(error)[:200]!r} {spent()}"
    except Exception:
        return "EXCEPTION", traceback.format_exc(limit=-3)
    took = spent()
    points = np.concatenate([box.sample(100_000, seed=1), near(box, 2)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen = float(np.nanmax(np.abs(built(points) - sw.Expression(row.text, box)(points))))
    size = f"{getattr(built.network, 'depth', 1)} layers {built.plan.tokens} tokens, seen {seen:.2g}"
    if built.certificate is None:
        return "unproved", f"{size}, {built.unproved[:160]} {took}"
    if seen > built.certificate.bound:
        return "ABOVE ITS BOUND", f"{size}, bound {built.certificate.bound:.2g}"
    with tempfile.TemporaryDirectory() as folder:
        built.save(path := Path(folder) / "row.safetensors")
        begun = time.process_time()
        verdict = sw.verify(path)
    said = f"{size}, bound {built.certificate.bound:.2g}, {took} + {time.process_time() - begun:.1f} s"
    if verdict.status != "VERIFIED":
        return "NOT VERIFIED", f"{said}: {verdict.status} {verdict.reason[:200]}"
    return "VERIFIED", said


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--list", nargs="*", default=list(LISTS), choices=list(LISTS))
    parser.add_argument("--tol", type=float, nargs="+", default=[1e-3, 1e-6])
    parser.add_argument("--only", type=int, nargs="*")
    parser.add_argument("--dtype", default="float64")
    options = parser.parse_args()
    faults = 0
    for name in options.list:
        for tol in options.tol:
            words: list[str] = []
            for number, row in enumerate(LISTS[name]):
                if options.only and number not in options.only:
                    continue
                word, said = run(row, tol, options.dtype)
                good = word == ("refused" if row.refused else "VERIFIED")
                words.append("good" if good else word)
                faults += word in FAULTS
                mark = " " if good else "*"
                print(f"{mark} {name} {number:2d} {tol:g} {row.text[:90]!r}: {word}: {said}", flush=True)
            counts = ", ".join(f"{words.count(word)} {word}" for word in sorted(set(words)))
            print(f"{name} at {tol:g} ({options.dtype}): {counts}", flush=True)
    print(f"{faults} faults (NOT VERIFIED, above a bound, other exceptions)", flush=True)


if __name__ == "__main__":
    main()
