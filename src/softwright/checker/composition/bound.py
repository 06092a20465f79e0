"""The bound of a composed network: sums of errors times adjoints, on boxes of the checker's own choice.

A grid covers the box, sides that span a large ratio divided first and evenly in their logarithm. Neighbours share
their edges, and the outermost edges are those of the box, so the boxes cover it whatever the inner edges are. Boxes on
which the sum exceeds what is stated, or on which the argument of a table may leave its frame, are bisected: for a sum
the input with the largest adjoint times side, for a table that by which its argument seems to change most.
Before that, a table's argument is asked for as a formula of the inputs (`ranges.py`), which knows more than its
features do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from softwright.checker.composition.adjoints import Network, Sums
from softwright.checker.composition.program import Feature, Program
from softwright.checker.limits import check_time
from softwright.checker.refusal import printable, require

Array = np.ndarray
FIRST, FIRST_OF_ONE = 256, 32  # boxes to begin with, in several variables and in one
MOST = 30_000  # boxes in all
BATCH = 2_000
RATIO = 3.0


@dataclass(frozen=True)
class Claimed:
    """What is to be shown on every box: sums as they run, and in real arithmetic."""

    all: float
    real: float


def grid(lower: Array, upper: Array, count: int) -> tuple[Array, Array]:
    """At most `count` boxes (n, d) that cover the box."""
    splits = np.ones(len(lower), dtype=int)
    with np.errstate(all="ignore"):
        least, most = np.minimum(np.abs(lower), np.abs(upper)), np.maximum(np.abs(lower), np.abs(upper))
        weight = np.where(lower * upper > 0, np.log(most / np.maximum(least, 1e-300)), 1.5)
    weight = np.clip(np.nan_to_num(weight, nan=1.5), 0.1, 20.0)
    while True:
        i = int((weight / splits).argmax())
        if np.prod(splits.astype(float)) * (splits[i] + 1) / splits[i] > count:
            break
        splits[i] += 1
    edges = []
    for low, high, n in zip(lower, upper, splits, strict=True):
        geometric = low > 0 and high / low > RATIO
        edge = np.geomspace(low, high, n + 1) if geometric else low + (high - low) * (np.arange(n + 1) / n)
        edge[0], edge[-1] = low, high
        edges.append(np.maximum.accumulate(np.clip(np.nan_to_num(edge, nan=low), low, high)))
    index = np.indices(tuple(splits.tolist())).reshape(len(lower), -1)
    return (
        np.stack([edges[i][index[i]] for i in range(len(lower))], axis=1),
        np.stack([edges[i][index[i] + 1] for i in range(len(lower))], axis=1),
    )


def prove_bound(
    network: Network,
    lower: Array,
    upper: Array,
    claimed: Claimed,
    limit: Callable[[Feature], bool],
    progress: Callable[[int], None],
) -> int:
    """Show what is claimed on the whole box; returns the number of boxes, or raises.

    `limit(feature)` may put a range of a feature's score into `network.limits`, and tells whether it did.
    """
    needs = _needs(network.program)
    first = grid(lower, upper, FIRST_OF_ONE if len(lower) == 1 else FIRST)
    pending, done, asked = [first], 0, set()
    while pending:
        check_time()
        low, high = pending.pop()
        sums = network.sums(low, high)
        blamed = sorted({int(place) for place in sums.blame if place >= 0} - asked)
        if blamed:  # the first of them alone: others may be well once it is
            asked.add(blamed[0])
            feature = network.program.features[blamed[0] - network.program.inputs]
            if limit(feature):
                pending.append((low, high))
                continue
            if len(blamed) > 1:
                pending.append((low, high))
                continue
        done += len(low)
        progress(done)
        failed = sums.trouble | ~(sums.all <= claimed.all) | ~(sums.real <= claimed.real)
        if not failed.any():
            continue
        require(done + 2 * int(failed.sum()) + sum(len(a) for a, _ in pending) <= MOST, _reason(network, sums, claimed))
        halves = _halves(low[failed], high[failed], _axes(sums, failed, needs, (low, high), (lower, upper)))
        narrow = (halves[0] >= halves[1]).all(axis=1)
        require(not narrow.any(), _reason(network, sums, claimed))
        for start in range(0, len(halves[0]), BATCH):
            pending.append((halves[0][start : start + BATCH], halves[1][start : start + BATCH]))
    return done


def _needs(program: Program) -> dict[int, list[int]]:
    """By feature: the inputs that it depends on."""
    known: dict[int, set[int]] = {i: {i} for i in range(program.inputs)}
    for feature in program.features:
        known[feature.place] = {k for form in feature.forms for i, _ in form.terms for k in known[i]}
    return {place: sorted(inputs) for place, inputs in known.items()}


def _axes(
    sums: Sums, failed: Array, needs: dict[int, list[int]], boxes: tuple[Array, Array], whole: tuple[Array, Array]
) -> Array:
    """Which input to halve, box by box."""
    low, high = boxes[0][failed], boxes[1][failed]
    wide = (high - low) / np.maximum(whole[1] - whole[0], 1e-300)
    score = np.where(sums.pull[failed].max(axis=1, keepdims=True) > 0, sums.pull[failed], wide)
    for row, place in enumerate(sums.blame[failed]):
        if place >= 0 and not sums.pull[failed][row].any():
            score[row] = -1.0
            score[row, needs[int(place)]] = wide[row, needs[int(place)]]
    return np.where(high > low, score, -2.0).argmax(axis=1)


def _halves(low: Array, high: Array, axes: Array) -> tuple[Array, Array]:
    rows = np.arange(len(low))
    a, b = low[rows, axes], high[rows, axes]
    with np.errstate(all="ignore"):
        far = (a > 0) & (b / np.maximum(a, 1e-300) > RATIO)
        middle = np.where(far, np.sqrt(a) * np.sqrt(b), a + 0.5 * (b - a))
    middle = np.clip(np.nan_to_num(middle, nan=0.0), a, b)
    under, over = high.copy(), low.copy()
    under[rows, axes], over[rows, axes] = middle, middle
    return np.vstack([low, over]), np.vstack([under, high])


def _reason(network: Network, sums: Sums, claimed: Claimed) -> str:
    """Why boxes are not proved."""
    features, inputs = network.program.features, network.program.inputs
    blamed: Sequence[int] = sorted({int(place) for place in sums.blame if place >= 0})
    if blamed:
        name = printable(features[blamed[0] - inputs].name, 80)
        return f"not re-proved: {name} may be asked for what its heads are not proved for, or its error is not bounded"
    if sums.trouble.any():
        return "not re-proved: a sum is not finite, or may overflow"
    found = float(np.nanmax(sums.all)), float(np.nanmax(sums.real))
    return f"not re-proved: {found[0]:.6g} ({found[1]:.6g} of it exact) against {claimed.all:.6g} ({claimed.real:.6g})"
