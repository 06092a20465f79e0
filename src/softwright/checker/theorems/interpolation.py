"""Interpolation heads: how far a softmax over equidistant points is from clipping, from the stored scores alone.

A head with scores r_k s + c_k, k = 0..p-1, is compared with the points L_k = a + k D. Two neighbours weigh the same at
the *crossing* x_k = (c_k - c_{k+1})/(r_{k+1} - r_k), and score_{k+1} - score_k = (r_{k+1} - r_k)(s - x_k). From the
stored numbers, in exact rationals: rho <= r_{k+1} - r_k <= rho', rho > 0, and |x_k - (L_k + D/2)| <= tau < D/2 for all
k. Computed scores may be off by h each, so that ratios of weights may be off by e^{2h}. Put

    q = e^{-rho (D/2 - tau)}          kappa = e^{rho' tau + 2h}.

Let s lie between L_k and L_k + D/2 (or mirrored). A crossing i steps back is at least (2i - 1) D/2 - tau >= (2i - 1)
(D/2 - tau) away, one i steps beyond the next at least 2i (D/2 - tau). So, relative to point k, point k - l weighs at
most kappa q^{l^2}, point k + 1 at most kappa, point k + 1 + l at most kappa q^{l (l+1)}. Beyond the first or the last
point only the first of these occurs. For every real s, the mean of |L_j - clip(s, a, b)| is at most

    D (kappa/(1 + kappa) + kappa sum_l ((l + 1/2) q^{l^2} + (l + 1) q^{l (l+1)}))     between the first and last point,
    D (1 + kappa sum_l l q^{l^2})                                                     beyond (b is D above the last).

The first: with the weight 1/(1 + kappa) <= lambda <= 1 of point k, lambda d + (1 - lambda)(D - d) <= D kappa/(1 +
kappa) for d <= D/2. Sums end where the points end; beyond l = 40 they are at most q^{1600}/(1 - q)^2.

*Heads that share points* (`shared_error`): H heads of n keys, head h has the points h (n-2) - 1 .. (h+1)(n-2), of which
the outer two have the value 0 (the outermost of all: a and b), |values| <= V. Let s lie between points k and k+1.

- One head has both: its mean misses that of the two by 2 V times the mass elsewhere, kappa sum (q^{l^2} + q^{l(l+1)}).
- Two heads have both, at a seam: one has all the mass beyond k, the other all beyond k + 1, and the same bound holds
  for their sum, if they agree on lambda; their lambdas differ by at most a quarter of what the scores differ.
- A head that ends m or more points before, or begins as much after, has at most kappa sum_l q^{l^2 + 2 l m} on its own
  points, and m = 0, n - 2, 2 (n - 2), .. on either side.

So the sum is within D kappa/(1 + kappa) + kappa V (2 sum (q^{l^2} + q^{l(l+1)}) + 2 sum_m sum_l q^{l^2 + 2 l m}) of
clip(s, a, b), beside what the seams and the stored values add.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, fmpq

from softwright.checker.precision import precision_of
from softwright.checker.refusal import require

FLOAT64 = precision_of("float64")
TERMS = 40  # of a sum over points that is added up one by one
REAL = ("real arithmetic (the theorem says nothing of rounding)",)
ROUNDED = (f"exp of the run-time library within {FLOAT64.exp_ulps} units in the last place",)


def rational(number: float) -> fmpq:
    return fmpq(*float(number).as_integer_ratio())


def rationals(array: Iterable[float]) -> list[fmpq]:
    return [rational(x) for x in array]


def blank(found: np.ndarray, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Zeros of the shape that the construction prescribes, once the stored tensor is known to have it.

    Sizes are whatever a file says: nothing is allocated that the file does not hold itself.
    """
    require(found.shape == shape, f"{what} has the shape {found.shape}, the construction's has {shape}")
    return np.zeros(shape)


def ones_at(found: np.ndarray, shape: tuple[int, ...], places: Any, what: str) -> None:
    """The stored tensor is 1 at these places and 0 elsewhere."""
    wanted = blank(found, shape, what)
    wanted[places] = 1.0
    same(found, wanted, what)


def same(found: np.ndarray, wanted: np.ndarray, what: str) -> None:
    """The stored tensor is exactly what the construction prescribes."""
    require(found.shape == wanted.shape, f"{what} has the shape {found.shape}, it should be {wanted.shape}")
    require(np.array_equal(found, wanted), f"{what} is not what the construction prescribes")


