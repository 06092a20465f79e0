"""`Comparing`: whether a polynomial over atoms is 0 wherever it has a value.

What is divided by is not 0 where both sides are defined, so denominators are cleared; then everything is expanded.
"""

from __future__ import annotations

import math

from flint import fmpq

from softwright.checker.composition.polynomials import UNIT, Poly, add_to, constant, key, plus, tidy, whole
from softwright.checker.composition.roots import Roots
from softwright.checker.refusal import require


class Comparing(Roots):
    """Zero or not."""

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
                add_to(result, self.expanded(powers[n], rest))
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
                add_to(result, self.expanded(self.long_power(square, e // 2), {tuple(sorted(rest.items())): c}))
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
