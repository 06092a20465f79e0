"""Fitted tokens on a ladder: an even number of keys, d apart, all of it the same when left and right are exchanged.

k_j = -k_{p-1-j}, b_j = b_{p-1-j}, u_j = u_{p-1-j}, v_j = 1 - v_{p-1-j}, and the first token has value 0. Then, with m
the number of rungs between a token and the edge on the side of s, the weight of a token is that of the edge times

    c_m y^m,    c_m = e^{b_m - b_0},  y = e^{-d |s|},

and g(s) = max(s, 0) + (U - V |s|)/Z, where Z, U and V are the sums of c_m y^m times 1, u_m and v_m. Exchanging left and
right leaves Z and U and changes the sign of V - Z/2. So 1 + y divides the former and 1 - y the latter; a polynomial of
degree 2n that is the same read backwards is (1 + y)^{2n} R(x), x = y/(1 + y)^2, R of degree n: R_0 is its first number,
and what is left without R_0 (1 + y)^{2n}, over y, is such a polynomial of degree 2n - 2. With w = y/(1 + y) this makes

    g(s) = max(s, 0) + (U' - |s| (B - 2 w A))/Z',    V - Z/2 = (1 - y)(1 + y)^{p-2} A,   B = Z'/2 + A,

four polynomials in x. The layouts softmax and double may run this instead of a softmax. In roundings of the dtype:

    y       d |s| is rounded once, then exp: a factor e^{t}, |t| <= E/(1 - E) + u d |s|. Beside the leading token, r
            rungs from the edge, that changes a weight by |m - r| t. From here on y is what came out of it
    w       1/(1 + 1/y): 2. x = w - w^2: a factor 1 + e of w is one of 1 + e (1 - 2w)/(1 - w) of x, up to e^2, that of
            the product w/(1 - w) of one, and one: (2 - 3w)/(1 - w) + 1 <= 3, charged 3.02, as w <= (1 + 2E)/2
    x^k     made by doubling: from x .. x^n come x^{n+1} .. x^{2n} as x^i x^n. A power is the product of roundings (1 +
            e), those of its own product and of its factors; in the quotient of two powers what both hold cancels. All
            four sums have the same powers: with N the numerator, f = N/Z' and N_k, Z_k the terms at x^k, a change of
            powers by factors q_k beside that of x^r changes f by sum_k |N_k - f Z_k| |q_k - 1|/Z' at most
    sums    of n + 1 products with stored coefficients: n + 2; product with w, sum with B, product with |s|, sum with
            U': n + 8 and a quotient, charged n + 10 of the sizes of terms of N; of Z' n + 2, charged n + 3 of f
    g       one of the sum with max(s, 0), charged twice as of all values of g
    lost    what is below the smallest normal number, or behind the digits of coefficients, beside Z' >= 1
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import arb, ctx

from softwright.checker.transpiled.outward import UNIT, exp_down, exp_up, expm1_up, gamma
from softwright.checker.transpiled.unit import Array, Run

FEWEST = 6  # tokens that may run so
STEEPEST = 60.0  # largest |b_m - b_0| of those
BITS = 600
CUT = 1e-60  # of coefficients, which have 120 digits before they are rounded
NEAR = 1 + 1e-13  # some hundred roundings of float64


@dataclass(frozen=True)
class Ladder:
    """The distance d of two keys, how many tokens there are, and the polynomials (4, p/2): Z', U', B and A, nearest."""

    distance: float
    count: int
    polynomials: Array

    @classmethod
    def of(cls, table: Array) -> Ladder | None:
        """That of a table (4, p), or None where it is none."""
        k, b, v, u = table
        p = len(k)
        if p < FEWEST or p % 2 or not np.isfinite(table).all():
            return None
        steps = k[1:] - k[:-1]
        same = bool(
            (k == -k[::-1]).all() and (b == b[::-1]).all() and (u == u[::-1]).all() and (v == 1 - v[::-1]).all()
        )
        if not same or not (steps == steps[0]).all() or steps[0] <= 0 or v[0] != 0 or u[0] != 0:
            return None
        if np.abs(b - b[0]).max() > STEEPEST:
            return None
        with ctx.workprec(BITS):
            c = [(arb(float(x)) - float(b[0])).exp() for x in b]
            whole = _in_x(c, 1)
            offsets = _in_x([weight * float(x) for weight, x in zip(c, u, strict=True)], 1)
            odd = _in_x([weight * (arb(float(x)) - arb("0.5")) for weight, x in zip(c, v, strict=True)], -1)
            both = [z / 2 + a for z, a in zip(whole, odd, strict=True)]
            rows = [[float(x.mid()) for x in row] for row in (whole, offsets, both, odd)]
        return cls(float(steps[0]), p, np.array(rows))

    def exponent(self, size: Array, run: Run) -> Array:
        """t, for |s| up to `size`."""
        unit = run.precision.unit
        return run.exps / (1 - run.exps) * (1 + 4 * UNIT) + unit * self.distance * size * (1 + 4 * unit)

    def slips(self, size: Array, right: Array, leader: Array, run: Run) -> Array:
        """(c, p): what weights run with, beside that of the leading token, for |s| up to `size` (c, 1)."""
        rungs = np.arange(self.count)
        m = np.where(right[:, None], self.count - 1 - rungs, rungs)  # (c, p)
        r = m[np.arange(len(m)), leader][:, None]
        return np.abs(m - r) * self.exponent(size, run)

    def rounded(self, least: Array, most: Array, run: Run) -> Array:
        """(c,): what the rest adds to g - max(s, 0), for |s| between `least` and `most`; infinite where Z' may be 0."""
        Z, U, B, A = self.polynomials
        n, unit = len(Z) - 1, run.precision.unit
        t = (self.exponent(most, run) + 4 * UNIT * self.distance * most) * NEAR
        y0, y1 = exp_down(-self.distance * most - t), exp_up(-self.distance * least + t)
        w0, w1 = (y0 / (1 + y0) / NEAR)[:, None], (y1 / (1 + y1) * NEAR)[:, None]
        top = np.minimum(y1, 1.0)
        x0, x1 = _powers(y0 / (1 + y0) ** 2, n) / NEAR, _powers(top / (1 + top) ** 2, n) * NEAR
        a0, a1 = least[:, None], most[:, None]
        sizes = np.abs(U) + a1 * (np.abs(B) + 2 * w1 * np.abs(A))  # (c, n + 1), of the terms of N
        slack = 16 * UNIT * sizes
        gentle, steep = B - 2 * np.maximum(w0 * A, w1 * A), B - 2 * np.minimum(w0 * A, w1 * A)  # ends of B - 2 w A
        low = U - np.maximum(a0 * steep, a1 * steep) - slack
        high = U - np.minimum(a0 * gentle, a1 * gentle) + slack
        rising, falling = np.clip(Z, 0.0, None), np.clip(-Z, 0.0, None)
        total = (x0 @ rising) / NEAR - (x1 @ falling) * NEAR
        total = np.where(total > 0, total, np.nan)
        largest = (x1 @ rising) * NEAR
        spare = (sizes * x1).sum(axis=1) * 1e-13
        above = np.maximum(high * x0, high * x1).sum(axis=1) + spare
        below = np.minimum(low * x0, low * x1).sum(axis=1) - spare
        f1 = np.where(above > 0, above / total * NEAR, above / largest / NEAR)[:, None]
        f0 = np.where(below < 0, below / total * NEAR, below / largest / NEAR)[:, None]
        f = np.maximum(np.abs(f0), np.abs(f1))
        apart = np.maximum(np.abs(high - f0 * Z), np.abs(low - f1 * Z)) + 8 * UNIT * (sizes + f * np.abs(Z))
        terms = x1 / total[:, None] * NEAR
        r = (np.abs(Z) * x1).argmax(axis=1)
        changes = (3.02 * np.abs(np.arange(n + 1) - r[:, None]) + _unshared(n + 1)[r]) * gamma(1, unit)
        worst = changes.max(axis=1) * NEAR
        found = (apart * terms * expm1_up(np.minimum(changes * NEAR, 1.0))).sum(axis=1)
        found += gamma(n + 10, unit) * (sizes * terms).sum(axis=1) + gamma(n + 3, unit) * f[:, 0]
        tiny = 12 * (n + 1) ** 2 * (run.precision.smallest + CUT) * np.abs(self.polynomials).sum()
        found += tiny * (1 + most + f[:, 0])
        # of sizes and Z' with the powers that run: each is off by all of its roundings
        found = found * NEAR / (1 - 2 * gamma(8 * (n + 1), unit) - 2 * worst)
        return np.where((worst < 0.1) & np.isfinite(found), found, np.inf)


