"""How far computed weights, sums and forms are off, in balls. The lemmas are those of docs/sequences.md, written anew.

u unit roundoff, e relative error of exp, f what exp may lose, N tokens (data and bank), n data tokens, exp(0) = 1
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, fmpq

from softwright.checker.precision import Precision
from softwright.checker.refusal import require

PENALTY = 64
BLOCK = 128  # keys that a kernel takes at a time, at least


def as_ball(x: Fraction | int) -> arb:
    x = Fraction(x)
    return arb(fmpq(x.numerator, x.denominator))


def over(x: arb) -> Fraction:
    """A fraction that is certainly not below x."""
    require(x.is_finite(), "a bound is not finite")
    mantissa, exponent = x.upper().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def exp_below(height: Fraction) -> Fraction:
    """At least e^-height, for a height of at least 0; heights beyond 2000 count as 2000."""
    return over((-as_ball(min(height, Fraction(2000)))).exp())


@dataclass(frozen=True)
class Bounds:
    """The arithmetic of a run."""

    precision: Precision
    data: int  # n
    bank: int

    @property
    def u(self) -> Fraction:
        return Fraction(self.precision.unit)

    @property
    def e(self) -> Fraction:
        return Fraction(self.precision.exp_error)

    @property
    def f(self) -> Fraction:
        return Fraction(self.precision.exp_floor)

    @property
    def all(self) -> int:
        return self.data + self.bank

    def gamma(self, k: int) -> Fraction:
        require(k * self.u < Fraction(1, 4), "too many roundings")
        return k * self.u / (1 - k * self.u)

    def weight(self, height: Fraction | int) -> Fraction:
        """The most that a weight may come out, at so much below the largest score."""
        return max(exp_below(Fraction(height)), self.f) * (1 + self.e) ** 2 * (1 + self.u) ** 8

    def average(self, size: Fraction, error: Fraction) -> Fraction:
        """Of a mean over tokens of equal weight 1, all others below by at least PENALTY; values off by `error`."""
        size = size + error
        return error + self.gamma(self.data + 8) * size + 2 * (self.all + 1) * self.weight(PENALTY) * size

    def kept(self, least: Fraction, most: Fraction, others: Fraction) -> bool:
        """Weights of sum `others` change no value: every addition with them is rounded back.

        A number x is what fl(x + t) gives for |t| < u |x| / 2; the factor four below leaves room for partial sums."""
        return least >= 1 and 2 * others <= self.u / 8 and 2 * others * most <= self.u / 8 * least

    def summed(self, terms: int, outer: Fraction, height: Fraction) -> tuple[Fraction, Fraction]:
        """Relative error of a sum by a null token at `height`, and what others add for each unit of value."""
        small = (-as_ball(height)).exp()
        up = as_ball(outer) * small * (1 + as_ball(self.e)) ** 2 * (1 + as_ball(self.gamma(terms + 10)))
        up = up * (1 + 2 * self.all * small)
        down = as_ball(outer) * small * (1 - as_ball(self.e)) ** 2 * (1 - as_ball(self.gamma(terms + 10)))
        down = down * (1 - 2 * self.all * small)
        lost = outer * self.all * (self.weight(height) * self.weight(2 * PENALTY) + 4 * self.f)
        return max(over(abs(up - 1)), over(abs(down - 1))), lost

    def weighed(self, count: int, outer: Fraction, height: Fraction, delta: Fraction) -> Fraction:
        """Relative error of a sum with known weights over so many tokens, scores off by delta."""
        small, off = (-as_ball(height)).exp(), as_ball(delta).exp()
        shares = 2 * (count + 1) * small
        sums = as_ball(self.gamma(count + 10))
        up = as_ball(outer) * small * (1 + as_ball(self.e)) ** 2 * (1 + sums) * off * (1 + shares)
        down = as_ball(outer) * small * (1 - as_ball(self.e)) ** 2 * (1 - sums) / off * (1 - shares)
        return max(over(abs(up - 1)), over(abs(down - 1)))

    def looked_up(self, eta: Fraction, count: int, sharpness: int, base: int | None) -> Fraction:
        """What the wrong tokens of a table (or of digits to a base) weigh together."""
        require(eta < Fraction(9, 20), f"a whole number is known to {float(eta):.3g} only")
        half, b = Fraction(count + 1, 2), sharpness

        def score_rounding(d: int) -> Fraction:
            far = half + d
            if base is None:
                return self.gamma(4) * b * (2 * (half + eta) * far + far * far)
            return self.gamma(5) * b * (base * (half + 1) * far + base * far * (far + 1))

        def gap(d: int) -> Fraction:
            exact = (
                d * d - 2 * d * eta if base is None else d * (Fraction(1, 2) - eta) + Fraction(base * d * (d - 1), 2)
            )
            return b * exact - score_rounding(0) - score_rounding(d)

        gaps = [gap(d) for d in range(1, 10)]
        growing = all(later > earlier for earlier, later in itertools.pairwise(gaps))
        require(gaps[0] > 1 and growing, "a table's right token does not win")
        require(self.gamma(5) * 8 * (half + self.bank) < Fraction(1, 4), "a table is too long for its arithmetic")
        near = sum((2 * self.weight(g) for g in gaps[:8]), Fraction(0))
        return near + self.all * self.weight(gaps[8]) + 2 * self.all * self.f

    def soft(self, spread: Fraction) -> Fraction:
        """|log| of what exp, the running maximum and its rescalings change a weight by."""
        once = over((1 + as_ball(self.e)).log() + (1 + 3 * as_ball(self.u)).log())
        return once * (-(-self.all // BLOCK) + 2) + 2 * self.u * spread

    def below_largest(self, sharpness: Fraction, delta: Fraction) -> Fraction:
        """How far a softmax mean is from the largest value, scores off by delta."""
        if self.data == 1:
            return Fraction(0)
        return (over((as_ball(self.data - 1) / arb(1).exp()).lambertw()) + 4 * delta) / sharpness
