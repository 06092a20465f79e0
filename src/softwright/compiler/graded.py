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
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

_SETTINGS = [(growth, beyond, width) for width in (2.4, 1.9, 1.4) for growth in (0.1, 0.05, 0.2) for beyond in (1, 2)]
_MOST_TOKENS = 240
_COARSEST, _FINEST = 5.0, 1.0  # spacings that are tried, times the digits that are wanted
_SMALLEST = 1e-150  # of the centres: keys stay below the largest number that proofs handle

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
    for growth, beyond, width in _SETTINGS:
        spacing = _COARSEST / digits
        while spacing > _FINEST / digits:  # the first that meets the tolerances has fewest tokens
            check()
            points = centres(reach, finest, spacing, growth, beyond)
            if len(points) > (_MOST_TOKENS if best is None else best.tokens - 1):
                break
            found = _fitted(function, points, width, tolerances, cap, dtype, dense, wanted, reach, finest)
            if found is not None:
                best = found
                break
            spacing *= 0.95
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
