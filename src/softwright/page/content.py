"""`Content`: what fills the page of one kind of network, and how arrays travel in it."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_KINDS = {"float64": "@f8", "float32": "@f4", "int32": "@i4", "uint8": "@u1"}


@dataclass(frozen=True)
class Content:
    """The parts of a page: fragments of markup and scripts by the names of their files in `assets`, and the data that
    the scripts read. `headline` is the line below the title."""

    title: str
    headline: str
    fragments: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    data: dict[str, Any] = field(default_factory=dict)


def packed(array: Any) -> dict[str, str]:
    """An array as its bytes, little-endian: exact, and half as long as decimal numbers. Its shape is left to the
    reader."""
    given = np.ascontiguousarray(array)
    return {_KINDS[given.dtype.name]: base64.b64encode(given.astype(given.dtype.newbyteorder("<")).tobytes()).decode()}


def numbers(tensor: Any) -> dict[str, str]:
    """The numbers of a tensor as they are stored."""
    return packed(tensor.detach().cpu().numpy())


def sparse(matrix: Any) -> dict[str, Any]:
    """The entries of a matrix that are not zero, row by row."""
    array = matrix.detach().cpu().numpy()
    rows, columns = np.nonzero(array)
    return {
        "shape": list(array.shape),
        "rows": packed(rows.astype(np.int32)),
        "columns": packed(columns.astype(np.int32)),
        "values": packed(array[rows, columns]),
    }
