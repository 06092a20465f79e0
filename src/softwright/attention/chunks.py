"""Many rows, some at a time, into one output that is there from the start.

The results of parts are not collected and joined at the end: between two large temporaries a small result would stay
behind, and the heap would grow by a temporary for every part.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor


def in_chunks(run: Callable[[Tensor], Tensor], inputs: Tensor, rows: int) -> Tensor:
    """run(inputs), by at most so many rows of the inputs at a time; `run` takes every row for itself."""
    if len(inputs) <= rows:
        return run(inputs)
    first = run(inputs[:rows])
    if first.requires_grad:  # all of the graph is kept anyway
        return torch.cat([first, *(run(part) for part in inputs[rows:].split(rows))])
    out = first.new_empty(len(inputs), *first.shape[1:])
    out[:rows] = first
    del first
    for start in range(rows, len(inputs), rows):
        out[start : start + rows] = run(inputs[start : start + rows])
    return out


def arrays_in_chunks(run: Callable[[np.ndarray], np.ndarray], inputs: np.ndarray, rows: int) -> np.ndarray:
    """The same for arrays."""
    if len(inputs) <= rows:
        return run(inputs)
    first = run(inputs[:rows])
    out = np.empty((len(inputs), *first.shape[1:]), dtype=first.dtype)
    out[:rows] = first
    del first
    for start in range(rows, len(inputs), rows):
        out[start : start + rows] = run(inputs[start : start + rows])
    return out
