"""What comes back of a unit of a proof (`units.py`), as bytes, and how units become one tree.

The bytes are a line of JSON with the numbers and one zlib stream with the arrays: nothing in them is executable. They
may come from a worker elsewhere or from a folder, so they are looked at before they are used: the trees must be
complete trees of the unit's boxes, and the open boxes must be those that the trees leave open.
"""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softwright.proof.search.search import LEAF

OPEN = 254  # in the tree of a unit: a leaf that is not proved yet
_NUMBERS = ("exact", "rounding", "lower")
_COUNTS = ("evaluations", "work")
_LARGEST = 2**28  # bytes of the arrays of a unit; more is none of ours


@dataclass
class UnitResult:
    """What a unit found: one tree a root, the bounds on closed leaves, and the boxes that are open, in their order."""

    tree: bytes
    ends: np.ndarray  # (roots,) where the tree of each ends
    upper: np.ndarray  # (closed leaves,) float32, rounded up
    index: np.ndarray  # (open, d)
    level: np.ndarray
    known: np.ndarray  # (open, 2) exact, rounding
    exact: float = 0.0  # largest bound over the closed leaves
    rounding: float = 0.0
    lower: float = 0.0
    witness: np.ndarray | None = None
    evaluations: int = 0
    work: int = 0
    stuck: bool = False  # refuted, or boxes that no integers can halve


@dataclass(eq=False)  # each is one of its kind
class Unit:
    """Sub-boxes that are proved together, and what came of it."""

    index: np.ndarray
    level: np.ndarray
    known: np.ndarray  # (n, 2) what is proved on them anyway
    result: UnitResult | None = None
    uncounted: int = 0  # of its work, what this thread has not counted
    recorded: bool = False  # by an earlier run
    rest: list[Unit] = field(default_factory=list)  # what became of its open boxes

    @property
    def name(self) -> str:
        return hashlib.sha256(self.index.tobytes() + self.level.tobytes()).hexdigest()


def packed(found: UnitResult) -> bytes:
    """The bytes that travel and that are written down."""
    head: dict[str, Any] = {name: float(getattr(found, name)).hex() for name in _NUMBERS}
    head |= {name: int(getattr(found, name)) for name in _COUNTS} | {"stuck": bool(found.stuck)}
    head["witness"] = None if found.witness is None else [float(x).hex() for x in found.witness]
    head["sizes"] = [len(found.tree), len(found.ends), len(found.upper), *found.index.shape]
    arrays = [found.upper.astype("<f4"), found.ends.astype("<i4"), found.index.astype("<i8"), found.level.astype("<i2")]
    body = b"".join([found.tree, *(array.tobytes() for array in arrays), found.known.astype("<f8").tobytes()])
    return json.dumps(head).encode() + b"\n" + zlib.compress(body, 6)


def unpacked(content: bytes, index: np.ndarray, level: np.ndarray) -> UnitResult | None:
    """The result in the bytes, for a unit with these boxes; None if they are no such thing."""
    try:
        line, _, stream = content.partition(b"\n")
        head, unpacker = json.loads(line), zlib.decompressobj()
        nodes, roots, closed, still_open, dim = head["sizes"]
        body = unpacker.decompress(stream, _LARGEST)
        sizes = [(nodes, 1), (4 * closed, "<f4"), (4 * roots, "<i4"), (8 * still_open * dim, "<i8")]
        sizes += [(2 * still_open * dim, "<i2"), (16 * still_open, "<f8")]
        if (
            not unpacker.eof
            or unpacker.unused_data
            or len(body) != sum(size for size, _ in sizes)
            or dim != index.shape[1]
        ):
            return None
        edges = np.cumsum([0] + [size for size, _ in sizes]).tolist()
        tree = body[: edges[1]]
        upper, ends, open_index, open_level, known = (
            np.frombuffer(body[start:end], dtype=kind)
            for start, end, (_, kind) in zip(edges[1:-1], edges[2:], sizes[1:], strict=True)
        )
        found = UnitResult(
            tree=tree,
            ends=ends.astype(np.int64),
            upper=upper,
            index=open_index.astype(np.int64).reshape(-1, dim),
            level=open_level.astype(np.int64).reshape(-1, dim),
            known=known.reshape(-1, 2).astype(float),
            **{name: float.fromhex(head[name]) for name in _NUMBERS},
            **{name: int(head[name]) for name in _COUNTS},
            witness=None if head["witness"] is None else np.array([float.fromhex(x) for x in head["witness"]]),
            stuck=bool(head["stuck"]),
        )
    except (ValueError, TypeError, KeyError, zlib.error):
        return None
    return found if _fits(found, index, level) else None


