"""The Taylor model of a head on one box in ball arithmetic: the escalation for boxes where float64 noise cannot decide.

The same moments, division and Jensen bound as `taylor_head.py`, without its rounding columns, because balls carry their
own errors. With values of size 1e5 and a wanted accuracy of 1e-10 the float64 moments lose the answer to cancellation;
here they do not. It costs about a hundred times more for a box, and few boxes need it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from flint import arb, arb_mat

from softwright.proof.arithmetic.balls import Ball, ball_above, precision
from softwright.proof.arithmetic.series import Basis
from softwright.proof.models.head_moments import ExactHead

BallModel = tuple[list[Ball], Ball]  # coefficients and remainder

_BITS = 160
_DROP = 1e-3


def _total(balls: list[Ball]) -> Ball:
    return sum(balls, arb(0))


def network_models_in_balls(
    heads: Sequence[ExactHead], shape: Basis, center: np.ndarray, radius: np.ndarray, accuracy: float
) -> list[tuple[np.ndarray, float]]:
    """Coefficients (M,) and remainder of the sum of the heads, for each output, on the box center +- radius.

    The heads are added as balls and rounded to float64 once, so that large heads may cancel.
    """
    with precision(_BITS):
        each = [_models(head, shape, center, radius, accuracy) for head in heads]
        return [_rounded([models[o] for models in each]) for o in range(len(each[0]))]


def _rounded(models: list[BallModel]) -> tuple[np.ndarray, float]:
    """The sum of ball models with float64 coefficients; everything else goes to the remainder."""
    total = [_total(list(column)) for column in zip(*(coefficients for coefficients, _ in models), strict=True)]
    remainder = _total([rest for _, rest in models])
    out = np.array([float(ball.mid()) if ball.is_finite() else math.nan for ball in total])
    for ball, rounded in zip(total, out, strict=True):
        remainder = remainder + abs(ball - arb(float(rounded)))
    return out, ball_above(remainder)


def _models(head: ExactHead, shape: Basis, center: np.ndarray, radius: np.ndarray, accuracy: float) -> list[BallModel]:
    N, d = head.keys.shape
    m, p, M = head.values.shape[1], shape.order, shape.size
    sloped = head.sloped
    t = [(arb(float(center[i])) - arb(float(head.center[i]))) * arb(float(head.scale[i])) for i in range(d)]
    step = [arb(float(radius[i])) * arb(float(head.scale[i])) for i in range(d)]

    # Float64 estimates choose the reference and the tokens to drop; their margins are generous, so no proof rests on
    # them.
    t_float = (center - head.center) * head.scale
    rough = head.keys @ t_float + head.bias
    weight = np.exp(rough - rough.max())
    weight /= weight.sum()
    key = weight @ head.keys
    table = np.concatenate([head.values] + [head.slopes[:, :, i] for i in sloped if head.slopes is not None], axis=1)
    if sloped and head.slopes is not None:
        table = table.copy()
        table[:, :m] += head.slopes[:, :, sloped] @ t_float[sloped]
    reference = weight @ table  # (C,)
    C = table.shape[1]

    scores = [
        _total(
            [arb(float(head.keys[j, i])) * t[i] for i in range(d)]
            + [arb(float(head.bias[j])), arb(float(head.bias_low[j]))]
        )
        for j in range(N)
    ]
    top = arb(float(rough.max()))
    kappa = [[arb(float(head.keys[j, i])) - arb(float(key[i])) for i in range(d)] for j in range(N)]
    values = [_values(head, j, t, sloped) for j in range(N)]  # balls (C,)
    move = np.abs(head.keys - key) @ (radius * head.scale)
    impact = np.exp(np.minimum(rough - rough.max() + move, 700.0)) * (
        np.abs(table - reference).max(axis=1) + np.abs(reference).max() + 1.0
    )
    order = np.argsort(impact)
    cut = min(int(np.searchsorted(np.cumsum(impact[order]), _DROP * accuracy)), N - 1)
    kept, dropped = np.sort(order[cut:]), order[:cut]

    dropped_weight, dropped_value = arb(0), [arb(0)] * C
    for j in dropped:
        ceiling = (scores[j] - top + _total([abs(kappa[j][i]) * step[i] for i in range(d)])).exp()
        dropped_weight = dropped_weight + ceiling
        dropped_value = [
            b + ceiling * abs(values[j][c] - arb(float(reference[c]))) for c, b in enumerate(dropped_value)
        ]

    rows = []
    for j in kept:
        q = [kappa[j][i] * step[i] for i in range(d)]
        powers = [arb(1)]
        for i in range(1, M):
            powers.append(powers[shape.parent[i]] * q[shape.via[i]])
        powers = [power / int(f) for power, f in zip(powers, shape.factorial, strict=True)]
        rho = _total([abs(x) for x in q])
        rest = rho ** (p + 1) / math.factorial(p + 1) * rho.exp()
        row = list(powers)
        rests = [rest]
        for c in range(C):
            u = values[j][c] - arb(float(reference[c]))
            row += [power * u for power in powers]
            rests.append(rest * abs(u))
        rows.append(row + rests)
    weights = arb_mat(1, len(kept), [(scores[j] - top).exp() for j in kept])
    moments = weights * arb_mat(len(kept), (1 + C) * M + 1 + C, [entry for row in rows for entry in row])

    first = moments[0, 0]
    D = [moments[0, i] / first for i in range(M)]
    D_error = (moments[0, (1 + C) * M] + dropped_weight) / first
    drift = (_total([abs(D[int(i)]) for i in shape.linear]) + dropped_weight / first) if p else arb(0)
    # Jensen holds for all tokens together: D(0) >= 1 without the dropped ones, the mean of kappa with them.
    D_min = (-drift).exp()
    D_degree = _by_degree(shape, D)
    parts: list[BallModel] = []
    for c in range(C):
        G = [moments[0, (1 + c) * M + i] / first for i in range(M)]
        N_error = (moments[0, (1 + C) * M + 1 + c] + dropped_value[c]) / first
        for a in range(M):
            where = shape.shift[a]
            for k in range(1, len(where)):
                G[where[k]] = G[where[k]] - D[k] * G[a]
        G_degree = _by_degree(shape, G)
        cut_off = _total([G_degree[k] * D_degree[n] for k in range(p + 1) for n in range(p + 1) if k + n > p])
        remainder = (N_error + D_error * _total(G_degree) + cut_off) / D_min
        G[0] = G[0] + arb(float(reference[c]))
        parts.append((G, remainder))
    return [
        _assemble(
            shape, [parts[o]] + [parts[m + k * m + o] for k in range(len(sloped))], [step[i] for i in sloped], sloped
        )
        for o in range(m)
    ]


def _values(head: ExactHead, j: int, t: list[Ball], sloped: list[int]) -> list[Ball]:
    """The columns of token j: its values at the centre, then its slopes."""
    base = [arb(float(v)) for v in head.values[j]]
    if head.slopes is None or not sloped:
        return base
    slopes = head.slopes[j]  # (m, d)
    base = [b + _total([arb(float(slopes[o, i])) * t[i] for i in sloped]) for o, b in enumerate(base)]
    return base + [arb(float(slopes[o, i])) for i in sloped for o in range(len(slopes))]


def _by_degree(shape: Basis, coefficients: list[Ball]) -> list[Ball]:
    sums = [arb(0)] * (shape.order + 1)
    for i, coefficient in enumerate(coefficients):
        sums[shape.degree[i]] = sums[shape.degree[i]] + abs(coefficient)
    return sums


def _assemble(shape: Basis, parts: list[BallModel], steps: list[Ball], sloped: list[int]) -> BallModel:
    """base + sum_i step_i s_i slope_i."""
    total, remainder = list(parts[0][0]), parts[0][1]
    for (slope, slope_remainder), step, i in zip(parts[1:], steps, sloped, strict=True):
        where = shape.shift[int(shape.linear[i])]
        for a, coefficient in enumerate(slope):
            if a < len(where):
                total[where[a]] = total[where[a]] + step * coefficient
            else:
                remainder = remainder + step * abs(coefficient)
        remainder = remainder + step * slope_remainder
    return total, remainder
