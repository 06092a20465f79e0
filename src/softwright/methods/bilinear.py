"""Bilinear heads: linear attention out of softmax.

With scores s t_j, t_j = q.k_j, base weights p_j (they sum to 1) and values v_j, a head gives

    F(s) = sum_j p_j e^{s t_j} v_j / sum_j p_j e^{s t_j} = a_0 + a_1 s + a_2 s^2 + ..,   a_1 = cov_p(t, v).

Heads at +-h delta, h = 1..H, with output weights +-c_h/(2 delta) leave

    G = sum_h c_h (F(h delta) - F(-h delta)) / (2 delta) = a_1 + sum_{m = 2H+1, 2H+3, ..} a_m delta^{m-1} sum_h c_h h^m,

because sum_h c_h h = 1 and sum_h c_h h^{2q+1} = 0 for q = 1..H-1 (Richardson; c_h = prod_{i != h} i^2/(i^2 - h^2) / h).

Truncation. For |s| = R/rho, rho >= |t_j|, R < pi/2, the real part of e^{s t_j} is at least cos(R) |e^{s t_j}|, so
|F| <= B/cos R with B >= |v_j|, and Cauchy's estimate gives |a_m| <= B (rho/R)^m / cos R. Hence with u = delta rho

    |G - cov_p(t, v)| <= B rho sum_{m >= 2H+1 odd} u^{m-1} |sum_h c_h h^m| min_R 1/(R^m cos R),

which needs H u < R and is of order B rho (H!)^2 (u/R)^{2H}. `certify.step_bound` evaluates it with the weights that
run. Rounding adds about eps B rho / u, so u has a best value for every order; ANGLES holds measured ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from softwright.attention.richardson import richardson
from softwright.attention.stack import HeadWeights
from softwright.methods.frame import Pair, head

__all__ = ["ANGLES", "ORDERS", "bilinear_heads", "richardson"]
ANGLES: dict[str, dict[int, float]] = {
    "float64": {1: 3e-5, 2: 2e-3, 3: 2e-2, 4: 8e-2, 5: 1e-1, 6: 1.2e-1},
    "float32": {1: 2.5e-2, 2: 1.5e-1, 3: 3e-1, 4: 3e-1, 5: 3e-1, 6: 3e-1},
}
ORDERS = tuple(ANGLES["float64"])


def bilinear_heads(
    Q: np.ndarray,
    K: np.ndarray,
    V: np.ndarray,
    O: np.ndarray,  # noqa: E741
    *,
    reach: float,
    order: int,
    angle: float,
    also: Sequence[Pair] = (),
    factor: float = 1.0,
) -> list[HeadWeights]:
    """2 * order heads that add factor * cov_j(q.k_j, v_j) O to the stream.

    Q, K (D, k) and V (D, v) read tokens, O (v, D) writes; `reach` is the bound rho of |q.k|, `angle` is u; `also` are
    further score terms (exclusion, weights) that the covariance takes as log weights of the tokens.
    """
    delta = angle / reach
    heads = []
    for h, c in enumerate(richardson(order), 1):
        for sign in (1.0, -1.0):
            scale = factor * sign * float(c) / (2.0 * delta)
            heads.append(head([*also, (sign * h * delta * Q, K)], V, scale * O))
    return heads
