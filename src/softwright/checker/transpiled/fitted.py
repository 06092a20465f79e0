"""Fitted tokens: sup over all real s of |g(s) - phi(s)|, for the tokens as they are stored, phi without a jump.

    g(s) = sum_j w_j (v_j s + u_j),   w = softmax(k_j s + b_j)

*Beyond +-L.* The token e with the largest key (at -L the smallest) has phi's asymptote s (or 0) as its value, and
w_j <= e^{(k_j - k_e) s + b_j - b_e}, so

    |g(s) - phi(s)| <= sum_{j != e} e^{(k_j - k_e) s + b_j - b_e} (|v_j - v_e| |s| + |u_j - u_e|) + |phi(s) - asymptote|

Each term falls in |s| once |k_j - k_e| L >= 1, which is demanded, and so does the last from `settled` on: the value at
L bounds all that is beyond.

*Within.* [-L, L] is cut into cells, fine enough for what follows. On each g - phi is a Taylor polynomial in balls
about the cell's middle, whose last coefficient is taken over the whole cell (Lagrange), which is halved until that is
small. Its range is the sum of
|coefficients| of the polynomial shifted to the middles of pieces, which are halved where that sum is not yet within a
ten-thousandth of the largest value seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_poly, arb_series, ctx, fmpq

from softwright.checker.limits import check_time
from softwright.checker.refusal import NotProvedError, require
from softwright.checker.transpiled.activations import Smooth

TERMS = 24  # of a Taylor polynomial
CELL = fmpq(1, 8)  # half a cell, divided by the rate
SMALL, NARROWEST = 1e-6, 10  # what a polynomial may leave out, of the error; a cell is halved until that is so
REACHES = (6, 8, 10, 12, 16, 24, 32, 48, 64)  # L, divided by the rate
NEAR = 1.0001  # the bound is at most so many times the largest error, where cells are small enough
DEEPEST = 16  # halvings of a cell
BITS = 160  # of the balls: errors of 1e-13 are differences of numbers near 1, of degree 24


Series = Callable[[Any], Any]


@dataclass(frozen=True)
class Tokens:
    """The stored numbers as they are, and the function that they are to be near to."""

    table: np.ndarray  # (4, p)
    phi: Series
    k: list[arb]
    b: list[arb]
    v: list[arb]
    u: list[arb]

    @classmethod
    def of(cls, table: np.ndarray, phi: Series) -> Tokens:
        return cls(table, phi, *([arb(float(x)) for x in row] for row in table))

    def taylor(self, at: arb, over: arb, terms: int) -> list[arb]:
        """The first Taylor coefficients of g - phi, over a ball; the leading token is that at `at`."""
        place = float(at.mid())
        leader = int((self.table[0] * place + self.table[1]).argmax())
        ctx.cap = terms
        s = arb_series([over, 1], prec=terms)
        difference = self.mean(s, leader) - self.phi(s)
        ctx.cap = TERMS + 1
        return [arb(difference[i]) for i in range(terms)]

    def error_at(self, place: float) -> float:
        """What |g - phi| is at least at one place."""
        return float(abs(self.taylor(arb(place), arb(place), 1)[0]).lower())

    def mean(self, s: arb_series, leader: int) -> Any:
        """g, a series; relative to the token that leads there, so that no exponential is large."""
        top, bottom = arb_series([0]), arb_series([0])
        for k, b, v, u in zip(self.k, self.b, self.v, self.u, strict=True):
            weight = ((k - self.k[leader]) * s + (b - self.b[leader])).exp()
            top, bottom = top + weight * (v * s + u), bottom + weight
        return top / bottom


def largest_error(table: np.ndarray, smooth: Smooth) -> float:
    """An upper bound of |g - phi| on the whole line; `table` (4, p) holds k, b, v, u."""
    before = ctx.prec, ctx.cap
    try:
        ctx.prec, ctx.cap = BITS, TERMS + 1
        return _largest_error(table, smooth)
    finally:
        ctx.prec, ctx.cap = before


def _largest_error(table: np.ndarray, smooth: Smooth) -> float:
    tokens = Tokens.of(table, smooth.series)
    rate = fmpq(*smooth.rate.as_integer_ratio())
    places = [float(CELL / rate) * i for i in range(-8 * REACHES[0], 8 * REACHES[0] + 1, 4)]
    seen = max(tokens.error_at(place) for place in places)
    end, tail = _reach(table, smooth, rate, seen)
    step = CELL / rate
    inside = largest_within(tokens, [(-end + step * (2 * i + 1), step) for i in range(int(end / step))], seen)
    return float(np.nextafter(float(max(arb(tail), inside).upper()), np.inf))


def largest_within(tokens: Tokens, places: list[tuple[fmpq, fmpq]], seen: float) -> arb:
    """|g - phi| at most in all cells, given by middle and half; `seen` is an error that there is."""
    left = [(middle, half, 0) for middle, half in places]
    cells = []
    while left:
        check_time()
        middle, half, depth = left.pop()
        centre, whole = arb(middle), arb(middle) + half * arb(0, 1)
        last = tokens.taylor(centre, whole, TERMS + 1)[TERMS]
        rest = abs(last).upper() * arb(half) ** TERMS
        if rest <= seen * SMALL:
            cells.append(_Cell(arb_poly(tokens.taylor(centre, centre, TERMS)), half, rest))
        else:
            require(depth < NARROWEST, "fitted tokens, or their function, vary too fast")
            left += [(middle - half / 2, half / 2, depth + 1), (middle + half / 2, half / 2, depth + 1)]
    return _highest(cells)


def _reach(table: np.ndarray, smooth: Smooth, rate: fmpq, seen: float) -> tuple[fmpq, float]:
    """L, and the error beyond it, which is to be less than what was seen within."""
    for reach in REACHES:
        tail = max(_beyond(table, smooth, reach / rate, sign) for sign in (-1, 1))
        if tail <= seen / 2:
            return reach / rate, tail
    raise NotProvedError("fitted tokens do not fall to their asymptotes")


@dataclass(frozen=True)
class _Cell:
    """A polynomial on [-size, size] and what it leaves out."""

    polynomial: arb_poly
    size: fmpq
    rest: arb

    def range_of(self, middle: fmpq, half: fmpq) -> tuple[arb, arb]:
        """A value that |g - phi| takes at least in middle +- half, and one that it does not exceed there."""
        shifted = self.polynomial(arb_poly([arb(middle), arb(half)]))
        sizes = [abs(shifted[i]) for i in range(shifted.length())] or [arb(0)]
        return (sizes[0] - self.rest).lower(), (sum(sizes, arb(0)) + self.rest).upper()


def _highest(cells: list[_Cell]) -> arb:
    """An upper bound over all cells, nearly the largest value."""
    pieces = [(cell, fmpq(0), cell.size) for cell in cells]
    least, settled = arb(0), arb(0)
    for _ in range(DEEPEST):
        check_time()
        ranges = [cell.range_of(middle, half) for cell, middle, half in pieces]
        least = max(least, *(low for low, _ in ranges))
        left = []
        for (cell, middle, half), (_, high) in zip(pieces, ranges, strict=True):
            if high <= NEAR * least:
                settled = max(settled, high)
            else:
                left += [(cell, middle - half / 2, half / 2), (cell, middle + half / 2, half / 2)]
        if not left:
            return settled
        pieces = left
    return max([settled, *(cell.range_of(middle, half)[1] for cell, middle, half in pieces)])


def _beyond(table: np.ndarray, smooth: Smooth, end: fmpq, sign: int) -> float:
    """|g - phi| at most for sign s >= end; infinite if nothing is known."""
    k, b, v, u = ([fmpq(*float(x).as_integer_ratio()) for x in row] for row in table)
    edge = max(range(len(k)), key=lambda j: sign * k[j])
    asymptote = fmpq(1) if sign > 0 else fmpq(0)
    decays = [sign * (k[edge] - other) for j, other in enumerate(k) if j != edge]
    if v[edge] != asymptote or u[edge] != 0 or min(decays) * end < 1 or end < smooth.settled:
        return float("inf")
    total = smooth.beyond(arb(end))
    for j in range(len(k)):
        if j != edge:
            decay = sign * (k[edge] - k[j])
            size = abs(v[j] - asymptote) * end + abs(u[j])
            total += arb(-decay * end + b[j] - b[edge]).exp() * arb(size)
    return float(np.nextafter(float(total.upper()), np.inf))
