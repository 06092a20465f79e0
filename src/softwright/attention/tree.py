"""Heads with scattered keys by a tree of blocks: only blocks of tokens that can carry weight at a point are visited.

For every gamma > 0 and every p the score of a token is a paraboloid around its key,

    s_j(t) = k_j.t + b_j = gamma |tau|^2 + a_j - gamma |k_j - tau|^2,      tau = (t + p) / (2 gamma),
    a_j = b_j - p.k_j + gamma |k_j|^2.

gamma and p are those that make the a_j as equal as they can be (for tokens that stand at places and have one width, all
are equal), and whatever they are the identity holds. So the tokens of a block B whose keys lie in a box score at most

    U_B(t) = gamma |tau|^2 + max_B a_j - gamma dist(tau, box_B)^2.

Keys are halved at medians until blocks hold at most `_TOKENS` tokens; `_BLOCKS` neighbouring blocks make a group, which
has a box and a bound of its own. At a point the block with the largest bound is read first. With m the largest score
found so far, groups and blocks with U < m - T are left out. With numba (extra `fast`) points run one by one
(`tree_numba.py`), else points that have the best group in common run together, over all blocks that one of them needs.

*How far off, proved* (`tree_bound`), for t in [-1, 1]^d, all in float64, u = 2^-53:

1. Scores of tokens err by e_s = gamma_(d+8) 2 R, R = max|b| + sum_i max|k_i|: the frame (2 roundings), d products, d
   additions, the difference to what is subtracted from all of them. A sum that was begun with another such number is
   multiplied by an exp of the difference, at most R / 25 times, because that happens only when scores grow by 50; these
   differences add up to 2R. (2 + R / 25) (exp_error + 4u) is charged beside it. Let e be the sum of both.
2. *Left out.* U errs by e_U = 16 (d + 4) u (R + 3 Q), Q = gamma sum_i (max|k_i| + max|tau_i|)^2: a_j takes 2d + 3
   roundings of numbers that add up to at most max|b| + 2Q, tau 3, the distance and gamma |tau|^2 at most d + 11 each,
   of at most Q, and their sum 2 more. If e_s + e_U < 1/2, a token that is left out is below e^(1/2 - T) of the largest
   one, and with T = ln(N / c) + 1/2 all of them weigh at most c: the truncation is 2 c V, V the largest |v_j| + |G_j|1.
   c is 2^-53 or a sixteenth of e.
3. *Rounding.* Weights err by e^{2e} - 1 in the sum of moduli, of which twice is charged, sums and products by gamma_n,
   n = 2N + d + 16: V ((1 + 2 (e^{2e} - 1)) (1 + gamma_n) - 1), times 1 + 2c. Underflow takes less than (V + 1) 2^-900.

No certificate speaks of this engine: `certificate.exact_part` and this number do. Points outside the box run densely.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from softwright.attention.factorised import columns_of
from softwright.attention.tree_numba import tree_kernel
from softwright.attention.window_numba import available
from softwright.chunks import rows_within
from softwright.precision import FLOAT64

if TYPE_CHECKING:
    from softwright.attention.layer import SoftmaxHead

_TOKENS, _BLOCKS = 64, 64  # tokens of a block at most, blocks of a group
_TOGETHER = 128  # points at most that share their blocks where numba is missing


@dataclass(frozen=True)
class Bound:
    """A proved bound of what an engine that leaves tokens out computes, beside the head in real numbers."""

    truncation: float
    rounding: float

    @property
    def total(self) -> float:
        return (self.truncation + self.rounding) * (1 + 4 * FLOAT64.unit)


@dataclass(frozen=True)
class Tree:
    """Tokens in blocks (B, .., n) and in groups of blocks, in float64; what fills up a block has no weight."""

    keys: np.ndarray  # (B, d, n)
    biases: np.ndarray  # (B, n)
    table: np.ndarray  # (B, width, n)
    low: np.ndarray  # (S, d, F): boxes of the F blocks of a group
    high: np.ndarray
    level: np.ndarray  # (S, F): the largest a_j
    group_low: np.ndarray  # (d, S)
    group_high: np.ndarray
    group_level: np.ndarray  # (S,)
    origin: np.ndarray  # (d,): p
    gamma: float
    depth: float  # T


def _numbers(head: SoftmaxHead) -> tuple[np.ndarray, np.ndarray]:
    return head.keys.detach().double().numpy(), head.biases.detach().double().numpy()


def _paraboloid(keys: np.ndarray, biases: np.ndarray) -> tuple[float, np.ndarray]:
    """gamma and p by least squares, from some thousand tokens."""
    step = max(1, len(keys) // 4096)
    k, b = keys[::step], biases[::step]
    size = max(float(np.abs(keys).max()), 1e-30)
    rows = np.concatenate([np.ones((len(k), 1)), k / size, (k * k).sum(axis=1, keepdims=True) / size**2], axis=1)
    found = np.linalg.lstsq(rows, b, rcond=None)[0]
    gamma, p = -float(found[-1]) / size**2, found[1:-1] / size
    least = 0.5 / size  # with it tau is as large as keys are
    if not (math.isfinite(gamma) and np.isfinite(p).all() and gamma >= 1e-3 * least and np.abs(p).max() <= 1e3):
        return least, np.zeros(keys.shape[1])
    return gamma, p


def _in_order(keys: np.ndarray, levels: int) -> np.ndarray:
    """The order (2^levels, n) of tokens (2^levels n, d): parts are halved at the median of their longest side."""
    order = np.arange(len(keys))[None]
    for _ in range(levels):
        held = keys[order]  # (parts, tokens, d)
        side = np.ptp(held, axis=1).argmax(axis=1)
        along = np.take_along_axis(held, side[:, None, None], axis=2)[:, :, 0]
        half = order.shape[1] // 2
        order = np.take_along_axis(order, np.argpartition(along, half - 1, axis=1), axis=1).reshape(-1, half)
    return order


def tree_of(head: SoftmaxHead) -> Tree:
    """The tree of a head; made again when a number of the head is another one than before, however it was changed."""
    now = [x.detach().numpy() for x in (head.keys, head.biases, head.values, head.slopes) if x is not None]
    then, tree = head.__dict__.get("_tree", ((), None))
    if tree is None or len(then) != len(now) or not all(map(np.array_equal, then, now)):
        tree = _tree(head)
        head.__dict__["_tree"] = ([x.copy() for x in now], tree)
    return tree


def _tree(head: SoftmaxHead) -> Tree:
    keys, biases = _numbers(head)
    N, d = keys.shape
    levels = max(0, math.ceil(math.log2(N / _TOKENS)))
    blocks = 1 << levels
    missing = -N % blocks
    filled = np.concatenate([keys, np.repeat(keys[:1], missing, axis=0)])
    order = _in_order(filled, levels)  # (B, n)
    gamma, p = _paraboloid(keys, biases)
    sums = biases - keys @ p + gamma * (keys * keys).sum(axis=1)
    a, b = (np.concatenate([x, np.full(missing, -np.inf)])[order] for x in (sums, biases))
    columns = columns_of(head)[0].detach().double().reshape(N, -1).numpy()
    table = np.concatenate([columns, np.zeros((missing, columns.shape[1]))])[order]  # (B, n, width)
    held = filled[order]  # (B, n, d)
    each = min(_BLOCKS, blocks)
    low, high = held.min(axis=1).reshape(-1, each, d), held.max(axis=1).reshape(-1, each, d)  # (S, F, d)
    level = a.max(axis=1).reshape(-1, each)
    made = {"keys": held.transpose(0, 2, 1), "biases": b, "table": table.transpose(0, 2, 1), "level": level}
    made |= {"low": low.transpose(0, 2, 1), "high": high.transpose(0, 2, 1), "group_level": level.max(axis=1)}
    made |= {"group_low": low.min(axis=1).T, "group_high": high.max(axis=1).T}
    depth = math.log(N / _left_out(_score_error(keys, biases))) + 0.5
    return Tree(**{name: np.ascontiguousarray(x) for name, x in made.items()}, origin=p, gamma=gamma, depth=depth)


def tree_head(head: SoftmaxHead, t: Tensor) -> Tensor:
    """(q, d) -> (q, m) in float64."""
    inside = (t.abs() <= 1.0 + 1e-9).all(dim=1)
    if not bool(inside.all()):
        y = t.new_empty(len(t), head.values.shape[1])
        y[inside], y[~inside] = tree_head(head, t[inside]), head(t[~inside])
        return y
    tree = tree_of(head)
    columns, active = columns_of(head)
    points = t.contiguous().numpy()
    if available():
        out = np.empty((len(t), tree.table.shape[1]))
        told = [getattr(tree, name) for name in Tree.__dataclass_fields__]
        tree_kernel()(points, *told, out)
    else:
        out = _together(tree, points)
    y = torch.from_numpy(out).reshape(len(t), columns.shape[1], columns.shape[2])
    return y[:, :, 0] + (y[:, :, 1:] * t[:, None, active]).sum(dim=-1) if active else y[:, :, 0]


def _bounds(tree: Tree, tau: np.ndarray, low: np.ndarray, high: np.ndarray, level: np.ndarray) -> np.ndarray:
    """U (q, ...) of boxes (.., d, n) and levels (.., n) at tau (q, ..., d, 1)."""
    away = np.maximum(np.maximum(low - tau, tau - high), 0.0)
    return level + tree.gamma * ((tau * tau).sum(axis=-2) - (away * away).sum(axis=-2))


def _together(tree: Tree, t: np.ndarray) -> np.ndarray:
    """(q, d) -> (q, width): points with the same best group share what they visit."""
    out = np.empty((len(t), tree.table.shape[1]))
    step = rows_within(8 * 4 * (tree.group_low.size + tree.low[0].size), share=64)
    for start in range(0, len(t), step):
        part = slice(start, start + step)
        tau = ((t[part] + tree.origin) / (2.0 * tree.gamma))[:, :, None]  # (q, d, 1)
        bounds = _bounds(tree, tau, tree.group_low, tree.group_high, tree.group_level)  # (q, S)
        best = bounds.argmax(axis=1)
        order = np.argsort(best, kind="stable")
        for at in _parts(best[order]):
            rows = order[at]
            out[start + rows] = _shared(tree, t[part][rows], tau[rows], bounds[rows], int(best[rows[0]]))
    return out


def _parts(best: np.ndarray) -> list[slice]:
    """Runs of equal numbers, of at most `_TOGETHER` points."""
    edges = np.concatenate([[0], np.flatnonzero(np.diff(best)) + 1, [len(best)]])
    pairs = zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    return [slice(i, min(i + _TOGETHER, b)) for a, b in pairs for i in range(a, b, _TOGETHER)]


def _shared(tree: Tree, t: np.ndarray, tau: np.ndarray, bounds: np.ndarray, group: int) -> np.ndarray:
    """Values (q, width) of points (q, d) whose best group is the same."""
    each = tree.level.shape[1]
    inner = _bounds(tree, tau, tree.low[group], tree.high[group], tree.level[group])  # (q, F)
    first = group * each + inner.argmax(axis=1)
    scores = (t[:, :, None] * tree.keys[first]).sum(axis=1) + tree.biases[first]  # (q, n)
    least = scores.max(axis=1) - tree.depth  # m - T
    groups = np.flatnonzero((bounds >= least[:, None]).any(axis=0))
    needed = _bounds(tree, tau[:, None], tree.low[groups], tree.high[groups], tree.level[groups])  # (q, groups, F)
    blocks = (groups[:, None] * each + np.arange(each))[(needed >= least[:, None, None]).any(axis=0)]
    keys = tree.keys[blocks].transpose(1, 0, 2).reshape(t.shape[1], -1)  # (d, tokens)
    weights = torch.softmax(torch.from_numpy(t @ keys + tree.biases[blocks].reshape(-1)), dim=1)
    table = tree.table[blocks].transpose(0, 2, 1).reshape(keys.shape[1], -1)  # (tokens, width)
    return weights.numpy() @ table


def _reach(keys: np.ndarray, biases: np.ndarray) -> float:
    return float(np.abs(biases).max()) + float(np.abs(keys).max(axis=0).sum())


def _score_error(keys: np.ndarray, biases: np.ndarray) -> float:
    """e of the text above."""
    u, reach, n = FLOAT64.unit, _reach(keys, biases), keys.shape[1] + 8
    return n * u / (1 - n * u) * 2 * reach + (2 + reach / 25) * (FLOAT64.exp_error + 4 * u)


def _left_out(error: float) -> float:
    """c: what the tokens left out may weigh together."""
    return min(max(FLOAT64.unit, error / 16), 1e-3)


def tree_bound(head: SoftmaxHead, outputs_unit: float) -> Bound:
    """Bounds of |what `tree_head` computes - the head| for t in [-1, 1]^d, rounded to a type of that unit at last;
    infinite where rounding of the scores leaves nothing to say."""
    keys, biases = _numbers(head)
    (N, d), u = keys.shape, FLOAT64.unit
    gamma, p = _paraboloid(keys, biases)
    tau = (1.0 + np.abs(p)) / (2.0 * gamma) * (1 + 8 * u)
    Q = gamma * float(((np.abs(keys).max(axis=0) + tau) ** 2).sum()) * (1 + 16 * d * u)
    e = _score_error(keys, biases)
    if not e + 16 * (d + 4) * u * (_reach(keys, biases) + 3 * Q) < 0.49:
        return Bound(math.inf, math.inf)
    size = head.values.detach().double().abs()
    if head.slopes is not None:
        size = size + head.slopes.detach().double().abs().sum(dim=-1)
    V, c, n = float(size.max()) * (1 + 8 * u), _left_out(e), 2 * N + d + 16
    # What was computed of c, its logarithm and T errs by far less than a thousandth of c.
    truncation = 2 * c * V * (1 + 1e-3)
    factor, rest = 2 * math.expm1(2 * e), n * u / (1 - n * u)
    rounding = V * (factor + rest * (1 + factor)) * (1 + 2.1 * c)
    rounding += outputs_unit * (V + truncation + rounding) + (V + 1) * 2.0**-900
    return Bound(truncation, rounding * (1 + 64 * u))


def tree_error(head: SoftmaxHead, outputs_unit: float) -> float:
    """Truncation and rounding together."""
    return tree_bound(head, outputs_unit).total
