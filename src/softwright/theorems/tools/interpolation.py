"""The interpolation points of paper A: how one softmax head clips a number, and how far off it is.

Points L_k = a + k D with D = (b - a)/p, k = 0..p-1. A key with score beta (2 k s - k (L_k + L_0)) for the query s has,
up to a term without k, the score -(beta/D)(s - L_k)^2: softmax prefers the points nearest to s. Put q = e^{-beta D}.
If s lies theta D from the nearest point (theta <= 1/2), a point l steps away on the side of s has at most the weight
q^{l^2 - 2 l theta} relative to the nearest, one on the other side q^{l^2 + 2 l theta}. So all but the two nearest have
at most q each, together at most (p - 2) q = eps0 for

    beta = log((p - 2)/eps0) / D.

*Distance.* With q <= 1/2 (p >= 3, eps0 <= 1/2), the mean distance sum_k w_k |L_k - clip(s, a, b)| is at most

    D (1/2 + 1.5 q + 2 q^2 + 2.5 q^4 + ...)  for a <= s <= b - D   (the two nearest: at most D/2; then one by one)
    D (q + 2 q^4 + 3 q^9 + ...)              for s <= a            (l steps beyond the nearest weigh q^{l^2})
    D (1 + q + 2 q^4 + 3 q^9 + ...)          for s >= b - D        (the last point is b - D, not b).

*The theorem's bound.* With M = max(|a|, |b|) >= p D/2, M eps0 >= q p (p-2) D/2: 1.5 q D for p = 3, 4 q D for p = 4 and
7.5 q D from p = 5 on, and there is one point outside the two nearest for p = 3, two for p = 4. So every case above is
at most D + M eps0, which is Theorem 3.1's max(|a|, |b|) eps0 + (b - a)/p, for every real s.

*Any values.* Values phi(L_k) instead of L_k: |sum_k w_k phi(L_k) - phi(clip(s, a, b))| <= Lip(phi) D (1 + 3.1 q), by
the same distances, for q <= 1/8.

*Rounding.* Let every computed score be off by at most h (rounding of stored keys, of products and sums, of the shift
by the maximum and of exp), so that ratios of weights change by at most e^{2h}. With e^{2h} <= 1.106 all cases above
hold with those ratios: the nearest two then cost at most 0.526 D, the other terms 1.106 times as much, still at most D
+ M eps0. So what runs in float64 stays within the theorem's bound plus what the values, their sum and s itself lose
(`_rounding` of A1 and A2).

*Stored numbers.* In real arithmetic, too, keys are off by u, levels by 7 u M and biases by 15.5 u beta p M, u = 2^-53:
two neighbours weigh the same up to 18 u p M from their middle, so that a ratio of weights is off by e^{40 u beta p M}.
Sizes with 40 u beta p M > 0.02 are refused; below, the cases above keep their bounds, and the levels' 8 u M is added.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from softwright.attention.head import softmax_rows
from softwright.errors import Faults
from softwright.precision import FLOAT64
from softwright.theorems.tools.construction import float_above
from softwright.theorems.tools.theorem import Option

U = FLOAT64.unit
MOST_SCORE_ERROR = 0.05  # e^{2h} <= 1.106
TINY = 1e-305  # more than what underflows costs a sum, for each of its terms
EXP_ASSUMPTION = f"exp of the run-time library within {FLOAT64.exp_ulps} units in the last place"
EPS0 = Option("eps0", float, 1e-6, "softmax mass allowed outside the two nearest points")
MOST_STORED_ERROR = 0.02  # of a score, by rounding what is stored
LARGEST_SCORE = 1e290  # scores above it overflow float64 somewhere on the way


@dataclass(frozen=True)
class Points:
    """p points from a, spaced D = (b - a)/p, and the temperature that leaves eps0 outside the two nearest."""

    a: float
    b: float
    count: int
    eps0: float

    @property
    def step(self) -> float:
        return (self.b - self.a) / self.count

    @property
    def levels(self) -> np.ndarray:
        return self.a + np.arange(self.count) * self.step

    @property
    def beta(self) -> float:
        with np.errstate(all="ignore"):  # an overflow is a fault of the sizes, reported by `check_scores`
            return float(np.log((self.count - 2) / self.eps0) / np.float64(self.step)) * (1.0 + 1e-12)  # rounded up

    @property
    def q(self) -> float:
        """The largest relative weight of a point that is not one of the two nearest, rounded up."""
        return float_above(Fraction(self.eps0) / (self.count - 2))

    @property
    def ramp(self) -> np.ndarray:
        """What the query s multiplies in the score of each key: 2 beta k."""
        return 2.0 * self.beta * np.arange(self.count)

    @property
    def bias(self) -> np.ndarray:
        """-beta k (L_k + L_0)"""
        return -self.beta * np.arange(self.count) * (self.levels + self.a)

    @property
    def stored_error(self) -> float:
        """What rounding the stored numbers adds to the difference of two scores."""
        return 40.0 * U * self.beta * self.count * max(abs(self.a), abs(self.b))

    def bound(self) -> float:
        """max(|a|, |b|) eps0 + (b - a)/p and what stored levels are off, rounded up."""
        a, b, eps0 = Fraction(self.a), Fraction(self.b), Fraction(self.eps0)
        return float_above(max(abs(a), abs(b)) * (eps0 + 8 * Fraction(U)) + (b - a) / self.count)

    def distance(self) -> float:
        """D (1 + 3.1 q), rounded up: what one unit of Lipschitz constant costs."""
        step = (Fraction(self.b) - Fraction(self.a)) / self.count
        return float_above(step * (1 + Fraction(31, 10) * Fraction(self.q)))


def check_range(faults: Faults, a: float, b: float) -> bool:
    return faults.check(a < b, f"the theorem clips to [a, b] with a < b, got a = {a:g}, b = {b:g}")


def check_eps0(faults: Faults, eps0: float) -> bool:
    return faults.check(
        0 < eps0 <= 0.5, f"the theorem needs eps0 > 0, and at most 1/2 for its bound to hold, got eps0 = {eps0:g}"
    )


def check_scores(faults: Faults, largest: float, beta: float, stored: float) -> bool:
    """Whether beta and the scores it makes stay inside float64, and stored scores tell the points apart."""
    fine = faults.check(
        not np.isfinite(stored) or stored <= MOST_STORED_ERROR,
        f"float64 stores scores to {stored:.2g}, the theorem's bound allows {MOST_STORED_ERROR}: the points are "
        "too close for numbers of this size; take fewer points, or a and b nearer to 0 or farther apart",
    )
    return fine & faults.check(
        bool(np.isfinite(beta)) and bool(np.isfinite(largest)) and largest < LARGEST_SCORE,
        f"beta = {beta:.3g} makes scores up to {largest:.3g}, which overflow float64: the theorem takes beta as large "
        "as eps0 and the spacing of the points ask; raise eps0 or b - a, or take fewer points",
    )


def evaluate_line(ramp: np.ndarray, bias: np.ndarray, values: np.ndarray, s: np.ndarray) -> np.ndarray:
    """sum_k w_k(s) values_k for scores ramp_k s + bias_k: (n,) -> (n,)."""
    return softmax_rows(np.multiply.outer(np.asarray(s, dtype=float), ramp) + bias) @ values


def telling_places(points: Points, rng: np.random.Generator, n: int) -> np.ndarray:
    """Numbers s where interpolation errs most: beside the middles between points, at and beyond both ends."""
    step, last = points.step, points.levels[-1]
    middles = points.a + (rng.integers(0, points.count, n) + 0.5) * step
    near = middles + rng.choice([-1.0, 1.0], n) * rng.choice([0.0, 1e-9, 1e-3, 0.02, 0.1, 0.3], n) * step
    ends = rng.choice([points.a, points.b, last, points.a - step, points.b + step], n)
    beyond = rng.choice([points.a - 3 * step * rng.exponential(size=n), points.b + 3 * step * rng.exponential(size=n)])
    return np.where(rng.random(n) < 0.6, near, np.where(rng.random(n) < 0.5, ends, beyond))
