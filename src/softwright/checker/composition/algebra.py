"""Polynomials with rational coefficients over *atoms* with rational exponents: the arithmetic of the normal form.

An atom is something that the algebra does not look into: a variable, pi, a prime number under a root, exp(m) of a
monomial m, log(D), |D|, f(D), ..., and POLY(D), a sum D that stands under a power. Its exponents are kept small:

    p^(n + r) = p^n p^r       primes: 0 <= r < 1, the rest is rational
    |D|^(2n + r) = D^(2n) |D|^r      0 <= r < 2
    POLY(D)^(n + r) = D^n POLY(D)^r  for n >= 1, expanded where that is short
    STEP^2 = STEP, [D > 0] being 0 or 1

In sums c sin(A)^2 + d cos(A)^2 becomes c + (d - c) cos(A)^2, and where two sums are compared sin(A)^2 = 1 - cos(A)^2.

Each of these holds at every point at which its left side has a value (a fractional power has one only where its base is
not negative). So a polynomial that is computed from an expression is worth what the expression is, wherever that is
defined; nothing is claimed elsewhere. Sums are factored over the integers, so that a product means the same whichever
way it was put together; a product is expanded where that takes at most LONGEST terms and is kept in factors elsewhere.
"""

from __future__ import annotations

import math
from fractions import Fraction

from flint import fmpq

from softwright.checker.composition.atoms import Atoms
from softwright.checker.composition.factoring import irreducible
from softwright.checker.composition.polynomials import (
    HALF,
    UNIT,
    Exponent,
    Key,
    Monomial,
    Poly,
    add_to,
    constant,
    key,
    multiple,
    plus,
    power_size,
    scaled,
    tidy,
    whole,
)
from softwright.checker.composition.ranges import Ranges
from softwright.checker.refusal import NotProvedError, require

LONGEST = 300  # terms of a product that is expanded at once
MOST_BITS = 20_000  # of a coefficient
BOUNDED = ("prime", "abs", "step", "poly")  # kinds of atoms whose exponents are brought into bounds


