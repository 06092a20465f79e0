"""Sums over few places around a token, written out: sum(x[j] for abs(i - j) <= 1) is x[i-1] + x[i] + x[i+1].

A condition is a window if it joins comparisons of places alone that say i + a <= j <= i + b. Outside the sequence there
is nothing to add. Written out, the sum is at most b - a + 1 values, each picked by one head, and its error is in
proportion to these; a sum over all tokens that meet a condition is charged as if all of them did.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from softwright.programs.linear import affine
from softwright.programs.terms import Pool, Term
from softwright.programs.types import Type

WIDEST = 9  # places


def summed(pool: Pool, type_of: Callable[[Term], Type], value: Term, condition: Term) -> Term:
    """sum(value for condition); real numbers of token j over a window are written out."""
    ends = window_of(condition)
    if ends is None or value.op != "j" or type_of(value).whole:
        return pool.make("sum", value, condition)
    found = None
    for far in range(ends[0], ends[1] + 1):
        part = _shifted(pool, value.args[0], far)
        found = part if found is None else pool.make("add", found, part)
    return pool.make("sum", value, condition) if found is None else found


def _shifted(pool: Pool, value: Term, far: int) -> Term:
    if far == 0:
        return value
    place = pool.make("sub" if far < 0 else "add", pool.make("position"), pool.number(abs(far)))
    return pool.make("at", value, place, pool.number(0))


def window_of(condition: Term) -> tuple[int, int] | None:
    """(a, b) of a condition i + a <= j <= i + b with b - a < WIDEST; None for all others."""
    ends = _ends(condition)
    if ends is None or ends[0] is None or ends[1] is None:
        return None
    return (ends[0], ends[1]) if 0 <= ends[1] - ends[0] < WIDEST else None


_Ends = tuple[int | None, int | None]


def _ends(condition: Term) -> _Ends | None:
    """The least and largest j - i, where they are bounded; None if the condition says anything else."""
    if condition.op == "and":
        one, other = (_ends(arg) for arg in condition.args)
        if one is None or other is None:
            return None
        lows, highs = ([end for end in pair if end is not None] for pair in zip(one, other, strict=True))
        return max(lows, default=None), min(highs, default=None)
    if condition.op not in ("eq", "lt", "le") or {arg.op for arg in condition.args} != {"i", "j"}:
        return None
    places = [affine(arg.args[0]) for arg in condition.args]
    if places[0] is None or places[1] is None or places[0][:2] != places[1][:2] or places[0][1] == 0:
        return None
    first, slope = condition.args[0].op == "j", places[0][1]
    far = (places[1][2] - places[0][2]) / slope  # of the first token's place from the second's
    far = far if first else -far  # j - i on the border
    if condition.op == "eq":
        return (int(far), int(far)) if far.denominator == 1 else None
    if (slope > 0) == first:  # j - i is below
        return None, math.ceil(far) - 1 if condition.op == "lt" else math.floor(far)
    return math.floor(far) + 1 if condition.op == "lt" else math.ceil(far), None
