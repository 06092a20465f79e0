"""Sequences as they are stored and asked about: integer tokens or vectors, of any lengths, in one padded array.

    tokens   rows of integers, a list of lists or an array (N, n); any integers, negative and sparse ones too
    vectors  an array (N, n, d) of real numbers, or a list of arrays (n_i, d)

Padding is only how rows of different length share an array: `lengths` says what is real, and every user of a `Packed`
masks the rest exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from softwright.errors import Faults

_LISTED = 5
_MOST_BYTES = 6 * 2**30


@dataclass(frozen=True)
class Reading:
    """How sequences are read: with order or as multisets, one item per row or per token, looking back only or not."""

    positional: bool = True
    mode: str = "sequence"
    causal: bool = False


@dataclass(frozen=True)
class Packed:
    """N rows padded to the longest: tokens (N, n), or vectors (N, n, d), of which `lengths` (N,) are real."""

    content: np.ndarray
    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def is_vectors(self) -> bool:
        return self.content.ndim == 3

    @property
    def longest(self) -> int:
        return int(self.lengths.max(initial=0))

    @property
    def width(self) -> int:
        """Numbers per token: the d of vectors, 0 of integer tokens."""
        return self.content.shape[2] if self.is_vectors else 0

    def rows(self, which: np.ndarray | slice) -> Packed:
        return Packed(self.content[which], self.lengths[which])

    def real(self) -> np.ndarray:
        """Which places (N, n) hold a token and not padding."""
        return np.arange(self.content.shape[1]) < self.lengths[:, None]

    def flat(self) -> np.ndarray:
        """All tokens one after another, without padding: (sum of lengths,) or (sum of lengths, d)."""
        if len(self) and (self.lengths == self.content.shape[1]).all():
            return self.content.reshape(-1, *self.content.shape[2:])
        return self.content[self.real()]

    def show(self, row: int) -> str:
        """One row as text, shortened."""
        tokens = self.content[row, : self.lengths[row]]
        shown = tokens[:12].tolist()
        return f"{str(shown)[:-1]}, ... {len(tokens)} tokens]" if len(tokens) > 12 else str(shown)


def pack(sequences: Any, faults: Faults) -> Packed | None:
    """The sequences as one array, or None with the reasons in `faults`."""
    if hasattr(sequences, "detach"):  # a torch tensor
        sequences = sequences.detach().cpu().numpy()
    packed = _pack_array(sequences, faults) if isinstance(sequences, np.ndarray) else _pack_rows(sequences, faults)
    if packed is not None and packed.is_vectors and not np.isfinite(packed.content).all():
        bad = np.flatnonzero(~np.isfinite(packed.content).all(axis=(1, 2)))
        faults.add(f"rows {_some(bad)} hold infinite or undefined numbers; remove or mend them")
        return None
    return packed


def _pack_array(array: np.ndarray, faults: Faults) -> Packed | None:
    if array.dtype == object:
        return _pack_rows(list(array), faults)
    if array.ndim == 2 and array.dtype == np.uint64 and array.size and array.max() >= 2**63:
        faults.add(f"tokens must be integers below 2^63, got {array.max()}; number them anew")
        return None
    if array.ndim == 2 and array.dtype.kind in "iu":
        content = array if array.dtype in (np.int32, np.int64) else array.astype(np.int64)
    elif array.ndim == 3 and array.dtype.kind in "fiu":
        content = _as_float64(array, faults)
        if content is None:
            return None
    else:
        faults.add(
            f"sequences are an array of shape {array.shape} and type {array.dtype}; "
            "give integer tokens (N, n), vectors (N, n, d), or a list of rows of different lengths"
        )
        return None
    return Packed(content, np.full(len(content), content.shape[1], dtype=np.int64))


def _pack_rows(sequences: Any, faults: Faults) -> Packed | None:
    if isinstance(sequences, str | bytes) or not isinstance(sequences, Sequence):
        faults.add(f"sequences are a {type(sequences).__name__}; give a list of rows, or an array (N, n) of integers")
        return None
    if len(sequences) == 0:
        return Packed(np.zeros((0, 0), dtype=np.int64), np.zeros(0, dtype=np.int64))
    unordered = next((i for i, row in enumerate(sequences) if isinstance(row, set | frozenset | Mapping)), None)
    if unordered is not None:
        name = type(sequences[unordered]).__name__
        faults.add(
            f"row {unordered} is a {name}, whose tokens have no order; give a list (positional=False forgets it)"
        )
        return None
    if all(isinstance(row, np.ndarray) and row.ndim == 2 for row in sequences):
        return _pack_vectors(sequences, faults)
    try:
        lengths = np.fromiter(map(len, sequences), dtype=np.int64, count=len(sequences))
        flat = np.array(list(chain.from_iterable(sequences))) if lengths.any() else np.zeros(0, dtype=np.int64)
    except (TypeError, ValueError) as error:
        faults.add(f"a sequence is not a row of tokens ({error}); {_first_odd(sequences)}")
        return None
    if flat.ndim == 2 and flat.dtype.kind in "fiu":
        return _pack_vectors(
            [np.asarray(row, dtype=np.float64).reshape(-1, flat.shape[-1]) for row in sequences], faults
        )
    if flat.dtype == np.uint64 and flat.max(initial=0) < 2**63:
        flat = flat.astype(np.int64)
    if flat.ndim != 1 or flat.dtype.kind not in "iu" or flat.dtype == np.uint64:
        faults.add(f"tokens must be integers that fit 64 bits; {_first_odd(sequences)}")
        return None
    small = flat.min(initial=0) >= -(2**31) and flat.max(initial=0) < 2**31
    return _padded(flat.astype(np.int32 if small else np.int64), lengths, faults)


def _pack_vectors(rows: Sequence[np.ndarray], faults: Faults) -> Packed | None:
    widths = {row.shape[1] for row in rows}
    if len(widths) != 1 or any(row.dtype.kind not in "fiu" for row in rows):
        faults.add(f"vectors of widths {sorted(widths)}; every token needs the same number of real numbers")
        return None
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    flat = _as_float64(np.concatenate(rows), faults)
    return None if flat is None else _padded(flat, lengths, faults)


def _as_float64(numbers: np.ndarray, faults: Faults) -> np.ndarray | None:
    """Vectors as they are compared; whole numbers that float64 would take for each other are refused."""
    if numbers.dtype.kind in "iu" and numbers.size and max(int(numbers.max()), -int(numbers.min())) > 2**53:
        faults.add("vectors hold whole numbers beyond 2^53, of which float64 takes several for one; scale them down")
        return None
    return numbers.astype(np.float64)


def _padded(flat: np.ndarray, lengths: np.ndarray, faults: Faults) -> Packed | None:
    """Tokens one after another -> rows padded to the longest."""
    shape = (len(lengths), int(lengths.max()), *flat.shape[1:])
    size = math.prod(shape) * flat.itemsize
    if size > _MOST_BYTES:
        faults.add(
            f"{shape[0]} rows padded to the longest, {shape[1]} tokens (row {int(lengths.argmax())}), take "
            f"{size / 2**30:.0f} GB; split the longest sequences, or memorise them in a network of their own"
        )
        return None
    content = np.zeros(shape, dtype=flat.dtype)
    content[np.arange(shape[1]) < lengths[:, None]] = flat
    return Packed(content, lengths)


def _first_odd(sequences: Sequence[Any]) -> str:
    """Where the first thing is that is no row of integers."""
    for i, row in enumerate(sequences):
        if isinstance(row, str):
            return f"row {i} is text: name a tokenizer, for example tokenizer='whitespace'"
        try:
            odd = [token for token in row if isinstance(token, bool) or not isinstance(token, int | np.integer)]
        except TypeError:
            return f"row {i} is {row!r}: wrap it in a list"
        if odd:
            return f"row {i} holds {odd[0]!r}: map tokens to integers first"
    return "some are too large: map them to smaller integers first"


def _some(rows: np.ndarray) -> str:
    listed = ", ".join(str(row) for row in rows[:_LISTED])
    return listed + (f" and {len(rows) - _LISTED} more" if len(rows) > _LISTED else "")
