"""`attend(v[j], s)` and `value(v[j], where=largest(s), margin=g)` for a score s of both tokens: one head each.

A score is a polynomial of what the tokens have, a sum of products of something of token i and something of token j:

    s_ij  =  sum_d q_d(i) k_d(j),

one dimension for every product of terms of token i, and one for what token j has alone. What token i has alone is the
same for all tokens that it looks at, changes no weight, and is left out. Products of one token's terms are columns.

**Lemma.** Let every score be off by at most delta: errors of q and k and the rounding of their products,

    delta = sum_d (|q_d| dk_d + |k_d| dq_d + dq_d dk_d) + gamma (sum_d |q_d| |k_d|) + what exp and rescalings do.

All weights then change by factors between e^-2delta and e^2delta relative to each other, and a mean of values in [a, b]
by at most (b - a) tanh(delta) <= 2 delta (b - a). If the largest of the scores B s leads by B g, the others weigh at
most (n - 1) e^(-B g + 2 delta).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from softwright.programs.columns import Board, Column, Form, Head
from softwright.programs.heads import NotPossible
from softwright.programs.lemmas import PENALTY, above, ball
from softwright.programs.reals.shapes import number_of
from softwright.programs.terms import Pool, Term, shown
from softwright.programs.types import Refused

Monomial = tuple[tuple[Term, ...], tuple[Term, ...]]  # factors of token i, and of token j
Ends = tuple[Fraction, Fraction]
MOST = 64  # monomials


def expanded(term: Term) -> dict[Monomial, Fraction]:
    """A term of both tokens as a sum of products; `Refused` if it is none."""
    number = number_of(term.args[0] if term.op in ("i", "j") else term)
    if number is not None:
        return {((), ()): number} if number else {}
    if term.op in ("i", "j"):
        own = (term.args[0],)
        return {(own, ()) if term.op == "i" else ((), own): Fraction(1)}
    if term.op in ("add", "sub"):
        return _sum(expanded(term.args[0]), expanded(term.args[1]), Fraction(1 if term.op == "add" else -1))
    if term.op == "neg":
        return _sum({}, expanded(term.args[0]), Fraction(-1))
    if term.op == "div" and (divisor := number_of(term.args[1])):
        return _sum({}, expanded(term.args[0]), 1 / divisor)
    if term.op == "mul":
        return _product(term, expanded(term.args[0]), expanded(term.args[1]))
    if term.op == "pow" and (power := number_of(term.args[1])) in range(1, 9):
        found = inner = expanded(term.args[0])
        for _ in range(int(power or 1) - 1):
            found = _product(term, found, inner)
        return found
    how = "use sums and products of what token i has and what token j has: -4*(x[j] - x[i])**2"
    raise Refused(term, f"{shown(term)} is no polynomial of both tokens; {how}")


def _sum(one: dict[Monomial, Fraction], other: dict[Monomial, Fraction], factor: Fraction) -> dict[Monomial, Fraction]:
    found = dict(one)
    for monomial, c in other.items():
        found[monomial] = found.get(monomial, Fraction(0)) + factor * c
    return {monomial: c for monomial, c in found.items() if c}


def _product(term: Term, one: dict[Monomial, Fraction], other: dict[Monomial, Fraction]) -> dict[Monomial, Fraction]:
    found: dict[Monomial, Fraction] = {}
    for (i, j), a in one.items():
        for (k, m), b in other.items():
            key = tuple(sorted((*i, *k), key=shown)), tuple(sorted((*j, *m), key=shown))
            found[key] = found.get(key, Fraction(0)) + a * b
    if len(found) > MOST:
        raise Refused(term, f"{shown(term)} has more than {MOST} products; split the score")
    return {monomial: c for monomial, c in found.items() if c}


def multiplied(pool: Pool, factors: tuple[Term, ...]) -> Term:
    """The product of terms, from the left."""
    found = factors[0]
    for factor in factors[1:]:
        found = pool.make("mul", found, factor)
    return found


class Attending:
    """Makes heads with scores of both tokens."""

    def __init__(self, board: Board, pool: Pool, value: Callable[[Term], Form]) -> None:
        self.board, self.pool, self.value = board, pool, value

    def dimensions(self, score: Term, scale: Fraction) -> tuple[list[tuple[Form, Form]], Form]:
        """(query, key) of every dimension, the scale in the keys; and the key of what token j has alone."""
        keys: dict[tuple[int, ...], tuple[tuple[Term, ...], Form]] = {}
        alone = Form()
        for (mine, other), factor in expanded(score).items():
            if not other:
                continue  # the same for all tokens j
            form = self.value(multiplied(self.pool, other)) * (factor * scale)
            if not mine:
                alone = alone + form
                continue
            name = tuple(term.number for term in mine)
            keys[name] = mine, keys.get(name, (mine, Form()))[1] + form
        found = [(self.value(multiplied(self.pool, mine)), form) for mine, form in keys.values()]
        return found, alone

    def score_error(self, dims: list[tuple[Form, Form]], alone: Form) -> Fraction:
        """How far scores are off in a run, weights' own errors included."""
        board = self.board
        off, size = board.run_error(alone), board.size(alone)
        for query, key in dims:
            sizes, errors = (board.size(query), board.size(key)), (board.run_error(query), board.run_error(key))
            off += sizes[0] * errors[1] + sizes[1] * errors[0] + errors[0] * errors[1]
            size += (sizes[0] + errors[0]) * (sizes[1] + errors[1])
        if not self._is_whole(dims, alone, size):
            off += board.arithmetic.gamma(len(dims) + 5) * size
        return off + board.arithmetic.weight_error(2 * size + PENALTY)

    def _is_whole(self, dims: list[tuple[Form, Form]], alone: Form, size: Fraction) -> bool:
        """Whether scores are sums of whole multiples of a unit that are never rounded."""
        board = self.board
        forms = [alone, *(form for pair in dims for form in pair)]
        if not all(board.is_exact(form) for form in forms):
            return False
        units = [max(c.denominator for c in (form.constant, *(v for _, v in form.parts))) for form in forms]
        most = max([units[0], *(a * b for a, b in zip(units[1::2], units[2::2], strict=True))])
        return size * most < 2 ** (board.precision.digits - 1)

    def attend(self, value: Form, score: Term, name: str, holds: list[Any], ends: Ends, causal: bool) -> Column:
        """The mean with weights exp(score), over all tokens or over those up to i."""
        board = self.board
        dims, alone = self.dimensions(score, Fraction(1))
        error, delta = board.run_error(value), self.score_error(dims, alone)
        total = board.arithmetic.mean(max(abs(ends[0]), abs(ends[1])), error) + board.stray(value)
        total += 2 * delta * (ends[1] - ends[0] + 2 * error)
        return self._head("attend", value, dims, alone, name, holds, ends, total, causal)

    def select(
        self, value: Form, score: Term, margin: Fraction, name: str, holds: list[Any], ends: Ends, tol: Fraction
    ) -> Column:
        """The value at the token whose score is largest by at least a margin."""
        board = self.board
        spread, error = ends[1] - ends[0], board.run_error(value)
        wanted = math.log(max(float(board.longest * (spread + 1) / tol), 2.0)) + 8
        sharpness = Fraction(2 ** math.ceil(math.log2(wanted / float(margin))))
        dims, alone = self.dimensions(score, sharpness)
        delta = self.score_error(dims, alone)
        lead = sharpness * margin - 2 * delta
        if lead <= 2:
            off = float(delta / sharpness)
            raise NotPossible(f"scores are known to {off:.2g} only; use float64 or a larger margin")
        leaks = (board.longest - 1) * above((-ball(lead)).exp())
        total = board.arithmetic.mean(max(abs(ends[0]), abs(ends[1])), error) + leaks * (spread + 2 * error)
        return self._head("select", value, dims, alone, name, holds, ends, total + board.stray(value))

    def _head(
        self,
        kind: str,
        value: Form,
        dims: list[tuple[Form, Form]],
        alone: Form,
        name: str,
        holds: list[Any],
        ends: Ends,
        error: Fraction,
        causal: bool = False,
    ) -> Column:
        board = self.board
        layer = board.layer_of(value, alone, *(form for pair in dims for form in pair)) + 1
        column = board.column(name, holds, *ends, exact=False, layer=layer, error=error)
        board.heads.append(
            Head(kind, layer, [(column.number, Fraction(1))], [value], [], causal, alone, {"pairs": dims}, name)
        )
        return column
