"""The tokens of ELU, phi(s) = s for s > 0, a (e^s - 1) else:  {0: -a, i (s - m): a (e^m - 1) for i = 1..q, beta s: s}.

Let z = e^{s - m}, z0 = e^{-m}, D = 1 + z + .. + z^q, zeta = z0 + .. + z0^q < 1. The first q + 1 tokens alone have the
mean h = a (e^s - 1) - a e^m z^{q+1}/D.

*s <= 0.* |h - phi| <= |a| e^{-q m}; stored values that are off by d_0 (the first) and d (the powers) add d_0 + zeta d.
With the last token of weight w the head is (1 - w) h + w s, and |s - phi| <= (1 + |a|) |s|, w <= e^{beta s}/(1 +
e^{beta s}): (1 + |a|) W0(1/e)/beta more.
*s > 0.* |h - s| <= (1 + |a|) s e^s, and the first tokens together have the weight D/(D + e^{beta s}) with 1 <= D <= (1
+ zeta) e^{q s}. For s <= S = 1e-6 that gives (1 + |a|) (1 + zeta) e^{(q+2) S} W0(1/e)/(beta - q - 1), since s e^{-c
s}/(1 + e^{-c s}) <= W0(1/e)/c; beyond S the weight is below e^{-(beta - q) S + 1}, demanded to be below 1e-400 times
anything at hand.

*As it runs.* Scores i (s - m) are off by t_i = gamma (i |s| + i m), then by one rounding of the difference, and exps
by E: weights relative to the token of score 0 change by factors 1 +- eta_i, eta_i = e^{t_i + u (i |s| + i m) + 2E'} -
1, E' = E/(1 - E). For s <= S token i has the weight z0^i e^{i s} at most, and |s| e^{i s} <= 1/(i e); so h moves by at
most |a| e^m sum_i z0^i eta_i e^{i s}/(1 - eta) (values of tokens differ by |a| e^m), where t_i e^{i s} counts with i
|s| -> 1/e. The last token's score is wrong by a factor: beta becomes beta (1 - 2 gamma), its weight a factor 1 + 3E
more. For 0 < s <= S all differences are rounded by u M, M = beta s: as the first tokens then have e^{-M} of the
weight, and M e^{-M} < 0.4, that is one u more in t; beyond M = 100, where nothing is said of h, they have e^{-99} of
it, and values |a| e^m. Values lose gamma (m + 2.1 |a|), as the weights times |values| of the first tokens add up to
2.1 |a| at most."""

from __future__ import annotations

import numpy as np
from flint import arb

from softwright.checker.refusal import require
from softwright.checker.transpiled.activations import Activation
from softwright.checker.transpiled.outward import gamma
from softwright.checker.transpiled.pieces import SLACK, above, weighted_gap
from softwright.checker.transpiled.unit import Array, Run, Unit

NEAR = 1e-6  # S


def power_unit(activation: Activation, table: Array, run: Run) -> Unit:
    (alpha,) = activation.parameters
    a = abs(alpha)
    count = table.shape[1]
    require(table.ndim == 2 and count >= 4, f"a head of {activation} has more tokens")
    k, b, v, u = table
    q = count - 2
    m, beta = float(-b[1]), float(k[-1])
    orders = np.arange(q + 1.0)
    require(np.array_equal(k[:-1], orders) and np.array_equal(b, np.append(-m * orders, 0.0)), "powers are not powers")
    require(
        np.array_equal(v, np.append(np.zeros(q + 1), 1.0)) and u[-1] == 0, f"a token of {activation} has another value"
    )
    require(3.2 <= m <= 40 and 2.0**40 <= beta <= 2.0**100 and a < 1e30, f"the tokens of {activation} are too extreme")
    grow = arb(m).exp()
    first, power = abs(arb(float(u[0])) + alpha), max(above(abs(arb(float(x)) - alpha * (grow - 1))) for x in u[1:-1])
    z = [above((-arb(m) * i).exp()) for i in range(1, q + 1)]
    zeta, gap, unit = sum(z) * SLACK, weighted_gap(2), run.precision.unit
    require(zeta < 0.05, "powers do not fall")
    near = above((arb(q + 2) * NEAR).exp()) * (1 + zeta) * SLACK

    def gate(sharp: float, factor: float) -> float:
        return (1 + a) * near * factor * gap / (sharp - q - 2) * SLACK

    exact = a * above((-arb(m) * q).exp()) + (above(first) + zeta * power) + gate(beta, 1.0)
    E, score = run.exps / (1 - run.exps) * (1 + 1e-9), gamma(run.score + 2, unit)
    etas = [above(arb((2 * E + score * (i * m + 1)) * SLACK).expm1()) for i in range(1, q + 1)]
    require(max(etas) < 0.01, f"rounding in {run.precision.name} changes the powers too much")
    # z0^i e^{i s} eta_i with i |s| e^{i s} <= 1/e < 1 inside; expm1 is convex, so e^{i s} times it is at most this.
    moved = a * above(grow) * sum(z_i * eta for z_i, eta in zip(z, etas, strict=True)) / (1 - 2 * max(etas)) * near
    switch = gate(beta * (1 - 2 * score), 1 + 3 * run.exps) - gate(beta, 1.0)
    lost = 32 * (1 + a) * above(grow) * (run.precision.smallest + run.precision.exp_floor)
    far = 1e-42 * (1 + a) * above(grow)

    def running(most: Array, top: Array) -> Array:
        values = gamma(run.values(count), unit) * (most + 2.1 * a * (1 + 2 * max(etas)))
        return (moved + switch + far + values + lost * (1 + most)) * SLACK

    return Unit(table, exact * SLACK, running, 1.0 + 1e-6)