def _fits(found: UnitResult, index: np.ndarray, level: np.ndarray) -> bool:
    """Whether the trees are complete trees of these boxes, which leave the stated boxes open."""
    numbers = [found.exact, found.rounding, found.lower]
    if len(found.ends) != len(index) or any(math.isnan(x) or x < 0.0 for x in numbers):
        return False
    if found.tree.count(LEAF) != len(found.upper) or float(np.max(found.upper, initial=0.0)) < found.exact:
        return False
    at, boxes = 0, []
    for end, place, depth in zip(found.ends.tolist(), index.tolist(), level.tolist(), strict=True):
        pending = [(place, depth)]
        for node in found.tree[at:end]:
            if not pending:
                return False
            here, deep = pending.pop()
            if node == OPEN:
                boxes.append((here, deep))
            elif node < len(here):
                right, deeper = list(here), list(deep)
                right[node], deeper[node] = 2 * here[node] + 1, deep[node] + 1
                left = list(here)
                left[node] = 2 * here[node]
                pending += [(right, deeper), (left, deeper)]
            elif node != LEAF:
                return False
        if pending or end <= at:
            return False
        at = end
    stated = list(zip(found.index.tolist(), found.level.tolist(), strict=True))
    return at == len(found.tree) and boxes == stated and not bool(np.any(np.isnan(found.known)))


def spliced(acted: Sequence[Unit]) -> tuple[bytes, np.ndarray]:
    """One tree of the units, the first of which is the whole domain, and the bounds on its leaves in preorder.

    Units that nobody acted on leave their boxes as leaves, with what is known of them.
    """
    trees: dict[int, tuple[list[bytes], list[bytes]]] = {}
    for unit in reversed(acted):
        below, bounds = [], []
        for part in unit.rest:
            tree, upper = trees.pop(id(part), None) or _unproved(part)
            below += tree
            bounds += upper
        trees[id(unit)] = _joined(unit, below, bounds)
    tree, upper = trees[id(acted[0])]
    return b"".join(tree), np.frombuffer(b"".join(upper), dtype="<f4").astype(float)


def _unproved(unit: Unit) -> tuple[list[bytes], list[bytes]]:
    near = unit.known[:, 0].astype("<f4")
    above = np.where(near >= unit.known[:, 0], near, np.nextafter(near, np.float32(np.inf)))
    return [bytes([LEAF])] * len(near), [x.tobytes() for x in above.astype("<f4")]


def _joined(unit: Unit, below: Sequence[bytes], bounds: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """The trees of a unit's roots with those of its open boxes in their places, and the bounds alike."""
    found = unit.result
    if found is None:
        raise RuntimeError("only units that are done are spliced")
    upper, at, leaf, used = found.upper.astype("<f4").tobytes(), 0, 0, 0
    trees: list[bytes] = []
    uppers: list[bytes] = []
    for end in found.ends.tolist():
        tree: list[bytes] = []
        over: list[bytes] = []
        for k, stretch in enumerate(found.tree[at:end].split(bytes([OPEN]))):
            if k:
                tree.append(below[used])
                over.append(bounds[used])
                used += 1
            closed = stretch.count(LEAF)
            tree.append(stretch)
            over.append(upper[4 * leaf : 4 * (leaf + closed)])
            leaf += closed
        trees.append(b"".join(tree))
        uppers.append(b"".join(over))
        at = end
    return trees, uppers
