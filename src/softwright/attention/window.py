"""Large grid heads by windows of keys: the tokens that carry weight at a point, and no others.

Along one axis of a grid the score of token j is s_j(t) = k_j t + b_j. [-1, 1] is cut into blocks, and a block [a, b]
keeps the tokens from the first to the last with

    s_j(a) - s_i(a) >= -T   or   s_j(b) - s_i(b) >= -T,        i the winner in the middle of the block.

s_j - s_i is affine in t, so a token that is left out is below e^-T of the winner on the whole block, and n of them
weigh less than c = n e^-T together: T = ln(n / c), c being 2^-53 or a sixteenth of e_i below. What remains are K
tokens an axis instead of n. Points are sorted by block, so that points of one block share one window of values and the
contraction is a stack of small matrix products; with numba two variables run point by point (`window_numba.py`). Time
grows with the number of points times K_1 ... K_d and memory is bounded, whatever the number of tokens. Points outside
the box run by axes in full.

*How far off, proved* (`window_error`). All is computed in float64, u = 2^-53:

1. A log weight along axis i errs by at most e_i = gamma_16 * 2 (max|k| + max|b| + |corner|) + 4 (exp_error + 2u): the
   frame (2 roundings, |t| <= 1 + 4u), a product, an addition, the difference to the maximum, and exp. A stored bias is
   a rounded sum of the axes' biases: by how much they differ, `mismatch`, is added twice. Let e be the sum of all.
2. Normalised weights then err by e^{2e} - 1 in the sum of moduli; twice that is charged. Tokens left out add 2 c an
   axis. Blocks are widened by 1e-9, far more than t errs, and rounded scores select by a T that is off by less than 1
   as long as e_i < 1/4: 8 c an axis is charged.
3. Sums and products of K_i weights and values, and v + G t: gamma_n with n = sum_i (2 K_i + 6) + d + 8.

With V the largest |v_j| + |G_j| 1 the sum is at most V ((1 + 2 (e^{2e} - 1) + 8 sum c) (1 + gamma_n) - 1), and
underflow takes less than (V + 1) 2^-900. No certificate speaks of this engine: `certificate.exact_part` and this number
do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from softwright.attention.factorised import columns_of, factorised_head
from softwright.attention.window_numba import available, kernels
from softwright.chunks import rows_within
from softwright.precision import FLOAT64

if TYPE_CHECKING:
    from softwright.attention.layer import SoftmaxHead

_KEPT = 1 << 14  # tokens of an axis whose windows are kept for the next call
_TOKENS_A_BLOCK = 8
_ROWS_TOGETHER = 16  # rows of tokens that are as good as one where points are sorted
_CACHED = 30_000  # numbers of a table beyond which they are
_WIDER = 1e-9  # of a block, on both sides


@dataclass(frozen=True)
class AxisWindows:
    """Tokens of one axis, and for each of its blocks the first of the K tokens that are kept."""

    keys: Tensor  # (n,)
    biases: Tensor  # (n,)
    first: Tensor  # (blocks,)
    winner: Tensor  # (blocks,)
    kept: int

    @property
    def blocks(self) -> int:
        return len(self.first)

    def block_of(self, t: Tensor) -> Tensor:
        """The block (q,) of coordinates t (q,); those outside [-1, 1] count to the first and the last."""
        return ((t + 1.0) * (0.5 * self.blocks)).floor().clamp_(0, self.blocks - 1).long()

    def weights(self, t: Tensor, index: Tensor) -> Tensor:
        """Softmax weights (g, q, K) at coordinates t (g, q) over the tokens index (g, K)."""
        scores = torch.addcmul(self.biases[index][:, None], t[..., None], self.keys[index][:, None])
        return torch.softmax(scores, dim=-1)


def _lines(head: SoftmaxHead) -> list[tuple[Tensor, Tensor]]:
    """Keys and biases along each axis, in float64."""
    d = len(head.axis_sizes)
    keys = head.keys.detach().double().reshape(*head.axis_sizes, d)
    biases = head.biases.detach().double().reshape(head.axis_sizes)
    corner = biases[(0,) * d]
    lines = []
    for i in range(d):
        line = tuple(slice(None) if j == i else 0 for j in range(d))
        lines.append((keys[line][:, i].contiguous(), (biases[line] - corner).contiguous()))
    return lines


def _score_error(keys: Tensor, biases: Tensor, corner: float = 0.0) -> float:
    """e_i of the text above."""
    u, reach = FLOAT64.unit, float(keys.abs().max()) + float(biases.abs().max()) + abs(corner)
    return 16 * u / (1 - 16 * u) * 2 * reach + 4 * (FLOAT64.exp_error + 2 * u)


def _left_out(keys: Tensor, biases: Tensor) -> float:
    """c: what the tokens left out may weigh together. Below what rounded scores make of the others is enough."""
    return min(max(FLOAT64.unit, _score_error(keys, biases) / 16), 1e-3)


def axis_windows(keys: Tensor, biases: Tensor, tokens_a_block: int = _TOKENS_A_BLOCK) -> AxisWindows:
    """The windows of an axis: of tokens in any order, but few are needed only where neighbours are neighbours."""
    n = len(keys)
    blocks = max(1, n // tokens_a_block)
    edges = torch.linspace(-1.0, 1.0, blocks + 1, dtype=torch.float64)
    middles = 0.5 * (edges[:-1] + edges[1:])
    depth = math.log(n / _left_out(keys, biases))
    first = torch.empty(blocks, dtype=torch.long)
    last, winners = torch.empty(blocks, dtype=torch.long), torch.empty(blocks, dtype=torch.long)
    step = rows_within(8 * 6 * n, share=64)
    for start in range(0, blocks, step):
        part = slice(start, start + step)
        winner = torch.addcmul(biases, middles[part, None], keys).argmax(dim=1, keepdim=True)  # (blocks, 1)
        slope, level = keys - keys[winner], biases - biases[winner]  # (blocks, n)
        low, high = edges[:-1][part, None] - _WIDER, edges[1:][part, None] + _WIDER
        kept = torch.maximum(torch.addcmul(level, low, slope), torch.addcmul(level, high, slope)) >= -depth
        winners[part] = winner[:, 0]
        first[part] = kept.int().argmax(dim=1)
        last[part] = n - 1 - kept.flip(1).int().argmax(dim=1)
    width = int((last - first).max()) + 1
    return AxisWindows(keys, biases, first.clamp(max=n - width), winners, width)


def windows_of(head: SoftmaxHead, tokens_a_block: int = _TOKENS_A_BLOCK) -> list[AxisWindows]:
    """The windows of a head's axes. What they are depends on the numbers of a line alone, so they are kept by them."""
    found = []
    for keys, biases in _lines(head):
        if len(keys) > _KEPT or not keys.is_cpu:
            found.append(axis_windows(keys, biases, tokens_a_block))
        else:
            found.append(_kept_windows(keys.numpy().tobytes(), biases.numpy().tobytes(), tokens_a_block))
    return found


