"""Items that stood too close in one draw of codes are asked first in the next one: most draws that fail, fail there.

Whether ids are far enough apart is known for certain only when all of them have been computed, for every rank and every
draw. What makes a list of sequences hard is mostly a few of them, though: two that differ in one place of a thousand,
or in their length alone, come out too close draw after draw. They are kept as witnesses, and later draws compute the
ids of the witnesses, and of a few other items for the scale, before all others:

    two witnesses are closer than the gap that keys must keep   =>   the draw fails.

That gap grows with R = max|z_j - centre|, which a few items bound from below by half of their distance from one of
them, whatever the centre is; so a draw that is passed over would have failed, and what is built is the same with
witnesses or without them. (Were it not so, it would cost a draw and no truth: the gap of what is built is measured over
all its items.)
"""

from __future__ import annotations

import numpy as np

from softwright.memory.sequences import Packed

SCALE = 64  # sequences that tell how far ids spread


class Witnesses:
    """The sequences that are asked first. `keep` are the tokens that are items, in token mode; all if None."""

    def __init__(self, packed: Packed, by_token: bool, keep: np.ndarray | None) -> None:
        self._packed, self._keep = packed, keep
        self._starts = np.concatenate([[0], np.cumsum(packed.lengths)]) if by_token else np.arange(len(packed) + 1)
        self._rows: set[int] = set()

    def note(self, items: tuple[int, ...]) -> None:
        """Two items that were too close; negative numbers stand for none."""
        for item in items:
            if item >= 0:
                place = item if self._keep is None else int(self._keep[item])
                self._rows.add(int(np.searchsorted(self._starts, place, side="right")) - 1)

    def __bool__(self) -> bool:
        """Whether there are fewer of them than of all."""
        return bool(self._rows) and 2 * (len(self._rows) + SCALE) < len(self._packed)

    def few(self) -> tuple[Packed, np.ndarray | None]:
        """The sequences, and which of their tokens are items (None: all that there are)."""
        spread = np.linspace(0, len(self._packed) - 1, SCALE).astype(np.int64)
        rows = np.unique(np.concatenate([spread, np.fromiter(self._rows, dtype=np.int64)]))
        packed = self._packed.rows(rows)
        if self._keep is None:
            return packed, None
        places = np.concatenate([np.arange(int(self._starts[row]), int(self._starts[row + 1])) for row in rows])
        return packed, np.flatnonzero(np.isin(places, self._keep))


def least_radius(ids: np.ndarray) -> float:
    """No centre has all ids (N, r) nearer than this."""
    far = np.sqrt(((ids - ids[:1]) ** 2).sum(axis=1).max(initial=0.0)) if len(ids) else 0.0
    return 0.5 * float(far)
