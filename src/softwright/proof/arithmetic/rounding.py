"""Rounding of the network that is really run: |fl(g) - g| for float64 and float32, any summation order, per engine.

What runs (attention/network.py), u the unit roundoff of the dtype, N tokens, A of them "kept" on a box:

1. t = (x - center) * scale: a coordinate is rounded r times, once unless its centre is 0, once unless its scale is a
   power of two; a relative error of at most r (u + u^2/2). A change of t moves all scores; what all tokens share
   cancels in the softmax, so token j sees only |k_j - kbar| |t| times that.
2. scores s_j = k_j.t + b_j, sums of d + 1 terms in some order: products of size P = |k_j| |t|, d - 1 additions before
   the last, each of which rounds at most W = P + |b_j|, and the last, which rounds the score itself. So s_j is off by
   (u P + (d - 1) u W + u |s_j|) (1 + u)^(d+1) / (1 - u) at most. The zero padding is exact, and so are coordinates in
   which no token has a key: d counts the others.
3. minus the maximum: u (m - s_j); exp with relative error e = `exp_error`. The flash kernel keeps a running maximum
   over blocks of keys and rescales by exp(old - new): the arguments telescope to m - s_j again, and every block after
   the first adds one exp and one product, charged as e + 2u. Together: computed weight = exact weight * (1 + theta), up
   to a common factor, |log(1 + theta_j)| <= (s_j's error) + y/(1 - y), y = e + rescalings (e + 2u).
4. the sums of weights and of weighted values, and their quotient. A term of the numerator meets a product and at most
   A - 1 additions: a node of the summation tree that joins two kept tokens rounds by u, and there are at most A - 1 of
   them in any tree. (A node that adds a subtree of dropped tokens only errs by at most that subtree, because rounding
   to nearest never errs by more than the smaller addend.) The denominator meets A - 1 additions. Then the fused kernel
   takes a reciprocal, which all columns share, and a product; others divide every weight, or every column. Either way
   no term |v_j| meets more than A + 1 roundings on its own, and g no more than A + 1 which all terms share. Every
   rescaling multiplies both sums, and each product is rounded for itself: A + 1 + 2 rescalings. Two more are charged,
   so that a checker which keeps another token or two agrees: n = A + 3 + 2 rescalings.
5. affine values v_j + G_j t. Every path sums v_j and the columns of G_j apart and adds up with t last, in some order:
   of s sloped coordinates the products round |G| |t|, s - 1 additions at most |v| + |G| |t|, and the last rounds g,
   which is then one of the A + 1 (the product of the quotient is one on the terms). And t's own rounding costs r (u +
   u^2/2) |G_j| |t|. What is charged with step 4 is |v_j| + |G_j| |t|, never |v_j + G_j t|: V below, and the values of
   dropped tokens too. Few points run in the same order with fewer roundings (attention/few_points.py).
6. the sum over the heads: one rounding less than there are heads.

With w the exact softmax weights, tau = sum w theta and V = sum w (|v| + |G| |t|):

    |fl(g) - g| <= S + [E + gamma_n (V' + E) + gamma_n (|g| + S)] / (1 - gamma_n),
    n  = N + 3 + 2 rescalings,
    S  = sum w theta |v - g| / (1 - tau),
    V' = V (1 + theta_max) / (1 - tau),     E the same of the errors of step 5,

where a dropped token counts with the largest theta, |v| and E of all. As long as theta is small this is all: that far
tokens were dropped from the *model* of g is no rounding, and belongs to the exact part. Another bound has A in the
place of N, no dropped tokens in its sums, and 4 T, with T the dropped tokens' mass times value, as large as the run's
errors can make it: the smaller of the two is taken. Where theta is of no use (gates so hard that rounding changes
the weights), S is replaced in the latter by the spread of the kept values, which is small where such gates meet. The
factorised engine has d small softmaxes: theta is the sum over the axes, every axis sums twice (n = sum_i (2 n_i + 6)).

*Underflow.* A number below tau, the smallest normal one, may be lost wherever it is read or computed. So t errs by at
most (3 scale + 2) tau more, k.t + b by (|k|.(3 scale + 2) + |t| + 6 d + 6) tau, and v + G t by the same with |G|: a
slope counts even where all inputs are subnormal. A weight loses `exp_floor` in every exp and tau in every product,
relative to a largest weight of 1; it may be that of a dropped token, as a subnormal weight can be rounded up. Over
numerator and denominator that is at most 8 N (n_blocks + 4) ((max|v| + 1) exp_floor + what v + G t loses), all tokens
included. Never less than `_RESOLVED` is charged for exp_floor: a checker whose own bounds are float64 numbers rounded
up by 1e-200 could not confirm the bound of a network that is 0 but for underflow.

*Overflow* has no bound. That nothing overflows is asked once for the whole domain (`overflow.py`).

*Rounded once.* Engine "double" of a float32 network computes all of this in float64, on float32 numbers, which float64
holds; what it adds is one rounding of the sum g of all heads, `rounded` (|g| + what is charged above) + tau. Here tau
is the smallest normal float32 number, wherever one is read (a processor that is told to flush subnormal numbers does so
in conversions) and at the end.

Assumed and written into the certificate: IEEE arithmetic in the dtype with no reduced-precision matrix products (TF32,
bfloat16), and the accuracy of exp in torch's kernels (`precision.py`). bfloat16 and float16 are refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from softwright.precision import PRECISIONS, computing_in
from softwright.proof.arithmetic.directed import U, gamma, up

_KEY_BLOCK = 128  # torch's flash kernel takes 512 keys at a time; fewer are assumed so that a change cannot hurt

_RESOLVED = 1e-190  # of values of size 1: bounds below it are not stated, because no checker in float64 resolves them


@dataclass(frozen=True)
class Arithmetic:
    """What is assumed of a dtype's arithmetic."""

    name: str
    unit: float  # unit roundoff
    exp_error: float  # relative error of exp in the kernels
    smallest: float  # smallest normal number: what underflow or flushing to zero can lose
    largest: float  # what exceeds it overflows
    exp_floor: float  # what is lost of an exp that is too small
    rounded: float = 0.0  # unit roundoff of the type that the result is rounded to at the end; 0: it has that type

    def gamma(self, n: float) -> float:
        """n u / (1 - n u) rounded up, or infinity if there are too many roundings."""
        return float(self.gammas(np.array(float(n))))

    def gammas(self, n: np.ndarray) -> np.ndarray:
        product = n * self.unit
        return np.where(product < 0.25, product / (1.0 - np.minimum(product, 0.25)) * (1.0 + 8.0 * U), np.inf)


