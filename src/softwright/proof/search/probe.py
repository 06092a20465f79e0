"""Where the error is large: plain float64 sampling that gives the search a good start. Nothing is proved here.

Samples are a grid over the domain and, because a gate of width 1/beta hides between grid points, points round crossings
of neighbouring scores: all of them in one variable, in more those that a few random lines meet, and where three or more
of few tokens meet. The best points are then improved by a shrinking pattern search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, pairwise

import numpy as np

from softwright.proof.models.grid import Grid
from softwright.proof.models.head_moments import ExactHead

_BEST = 12
_STEPS = 24
_LINES, _ON_A_LINE = 16, 128
_AT_ONCE = 1 << 15  # tokens whose scores are held at a time
_FEW = 10  # tokens of a head whose meeting points are looked at
_AHEAD = {3: 1.4631, 4: 1.6035}  # how far ahead the first of so many is where they lose most, 1 + W0((k - 1)/e)
_HARD = 30.0  # how fast scores must part along a line across the box, for samples to miss what happens there
_ROUND = np.array([0.0, 0.5, -0.5, 1.28, -1.28, 3.0, -3.0, 8.0, -8.0])  # where to look, in units of the gate's width


def _scattered(low: np.ndarray, high: np.ndarray, count: int) -> np.ndarray:
    """A low-discrepancy set (Kronecker sequence of roots of primes; random beyond 12 variables), corners and centre."""
    d = len(low)
    primes = np.array([2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37][:d])
    if d == 1:
        unit = np.linspace(0, 1, count)[:, None]
    elif d > len(primes):
        unit = np.random.default_rng(d).random((count, d))
    else:
        unit = np.mod(np.outer(np.arange(1, count + 1), np.sqrt(primes)), 1.0)
    bits = (np.arange(min(2**d, 256))[:, None] >> np.arange(d)) & 1
    unit = np.concatenate([unit, bits.astype(float), np.full((1, d), 0.5)])
    return np.clip(low + (high - low) * unit, low, high)


def _crossings(head: ExactHead, low: np.ndarray, high: np.ndarray, most: int = 200) -> np.ndarray:
    """In one variable: points round the places where the largest score passes from one token to the next."""
    order = np.argsort(head.keys[:, 0])
    keys, bias = head.keys[order, 0], head.bias[order]
    points = []
    hull: list[int] = []
    for j in range(len(keys)):  # upper envelope of the lines k_j t + b_j
        while hull and keys[hull[-1]] == keys[j]:
            if bias[hull[-1]] <= bias[j]:
                hull.pop()
            else:
                break
        if hull and keys[hull[-1]] == keys[j]:
            continue
        while len(hull) >= 2:
            a, b = hull[-2], hull[-1]
            if (bias[a] - bias[j]) * (keys[b] - keys[a]) <= (bias[a] - bias[b]) * (keys[j] - keys[a]):
                hull.pop()
            else:
                break
        hull.append(j)
    for a, b in list(pairwise(hull))[:most]:
        gap = keys[b] - keys[a]
        t = (bias[a] - bias[b]) / gap + _ROUND / gap
        points.append(t / head.scale[0] + head.center[0])
    if not points:
        return np.empty((0, 1))
    found = np.concatenate(points)[:, None]
    return found[(found[:, 0] >= low[0]) & (found[:, 0] <= high[0])]


def _on_lines(head: ExactHead, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """In several variables: points round the places where the leading token changes along random lines."""
    rng = np.random.default_rng(29)
    found = [np.empty((0, len(low)))]
    steps = np.linspace(0.0, 1.0, _ON_A_LINE)
    for start, end in rng.uniform(low, high, (_LINES, 2, len(low))):
        slope = head.keys @ ((end - start) * head.scale)  # (N,)
        bias = head.keys @ ((start - head.center) * head.scale) + head.bias
        leading = _leading(steps, slope, bias) if head.grid is None else _on_axes(head, head.grid, start, end, steps)
        for a, b in {(int(a), int(b)) for a, b in pairwise(leading) if slope[b] - slope[a] > _HARD}:
            gap = slope[b] - slope[a]
            s = (bias[a] - bias[b] + _ROUND) / gap
            found.append(start + s[(s >= 0) & (s <= 1), None] * (end - start))
    return np.clip(np.concatenate(found), low, high)


def _on_axes(head: ExactHead, grid: Grid, start: np.ndarray, end: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The same of a grid, from start to end: along every axis one token leads."""
    t = (start + steps[:, None] * (end - start) - head.center) * head.scale  # (k, d)
    lines = zip(grid.keys, grid.biases, strict=True)
    places = [np.argmax(np.outer(t[:, i], keys) + biases, axis=1) for i, (keys, biases) in enumerate(lines)]
    return np.asarray(np.ravel_multi_index(places, grid.sizes))


