"""Bounds in closed form for hard gates: instant, and for gates in several variables the only cheap ones.

Gates. Let weights w_j be proportional to a_j e^{-y_j} with y_j >= 0, y_* = 0, a_* = 1 and a_j <= a. Then

    sum_j w_j y_j <= lambda = W0((N - 1) a / e)            (Lambert's W; sharp for a = 1),

because the claim is sum_{j != *} a_j (y_j - lambda) e^{-y_j} <= lambda, every summand is at most a e^{-1-lambda} (at
y = 1 + lambda), and (N - 1) a e^{-1-lambda} = lambda. So if scores are beta l_j up to a common function and up to
errors whose differences stay below 2 eta (a = e^{2 eta}), the head g = sum_j w_j l_j obeys

    max_j l_j - lambda / beta <= g <= max_j l_j.

A head of gated affine pieces whose differences are steepness times those of the scores errs by at most
steepness * lambda / beta. Cells (paper B: values f(c_j), scores beta (c_j.x - |c_j|^2 / 2), covering radius R, concave
modulus of continuity omega):  |g - f| <= omega(sqrt(R^2 + 2 lambda / beta))  for every beta.  Memory with margin m: the
mass elsewhere is at most (N - 1) e^{-beta m}.

`prove_max_affine` applies the first bound to a network and a formula that is a maximum (or minimum) of affine
functions, in exact rational arithmetic: it finds beta, eta and the distance of the formula's pieces from the network's.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from flint import arb

from softwright.proof.arithmetic.ball_expression import ball_above, precision


def gate_constant(tokens: int, disorder: float = 0.0) -> float:
    """W0((N - 1) e^(2 eta) / e), rounded up; 0.2785 for two gates."""
    with precision(100):
        return ball_above((arb(tokens - 1) * (2 * arb(disorder) - 1).exp()).lambertw())


def gated_linear_bound(tokens: int, beta: float, steepness: float = 1.0) -> float:
    """|g - f| for gated affine pieces with |l_j - l_*| <= steepness (s_* - s_j)."""
    return math.nextafter(steepness * gate_constant(tokens) / beta * (1.0 + 1e-15), math.inf)


def cells_bound(modulus: Callable[[float], float], radius: float, tokens: int, beta: float) -> float:
    """Paper B for every beta; `modulus` is a concave modulus of continuity, rounded up by the caller."""
    with precision(100):
        reach = ball_above((arb(radius) ** 2 + 2 * arb(gate_constant(tokens)) / arb(beta)).sqrt())
    return modulus(reach)


def memory_leak(tokens: int, beta: float, margin: float) -> float:
    """Softmax mass outside the right memory when its score leads by beta * margin."""
    with precision(100):
        return ball_above((tokens - 1) * (-arb(beta) * arb(margin)).exp())
