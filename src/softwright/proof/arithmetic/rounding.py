"""Rounding of the network that is really run: |fl(g) - g| for float64 and float32, any summation order, per engine.

What runs (attention/network.py), u the unit roundoff of the dtype, N tokens, A of them "kept" on a box:

1. t = (x - center) * scale in two roundings: a relative error of at most 2u + u^2 in each coordinate. A change of t
   moves all scores; what all tokens share cancels in the softmax, so token j sees only |k_j - kbar| |t| (2u + u^2).
2. scores k_j.t + b_j as a dot product of d + 1 terms: gamma_{d+1} (|k_j| |t| + |b_j|). The zero padding is exact.
3. minus the maximum: u (m - s_j); exp with relative error `exp_error`. The flash kernel keeps a running maximum over
   blocks of keys and rescales by exp(old - new): the arguments telescope to m - s_j again, and every block adds one exp
   and one product, charged as n_blocks (exp_error + 2u). Together: computed weight = exact weight * (1 + theta),
   |theta_j| <= theta_j.
4. the sums of weights and of weighted values, a reciprocal, a product. A node of the summation tree that joins two kept
   tokens rounds by u; there are at most A - 1 of them in any tree. A node that adds a subtree of dropped tokens only
   errs by at most that subtree, because rounding to nearest never errs by more than the smaller addend.
5. affine values v_j + G_j t: gamma_{d+1} of |v_j| + |G_j| |t|, and (2u + u^2) |G_j| |t| from step 1. Both engines sum
   v_j and the columns of G_j apart and add up with t last. Every term |v_j|, |G_ji| |t_i| then meets the same roundings
   in another order, and what they are charged on is |v_j| + |G_j| |t|, never |v_j + G_j t|: V below, and the values of
   dropped tokens too.
6. the sum over the heads.

With w the exact softmax weights, tau = sum w theta and V = sum w (|v| + |G| |t|):

    |fl(g) - g| <= S + [E + gamma_n (V' + E) + gamma_n (|g| + S)] / (1 - gamma_n) + 4 T,
    n  = A + n_blocks + 6,
    S  = sum w theta |v - g| / (1 - tau),
    V' = V (1 + theta_max) / (1 - tau),     E the same of the errors of step 5,

where T is the dropped tokens' mass times value, as large as the run's errors can make it. Where theta is of no use
(gates so hard that a score's rounding changes the weights), S is replaced by the spread of the kept values, which is
small where such gates meet. The factorised engine has d small softmaxes: theta is the sum over the axes, every axis
sums twice (n = sum_i (2 n_i + 6)), and nothing is dropped from its sums.

Assumed and written into the certificate: IEEE arithmetic in the dtype with no reduced-precision matrix products (TF32,
bfloat16), and the accuracy of exp in torch's kernels. Float32 kernels use a vector exp specified to 20 ulp, float64
ones to 1 ulp; 32 and 4 ulp are charged. bfloat16 and float16 are refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softwright.precision import PRECISIONS
from softwright.proof.arithmetic.directed import U, gamma, up

_KEY_BLOCK = 128  # torch's flash kernel takes 512 keys at a time; fewer are assumed so that a change cannot hurt


@dataclass(frozen=True)
class Arithmetic:
    """What is assumed of a dtype's arithmetic."""

    name: str
    unit: float  # unit roundoff
    exp_error: float  # relative error of exp in the kernels
    smallest: float  # smallest normal number: what underflow or flushing to zero can lose

    def gamma(self, n: float) -> float:
        """n u / (1 - n u) rounded up, or infinity if there are too many roundings."""
        return float(self.gammas(np.array(float(n))))

    def gammas(self, n: np.ndarray) -> np.ndarray:
        product = n * self.unit
        return np.where(product < 0.25, product / (1.0 - np.minimum(product, 0.25)) * (1.0 + 8.0 * U), np.inf)


