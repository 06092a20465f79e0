"""Gates: heads of two tokens, the data token with score a and value z, and a null token with score 0 and value 0.

Their output is g sigma(a) z with a factor g in W_O. Four uses, each with a lemma; sigma is the logistic function.

**Product.** For |u - c| <= h and s_q = q d (u - c)/h, q = 1..H,

    | z (u - c) - sum_q g_q (sigma(s_q) - 1/2) z |  <=  |z| (h R_H(d) + sum_q |g_q - 4 h c_q/(q d)| q d/4),

with the Richardson weights c_q (sum c_q = 1, sum c_q q^2k = 0 for k = 1..H-1). Proof: (4/s)(sigma(s x) - 1/2) =
(2/s) tanh(s x/2) = sum_k t_k (s/2)^2k x^(2k+1), |t_k| = 2 (2/pi)^(2k+2) lambda(2k+2) with lambda(4) = pi^4/96 >=
lambda(2k+2) for k >= 1, so that R_H(d) = sum_{k >= H} |t_k| |sum_q c_q q^2k| (d/2)^2k; and |sigma(s) - 1/2| <= |s|/4.

**Exponential.** With a = T - m: |e^m sigma(a) z - e^T z| <= e^(T - m) e^T |z|.

**Maximum.** |sigma(B d) d - max(d, 0)| <= W(1/e)/B, W Lambert's function: theory 7 with two tokens.

**Step.** For |c| >= g and |c^ - c| <= e < g: |sigma(B c^) - [c > 0]| <= 1/(1 + exp(B (g - e))).

**Rounding.** The maximum of the two scores a and 0 is one of them, so both differences are exact; exp errs by e
relatively; the sum of two weights, the weighted value, a reciprocal and a product round. The weight of a gate is then
sigma(a)(1 + theta), |theta| <= 2 e (1 + e)/(1 - e)^2 (1 - sigma(a)), and with its value and g the output is g sigma(a)
z (1 + Theta), 1 + Theta <= (1 + theta)(1 + u)^5 (1 + u)^H for a column that H heads write. Numbers below the smallest
normal one may be lost: at most that number in each of eight operations. What a score or a value was rounded by before
it came to the gate is charged where the gate is used (`adjoints.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from flint import arb

from softwright.compiler.nodes import BITS, Ball, ball_above, precision
from softwright.precision import Precision

LAMBERT = 0.2784645427610739  # W(1/e), rounded up
_SERIES = 40
_MOST_HEADS = 4


@dataclass(frozen=True)
class ProductGate:
    """H heads for z (u - c), |u - c| <= h: the factors of W_O, and the error relative to |z| with its roundings."""

    center: float
    halfwidth: float
    angle: float  # d
    factors: tuple[float, ...]  # g_q
    truncation: float  # of z (u - c), relative to |z|: real arithmetic
    rounding: float  # ... and what the gates round, relative to |z|
    underflow: float

    @property
    def heads(self) -> int:
        return len(self.factors)

    @property
    def value_weight(self) -> float:
        """sum |g_q| sigma(q d): what a rounding of the value does, and how large the column may be relative to |z|."""
        with precision(BITS):
            total = sum((abs(arb(g)) * _sigma(arb(self.angle) * (q + 1)) for q, g in enumerate(self.factors)), arb(0))
        return ball_above(total)

    @property
    def error(self) -> float:
        """Relative to |z|, all but the roundings of the score and of the value."""
        return float((self.truncation + self.rounding) * (1 + 1e-12))


def _sigma(x: Ball) -> Ball:
    return 1 / (1 + (-x).exp())


@cache
def richardson(heads: int) -> tuple[Ball, ...]:
    """c_q = prod_{k != q} k^2/(k^2 - q^2)."""
    found = []
    with precision(BITS):
        for q in range(1, heads + 1):
            c = arb(1)
            for k in range(1, heads + 1):
                c = c if k == q else c * (k * k) / (k * k - q * q)
            found.append(c)
    return tuple(found)


@cache
def remainder(heads: int, angle: float) -> Ball:
    """R_H(d), an upper bound of the truncation for |x| <= 1; the series beyond its first terms is geometric."""
    weights = richardson(heads)
    with precision(BITS):
        d, ratio = arb(angle), 2 / arb.pi()
        largest = arb.pi() ** 4 / 96
        total = arb(0)
        for k in range(heads, _SERIES):
            moment = abs(sum((c * (q + 1) ** (2 * k) for q, c in enumerate(weights)), arb(0)))
            total += 2 * ratio ** (2 * k + 2) * largest * moment * (d / 2) ** (2 * k)
        step = (d * heads / arb.pi()) ** 2
        size = sum((abs(c) for c in weights), arb(0))
        total += 2 * ratio**2 * largest * size * step**_SERIES / (1 - step)
    return total


def gate_rounding(precision_: Precision, heads: int, least_weight: float) -> float:
    """Theta of one head whose weight sigma(a) is at least `least_weight`."""
    u, e = precision_.unit, precision_.exp_error
    with precision(BITS):
        theta = 2 * arb(e) * (1 + arb(e)) / (1 - arb(e)) ** 2 * (1 - arb(least_weight))
        return ball_above((1 + theta) * (1 + arb(u)) ** (5 + heads) - 1)


@cache
def product_gate(precision_: Precision, heads: int, exponent: int, center: float, halfwidth: float) -> ProductGate:
    """The gate with d = 2^-exponent."""
    angle = 2.0**-exponent
    weights = richardson(heads)
    with precision(BITS):
        exact = [4 * arb(halfwidth) * c / ((q + 1) * arb(angle)) for q, c in enumerate(weights)]
        factors = tuple(_in(precision_, float(g.mid())) for g in exact)
        missed = sum(
            (abs(arb(f) - g) * (q + 1) * arb(angle) / 4 for q, (f, g) in enumerate(zip(factors, exact, strict=True))),
            arb(0),
        )
        truncation = ball_above(arb(halfwidth) * remainder(heads, angle) + missed)
        weight = _sigma(arb(angle) * heads)
        theta = arb(gate_rounding(precision_, heads, float((1 - weight).lower())))
        rounding = ball_above(theta * sum((abs(arb(f)) for f in factors), arb(0)) * weight)
        underflow = ball_above(8 * arb(precision_.smallest) * (1 + sum((abs(arb(f)) for f in factors), arb(0))))
    return ProductGate(center, halfwidth, angle, factors, truncation, rounding, underflow)


def _in(precision_: Precision, number: float) -> float:
    """The number rounded to the type."""
    return float(np.dtype(precision_.name).type(number))


def chosen_product(
    precision_: Precision, center: float, halfwidth: float, wanted: float, value_rounding: float
) -> ProductGate:
    """The gate of fewest heads whose error relative to |z| is at most `wanted`, else the most accurate one.

    `value_rounding` is what the value is rounded by before it comes to the gate, relative to |z|.
    """
    best: tuple[float, ProductGate] | None = None
    for heads in range(1, _MOST_HEADS + 1):
        for exponent in range(1, 15):
            if heads * 2.0**-exponent > 1.5:
                continue
            gate = product_gate(precision_, heads, exponent, center, halfwidth)
            error = gate.error + gate.value_weight * value_rounding
            if best is None or error < best[0]:
                best = (error, gate)
        if best is not None and best[0] <= wanted:
            break
    if best is None:
        raise RuntimeError("there is always a gate of one head")
    return best[1]


@dataclass(frozen=True)
class ExponentialGate:
    """z exp(T) for low <= T <= high: the shift m, the factor e^m in W_O, and the relative error."""

    shift: float
    factor: float
    relative: float  # all of it
    truncation: float  # the part that real arithmetic has
    underflow: float


_SHIFT = {"float64": 36.0, "float32": 15.0}


def exponential_gate(precision_: Precision, low: float, high: float) -> ExponentialGate | None:
    """The gate; None if e^m or the least weight leaves the range of the type, at either end."""
    shift = _in(precision_, high + _SHIFT[precision_.name])
    with precision(BITS):
        grown = arb(shift).exp()
        least = (arb(low) - shift).exp().min(grown)
        if not (grown < arb(precision_.largest) / 2**20 and least > arb(precision_.smallest) * 2**20):
            return None
        factor = _in(precision_, float(grown.mid()))
        real = (arb(high) - shift).exp() + abs(arb(factor) / grown - 1)
        theta = arb(gate_rounding(precision_, 1, 0.0))
        relative, truncation = ball_above(real + theta * (1 + real)), ball_above(real)
        underflow = ball_above(8 * arb(precision_.smallest) * (factor + 1))
    return ExponentialGate(shift, factor, relative, truncation, underflow)


@dataclass(frozen=True)
class MaximumGate:
    """max(d, 0) by sigma(B d) d."""

    slope: float  # B

    def error(self, precision_: Precision, size: float, score_rounding: float, value_rounding: float) -> float:
        """For |d| <= size; roundings are those of B d and of d before they come to the gate.

        The rounded score is B d' with |d' - d| <= score_rounding/B; max(., 0) has slope at most 1, and the value
        differs from d' by both roundings.
        """
        with precision(BITS):
            theta = arb(gate_rounding(precision_, 1, 0.0))
            moved = 2 * arb(score_rounding) / self.slope + value_rounding
            total = arb(LAMBERT) / self.slope + moved + theta * (arb(size) + moved) + 8 * arb(precision_.smallest)
            return ball_above(total)


@dataclass(frozen=True)
class StepGate:
    """z [c > 0] by sigma(B c) z, where |c| >= gap and c is known within `slack`."""

    slope: float  # B
    gap: float
    slack: float

    def truncation(self) -> float:
        """How far the weight may be from [c > 0], in real arithmetic."""
        with precision(BITS):
            room = (arb(self.gap) - arb(self.slack)) * arb(self.slope)
            return ball_above(1 / (1 + room.exp()))

    def rounding(self, precision_: Precision) -> float:
        """Relative to |z|."""
        return gate_rounding(precision_, 1, 0.0)


def step_gate(precision_: Precision, gap: float, slack: float, wanted: float) -> StepGate:
    """The gate whose weight is within `wanted` of [c > 0] outside the gap."""
    steepness = np.log(1.0 / min(max(wanted, 1e-290), 0.25)) / (gap - slack)
    return StepGate(_in(precision_, float(steepness) * 1.001), gap, slack)
