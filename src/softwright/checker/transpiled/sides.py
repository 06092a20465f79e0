"""The tokens of softsign, phi(s) = s/(1 + |s|): sup over all real s of |g(s) - phi(s)|, for the tokens as stored.

The tokens are demanded to be their own mirror image: keys k_j = -k_{p-1-j}, rising, biases the same and values, which
are constant, of the other sign. So g and phi are odd, and only s >= 0, where phi(s) = 1 - 1/(1 + s), is looked at.

*Beyond L.* The last token e has the largest key, and w_j <= e^{(k_j - k_e) s + b_j - b_e}, so that g is within

    sum_{j != e} e^{(k_j - k_e) L + b_j - b_e} |u_j - u_e|

of u_e for all s >= L, and phi is between L/(1 + L) and 1. L is the first power of two, over the distance of the last
two keys, for which the sum is small beside the errors that were seen.

*Within.* As `fitted.py` has it: Taylor polynomials of g - phi in balls, on cells that grow in proportion to s, from a
part of 1/k_e, or of 1, on. phi is continued to the left of 0 as s/(1 + s), where the ball of the first cell touches
it.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from flint import arb, ctx, fmpq

from softwright.checker.refusal import NotProvedError, require
from softwright.checker.transpiled.fitted import BITS, TERMS, Tokens, largest_within

FIRST = fmpq(1, 4)  # where the first cell ends, over the largest key or 1
GROWTH = fmpq(3, 2)  # of the ends of cells
SMALL = 1e-3  # what may be left of the other tokens beyond L, of the error
LONGEST = 80  # powers of two that are tried for L
PLACES = 200  # at which errors are looked at first


def largest_side_error(table: np.ndarray) -> float:
    """An upper bound of |g - phi| on the whole line; `table` (4, p) holds k, b, v, u."""
    before = ctx.prec, ctx.cap
    try:
        ctx.prec, ctx.cap = BITS, TERMS + 1
        return _largest_error(table)
    finally:
        ctx.prec, ctx.cap = before


def _largest_error(table: np.ndarray) -> float:
    k, b, v, u = table
    require(len(k) >= 2 and len(k) % 2 == 0 and not v.any(), "tokens of softsign have constant values on both sides")
    require(
        bool((k == -k[::-1]).all() and (b == b[::-1]).all() and (u == -u[::-1]).all() and (k[1:] > k[:-1]).all()),
        "the tokens of softsign are not their own mirror image",
    )
    tokens = Tokens.of(table, lambda s: 1 - 1 / (s + 1))
    largest = _rational(k[-1])
    slowest = largest - _rational(k[-2])
    low, high = 0.1 / float(k[-1]), 50.0 / float(slowest)
    seen = max(tokens.error_at(float(place)) for place in np.geomspace(low, high, PLACES))
    require(seen > 0, "the tokens of softsign are damaged")
    end, beyond = _beyond(tokens, 1 / slowest, seen)
    edges = [fmpq(0), FIRST / max(largest, fmpq(1))]
    while edges[-1] < end:
        edges.append(edges[-1] * GROWTH)
    cells = [((near + away) / 2, (away - near) / 2) for near, away in pairwise(edges)]
    found = max(beyond, largest_within(tokens, cells, seen))
    require(found.is_finite(), "nothing is known of the tokens of softsign")
    return float(np.nextafter(float(found.upper()), np.inf))


def _beyond(tokens: Tokens, unit: fmpq, seen: float) -> tuple[fmpq, arb]:
    """L, and |g - phi| at most for s >= L."""
    k, b, u = tokens.k, tokens.b, tokens.u
    for power in range(LONGEST):
        end = unit * 2**power
        left = arb(0)
        for key, bias, value in zip(k[:-1], b[:-1], u[:-1], strict=True):
            left += ((key - k[-1]) * end + bias - b[-1]).exp() * abs(value - u[-1])
        if left < SMALL * seen:
            limits = abs(u[-1] - 1), abs(u[-1] - arb(end / (1 + end)))
            return end, (left + max(limits[0].upper(), limits[1].upper())).upper()
    raise NotProvedError("the tokens of softsign do not come to rest")


def _rational(x: float) -> fmpq:
    return fmpq(*float(x).as_integer_ratio())
