"""Graded keys: soft cells that shrink towards a point at which a function has an unbounded slope.

For a function f of the distance s >= 0 from its singular point, on [0, S], with centres C_1 < ... < C_N that are even,
or nearly so, in log s. Between neighbours the scores of two tokens cross at p_j = sqrt(C_j C_{j+1}), where the slope of
their difference is

    kappa_j = 1/(r^2 h_j p_j),     h_j = log(C_{j+1}/C_j),

the tangents of a convex potential with second derivative (1/(r h s))^2: cells of width r that look the same at every
scale. Keys and biases are sums of the kappa_j *from the coarse end*, k_j = -(kappa_j + kappa_{j+1} + ..): the other way
round they cancel. Spacings grow downwards as h (1 + g depth), because f varies less there; the finest centre lies where
|f(s) - f(0)| is a third of the tolerance. Below 0 the finest token takes all: the head is the constant f(0) there.

The number of tokens grows like the square of the digits: 32 for sqrt to six digits, 68 to nine.

**Moduli.** How far a function with an unbounded slope moves when its argument does, over graded cells.

For F as a function of the distance s from its singular point, on [0, S], constant beyond that point, with cells whose
edges e_k = S 2^(-k/4) shrink towards 0. From enclosures of F and F' on the cells

    omega(d)   >= |F(u) - F(v)| for |u - v| <= d: within 2 d of 0 (or 8 d) the width of F's range there, beyond it
                  d times the largest slope that is met
    relative   >= sup |F'| s: what a relative change of the distance does
    by_root    >= sup |F'| 2 sqrt(s): the slope of F as a function of sqrt(s), the norm of what s is a sum of squares of
    rest       the width of F's range over the innermost cell, on which no slope is known
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from softwright.compiler.nodes import Expression, Node, differentiate

_SETTINGS = [(growth, beyond, width) for width in (2.4, 1.9, 1.4) for growth in (0.1, 0.05, 0.2) for beyond in (1, 2)]
_MOST_TOKENS = 240
_COARSEST, _FINEST = 5.0, 1.0  # spacings that are tried, times the digits that are wanted
_SMALLEST = 1e-150  # of the centres: keys stay below the largest number that proofs handle

_RATIO, _CELLS = 2.0**-0.25, 3200  # of the cells of moduli
_SHORTEST = 1e-280  # stretch of moduli

Distances = Callable[[np.ndarray], np.ndarray]  # (n,) distances -> (n, m) values


@dataclass(frozen=True)
class GradedAxis:
    """Keys and biases (N,) of scores k s + b in the distance s, values (N, m), and errors (m,) that a sample saw."""

    keys: np.ndarray
    biases: np.ndarray
    values: np.ndarray
    errors: np.ndarray

    @property
    def tokens(self) -> int:
        return len(self.keys)


def centres(reach: float, finest: float, spacing: float, growth: float, beyond: int) -> np.ndarray:
    """Increasing centres from `finest` to `beyond` cells past `reach`."""
    top, place = np.log(reach), np.log(reach) + beyond * spacing
    found = [place]
    while found[-1] > np.log(finest):
        found.append(found[-1] - spacing * (1.0 + growth * max(0.0, top - found[-1])))
    return np.exp(np.array(found[::-1]))


def keys_of(points: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Keys and biases of centres; the largest bias is 0, that of the finest one."""
    spacing, crossings = np.diff(np.log(points)), np.sqrt(points[1:] * points[:-1])
    steps = 1.0 / (width**2 * spacing * crossings)
    keys = -np.concatenate([np.cumsum(steps[::-1])[::-1], [0.0]])
    biases = np.concatenate([np.cumsum((steps * crossings)[::-1])[::-1], [0.0]])
    return keys, biases - biases.max()


def weights_at(s: np.ndarray, keys: np.ndarray, biases: np.ndarray) -> np.ndarray:
    scores = s[:, None] * keys + biases
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    return scores / scores.sum(axis=1, keepdims=True)


