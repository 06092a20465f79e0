"""`Weighed`: heads whose weights are known functions of whole numbers: c(i) w(j), beside a null token.

With c and w not negative, of size at most P and Q, a = max(c/P, tau) and b = max(w/Q, tau) for a tiny tau, the token j
scores log b(j), the null token h - log a(i), and the head writes e^h P Q times the mean of values:

    e^h P Q  e^(log b - h + log a) v / Z  =  P Q a b v / Z,      0 <= Z - 1 <= n e^-h.

Both logarithms are columns of the embedding or of a table, the height is part of the latter, and no score is a sum that
rounds. Where c or w change their sign there is one such head for each sign that occurs.

**Lemma.** Let columns of scores be off by at most delta together, scores be at most s apart, and M be the mass, at
least the sum over j of |c w|. The column errs by at most

    M (V rho + err v) + 2 tau n P Q V + what shut-out tokens weigh,     V = |v| + err v,
    1 + rho = (w e^-h) (1 + eps)^2 (1 + gamma_{n+10}) e^(delta + 2 u s) (1 + 2 (n + 1) e^-h),     w = fl(e^h),

for |a b - (c/P)(w/Q)| <= 2 tau, and the null token comes first and is the largest, so that two exps are charged.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from typing import Any

from softwright.programs.columns import Form, Head, Part
from softwright.programs.lemmas import above, ball
from softwright.programs.linear import constant
from softwright.programs.reals.weighing import Weighing
from softwright.programs.terms import Term, shown
from softwright.programs.types import Type


class Weighed(Part):
    """The part of a compiler that makes columns of weighed sums."""

    weighing: Weighing
    _scores: dict[int, Form]

    @abstractmethod
    def _finite(self, term: Term) -> Form:
        """A function of whole numbers as one column."""

    @abstractmethod
    def _equality(self, mine: Term, other: Term) -> list[Any]:
        """a_j == b_i as a factor."""

    def weighed_type(self, term: Term) -> Type:
        """Its range, by its mass; at the token itself, by all its factors."""
        value, weight, factor, condition = term.args
        kind = self.type(value)
        if condition is self.weighing.itself():
            factors = self.weighing.values(factor).values()
            ends = [c * v for c in (min(factors), max(factors)) for v in (kind.low, kind.high)]
            return Type("real", min(ends), max(ends))
        mass = self.weighing.mass(term)
        if all(v >= 0 for one in (weight, factor) for v in self.weighing.values(one).values()):
            return Type("real", min(Fraction(0), mass * kind.low), max(Fraction(0), mass * kind.high))
        return Type("real", -mass * kind.largest, mass * kind.largest)

    def _score(self, term: Term) -> Form:
        if term.number not in self._scores:
            self._scores[term.number] = self._finite(term)
        return self._scores[term.number]

    def _signed(self, term: Term) -> list[tuple[int, Fraction]]:
        """The signs that a function of whole numbers takes, each with a power of two above its size."""
        values, found = self.weighing.values(term).values(), []
        for sign in (1, -1):
            most = max((sign * v for v in values), default=Fraction(0))
            if most > 0:
                found.append((sign, Fraction(2) ** (math.ceil(math.log2(float(most))) + 1) / 2))
        return [(sign, size if size >= max(sign * v for v in values) else 2 * size) for sign, size in found]

    def weighed(self, term: Term) -> Form:
        """A sum with known weights, as one column."""
        board, pool, arithmetic = self.board, self.pool, self.board.arithmetic
        value, weight, factor, condition = term.args
        itself = condition is self.weighing.itself()
        form, place = self.value(value), pool.make("position")
        where = [self._equality(place, place)] if itself else []
        count = 1 if itself else board.longest
        sizes = [max(self.weighing.values(one).values(), key=abs) for one in (factor, weight)]
        tau = arithmetic.tiny(self.weighing.mass(term) / (count * max(abs(sizes[0] * sizes[1]), Fraction(1, 10**30))))
        height, tiny = arithmetic.weighed_height(count), pool.number(tau)
        outer = board.stored(above(ball(height).exp()))

        def logarithm(one: Term, sign: int, size: Fraction) -> Term:
            scaled = pool.make("mul", pool.number(sign / size), one)
            return pool.make("map:log", pool.make("max", scaled, tiny))

        made: list[tuple[Form, Form, Fraction]] = []  # null token's score, that of token j, factor
        for side, size in [(1, Fraction(1))] if constant(factor) == 1 else self._signed(factor):
            null = Form(height)
            if constant(factor) != 1:
                null = self._score(pool.make("sub", pool.number(height), logarithm(factor, side, size)))
            for sign, more in [(1, Fraction(1))] if constant(weight) == 1 else self._signed(weight):
                key = Form() if constant(weight) == 1 else self._score(logarithm(weight, sign, more))
                made.append((null, key, side * sign * size * more))
        kind, own = self.type(term), board.run_error(form)
        size = self.type(value).largest + own
        clamped = sum((2 * tau * count * abs(scale) for _, _, scale in made), Fraction(0))
        mass = self.weighing.mass(term) + clamped
        error = clamped * size
        rho = Fraction(0)
        for null, key, scale in made:
            delta = board.run_error(null) + board.run_error(key)
            delta += 2 * arithmetic.u * (board.size(null) + board.size(key))
            here, lost = arithmetic.weighed(count, outer, height, delta)
            rho = max(rho, here)
            error += abs(scale) * lost * size + board.stray(form, outer * scale)
        error += mass * (size * rho + own)
        error += arithmetic.gamma(len(made) + 4) * (mass * size + error)
        layer = board.layer_of(form, *(one for null, key, _ in made for one in (null, key))) + 1
        layer = max(layer, *(board.columns[k].layer + 1 for f in where for side in f[1:] for k in side), 1)
        name = shown(term)
        column = board.column(name, ["real", term.number], kind.low, kind.high, exact=False, layer=layer, error=error)
        for null, key, scale in made:
            numbers = {"null": null}
            writes = [(column.number, outer * scale)]
            causal = not itself and condition.op != "number"
            board.heads.append(Head("weighed", layer, writes, [form], where, causal, key, numbers, name))
        return Form.of(0, {column.number: Fraction(1)})
