"""Labels of sequences or of their tokens: classes, or real vectors.

    classes   any hashable things; the network stores the index of a class as one number, which is exact
    values    real numbers (M,) or vectors (M, m)
    "next"    every token's label is the token after it, and None after the last

In token mode labels come row by row and are flattened, so that everything after this module sees one label per item.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from softwright.errors import Faults
from softwright.memory.sequences import Packed

KINDS = ("classes", "values")


@dataclass(frozen=True)
class Labels:
    """values (M, m), one row per item; of classes m = 1 and the value is an index into `classes`."""

    values: np.ndarray
    classes: list[Any] | None

    @property
    def kind(self) -> str:
        return "values" if self.classes is None else "classes"

    def rows(self, which: np.ndarray) -> Labels:
        return Labels(self.values[which], self.classes)

    def show(self, item: int) -> str:
        if self.classes is not None:
            return repr(self.classes[int(self.values[item, 0])])
        row = self.values[item].tolist()
        return str(row[0] if len(row) == 1 else row)


def read_labels(labels: Any, packed: Packed, mode: str, kind: str | None, faults: Faults) -> Labels | None:
    """One label per row (mode "sequence") or token (mode "token"), or None with the reasons in `faults`."""
    if hasattr(labels, "detach"):  # a torch tensor
        labels = labels.detach().cpu().numpy()
    if isinstance(labels, str) and labels == "next":
        return _next_tokens(packed, mode, faults)
    if isinstance(labels, str | bytes) or not isinstance(labels, Sequence | np.ndarray):
        faults.add(f"labels are {type(labels).__name__}; give one for each sequence, in a list or an array")
        return None
    if len(labels) != len(packed):
        faults.add(f"{len(packed)} sequences but {len(labels)} labels; give one for each")
        return None
    if mode == "token":
        labels = _flattened(labels, packed, faults)
        if labels is None:
            return None
    if kind is None:
        kind = _kind(labels)
    return _values(labels, faults) if kind == "values" else _classes(labels, faults)


def read_as(labels: Any, packed: Packed, mode: str, known: list[Any] | None, faults: Faults) -> Labels | None:
    """Labels to be added to a memory that has classes `known` (or values, if None): new classes come after the old."""
    found = read_labels(labels, packed, mode, "values" if known is None else "classes", faults)
    if found is None or known is None or found.classes is None:
        return found
    classes = list(known)
    place = {_key(label): i for i, label in enumerate(classes)}
    moved = []
    for label in found.classes:
        if _key(label) not in place:
            place[_key(label)] = len(classes)
            classes.append(label)
        moved.append(place[_key(label)])
    return Labels(np.array(moved, dtype=np.float64)[found.values.astype(np.int64)], classes)


def _key(label: Any) -> Any:
    """What tells classes apart: Python takes 1, True and 1.0 for the same."""
    return (type(label), label) if isinstance(label, bool | int | float) else label


def is_plain(label: Any) -> bool:
    """Whether JSON gives a class back as it was."""
    return label is None or isinstance(label, str | int | bool) or (isinstance(label, float) and math.isfinite(label))


def classes_as_bytes(classes: list[Any]) -> bytes:
    """Classes as JSON, or b"" if some are of a kind that JSON gives back as something else."""
    plain = set(map(type, classes)) <= {int, str} or all(is_plain(label) for label in classes)
    return json.dumps(classes, allow_nan=False).encode() if plain else b""


def _next_tokens(packed: Packed, mode: str, faults: Faults) -> Labels | None:
    if not faults.check(
        mode == "token" and not packed.is_vectors,
        "labels='next' needs integer tokens and mode='token'; the label of a token is the one after it",
    ):
        return None
    following = np.zeros_like(packed.content)
    following[:, :-1] = packed.content[:, 1:]
    last = np.arange(packed.content.shape[1]) == packed.lengths[:, None] - 1
    real = packed.real()
    ids, places = np.unique(following[real], return_inverse=True)
    values = np.where(last[real], len(ids), places).astype(np.float64)
    return Labels(values[:, None], [*ids.tolist(), None])


def _flattened(labels: Any, packed: Packed, faults: Faults) -> Any:
    """The labels of all tokens one after another."""
    if isinstance(labels, np.ndarray) and labels.dtype != object:
        if not faults.check(
            labels.ndim >= 2 and labels.shape[1] >= packed.longest,
            f"labels have shape {labels.shape}; mode='token' needs one for each token, (N, n) or (N, n, m)",
        ):
            return None
        return labels[:, : packed.content.shape[1]][packed.real()[:, : labels.shape[1]]]
    wrong = [
        i for i, (row, n) in enumerate(zip(labels, packed.lengths, strict=True)) if not _sized(row) or len(row) != n
    ]
    if wrong:
        i = wrong[0]
        found = f"{len(labels[i])} labels" if _sized(labels[i]) else repr(labels[i])
        faults.add(
            f"{len(wrong)} row(s) do not have one label per token, first row {i}: {packed.lengths[i]} tokens, {found}; "
            "mode='token' needs a list of labels for each sequence"
        )
        return None
    return list(chain.from_iterable(labels))


def _sized(row: Any) -> bool:
    return isinstance(row, Sequence | np.ndarray) and not isinstance(row, str | bytes)


def _kind(labels: Any) -> str:
    if isinstance(labels, np.ndarray) and labels.dtype != object:
        return "values" if labels.dtype.kind == "f" or labels.ndim > 1 else "classes"
    real = (float, np.floating, list, np.ndarray)
    return "values" if len(labels) and all(isinstance(label, real) for label in labels) else "classes"


def _values(labels: Any, faults: Faults) -> Labels | None:
    try:
        values = np.asarray(labels, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:  # also whole numbers beyond all floats
        faults.add(f"labels are not real vectors of one length ({error}); use label_kind='classes' for other things")
        return None
    if values.ndim == 1:
        values = values[:, None]
    if not faults.check(values.ndim == 2 and values.shape[1] > 0, f"real labels have shape {values.shape}; use (N, m)"):
        return None
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if not faults.check(not len(bad), f"{len(bad)} label(s) are not finite, first row {bad[:1]}; remove or mend them"):
        return None
    return Labels(values, None)


def _classes(labels: Any, faults: Faults) -> Labels | None:
    if isinstance(labels, np.ndarray):
        labels = labels.tolist()
    if len(set(map(type, labels))) == 1 and type(labels[0]) in (int, str):  # the usual: no two that only look alike
        number = {label: place for place, label in enumerate(dict.fromkeys(labels))}
        return Labels(np.array([number[label] for label in labels], dtype=np.float64)[:, None], list(number))
    place: dict[Any, int] = {}
    classes: list[Any] = []
    values = np.empty((len(labels), 1))
    for i, label in enumerate(labels):
        plain = label.item() if isinstance(label, np.generic) else label
        try:
            values[i, 0] = place.setdefault(_key(plain), len(place))
        except TypeError:
            faults.add(f"label {i} is {type(plain).__name__}, which cannot be a class; use a tuple or real numbers")
            return None
        if isinstance(plain, float) and math.isnan(plain):  # equals nothing, not even itself
            faults.add(f"label {i} is nan; remove the row or give it a class")
            return None
        if len(place) > len(classes):
            classes.append(plain)
    return Labels(values, classes)
