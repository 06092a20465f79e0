"""`Roots`: fractional powers and absolute values, factor by factor, each with the sign that it needs proved."""

from __future__ import annotations

import math
from fractions import Fraction

from flint import fmpq

from softwright.checker.composition.algebra import Algebra
from softwright.checker.composition.polynomials import Exponent, Poly, constant, prime_powers, scaled, tidy, whole
from softwright.checker.refusal import NotProvedError, require


class Roots(Algebra):
    """Powers that are not whole."""

    def fractional(self, p: Poly, q: Exponent) -> Poly:
        """p^q for a q that is no integer: factors of proved sign are split off, the others stay under the root.

        Where some factor is of unknown sign, only what is proved not to be 0 is split off: at a zero of it the power is
        0 whatever the other factors are, and roots of these may have no value there.
        """
        if not p:
            require(q > 0, "the formula divides by 0")
            return {}
        c, m = self.factors(p)
        for strict in (False, True):
            result, inside, sign = constant(1), constant(1), 1 if c > 0 else -1
            unknown = False
            for a, e in m:
                side = self.sign(a, strict)
                even = whole(e) and int(e) % 2 == 0
                if not whole(e) and (side > 0 or not strict):
                    result = self.times(result, self.single(a, tidy(e * q)))
                elif whole(e) and side != 0:
                    result = self.times(result, self.sided_power(a, side, tidy(e * q)))
                    sign = sign if even else side * sign
                elif even and not strict:
                    result = self.times(result, self.absolute_power(a, tidy(e * q)))
                else:
                    inside, unknown = self.times(inside, self.single(a, e)), True
            if not unknown:
                require(sign > 0, "a root of something negative")
                return self.times(result, self.constant_power(abs(c), q))
            if strict:
                return self.times(
                    self.times(result, self.root_of(scaled(inside, sign), q)), self.constant_power(abs(c), q)
                )
        raise NotProvedError("no root was found")

    def sided_power(self, a: int, side: int, e: Exponent) -> Poly:
        """(side a)^e for an atom of that sign."""
        if side > 0:
            return self.single(a, e)
        turned = scaled(self.base(a), -1)
        return self.power(turned, int(e)) if whole(e) else self.root_of(turned, e)

    def constant_power(self, c: fmpq, q: Exponent) -> Poly:
        """c^q for a rational c > 0: prime numbers under roots."""
        exponents: dict[int, Exponent] = {}
        result = fmpq(1)
        for n, side in ((int(c.p), 1), (int(c.q), -1)):
            for prime, k in prime_powers(n):
                e = side * k * Fraction(q)
                under = math.floor(e)
                result = result * self.rational_power(fmpq(prime), under)
                if e != under:
                    a = self.atom("prime", prime)
                    exponents[a] = exponents.get(a, 0) + tidy(e - under)
        return self.reduced(exponents, result)

    def absolute_atom(self, a: int) -> Poly:
        """|a|."""
        side = self.sign(a)
        if side != 0:
            return scaled(self.base(a), side)
        base = self.base(a)
        return self.single(self.atom("abs", None, (base if base[max(base)] > 0 else scaled(base, -1),)))

    def absolute_power(self, a: int, e: Exponent) -> Poly:
        """|a|^e for an atom of unknown sign."""
        size = self.absolute_atom(a)
        return self.power(size, int(e)) if whole(e) else self.root_of(size, e)

    def absolute(self, p: Poly) -> Poly:
        """|p|, factor by factor."""
        if not p:
            return {}
        c, m = self.factors(p)
        result = constant(abs(c))
        for a, e in m:
            if not whole(e) or int(e) % 2 == 0:
                factor = self.single(a, e)
            else:
                factor = self.times(self.absolute_atom(a), self.single(a, e - 1))
            result = self.times(result, factor)
        return result
