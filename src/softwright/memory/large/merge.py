"""Ids of more sequences than memory holds: sorted runs, one per piece, merged range by range.

    run      the ids of one piece, sorted by their first coordinate, with their values and rows, in a file
    shard    all ids whose first coordinate lies in one range, from all runs: keys, half squares, values

Sorted, two keys within w of each other in their first coordinate are in one shard or on both sides of a border; every
shard therefore reads a margin of w beyond its upper end as well. Within a shard keys are sorted into strips of width w
and along each strip by their second coordinate, so that keys within w of each other in both coordinates stand side by
side, in their own strip or the next. All of those pairs are compared in full: **the smallest distance is found if it
is below w, and else proved to be at least w**. Of random ids a pair in a thousand gets that far.
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save

from softwright.memory.context_head import TENSORS, ContextHead
from softwright.memory.gap import DOWN
from softwright.memory.large.pieces import checked, values_of
from softwright.memory.sequences import Reading

_MARKS = 256  # places of each run that tell how its ids lie
_MOST_PAIRS = 8_000_000  # of one shard
MOST_LISTED = 100_000  # pairs that are too close, of one shard
_STRIPS = 1e8  # with no more of them, rounding cannot put close keys two strips apart


def tensors_of_head(head: ContextHead) -> dict[str, np.ndarray]:
    return {name: getattr(head, name).numpy() for name in TENSORS}


def head_of(reading: Reading, tensors: dict[str, np.ndarray]) -> ContextHead:
    """The head of its tensors; a file holds single numbers with one axis."""
    held = {name: torch.from_numpy(np.array(array)) for name, array in tensors.items()}
    return ContextHead(reading, **{**held, "sentinel": held["sentinel"].reshape(())})


def write_run(shared: dict[str, Any], item: tuple[int, Any]) -> dict[str, Any]:
    """On a worker: the run of a piece. Its rows are (id before it is centred | values | row)."""
    number, piece = item
    packed, labels = checked(shared["read"], piece)
    head = head_of(Reading(**shared["reading"]), shared["head"])
    ids = head.ids(packed)
    values = values_of(labels, shared["classes"])
    order = np.argsort(ids[:, 0], kind="stable")
    table = np.concatenate([ids, values, np.arange(len(ids), dtype=np.float64)[:, None]], axis=1)[order]
    path = run_path(shared["folder"], number)
    partly = path.with_name(f"{path.name}.{os.getpid()}")  # a piece may be given to two workers, one of them lost
    with partly.open("wb") as stream:
        np.save(stream, table)
    partly.replace(path)
    places = np.linspace(0, len(ids) - 1, _MARKS).astype(np.int64) if len(ids) else np.zeros(0, dtype=np.int64)
    return {
        "rows": len(ids),
        "marks": table[places, 0].tolist(),
        "sum": ids.sum(axis=0).tolist(),
        "low": ids.min(axis=0, initial=np.inf).tolist(),
        "high": ids.max(axis=0, initial=-np.inf).tolist(),
    }


def run_path(folder: str, number: int) -> Path:
    return Path(folder) / f"run-{number:06d}.npy"


def borders(found: list[dict[str, Any]], rows: int) -> list[float]:
    """The lower ends of ranges with about `rows` ids each; the first begins at minus infinity."""
    marks = np.concatenate([np.array(each["marks"]) for each in found])
    weights = np.concatenate([np.full(len(each["marks"]), each["rows"] / max(1, len(each["marks"]))) for each in found])
    order = np.argsort(marks, kind="stable")
    below = np.cumsum(weights[order])
    count = max(1, -(-sum(each["rows"] for each in found) // rows))
    at = np.searchsorted(below, below[-1] * np.arange(1, count) / count)
    return [-np.inf, *np.unique(marks[order][np.minimum(at, len(order) - 1)]).tolist()]


def write_shard(shared: dict[str, Any], item: tuple[int, float, float]) -> dict[str, Any]:
    """On a worker: merge one range of all runs, measure its gap, write its keys."""
    number, low, high = item
    rank, dtype = shared["rank"], np.dtype(shared["dtype"])
    own, beyond = [], []
    for run in range(shared["runs"]):
        table = np.load(run_path(shared["folder"], run), mmap_mode="r")
        if not len(table):
            continue
        line = table[:, 0]
        start, stop = bisect_left(line, low), bisect_left(line, high)
        edge = bisect_left(line, high + shared["margin"]) if np.isfinite(high) else stop
        part = np.array(table[start:edge])
        part = np.concatenate([part, np.full((len(part), 1), float(run))], axis=1)
        inside = np.arange(len(part)) < stop - start
        dropped = shared["drop"].get(run)
        if dropped is not None:
            keep = ~np.isin(part[:, -2], dropped)
            part, inside = part[keep], inside[keep]
        own.append(part[inside])
        beyond.append(part[~inside])
    rows = np.concatenate(own)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    every = np.concatenate([rows, *beyond])
    keys = (every[:, :rank] + shared["shift"]).astype(dtype)
    gap, left, right, apart = _closest(keys.astype(np.float64), shared["window"], shared["floor"])
    found: dict[str, Any] = {"rows": len(rows), "gap": gap, "near": []}
    found["near"] = [
        [*map(int, (every[i, -1], every[i, -2], every[j, -1], every[j, -2])), d]
        for i, j, d in zip(left.tolist(), right.tolist(), apart.tolist(), strict=True)
    ]
    keys, values = keys[: len(rows)], rows[:, rank:-2].astype(dtype)
    exact = keys.astype(np.float64)
    squares = (exact**2).sum(axis=1)
    halves = (0.5 * squares).astype(dtype)
    held = {"readout.keys": keys, "readout.halves": halves, "readout.values": values}
    data = save({name: np.ascontiguousarray(array) for name, array in held.items()})
    path = Path(shared["folder"]) / shard_name(number)
    partly = path.with_name(f"{path.name}.{os.getpid()}")
    partly.write_bytes(data)
    partly.replace(path)
    ends = exact[:, 0] if len(exact) else np.zeros(1)
    return {
        **found,
        "sha256": hashlib.sha256(data).hexdigest(),
        "largest": float(np.sqrt(squares.max(initial=0.0))),
        "half_error": float((np.abs(0.5 * squares - halves) + (rank + 2) * 2.0**-53 * 0.5 * squares).max(initial=0.0)),
        "size": float(np.abs(values).max(initial=0.0)),
        "label_rounding": float(np.abs(values.astype(np.float64) - rows[:, rank:-2]).max(initial=0.0)),
        "from": float(ends.min()),
        "to": float(ends.max()),
    }


def shard_name(number: int) -> str:
    return f"keys-{number:05d}.safetensors"


def _closest(keys: np.ndarray, window: float, floor: float) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """(gap, left, right, distance): no two keys are closer than gap; the pairs are those closer than `floor`."""
    gap, seen, none = window * DOWN, 0, np.zeros(0, dtype=np.int64)
    lefts, rights, apart = [none], [none], [np.zeros(0)]
    for left, right in _near(keys, window):
        seen += len(left)
        if seen > _MOST_PAIRS:
            gap = 0.0
            break
        squares = np.zeros(len(left))
        for axis in range(keys.shape[1]):
            squares += (keys[left, axis] - keys[right, axis]) ** 2
        distance = np.sqrt(squares)
        gap = min(gap, float(distance.min(initial=np.inf)) * DOWN)
        close = distance * DOWN < floor
        if close.any() and sum(map(len, apart)) < MOST_LISTED:
            lefts.append(left[close])
            rights.append(right[close])
            apart.append(distance[close])
    return gap, np.concatenate(lefts), np.concatenate(rights), np.concatenate(apart)


def _near(keys: np.ndarray, window: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Every pair of keys (N, r) that can be closer than `window`, once; on a line, only those next to each other."""
    count = len(keys)
    if count < 2:
        return
    if keys.shape[1] == 1:
        order = np.argsort(keys[:, 0], kind="stable")
        close = np.flatnonzero(np.diff(keys[order, 0]) <= window)
        yield order[close], order[close + 1]
        return
    line, across = keys[:, 0] - keys[:, 0].min(), keys[:, 1] - keys[:, 1].min()
    side = max(window * (1.0 + 1e-6), float(line.max()) / _STRIPS)
    strip = np.floor(line / side)
    order = np.lexsort((across, strip))
    strip, across = strip[order], across[order]
    length = 2.0 * (float(across.max()) + window)
    code = strip * length + across  # ascending: strips follow each other with room between them
    reach = window * (1.0 + 1e-6) + 8.0 * 2.0**-52 * float(code[-1] + length)
    every = np.arange(count)
    stop = np.searchsorted(code, code + reach, side="right")
    yield from _expanded(order, every, every + 1, stop)
    start = np.searchsorted(code, code + (length - reach), side="left")
    stop = np.searchsorted(code, code + (length + reach), side="right")
    yield from _expanded(order, every, np.maximum(start, every + 1), stop)


def _expanded(
    order: np.ndarray, left: np.ndarray, start: np.ndarray, stop: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The pairs (left_i, j), start_i <= j < stop_i, a few million at a time."""
    some = np.flatnonzero(stop > start)
    counts = (stop - start)[some]
    at, ends = 0, np.cumsum(counts)
    while at < len(some):
        before = int(ends[at - 1]) if at else 0
        upto = max(at + 1, int(np.searchsorted(ends, before + 4_000_000, side="right")))
        each = counts[at:upto]
        which = np.repeat(some[at:upto], each)
        within = np.arange(len(which)) - np.repeat(np.cumsum(each) - each, each)
        yield order[left[which]], order[start[which] + within]
        at = upto
