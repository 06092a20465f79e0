"""Fitted tokens on a ladder: keys d apart, all of it the same when left and right are exchanged.

k_j = -k_{p-1-j}, b_j = b_{p-1-j}, u_j = u_{p-1-j}, v_j = 1 - v_{p-1-j}, and the first token has value 0. Then, with m
the number of rungs between a token and the edge on the side of s, the weight of a token is that of the edge times

    c_m y^m,    c_m = e^{b_m - b_0},  y = e^{-d |s|},

and g(s) = max(s, 0) + (U - V |s|)/Z, where Z, U and V are the sums of c_m y^m times 1, u_m and v_m. The layouts softmax
and double may run this instead of a softmax. In roundings of the dtype, E the relative error of exp:

    y       d |s| is rounded once, then exp: a factor e^{t}, |t| <= E/(1 - E) + u d |s|. Beside the leading token, r
            rungs from the edge, that changes a weight by |m - r| t
    y^m     made by doubling: from y .. y^n come y^{n+1} .. y^{2n} as y^i y^n. A power is the product of roundings (1 +
            x), those of its own product and of its factors; in the quotient of two powers what both hold cancels
    c_m     and c_m u_m, c_m v_m are stored rounded: one for either token
    values  products, sums of p terms above and below, product with |s|, difference, quotient: 2 p + 6 of the sizes of
            U and V |s|, two are charged more; one of the sum with max(s, 0), charged twice as of all values of g
    lost    y^m below the smallest normal number: smallest c_m beside Z >= 1
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softwright.checker.transpiled.outward import exp_up, gamma
from softwright.checker.transpiled.unit import Array, Run

FEWEST = 6  # tokens that may run so
STEEPEST = 60.0  # largest |b_m - b_0| of those


@dataclass(frozen=True)
class Ladder:
    """The distance d of two keys, how many tokens there are, and the largest c_m."""

    distance: float
    count: int
    largest: float

    @classmethod
    def of(cls, table: Array) -> Ladder | None:
        """That of a table (4, p), or None where it is none."""
        k, b, v, u = table
        p = len(k)
        if p < FEWEST or not np.isfinite(table).all():
            return None
        steps = k[1:] - k[:-1]
        same = bool(
            (k == -k[::-1]).all() and (b == b[::-1]).all() and (u == u[::-1]).all() and (v == 1 - v[::-1]).all()
        )
        if not same or not (steps == steps[0]).all() or steps[0] <= 0 or v[0] != 0 or u[0] != 0:
            return None
        rises = b - b[0]
        if np.abs(rises).max() > STEEPEST:
            return None
        return cls(float(steps[0]), p, float(exp_up(rises).max()))

    def slips(self, size: Array, right: Array, leader: Array, run: Run) -> Array:
        """(c, p): what weights run with, beside that of the leading token, for |s| up to `size` (c, 1)."""
        rungs = np.arange(self.count)
        m = np.where(right[:, None], self.count - 1 - rungs, rungs)  # (c, p)
        r = m[np.arange(len(m)), leader][:, None]
        unit = run.precision.unit
        t = run.exps / (1 - run.exps) + unit * self.distance * size * (1 + 4 * unit)
        return np.abs(m - r) * t + gamma(1, unit) * (_unshared(self.count)[m, r] + 2)

    def values(self, table: Array, size: Array, right: Array, ran: Array, run: Run) -> Array:
        """(c,): what rounding adds to the values, with weights up to `ran` (c, p)."""
        _, _, v, u = np.abs(table)
        unit = run.precision.unit
        turned = np.where(right[:, None], v[::-1], v) * size + u
        plain = v * size + u
        lost = run.precision.smallest * self.largest * self.count * (1 + turned.max(axis=1))
        return (
            gamma(2 * self.count + 8, unit) * (ran * turned).sum(axis=1)
            + 2 * unit * (ran * plain).sum(axis=1) * (1 + 8 * unit)
            + lost
        )


def _unshared(count: int) -> Array:
    """(p, p): how many roundings one of two powers holds and the other does not, counted as often as it does."""
    held = {0: np.zeros(count), 1: np.zeros(count)}
    known = 1
    while known < count - 1:
        for i in range(1, min(known, count - 1 - known) + 1):
            held[known + i] = held[i] + held[known]
            held[known + i][known + i] += 1
        known = min(2 * known, count - 1)
    powers = np.stack([held[m] for m in range(count)])
    return np.abs(powers[:, None, :] - powers[None, :, :]).sum(axis=2)
