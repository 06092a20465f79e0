"""Which items are the same, and which of those are labelled differently: found exactly, before anything is built.

An item is what gets one label: a sequence, or (mode "token") a token in its context, which is the whole sequence or,
causally, what stands before it. With `positional` two contexts are the same if they are equal, else if they are equal
as multisets. Items are sorted by a 64-bit fingerprint, and neighbours with equal fingerprints are compared in full, so
the answer is exact; fingerprints of different items that happen to agree only cost another round with another seed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softwright.errors import Faults, SoftwrightError
from softwright.memory.labels import Labels
from softwright.memory.sequences import Packed, Reading

_CELLS = 1 << 22  # tokens compared at a time
_LISTED = 10
_ROUNDS = 8
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Items:
    """What gets a label: the context is the first `ends` tokens of `rows`, `own` the place of the token, -1 if none."""

    rows: np.ndarray
    ends: np.ndarray
    own: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)


def items_of(packed: Packed, reading: Reading) -> Items:
    """All items, row by row."""
    lengths = packed.lengths
    if reading.mode == "sequence":
        return Items(np.arange(len(packed)), lengths, np.full(len(packed), -1))
    rows = np.repeat(np.arange(len(packed)), lengths)
    own = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return Items(rows, own + 1 if reading.causal else lengths[rows], own)


def first_equals(packed: Packed, reading: Reading) -> np.ndarray:
    """For every item the index of the first item that is the same (itself, if it is the first)."""
    if packed.is_vectors:
        packed = Packed(_vector_tokens(packed), packed.lengths)
    items = items_of(packed, reading)
    for seed in range(_ROUNDS):
        prints = _fingerprints(packed, items, reading, seed)
        order = np.argsort(prints, kind="stable")
        twins = np.flatnonzero(prints[order[1:]] == prints[order[:-1]])
        if _same(packed, items, reading, order[twins], order[twins + 1]):
            starts = np.ones(len(order), dtype=bool)
            starts[twins + 1] = False
            first = np.empty(len(order), dtype=np.int64)
            first[order] = order[starts][np.cumsum(starts) - 1]  # the sort is stable: the first of equals comes first
            return first
    raise SoftwrightError(f"fingerprints of different sequences agreed {_ROUNDS} times over; are they made to?")


def list_conflicts(packed: Packed, labels: Labels, reading: Reading, first: np.ndarray, faults: Faults) -> None:
    """Add every item whose label differs from that of the first item that is the same."""
    bad = np.flatnonzero((labels.values != labels.values[first]).any(axis=1))
    if not len(bad):
        return
    items = items_of(packed, reading)
    for b in bad[:_LISTED]:
        a = int(first[b])
        i, j = int(items.rows[a]), int(items.rows[b])
        equal = items.ends[a] == items.ends[b] and np.array_equal(
            packed.content[i, : items.ends[a]], packed.content[j, : items.ends[b]]
        )
        place = "" if reading.mode == "sequence" else f", tokens {items.own[a]} and {items.own[b]}"
        what = "the same" if equal else "permutations of each other"
        remedy = "give them one label" if equal else "use positional=True or give them one label"
        faults.add(
            f"rows {i} and {j}{place} are {what} ({packed.show(j)}) but labelled {labels.show(a)} and "
            f"{labels.show(int(b))}; {remedy}"
        )
    if len(bad) > _LISTED:
        rows = items.rows[bad[_LISTED : _LISTED + 50]].tolist()
        faults.add(f"{len(bad) - _LISTED} more conflicts, in rows {rows}{' ...' * (len(bad) > _LISTED + 50)}")


def _vector_tokens(packed: Packed) -> np.ndarray:
    """An integer for every vector, equal for equal vectors and only for those."""
    flat = packed.flat() + 0.0  # -0.0 becomes 0.0, which it equals
    bits = np.ascontiguousarray(flat).view(np.dtype((np.void, 8 * packed.width))).ravel()
    _, places = np.unique(bits, return_inverse=True)
    tokens = np.zeros(packed.content.shape[:2], dtype=np.int64)
    tokens[packed.real()] = places
    return tokens


def _mix(x: np.ndarray) -> np.ndarray:
    """Splitmix64: every bit of the input moves every bit of the output."""
    x = x + _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _fingerprints(packed: Packed, items: Items, reading: Reading, seed: int) -> np.ndarray:
    n = packed.content.shape[1]
    start = _mix(np.array([seed], dtype=np.uint64))
    places = _mix(start + np.arange(n, dtype=np.uint64)) if reading.positional else start
    step = max(1, _CELLS // max(n, 1))
    by_token = reading.mode == "token"
    found = []
    for at in range(0, len(packed), step):
        part = packed.rows(slice(at, at + step))
        hashed = _mix(part.content.astype(np.int64).view(np.uint64) ^ places)  # (rows, n)
        hashed[~part.real()] = 0
        if not by_token:
            found.append(_mix(hashed.sum(axis=1, dtype=np.uint64) + part.lengths.astype(np.uint64)))
            continue
        sums = np.cumsum(hashed, axis=1, dtype=np.uint64)
        if not reading.causal and n:
            sums = np.broadcast_to(sums[:, -1:], sums.shape)
        found.append((_mix(sums) + _mix(hashed ^ start))[part.real()])
    prints = np.concatenate(found) if found else np.zeros(0, dtype=np.uint64)
    return _mix(prints + items.ends.astype(np.uint64)) if by_token else prints


def _same(packed: Packed, items: Items, reading: Reading, left: np.ndarray, right: np.ndarray) -> bool:
    """Whether all pairs of items are the same."""
    n = packed.content.shape[1]
    step = max(1, _CELLS // max(n, 1))
    for at in range(0, len(left), step):
        a, b = left[at : at + step], right[at : at + step]
        if (items.ends[a] != items.ends[b]).any():
            return False
        if reading.mode == "token":
            ours, others = (packed.content[items.rows[c], items.own[c]] for c in (a, b))
            if (ours != others).any() or (reading.positional and (items.own[a] != items.own[b]).any()):
                return False
        if not np.array_equal(_context(packed, items, reading, a), _context(packed, items, reading, b)):
            return False
    return True


def _context(packed: Packed, items: Items, reading: Reading, which: np.ndarray) -> np.ndarray:
    real = np.arange(packed.content.shape[1]) < items.ends[which][:, None]
    tokens = np.where(real, packed.content[items.rows[which]], np.iinfo(packed.content.dtype).max)
    return tokens if reading.positional else np.sort(tokens, axis=1)
