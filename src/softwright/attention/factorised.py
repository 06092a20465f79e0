"""Grid heads evaluated axis by axis.

Over a tensor grid the score is a sum over the coordinates, so the softmax over all N = n_1...n_d tokens is the
product of d small softmaxes and the values contract one axis at a time: O(N) multiplications for a query but only
n_1+...+n_d exponentials. The same formula as the dense engine, equal up to rounding; differentiable.

Arrays are (tokens, queries): queries are many and tokens along an axis are few, and processors take neighbours four at
a time. Weights stay exponentials of scores below the largest one; what is divided by the product of their sums, once,
is the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from softwright.chunks import in_chunks, rows_within
from softwright.settings import looked_through

if TYPE_CHECKING:
    from softwright.attention.layer import SoftmaxHead


_CACHED = 1 << 18  # numbers of the largest array of a part: beyond what caches hold, memory is what takes time
_FEWEST, _MOST = 256, 8192  # queries of a part


def factorised_head(head: SoftmaxHead, t: Tensor) -> Tensor:
    """(q, d) -> (q, m) for a head whose structure is a grid, computed in the type of t."""
    sizes = head.axis_sizes
    columns, active = columns_of(head)
    columns = columns.to(t.dtype)  # engine "window" computes float32 heads in float64
    rest = head.tokens // sizes[0] * columns[0].numel()  # numbers of one query after the first contraction
    rows = min(max(_CACHED // rest, _FEWEST), _MOST, rows_within(2 * (rest + 2 * sum(sizes)) * t.element_size()))
    return in_chunks(lambda part: _contract(head, part, sizes, columns, active), t, max(rows, 1))


def columns_of(head: SoftmaxHead) -> tuple[Tensor, list[int]]:
    """Values and slopes (N, m, 1 + active), and the coordinates along which some value has a slope."""
    columns = head.values[:, :, None]
    if head.slopes is None:
        return columns, []
    slopes = head.slopes
    every = list(range(slopes.shape[2]))
    active = every if looked_through() else [i for i in every if bool(torch.any(slopes[:, :, i] != 0))]
    return torch.cat([columns, slopes[:, :, active]], dim=2), active


def _contract(head: SoftmaxHead, t: Tensor, sizes: tuple[int, ...], columns: Tensor, active: list[int]) -> Tensor:
    d, m = len(sizes), head.values.shape[1]
    grid_keys = head.keys.to(t.dtype).reshape(*sizes, d)
    grid_biases = head.biases.to(t.dtype).reshape(sizes)
    corner = grid_biases[(0,) * d]
    along = t.T.contiguous()  # (d, q)
    y: Tensor | None = None
    total: Tensor | None = None
    rest = head.tokens * columns.shape[1] * columns.shape[2]
    for i, n in enumerate(sizes):
        line = tuple(slice(None) if j == i else 0 for j in range(d))
        scores = torch.addcmul((grid_biases[line] - corner)[:, None], grid_keys[line][:, i : i + 1], along[i])
        weights = torch.exp(scores - scores.detach().amax(dim=0))  # (n_i, q)
        rest //= n
        if y is None:
            y = columns.reshape(n, rest).T @ weights  # (rest, q)
        else:
            y = (y.reshape(n, rest, -1) * weights[:, None]).sum(dim=0)
        total = weights.sum(dim=0) if total is None else total * weights.sum(dim=0)
    if y is None or total is None:
        raise RuntimeError("unreachable: a grid has at least one axis")
    y = y.reshape(m, 1 + len(active), -1)  # (m, 1 + active, q)
    out = y[:, 0]
    for place, i in enumerate(active, 1):
        out = torch.addcmul(out, y[:, place], along[i])
    return (out / total).T
