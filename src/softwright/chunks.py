"""Many rows, some at a time: one number says how much memory a computation takes.

Evaluating and proving take at most `MOST_BYTES` above what they are given and what they return, whatever the number of
points and of tokens; the tokens of one prompt in context are held whole. Fits make large matrices and samples by the
same measure. Work is done some rows at a time, so that what exists at once is a stated part of that number; how many
rows that are follows from the bytes that one row takes. (The checker shares no code and has a limit of its own.)

The results of parts go into one output that is there from the start. Were they collected and joined at the end, a small
result would stay behind between two large temporaries, and the heap would grow by a temporary for every part.

While a graph is recorded sizes are not known: all rows then run at once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from softwright.settings import looked_through

MOST_BYTES = 1 << 30
_SHARE = 8  # several temporaries exist at a time, and whoever calls has some of his own


def rows_within(bytes_each: int, share: int = _SHARE) -> int:
    """How many rows of so many bytes fit into the part 1/`share` of the limit; at least one."""
    return max(1, MOST_BYTES // (share * max(1, bytes_each)))


def in_chunks(run: Callable[[Tensor], Tensor], inputs: Tensor, rows: int) -> Tensor:
    """run(inputs), by at most so many rows of the inputs at a time; `run` takes every row for itself."""
    if looked_through() or inputs.shape[0] <= rows:
        return run(inputs)
    first = run(inputs[:rows])
    if first.requires_grad:  # all of the graph is kept anyway
        return torch.cat([first, *(run(part) for part in inputs[rows:].split(rows))])
    out = first.new_empty(inputs.shape[0], *first.shape[1:])
    out[:rows] = first
    del first
    for start in range(rows, inputs.shape[0], rows):
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