def sample(reach: float, finest: float, count: int) -> np.ndarray:
    """Distances: 0, evenly in the logarithm from well below the finest centre, drawn to the end, and beyond 0."""
    even = np.exp(np.linspace(np.log(finest * 1e-3), np.log(reach), count))
    drawn = reach * np.cos(0.5 * np.pi * (np.arange(count // 3) + 0.5) / (count // 3))
    beyond = -finest * 10.0 ** np.linspace(-2, 6, 17)
    return np.unique(np.concatenate([beyond, [0.0], even[:-1], drawn, [reach]]))


def finest_scale(function: Distances, reach: float, tolerances: np.ndarray) -> float | None:
    """The largest s/4^n at which all of f(s) - f(0) are below a third of the tolerance; None if there is none."""
    s = reach * 4.0 ** -np.arange(0.0, 248.0)
    away = np.abs(function(s) - function(np.zeros(1)))
    if not np.isfinite(away).all():
        return None
    far = np.flatnonzero((away > tolerances / 3.0).any(axis=1))
    last = int(far.max()) + 1 if len(far) else 1
    return float(s[last]) if last < len(s) and s[last] > _SMALLEST else None


def fit_graded(
    function: Distances,
    reach: float,
    tolerances: np.ndarray,
    cap: float,
    dtype: np.dtype,
    check: Callable[[], None] = lambda: None,
) -> GradedAxis | None:
    """The smallest graded head for functions of the distance on [0, reach] within tolerances (m,), or None.

    Values stay below about `cap` times the functions; keys, biases and values are numbers of `dtype`.
    """
    finest = finest_scale(function, reach, tolerances)
    if finest is None:
        return None
    dense = sample(reach, finest, 12 * _MOST_TOKENS)
    wanted = function(np.maximum(dense, 0.0))
    if not np.isfinite(wanted).all():
        return None
    size = np.abs(wanted).max(axis=0) + 1e-300
    digits = max(1.0, float(-np.log10((tolerances / size).min())))
    best: GradedAxis | None = None
    spacings = _COARSEST / digits * 0.95 ** np.arange(int(np.log(_COARSEST / _FINEST) / -np.log(0.95)) + 1)
    for growth, beyond, width in _SETTINGS:
        most = _MOST_TOKENS if best is None else best.tokens - 1
        tried = [centres(reach, finest, float(spacing), growth, beyond) for spacing in spacings]
        tried = [points for points in tried if len(points) <= most]
        if tried:  # what the finest of them does not meet, coarser ones seldom do
            check()
            found = _fitted(function, tried[-1], width, tolerances, cap, dtype, dense, wanted, reach, finest)
            if found is None and best is None:
                found = _fitted(
                    function, tried[len(tried) // 2], width, tolerances, cap, dtype, dense, wanted, reach, finest
                )
            if found is None:
                continue
            best = found
        for points in tried:  # the first that meets the tolerances has fewest tokens
            check()
            if best is not None and len(points) >= best.tokens:
                break
            found = _fitted(function, points, width, tolerances, cap, dtype, dense, wanted, reach, finest)
            if found is not None:
                best = found
                break
    return best


def _fitted(
    function: Distances,
    points: np.ndarray,
    width: float,
    tolerances: np.ndarray,
    cap: float,
    dtype: np.dtype,
    dense: np.ndarray,
    wanted: np.ndarray,
    reach: float,
    finest: float,
) -> GradedAxis | None:
    """Values by regularised least squares for these centres; None if a tolerance is missed."""
    from scipy.linalg import solve_triangular

    exact_keys, exact_biases = keys_of(points, width)
    keys, biases = (array.astype(dtype).astype(float) for array in (exact_keys, exact_biases))
    s = sample(reach, finest, 5 * len(points) + 60)
    values = function(np.maximum(s, 0.0))
    columns = weights_at(s, keys, biases)
    size = np.abs(values).max(axis=0) + 1e-300
    found = np.empty((len(points), values.shape[1]))
    for o in range(values.shape[1]):
        strength = 0.3 * tolerances[o] / (cap * size[o])
        rows = np.vstack([columns, strength * np.sqrt(len(s)) * np.eye(len(points))])
        q, r = np.linalg.qr(rows)
        top = q[: len(s)]
        first = solve_triangular(r, top.T @ values[:, o], check_finite=False)
        again = solve_triangular(r, top.T @ (values[:, o] - columns @ first), check_finite=False)
        found[:, o] = first + again
    found = found.astype(dtype).astype(float)
    if not (np.abs(columns @ found - values).max(axis=0) <= tolerances).all():
        return None
    errors = np.abs(weights_at(dense, keys, biases) @ found - wanted).max(axis=0)
    return GradedAxis(keys, biases, found, errors) if (errors <= tolerances).all() else None


class Moduli:
    """Of a tree in `u`, the distance from its singular point."""

    def __init__(self, function: Node, reach: float) -> None:
        longer = max(float(reach) * (1.0 + 1e-12), _SHORTEST)  # what holds on a longer stretch holds on a shorter one
        edges = longer * _RATIO ** np.arange(_CELLS + 1.0)  # falling
        edges = edges[edges > 1e-290]
        lower, upper = edges[1:], edges[:-1]
        value = Expression.from_nodes([function], ("u",))
        slope = Expression.from_nodes([differentiate(function, "u")], ("u",))
        with np.errstate(all="ignore"):
            low, high, defined = (a.reshape(len(a), -1)[:, 0] for a in value.enclose(lower[:, None], upper[:, None]))
            inner = value.enclose(np.zeros((1, 1)), edges[-1:, None])
            sl, sh, known = (a.reshape(len(a), -1)[:, 0] for a in slope.enclose(lower[:, None], upper[:, None]))
        steep = np.where(known & np.isfinite(sl) & np.isfinite(sh), np.maximum(np.abs(sl), np.abs(sh)), np.inf)
        good = defined & np.isfinite(low) & np.isfinite(high)
        low, high = np.where(good, low, -np.inf), np.where(good, high, np.inf)
        first, second = float(inner[0][0, 0]), float(inner[1][0, 0])
        if not bool(inner[2].all()) or not np.isfinite(first) or not np.isfinite(second):
            first, second = -np.inf, np.inf
        # Hulls of F from the point up to edge k, and the largest slope from edge k outwards.
        hull_low = np.minimum.accumulate(np.concatenate([[first], low[::-1]]))[::-1]  # by edge, falling
        hull_high = np.maximum.accumulate(np.concatenate([[second], high[::-1]]))[::-1]
        self.edges = edges  # falling: edges[0] is the end, edges[-1] the innermost
        with np.errstate(all="ignore"):
            self.width = (hull_high - hull_low) * (1.0 + 1e-12)
        self.slope = np.maximum.accumulate(np.concatenate([[0.0], steep]))  # from edge k to the end
        self.rest = float(self.width[-1])
        self.relative = _largest(steep * edges[:-1])
        self.by_root = _largest(steep * 2.0 * np.sqrt(edges[:-1]))

    def omega(self, moved: float) -> float:
        """sup |F(u) - F(v)|, |u - v| <= moved."""
        best = float(self.width[0])  # of all of it
        if not moved > 0.0:
            return 0.0
        for factor in (2.0, 8.0):
            above = np.flatnonzero(self.edges >= factor * moved)
            if not len(above):
                continue
            k = int(above[-1])  # the smallest edge that is so far away
            wide = np.flatnonzero(self.edges >= self.edges[k] + moved)
            narrow = np.flatnonzero(self.edges <= self.edges[k] - moved)
            if not len(wide) or not len(narrow):
                continue
            inside = float(self.width[int(wide[-1])])
            beyond = moved * float(self.slope[int(narrow[0])])
            best = min(best, max(inside, beyond) * (1.0 + 1e-12))
        return best

    def argument_error(self, allowed: float) -> float:
        """About the largest error of the argument that moves F by no more than `allowed`."""
        low, high = 1e-300, float(self.edges[0])
        if self.omega(low) > allowed:
            return 0.0
        for _ in range(80):
            middle = float(np.sqrt(low * high))
            if self.omega(middle) <= allowed:
                low = middle
            else:
                high = middle
        return low


def _largest(array: np.ndarray) -> float:
    return float(array.max()) * (1.0 + 1e-12) if len(array) else 0.0
