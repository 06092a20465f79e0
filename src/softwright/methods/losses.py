"""Losses: what a method minimises, as functions of the linear prediction s and of y, entry by entry.

    minimise  mean_j value(s_j, y_j) + penalty,   s_j = w.x_j + b;   slope and curvature are its derivatives in s.

`scale` is the argument `loss_scale`, which the robust loss and the negative binomial read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

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
    below = np.exp(-np.abs(s))  # never beyond what floats hold
    return np.where(s >= 0, 1.0, below) / (1 + below)


def mills(t: Array) -> Array:
    """phi(t)/Phi(t)"""
    return np.exp(-0.5 * t * t - 0.5 * np.log(2 * np.pi) - log_ndtr(t))


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
GAMMA = Loss(
    value=lambda s, y, scale: y * np.exp(-np.maximum(s, -500)) + s,
    slope=lambda s, y, scale: 1 - y * np.exp(-s),
    curvature=lambda s, y, scale: y * np.exp(-s),
    response=np.exp,
    constant=lambda mean: float(np.log(max(mean, 1e-300))),
)
NEGATIVE_BINOMIAL = Loss(  # without y log scale, which no s changes; written so that nothing cancels where y is large
    value=lambda s, y, scale: y * np.logaddexp(0, -s - np.log(scale)) + np.logaddexp(0, s + np.log(scale)) / scale,
    slope=lambda s, y, scale: sigmoid(s + np.log(scale)) / scale - y * sigmoid(-s - np.log(scale)),
    curvature=lambda s, y, scale: (y + 1 / scale) * sigmoid(s + np.log(scale)) * sigmoid(-s - np.log(scale)),
    response=np.exp,
    constant=lambda mean: float(np.log(max(mean, 1e-300))),
)
PROBIT = Loss(
    value=lambda s, y, scale: -log_ndtr((2 * y - 1) * s),
    slope=lambda s, y, scale: -(2 * y - 1) * mills((2 * y - 1) * s),
    curvature=lambda s, y, scale: mills((2 * y - 1) * s) * (mills((2 * y - 1) * s) + (2 * y - 1) * s),
    response=ndtr,
    constant=lambda mean: float(ndtri(mean)) if 0 < mean < 1 else 0.0,
    start=lambda y, weights: 0.0,
)
LOG_COSH = Loss(
    value=lambda s, y, scale: scale * scale * np.logaddexp((s - y) / scale, (y - s) / scale),
    slope=lambda s, y, scale: scale * np.tanh((s - y) / scale),
    curvature=lambda s, y, scale: 4 * sigmoid(2 * (s - y) / scale) * sigmoid(2 * (y - s) / scale),
    start=lambda y, weights: float(np.median(y)),
)