def _leading(steps: np.ndarray, slope: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The token (k,) with the largest of the scores slope s + bias, (N,) each, at every step s (k,)."""
    most, leading = np.full(len(steps), -np.inf), np.zeros(len(steps), dtype=np.int64)
    for start in range(0, len(slope), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        scores = np.outer(steps, slope[part]) + bias[part]
        place = scores.argmax(axis=1)
        found = scores[np.arange(len(steps)), place]
        leading, most = np.where(found > most, start + place, leading), np.maximum(found, most)
    return leading


def _vertices(head: ExactHead, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """In several variables: where three or more of few tokens meet, one of them ahead by what costs most."""
    N, d = head.keys.shape
    found, steep = [np.empty((0, d))], head.keys * head.scale * (high - low)
    if not 3 <= N <= _FEW or np.ptp(steep, axis=0).max() < _HARD:
        return found[0]
    for count in range(3, min(d + 1, N, max(_AHEAD)) + 1):
        for some in combinations(range(N), count):
            for first in some:
                rest = [j for j in some if j != first]
                # unit coordinates of the box: key . u + score at the lower corner
                at_low = head.keys @ ((low - head.center) * head.scale) + head.bias
                rows, wanted = steep[rest] - steep[first], at_low[first] - at_low[rest] - _AHEAD[count]
                u = 0.5 + np.linalg.lstsq(rows, wanted - 0.5 * rows.sum(axis=1), rcond=None)[0]
                if np.all((u >= 0) & (u <= 1)):
                    found.append((low + u * (high - low))[None])
    return np.clip(np.concatenate(found), low, high)


@np.errstate(all="ignore")  # wild numbers make poor points, no more
def worst_points(
    error: Callable[[np.ndarray], np.ndarray],
    heads: Sequence[ExactHead],
    low: np.ndarray,
    high: np.ndarray,
    count: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Some points (k, d) where the error is largest, best first, and their errors (k,)."""
    points = _scattered(low, high, count)
    ways = (_crossings,) if len(low) == 1 else (_on_lines, _vertices)
    points = np.concatenate([points] + [near_walls(head, low, high) for head in heads for near_walls in ways])
    points = points[np.isfinite(points).all(axis=1)]
    values = error(points)
    best = np.argsort(-values)[:_BEST]
    points, values = points[best], values[best]
    d = len(low)
    step = (high - low) * count ** (-1.0 / d)
    moves = np.concatenate([np.eye(d), -np.eye(d)])  # (2d, d)
    rows = np.arange(len(points))
    for _ in range(_STEPS):
        trial = np.minimum(np.maximum(points[:, None, :] + step * moves, low), high)  # (k, 2d, d)
        found = error(trial.reshape(-1, d)).reshape(len(points), 2 * d)
        choice = found.argmax(axis=1)
        largest = found[rows, choice]
        taken = np.flatnonzero(largest > values)
        points[taken], values[taken] = trial[taken, choice[taken]], largest[taken]
        if len(taken) < len(points) / 2:
            step = 0.5 * step
    order = np.argsort(-values)
    return points[order], values[order]
