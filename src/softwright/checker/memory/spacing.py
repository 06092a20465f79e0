"""No two keys of a memory are closer than the gap that is stated, however many there are.

Keys are put into square cells of side g by two coordinates, and all pairs in the same or touching cells are compared in
full. Of a memory in shards this is done range by range: with the keys of [low, high) stand all those up to high + g, so
that of two keys closer than g both are among those of the range in which the one with the smaller first coordinate
lies. Adding rounds monotonically, so no key below high + g is above the computed sum. The order of keys among and in
the shards is of no matter, only of how many shards have to be read: what an index says of it is not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from softwright.checker.limits import check_time
from softwright.checker.memory.entries import InShards
from softwright.checker.refusal import require

PAIRS_AT_ONCE, MOST_PAIRS = 2_000_000, 200_000_000
KEYS_AT_ONCE, MOST_KEYS = 2_000_000, 8_000_000  # of a memory in shards
MARKS = 1024  # places of each shard that tell how its keys lie


def check_gap(keys: np.ndarray | InShards, gap: float) -> None:
    """No two keys (N, r) are closer than `gap`."""
    if not isinstance(keys, InShards):
        compare(keys.astype(np.float64), gap)
        return
    borders, ends = ranges(keys)
    for low, high in pairwise((-np.inf, *borders, np.inf)):
        above = high + gap * (1.0 + 1e-6)
        reached = [number for number, (least, most) in enumerate(ends) if least <= above and most >= low]
        compare(within(keys, reached, low, above), gap)


def ranges(keys: InShards) -> tuple[list[float], list[tuple[float, float]]]:
    """Borders of the first coordinate with about KEYS_AT_ONCE keys between them; its ends in each shard."""
    marks, weights, ends = [np.zeros(0)], [np.zeros(0)], []
    for part in keys.parts():
        line = np.sort(part[:, 0].astype(np.float64))
        places = np.linspace(0, len(line) - 1, min(len(line), MARKS)).astype(np.int64)
        marks.append(line[places])
        weights.append(np.full(len(places), len(line) / max(1, len(places))))
        ends.append((float(line[0]), float(line[-1])) if len(line) else (np.inf, -np.inf))
    every, counted = np.concatenate(marks), np.concatenate(weights)
    order = np.argsort(every, kind="stable")
    count = -(-keys.shape[0] // KEYS_AT_ONCE)
    at = np.searchsorted(np.cumsum(counted[order]), keys.shape[0] * np.arange(1, count) / count)
    return np.unique(every[order][np.minimum(at, len(order) - 1)]).tolist(), ends


def within(keys: InShards, shards: list[int], low: float, high: float) -> np.ndarray:
    """All keys of these shards whose first coordinate lies in [low, high]."""
    found, count = [np.zeros((0, keys.shape[1]))], 0
    for number in shards:
        part = keys.part(number).astype(np.float64)
        inside = (part[:, 0] >= low) & (part[:, 0] <= high)
        count += int(inside.sum())
        require(count <= MOST_KEYS, "too many keys have all but the same first coordinate to compare them")
        found.append(part[inside])
    return np.concatenate(found)


def compare(keys: np.ndarray, gap: float) -> None:
    """No two of these keys are closer than `gap`."""
    if len(keys) < 2:
        return
    axes = np.argsort(-np.ptp(keys, axis=0), kind="stable")[:2]
    seen = 0
    for left, right in close_pairs(keys[:, axes], gap):
        seen += len(left)
        require(seen <= MOST_PAIRS, "too many keys lie close together to compare all pairs")
        check_time()
        squares = np.zeros(len(left))
        for axis in range(keys.shape[1]):
            squares += (keys[left, axis] - keys[right, axis]) ** 2
        # A sum of at most 33 squares errs by less than 40 * 2^-53 of itself.
        require(np.sqrt(squares.min(initial=np.inf)) * (1.0 - 1e-14) >= gap, f"two keys are closer than {gap:.6g}")


def close_pairs(points: np.ndarray, gap: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Every pair of points (N, 1 or 2) that can be closer than `gap`, once, in chunks: same or touching cells."""
    span = float(np.ptp(points, axis=0).max())
    side = max(gap * (1.0 + 1e-6), span / 1e8)  # with at most 1e8 cells per side, rounding cannot skip a cell
    cells = np.floor((points - points.min(axis=0)) / side).astype(np.int64)
    first, second = cells[:, 0], cells[:, 1] if points.shape[1] == 2 else np.zeros(len(points), dtype=np.int64)
    code = (first << 32) + second + 1
    order = np.argsort(code, kind="stable")
    code = code[order]
    for offset in (0, 1, (1 << 32) - 1, 1 << 32, (1 << 32) + 1):
        # In the own cell, only the points that come later in the order.
        start = np.arange(1, len(code) + 1) if offset == 0 else np.searchsorted(code, code + offset, side="left")
        stop = np.searchsorted(code, code + offset, side="right")
        counts = np.maximum(stop - start, 0)
        ends = np.cumsum(counts)
        at = 0
        while at < len(counts):
            before = ends[at - 1] if at else 0
            upto = max(at + 1, int(np.searchsorted(ends, before + PAIRS_AT_ONCE, side="right")))
            some = counts[at:upto]
            left = np.repeat(np.arange(at, upto), some)
            within = np.arange(len(left)) - np.repeat(np.cumsum(some) - some, some)
            if len(left):
                yield order[left], order[start[left] + within]
            at = upto
