"""Names for the tokens of a head, in the user's own variables.

The score of token j is k_j.x + b_j. Three facts give names:

*Gates.* The token of the largest score takes nearly all the weight, and the scores' upper envelope cuts the domain into
pieces. Where all keys lie on one line, k_j = k_0 + a_j u, the pieces are intervals of s = u.x, and a token is called
after its interval: "piece 2: 11 <= h <= 20". Otherwise it is called after the affine function that it holds.

*Places.* If b_j = -sum_i (w_i/2 k_ji^2 - a_i k_ji) + const for some w_i > 0, then the score is, up to a term that all
tokens share, -sum_i (x_i - c_ji)^2 / (2 w_i) with c_ji = w_i k_ji - a_i: the token stands at the place c_j. Whether it
is so is a linear least-squares problem in (w, a), which must have no residual. Three keys on an axis always solve it,
so more are asked for.

*Elsewhere.* The logarithm of a softmax weight, k_j.x + b_j - log sum_i e^{k_i.x + b_i}, is concave, so a token has one
place of greatest weight in the box: where the mean key under the weights is its own. On one axis the mean key grows
with x, so that inverting it by interpolation finds all places at once; beyond the ends it is the end. Keys in several
variables that form no grid are looked up at sample points.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from softwright.attention.head import Axis, Head
from softwright.attention.view import numbers
from softwright.domain import Box

_AXIS_POINTS = 2001
_SAMPLES = 4096
_CHUNK = 4_000_000  # entries of one table of weights
_EXACT = 1e-6  # residual of the least-squares problem, relative to the biases' range; float32 rounds at 6e-8
_NOTHING = 1e-9  # terms of an affine function that are this small beside the largest are rounding


def token_names(head: Head, box: Box, center: np.ndarray, scale: np.ndarray) -> list[str]:
    """One name for each token of a head that reads t = (x - center) * scale, x in the box."""
    if head.tokens == 1:
        return ["always"]
    active = [i for i in range(head.dim) if np.ptp(head.keys[:, i]) > 0]
    if not active:
        return [f"token {j}, the same everywhere" for j in range(1, head.tokens + 1)]
    if head.structure == "gates":
        return _pieces(head, box, center, scale)
    places, exact = _places(head, active), True
    if places is None:
        places, exact = _of_greatest_weight(head, box, active, center, scale), False
    x = np.clip(places / scale[active] + center[active], box.lower[active], box.upper[active])  # (N, active)
    x[np.abs(x) < _NOTHING * (box.upper - box.lower)[active]] = 0.0
    near, names = "" if exact else "near ", [box.names[i] for i in active]
    if len(active) == 1:
        return [f"{near}{names[0]} = {place:.4g}" for place in x[:, 0]]
    return [f"{near}({', '.join(names)}) = {numbers(place)}" for place in x]


def in_user_coordinates(
    head: Head, center: np.ndarray, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """keys (N, d), biases (N,), values (N, m), slopes (N, m, d) of the head as a function of x where it reads
    t = (x - center) * scale."""
    shift = center * scale
    slopes = None if head.slopes is None else head.slopes * scale
    values = head.values if head.slopes is None else head.values - head.slopes @ shift
    return head.keys * scale, head.biases - head.keys @ shift, values, slopes


def affine_text(constant: float, gradient: np.ndarray, names: Sequence[str], box: Box) -> str:
    """ "3 + 2*x - y", without what is only rounding."""
    sizes = np.abs(gradient) * np.maximum(np.abs(box.lower), np.abs(box.upper))
    largest = max(abs(constant), float(sizes.max(initial=0.0)))
    terms = [] if abs(constant) <= _NOTHING * largest else [f"{constant:.4g}"]
    for factor, size, name in zip(gradient, sizes, names, strict=True):
        if size > _NOTHING * largest:
            number = "" if abs(abs(factor) - 1.0) < 1e-9 else f"{abs(factor):.4g}*"
            terms.append(f"{'-' if factor < 0 else ''}{number}{name}")
    return " + ".join(terms).replace("+ -", "- ") or "0"


def leading_intervals(
    slopes: np.ndarray, offsets: np.ndarray, low: float, high: float
) -> list[tuple[float, float] | None]:
    """Where in [low, high] each line slopes[j] s + offsets[j] is the highest of all; None where it never is."""
    intervals: list[tuple[float, float] | None] = [None] * len(slopes)
    hull: list[int] = []
    starts: list[float] = []
    for j in np.lexsort((offsets, slopes)):  # slopes ascending, of equal ones the highest last
        if hull and slopes[hull[-1]] == slopes[j]:
            hull.pop()
            starts.pop()
        start = -np.inf
        while hull:
            start = (offsets[hull[-1]] - offsets[j]) / (slopes[j] - slopes[hull[-1]])
            if start > starts[-1]:
                break
            hull.pop()
            starts.pop()
        hull.append(int(j))
        starts.append(float(start) if starts else -np.inf)
    for j, start, stop in zip(hull, starts, [*starts[1:], np.inf], strict=True):
        if max(start, low) < min(stop, high):
            intervals[j] = (max(start, low), min(stop, high))
    return intervals


def _pieces(head: Head, box: Box, center: np.ndarray, scale: np.ndarray) -> list[str]:
    keys, biases, values, slopes = in_user_coordinates(head, center, scale)
    offsets = keys - keys[0]  # (N, d)
    direction = offsets[np.argmax(np.abs(offsets).sum(axis=1))]
    first = int(np.flatnonzero(np.abs(direction) > _NOTHING * np.abs(direction).max())[0])
    direction = direction / direction[first]
    along = offsets[:, first]  # (N,) a_j, if the keys lie on a line
    if np.abs(offsets - along[:, None] * direction).max() > _EXACT * np.abs(offsets).max():
        held = np.zeros((head.tokens, head.outputs, head.dim)) if slopes is None else slopes
        texts = [
            ", ".join(affine_text(v, g, box.names, box) for v, g in zip(value, slope, strict=True))
            for value, slope in zip(values, held, strict=True)
        ]
        return [f"piece {j}: {text}" for j, text in enumerate(texts, 1)]
    ends = np.stack([direction * box.lower, direction * box.upper])  # (2, d)
    intervals = leading_intervals(along, biases, float(ends.min(axis=0).sum()), float(ends.max(axis=0).sum()))
    what = affine_text(0.0, direction, box.names, box)
    order = sorted((interval[0], j) for j, interval in enumerate(intervals) if interval is not None)
    names = ["a piece outside the box"] * head.tokens
    for place, (_, j) in enumerate(order, 1):
        low, high = intervals[j] or (0.0, 0.0)
        names[j] = f"piece {place}: {low:.6g} <= {what} <= {high:.6g}"
    return names


def _places(head: Head, active: list[int]) -> np.ndarray | None:
    """Places (N, active) in the unit frame, if the keys are places; None if not, or if too few tokens tell."""
    keys = head.keys[:, active]
    if head.tokens <= 2 * len(active) + 1 or min(len(np.unique(column)) for column in keys.T) <= 3:
        return None
    size = np.abs(keys).max(axis=0)
    design = np.hstack([(keys / size) ** 2, keys / size, np.ones((head.tokens, 1))])  # (N, 2 active + 1)
    solution = np.linalg.lstsq(design, head.biases, rcond=None)[0]
    if np.abs(design @ solution - head.biases).max() > _EXACT * np.ptp(head.biases):
        return None
    widths = -2.0 * solution[: len(active)] / size**2
    if not np.all(widths > 0):
        return None
    return widths * keys - solution[len(active) : -1] / size


def _of_greatest_weight(head: Head, box: Box, active: list[int], center: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """(N, active) in the unit frame."""
    low, high = (box.lower - center) * scale, (box.upper - center) * scale
    if head.structure == "grid":
        sizes = [axis.tokens for axis in head.axes]
        index = np.unravel_index(np.arange(head.tokens), sizes)
        return np.stack([_on_axis(head.axes[i], low[i], high[i])[index[i]] for i in active], axis=1)
    if len(active) == 1:
        (i,) = active
        return _on_axis(Axis(head.keys[:, i], head.biases), low[i], high[i])[:, None]
    samples = (np.vstack([box.sample(_SAMPLES), box.corners(1024)]) - center) * scale  # (P, d)
    best, where = np.full(head.tokens, -1.0), np.zeros((head.tokens, len(active)))
    step = max(1, _CHUNK // head.tokens)
    for start in range(0, len(samples), step):
        part = samples[start : start + step]
        weights = head.weights(part)  # (p, N)
        top = weights.argmax(axis=0)
        better = weights[top, np.arange(head.tokens)] > best
        best[better] = weights[top, np.arange(head.tokens)][better]
        where[better] = part[top[better]][:, active]
    return where


def _on_axis(axis: Axis, low: float, high: float) -> np.ndarray:
    """Where on an axis each token has its greatest weight: (n,)."""
    grid = np.linspace(low, high, _AXIS_POINTS)
    step = max(1, _CHUNK // axis.tokens)
    mean = np.concatenate([axis.weights(grid[i : i + step]) @ axis.keys for i in range(0, len(grid), step)])
    return np.interp(axis.keys, np.maximum.accumulate(mean), grid)
