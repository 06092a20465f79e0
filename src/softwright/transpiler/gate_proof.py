"""Sup error of the tokens of a gate (`gate_tokens.py`) against s Phi(s) on the whole real line, for the numbers stored.

The tokens are their own mirror image (checked), and Phi(s) + Phi(-s) = 1, so g - phi is even and s >= 0 is all of it.
With keys and biases relative to those of any token l,

    g(s) - phi(s) = s (N(s)/Z(s) + 1 - Phi(s)),   Z = sum_j e^{k_j s + b_j},   N = sum_j (v_j - 1) e^{k_j s + b_j}.

l is the token that leads there, so that on a cell [a - h, a + h] all of this is narrow. It is a Taylor polynomial of m
terms about a, and at most h^m times the m-th coefficient over the whole cell more (Lagrange). The polynomial is at most
the sum of its |coefficients| times h^n; where that could be the largest of all, it is shifted to the middles of pieces
first, which are as much narrower. All of it in balls.

Beyond L the token e of the largest key, of value s, has nearly all of the weight: relative to it |g - s| is at most s
sum_{j != e} e^{k_j s + b_j} |v_j - 1|, whose terms fall once -k_j s >= 1 (checked), and s - phi(s) <= e^{-rate s}/rate,
as every fitted row promises.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from flint import arb, arb_mat, arb_poly, arb_series, ctx

from softwright.errors import SoftwrightError
from softwright.transpiler.token_table import TokenTable

_REACH = 64  # L, divided by the rate
_CELLS = 8 * _REACH
_PIECES = 16
_TERMS = 24  # m
_BITS = 192
_ROOM = 1.001  # a second proof may be that much less sharp

Gate = Callable[[Any], Any]  # Phi, of a series of balls


def is_gate(table: TokenTable) -> bool:
    """Whether a table is its own mirror image, has constants times s for values, and ends in the asymptotes."""
    k, b, v, u = table.stacked
    mirrored = np.array_equal(k, -k[::-1]) and np.array_equal(b, b[::-1]) and np.array_equal(v, 1.0 - v[::-1])
    return bool(mirrored and not u.any() and v[-1] == 1.0 and len(k) > 1 and (np.diff(k) > 0).all())


def proved_gate_error(gate: Gate, rate: float, table: TokenTable) -> float:
    """sup over all real s of |g(s) - s Phi(s)|, an upper bound; `rate` says how narrow Phi is."""
    if not is_gate(table):
        raise SoftwrightError("the tokens of a gate are not their own mirror image; please report this")
    before = ctx.prec, ctx.cap
    try:
        ctx.prec, ctx.cap = _BITS, _TERMS + 1
        half = _REACH / arb(rate) / (2 * _CELLS)
        return max(_within(gate, table.stacked, half), _beyond(table.stacked, arb(rate))) * _ROOM
    finally:
        ctx.prec, ctx.cap = before


def _relative(table: np.ndarray, lead: int) -> tuple[list[arb], list[arb], list[arb]]:
    """Keys, e to the biases, both relative to token `lead`, and v - 1."""
    k, b, v = ([arb(float(x)) for x in row] for row in table[:3])
    return [x - k[lead] for x in k], [(x - b[lead]).exp() for x in b], [x - 1 for x in v]


def _within(gate: Gate, table: np.ndarray, half: arb) -> float:
    """|g - phi| at most over the cells from 0 on, each twice `half` wide."""
    middles = [half * (2 * i + 1) for i in range(_CELLS)]
    near = np.array([float(middle) for middle in middles])
    leaders = (near[:, None] * table[0] + table[1]).argmax(axis=1)
    polynomials: list[arb_series] = []
    rests: list[arb] = []
    for lead in np.unique(leaders).tolist():
        keys, weights, below = _relative(table, lead)
        columns = []  # of Z and N at every power
        for key, weight, value in zip(keys, weights, below, strict=True):
            powers = [weight]
            for n in range(1, _TERMS + 1):
                powers.append(powers[-1] * key / n)
            columns.append(powers + [power * value for power in powers])
        places = [middles[i] for i in np.flatnonzero(leaders == lead).tolist()]
        cells = [place + half * arb(0, 1) for place in places]
        at, over = (
            arb_mat([[(key * s).exp() for key in keys] for s in group]) * arb_mat(columns) for group in (places, cells)
        )
        for i, (place, cell) in enumerate(zip(places, cells, strict=True)):
            polynomials.append(_series(gate, at, i, place))
            rests.append(abs(_series(gate, over, i, cell)[_TERMS]).upper() * half**_TERMS)
    seen = max(abs(polynomial[0]).lower() for polynomial in polynomials)
    largest = arb(0)
    for polynomial, rest in zip(polynomials, rests, strict=True):
        terms = arb_poly([polynomial[n] for n in range(_TERMS)])
        crude = _size(terms, half) + rest
        if not crude <= seen:
            step = half / _PIECES
            places = [step * (2 * i + 1) - half for i in range(_PIECES)]
            crude = max((_size(terms(arb_poly([place, 1])), step) for place in places), key=_above) + rest
        if not crude.is_finite():
            return float("inf")
        largest = arb(max(_above(largest), _above(crude)))
    return _above(largest)


def _series(gate: Gate, sums: arb_mat, row: int, place: arb) -> arb_series:
    """g - phi about a place, which may be a ball, with Z and N in a row of `sums`."""
    s = arb_series([place, 1], prec=_TERMS + 1)
    total, missing = (
        arb_series([sums[row, first + n] for n in range(_TERMS + 1)], prec=_TERMS + 1) for first in (0, _TERMS + 1)
    )
    found = s * (missing / total + 1 - gate(s))
    if found.prec < _TERMS + 1:  # another thread may change the library's global cap
        raise SoftwrightError("a series was cut while tokens were proved; transpile one model at a time")
    return found


def _size(polynomial: arb_poly, half: arb) -> arb:
    """sum_n |c_n| h^n"""
    total = arb(0)
    for n in range(polynomial.length() - 1, -1, -1):
        total = total * half + abs(polynomial[n]).upper()
    return total


def _beyond(table: np.ndarray, rate: arb) -> float:
    """|g - phi| at most for s >= L."""
    end = _REACH / rate
    keys, weights, below = (part[:-1] for part in _relative(table, table.shape[1] - 1))
    if not all(-key * end >= 1 for key in keys):
        return float("inf")
    terms = zip(keys, weights, below, strict=True)
    total = sum(((key * end).exp() * w * abs(x) for key, w, x in terms), arb(0)) * end
    return _above(total + (-rate * end).exp() / rate)


def _above(x: arb) -> float:
    """A number that is not below any of the ball."""
    return math.nextafter(float(x.upper()), math.inf) if x.is_finite() else math.inf