@lru_cache(maxsize=8)
def _kept_windows(keys: bytes, biases: bytes, tokens_a_block: int) -> AxisWindows:
    line = [torch.from_numpy(np.frombuffer(each).copy()) for each in (keys, biases)]
    return axis_windows(line[0], line[1], tokens_a_block)


def window_head(head: SoftmaxHead, t: Tensor) -> Tensor:
    """(q, d) -> (q, m) in float64, for a head whose structure is a grid."""
    inside = (t.abs() <= 1.0 + 0.5 * _WIDER).all(dim=1)
    if bool(inside.all()):
        return _inside(head, t)
    y = t.new_empty(len(t), head.values.shape[1])
    y[inside], y[~inside] = _inside(head, t[inside]), factorised_head(head, t[~inside])
    return y


def _inside(head: SoftmaxHead, t: Tensor) -> Tensor:
    sizes = head.axis_sizes
    columns, active = columns_of(head)
    width = columns.shape[1] * columns.shape[2]
    table = columns.detach().double().reshape(*sizes, width)
    if len(sizes) == 2 and available():
        return _with_slopes(_compiled(head, table, t), columns, active, t)
    windows = windows_of(head)
    block = windows[0].block_of(t[:, 0])
    for i, axis in enumerate(windows[1:], 1):
        block = block * axis.blocks + axis.block_of(t[:, i])
    order = torch.argsort(block)
    present, counts = torch.unique_consecutive(block[order], return_counts=True)
    starts = torch.cumsum(counts, 0) - counts
    by_size = torch.argsort(counts, descending=True, stable=True)  # blocks of about as many points run together
    present, counts, starts = present[by_size], counts[by_size], starts[by_size]
    out = t.new_empty(len(t), width)
    each = 8 * (sum(axis.kept for axis in windows) * 3 + 2 * width * math.prod(axis.kept for axis in windows[1:]))
    held = 8 * width * math.prod(axis.kept for axis in windows)
    at = 0
    while at < len(present):
        most = int(counts[at])
        group = slice(at, at + rows_within(held + most * each, share=32))
        at = group.stop
        slots = torch.arange(most)
        inside = slots < counts[group, None]  # (g, most)
        rows = order[torch.where(inside, starts[group, None] + slots, starts[group, None])]  # padded with the first
        y = _contract(windows, table, t, present[group], rows)  # (g, most, width)
        out[rows[inside]] = y[inside]
    return _with_slopes(out, columns, active, t)


