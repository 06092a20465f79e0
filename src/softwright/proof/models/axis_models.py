"""Univariate Taylor models of the softmax weights along one axis of a grid, on many intervals at once.

On t = c + r s, |s| <= 1, the weights of the n tokens of an axis are w_j = N_j/D with N_j = W_j e^{q_j s}, D = sum N_j,
W_j = e^{score at c}, q_j = (k_j - kbar) r (a common factor cancels). As power series up to degree p

    P_j = N_j / D   by forward substitution,      |w_j - P_j| <= rho_j = (e_j + e_D |P_j| + cut_j) / D_min,

where e_j = W_j (|q_j|^(p+1)/(p+1)! + roundings) e^{|q_j|} bounds what the polynomial misses of N_j, e_D is the sum of
the e_j, cut_j what the product P_j D holds beyond degree p, and D >= D_min by Jensen's inequality, because kbar is
close to the softmax mean (`taylor_head.py` has the same argument in several variables). As w_j >= 0 is a weight, it is
at most omega_j = min(1, |P_j| + rho_j) on the interval.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softwright.proof.arithmetic.directed import (
    U,
    exp_down,
    exp_near,
    exp_up,
    gamma,
    pair_error,
    two_product_sum,
    up,
)
from softwright.proof.arithmetic.rounding import RunEngine
from softwright.proof.models.head_moments import weight_error


@dataclass(frozen=True)
class AxisModels:
    """The n weights of an axis on G intervals."""

    P: np.ndarray  # (G, n, p + 1) coefficients
    rho: np.ndarray  # (G, n) what they miss
    norm: np.ndarray  # (G, n) sum of the moduli of the coefficients
    omega: np.ndarray  # (G, n) largest value of each weight
    theta: np.ndarray  # (G, n) what this axis adds to the log error of a weight of the run network
    noise: np.ndarray  # (G,) relative error of the weights at the centre; steers only
    pull: np.ndarray  # (G,) how far the scores move; steers only


def axis_models(
    keys: np.ndarray,
    bias: np.ndarray,
    t: np.ndarray,
    t_low: np.ndarray,
    radius: np.ndarray,
    *,
    order: int,
    engine: RunEngine,
    dim: int,
    rounded: float = 2.0,
    of: tuple[float, float] | None = None,
) -> AxisModels:
    """Models of degree `order` for tokens keys (n,), bias (n,) on the intervals t + t_low +- radius, (G,) each.

    `dim` is the number of variables of the whole head, by which the dense engine sums its scores; `rounded` says how
    often t is. `of` are the first and the largest bias of the axis, where these tokens are some of its tokens.
    """
    n, p, G = len(keys), order, len(t)
    start = np.broadcast_to(bias, (G, n))
    k = np.broadcast_to(keys, (G, n))
    high, low = two_product_sum(start, np.zeros((G, n)), [(k, np.broadcast_to(t[:, None], (G, n)), t_low[:, None])])
    top = high.argmax(axis=1)[:, None]
    S = (high - np.take_along_axis(high, top, axis=1)) + (low - np.take_along_axis(low, top, axis=1))
    largest = up(np.abs(t) + np.abs(t_low) + radius)[:, None]  # bounds |t|
    score_size = np.abs(keys) * largest
    S_error = up(3 * U * np.abs(S) + 4 * pair_error(1) * (score_size + 2 * np.abs(bias)))
    W = exp_near(S)
    eta = weight_error(S_error, S, S)
    share = W / W.sum(axis=1, keepdims=True)
    kappa = keys - (share @ keys)[:, None]
    q = kappa * radius[:, None]
    reach = up(np.abs(q))
    raised = exp_up(up(np.abs(S) * 4 * U + S_error) + S + reach)  # of W e^|q|, which exists where e^|q| may not

    # Series of the numerators and of their sum, divided by its constant term, which is one float for all of them.
    N = np.empty((G, n, p + 1))
    N[:, :, 0] = W
    rest = np.ones((G, n))
    for i in range(1, p + 1):
        N[:, :, i] = N[:, :, i - 1] * q / i
        rest = rest * reach / i
    rest = rest * reach / (p + 1)
    inverse = 1.0 / W.sum(axis=1)
    N *= inverse[:, None, None]
    D = N.sum(axis=1)  # (G, p + 1)
    rest = np.fmin(1.0, up(rest, 2 * p + 8))  # the tail of an exponential series is never above e^|q|
    wrong = up(raised * (rest + up(eta + gamma(n + 4 * p + 20)))) * inverse[:, None]
    e_D = up(wrong.sum(axis=1), n + 8)
    P = N.copy()
    for i in range(1, p + 1):
        for b in range(1, i + 1):
            P[:, :, i] -= D[:, None, b] * P[:, :, i - b]

    size = np.abs(P)
    norm = up(size.sum(axis=2), p + 4)
    D_size = np.abs(D)
    D_norm = up(D_size.sum(axis=1), p + 4)
    beyond = np.cumsum(D_size[:, ::-1], axis=1)[:, ::-1]  # degrees k and above
    cut = np.zeros((G, n))
    for i in range(1, p + 1):
        cut += size[:, :, i] * beyond[:, None, p - i + 1]
    residual = up(wrong, n + 8) + e_D[:, None] * norm + up(cut, 4 * p + 8)
    residual = residual + gamma(2 * p + 16) * norm * (D_norm[:, None] + 1.0)
    rho = up(residual / _least(D, e_D)[:, None], 32)
    omega = np.fmin(1.0, up(norm + rho))

    below = np.maximum(reach - S, 0.0) + np.maximum((S + reach).max(axis=1, keepdims=True), 0.0)
    first, highest = (float(bias[0]), float(bias.max())) if of is None else of
    bias_size = np.abs(bias) + abs(first) if engine.axis_sizes else up(np.abs(bias - highest))
    theta = engine.score_error(score_size, bias_size, up(np.abs(kappa)) * (largest * rounded), below, lost=0.0, dim=dim)
    return AxisModels(
        P=P,
        rho=rho,
        norm=norm,
        omega=omega,
        theta=up(theta),
        noise=(share * eta).sum(axis=1) + gamma(n + 8),
        pull=(share * np.abs(q)).sum(axis=1) + np.where(reach.max(axis=1) > 20.0, reach.max(axis=1), 0.0),
    )


def _least(D: np.ndarray, e_D: np.ndarray) -> np.ndarray:
    """A lower bound (G,) of the denominator from its coefficients (G, p + 1), the first of which is 1 but for rounding,
    and their error; NaN where there is none."""
    later = np.abs(D[:, 1:])
    first = later[:, 0] if D.shape[1] > 1 else np.zeros(len(D))
    drift = up((first + e_D) / np.maximum(1.0 - 2 * e_D, 1e-300))
    jensen = np.where(e_D < 0.25, exp_down(-np.where(np.isnan(drift), np.inf, drift)), 0.0)
    jensen = jensen * (1.0 - e_D - 4 * U) * (1.0 - 8 * U)
    plain = 1.0 - (later.sum(axis=1) + e_D) * (1.0 + gamma(D.shape[1] + 8)) - 4 * U
    least = np.fmax(jensen, plain)
    return np.where(least > 0.0, least, np.nan)
