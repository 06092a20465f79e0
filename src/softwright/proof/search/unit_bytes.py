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
from typing import Any, NamedTuple

import numpy as np

from softwright.proof.search.preorder import LEAF, OPEN, filled, open_boxes

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
    boxes = open_boxes(found.tree, found.ends, index, level)
    if boxes is None or bool(np.any(np.isnan(found.known))):
        return False
    return np.array_equal(boxes[0], found.index) and np.array_equal(boxes[1], found.level)


def spliced(acted: Sequence[Unit]) -> tuple[bytes, np.ndarray]:
    """One tree of the units, the first of which is the whole domain, and the bounds on its leaves in preorder.

    Units that nobody acted on leave their boxes as leaves, with what is known of them.
    """
    done: dict[int, _Forest] = {}
    for unit in reversed(acted):
        done[id(unit)] = _joined(unit, [done.pop(id(part), None) or _unproved(part) for part in unit.rest])
    whole = done[id(acted[0])]
    return whole.tree.tobytes(), whole.upper.astype(float)


class _Forest(NamedTuple):
    """Trees of some boxes, one after the other."""

    tree: np.ndarray  # (nodes,) bytes in preorder
    sizes: np.ndarray  # (boxes,) nodes of each tree
    upper: np.ndarray  # (leaves,) float32, rounded up
    leaves: np.ndarray  # (boxes,) leaves of each tree


def _unproved(unit: Unit) -> _Forest:
    near = unit.known[:, 0].astype("<f4")
    above = np.where(near >= unit.known[:, 0], near, np.nextafter(near, np.float32(np.inf)))
    ones = np.ones(len(near), dtype=np.int64)
    return _Forest(np.full(len(near), LEAF, dtype=np.uint8), ones, above.astype("<f4"), ones)


def _joined(unit: Unit, below: Sequence[_Forest]) -> _Forest:
    """The trees of a unit's roots with those of its open boxes in their places, and the bounds alike."""
    found = unit.result
    if found is None:
        raise RuntimeError("only units that are done are spliced")
    tree = np.frombuffer(found.tree, dtype=np.uint8)
    is_open, closed = tree == OPEN, tree == LEAF
    nodes, leaves = np.ones(len(tree), dtype=np.int64), closed.astype(np.int64)
    own = np.zeros(np.count_nonzero(is_open | closed), dtype="<f4")
    own[closed[is_open | closed]] = found.upper
    upper, ends = own, found.ends - 1
    if below:
        nodes[is_open] = np.concatenate([part.sizes for part in below])
        leaves[is_open] = np.concatenate([part.leaves for part in below])
        tree = filled(tree, is_open, np.concatenate([part.tree for part in below]), nodes[is_open])
        among, met = is_open[is_open | closed], np.concatenate([part.upper for part in below])
        upper = filled(own, among, met, leaves[is_open])
    sizes, counts = (np.diff(np.cumsum(each)[ends], prepend=0) for each in (nodes, leaves))
    return _Forest(tree, sizes, upper, counts)
