"""Fractional powers and moduli of polynomials over atoms, and whether a polynomial is 0: the rest of the algebra."""

from __future__ import annotations

import math
from fractions import Fraction

from flint import fmpq

from softwright.checker.composition.algebra import Algebra
from softwright.checker.composition.polynomials import (
    UNIT,
    Exponent,
    Poly,
    constant,
    key,
    plus,
    prime_powers,
    scaled,
    tidy,
    whole,
)
from softwright.checker.refusal import NotProvedError, require


class Powers(Algebra):
    """The algebra with roots, moduli and the question whether a sum is 0."""

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

    # Comparing ------------------------------------------------------------------------------------------------------

    def is_zero(self, p: Poly) -> bool:
        """Whether p is 0 wherever it has a value: POLY(D) leave the denominators and are expanded, last made first."""
        while p:
            opened = [a for m in p for a, e in m if self.atoms[a].kind == "poly" and (e < 0 or e >= 1)]
            if not opened:
                return not self._without_sines(p)
            a = max(opened)
            least = min(math.floor(dict(m).get(a, 0)) for m in p)
            powers = {0: constant(1)}
            result: Poly = {}
            for m, c in p.items():
                exponents = dict(m)
                e = exponents.pop(a, 0) - min(least, 0)
                n = math.floor(e)
                if n not in powers:
                    require(n <= 64, "the program could not be compared with the formula: high powers arise")
                    powers[n] = self.long_power(self.atoms[a].inner[0], n)
                if e != n:
                    exponents[a] = tidy(e - n)
                rest = {tuple(sorted(exponents.items())): c}
                result = plus(result, self.expanded(powers[n], rest))
            p = result
        return True

    def _without_sines(self, p: Poly) -> Poly:
        """p times powers of sines that it divides by, with sin^2 = 1 - cos^2."""
        for a in sorted({a for m in p for a, _ in m if self.atoms[a].kind == "sin"}):
            exponents = [dict(m).get(a, 0) for m in p]
            if not all(whole(e) for e in exponents) or max(exponents) - min(0, *exponents) < 2:
                continue
            least = min(0, *map(int, exponents))
            cosine = self.atom("cos", None, self.atoms[a].inner)
            square = {UNIT: fmpq(1), ((cosine, 2),): fmpq(-1)}
            result: Poly = {}
            for m, c in p.items():
                rest = dict(m)
                e = int(rest.pop(a, 0)) - least
                rest.update({a: 1} if e % 2 else {})
                result = plus(result, self.expanded(self.long_power(square, e // 2), {tuple(sorted(rest.items())): c}))
            p = result
        return p

    def joined_squares(self, p: Poly) -> Poly:
        """c m sin^2 + d m cos^2 = c m + (d - c) m cos^2, wherever both terms are there."""
        pending = [m for m in p if any(self.atoms[a].kind == "sin" and whole(e) and e >= 2 for a, e in m)]
        result = dict(p) if pending else p
        while pending:
            m = pending.pop()
            for a, e in m:
                if m not in result or self.atoms[a].kind != "sin" or not whole(e) or e < 2:
                    continue
                cosine = self._numbers.get(("cos", None, *map(key, self.atoms[a].inner)))
                if cosine is None:
                    continue
                rest = dict(m)
                rest[a] = e - 2
                shorter = tuple(sorted((b, k) for b, k in rest.items() if k != 0))
                rest[cosine] = rest.get(cosine, 0) + 2
                partner = tuple(sorted((b, k) for b, k in rest.items() if k != 0))
                if partner in result:
                    c = result[m]
                    self.spend(2)
                    result = plus(plus(plus(result, {m: c}, -1), {shorter: c}), {partner: c}, -1)
                    pending += [shorter, partner]
                    break
        return result

    def long_power(self, d: Poly, n: int) -> Poly:
        result = constant(1)
        for _ in range(n):
            result = self.expanded(result, d)
        return result
