"""Ranges of what a program computes, from those of the formula's own words for it.

A compiler multiplies out and puts together anew: (x + y - 0.86)^2 becomes a sum of x, y and the square of x + y, whose
interval is far wider than that of the square. But the formula is there too, and where the normal forms of two nodes are
the same up to a factor a and a constant b, their values are,

    node  =  a relative + b     wherever both have a value,

so a range of the relative is one of the node. What the formula is made of has values everywhere on the box
(`prove_defined`); a feature whose arguments are shown to have values, one after the other, has one where this shows
that its function is asked inside its domain.
"""

from __future__ import annotations

import math

import numpy as np
from flint import arb, ctx, fmpq

from softwright.checker.composition.dag import CONDITIONS
from softwright.checker.composition.intervals import BITS, Interval, above, below
from softwright.checker.composition.normal import Normaliser
from softwright.checker.composition.ranges import Range, Ranges
from softwright.checker.refusal import NotProvedError

MOST_PARTS = 60  # sub-expressions whose relatives are asked


def limited(ranges: Ranges, number: int, low: float, high: float) -> bool:
    """Whether a node is shown to lie in [low, high]: as it is, by its relatives, or by those of its parts."""
    normal = ranges.shared.get("normal")
    if not isinstance(normal, Normaliser):
        return ranges.within(number, low, high)
    try:
        parts = [n for n in ranges.dag.needed([number]) if _matters(ranges, n)]
        for n in parts[-MOST_PARTS:]:  # from the inside out: what is known of one narrows the next
            for other, a, b in normal.relatives_of(n):
                if other < n:
                    ranges.range(other)
                    _learn(ranges, n, other, a, b)
        ranges.look(number)
        for other, a, b in normal.relatives_of(number):
            if ranges.is_within(number, low, high):
                return True
            ends = sorted(((low - float(b)) / float(a), (high - float(b)) / float(a)))
            ranges.within(other, *ends)
            _learn(ranges, number, other, a, b)
    except (NotProvedError, RecursionError, OverflowError):  # what is known already may be enough
        pass
    return ranges.within(number, low, high)


def _matters(ranges: Ranges, number: int) -> bool:
    return ranges.dag.varies[number] and ranges.dag[number].kind not in ("variable", *CONDITIONS)


def _learn(ranges: Ranges, number: int, other: int, a: fmpq, b: fmpq) -> None:
    """The range of a node from that of its relative, outward."""
    low, high = ranges.known.get(other, (-math.inf, math.inf))
    found = Interval(np.array([low]), np.array([high])) * _number(a) + _number(b)
    ends: Range = float(found.lower[0]), float(found.upper[0])
    if not any(map(math.isnan, ends)):
        ranges.learn(number, ends)


def _number(exact: fmpq) -> Interval:
    with ctx.workprec(BITS):
        ball = arb(exact)
        return Interval(np.array([below(ball)]), np.array([above(ball)]))