def _with_slopes(out: Tensor, columns: Tensor, active: list[int], t: Tensor) -> Tensor:
    y = out.reshape(len(t), columns.shape[1], columns.shape[2])
    if not active:
        return y[:, :, 0]
    return y[:, :, 0] + (y[:, :, 1:] * t[:, None, active]).sum(dim=-1)


def _compiled(head: SoftmaxHead, table: Tensor, t: Tensor) -> Tensor:
    """(q, width), two variables."""
    axes = windows_of(head, 1)
    out = np.empty((len(t), table.shape[-1]))
    told = [
        part for a in axes for part in (a.keys.numpy(), a.biases.numpy(), a.first.numpy(), a.winner.numpy(), a.kept)
    ]
    values = table.movedim(-1, 0).contiguous().numpy()
    if table.numel() <= _CACHED:
        kernels()[1](t.contiguous().numpy(), *told, values, out)
        return torch.from_numpy(out)
    # Neighbours follow each other, so that the table is read from memory once; points are moved, not looked up.
    rows, columns = (axis.block_of(t[:, i]) for i, axis in enumerate(axes))
    order = _sorted(rows.div_(_ROWS_TOGETHER, rounding_mode="floor").mul_(axes[1].blocks).add_(columns))
    kernels()[1](t[order].numpy(), *told, values, out)
    y = torch.empty(len(t), table.shape[-1], dtype=torch.float64)
    y[order] = torch.from_numpy(out)
    return y


def _sorted(numbers: Tensor) -> Tensor:
    """What puts whole numbers (q,) from 0 on in order; those of 16 binary digits are sorted by digits in two passes."""
    if not len(numbers) or int(numbers.max()) >= 1 << 16:
        return torch.argsort(numbers)
    return torch.from_numpy(np.argsort(numbers.numpy().astype(np.uint16), kind="stable"))


def _contract(windows: list[AxisWindows], table: Tensor, t: Tensor, block: Tensor, rows: Tensor) -> Tensor:
    """Values (g, q, width) of g blocks at the points rows (g, q)."""
    indices: list[Tensor] = []
    for axis in reversed(windows):
        indices.append(axis.first[block % axis.blocks][:, None] + torch.arange(axis.kept))  # (g, K)
        block = block // axis.blocks
    indices.reverse()
    d, (g, q) = len(windows), rows.shape
    shaped = [index.reshape(g, *(-1 if j == i else 1 for j in range(d))) for i, index in enumerate(indices)]
    values = table[tuple(shaped)].reshape(g, windows[0].kept, -1)  # (g, K_1, K_2 ... width)
    weights = [axis.weights(t[rows, i], indices[i]) for i, axis in enumerate(windows)]  # (g, q, K_i)
    y = weights[0] @ values  # (g, q, K_2 ... width)
    for axis, w in zip(windows[1:], weights[1:], strict=True):
        y = (w[:, :, None] @ y.reshape(g, q, axis.kept, -1))[:, :, 0]
    return y


def window_error(head: SoftmaxHead, outputs_unit: float) -> float:
    """A bound of |what `window_head` computes - the head| for t in [-1, 1]^d, rounded to a type of that unit at last;
    infinite where rounding of the scores leaves nothing to say."""
    lines, windows = _lines(head), windows_of(head)
    u = FLOAT64.unit
    biases = head.biases.detach().double()
    corner = float(biases.flatten()[0])
    total = np.full(head.axis_sizes, corner)
    for i, (_, line) in enumerate(lines):
        total = total + line.numpy().reshape([-1 if j == i else 1 for j in range(len(lines))])
    sizes = float(biases.abs().max()) + sum(float(line.abs().max()) for _, line in lines)
    # The comparison is rounded itself, by fewer than 4 (d + 1) roundings of numbers no larger than `sizes`.
    mismatch = float(np.abs(total - biases.numpy().reshape(head.axis_sizes)).max()) + 8 * (len(lines) + 1) * u * sizes
    error = 2 * mismatch
    left_out = 0.0
    for keys, line in lines:
        own = _score_error(keys, line, corner)
        if not own < 0.25:
            return math.inf
        error += own
        left_out += _left_out(keys, line)
    n = sum(2 * axis.kept + 6 for axis in windows) + len(lines) + 8
    gamma = n * u / (1 - n * u)
    size = head.values.detach().double().abs()
    if head.slopes is not None:
        size = size + head.slopes.detach().double().abs().sum(dim=-1)
    V = float(size.max()) * (1 + 8 * u)
    factor = 2 * math.expm1(2 * error) + 8 * left_out
    bound = V * (factor + gamma * (1 + factor))
    return (bound + outputs_unit * (V + bound) + (V + 1) * 2.0**-900) * (1 + 64 * u)
