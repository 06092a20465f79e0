"""Roots of sums of squares: how near to 0 a run of such a sum comes where the sum itself does.

sqrt has no slope at 0: an error e of u moves sqrt(u) by sqrt(e) there. A square is known better than that. A column
that should hold v >= 0 has a `Root` (eta, tau, off) if the run's number v^ and some w >= 0 of the run satisfy

    |v^ - w| <= eta sqrt(w) + tau,        |sqrt(w) - sqrt(v)| <= off.

**Squares.** The gates of z z read what their columns hold, z^, in values and scores alike: w = z^2 of the run. What
they err by is relative to |z^| (`gates.py`), but for leaks, provided that z^ itself is rounded relatively: a sum of at
most two columns with factors that are powers of two is rounded once. off is what the columns of z are off by.

**Sums.** For w = sum c_k w_k, c_k > 0: sum c_k eta_k sqrt(w_k) <= sqrt(sum c_k eta_k^2) sqrt(w), and by the triangle
inequality of norms |sqrt(w) - sqrt(v)| <= sqrt(sum c_k off_k^2). Rounding, relative to the sum, adds rho sqrt(sup w).

**Sums over tokens.** The same, with factors 1: of n tokens eta and off grow by sqrt(n) at most, tau by n.

**Means.** The mean of eta sqrt(w_j) is at most eta sqrt(mean w_j); off stays as it is. Rounding is relative.

**Roots.** From |u^ - w| <= E S + tau, S = sqrt(w): |sqrt(u^) - S| <= E + sqrt(tau) if u^ >= 0; else S <= E + sqrt(tau),
so max(u^, 0) and w are no farther apart, in roots, than 3/2 E + 2 sqrt(tau). sqrt(u) is farther by off at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from softwright.programs.columns import Board, Form
from softwright.programs.lemmas import above, ball


@dataclass(frozen=True)
class Root:
    """|v^ - w| <= eta sqrt(w) + tau and |sqrt(w) - sqrt(v)| <= off, w <= top."""

    eta: Fraction
    tau: Fraction
    off: Fraction
    top: Fraction

    def rounded(self, rho: Fraction, tiny: Fraction) -> Root:
        """After a relative error rho of the run's number, and an absolute one."""
        eta = self.eta + rho * (_sqrt(self.top) + self.eta)
        return Root(eta, self.tau * (1 + rho) + tiny, self.off, self.top)

    def apart(self) -> Fraction:
        """How far the root of what runs, at least 0, is from that of what should be."""
        return Fraction(3, 2) * self.eta + 2 * _sqrt(self.tau) + self.off


def _sqrt(x: Fraction) -> Fraction:
    return above(ball(x).sqrt()) if x > 0 else Fraction(0)


def one_rounding(form: Form) -> bool:
    """Whether a form is computed with at most one rounding: of two terms, factors powers of two."""
    numbers = [number for number in (form.constant, *(v for _, v in form.parts)) if number]
    return len(numbers) <= 2 and all(_is_power(number) for number in numbers)


def _is_power(number: Fraction) -> bool:
    top, bottom = abs(number.numerator), number.denominator
    return top & (top - 1) == 0 and bottom & (bottom - 1) == 0 and bottom < 2**200 and top < 2**200


def root_of(board: Board, form: Form) -> Root | None:
    """Of a combination of columns with roots and factors above 0."""
    if form.constant or not form.parts or not all(v > 0 for _, v in form.parts):
        return None
    parts = [(v, board.columns[k].root) for k, v in form.parts]
    eta = tau = off = top = rho = Fraction(0)
    for factor, root in parts:
        if root is None:
            return None
        eta, tau = eta + factor * root.eta**2, tau + factor * root.tau
        off, top = off + factor * root.off**2, top + factor * root.top
        rho = max(rho, abs(board.stored(factor) / factor - 1))
    found = Root(_sqrt(eta), tau, _sqrt(off), top)
    if len(parts) == 1 and _is_power(parts[0][0]):
        return found
    tiny = Fraction(board.precision.smallest) * 4 * (len(parts) + 1)
    return found.rounded(rho + board.arithmetic.gamma(len(parts) + 3) * (1 + rho), tiny)


def square_root(board: Board, form: Form, most: Fraction, relative: Fraction, heavy: Fraction, lost: Fraction) -> Root:
    """Of the square of a form of one rounding: gates err by `relative` |z^|, read it `heavy` times, and lose `lost`."""
    u = board.arithmetic.u
    off = sum((abs(v) * board.columns[k].error for k, v in form.parts), Fraction(0))
    eta = (relative + lost) * (1 + u) + 2 * heavy * u
    tiny = Fraction(board.precision.smallest) * 16 * (1 + heavy)
    return Root(eta, lost + tiny, off, (most + off) ** 2)


def mean_root(board: Board, value: Form, error: Fraction) -> Root | None:
    """Of a mean over tokens of equal weight; `error` is what others add and what is shut out leaves."""
    found = root_of(board, value)
    if found is None:
        return None
    return found.rounded(board.arithmetic.gamma(board.longest + 8), error)


def sum_root(board: Board, value: Form, count: int, rho: Fraction, error: Fraction) -> Root | None:
    """Of a sum over at most `count` tokens, each once, computed to a share rho of all and an error."""
    found = root_of(board, value)
    if found is None:
        return None
    many = _sqrt(Fraction(count))
    return Root(many * found.eta, count * found.tau, many * found.off, count * found.top).rounded(rho, error)
