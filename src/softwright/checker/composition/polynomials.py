"""Polynomials over atoms as plain data: a dict from monomials to rational coefficients, and what needs no atoms.

A monomial is a tuple of (atom, exponent) by number of atom; exponents are integers or fractions, none of them 0.
"""

from __future__ import annotations

import math
from fractions import Fraction

from flint import fmpq, fmpz

Exponent = int | Fraction
Monomial = tuple[tuple[int, Exponent], ...]
Poly = dict[Monomial, fmpq]
Key = frozenset[tuple[Monomial, fmpq]]
UNIT: Monomial = ()
HALF = Fraction(1, 2)
MANY = 10**9
SMALL_PRIMES = [p for p in range(2, 2000) if all(p % d for d in range(2, math.isqrt(p) + 1))]


def whole(e: Exponent) -> bool:
    return isinstance(e, int) or e.denominator == 1


def tidy(e: Exponent) -> Exponent:
    return int(e) if not isinstance(e, int) and e.denominator == 1 else e


def fraction(q: fmpq) -> Exponent:
    return tidy(Fraction(int(q.p), int(q.q)))


def key(p: Poly) -> Key:
    return frozenset(p.items())


def constant(c: fmpq | int) -> Poly:
    return {UNIT: fmpq(c)} if c != 0 else {}


def plus(p: Poly, q: Poly, factor: fmpq | int = 1) -> Poly:
    """p + factor q."""
    result = dict(p)
    add_to(result, q, factor)
    return result


def add_to(result: Poly, q: Poly, factor: fmpq | int = 1) -> None:
    """factor q added in place."""
    for m, c in q.items():
        total = result.get(m, 0) + c * factor
        if total == 0:
            result.pop(m, None)
        else:
            result[m] = total


def scaled(p: Poly, factor: fmpq | int) -> Poly:
    return {m: c * factor for m, c in p.items()} if factor != 0 else {}


def affine(p: Poly) -> tuple[Key, fmpq, fmpq]:
    """(shape, a, b): p = a S + b, S without a constant and with first coefficient 1; the shape of a constant is empty.

    First is the largest by a fixed order, so that p and all a p + b have the same shape.
    """
    rest = p.get(UNIT, fmpq(0))
    lead = max((m for m in p if m != UNIT), default=None)
    if lead is None:
        return frozenset(), fmpq(1), rest
    factor = p[lead]
    return frozenset((m, c / factor) for m, c in p.items() if m != UNIT), factor, rest


def multiple(p: Poly, q: Poly) -> fmpq:
    """c if p = c q for a number c, else 0."""
    if not p or p.keys() != q.keys():
        return fmpq(0)
    c = next(iter(p.values())) / q[next(iter(p))]
    return c if all(p[m] == c * q[m] for m in p) else fmpq(0)


def power_size(terms: int, n: int) -> int:
    """How many terms the n-th power of a sum has at most."""
    return math.comb(terms + n - 1, n) if n <= 64 else MANY if terms > 1 else 1


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