ARITHMETIC = {
    name: Arithmetic(name, row.unit, row.exp_error, row.smallest, row.largest, row.exp_floor)
    for name, row in PRECISIONS.items()
}


def arithmetic_of(dtype: str, engine: str) -> Arithmetic:
    """The arithmetic of a network of this dtype, run by this engine."""
    row, inside = PRECISIONS[dtype], computing_in(dtype, engine)
    if inside is row:
        return ARITHMETIC[dtype]
    return Arithmetic(
        f"{inside.name} on {row.name}",
        inside.unit,
        inside.exp_error,
        row.smallest,
        row.largest,
        inside.exp_floor,
        row.unit,
    )


@dataclass(frozen=True)
class RunEngine:
    """How a head is run: the arithmetic, the engine, and for a factorised head the sizes of its axes."""

    arithmetic: Arithmetic
    axis_sizes: tuple[int, ...] = ()  # empty: dense softmax over all tokens

    def log_error(
        self,
        score_size: np.ndarray,
        bias_size: np.ndarray,
        shift_size: np.ndarray,
        below_maximum: np.ndarray,
        *,
        lost: np.ndarray,
        tokens: int,
        dim: int,
        score: np.ndarray | None = None,
    ) -> np.ndarray:
        """Bounds (A,) of |log(computed weight / exact weight)| up to a common factor.

        The arguments are upper bounds (A,) of |k_j| |t|, of the biases, of |k_j - kbar| |t| times the roundings of t,
        of m - s_j, and of what underflow takes from a score; where it is known, also of |s_j|.
        """
        argument = self.score_error(score_size, bias_size, shift_size, below_maximum, lost=lost, dim=dim, score=score)
        return up(argument + self.exp_log_error(tokens))

    def score_error(
        self,
        score_size: np.ndarray,
        bias_size: np.ndarray,
        shift_size: np.ndarray,
        below_maximum: np.ndarray,
        *,
        lost: np.ndarray | float,
        dim: int,
        score: np.ndarray | None = None,
    ) -> np.ndarray:
        """What the arguments of exp are off, up to a common number; the axes of a grid add up to its tokens."""
        u = self.arithmetic.unit
        if self.axis_sizes:
            off = self.arithmetic.gamma(4) * (score_size + bias_size)
        else:
            products = score_size * (1 + 4 * u)  # at t as it is computed
            whole = products + bias_size
            last = whole if score is None else np.minimum(whole, score + 4 * u * score_size)
            off = u * (products + max(dim - 1, 0) * whole + last) * (1 + 4 * (dim + 1) * u)
        return off + lost + (u + u * u) * shift_size + u * (below_maximum + 2 * (off + lost))

    def exp_log_error(self, tokens: int) -> float:
        """What all exponentials that a weight meets are off: |log| of a product of (1 + e_i) is at most y/(1 - y), y
        the sum of the |e_i|."""
        e, u = self.arithmetic.exp_error, self.arithmetic.unit
        off = len(self.axis_sizes) * (e + 2 * u) if self.axis_sizes else e + (tokens - 1) // _KEY_BLOCK * (e + 2 * u)
        return off / (1 - off) * (1 + 8 * U) if off < 0.5 else math.inf

    @staticmethod
    def theta(log_error: np.ndarray) -> np.ndarray:
        """theta_j: |e^y - 1| <= y + y^2 for |y| <= 1/2; beyond that nothing useful is known of a kept token."""
        return np.where(log_error <= 0.5, up(log_error + log_error * log_error), np.inf)

    def roundings(self, kept: np.ndarray, tokens: int) -> np.ndarray:
        """n of the formula above, for boxes (B,) that keep so many of the tokens."""
        if self.axis_sizes:
            return np.full(len(kept), float(sum(2 * size + 6 for size in self.axis_sizes) + 4))
        return kept + 3.0 + 2.0 * ((tokens - 1) // _KEY_BLOCK)  # two more than there are: room for a checker

    def value_error(
        self, value_size: np.ndarray, slope_size: np.ndarray, framed: np.ndarray, sloped: int
    ) -> np.ndarray:
        """Step 5 but for its last rounding: error of v_j + G_j t from upper bounds of |v_j| + |G_j||t|, of |G_j||t|,
        and of the latter times the roundings of t, with so many sloped coordinates."""
        u = self.arithmetic.unit
        off = u * (slope_size + max(sloped - 1, 0) * value_size) * (1 + 4 * (sloped + 2) * u)
        return up(off + (u + u * u) * framed)

    def lost(self, factors: np.ndarray, scale: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """What underflow takes from factors.t + constant, for |t| <= reach (..., d) and factors (n, d): (..., n)."""
        read = np.abs(factors) @ (3.0 * scale + 2.0) + reach.sum(axis=-1, keepdims=True)
        return up((read + 6.0 * len(scale) + 6.0) * self.arithmetic.smallest)

    def underflow(self, tokens: int, value: np.ndarray, lost: np.ndarray) -> np.ndarray:
        """What underflow takes from a head whose values are below `value` and lose at most `lost` each."""
        blocks = 1 + tokens // _KEY_BLOCK
        floor = max(self.arithmetic.exp_floor, _RESOLVED)
        return up(8.0 * tokens * (blocks + 4) * ((value + 1.0) * floor + lost))


@dataclass(frozen=True)
class TokenExtremes:
    """The largest theta, |v - (some common value)|, |v| and value error over the kept tokens of each box, (B,) each."""

    theta: np.ndarray
    deviation: np.ndarray
    value: np.ndarray
    value_error: np.ndarray


@dataclass(frozen=True)
class Dropped:
    """The weight of the dropped tokens of each box and their mass sum w (|v - ref| + |ref| + |g|); then the largest
    theta, |v| and value error over *all* tokens, and what underflow takes from a value; (B,) each."""

    weight: np.ndarray
    mass: np.ndarray
    theta: np.ndarray
    value: np.ndarray
    value_error: np.ndarray
    lost: np.ndarray


def head_error(
    engine: RunEngine,
    kept: np.ndarray,
    tokens: int,
    largest: TokenExtremes,
    means: np.ndarray,
    *,
    offset: np.ndarray,
    head_size: np.ndarray,
    dropped: Dropped,
) -> np.ndarray:
    """|fl(g) - g| (B,) of one head and output from upper bounds (B,) on each box.

    means (4, B) = sums of w times theta, theta |v - ref|, |v| and the value error; offset >= |g - ref|, head_size >=
    |g|.
    """

    def total(n: np.ndarray, spread: np.ndarray, values: np.ndarray, errors: np.ndarray) -> np.ndarray:
        values = values + dropped.weight * dropped.value
        errors = errors + dropped.weight * dropped.value_error
        return spread + (errors + n * (values + errors) + n * (head_size + spread)) / (1.0 - n)

    def weighted(n: np.ndarray, theta: np.ndarray, theta_mean: np.ndarray, theta_deviation: np.ndarray) -> np.ndarray:
        left = 1.0 - np.where(theta_mean < 0.5, theta_mean, np.nan)
        grow = (1.0 + theta) / left
        found = total(n, (theta_deviation + offset * theta_mean) / left, means[2] * grow, means[3] * grow)
        return np.where(np.isfinite(theta), found, np.nan)

    some, every = (engine.arithmetic.gammas(engine.roundings(n, tokens)) for n in (kept, np.full(len(kept), tokens)))
    # Whatever the weights become, both means lie in the hull of the kept values: all that is left for very hard gates.
    hull = total(some, 2.0 * largest.deviation, largest.value, largest.value_error)
    best = np.fmin(hull, weighted(some, largest.theta, means[0], means[1])) + 4.0 * dropped.mass
    theta = np.maximum(largest.theta, dropped.theta)
    counted = weighted(every, theta, means[0] + theta * dropped.weight, means[1] + theta * dropped.mass)
    best = np.where(some < 0.5, np.fmin(best, np.where(every < 0.5, counted, np.nan)), np.inf)
    return up(best * (1.0 + gamma(32)) + engine.underflow(tokens, dropped.value, dropped.lost))


def sum_error(engine: RunEngine, heads: int, sizes: np.ndarray) -> np.ndarray:
    """Step 6: adding `heads` outputs whose sizes add up to `sizes` (B,) or less."""
    if heads == 1:
        return np.zeros_like(sizes)
    return up(engine.arithmetic.gamma(heads - 1) * sizes + heads * engine.arithmetic.smallest)


def rounded_once(engine: RunEngine, size: np.ndarray, rounding: np.ndarray) -> np.ndarray:
    """`rounding` (B,) with the one at the end, where there is one, of a sum of at most `size` (B,) in modulus."""
    once = engine.arithmetic.rounded
    if not once:
        return rounding
    return up(rounding + once * (size + rounding) + engine.arithmetic.smallest)
