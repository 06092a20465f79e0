"""Functions with an unbounded slope at a point p: what errors of their argument do to them.

**Moduli.** With s the distance from p and cells whose edges shrink to 0 by factors 2^(-1/4), from enclosures of
F(p + s) and F(p - s), centred exactly (`centred.py`), and of their slopes on the cells: omega(d) bounds |F(u) - F(v)|
for |u - v| <= d (the width of F's range within 2 d of p, or 8 d, and d times the largest slope beyond), `relative`
bounds |F'| s, `by_root` bounds |F'| 2 sqrt(s), the slope of F as a function of sqrt(s); `rest` is the width of F's
range over the innermost cells.

**Norms.** For u = p + sum c_i z_i^2, each z_i one column, the squares as they run are off by eta_i |z_i| + tau, and so
is what the row of the table makes of them. With S^2 = sum c_i z_i^2 of the columns that run and E = sum sqrt(c_i)
eta_i, |u^ - p - S^2| <= E S + tau: so |sqrt(u^ - p) - S| <= E + sqrt(tau), and if u^ < p, which F may see with another
sign, S <= E + sqrt(tau) and sqrt(p - u^) <= E/2 + sqrt(tau), as E S - S^2 <= E^2/4. Either way from S to u^ is no
longer than 3/2 E + 2 sqrt(tau). S moves by no more than sqrt(c_i) with z_i: F is taken as a function of the z_i.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from flint import arb, fmpq

from softwright.checker.composition.intervals import Array, Interval, above
from softwright.checker.composition.kinds.kind import Flow, upper_product, upper_sum
from softwright.checker.composition.kinds.product import Product
from softwright.checker.composition.program import Feature, Form, Program
from softwright.checker.composition.rows import Row
from softwright.checker.parser import rational_value

Over = Callable[[Interval], tuple[Interval, Array]]  # an enclosure, and where it is certain
CELLS, RATIO = 3200, 2.0**-0.25
MARGIN = 1 + 2.0**-40


class Moduli:
    """Of a function about p, given by the values and slopes of F(p + s) and of F(p - s), as far as `reach`."""

    def __init__(self, sides: Sequence[tuple[Over, Over]], reach: float) -> None:
        edges = reach * MARGIN * RATIO ** np.arange(CELLS + 1.0)  # falling
        self.edges = edges[edges > 1e-290]
        count = len(self.edges)
        steep, low, high = np.zeros(count - 1), np.full(count, np.inf), np.full(count, -np.inf)
        cells = Interval(self.edges[1:], self.edges[:-1])
        for values, slopes in sides:
            found, sure = values(cells)
            slope, known = slopes(cells)
            middle, certain = values(Interval(np.zeros(1), self.edges[-1:]))
            good = bool(certain.all())
            below = np.concatenate([np.where(sure, found.lower, -np.inf), middle.lower if good else [-np.inf]])
            over = np.concatenate([np.where(sure, found.upper, np.inf), middle.upper if good else [np.inf]])
            low, high = np.minimum(low, below), np.maximum(high, over)
            steep = np.maximum(steep, np.where(known & np.isfinite(slope.size), slope.size, np.inf))
        low, high = np.minimum.accumulate(low[::-1])[::-1], np.maximum.accumulate(high[::-1])[::-1]
        with np.errstate(all="ignore"):
            self.width = np.nan_to_num((high - low) * MARGIN, nan=np.inf)  # of the range within edge k
        self.slope = np.maximum.accumulate(np.concatenate([[0.0], steep])) * MARGIN  # from edge k outwards
        self.rest = float(self.width[-1])
        self.relative = float(np.max(upper_product(steep, self.edges[:-1])) * MARGIN)
        self.by_root = float(np.max(upper_product(2 * steep, np.sqrt(self.edges[:-1]))) * MARGIN)

    def omega(self, moved: Array) -> Array:
        """sup |F(u) - F(v)|, |u - v| <= moved, for each number."""
        best = np.full(len(moved), self.width[0])
        rising = self.edges[::-1]
        for factor in (2.0, 8.0):
            k = np.searchsorted(rising, factor * moved)  # the first edge that is so far away
            k = np.minimum(k, len(rising) - 1)
            far = rising[k] >= factor * moved
            wide = np.searchsorted(rising, (rising[k] + moved) * MARGIN)
            narrow = np.searchsorted(rising, (rising[k] - moved) / MARGIN, side="right") - 1
            usable = far & (wide < len(rising)) & (narrow >= 0)
            inside = self.width[::-1][np.minimum(wide, len(rising) - 1)]
            beyond = upper_product(moved, self.slope[::-1][np.maximum(narrow, 0)])
            best = np.where(usable, np.minimum(best, np.maximum(inside, beyond)), best)
        return np.where(moved > 0, best, 0.0)


@dataclass(frozen=True)
class Norm:
    """c_i, the form z_i, and the kind that computes its square, with the places of both."""

    parts: tuple[tuple[arb, Form, Product, int, int], ...]

    def error(self, flow: Flow, row: Row, half: float) -> Array:
        """3/2 E + 2 sqrt(tau) on each box."""
        total = np.zeros(flow.count)
        lost = np.full(flow.count, half * 2 * (1 + row.roundings) * row.precision.smallest * MARGIN)
        for c, _, square, place, root in self.parts:
            eta, weight = square.relative(flow)
            for column, size in ((1 + place, weight), (1 + root, np.ones(flow.count))):
                read = above(
                    arb(float(row.missed[column])) + 2 * row.roundings * row.precision.unit * float(row.weights[column])
                )
                eta = upper_sum(eta, upper_product(half * read * MARGIN, size, above(1 / c)))
            total = upper_sum(total, upper_product(above(c.sqrt()), eta))
            lost = upper_sum(lost, upper_product(above(c), square.flushed(flow)))
        return upper_sum(upper_product(1.5, total), upper_product(2.0, np.sqrt(lost) * MARGIN))


def norm_of(feature: Feature, program: Program, kinds: Sequence[object], point: fmpq, row: Row) -> Norm | None:
    """The sum of squares that the argument of a table is, if it is one of single columns about its singular point."""
    if rational_value(feature.score.constant) != point or row.missed[0] or row.weights[0]:
        return None
    parts, read = [], set()
    for i, c in feature.score.terms:
        size = rational_value(c)
        if i < program.inputs or size is None or not size > 0:
            return None
        square, kind = program.features[i - program.inputs], kinds[i - program.inputs]
        if not square.is_square or not isinstance(kind, Product) or len(square.score.terms) != 1:
            return None
        ((root, one),) = square.score.terms
        column = root < program.inputs or program.features[root - program.inputs].kind in (
            "table",
            "exponential",
            "copy",
        )
        if not column or rational_value(one) != 1 or rational_value(square.score.constant) != 0 or not kind.is_plain:
            return None
        parts.append((arb(size), square.score, kind, i, root))
        read |= {1 + i, 1 + root}
    others = [k for k in np.flatnonzero(row.missed + row.weights).tolist() if k not in read]
    return None if others else Norm(tuple(parts))
