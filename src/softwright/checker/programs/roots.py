"""Sums of squares near 0: where v >= 0 should be, a run has v^, of which, for some w >= 0 of the run,

    |v^ - w| <= eta sqrt(w) + tau,      |sqrt(w) - sqrt(v)| <= off,      w <= top.

The square of a form: w is the square of what its columns hold in the run, gates err relatively to its root, and a form
of two terms with powers of two is rounded once. Sums: Cauchy and Schwarz for eta, the triangle inequality for off.
Means: sqrt is concave. If u^ is the run's number for u, S = sqrt(w) and |u^ - w| <= E S + tau, then |sqrt(u^) - S| is
at most E + sqrt(tau), for (sqrt(u^) - S)^2 <= |u^ - w| and |sqrt(u^) - S| S <= |u^ - w|: it is not above E + tau/S, and
not above sqrt(E S + tau), so if S >= sqrt(tau) not above E + sqrt(tau), else not above sqrt(tau) sqrt(1 + E/sqrt(tau)).
If u^ < 0, S^2 <= E S + tau, and S <= E + sqrt(tau). 3/2 E + 2 sqrt(tau) is more than either.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flint import arb, fmpq

from softwright.checker.refusal import require


def sqrt_over(x: Fraction) -> Fraction:
    """A fraction that is no smaller than sqrt(x)."""
    if x <= 0:
        return Fraction(0)
    mantissa, exponent = arb(fmpq(x.numerator, x.denominator)).sqrt().upper().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def power_of_two(c: Fraction) -> bool:
    top, bottom = abs(c.numerator), c.denominator
    return top & (top - 1) == 0 and bottom & (bottom - 1) == 0 and top != 0


@dataclass(frozen=True)
class Root:
    """How near to 0 a run of a sum of squares comes."""

    eta: Fraction
    tau: Fraction
    off: Fraction
    top: Fraction

    def rounded(self, rho: Fraction, more: Fraction) -> Root:
        """With a relative error rho and an absolute one: rho (w + eta sqrt(w) + tau) + more."""
        eta = self.eta + rho * (sqrt_over(self.top) + self.eta)
        return Root(eta, self.tau + rho * self.tau + more, self.off, self.top)

    def summed(self, count: int) -> Root:
        """Of a sum over so many tokens: Cauchy and Schwarz again."""
        many = sqrt_over(Fraction(count))
        return Root(many * self.eta, count * self.tau, many * self.off, count * self.top)

    def distance(self) -> Fraction:
        """Of the roots of what runs and of what should be."""
        require(self.tau >= 0 and self.eta >= 0, "a sum of squares is damaged")
        return Fraction(3, 2) * self.eta + 2 * sqrt_over(self.tau) + self.off
