"""How many gates can be near one another at one point, and what a head loses where so many meet.

`max_affine` bounds sum_j w_j y_j, y_j = max s - s_j, w the softmax of the scores, by W0((N-1)/e): the worst case is
that of all N tokens with y_j = 1 + W, at one point. Of max(abs(x - y), 0.2) no three pieces come near one another, and
a roof of many planes has few that meet. Let no k + 1 tokens have y_j < Y at one point. With W = W0((k-1)/e) and c =
(N - k) Y e^-Y,

    sum_j w_j y_j <= W + c:    sum_j (y_j - W - c) e^{-y_j} <= -(W + c) + (k-1) e^{-1-W} + (N - k) Y e^{-Y} = 0,

as (y - V) e^{-y} is at most e^{-1-V} everywhere and at most Y e^{-Y} where y >= Y >= 1 + V. Running moves scores by
theta at most: tokens that are FAR apart are still `Y` apart while 2 theta <= FAR - Y.

That some tokens never meet is shown by multipliers: w_ip >= 0 of sum 1 with sum_ip w_ip (s_i - s_p) <= -FAR on the
box, i among them, p any token; then one of the differences is that small at every point. A linear program in floats
finds the multipliers, exact arithmetic evaluates them.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import comb

import numpy as np
from flint import arb

Affine = tuple[Fraction, ...]  # gradient, then constant
FAR, NEAR = 40, 38  # Y is the second
MOST_SHIFT = 1.0  # theta
_MOST_SETS = 300


def gate_constant(tokens: int, meeting: int | None = None) -> arb:
    """What `tokens` gates lose together where at most `meeting` of them come near one another: 0.2785 for two."""
    together = tokens if meeting is None else min(meeting, tokens)
    if together <= 1:
        return arb(0) if tokens <= 1 else (tokens - 1) * NEAR * (-arb(NEAR)).exp()
    return (arb(together - 1) / arb(1).exp()).lambertw() + (tokens - together) * NEAR * (-arb(NEAR)).exp()


@lru_cache(maxsize=64)  # a question is asked several times on the way to a proof
def most_that_meet(scores: tuple[Affine, ...], low: tuple[Fraction, ...], high: tuple[Fraction, ...]) -> int:
    """At most so many of the scores are within FAR of the largest one at one point of the box."""
    N = len(scores)
    for k in range(2, N):
        if comb(N, k + 1) > _MOST_SETS:
            break
        if all(_apart(scores, some, low, high) for some in combinations(range(N), k + 1)):
            return k
    return N


def _apart(
    scores: tuple[Affine, ...], some: tuple[int, ...], low: tuple[Fraction, ...], high: tuple[Fraction, ...]
) -> bool:
    """Whether at every point of the box one of some scores is FAR below another one of all."""
    from scipy.optimize import linprog

    pairs = [(i, p) for i in some for p in range(len(scores)) if p != i]
    gaps = [tuple(a - b for a, b in zip(scores[i], scores[p], strict=True)) for i, p in pairs]
    rows = np.array([[float(x) for x in gap] for gap in gaps])
    unit = np.abs(rows).max()
    if not 0 < unit < np.inf:
        return False
    d = len(low)
    # the largest z with z <= gap_ip(x) for all pairs, somewhere in the box
    A = np.hstack([-rows[:, :d] / unit, np.ones((len(rows), 1))])
    sides = [*((float(a), float(b)) for a, b in zip(low, high, strict=True)), (None, None)]
    found = linprog(np.r_[np.zeros(d), -1.0], A_ub=A, b_ub=rows[:, d] / unit, bounds=sides)
    if not found.success or -found.fun * unit > -FAR:
        return False
    shares = [Fraction(max(-float(w), 0.0)).limit_denominator(10**6) for w in found.ineqlin.marginals]
    total = sum(shares, Fraction(0))
    if total == 0:
        return False
    mixed = tuple(
        sum((share * gap[c] for share, gap in zip(shares, gaps, strict=True)), Fraction(0)) / total
        for c in range(d + 1)
    )
    corner = (max(g * a, g * b) for g, a, b in zip(mixed, low, high, strict=False))
    return sum(corner, mixed[-1]) <= -FAR
