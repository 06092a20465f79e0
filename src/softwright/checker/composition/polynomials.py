"""Polynomials with rational coefficients, as dictionaries: monomials of atoms -> coefficients."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from flint import fmpq, fmpz

Exponent = int | Fraction
Monomial = tuple[tuple[int, Exponent], ...]  # (atom, exponent), by number of atom
Poly = dict[Monomial, fmpq]
UNIT: Monomial = ()
LONGEST = 300  # terms of a product that is expanded at once
MOST_WORK = 1_000_000  # products of terms in all
LONG_SEARCH, SHORT_SEARCH = 3_000, 100  # boxes to find a sign with
MOST_BITS = 20_000  # of a coefficient
FACTORED, DEGREE, GENERATORS = 300, 24, 40  # sums up to this size are factored
BOUNDED = ("prime", "abs", "step", "poly")  # kinds of atoms whose exponents are brought into bounds
SMALL_PRIMES = [p for p in range(2, 2000) if all(p % d for d in range(2, math.isqrt(p) + 1))]


@dataclass(frozen=True)
class Atom:
    """`node` is its meaning in the dag; `inner` what it is made of: D, or the monomial of exp(m)."""

    kind: str
    node: int
    inner: tuple[Poly, ...]
    constant: bool  # whether it holds no variable


def whole(e: Exponent) -> bool:
    return isinstance(e, int) or e.denominator == 1


def tidy(e: Exponent) -> Exponent:
    return int(e) if not isinstance(e, int) and e.denominator == 1 else e


def fraction(q: fmpq) -> Exponent:
    return tidy(Fraction(int(q.p), int(q.q)))


def key(p: Poly) -> frozenset[tuple[Monomial, fmpq]]:
    return frozenset(p.items())


def constant(c: fmpq | int) -> Poly:
    return {UNIT: fmpq(c)} if c != 0 else {}


def plus(p: Poly, q: Poly, factor: fmpq | int = 1) -> Poly:
    """p + factor q."""
    result = dict(p)
    for m, c in q.items():
        total = result.get(m, 0) + c * factor
        if total == 0:
            result.pop(m, None)
        else:
            result[m] = total
    return result


def scaled(p: Poly, factor: fmpq | int) -> Poly:
    return {m: c * factor for m, c in p.items()} if factor != 0 else {}


def _power_size(terms: int, n: int) -> int:
    """How many terms the n-th power of a sum has at most."""
    return math.comb(terms + n - 1, n) if n <= 64 else LONGEST + 1 if terms > 1 else 1


def prime_powers(n: int) -> list[tuple[int, int]]:
    """n > 0 as powers of primes; of a large n only the small primes are split off."""
    found = []
    for p in SMALL_PRIMES:
        k = 0
        while n % p == 0:
            n, k = n // p, k + 1
        if k:
            found.append((p, k))
        if n == 1:
            break
    if n > 1:
        found += [(int(p), int(k)) for p, k in fmpz(n).factor()] if n.bit_length() <= 64 else [(n, 1)]
    return found


def atoms_of(polys: Iterable[Poly]) -> set[int]:
    return {a for p in polys for m in p for a, _ in m}
