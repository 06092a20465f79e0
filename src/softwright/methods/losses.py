"""Losses: what a method minimises, as functions of the linear prediction s and of y, entry by entry.

    minimise  mean_j value(s_j, y_j) + penalty,   s_j = w.x_j + b;   slope and curvature are its derivatives in s.

`scale` is the argument `loss_scale`, which only the robust loss reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
Term = Callable[[Array, Array, float], Array]  # s, y, scale


@dataclass(frozen=True)
class Loss:
    """`response` is what is expected of y at s, where that is not s itself; `constant` its inverse: the s that fits y
    with a given mean when there is no feature. `start` is where Newton's method begins with its constant."""

    value: Term
    slope: Term
    curvature: Term
    response: Callable[[Array], Array] | None = None
    constant: Callable[[float], float] = float
    start: Callable[[Array, Array], float] | None = None  # y, weights that sum to 1; constant of the mean unless given


def sigmoid(s: Array) -> Array:
    return 1 / (1 + np.exp(-s))


def _log_odds(mean: float) -> float:
    return float(np.log(mean / (1 - mean))) if 0 < mean < 1 else 0.0


SQUARES = Loss(
    value=lambda s, y, scale: 0.5 * (s - y) ** 2,
    slope=lambda s, y, scale: s - y,
    curvature=lambda s, y, scale: np.ones_like(s),
)
LOGISTIC = Loss(
    value=lambda s, y, scale: np.logaddexp(0, s) - y * s,
    slope=lambda s, y, scale: sigmoid(s) - y,
    curvature=lambda s, y, scale: sigmoid(s) * (1 - sigmoid(s)),
    response=sigmoid,
    constant=_log_odds,
    start=lambda y, weights: 0.0,
)
POISSON = Loss(
    value=lambda s, y, scale: np.exp(np.minimum(s, 500)) - y * s,
    slope=lambda s, y, scale: np.exp(s) - y,
    curvature=lambda s, y, scale: np.exp(s),
    response=np.exp,
    constant=lambda mean: float(np.log(max(mean, 1e-300))),
)
LOG_COSH = Loss(
    value=lambda s, y, scale: scale * scale * np.logaddexp((s - y) / scale, (y - s) / scale),
    slope=lambda s, y, scale: scale * np.tanh((s - y) / scale),
    curvature=lambda s, y, scale: 1 / np.cosh((s - y) / scale) ** 2,
    start=lambda y, weights: float(np.median(y)),
)