def array_of(data: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Nested lists of finite floats, of this shape."""

    def read(item: Any, sizes: tuple[int, ...]) -> Any:
        if not sizes:
            require(type(item) is float and np.isfinite(item), f"{what} holds something that is no number")
            return item
        require(isinstance(item, list) and len(item) == sizes[0], f"{what} does not have the shape {shape}")
        return [read(each, sizes[1:]) for each in item]

    return np.array(read(data, shape), dtype=np.float64).reshape(shape)


@dataclass(frozen=True)
class Scores:
    """rho, rho' and tau of heads on one grid of points D apart."""

    least: fmpq
    most: fmpq
    off: fmpq
    step: fmpq

    def __or__(self, other: Scores) -> Scores:
        return Scores(min(self.least, other.least), max(self.most, other.most), max(self.off, other.off), self.step)

    @property
    def q(self) -> arb:
        return (-arb(self.least * (self.step / 2 - self.off))).exp()

    def kappa(self, h: arb) -> arb:
        return (arb(self.most * self.off) + 2 * h).exp()


def read_scores(ramp: Sequence[fmpq], bias: Sequence[fmpq], first: fmpq, step: fmpq) -> Scores:
    """How the stored scores lie to the points first + k step."""
    rises = [high - low for low, high in itertools.pairwise(ramp)]
    require(rises and min(rises) > 0, "the keys of an interpolation head do not rise")
    falls = [low - high for low, high in itertools.pairwise(bias)]
    middles = (first + step * (2 * k + 1) / 2 for k in range(len(rises)))
    off = max(abs(fall / rise - middle) for fall, rise, middle in zip(falls, rises, middles, strict=True))
    require(2 * off < step, "an interpolation head prefers other points than those of the construction")
    return Scores(min(rises), max(rises), off, step)


def added_up(q: arb, count: int, weight: Callable[[int], Any], power: Callable[[int], int]) -> list[arb]:
    """The sums of weight(l) q^power(l) over l <= 0, 1, .. count, the last with all that follows after TERMS."""
    require(q < 0.9, "the temperature of an interpolation head is too high")
    sums = [arb(0)]
    for i in range(1, min(count, TERMS) + 1):
        sums.append(sums[-1] + weight(i) * q ** power(i))
    if count > TERMS:
        sums[-1] += q ** (TERMS * TERMS) / (1 - q) ** 2
    return sums


def mean_distance(scores: Scores, count: int, h: arb) -> arb:
    """The largest mean of |L_j - clip(s, a, b)| over all real s, for `count` points."""
    q, kappa, step = scores.q, scores.kappa(h), arb(scores.step)
    back = added_up(q, count - 2, lambda i: fmpq(2 * i + 1, 2), lambda i: i * i)
    on = added_up(q, count - 2, lambda i: i + 1, lambda i: i * (i + 1))
    if count - 2 <= TERMS:
        others = largest([back[k] + on[count - 2 - k] for k in range(count - 1)])
    else:
        others = back[-1] + on[-1]
    between = step * (kappa / (1 + kappa) + kappa * others)
    beyond = step * (1 + kappa * added_up(q, count - 1, lambda i: i, lambda i: i * i)[-1])
    return largest([between, beyond])


def shared_error(scores: Scores, heads: int, tokens: int, size: arb, h: arb) -> arb:
    """What the sum of heads that share points is off, beside seams and stored values; `size` is V."""
    q, kappa = scores.q, scores.kappa(h)
    own = added_up(q, tokens, lambda i: 1, lambda i: i * i)[-1]
    own += added_up(q, tokens, lambda i: 1, lambda i: i * (i + 1))[-1]
    others = arb(0)
    if heads > 1:
        for m in range(TERMS):
            others += added_up(q, tokens, lambda i: 1, lambda i, m=m: i * i + 2 * i * m)[-1]
        others += q ** (2 * TERMS) / (1 - q) ** 2 / (1 - q * q)
    return arb(scores.step) * kappa / (1 + kappa) + kappa * size * 2 * (own + others)


def largest(balls: Iterable[arb]) -> arb:
    """An upper bound of all of them."""
    uppers = [ball.upper() for ball in balls]
    require(all(upper.is_finite() for upper in uppers), "a number of the proof is not finite")
    return max(uppers)


def gamma(count: int) -> arb:
    """n u/(1 - n u): the relative error of n roundings of float64."""
    u = arb(FLOAT64.unit)
    require(count * u < 0.1, f"{count} roundings are too many")
    return count * u / (1 - count * u)
