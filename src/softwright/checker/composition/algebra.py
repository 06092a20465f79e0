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

from flint import Ordering, fmpq, fmpz, fmpz_mpoly_ctx

from softwright.checker.composition.polynomials import (
    BOUNDED,
    DEGREE,
    FACTORED,
    GENERATORS,
    LONG_SEARCH,
    LONGEST,
    MOST_BITS,
    MOST_WORK,
    SHORT_SEARCH,
    Atom,
    Exponent,
    Monomial,
    Poly,
    _power_size,
    constant,
    key,
    plus,
    scaled,
    tidy,
    whole,
)
from softwright.checker.composition.ranges import Ranges
from softwright.checker.limits import check_time
from softwright.checker.refusal import NotProvedError, require


class Algebra:
    """The atoms of one question, their signs on the box, and the arithmetic of polynomials over them."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges, self.dag = ranges, ranges.dag
        self.atoms: list[Atom] = []
        self.assumed: dict[int, int] = {}  # an atom |D| or STEP(D) -> the sign of D in the case that is looked at
        self.origins: dict[frozenset[tuple[Monomial, fmpq]], int] = {}  # a polynomial -> a node that is worth it
        self.positive: set[frozenset[tuple[Monomial, fmpq]]] = set()  # sums that are proved to be > 0
        self.spelt: set[int] = set()  # nodes that the formula and the program are made of
        self.work = 0
        self._made: dict[frozenset[tuple[Monomial, fmpq]], tuple[Poly, Poly]] = {}  # a product -> its factors
        self._numbers: dict[object, int] = {}
        self._factors: dict[frozenset[tuple[Monomial, fmpq]], tuple[fmpq, Monomial]] = {}
        self._signs: dict[tuple[int, bool], int] = {}

    def spend(self, amount: int) -> None:
        self.work += amount
        if self.work > MOST_WORK:
            raise NotProvedError("the program could not be compared with the formula: too many terms arise")
        if amount > 50:
            check_time()

    # Atoms ----------------------------------------------------------------------------------------------------------

    def atom(self, kind: str, label: object, inner: tuple[Poly, ...] = ()) -> int:
        """The number of an atom; `label` tells it from others of its kind, besides what it is made of."""
        spelt = (kind, label, *map(key, inner))
        if spelt not in self._numbers:
            self.spend(1)
            node = self._node(kind, label, inner)
            self._numbers[spelt] = len(self.atoms)
            self.atoms.append(Atom(kind, node, inner, not self.dag.varies[node]))
        return self._numbers[spelt]

    def _node(self, kind: str, label: object, inner: tuple[Poly, ...]) -> int:
        dag = self.dag
        if kind == "variable" and isinstance(label, int):
            return dag.variable(label)
        if kind == "prime" and isinstance(label, int):
            return dag.number(label)
        parts = [self.node(p) for p in inner]
        if kind == "poly":
            return parts[0]
        if kind == "step":
            truth = dag.add("compare", (">",), (parts[0], dag.number(0)))
            return dag.call("where", truth, dag.number(1), dag.number(0))
        return dag.call(kind, *parts)

    def node(self, p: Poly) -> int:
        """A node of the dag that is worth a polynomial."""
        found = self.origins.get(key(p))
        if found is not None:
            return found
        terms = []
        for m, c in sorted(p.items(), key=lambda term: repr(term[0])):
            factors = [(1, self.dag.power(self.atoms[a].node, fmpq(e.numerator, e.denominator))) for a, e in m]
            size = abs(c)
            if size != 1 or not factors:
                factors.insert(0, (1, self.dag.number(size)))
            terms.append((1 if c > 0 else -1, self.dag.product(factors)))
        return self.dag.sum(terms)

    def single(self, a: int, e: Exponent = 1) -> Poly:
        """The atom to a power."""
        return self.reduced({a: e}, fmpq(1)) if e != 0 else constant(1)

    def sign(self, a: int, strict: bool = False) -> int:
        """1 or -1 if the atom is proved not to be below or above 0 on the box (with `strict`: nor 0); else 0."""
        kind = self.atoms[a].kind
        if kind in ("exp", "prime", "pi"):
            return 1
        if (kind in ("abs", "step") and not strict) or (
            kind == "poly" and key(self.atoms[a].inner[0]) in self.positive
        ):
            return 1
        if (a, strict) not in self._signs:
            self._signs[a, strict] = self.node_sign(self.atoms[a].node, strict)
        return self._signs[a, strict]

    def node_sign(self, node: int, strict: bool = False) -> int:
        """The sign of a node; sub-expressions of formula and program are worth more work than what arises here."""
        return self.ranges.sign(node, strict, LONG_SEARCH if node in self.spelt else SHORT_SEARCH)

    def base(self, a: int) -> Poly:
        """The atom itself as a polynomial, POLY(D) as D."""
        return self.atoms[a].inner[0] if self.atoms[a].kind == "poly" else {((a, 1),): fmpq(1)}

    # Products -------------------------------------------------------------------------------------------------------

    def reduced(self, exponents: dict[int, Exponent], c: fmpq) -> Poly:
        """c times the product of atoms to exponents, with every exponent brought into its bounds."""
        kept: list[tuple[int, Exponent]] = []
        others: list[tuple[int, Exponent]] = []  # what becomes a sum
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
                if a in self.assumed:
                    if self.assumed[a] < 0:
                        return {}
                    continue
                if e > 0:
                    e = 1
            elif kind == "poly" and e >= 1:
                n = math.floor(e)
                if _power_size(len(self.atoms[a].inner[0]), n) <= LONGEST:
                    others.append((a, n))
                    e = tidy(e - n)
            if e != 0:
                kept.append((a, e))
        if c == 0:
            return {}
        require(int(c.p).bit_length() + int(c.q).bit_length() <= MOST_BITS, "a coefficient has too many digits")
        result: Poly = {tuple(sorted(kept)): c}
        for a, e in others:
            result = self.times(result, self._opened(a, e))
        return result

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
        if len(p) > 1 and len(q) > 1 and len(p) * len(q) > LONGEST:
            p, q = self.factored(p), self.factored(q)
        p, q = self._shared(p, q), self._shared(q, p)
        result = self.expanded(p, q)
        if len(p) > 1 and len(q) > 1:
            self._made.setdefault(key(result), (p, q))
        return result

    def expanded(self, p: Poly, q: Poly) -> Poly:
        """The product term by term."""
        self.spend(len(p) * len(q))
        result: Poly = {}
        for m, c in p.items():
            own = dict(m)
            for n, d in q.items():
                exponents, bounded = dict(own), False
                for a, e in n:
                    if a in exponents:
                        exponents[a] += e
                        bounded = bounded or self.atoms[a].kind in BOUNDED
                        if exponents[a] == 0:
                            del exponents[a]
                    else:
                        exponents[a] = e
                found = self.reduced(exponents, c * d) if bounded else {tuple(sorted(exponents.items())): c * d}
                for mono, value in found.items():
                    total = result.get(mono, 0) + value
                    if total == 0:
                        result.pop(mono, None)
                    else:
                        result[mono] = total
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
        ratio, parts = self._irreducible(rest)
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
        varying = {m: [(a, e) for a, e in m if not self.atoms[a].constant] for m in p}
        lead = max(p, key=lambda m: (varying[m], m))
        if sum(parts == varying[lead] for parts in varying.values()) == 1:
            for a, e in lead:
                if self.atoms[a].kind in ("prime", "pi", "exp") and self.atoms[a].constant:
                    least[a] = e
        c = abs(p[lead])
        rest = (
            self.expanded(p, {tuple(sorted((a, -e) for a, e in least.items())): 1 / c}) if least else scaled(p, 1 / c)
        )
        return c, least, rest

    def _irreducible(self, d: Poly) -> tuple[fmpq, list[tuple[Poly, int]]]:
        """(c, factors) over the integers, c rational, atoms with fractional exponents being atoms of their own."""
        whole_sum = fmpq(1), [(d, 1)]
        generators: dict[tuple[int, Exponent], int] = {}
        spelt: list[tuple[dict[int, int], fmpq]] = []
        for m, c in d.items():
            powers: dict[int, int] = {}
            for a, e in m:
                n = math.floor(e)
                for g, k in (((a, 1), n), ((a, tidy(e - n)), 1)):
                    if k and g[1] != 0:
                        place = generators.setdefault(g, len(generators))
                        powers[place] = powers.get(place, 0) + k
            spelt.append((powers, c))
        degree = max(sum(powers.values()) for powers, _ in spelt)
        negative = any(k < 0 for powers, _ in spelt for k in powers.values())
        if negative or len(d) > FACTORED or degree > DEGREE or not 0 < len(generators) <= GENERATORS:
            return whole_sum
        scale = fmpz(1)
        for _, c in spelt:
            scale = scale.lcm(c.q)
        if int(scale).bit_length() > 400 or any(int(c.p).bit_length() > 400 for _, c in spelt):
            return whole_sum
        self.spend(20 * len(d))
        ring = fmpz_mpoly_ctx.get([("x", len(generators))], Ordering.lex)
        rows = {tuple(powers.get(i, 0) for i in range(len(generators))): (c * scale).p for powers, c in spelt}
        _, found = ring.from_dict(rows).factor()
        if len(found) == 1 and found[0][1] == 1:
            return whole_sum
        named = list(generators)
        parts: list[tuple[Poly, int]] = []
        product: Poly = constant(1)
        for factor, e in found:
            part: Poly = {}
            for degrees, c in factor.to_dict().items():
                exponents: dict[int, Exponent] = {}
                for (a, unit), k in zip(named, degrees, strict=True):
                    if k:
                        exponents[a] = exponents.get(a, 0) + unit * k
                part = plus(part, self.reduced(exponents, fmpq(c)))
            lead = abs(part[max(part)])
            parts.append((scaled(part, 1 / lead), int(e)))
            for _ in range(int(e)):
                product = self.expanded(product, parts[-1][0])
        # The factors are what flint says; that their product is d, up to a number, is seen here.
        lead = max(d)
        if lead not in product:
            return whole_sum
        ratio = d[lead] / product[lead]
        return whole_sum if plus(d, product, -ratio) else (ratio, parts)

    # Powers ---------------------------------------------------------------------------------------------------------

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
        if n < 0 or _power_size(len(p), n) > LONGEST:
            return self.factor_power(p, n)
        result = p
        for _ in range(n - 1):
            before, result = result, self.expanded(result, p)
            self._made.setdefault(key(result), (before, p))
        return result

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
