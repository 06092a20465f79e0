"""The irreducible factors of a sum over the integers: flint finds them, and their product is multiplied out here.

Atoms are the variables of the integer polynomial; a fractional power of an atom is a variable of its own.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from flint import Ordering, fmpq, fmpz, fmpz_mpoly_ctx

from softwright.checker.composition.polynomials import Exponent, Poly, constant, plus, scaled, tidy

if TYPE_CHECKING:
    from softwright.checker.composition.algebra import Algebra

FACTORED, DEGREE, GENERATORS, DIGITS = 300, 24, 40, 400  # terms, degree, atoms and bits of what is factored


def irreducible(self: Algebra, d: Poly) -> tuple[fmpq, list[tuple[Poly, int]]]:
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
    if int(scale).bit_length() > DIGITS or any(int(c.p).bit_length() > DIGITS for _, c in spelt):
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
                    exponents[a] = exponents.get(a, 0) + unit * int(k)
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
