"""Order statistics of real numbers, for all sequences: ties, near ties, anything. One head.

    f_p(t) = sum_k |t - x_k| - (2 p - n + 1) t

is convex, and x_(p), the p-th smallest from 0 on, is its sharp minimum: to its right at least p + 1 of the x_k lie at
or below t and at most n - p - 1 above, so f_p has a slope of at least p + 1 - (n - p - 1) - (2 p - n + 1) = 1 there; to
its left at most p lie below and at least n - p at or above, so its slope is at most -1. Hence

    f_p(t) >= f_p(x_(p)) + |t - x_(p)|     for all t.

With A_j = sum_k |x_j - x_k|, a sum over pairs, the score -B f_p(x_j) = B ((2 p - n + 1) x_j - A_j) is a product of a
whole number of token i and a form of token j, and what token j has alone. A token at a distance D from x_(p) weighs at
most e^(-B D) relative to the tokens that are x_(p).

**Lemma.** If scores are off by at most delta, the mean of x is so by at most W0((n - 1) e^(2 delta - 1))/B. It deviates
by at most h = sum D_j y_j / (1 + sum y_j) with y_j <= e^(2 delta - B D_j). Tokens with D_j < h only help, so take all
others at their largest weight; h is then largest where 1 - B D_j + B h = 0 for each, that is at equal D_j.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from softwright.programs.columns import Board, Column, Form, Head
from softwright.programs.heads import NotPossible
from softwright.programs.lemmas import order_error
from softwright.programs.pairs.products import distances
from softwright.programs.reals.attending import Attending
from softwright.programs.terms import Pool, Term

_MOST = 2**40  # of B


class Order:
    """Makes the head on a board."""

    def __init__(self, board: Board, pool: Pool, value: Callable[[Term], Form]) -> None:
        self.board, self.value = board, value
        self.attending = Attending(board, pool, value)
        self.place, self.length = pool.make("position"), pool.make("length")
        self.pool = pool

    def column(
        self, term: Term, allowed: Fraction, name: str, holds: list[Any], ends: tuple[Fraction, Fraction]
    ) -> Column:
        """sorted(x)[i]; the head may err by `allowed` beside what its scores are off by."""
        board, inner = self.board, term.args[0]
        value, away = self.value(inner), self.value(distances(self.pool, inner))
        rank = self.value(self.place) * 2 - self.value(self.length) + 1
        sharpness = 1
        best: tuple[Fraction, int, Any] | None = None
        while sharpness <= _MOST:
            dims, alone = [(rank * sharpness, value)], away * -sharpness
            off = order_error(board.longest, Fraction(sharpness), self.attending.score_error(dims, alone))
            if best is None or off < best[0]:
                best = off, sharpness, (dims, alone)
            elif off > 2 * best[0]:
                break
            if off <= allowed:
                break
            sharpness *= 2
        if best is None or best[0] >= 2 * (ends[1] - ends[0]) + 1:
            raise NotPossible("real numbers are not known well enough to be put in order; use float64")
        off, sharpness, (dims, alone) = best
        error = board.run_error(value)
        total = off + board.arithmetic.mean(max(abs(ends[0]), abs(ends[1])), error) + board.stray(value)
        layer = board.layer_of(value, alone, *(form for pair in dims for form in pair)) + 1
        column = board.column(name, holds, *ends, exact=False, layer=layer, error=total)
        writes = [(column.number, Fraction(1))]
        board.heads.append(Head("order", layer, writes, [value], [], False, alone, {"pairs": dims}, name))
        return column
