"""Linear interpolation at query times: `interp(q, t, y, spacing=h)`, for all sequences whose times are h apart.

Token j has the interval [a_j, b_j] = [t_(j-1), t_j] and the line c_j + S_j q through its two points; the first token
has [t_0 - h, t_0] and the constant y_0. Queries are clipped to [t_0, t_(n-1)]. The score is

    B (q - a_j) (b_j - q)  =  B (q (a_j + b_j) - a_j b_j)  and what token i has alone,

at least 0 inside an interval and -B x (x + b_j - a_j) at a distance x from it. One head writes the means of c_j and of
S_j under these weights, C and S, and the value is C + S q.

**Lemma.** Let f be the interpolant, with its first and last line going on, |S_j| <= s, and let scores be off by at most
delta. f and line j agree on interval j and have slopes of at most s, so |f(q) - c_j - S_j q| <= 2 s x_j, x_j the
distance of q from interval j. If q lies in interval k, its score is at least 0, and that of j lower by at least
x_j (x_j + h). If q lies beyond the last interval by x, then x_j >= x + b_k - a_k, and the score of j is lower by

    x_j (x_j + b_j - a_j) - x (x + b_k - a_k)  >=  x_j (x_j + h) - x x_j  >=  h x_j;

before the first it is the same. So token j weighs at most e^(2 delta - B h x_j) of token k, and the mean of 2 s x_j is
at most 2 s W0((n - 1) e^(2 delta - 1))/(B h), as for the order of real numbers.

Both columns are made with the same weights, whatever these are: that is why neither must be right by itself. By
definition slope(p) is what the column of S holds, and start(p) = p - slope(p) q; the column of C errs by what is
proved. If the run's query is off by e, f moves by at most s e and slope q by 2 s e.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction

from softwright.programs.columns import Form, Head, Part
from softwright.programs.heads import NotPossible
from softwright.programs.lemmas import PENALTY, order_error
from softwright.programs.terms import Pool, Term, shown
from softwright.programs.types import Refused, Type

_MOST = 2**50  # of B


@dataclass(frozen=True)
class Lines:
    """The terms that an interpolation is computed from."""

    query: Term  # clipped
    before: Term  # a_j
    product: Term  # a_j b_j
    steep: Term  # S_j
    level: Term  # c_j


def lines_of(pool: Pool, term: Term, times: Type, values: Type) -> Lines:
    """The terms of the lines of interp(q, t, y, h)."""
    asked, time, value, spacing = term.args
    place = pool.make("position")
    inside, back = pool.make("lt", pool.number(0), place), pool.make("sub", place, pool.number(1))
    last = pool.make("sub", pool.make("length"), pool.number(1))

    def earlier(of: Term, low: Fraction, other: Term) -> Term:
        return pool.make("where", inside, pool.make("at", of, back, pool.number(low)), other)

    before = earlier(time, times.low, pool.make("sub", time, spacing))
    beside = earlier(value, values.low, value)
    widest = max(times.high - times.low, spacing.value)
    step = pool.make("assume", pool.make("sub", time, before), spacing, pool.number(widest))
    steep = pool.make("mul", pool.make("sub", value, beside), pool.make("div", pool.number(1), step))
    level = pool.make("sub", value, pool.make("mul", steep, time))
    clipped = pool.make("max", asked, pool.make("at", time, pool.number(0)))
    clipped = pool.make("min", clipped, pool.make("at", time, last))
    return Lines(clipped, before, pool.make("mul", before, time), steep, level)


class Interpolation(Part):
    """The part of a compiler that interpolates."""

    _forms: dict[int, Form]

    @abstractmethod
    def allowed(self, term: Term) -> Fraction:
        """What a term's own heads may err by."""

    def lines(self, term: Term) -> Lines:
        return lines_of(self.pool, term, self.type(term.args[1]), self.type(term.args[2]))

    def interpolated(self, term: Term) -> Form:
        """start + slope q."""
        kind = self.type(term.args[2])
        if kind.low == kind.high:
            raise Refused(term, f"{shown(term.args[2])} is one number alone; write that number")
        parts = self.lines(term)
        most = 2 * self.type(parts.steep).largest
        slope = self.pool.make("slope", term, self.pool.number(most))
        far = self.type(term).largest + most * self.type(parts.query).largest
        start = self.pool.make("start", term, self.pool.number(far))
        self._lines(term, parts, slope, start)
        return self.value(start) + self.value(self.pool.make("mul", slope, parts.query))

    def _lines(self, term: Term, parts: Lines, slope: Term, start: Term) -> None:
        """The head, and its two columns."""
        board, arithmetic = self.board, self.board.arithmetic
        query, level, steep = self.value(parts.query), self.value(parts.level), self.value(parts.steep)
        time, before, product = (self.value(one) for one in (term.args[1], parts.before, parts.product))
        own = sum((abs(v) * board.columns[k].error for k, v in query.parts), Fraction(0))
        rounded = max(board.run_error(query) - own, Fraction(0))
        reach = board.size(query) + rounded
        spread = self.type(term.args[2]).high - self.type(term.args[2]).low
        most, spacing = spread / term.args[3].value, term.args[3].value
        allowed, best, sharpness = self.allowed(term), None, 1
        while sharpness <= _MOST:
            key, alone = (time + before) * sharpness, product * -sharpness
            delta = reach * board.run_error(key) + (board.size(key) + board.run_error(key)) * rounded
            size = reach * (board.size(key) + board.run_error(key)) + board.size(alone) + board.run_error(alone)
            delta += board.run_error(alone) + arithmetic.gamma(6) * size
            delta += arithmetic.weight_error(2 * size + PENALTY)
            off = 2 * most / spacing * order_error(board.longest, Fraction(sharpness), delta)
            if best is None or off < best[0]:
                best = off, key, alone
            elif off > 2 * best[0]:
                break
            if off <= allowed:
                break
            sharpness *= 2
        kinds = self.type(parts.level), self.type(parts.steep)
        errors = board.run_error(level), board.run_error(steep)
        if best is None or errors[1] + arithmetic.mean(kinds[1].largest, errors[1]) > kinds[1].largest:
            raise NotPossible("slopes between its points are not known well enough; use float64 or a larger spacing")
        off, key, alone = best
        moved = (most + self.type(slope).high) * own
        total = off + moved + arithmetic.mean(kinds[0].largest, errors[0]) + board.stray(level)
        total += reach * (arithmetic.mean(kinds[1].largest, errors[1]) + board.stray(steep))
        layer = board.layer_of(query, level, steep, key, alone) + 1
        columns = []
        for made, error in ((start, total), (slope, Fraction(0))):
            kind = self.type(made)
            column = board.column(
                shown(made), ["real", made.number], kind.low, kind.high, exact=False, layer=layer, error=error
            )
            self._forms[made.number] = Form.of(0, {column.number: Fraction(1)})
            columns.append((column.number, Fraction(1)))
        numbers = {"pairs": [(query, key)]}
        board.heads.append(Head("line", layer, columns, [level, steep], [], False, alone, numbers, shown(term)))