class Algebra(Atoms):
    """Sums, products and whole powers of polynomials over atoms."""

    def __init__(self, ranges: Ranges) -> None:
        super().__init__(ranges)
        self._made: dict[Key, tuple[Poly, Poly]] = {}  # a product -> its factors
        self._factors: dict[Key, tuple[fmpq, Monomial]] = {}

    def single(self, a: int, e: Exponent = 1) -> Poly:
        """The atom to a power."""
        return self.reduced({a: e}, fmpq(1)) if e != 0 else constant(1)

    def reduced(self, exponents: dict[int, Exponent], c: fmpq) -> Poly:
        """c times the product of atoms to exponents, with every exponent brought into its bounds."""
        kept: list[tuple[int, Exponent]] = []
        others: list[tuple[int, Exponent]] = []  # what becomes a sum
        opened = 1  # terms of the product of all sums: they are multiplied out together or not at all
        for a, e in exponents.items():
            if e >= 1 and self.atoms[a].kind == "poly":
                opened *= power_size(len(self.atoms[a].inner[0]), math.floor(e))
        for a, raw in exponents.items():
            e = tidy(raw)
            if e == 0:
                continue
            kind = self.atoms[a].kind
            if kind == "prime":
                n = math.floor(e)
                c, e = c * self.rational_power(fmpq(self._prime(a)), n), tidy(e - n)
            elif kind == "abs":
                if a in self.assumed:
                    others.append((a, e))
                    continue
                n = math.floor(Fraction(e) / 2)
                if n:
                    others.append((a, 2 * n))
                e = tidy(e - 2 * n)
            elif kind == "step":
                side = self.assumed.get(a, 0) or self._decided(a, exponents)
                if side != 0:
                    if side < 0:
                        return {}
                    continue
                if e > 0:
                    e = 1
            elif kind == "poly" and e >= 1 and opened <= LONGEST:
                n = math.floor(e)
                others.append((a, n))
                e = tidy(e - n)
            if e != 0:
                kept.append((a, e))
        if c == 0:
            return {}
        require(int(c.p).bit_length() + int(c.q).bit_length() <= MOST_BITS, "a coefficient has too many digits")
        divided = None if others else self._divided(dict(kept), c)
        if divided is not None:
            return divided
        result: Poly = {tuple(sorted(kept)): c}
        for a, e in others:
            result = self.times(result, self._opened(a, e))
        return result

    def _decided(self, a: int, exponents: dict[int, Exponent]) -> int:
        """The sign of D that decides [D > 0] in a product: assumed for |D|, and another factor is 0 where D is."""
        inner = self.atoms[a].inner[0]
        if not any(e > 0 and multiple(self.base(b), inner) for b, e in exponents.items() if b != a):
            return 0
        for b, side in self.assumed.items():
            factor = multiple(self.atoms[b].inner[0], inner) if self.atoms[b].kind == "abs" else 0
            if factor:
                return side if factor > 0 else -side
        return 0

    def _divided(self, exponents: dict[int, Exponent], c: fmpq) -> Poly | None:
        """With a constant C = t + R in the denominator, t/C = 1 - R/C; None if no first term t of one is there."""
        for a, e in exponents.items():
            if self.atoms[a].kind != "poly" or not self.atoms[a].constant or not whole(e) or e > -1:
                continue
            inner = self.atoms[a].inner[0]
            first = max(inner)
            if not first or not all(k > 0 and exponents.get(b, 0) >= k for b, k in first):
                continue
            self.spend(len(inner))
            rest = dict(exponents)
            for b, k in first:
                rest[b] = rest.get(b, 0) - k
            size = c / inner[first]
            result = self.reduced({**rest, a: e + 1}, size)
            for m, d in inner.items():
                if m != first:
                    powers = dict(rest)
                    for b, k in m:
                        powers[b] = powers.get(b, 0) + k
                    result = plus(result, self.reduced(powers, size * d), -1)
            return result
        return None

    def _prime(self, a: int) -> int:
        return int(self.dag[self.atoms[a].node].payload.p)

    def _opened(self, a: int, e: Exponent) -> Poly:
        """An atom to a power as a sum: |D|^(2n), POLY(D)^n, or |D|^e where the sign of D is assumed."""
        atom = self.atoms[a]
        inner = atom.inner[0]
        if atom.kind == "abs" and a in self.assumed:
            side = scaled(inner, self.assumed[a])
            return self.power(side, int(e)) if whole(e) else self.root_of(side, e)
        if int(e) < 0 and len(inner) > 1:
            return self.factor_power(inner, int(e))
        return self.power(inner, int(e))

    def times(self, p: Poly, q: Poly) -> Poly:
        if not p or not q:
            return {}
        if (len(p) > 1 and len(q) > 1 and len(p) * len(q) > LONGEST) or self._kept(p) or self._kept(q):
            p, q = self.factored(p), self.factored(q)
        p, q = self._shared(p, q), self._shared(q, p)
        result = self.expanded(p, q)
        sums = [s for s in (p, q) if len(s) > 1]
        if len(sums) > 1 or (sums and key(sums[0]) in self._made):
            self._made.setdefault(key(result), (p, q))
        return result

    def _in_bounds(self, a: int, e: Exponent) -> bool:
        """Whether a term with this power stays as it is when atoms are added that it does not hold."""
        kind = self.atoms[a].kind
        if kind == "poly":
            return e < 1 and not (e < 0 and self.atoms[a].constant)
        return kind not in BOUNDED or (0 < e < (2 if kind == "abs" else 1) and a not in self.assumed)

    def _kept(self, p: Poly) -> bool:
        """Whether p is one term with sums in it that were too long to be multiplied out."""
        return len(p) == 1 and any(e >= 1 and self.atoms[a].kind == "poly" for m in p for a, e in m)

    def expanded(self, p: Poly, q: Poly) -> Poly:
        """The product term by term."""
        self.spend(len(p) * len(q))
        result: Poly = {}
        open_ = {m for factor in (p, q) for m in factor if not all(self._in_bounds(a, e) for a, e in m)}
        for m, c in p.items():
            own = dict(m)
            for n, d in q.items():
                exponents, bounded = dict(own), m in open_ or n in open_
                for a, e in n:
                    if a in exponents:
                        exponents[a] += e
                        bounded = bounded or self.atoms[a].kind in BOUNDED
                        if exponents[a] == 0:
                            del exponents[a]
                    else:
                        exponents[a] = e
                found = self.reduced(exponents, c * d) if bounded else {tuple(sorted(exponents.items())): c * d}
                add_to(result, found)
        if any(int(c.p).bit_length() + int(c.q).bit_length() > MOST_BITS for c in result.values()):
            raise NotProvedError("a coefficient has too many digits")
        return result

    def _shared(self, p: Poly, q: Poly) -> Poly:
        """p in factors if p is a sum and the single term q divides by one of them."""
        if len(p) == 1 or len(q) > 1:
            return p
        (m,) = q
        below = {a for a, e in m if e < 0 and self.atoms[a].kind == "poly"}
        if not below:
            return p
        single = self.factored(p)
        (n,) = single
        return single if any(a in below for a, _ in n) else p

    def factored(self, p: Poly) -> Poly:
        """p as one term."""
        if len(p) <= 1:
            return p
        c, m = self.factors(p)
        return {m: c}

    def factors(self, p: Poly) -> tuple[fmpq, Monomial]:
        """(c, m) with p = c m: sums become POLY(D) with D irreducible, of positive sign if that is proved."""
        if len(p) == 1:
            ((m, c),) = p.items()
            return c, m
        spelt = key(p)
        if spelt not in self._factors:
            self._factors[spelt] = self._factor(p)
        return self._factors[spelt]

    def _factor(self, p: Poly) -> tuple[fmpq, Monomial]:
        made = self._made.get(key(p))
        if made is not None:
            (c, m), (d, n) = map(self.factors, made)
            exponents = dict(m)
            for a, e in n:
                exponents[a] = exponents.get(a, 0) + e
            if all(self.atoms[a].kind not in ("prime", "abs", "step") for a in exponents):
                return c * d, tuple(sorted((a, e) for a, e in exponents.items() if e != 0))
        c, exponents, rest = self._content(p)
        ratio, parts = irreducible(self, rest)
        c = c * ratio
        outer = self._outer_sign(p, c, exponents) if len(parts) == 1 and parts[0][1] == 1 else 0
        for d, e in parts:
            sign, oriented = self.oriented(d, outer)
            c = c * sign**e
            a = self.atom("poly", None, (oriented,))
            exponents[a] = exponents.get(a, 0) + e
        return c, tuple(sorted((a, e) for a, e in exponents.items() if e != 0))

    def _outer_sign(self, p: Poly, c: fmpq, exponents: dict[int, Exponent]) -> int:
        """The sign of D in p = c m D, from that of p as it was spelt and of m; 0 if one is not proved."""
        spelt = self.origins.get(key(p))
        if spelt is None or spelt not in self.spelt:
            return 0
        sign = self.node_sign(spelt, strict=True) * (1 if c > 0 else -1)
        for a, e in exponents.items():
            side = self.sign(a, strict=True)
            sign *= side if whole(e) and int(e) % 2 else abs(side) if whole(e) else side
        return sign

    def oriented(self, d: Poly, outer: int = 0) -> tuple[int, Poly]:
        """(s, s d): of positive sign if one is proved, else with a positive first coefficient."""
        sign = outer or self.node_sign(self.node(d))
        if outer:
            self.ranges.learn(self.node(d), (0.0, math.inf) if outer > 0 else (-math.inf, 0.0))
            self.positive.add(key(d if outer > 0 else scaled(d, -1)))
        if sign == 0:
            sign = 1 if d[max(d)] > 0 else -1
        return sign, d if sign > 0 else scaled(d, -1)

    def _content(self, p: Poly) -> tuple[fmpq, dict[int, Exponent], Poly]:
        """(c, m, D): p = c m D, no atom divides D, and its first coefficient is 1 or -1 (but for constant atoms)."""
        self.spend(len(p))
        seen: dict[int, int] = {}
        least: dict[int, Exponent] = {}
        for m in p:
            for a, e in m:
                least[a] = min(least.get(a, e), e)
                seen[a] = seen.get(a, 0) + 1
        least = {a: e if seen[a] == len(p) else min(e, 0) for a, e in least.items()}
        least = {a: e for a, e in least.items() if e != 0}
        varying = {m: self._varying(m, least) for m in p}
        lead = max(p, key=lambda m: (varying[m], m))
        if sum(parts == varying[lead] for parts in varying.values()) == 1:  # constants go with the first term
            least = {a: e for a, e in least.items() if not self.atoms[a].constant}
            least.update({a: e for a, e in lead if self.atoms[a].constant})
        c = abs(p[lead])
        rest = (
            self.expanded(p, {tuple(sorted((a, -e) for a, e in least.items())): 1 / c}) if least else scaled(p, 1 / c)
        )
        return c, least, rest

    def _varying(self, m: Monomial, least: dict[int, Exponent]) -> list[tuple[int, Exponent]]:
        """The atoms of m/least that are no constants: the first term of D must not depend on what p was divided by."""
        exponents = dict(m)
        for a, e in least.items():
            exponents[a] = exponents.get(a, 0) - e
        return sorted((a, e) for a, e in exponents.items() if e != 0 and not self.atoms[a].constant)

    # Powers -------------------------------------------------------------------------------------------------------

    def power(self, p: Poly, n: int) -> Poly:
        """p^n for a whole n."""
        if n == 0:
            return constant(1)
        if n == 1 or not p:
            require(p or n > 0, "the formula divides by 0")
            return p
        if len(p) == 1:
            ((m, c),) = p.items()
            return self.reduced({a: e * n for a, e in m}, self.rational_power(c, n))
        if n < 0 and self._is_surd(p):
            return self.power(self._inverse_surd(p), -n)
        if n < 0 or power_size(len(p), n) > LONGEST:
            return self.factor_power(p, n)
        result = p
        for _ in range(n - 1):
            before, result = result, self.expanded(result, p)
            self._made.setdefault(key(result), (before, p))
        return result

    def _is_surd(self, p: Poly) -> bool:
        """Whether p is a sum of square roots of rational numbers."""
        roots = {a for m in p for a, _ in m}
        halves = all(self.atoms[a].kind == "prime" and e == HALF for m in p for a, e in m)
        return halves and 0 < len(roots) <= 3 and len(p) <= 8

    def _inverse_surd(self, p: Poly) -> Poly:
        """1/(A + B sqrt(n)) = (A - B sqrt(n))/(A^2 - B^2 n), root by root."""
        result = constant(1)
        for a in sorted({a for m in p for a, _ in m}):
            turned = {m: -c if any(b == a for b, _ in m) else c for m, c in p.items()}
            result, p = self.expanded(result, turned), self.expanded(p, turned)
        require(p, "the formula divides by 0")
        return scaled(result, 1 / p[UNIT])

    def factor_power(self, p: Poly, n: int) -> Poly:
        """p^n for a whole n with its factors kept."""
        c, m = self.factors(p)
        return self.reduced({a: e * n for a, e in m}, self.rational_power(c, n))

    def rational_power(self, c: fmpq, n: int) -> fmpq:
        if c == 1 or n == 0:
            return fmpq(1)
        require(c != 0 or n > 0, "the formula divides by 0")
        bits = max(int(c.p).bit_length(), int(c.q).bit_length())
        require(bits * abs(n) <= MOST_BITS, "a coefficient has too many digits")
        return c**n

    def root_of(self, d: Poly, e: Exponent) -> Poly:
        """d^e for a fractional e, nothing split off: wherever it has a value, d is not negative."""
        if len(d) == 1:
            ((m, c),) = d.items()
            if c == 1 and len(m) == 1 and m[0][1] == 1:
                return self.reduced({m[0][0]: e}, fmpq(1))
        return self.reduced({self.atom("poly", None, (d,)): e}, fmpq(1))
