"""What pages of functions on a box share: names and sides, the target, the boxes of the proof, a point to start at.

The target travels as a formula where it is one. Of a table, and of what only Python can evaluate, the page gets values
at points: those of the table, or a grid in one and two variables and random points in more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.domain import Box
from softwright.errors import SoftwrightError
from softwright.page.content import packed
from softwright.page.formula import tape_of
from softwright.precision import name_of
from softwright.result.certificate import Certificate
from softwright.targets.formula import Expression
from softwright.targets.target import Target

if TYPE_CHECKING:
    from softwright.result.built import Built

MOST_POINTS = 1500  # of a table or of samples
MOST_NODES = 9000  # of the proof's trees together: what a page draws
_LINE, _SIDE, _SCATTERED = 257, 33, 600


def explored(built: Built[Any], box: Box, outputs: int) -> dict[str, Any]:
    """The entries of the data that assets/explore.js reads."""
    proved = built.certificate
    return {
        "names": list(box.names),
        "sides": [[low, high] for _, low, high in box],
        "outputs": outputs,
        "start": _start(built, box),
        "float32": name_of(built.network.dtype) == "float32",
        "bound": proved.bound if proved is not None and proved.norm == "sup" else None,
        "boxes": 0 if proved is None else proved.boxes,
        "proof": _proof(proved, box) if isinstance(proved, Certificate) else [],
        "target": _target(built.source, box, outputs),
    }


def _start(built: Built[Any], box: Box) -> list[float]:
    """Where the error was seen to be largest, or the centre."""
    seen = built.observed.point if built.observed is not None else ()
    point = np.array(seen if len(seen) == box.dim else box.center, dtype=float)
    return np.clip(point, box.lower, box.upper).tolist()


def _proof(proved: Certificate, box: Box) -> list[dict[str, Any]]:
    """The trees of the proof; none if they are too large to draw or speak of another box."""
    if proved.box != box or proved.tree is None:
        return []
    names = list(box.names)
    trees = [(names, proved.tree)] if isinstance(proved.tree, bytes) else []
    if not isinstance(proved.tree, bytes):
        trees = [(list(part.variables), part.tree) for part in proved.tree if part.tree is not None]
    if sum(len(tree) for _, tree in trees) > MOST_NODES:
        return []
    return [
        {"variables": [names.index(name) for name in own], "tree": packed(np.frombuffer(tree, dtype=np.uint8))}
        for own, tree in trees
    ]


def _target(source: Any, box: Box, outputs: int) -> dict[str, Any] | None:
    if isinstance(source, Expression) and source.names == box.names and source.outputs == outputs:
        tape = tape_of(source)
        if tape is not None:
            return {"tape": tape}
    if not isinstance(source, Target) or source.outputs != outputs or len(source.names) != box.dim:
        return None
    given = source.given_points()
    if given is not None:
        points, values = given
        keep = np.linspace(0, len(points) - 1, min(len(points), MOST_POINTS)).round().astype(int)
        how = "of the table" if len(points) == len(keep) else f"taken of the table's {len(points)}"
        return _points(points[keep], values[keep], how)
    points = _samples(box)
    try:
        values = source(points)
    except SoftwrightError:  # a callable that no longer does what it did when the network was made
        return None
    return _points(points, values, "at which Python evaluated the target")


def _points(points: np.ndarray, values: np.ndarray, how: str) -> dict[str, Any] | None:
    good = np.isfinite(values).all(axis=1) & np.isfinite(points).all(axis=1)
    if not good.any():
        return None
    points, values = points[good].astype(float), values[good].astype(float)
    return {"points": packed(points), "values": packed(values), "how": how}


def _samples(box: Box) -> np.ndarray:
    if box.dim > 2:
        return box.sample(_SCATTERED)
    count = _LINE if box.dim == 1 else _SIDE
    axes = [np.linspace(low, high, count) for _, low, high in box]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, box.dim)