def _in_x(polynomial: list[arb], sign: int) -> list[arb]:
    """R of a polynomial (1 + sign y) (1 + y)^{2n} R(y/(1 + y)^2), coefficients from y^0 on."""
    rest: list[arb] = []
    for coefficient in polynomial[:-1]:
        rest.append(coefficient - sign * rest[-1] if rest else coefficient)
    found = []
    while True:
        degree = len(rest) - 1
        found.append(rest[0])
        if degree == 0:
            return found
        binomial = arb(1)
        left = []
        for i, coefficient in enumerate(rest):
            left.append(coefficient - found[-1] * binomial)
            binomial = binomial * (degree - i) / (i + 1)
        rest = left[1:-1]


def _powers(x: Array, n: int) -> Array:
    """(c, n + 1): x^0 .. x^n."""
    ones = np.ones((len(x), 1))
    return np.concatenate([ones, np.multiply.accumulate(np.repeat(x[:, None], n, axis=1), axis=1)], axis=1)


def _unshared(count: int) -> Array:
    """(count, count): how many roundings one of two powers holds and the other does not, as often as it does."""
    held = {0: np.zeros(count), 1: np.zeros(count)}
    known = 1
    while known < count - 1:
        for i in range(1, min(known, count - 1 - known) + 1):
            held[known + i] = held[i] + held[known]
            held[known + i][known + i] += 1
        known = min(2 * known, count - 1)
    powers = np.stack([held[m] for m in range(count)])
    return np.abs(powers[:, None, :] - powers[None, :, :]).sum(axis=2)
