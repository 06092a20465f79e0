"""What every kind of head errs by, for all sequences: one function each, rounded outwards in ball arithmetic.

u is the unit roundoff, eps the relative error of exp, `floor` what exp may lose. exp(0) = 1 is taken for granted (it is
a hypothesis of the certificate), so a running maximum that does not change rescales by exactly 1.

**Masked heads.** Scores of tokens that meet the condition are exactly 0: they are sums of whole numbers. All other data
tokens score at most -2 PENALTY, the default token -PENALTY, and tokens that a head must not see at most -SHUT.

*Mean.* Weights of c matching tokens are exactly 1, their sum exactly c (rounding to nearest never errs by more than the
smaller addend, so what is lost of the others is at most all of them). The mean of values below V in size errs by

    err(v) + gamma_{n+8} (V + err) + 2 (N + 1) (V + err) leak,          leak = max(e^-PENALTY, floor) (1 + eps)^2.

One matching token, or none, and values that are exact whole numbers other than 0: the result is exactly the value, for
weights that sum to less than u/8 of it are absorbed by rounding, in whatever order they are added.

*Sum.* A null token of value 0 at height m has the largest weight; a matching token weighs e^-m / Z, Z - 1 <= N e^-m.
Between its own level 0 and m the running maximum changes at most once, so two exps are charged. With w = fl(e^m):

    |w sum p v - sum v| <= S rho + n err(v) (1 + rho) + w N (V + err) leak',
    1 + rho = (w e^-m) (1 + eps)^2 (1 + gamma_{c+10}) (1 + 2 N e^-m),     S the sum of |v| over matching tokens.

Heads that share the tokens between them, the bits of a comparison or groups of places, match n tokens together.

**Tables.** Token k scores B (2 k r - k^2). With |r - k0| <= eta, token k0 + d or k0 - d is lower by at least
B (d^2 - 2 d eta) - delta_0 - delta_d, delta the rounding of a score. **Digits** score B (a r' - D a (a+1) / 2) with
r' = r + 1/2: the right digit leads its neighbours by B (1/2 - eta). In both, exact values come out exactly once the
other weights sum to less than u/8 of the smallest value over the largest.

**Largest.** With scores beta x to within delta, the softmax mean of x is below the largest x by at most
(W0((n-1)/e) + 4 delta) / beta. If the largest leads by g, the others weigh at most (n-1) e^(-beta g + 2 delta).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, fmpq

from softwright.precision import Precision

PENALTY = 64  # what a violated condition costs, halved
_KEY_BLOCK = 128  # keys that a kernel takes at a time, at least


def ball(x: Fraction | int | float) -> arb:
    """A number as a ball that holds it."""
    exact = Fraction(x)
    return arb(fmpq(exact.numerator, exact.denominator))


def above(x: arb) -> Fraction:
    """A number that is at least x, and finite if x is."""
    top = float(x.upper())
    return Fraction(math.nextafter(top, math.inf)) if math.isfinite(top) else Fraction(2) ** 2000


@dataclass(frozen=True)
class Arithmetic:
    """The arithmetic of a dtype over sequences of at most `longest` tokens and `bank` fixed ones."""

    precision: Precision
    longest: int
    bank: int

    @property
    def u(self) -> Fraction:
        return Fraction(self.precision.unit)

    @property
    def eps(self) -> Fraction:
        return Fraction(self.precision.exp_error)

    @property
    def floor(self) -> Fraction:
        return Fraction(self.precision.exp_floor)

    @property
    def tokens(self) -> int:
        return self.longest + self.bank

    def gamma(self, count: int) -> Fraction:
        """count u / (1 - count u)"""
        return count * self.u / (1 - count * self.u)

    def leak(self, height: Fraction | int) -> Fraction:
        """A weight e^-height relative to a largest of 1, as it may be computed."""
        return max(above((-ball(height)).exp()), self.floor) * (1 + self.eps) ** 2 * (1 + 8 * self.u)

    def blocks(self) -> int:
        return -(-self.tokens // _KEY_BLOCK)

    # ---------------------------------------------------------------------------------------------------- masked heads

    def mean(self, largest: Fraction, error: Fraction) -> Fraction:
        """Error of a mean over matching tokens, beside that of its values' meaning; those err by `error`. Whole numbers
        are no exception: kernels may divide the weights by their sum before they add."""
        size = largest + error
        return error + self.gamma(self.longest + 8) * size + 2 * (self.tokens + 1) * size * self.leak(PENALTY)

    def absorbs(self, smallest: Fraction, largest: Fraction, leaks: Fraction) -> bool:
        """Whether weights that sum to `leaks` leave a value exactly what it is."""
        return smallest >= 1 and 2 * leaks * largest <= self.u / 8 * smallest and 2 * leaks <= self.u / 8

    def pick_is_exact(self, smallest: Fraction, largest: Fraction) -> bool:
        return self.absorbs(smallest, largest, (self.tokens + 1) * self.leak(PENALTY))

    def height(self) -> Fraction:
        """Of the null token: a number of the dtype and of few digits."""
        more = 36 if self.precision.name == "float64" else 16
        return Fraction(math.ceil(8 * (math.log(self.tokens) + more)), 8)

    def sum(self, terms: int, outer: Fraction, height: Fraction) -> tuple[Fraction, Fraction]:
        """Of a sum whose heads match at most `terms` tokens each and whose stored factor is `outer`: rho, and what a
        head loses or leaks, relative to the largest value."""
        small = (-ball(height)).exp()
        eps, gamma, tokens = ball(self.eps), ball(self.gamma(terms + 10)), self.tokens
        top = ball(outer) * small * (1 + eps) ** 2 * (1 + gamma) * (1 + 2 * tokens * small) - 1
        low = ball(outer) * small * (1 - eps) ** 2 * (1 - gamma) * (1 - 2 * tokens * small) - 1
        lost = outer * tokens * (self.leak(height) * self.leak(2 * PENALTY) + 4 * self.floor)
        return max(above(abs(top)), above(abs(low))), lost

    def tiny(self, share: Fraction) -> Fraction:
        """Weights below this part of the largest are as good as 0, where all of them together are a `share` of what as
        many of the largest would be: a power of two."""
        less = 60 if self.precision.name == "float64" else 30
        bits = less + max(0, math.ceil(-math.log2(max(float(share), 2.0**-60))))
        return Fraction(1, 2 ** min(bits, 110))

    def weighed_height(self, count: int) -> Fraction:
        """Of the null token of a head with known weights, over so many tokens."""
        more = 36 if self.precision.name == "float64" else 16
        return Fraction(math.ceil(8 * (math.log(count) + more)), 8)

    def weighed(self, count: int, outer: Fraction, height: Fraction, delta: Fraction) -> tuple[Fraction, Fraction]:
        """The same as `sum` of known weights, of scores that are off by delta (`reals/weighed.py`)."""
        small = (-ball(height)).exp()
        eps, gamma, off = ball(self.eps), ball(self.gamma(count + 10)), ball(delta).exp()
        top = ball(outer) * small * (1 + eps) ** 2 * (1 + gamma) * off * (1 + 2 * (count + 1) * small) - 1
        low = ball(outer) * small * (1 - eps) ** 2 * (1 - gamma) / off * (1 - 2 * (count + 1) * small) - 1
        lost = outer * self.tokens * (self.leak(height) * self.leak(2 * PENALTY) + 4 * self.floor)
        return max(above(abs(top)), above(abs(low))), lost

    # ---------------------------------------------------------------------------------------------------- bank tokens

    def table_leak(self, eta: Fraction, count: int, sharpness: int) -> Fraction | None:
        """What all wrong tokens of a table weigh together; None if the right one does not win."""
        half, b = Fraction(count + 1, 2), sharpness
        if eta >= Fraction(9, 20):
            return None

        def rounding(d: int) -> Fraction:
            far = half + d
            return self.gamma(4) * b * (2 * (half + eta) * far + far * far)

        gaps = [b * (d * d - 2 * d * eta) - rounding(0) - rounding(d) for d in range(1, 10)]
        if gaps[0] <= 1 or any(later <= gap for gap, later in itertools.pairwise(gaps)):
            return None
        if self.gamma(4) * 8 * (half + self.bank) >= Fraction(1, 2):  # then gaps go on growing
            return None
        near = sum((2 * self.leak(_below(gap)) for gap in gaps[:8]), Fraction(0))
        return near + self.tokens * self.leak(_below(gaps[8])) + self.tokens * self.floor * 2

    def digit_leak(self, eta: Fraction, count: int, base: int, sharpness: int) -> Fraction | None:
        """The same of a head that finds digits floor(r / base)."""
        half, b = Fraction(count + 1, 2), sharpness
        if eta >= Fraction(9, 20):
            return None

        def rounding(d: int) -> Fraction:
            far = half + d
            return self.gamma(5) * b * (base * (half + 1) * far + base * far * (far + 1))

        gaps = [
            b * (d * (Fraction(1, 2) - eta) + Fraction(base * d * (d - 1), 2)) - rounding(0) - rounding(d)
            for d in range(1, 10)
        ]
        if gaps[0] <= 1 or any(later <= gap for gap, later in itertools.pairwise(gaps)):
            return None
        if self.gamma(5) * 8 * (half + self.bank) >= Fraction(1, 4):
            return None
        near = sum((2 * self.leak(_below(gap)) for gap in gaps[:8]), Fraction(0))
        return near + self.tokens * self.leak(_below(gaps[8])) + self.tokens * self.floor * 2

    # ----------------------------------------------------------------------------------------------------- soft heads

    def weight_error(self, spread: Fraction) -> Fraction:
        """|log| of what exp and the running maximum change a weight by, `spread` below the largest."""
        each = above((1 + ball(self.eps)).log() + (1 + 3 * ball(self.u)).log())
        return each * (self.blocks() + 2) + self.u * 2 * spread

    def largest(self, sharpness: Fraction, delta: Fraction) -> Fraction:
        """How far a softmax mean is below the largest value, scores off by delta."""
        if self.longest == 1:
            return Fraction(0)
        top = above((ball(self.longest - 1) / arb(1).exp()).lambertw())
        return (top + 4 * delta) / sharpness


def order_error(count: int, sharpness: Fraction, delta: Fraction) -> Fraction:
    """W0((n - 1) e^(2 delta - 1))/B: the mean distance under weights of at most e^(2 delta - B distance)."""
    if count == 1:
        return Fraction(0)
    if delta > 300:
        return Fraction(10) ** 300
    return above((ball(count - 1) * (2 * ball(delta) - 1).exp()).lambertw() / ball(sharpness))


def _below(x: Fraction) -> Fraction:
    return Fraction(math.floor(x * 64), 64)
