"""Grid heads evaluated axis by axis.

Over a tensor grid the score is a sum over the coordinates, so the softmax over all N = n_1...n_d tokens is the
product of d small softmaxes and the values contract one axis at a time: O(N) multiplications for a query but only
n_1+...+n_d exponentials. The same formula as the dense engine, equal up to rounding; differentiable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from softwright.chunks import in_chunks, rows_within
from softwright.settings import looked_through

if TYPE_CHECKING:
    from softwright.attention.layer import SoftmaxHead


def factorised_head(head: SoftmaxHead, t: Tensor) -> Tensor:
    """(q, d) -> (q, m) for a head whose structure is a grid."""
    sizes = head.axis_sizes
    columns, active = columns_of(head)
    width = head.tokens // sizes[0] * columns[0].numel() + 2 * sum(sizes)  # of one query after the first contraction
    rows = rows_within(2 * width * t.element_size())
    return in_chunks(lambda part: _contract(head, part, sizes, columns, active), t, rows)


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
    grid_keys = head.keys.reshape(*sizes, d)
    grid_biases = head.biases.reshape(sizes)
    corner = grid_biases[(0,) * d]
    weights: list[Tensor] = []
    for i in range(d):
        line = tuple(slice(None) if j == i else 0 for j in range(d))
        scores = t[:, i : i + 1] * grid_keys[line][:, i] + (grid_biases[line] - corner)  # (q, n_i)
        weights.append(torch.softmax(scores, dim=-1))
    width = columns.shape[1] * columns.shape[2]
    rest = head.tokens // sizes[0] * width
    y = weights[0] @ columns.reshape(sizes[0], rest)  # (q, rest)
    for w, n in zip(weights[1:], sizes[1:], strict=True):
        rest //= n
        y = torch.einsum("qn,qnr->qr", w, y.reshape(-1, n, rest))
    y = y.reshape(-1, m, 1 + len(active))
    if not active:
        return y[:, :, 0]
    return y[:, :, 0] + torch.einsum("qma,qa->qm", y[:, :, 1:], t[:, active])
