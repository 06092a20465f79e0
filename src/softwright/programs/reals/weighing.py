"""`Weighing`: reals times functions of whole numbers, and sums of such, as sums with known weights.

    weighed(v, w, c, condition)  =  sum over tokens j that meet the condition of c(i) w(j) v(j)

with c and w functions of whole numbers: places, lengths, fields, counts. The condition is that of all tokens, of those
up to i, or of the token itself; w is 1 there. What is multiplied and summed is one step, so that an error of a mean
that is large for few tokens never meets a factor that is large for many: 12/(n^2 - 1) mean(j x_j) is two heads whose
weights sum to 6/(n + 1), though the mean alone grows with n and its factor falls.

    c R, c R / d                  weighed(R, 1, c/d, itself); distributed over R's summands if one of them is weighed
    c sum(u for all, or j <= i)   u multiplied out: factors of n go to c, other whole numbers to w, the rest is v
    mean(u), mean(u for j <= i)   the same with c / n and c / (i + 1)

`mass` bounds the sum of |c w|: the error of a head is in proportion to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod

from softwright.programs.finite import Undefined, leaves_of, value_at
from softwright.programs.linear import constant, summands
from softwright.programs.pairs.products import is_pair, parts_of_sum
from softwright.programs.places import by_place, is_causal
from softwright.programs.terms import Pool, Term
from softwright.programs.types import Type

WIDEST = 2048  # values of whole numbers that one factor may be of
MOST = 16  # products that a value is multiplied out to
_ONE = Fraction(1)
_GRID = 2**120
Parts = list[tuple[Fraction, Term]]


@dataclass(frozen=True)
class Monomial:
    """scalar times functions of whole numbers, over others, times reals."""

    scalar: Fraction
    up: tuple[Term, ...] = ()
    down: tuple[Term, ...] = ()
    rest: tuple[Term, ...] = ()

    def __mul__(self, other: Monomial) -> Monomial:
        return Monomial(self.scalar * other.scalar, self.up + other.up, self.down + other.down, self.rest + other.rest)

    @property
    def known(self) -> bool:
        return bool(self.up or self.down)


class Weighing:
    """Rewrites the terms of one pool."""

    def __init__(
        self, pool: Pool, type_of: Callable[[Term], Type], lengths: tuple[int, int], symbols: tuple[str, ...]
    ) -> None:
        self.pool, self.type, self.lengths, self.symbols = pool, type_of, lengths, symbols
        self._known: dict[int, Parts | None] = {}
        self._closed: dict[int, Term] = {}
        self._masses: dict[int, Fraction] = {}

    def parts(self, term: Term) -> Parts | None:
        """A term of reals as (factor, term), weighed terms among them; None if nothing in it is weighed."""
        if term.number not in self._known:
            self._known[term.number] = self._parts(term)
        return self._known[term.number]

    def _parts(self, term: Term) -> Parts | None:
        asked, term = term, self.closed(term)
        if term is not asked and self._finite(term):
            return [(_ONE, term)]
        if term.op in ("mul", "div") and not self._finite(term):
            own = self._split(term)
            if not own.known or not own.rest:
                return None
            return _scaled(self._spread(own.up, own.down, self._product(own.rest)), own.scalar)
        if self._is_open(term):
            found = self._aggregate((), (), term)
            return None if found == [(_ONE, term)] else found
        return None

    def closed(self, term: Term) -> Term:
        """The same with sums and means that the length or the place alone decides written out as tables."""
        found = self._closed.get(term.number)
        if found is None:
            found = self._closed[term.number] = self._close(term)
        return found

    def _close(self, term: Term) -> Term:
        pool, (shortest, longest) = self.pool, self.lengths
        if term.op in ("length", "position", "number"):
            return term
        known = by_place(term, longest)
        if known is not None:
            first = shortest if known[0] == "length" else 0
            index = pool.make(known[0])
            index = pool.make("sub", index, pool.number(first)) if first else index
            values = [pool.number(v) for v in known[1][first : longest + (known[0] == "length")]]
            return pool.make("table", index, values[0], *values)
        if term.op in ("sum", "mean") and term.args[0].op == "j":
            return pool.make(term.op, pool.make("j", self.closed(term.args[0].args[0])), term.args[1])
        if not term.plain:
            return term
        return pool.make(term.op, *(self.closed(arg) for arg in term.args), value=term.value)

    # --------------------------------------------------------------------------------------------------- factors

    def _finite(self, term: Term) -> bool:
        """Whether a term is a function of whole numbers that one table takes; truth values are left to gates."""
        return self._whole(term) and self._small([term])

    def _whole(self, term: Term) -> bool:
        kind = self.type(term)
        if constant(term) is not None or (kind.whole and kind.size <= 2) or kind.kind == "symbol":
            return False
        return all(self.type(leaf).whole for leaf in (leaves_of(term) if term.plain else [term]))

    def _leaves(self, terms: Iterable[Term]) -> list[Term]:
        found = {leaf.number: leaf for term in terms for leaf in (leaves_of(term) if term.plain else [term])}
        return [found[number] for number in sorted(found)]

    def _small(self, terms: Iterable[Term]) -> bool:
        """Whether functions of whole numbers are one table, or part of the embedding."""
        leaves = self._leaves(terms)
        if len(leaves) <= 1 and all(leaf.op in ("field", "position") for leaf in leaves):
            return True
        return prod(self.type(leaf).size for leaf in leaves) <= WIDEST

    def _split(self, term: Term) -> Monomial:
        """A product as it stands: factors that are functions of whole numbers, and the others."""
        number = constant(term)
        if number is not None:
            return Monomial(number)
        if self._finite(term):
            return Monomial(_ONE, (term,))
        if term.op == "neg":
            return Monomial(-_ONE) * self._split(term.args[0])
        if term.op == "mul":
            return self._split(term.args[0]) * self._split(term.args[1])
        if term.op == "div":
            above, below = self._split(term.args[0]), term.args[1]
            number = constant(below)
            if number:
                return Monomial(1 / number) * above
            if self._finite(below):
                return above * Monomial(_ONE, (), (below,))
            return above * Monomial(_ONE, (), (), (self.pool.make("div", self.pool.number(1), below),))
        return Monomial(_ONE, (), (), (term,))

    def _product(self, factors: tuple[Term, ...]) -> Term:
        found = factors[0] if factors else self.pool.number(1)
        for factor in factors[1:]:
            found = self.pool.make("mul", found, factor)
        return found

    def _quotient(self, up: tuple[Term, ...], down: tuple[Term, ...]) -> Term:
        above = self._product(up)
        return self.pool.make("div", above, self._product(down)) if down else above

    # -------------------------------------------------------------------------------------------------- rewriting

    def _is_open(self, term: Term) -> bool:
        """Whether a term is a sum or mean of reals of token j, over all tokens or those up to i."""
        if term.op not in ("sum", "mean") or term.args[0].op != "j" or self.type(term.args[0].args[0]).whole:
            return False
        return term.args[1].op == "number" or is_causal(term.args[1])

    def itself(self) -> Term:
        """j == i"""
        place = self.pool.make("position")
        return self.pool.make("eq", self.pool.make("j", place), self.pool.make("i", place))

    def _heavy(self, term: Term) -> bool:
        """Whether a summand is better weighed together with the factors around it."""
        own = self._split(term)
        if own.known and own.rest:
            return True
        if not self._is_open(term):
            return False
        return term.op == "sum" or any(one.known for one in self._monomials(term.args[0].args[0]))

    def _spread(self, up: tuple[Term, ...], down: tuple[Term, ...], real: Term) -> Parts:
        if self._is_open(real):
            return self._aggregate(up, down, real)
        if is_pair(real):
            pieces = parts_of_sum(self.pool, real)
            alone = pieces == [(_ONE, real)]
        else:
            pieces = summands(real)
            alone = len(pieces) == 1 or not any(self._heavy(part) for _, part in pieces)
        if alone:
            return [(_ONE, self._nested(real, self._groups(up, down)))]
        found: Parts = []
        for factor, part in pieces:
            own = self._split(part)
            above, below = up + own.up, down + own.down
            if own.rest:
                found += _scaled(self._spread(above, below, self._product(own.rest)), factor * own.scalar)
            else:
                found.append((factor * own.scalar, self._quotient(above, below)))
        return found

    def _aggregate(self, up: tuple[Term, ...], down: tuple[Term, ...], term: Term) -> Parts:
        value, condition = term.args[0].args[0], term.args[1]
        products = self._monomials(value)
        if not any(one.known for one in products):
            products = [Monomial(_ONE, (), (), (value,))]
            if not up and not down:
                return [(_ONE, term)]
        count: tuple[Term, ...] = ()
        if term.op == "mean":
            place = self.pool.make("add", self.pool.make("position"), self.pool.number(1))
            count = (self.pool.make("length") if condition.op == "number" else place,)
        found: Parts = []
        for one in products:
            inner = self._product(one.rest)
            outer = [tuple(f for f in side if self._is_pooled(f)) for side in (one.up, one.down)]
            own = [tuple(f for f in side if not self._is_pooled(f)) for side in (one.up, one.down)]
            above, below = up + outer[0], down + outer[1]
            if not (own[0] or own[1] or above or below):
                plain = self.pool.make("j", inner) if constant(inner) is None else inner
                found.append((one.scalar, self.pool.make(term.op, plain, condition)))
                continue
            weights = self._groups(own[0], own[1])
            inner = self._nested(inner, weights[1:])
            groups = self._groups(above, count + below)
            first = self._quotient(*groups[0]) if groups else self.pool.number(1)
            weight = self._quotient(*weights[0]) if weights else self.pool.number(1)
            made = self.pool.make("weighed", inner, weight, first, condition)
            found.append((one.scalar, self._nested(made, groups[1:])))
        return found

    def _is_pooled(self, term: Term) -> bool:
        return all(leaf.op == "length" for leaf in self._leaves([term]))

    def _groups(self, up: tuple[Term, ...], down: tuple[Term, ...]) -> list[tuple[tuple[Term, ...], tuple[Term, ...]]]:
        """Factors that are one table together, divisors first."""
        found: list[tuple[tuple[Term, ...], tuple[Term, ...]]] = []
        for factor, above in [*((one, False) for one in down), *((one, True) for one in up)]:
            last = found[-1] if found else ((), ())
            grown = (last[0] + (factor,), last[1]) if above else (last[0], last[1] + (factor,))
            if found and self._small(grown[0] + grown[1]):
                found[-1] = grown
            else:
                found.append(((factor,), ()) if above else ((), (factor,)))
        return found

    def _nested(self, term: Term, groups: list[tuple[tuple[Term, ...], tuple[Term, ...]]]) -> Term:
        for up, down in groups:
            term = self.pool.make("weighed", term, self.pool.number(1), self._quotient(up, down), self.itself())
        return term

    def _monomials(self, value: Term) -> list[Monomial]:
        """A value multiplied out as far as functions of several whole numbers ask for it."""
        found = self._expanded(value, True)
        return [Monomial(_ONE, (), (), (value,))] if found is None else found

    def _expanded(self, term: Term, top: bool) -> list[Monomial] | None:
        number = constant(term)
        if number is not None:
            return [Monomial(number)]
        finite = self._finite(term)
        if finite and len(self._leaves([term])) <= 1:
            return [Monomial(_ONE, (term,))]
        if term.op in ("add", "sub") and (top or self._whole(term)):
            one, other = (self._expanded(arg, top) for arg in term.args)
            if one is None or other is None:
                return None
            sign = Monomial(_ONE if term.op == "add" else -_ONE)
            return _limited([*one, *(sign * part for part in other)])
        if term.op == "neg":
            inner = self._expanded(term.args[0], top)
            return None if inner is None else [Monomial(-_ONE) * part for part in inner]
        if term.op == "mul":
            one, other = (self._expanded(arg, False) for arg in term.args)
            return None if one is None or other is None else _limited([a * b for a in one for b in other])
        if term.op == "div":
            number, inner = constant(term.args[1]), self._expanded(term.args[0], False)
            below = Monomial(1 / number) if number else Monomial(_ONE, (), (term.args[1],))
            if number or self._finite(term.args[1]):
                return None if inner is None else [part * below for part in inner]
        return [Monomial(_ONE, (term,))] if finite else [Monomial(_ONE, (), (), (term,))]

    # ------------------------------------------------------------------------------------------------------ sizes

    def values(self, term: Term) -> dict[tuple[int, ...], Fraction]:
        """A function of whole numbers at all values of its leaves, in their order; no place is beyond the length."""
        leaves = self._leaves([term])
        names = [leaf.op for leaf in leaves]
        both = (names.index("position"), names.index("length")) if {"position", "length"} <= set(names) else None
        kinds = [self.type(leaf) for leaf in leaves]
        found: dict[tuple[int, ...], Fraction] = {}
        for chosen in product(*(range(int(kind.low), int(kind.high) + 1) for kind in kinds)):
            if both and chosen[both[0]] >= chosen[both[1]]:
                continue
            given = {leaf.number: Fraction(k) for leaf, k in zip(leaves, chosen, strict=True)}
            try:
                found[chosen] = value_at(term, given, self.symbols)
            except (Undefined, ZeroDivisionError):  # numbers that never stand together
                found[chosen] = Fraction(0)
        return found

    def mass(self, term: Term) -> Fraction:
        """At least the sum over j of |c w|, at every token of every sequence."""
        if term.number not in self._masses:
            self._masses[term.number] = self._mass(term)
        return self._masses[term.number]

    def _mass(self, term: Term) -> Fraction:
        _, weight, factor, condition = term.args
        c, w = ({k: _up(abs(v)) for k, v in self.values(one).items()} for one in (factor, weight))
        if condition is self.itself():
            return max(c.values()) * max(w.values())
        longest = self.lengths[1]
        most, causal = max(w.values()), condition.op != "number"
        by_place = [leaf.op for leaf in self._leaves([weight])] == ["position"]
        upto = [Fraction(0)]
        for j in range(longest):
            upto.append(upto[-1] + (w[(j,)] if by_place else most))
        names = [leaf.op for leaf in self._leaves([factor])]
        if not names or not set(names) <= {"length", "position"}:
            return max(c.values()) * upto[longest]
        found = Fraction(0)
        for chosen, size in c.items():
            given = dict(zip(names, chosen, strict=True))
            n, i = given.get("length", longest), given.get("position", given.get("length", longest) - 1)
            found = max(found, size * upto[i + 1 if causal else n])
        return found


def _limited(found: list[Monomial]) -> list[Monomial] | None:
    return found if len(found) <= MOST else None


def _scaled(parts: Parts, factor: Fraction) -> Parts:
    return [(factor * own, term) for own, term in parts]


def _up(value: Fraction) -> Fraction:
    """A little more, of few digits."""
    return Fraction(math.ceil(value * _GRID) + 1, _GRID)
