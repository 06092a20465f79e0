"""Squares of a token's own numbers, out of softmax: what distances and variances are made of.

A head over keys with scores s t_k, value 1, and one token with score m (the sink), value 0, gives

    sum_k e^{s t_k} / (e^m + ..) = e^-m sum_k e^{s t_k} (1 - O(e^-m)),

and heads at +-s together an even function of s. Over the unit tokens t = +-x_p, so that heads at h delta, h = 1..H, sum
up 2 sum_p cosh(h delta x_p). With weights b_h = c_h/(h delta^2), c_h Richardson's,

    sum_h b_h (2 sum_p cosh(h delta x_p) - 2d) = |x|^2 + O(delta^(2H)),

because sum_h b_h h^2 = 1/delta^2 and sum_h b_h h^(2q) = 0 for q = 2..H. With |x_p| <= rho and u = delta rho rounding is
about 1e-15 d rho^2/u^2, the truncation below it. No pair of tokens is needed, only constant ones.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from softwright.methods.bilinear import richardson
from softwright.methods.frame import Frame, HeadWeights, Pair, head

SINK = {"float64": 40.0, "float32": 18.0}
ORDER = {"float64": 6, "float32": 2}
ANGLE = {"float64": 0.2, "float32": 0.5}


class Named(Protocol):
    """Columns of a token by name: `Slots`, or those of a part of wider tokens."""

    def vector(self, **weights: float) -> np.ndarray: ...


def square_heads(
    slots: Named, dtype: str, Q: np.ndarray, K: np.ndarray, target: str, *, reach: float, also: list[Pair]
) -> tuple[list[HeadWeights], float]:
    """Heads over keys that come in pairs +-, and the null token, that add sum_k over pairs of (q.k)^2 to a slot but for
    a constant: times the number of keys (pairs count twice) it is to be taken off."""
    s, delta = slots, ANGLE[dtype] / reach
    sink = (s.vector(one=1.0), s.vector(null=SINK[dtype]))
    heads, constant = [], 0.0
    for h, c in enumerate(richardson(ORDER[dtype]), 1):
        weight = float(c) / (h * delta * delta)
        values = s.vector(one=1.0, null=-1.0)
        out = weight * math.exp(SINK[dtype]) * s.vector(**{target: 1.0})
        heads.append(head([*also, sink, (h * delta * Q, K)], values, out))
        constant += weight
    return heads, constant


def own_squares(frame: Frame, dtype: str, slot: str, target: str, reach: float) -> tuple[list[HeadWeights], np.ndarray]:
    """Heads over (unit, null) that write |slot|^2 to `target`, and the residual map that takes the constant off."""
    s = frame.slots
    heads, constant = square_heads(s, dtype, s.select(slot), s.select("e"), target, reach=reach, also=[])
    R = s.residual((target, target, 0.0))
    R[s.places["one"][0], s.places[target][0]] = -2.0 * frame.coordinates * constant
    return heads, R
