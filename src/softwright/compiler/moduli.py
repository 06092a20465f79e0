"""How far a function with an unbounded slope moves when its argument does: moduli of continuity over graded cells.

For F as a function of the distance s from its singular point, on [0, S], constant beyond that point, with cells whose
edges e_k = S 2^(-k/4) shrink towards 0. From enclosures of F and F' on the cells

    omega(d)   >= |F(u) - F(v)| for |u - v| <= d: within 2 d of 0 (or 8 d) the width of F's range there, beyond it
                  d times the largest slope that is met
    relative   >= sup |F'| s: what a relative change of the distance does
    by_root    >= sup |F'| 2 sqrt(s): the slope of F as a function of sqrt(s), the norm of what s is a sum of squares of
    rest       the width of F's range over the innermost cell, on which no slope is known
"""

from __future__ import annotations

import numpy as np

from softwright.compiler.nodes import Expression, Node, differentiate

_RATIO, _CELLS = 2.0**-0.25, 3200


class Moduli:
    """Of a tree in `u`, the distance from its singular point."""

    def __init__(self, function: Node, reach: float) -> None:
        edges = float(reach) * (1.0 + 1e-12) * _RATIO ** np.arange(_CELLS + 1.0)  # falling
        edges = edges[edges > 1e-290]
        lower, upper = edges[1:], edges[:-1]
        value = Expression.from_nodes([function], ("u",))
        slope = Expression.from_nodes([differentiate(function, "u")], ("u",))
        with np.errstate(all="ignore"):
            low, high, defined = (a.reshape(len(a), -1)[:, 0] for a in value.enclose(lower[:, None], upper[:, None]))
            inner = value.enclose(np.zeros((1, 1)), edges[-1:, None])
            sl, sh, known = (a.reshape(len(a), -1)[:, 0] for a in slope.enclose(lower[:, None], upper[:, None]))
        steep = np.where(known & np.isfinite(sl) & np.isfinite(sh), np.maximum(np.abs(sl), np.abs(sh)), np.inf)
        good = defined & np.isfinite(low) & np.isfinite(high)
        low, high = np.where(good, low, -np.inf), np.where(good, high, np.inf)
        first, second = float(inner[0][0, 0]), float(inner[1][0, 0])
        if not bool(inner[2].all()) or not np.isfinite(first) or not np.isfinite(second):
            first, second = -np.inf, np.inf
        # Hulls of F from the point up to edge k, and the largest slope from edge k outwards.
        hull_low = np.minimum.accumulate(np.concatenate([[first], low[::-1]]))[::-1]  # by edge, falling
        hull_high = np.maximum.accumulate(np.concatenate([[second], high[::-1]]))[::-1]
        self.edges = edges  # falling: edges[0] is the end, edges[-1] the innermost
        with np.errstate(all="ignore"):
            self.width = (hull_high - hull_low) * (1.0 + 1e-12)
        self.slope = np.maximum.accumulate(np.concatenate([[0.0], steep]))  # from edge k to the end
        self.rest = float(self.width[-1])
        self.relative = _largest(steep * edges[:-1])
        self.by_root = _largest(steep * 2.0 * np.sqrt(edges[:-1]))

    def omega(self, moved: float) -> float:
        """sup |F(u) - F(v)|, |u - v| <= moved."""
        best = float(self.width[0])  # of all of it
        if not moved > 0.0:
            return 0.0
        for factor in (2.0, 8.0):
            above = np.flatnonzero(self.edges >= factor * moved)
            if not len(above):
                continue
            k = int(above[-1])  # the smallest edge that is so far away
            wide = np.flatnonzero(self.edges >= self.edges[k] + moved)
            narrow = np.flatnonzero(self.edges <= self.edges[k] - moved)
            if not len(wide) or not len(narrow):
                continue
            inside = float(self.width[int(wide[-1])])
            beyond = moved * float(self.slope[int(narrow[0])])
            best = min(best, max(inside, beyond) * (1.0 + 1e-12))
        return best

    def argument_error(self, allowed: float) -> float:
        """About the largest error of the argument that moves F by no more than `allowed`."""
        low, high = 1e-300, float(self.edges[0])
        if self.omega(low) > allowed:
            return 0.0
        for _ in range(80):
            middle = float(np.sqrt(low * high))
            if self.omega(middle) <= allowed:
                low = middle
            else:
                high = middle
        return low


def _largest(array: np.ndarray) -> float:
    return float(array.max()) * (1.0 + 1e-12) if len(array) else 0.0
