"""The pieces that a large memory is built from: read one at a time, looked at first, never all held at once.

A piece is whatever `read(piece)` turns into (sequences, labels): the path of a file, or a seed from which rows are
drawn again whenever they are needed. It is read three times at least (looked at, turned into ids, asked again), so
`read` must return the same rows every time.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from softwright.errors import Faults, FileFormatError, InvalidInput
from softwright.memory.codes import Alphabet
from softwright.memory.sequences import Packed, pack

Read = Callable[[Any], tuple[Any, Any]]
MOST_CLASSES = 1_000_000
MOST_TOKENS = 1 << 24  # different ones, each with a code of its own
_DENSE = 1 << 20  # tokens from 0 up to this need no list of those that occur


@dataclass(frozen=True)
class Seen:
    """What is known of all pieces together after one look at each."""

    rows: tuple[int, ...]  # of each piece
    longest: int
    alphabet: Alphabet
    classes: list[Any] | None
    outputs: int
    size: float  # of the largest label, where they are numbers

    @property
    def total(self) -> int:
        return sum(self.rows)


def read_npz(piece: str) -> tuple[np.ndarray, np.ndarray]:
    """A piece in a file: the arrays `sequences`, integers (N, n) or vectors (N, n, d), and `labels` (N,) or (N, m)."""
    try:
        with np.load(piece, allow_pickle=False) as held:
            return held["sequences"], held["labels"]
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        fault = f"{Path(piece).name}: not a file of arrays 'sequences' and 'labels' ({error})"
        raise FileFormatError(f"{fault}; write it with numpy.savez") from error


def checked(read: Read, piece: Any) -> tuple[Packed, np.ndarray]:
    """The sequences and labels of a piece; all that is wrong with them is raised together."""
    sequences, labels = read(piece)
    faults = Faults("memorize_shards")
    packed = pack(sequences, faults)
    found = np.asarray(labels)
    faults.check(found.dtype.kind in "iufbU", f"labels are of type {found.dtype}; give whole or real numbers, or texts")
    rows = found.ndim in (1, 2) and packed is not None and len(found) == len(packed)
    faults.check(rows or packed is None, f"labels have shape {found.shape}; give one for each of the rows")
    if found.dtype.kind == "f":
        faults.check(bool(np.isfinite(found).all()), "some labels are not finite; remove or mend them")
    elif rows:
        faults.check(found.ndim == 1, f"classes have shape {found.shape}; give one for each row, or real numbers")
    if faults.found:
        raise InvalidInput("memorize_shards", [f"piece {piece!r}: {fault}" for fault in faults.found])
    if packed is None:
        raise RuntimeError("unreachable: sequences that cannot be packed are a fault")
    return packed, found


def look(read: Read, piece: Any) -> dict[str, Any]:
    """On a worker: the sizes of a piece."""
    packed, labels = checked(read, piece)
    flat = packed.flat()
    real = labels.dtype.kind == "f"
    return {
        "rows": len(packed),
        "longest": packed.longest,
        "width": packed.width,
        "low": flat.min(initial=0).item(),
        "high": flat.max(initial=0).item(),
        "classes": None if real else np.unique(labels).tolist()[: MOST_CLASSES + 1],
        "outputs": labels.shape[1] if labels.ndim == 2 else 1,
        "size": float(np.abs(labels).max(initial=0.0)) if real else 0.0,
    }


def tokens_of(read: Read, piece: Any) -> np.ndarray:
    """On a worker: the different tokens of a piece, where they are not the first whole numbers."""
    return np.unique(checked(read, piece)[0].flat()).astype(np.int64)


def put_together(found: list[dict[str, Any]], tokens: Callable[[], list[np.ndarray]]) -> Seen:
    """One description of all pieces. `tokens` lists those of every piece, if that is needed."""
    faults = Faults("memorize_shards")
    total = sum(each["rows"] for each in found)
    faults.check(total > 0, "no sequences; give at least one")
    for name, what in (("width", "numbers in a token (0: whole numbers)"), ("outputs", "numbers in a label")):
        kinds = sorted({each[name] for each in found if each["rows"]})
        faults.check(len(kinds) <= 1, f"pieces differ in their {what}: {kinds}; give all of them alike")
    real = {each["classes"] is None for each in found if each["rows"]}
    faults.check(len(real) <= 1, "some pieces have real labels and some classes; give all of them alike")
    faults.raise_if_any()
    classes: list[Any] | None = None
    if real == {False}:
        every = set().union(*(each["classes"] for each in found))
        faults.check(len({type(label) for label in every}) <= 1, "classes are texts here and numbers there; choose one")
        faults.check(len(every) <= MOST_CLASSES, f"more than {MOST_CLASSES} classes; give real numbers instead")
        faults.raise_if_any()
        classes = sorted(every)
    width = max(each["width"] for each in found)
    low, high = min(each["low"] for each in found), max(each["high"] for each in found)
    none = np.zeros(0, dtype=np.int64)
    if width:
        alphabet = Alphabet(0, none, width, max(abs(low), abs(high)) or 1.0)
    elif low >= 0 and high < _DENSE:
        alphabet = Alphabet(int(high) + 1, none)
    else:
        ids = none
        for part in tokens():
            ids = np.union1d(ids, part)
            faults.check(len(ids) <= MOST_TOKENS, f"more than {MOST_TOKENS} different tokens; number fewer")
            faults.raise_if_any()
        alphabet = Alphabet(len(ids), ids)
    longest = max(each["longest"] for each in found)
    outputs, size = (max(each[name] for each in found) for name in ("outputs", "size"))
    return Seen(tuple(each["rows"] for each in found), longest, alphabet, classes, outputs, size)


def values_of(labels: np.ndarray, classes: list[Any] | None) -> np.ndarray:
    """Labels (N,) or (N, m) as the numbers (N, m) that stand for them."""
    if classes is None:
        return labels.astype(np.float64).reshape(len(labels), -1)
    return np.searchsorted(np.array(classes), labels).astype(np.float64)[:, None]


def part_of(shared: dict[str, Any], item: tuple[Any, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """On a worker: the named rows of a piece, as (content, lengths, values)."""
    piece, rows = item
    packed, labels = checked(shared["read"], piece)
    some = packed.rows(rows)
    return some.content, some.lengths, values_of(labels[rows], shared["classes"])