ARITHMETIC = {name: Arithmetic(name, row.unit, row.exp_error, row.smallest) for name, row in PRECISIONS.items()}


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
        tokens: int,
        dim: int,
    ) -> np.ndarray:
        """Bounds (A,) of |log(computed weight / exact weight)| up to a common factor.

        The arguments are upper bounds (A,) of |k_j| |t|, of the biases, of |k_j - kbar| |t|, and of m - s_j.
        """
        u = self.arithmetic.unit
        if self.axis_sizes:
            score = self.arithmetic.gamma(4) * (score_size + bias_size)
            exps = len(self.axis_sizes) * (self.arithmetic.exp_error + 2 * u)
        else:
            score = self.arithmetic.gamma(dim + 1) * (score_size * (1 + 4 * u) + bias_size)
            exps = (1 + tokens // _KEY_BLOCK) * (self.arithmetic.exp_error + 2 * u)
        argument = (
            score + (2 * u + u * u) * shift_size + u * (below_maximum + 2 * score) + dim * self.arithmetic.smallest
        )
        return up(argument + 2 * exps)  # log((1 + e)^k) and -log((1 - e)^k) stay below 2 e k

    @staticmethod
    def theta(log_error: np.ndarray) -> np.ndarray:
        """theta_j: |e^y - 1| <= y + y^2 for |y| <= 1/2; beyond that nothing useful is known of a kept token."""
        return np.where(log_error <= 0.5, up(log_error + log_error * log_error), np.inf)

    def roundings(self, kept: np.ndarray, tokens: int) -> np.ndarray:
        """n of the formula above, for boxes (B,) that keep so many of the tokens."""
        if self.axis_sizes:
            return np.full(len(kept), float(sum(2 * size + 6 for size in self.axis_sizes) + 4))
        return kept + float(tokens // _KEY_BLOCK + 7)

    def value_error(self, value_size: np.ndarray, slope_size: np.ndarray, dim: int) -> np.ndarray:
        """Step 5: error of v_j + G_j t from upper bounds of |v_j| + |G_j||t| and of |G_j||t|."""
        u = self.arithmetic.unit
        return up(self.arithmetic.gamma(dim + 2) * value_size * (1 + 4 * u) + (2 * u + u * u) * slope_size)


@dataclass(frozen=True)
class TokenExtremes:
    """The largest theta, |v - (some common value)|, |v| and value error over the kept tokens of each box, (B,) each."""

    theta: np.ndarray
    deviation: np.ndarray
    value: np.ndarray
    value_error: np.ndarray


def head_error(
    engine: RunEngine,
    kept: np.ndarray,
    tokens: int,
    largest: TokenExtremes,
    means: np.ndarray,
    *,
    offset: np.ndarray,
    head_size: np.ndarray,
    dropped: np.ndarray,
) -> np.ndarray:
    """|fl(g) - g| (B,) of one head and output from upper bounds (B,) on each box.

    means (4, B) = sums of w times theta, theta |v - ref|, |v| and the value error; offset >= |g - ref|, head_size >=
    |g|; dropped = sum over dropped tokens of w (|v| + |g|).
    """
    n = engine.arithmetic.gammas(engine.roundings(kept, tokens))
    theta_mean, theta_deviation, value_mean, value_error_mean = means

    def total(spread: np.ndarray, values: np.ndarray, errors: np.ndarray) -> np.ndarray:
        return spread + (errors + n * (values + errors) + n * (head_size + spread)) / (1.0 - n) + 4.0 * dropped

    # Whatever the weights become, both means lie in the hull of the kept values: all that is left for very hard gates.
    hull = total(2.0 * largest.deviation, largest.value, largest.value_error)
    left = 1.0 - np.where(theta_mean < 0.5, theta_mean, np.nan)
    grow = (1.0 + largest.theta) / left
    weighted = total((theta_deviation + offset * theta_mean) / left, value_mean * grow, value_error_mean * grow)
    best = np.fmin(hull, np.where(np.isfinite(largest.theta), weighted, np.nan))
    blocks = 1 + tokens // _KEY_BLOCK
    underflow = 8.0 * tokens * (blocks + 4) * (largest.value + 1.0) * engine.arithmetic.smallest
    return np.where(n < 0.5, up(best * (1.0 + gamma(32)) + underflow), np.inf)


def sum_error(engine: RunEngine, heads: int, sizes: np.ndarray) -> np.ndarray:
    """Step 6: adding `heads` outputs whose sizes add up to `sizes` (B,) or less."""
    return up(engine.arithmetic.gamma(heads) * sizes) if heads > 1 else np.zeros_like(sizes)
