"""Gates of programs: a token that looks at itself and at the null token, so that what it writes is g sigma(s) z.

The token is found by the bits of its place, with a score of exactly 0; the null token has the score -s, so that neither
needs a sum that rounds. All other data tokens score at most -2 PENALTY. s and z are forms of the token itself.

**Rounding.** Between the scores of the null token, of others and of the token the running maximum changes at most
twice, and exp(0) = 1: three exponentials are charged, 1 + eta = (1 + e)^3 (1 + u)^3. The ratio of the two weights is
off by (1 + eta)/(1 - eta), the weight sigma(s) by theta = 2 eta (1 + eta)/(1 - eta)^2 (1 - sigma(s)) relatively; sums
of weights and values, the quotient, the factor g and the sum over H heads of a column round at most 12 + H times
(adding what is tiny errs by no more than that). Others leak at most n |g| |z| max(e^-2 PENALTY, floor).

**Product.** H heads with s_q = q k (u - c), factors g_q, and one that looks at itself alone with the factor c -
sum g_q / 2, write z u into one column: with h >= |u - c|, d = k h and the weights c_q of `compiler/gates.py`,

    |z (u - c) - sum_q g_q (sigma(s_q) - 1/2) z|  <=  |z| (h R_H(d) + sum_q |g_q - 4 c_q/(q k)| q d/4).

z and u are what the columns hold in the run; both differ from what they should be by at most their errors.
What the rounding of a score moves is at most |g_q| |z|/4 times it, and what values are rounded by is charged in every
head, for heads may add up in different orders.

**Exponential.** s = T - m, g near e^m: relative error e^(T - m) + |g e^-m - 1|, and e^delta - 1 for T off by delta.

**Maximum.** s = B d, z = d: below max(d, 0) by at most W(1/e)/B; max(., 0) has slope 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from softwright.compiler.gates import LAMBERT, ProductGate, exponential_gate, product_gate
from softwright.programs.columns import Board, Column, Form, Head
from softwright.programs.heads import NotPossible
from softwright.programs.lemmas import PENALTY, Arithmetic, above, ball
from softwright.programs.reals.functions import above as float_above
from softwright.programs.reals.functions import below as float_below
from softwright.programs.reals.roots import one_rounding, square_root

_MOST_HEADS = 4
_ONE = Fraction(1)
Ends = tuple[Fraction, Fraction]


def gate_error(arithmetic: Arithmetic, heads: int, least_weight: Fraction) -> Fraction:
    """Relative error of g w z for weights of at least this, in a column that so many heads write."""
    e, u = ball(arithmetic.eps), ball(arithmetic.u)
    eta = (1 + e) ** 3 * (1 + u) ** 3 - 1
    theta = 2 * eta * (1 + eta) / (1 - eta) ** 2 * (1 - ball(least_weight))
    return above((1 + theta) * (1 + u) ** (12 + heads) - 1)


def gate_leak(arithmetic: Arithmetic, factors: Fraction) -> Fraction:
    """What others and underflow add for each unit of value; `factors` is the sum of |g|."""
    return factors * (arithmetic.longest * arithmetic.leak(2 * PENALTY) + 16 * arithmetic.floor) + 16 * arithmetic.floor


@dataclass(frozen=True)
class Lost:
    """What the gates of a product err by for each unit of |z|, how often they read z, what leaks; and the factor of the
    head without a score."""

    relative: Fraction
    heavy: Fraction
    leaks: Fraction
    offset: Fraction

    def total(self, size: Fraction, rounded: Fraction) -> Fraction:
        return size * self.relative + self.heavy * rounded * 2 + self.leaks * (1 + size)


class Gates:
    """Makes gates on a board; `place` are the columns of the bits of a token's place."""

    def __init__(self, board: Board, place: list[int]) -> None:
        self.board, self.place = board, place

    def _where(self) -> list[list[Any]]:
        return [["equal", list(self.place), list(self.place)]]

    def _head(self, kind: str, column: Column, factor: Fraction, value: Form, score: Form | None, text: str) -> None:
        self.board.heads.append(
            Head(kind, column.layer, [(column.number, factor)], [value], self._where(), False, score, {}, text)
        )

    def _parts(self, form: Form) -> tuple[Fraction, Fraction]:
        """What a form is off by in the columns' own errors, and by weights and rounding."""
        own = sum((abs(v) * self.board.columns[k].error for k, v in form.parts), Fraction(0))
        return own, max(self.board.run_error(form) - own, Fraction(0))

    def product(
        self, z: Form, u: Form, size: Fraction, ends: Ends, values: Ends, holds: list[Any], name: str
    ) -> Column:
        """z u, |z| at most `size`, u from ends[0] to ends[1], z u between `values`."""
        board, arithmetic = self.board, self.board.arithmetic
        own_z, rounded_z = self._parts(z)
        own_u, rounded_u = self._parts(u)
        off_u = own_u + rounded_u
        low, high = ends[0] - off_u, ends[1] + off_u
        center = board.stored(_short((low + high) / 2, high - low))
        half = _above(max(high - center, center - low, Fraction(1, 2**200)))
        large = size + own_z + rounded_z
        best: tuple[Fraction, ProductGate, Lost] | None = None
        for heads in range(1, _MOST_HEADS + 1):
            for exponent in range(1, 12):
                if heads * 2.0**-exponent > 1.5:
                    continue
                gate = product_gate(board.precision, heads, exponent, float(center), float(half))
                lost = self._product_error(gate, u, center, arithmetic)
                error = lost.total(large, rounded_z)
                if best is None or error < best[0]:
                    best = error, gate, lost
        if best is None:
            raise AssertionError("there is always a gate of one head")
        error, gate, lost = best
        stray = board.stray(z, sum((abs(Fraction(g)) for g in gate.factors), abs(lost.offset)))
        error += stray
        through = size * own_u + max(abs(ends[0]), abs(ends[1])) * own_z + own_u * own_z
        layer = board.layer_of(z, u) + 1
        column = board.column(name, holds, *values, exact=False, layer=layer, error=error + through)
        if z == u and one_rounding(z):
            column.root = square_root(board, z, size, lost.relative, lost.heavy, lost.leaks + stray)
        for q, factor in enumerate(gate.factors, 1):
            score = (u - center) * (Fraction(gate.angle) * q / half)
            self._head("product", column, Fraction(factor), z, score, name)
        self._head("product", column, lost.offset, z, None, name)
        return column

    def _product_error(self, gate: ProductGate, u: Form, center: Fraction, arithmetic: Arithmetic) -> Lost:
        """Of a product against the product of what columns hold."""
        board, heads = self.board, gate.heads + 1
        factors = [Fraction(g) for g in gate.factors]
        exact = center - sum(factors, Fraction(0)) / 2
        offset = board.stored(exact)
        total = sum(map(abs, factors), Fraction(0))
        weight = above(1 / (1 + (-ball(Fraction(gate.angle) * gate.heads)).exp()))  # the largest sigma
        error = Fraction(gate.truncation) + abs(exact - offset)
        error += gate_error(arithmetic, heads, 1 - weight) * total * weight
        error += abs(offset) * (gate_error(arithmetic, heads, _ONE) + arithmetic.gamma(4))
        for q, g in enumerate(factors, 1):
            score = (u - center) * (Fraction(gate.angle) * q / Fraction(gate.halfwidth))
            error += abs(g) * self._parts(score)[1] / 4
        return Lost(error, total + abs(offset), gate_leak(arithmetic, total + abs(offset)), offset)

    def exponential(
        self, z: Form, power: Form, size: Fraction, ends: Ends, values: Ends, holds: list[Any], name: str
    ) -> Column:
        """z exp(T), |z| at most `size`, T from ends[0] to ends[1], z exp(T) between `values`."""
        board, arithmetic, precision = self.board, self.board.arithmetic, self.board.precision
        off = board.run_error(power)
        if off > 1:
            raise NotPossible(f"an exponent is known to {float(off):.2g} only; use float64 or smaller ranges")
        low, high = float_below(ends[0] - off), float_above(ends[1] + off)
        gate = exponential_gate(precision, low, high)
        if gate is None:
            raise NotPossible(f"an exponent spans [{low:.3g}, {high:.3g}], too much for {precision.name}")
        off_z = board.run_error(z)
        score = power - Fraction(gate.shift)
        delta = board.run_error(score)
        real = (ball(Fraction(high)) - ball(Fraction(gate.shift))).exp()
        real += abs(ball(Fraction(gate.factor)) / ball(Fraction(gate.shift)).exp() - 1)
        relative = (1 + real) * (1 + ball(gate_error(arithmetic, 1, Fraction(0)))) * ball(delta).exp() - 1
        grown = above(ball(ends[1]).exp())
        error = above(relative) * grown * (size + off_z) + grown * off_z
        error += gate_leak(arithmetic, Fraction(gate.factor)) * (1 + size + off_z) + board.stray(
            z, Fraction(gate.factor)
        )
        layer = board.layer_of(z, power) + 1
        column = board.column(name, holds, *values, exact=False, layer=layer, error=error)
        self._head("exponential", column, Fraction(gate.factor), z, score, name)
        return column

    def maximum(self, d: Form, ends: Ends, allowed: Fraction, holds: list[Any], name: str) -> Column:
        """max(d, 0), d from ends[0] to ends[1]; the gate may err by `allowed` beside what d does."""
        board, arithmetic = self.board, self.board.arithmetic
        slope = board.stored(Fraction(LAMBERT) / allowed)
        own, rounded = self._parts(d)
        score, size = d * slope, max(abs(ends[0]), abs(ends[1]))
        moved = 2 * self._parts(score)[1] / slope + rounded
        error = Fraction(LAMBERT) / slope + moved + own
        error += gate_error(arithmetic, 1, Fraction(0)) * (size + own + moved)
        error += gate_leak(arithmetic, _ONE) * (1 + size + own + rounded) + board.stray(d)
        values, layer = (max(ends[0], Fraction(0)), max(ends[1], Fraction(0))), board.layer_of(d) + 1
        column = board.column(name, holds, *values, exact=False, layer=layer, error=error)
        self._head("maximum", column, _ONE, d, score, name)
        return column


def _short(middle: Fraction, width: Fraction) -> Fraction:
    """A number of few binary digits near the middle."""
    if width <= 0:
        return middle
    step = Fraction(2) ** (math.floor(math.log2(float(width))) - 6)
    return round(middle / step) * step


def _above(half: Fraction) -> Fraction:
    """A number of few binary digits just above."""
    step = Fraction(2) ** (math.floor(math.log2(float(half))) - 6)
    return math.ceil(half / step) * step
