"""Sums of one kernel over pairs of tokens, sum_j v_j F(Q(i, j)), by heads that are one exponential each.

Q is a polynomial of what both tokens have, so -b Q is a score: a sum of products of a form of token i and one of token
j, with what either has alone. A null token of value 0 at height m has nearly all of the weight, so that a head writes

    g sum_j v_j e^(s_ij - m) / Z,      s_ij = -|b| d(Q) <= 0,      Z - 1 <= 2 N e^-m,

and heads for all exponentials of F(Q) = sum_r c_r e^(-|b_r| d_r(Q)) (`exponentials.py`) add up to one column.

**Lemma.** Let scores of head r be off by at most delta_r (errors of columns, rounding of products, exp and rescaling),
values by e_v, |v| <= V, and let T tokens match. With c_r = g_r e^-m the column errs by at most

    T (eps V + (sup |F| + eps) e_v + sum_r |c_r| rho_r (V + e_v)) + rounding of the sum over heads + leaks,
    1 + rho_r = e^delta_r (1 + gamma_{n+10}) (1 + 2 N e^-m),

eps = sup |F - sum_r c_r e^(-|b_r| d_r)| over the range of Q. Conditions are those of sums: signed products of factors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from softwright.programs.columns import Board, Column, Form, Head
from softwright.programs.heads import NotPossible
from softwright.programs.lemmas import PENALTY, above, ball
from softwright.programs.pairs.exponentials import ExponentialSum, fit_sum, proved
from softwright.programs.reals.attending import Attending, expanded, multiplied
from softwright.programs.reals.functions import Node
from softwright.programs.terms import Pool, Term

Monomials = list[tuple[int, list[list[Any]], bool]]  # of a condition: sign, factors, causal
Ends = tuple[Fraction, Fraction]
_TOO_WIDE = 600  # of exponents


@dataclass(frozen=True)
class Score:
    """A polynomial of both tokens as dimensions: products, what token i has alone, what token j has alone."""

    pairs: tuple[tuple[Form, Form], ...]
    mine: Form
    alone: Form  # with the constant

    def scaled(self, by: Fraction, constant: Fraction) -> Score:
        pairs = tuple((query, key * by) for query, key in self.pairs)
        return Score(pairs, self.mine * by, self.alone * by + constant)

    @property
    def dimensions(self) -> list[tuple[Form, Form]]:
        own = [(self.mine, Form(Fraction(1)))] if self.mine.parts else []
        return [*self.pairs, *own]


class Kernels:
    """Makes the heads of kernels on a board."""

    def __init__(self, board: Board, pool: Pool, value: Callable[[Term], Form]) -> None:
        self.board, self.pool, self.value = board, pool, value
        self.attending = Attending(board, pool, value)

    def score(self, polynomial: Term) -> Score:
        pairs: dict[tuple[int, ...], tuple[tuple[Term, ...], Form]] = {}
        mine, alone = Form(), Form()
        for (own, other), factor in expanded(polynomial).items():
            if not own:
                alone = alone + (self.value(multiplied(self.pool, other)) * factor if other else factor)
            elif not other:
                mine = mine + self.value(multiplied(self.pool, own)) * factor
            else:
                name = tuple(term.number for term in own)
                key = self.value(multiplied(self.pool, other)) * factor
                pairs[name] = own, pairs.get(name, (own, Form()))[1] + key
        found = tuple((self.value(multiplied(self.pool, own)), key) for own, key in pairs.values())
        return Score(found, mine, alone)

    def column(
        self,
        function: Node,
        polynomial: Term,
        domain: Ends,
        size: Fraction,
        value: Form,
        monomials: Monomials,
        total: int,
        allowed: Fraction,
        name: str,
        holds: list[Any],
        ends: Ends,
        direct: bool,
    ) -> Column:
        """sum_j v_j F(Q) over a condition that matches at most `total` tokens; |F| <= size for Q in `domain`.

        `direct`: F is exp."""
        board, arithmetic = self.board, self.board.arithmetic
        score, most = self.score(polynomial), board.size(value) + board.run_error(value)
        if most == 0:
            raise NotPossible("all values are 0")
        off = self._off(score, monomials)
        unit = float(arithmetic.weight_error(arithmetic.height() + PENALTY) + arithmetic.gamma(board.longest + 60))
        wanted = float(allowed / (total * most))
        best: tuple[Fraction, ExponentialSum] | None = None
        for share in (1.0, 0.4, 0.1):
            found = self._sum(function, domain, direct, float(off), unit, share * wanted)
            if found is None:
                continue
            error = self._error(found, score, value, size, monomials, total)
            if best is None or error < best[0]:
                best = error, found
            if error <= allowed or direct:
                break
        if best is None:
            raise NotPossible(
                "no sum of exponentials is near its kernel; use float64, a smoother kernel or a larger tolerance"
            )
        error, found = best
        forms = [form for pair in score.dimensions for form in pair]
        used = [k for _, where, _ in monomials for factor in where for k in _columns_of(factor)]
        layer = max([board.layer_of(value, score.alone, *forms), *(board.columns[k].layer for k in used)]) + 1
        column = board.column(name, holds, *ends, exact=False, layer=layer, error=error)
        for sign, where, causal in monomials:
            for rate, factor in zip(found.rates, self._outer(found), strict=True):
                own = self._scaled(found, score, rate)
                numbers = {"pairs": own.dimensions, "height": arithmetic.height(), "exact": found.exact}
                writes = [(column.number, sign * factor)]
                board.heads.append(Head("kernel", layer, writes, [value], where, causal, own.alone, numbers, name))
        return column

    def _off(self, score: Score, monomials: Monomials) -> Fraction:
        """How far Q is off in a run, for each unit of a rate."""
        return self._score_error(score, monomials) - self.board.arithmetic.weight_error(Fraction(0))

    def _score_error(self, score: Score, monomials: Monomials) -> Fraction:
        board, dims = self.board, score.dimensions
        off, size = board.run_error(score.alone), board.size(score.alone)
        for query, key in dims:
            sizes, errors = (board.size(query), board.size(key)), (board.run_error(query), board.run_error(key))
            off += sizes[0] * errors[1] + sizes[1] * errors[0] + errors[0] * errors[1]
            size += (sizes[0] + errors[0]) * (sizes[1] + errors[1])
        factors = max(sum(len(f[1]) + 1 if f[0] == "equal" else 2 for f in where) for _, where, _ in monomials)
        whole = PENALTY * (2 * factors + 2) if factors else 0
        off += board.arithmetic.gamma(len(dims) + factors + 6) * (size + whole)
        return off + board.arithmetic.weight_error(2 * size + board.arithmetic.height() + PENALTY)

    def _sum(
        self, function: Node, domain: Ends, direct: bool, off: float, unit: float, wanted: float
    ) -> ExponentialSum | None:
        """An exponential sum with the factors that heads have, proved."""
        low, high = domain
        if direct:
            if max(abs(low), abs(high)) > _TOO_WIDE:
                raise NotPossible("an exponent is too large")
            top = above(ball(high).exp())
            found: ExponentialSum | None = ExponentialSum(low, high, (-1.0,), (float(top),), float(top) * 2.0**-50)
        else:
            found = fit_sum(function, low, high, off, unit, wanted)
        if found is None:
            return None
        down = (-ball(self.board.arithmetic.height())).exp()
        found = replace(found, factors=tuple(float((ball(g) * down).mid()) for g in self._outer(found)))
        return proved(function, found, wanted)

    def _outer(self, found: ExponentialSum) -> list[Fraction]:
        """The factors of heads: c e^m, as stored."""
        up = ball(self.board.arithmetic.height()).exp()
        return [self.board.stored(Fraction(float((ball(Fraction(c)) * up).mid()))) for c in found.factors]

    def _scaled(self, found: ExponentialSum, score: Score, rate: float) -> Score:
        b = Fraction(rate)
        return score.scaled(-b, b * (found.low if rate >= 0 else found.high))

    def _error(
        self, found: ExponentialSum, score: Score, value: Form, size: Fraction, monomials: Monomials, total: int
    ) -> Fraction:
        """The lemma."""
        board, arithmetic = self.board, self.board.arithmetic
        most, own, height = board.size(value), board.run_error(value), arithmetic.height()
        small = (-ball(height)).exp()
        exact, heads = Fraction(found.exact), len(found.rates) * len(monomials)
        shaken = lost = weight = Fraction(0)
        for rate, factor, outer in zip(found.rates, found.factors, self._outer(found), strict=True):
            delta = self._score_error(self._scaled(found, score, rate), monomials)
            if delta > 30:
                return Fraction(10) ** 300
            up = ball(delta).exp() * (1 + ball(arithmetic.gamma(board.longest + 10)))
            up = up * (1 + 2 * arithmetic.tokens * small * ball(delta).exp()) * abs(ball(outer) * small / ball(factor))
            shaken += abs(Fraction(factor)) * above(up - 1)
            weight += abs(Fraction(factor)) * above(up)
            leaks = arithmetic.leak(height) * arithmetic.leak(2 * PENALTY) * above(ball(delta).exp())
            lost += abs(outer) * (
                arithmetic.tokens * (leaks + 4 * arithmetic.floor) * (most + own) + board.stray(value)
            )
        error = total * (exact * most + (size + exact) * own + shaken * (most + own)) + len(monomials) * lost
        return error + arithmetic.gamma(heads + 4) * (total * weight * (most + own) + error)


def _columns_of(factor: list[Any]) -> list[int]:
    return [*factor[1], *factor[2]] if factor[0] == "equal" else [factor[2]]


def size_of(ends: Ends) -> Fraction:
    return max(abs(ends[0]), abs(ends[1]))


def is_direct(kernel: Term, leaf: Term) -> bool:
    """Whether a kernel is exp of its polynomial: one head."""
    return kernel.op == "map:exp" and kernel.args[0] is leaf
