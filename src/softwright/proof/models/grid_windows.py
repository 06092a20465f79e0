"""Windows of a large grid: the tokens that carry weight on a block of boxes, and a bound of what all others weigh.

Along one axis the weight of token j is at most e^{s_j - s_top} for any other token `top`, and s_j - s_top is affine in
t: on an interval [a, b] it is largest at an end. So with `top` the winner in the middle,

    w_j <= e^{g_j},    g_j = max over both ends of (k_j - k_top) t + b_j - b_top,

whatever the rest of the axis does. The window of a block is the run of tokens from the first to the last with g_j >=
-DEPTH; the others weigh at most tau_i = sum e^{g_j} together. A token of the grid that is left out is left out along
some axis, so all of them weigh at most tau = sum_i tau_i (e^{2 off} times that, if stored biases are off the sums).

Let g' be the head with the tokens of the window alone: a grid head again. As g = (1 - sum_out w) g' + sum_out w v,

    |g - g'| <= tau max |v_J - g'| <= 2 tau max |v_J - middle|,

and the weights of g' are no smaller than those of g. So models, and what rounding sees of the tokens, are those of g'
with 2 tau max|v - middle| more; the tokens outside count as dropped ones (`rounding.py`). A box then costs what its
window costs, however many tokens there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from softwright.proof.arithmetic.directed import U, exp_up, up
from softwright.proof.arithmetic.rounding import RunEngine
from softwright.proof.models.grid import Grid
from softwright.proof.models.head_moments import ExactHead

DEPTH = 45.0  # tokens whose log weight stays so far down are left out: far below what float64 resolves
_MANY = 4096  # tokens of a grid below which windows gain nothing
_GAIN = 4  # times fewer tokens than the grid has: less is not worth a block of its own
_SMALLEST_BLOCK = 8  # tokens


@dataclass(frozen=True)
class Window:
    """Boxes that share a window, the places of its tokens along each axis, and a bound of what the others weigh."""

    boxes: np.ndarray  # (b,) places of the boxes
    ranges: tuple[slice, ...]
    weight: float

    def of(self, head: ExactHead, grid: Grid) -> tuple[ExactHead, Grid]:
        """The head with the tokens of the window alone."""
        off = None if grid.off is None else np.ascontiguousarray(grid.off[self.ranges])
        keys, biases = (
            tuple(np.ascontiguousarray(line[part]) for line, part in zip(lines, self.ranges, strict=True))
            for lines in (grid.keys, grid.biases)
        )
        lines = Grid(keys, biases, off if off is not None and off.any() else None)

        def cut(array: np.ndarray) -> np.ndarray:
            rest = array.shape[1:]
            return np.ascontiguousarray(array.reshape(*grid.sizes, *rest)[self.ranges]).reshape(-1, *rest)

        names = ("keys", "bias", "bias_low", "bias_size", "values")
        slopes = None if head.slopes is None else cut(head.slopes)
        return replace(head, **{name: cut(getattr(head, name)) for name in names}, slopes=slopes, grid=lines), lines


def windows(grid: Grid, frame: np.ndarray) -> list[Window] | None:
    """Windows for boxes whose intervals along axis i are frame[:, i] = (t, t_low, r), (B, d, 3); None if all tokens are
    as good."""
    tokens = int(np.prod(grid.sizes))
    if tokens < _MANY:
        return None
    low, high = _ends(frame)
    blocks, fewest = [], 1
    for i, (keys, biases) in enumerate(zip(grid.keys, grid.biases, strict=True)):
        middle = frame[:1, i, 0]
        here = _gaps(keys, biases, middle, middle)[0]
        kept = int(np.count_nonzero(here >= -DEPTH))
        fewest *= min(len(keys), 2 * kept)
        centers, place = np.unique(frame[:, i, 0], return_inverse=True)
        winner = np.concatenate(
            [np.argmax(np.multiply.outer(part, keys) + biases, axis=1) for part in np.array_split(centers, 8)]
        )
        blocks.append((winner // max(_SMALLEST_BLOCK, kept))[place.ravel()])
    if fewest * _GAIN > tokens:
        return None
    _, block = np.unique(np.stack(blocks, axis=1), axis=0, return_inverse=True)
    order = np.argsort(block.ravel(), kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(block.ravel()[order])) + 1)
    return [_window(grid, low[boxes].min(axis=0), high[boxes].max(axis=0), boxes) for boxes in parts]


def _ends(frame: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Floats (B, d) below and above all points of the intervals."""
    t, t_low, r = frame[..., 0], frame[..., 1], frame[..., 2]
    slack = up(4 * U * np.abs(t) + np.abs(t_low) + 4 * U * r)
    return np.nextafter(t - r - slack, -np.inf), np.nextafter(t + r + slack, np.inf)


def _gaps(keys: np.ndarray, biases: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Upper bounds (G, n) of s_j - s_top on the intervals [low, high], (G,) each, `top` the winner in the middle."""
    top = np.argmax(np.multiply.outer(0.5 * (low + high), keys) + biases, axis=1)[:, None]  # (G, 1)
    slope, level = keys - keys[top], biases - biases[top]
    reach = np.maximum(np.abs(low), np.abs(high))[:, None]
    size = (np.abs(keys) + np.abs(keys[top])) * reach + np.abs(biases) + np.abs(biases[top])
    return np.maximum(slope * low[:, None], slope * high[:, None]) + level + up(8 * U * size)


def _above(value: float, terms: int = 64) -> float:
    return float(up(np.array(value), terms))


def _window(grid: Grid, low: np.ndarray, high: np.ndarray, boxes: np.ndarray) -> Window:
    ranges, weight = [], 0.0
    for i, (keys, biases) in enumerate(zip(grid.keys, grid.biases, strict=True)):
        gaps = _gaps(keys, biases, low[i : i + 1], high[i : i + 1])[0]
        kept = np.flatnonzero(gaps >= -DEPTH)  # the winner is among them: its own gap is not below 0
        part = slice(int(kept[0]), int(kept[-1]) + 1)
        outside = np.concatenate([gaps[: part.start], gaps[part.stop :]])
        weight += _above(float(exp_up(outside).sum()), len(outside) + 8) if len(outside) else 0.0
        ranges.append(part)
    off = 0.0 if grid.off is None else float(grid.off.max())
    return Window(boxes, tuple(ranges), _above(weight * (1.0 + 3.0 * off)) if weight else 0.0)


def theta_beyond(engine: RunEngine, grid: Grid, largest: np.ndarray, rounded: np.ndarray) -> np.ndarray:
    """What axis i adds at most to the log error of any token's weight where |t| <= largest (B, d): (B, d). `rounded`
    says how often each coordinate of t is."""
    found = np.empty_like(largest)
    for i, (keys, biases) in enumerate(zip(grid.keys, grid.biases, strict=True)):
        score = up(np.abs(keys).max() * largest[:, i])
        spread = float(np.ptp(biases))
        bias = float(np.abs(biases).max() + abs(biases[0])) if engine.axis_sizes else _above(spread)
        below = up(2.0 * score + spread)
        sizes = (score, np.full(len(score), bias), 2.0 * score * rounded[i], below)
        found[:, i] = up(engine.score_error(*sizes, lost=0.0, dim=len(grid.sizes)))
    return found
