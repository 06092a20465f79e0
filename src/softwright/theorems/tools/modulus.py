"""How large a formula is and how fast it changes, from the formula itself, by interval arithmetic.

All in the unit frame of a box, x = centre + half * t with t in [-1, 1]^m, and largest over the outputs.

    sup_norm            |f| over the box: the largest end of the ranges over K^m sub-boxes
    lipschitz           the largest Euclidean norm of the gradient's ranges over the sub-boxes; infinite where the
                        gradient is unbounded, and for a formula with jumps, whose derivative does not show them
    oscillation(rho)    two points at most rho apart lie in sub-boxes whose indices differ by at most
                        w = floor(rho K/2) + 1 on every axis, so |f(x) - f(y)| <= max (upper_i - lower_j) over them
    modulus(rho)        the smaller of lipschitz * rho and oscillation(rho): an upper bound of omega_f(rho)

Ranges are those of `targets.enclosure`, rounded outward, so every number here is an upper bound and none is sampled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from scipy.ndimage import maximum_filter

from softwright.domain import Box
from softwright.errors import Faults
from softwright.targets import Expression

_MOST_BOXES = 20_000
_DEEPEST = 48  # halvings of a side
_CLOSING = 0.95  # by which a range shrinks, at least, when its box is halved; a power of 0.1 by 0.93
_UP = 1.0 + 1e-13  # covers the few roundings of the arithmetic on the ranges


class Modulus:
    """Upper bounds of |f|, of its gradient and of its modulus of continuity over a box."""

    def __init__(self, expression: Expression, box: Box) -> None:
        self.expression, self.box = expression, box
        self.per_axis = max(2, int(_MOST_BOXES ** (1.0 / box.dim)))
        edges = np.linspace(-1.0, 1.0, self.per_axis + 1)
        index = np.stack(
            [axis.ravel() for axis in np.meshgrid(*[np.arange(self.per_axis)] * box.dim, indexing="ij")], 1
        )
        # The same edge is the end of two neighbours, so the sub-boxes leave no gap whatever the rounding of the edges.
        self._lower, self._upper = box.from_unit(edges[index]), box.from_unit(edges[index + 1])  # (K^m, m)

    @cached_property
    def ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds (K^m, outputs); infinite where the formula may be undefined."""
        lows, highs, defined = self.expression.enclose(self._lower, self._upper)
        return np.where(defined[:, None], lows, -np.inf), np.where(defined[:, None], highs, np.inf)

    @cached_property
    def sup_norm(self) -> float:
        lows, highs = self.ranges
        return float(np.maximum(np.abs(lows), np.abs(highs)).max())

    @cached_property
    def partials(self) -> np.ndarray:
        """Upper bounds (m,) of the partial derivatives in the unit frame; infinite for a formula with jumps."""
        if any(kink.jump for kink in self.expression.kinks()):
            return np.full(self.box.dim, np.inf)
        return self._slopes.max(axis=(0, 2))

    @cached_property
    def _slopes(self) -> np.ndarray:
        """Upper bounds (K^m, m, outputs) of |df/dt_i| on every sub-box."""
        out = np.empty((len(self._lower), self.box.dim, self.expression.outputs))
        for i, name in enumerate(self.expression.names):
            lows, highs, defined = self.expression.derivative(name).enclose(self._lower, self._upper)
            size = np.maximum(np.abs(lows), np.abs(highs))
            out[:, i] = np.where(defined[:, None], size, np.inf) * (self.box.halfwidth[i] * _UP)
        return np.where(np.isnan(out), np.inf, out)

    @cached_property
    def lipschitz(self) -> float:
        if any(kink.jump for kink in self.expression.kinks()):
            return math.inf
        with np.errstate(over="ignore"):
            return float(np.sqrt((self._slopes**2).sum(axis=1)).max()) * _UP

    def oscillation(self, rho: float) -> float:
        width = min(math.floor(rho * self.per_axis / 2.0 * _UP) + 1, self.per_axis)
        shape = (self.per_axis,) * self.box.dim
        lows, highs = self.ranges
        worst = 0.0
        for o in range(self.expression.outputs):
            if not (np.isfinite(lows[:, o]).all() and np.isfinite(highs[:, o]).all()):
                return math.inf
            top = maximum_filter(highs[:, o].reshape(shape), size=2 * width + 1, mode="nearest")
            worst = max(worst, float((top - lows[:, o].reshape(shape)).max()))
        return worst * _UP

    def __call__(self, rho: float) -> float:
        """An upper bound of omega_f(rho), rho in the unit frame."""
        return min(self.lipschitz * rho * _UP, self.oscillation(rho))


def jumping(expression: Expression, box: Box) -> list[str]:
    """Where the formula jumps, as expressions that are 0 there: ranges round a jump do not shrink with the boxes.

    A break that another factor closes, as in sign(x)*abs(x)**(1/3), is none. This decides what is refused; no bound
    rests on it.
    """
    return [
        kink.expression.text for kink in expression.kinks() if kink.jump and _open(expression, kink.expression, box)
    ]


def _open(expression: Expression, zero: Expression, box: Box) -> bool:
    lower, upper = box.lower[None].copy(), box.upper[None].copy()
    widths: list[float] = []
    for level in range(_DEEPEST * box.dim):
        low, high, _ = zero.enclose(lower, upper)
        kept = (low[:, 0] <= 0) & (high[:, 0] >= 0)
        lower, upper = lower[kept], upper[kept]
        if len(lower) == 0:
            return False
        if level % box.dim == 0:
            f_low, f_high, _ = expression.enclose(lower, upper)
            widths.append(float((f_high - f_low).max()))
        if len(lower) > _MOST_BOXES:
            break
        axis = level % box.dim
        middle = 0.5 * (lower[:, axis] + upper[:, axis])
        left, right = upper.copy(), lower.copy()
        left[:, axis] = right[:, axis] = middle
        lower, upper = np.concatenate([lower, right]), np.concatenate([left, upper])
    return len(widths) > 1 and not widths[-1] <= _CLOSING * widths[-2]


def formula_on_box(
    formula: object, side: float, box: Box | Mapping[str, Any] | None, faults: Faults
) -> tuple[Expression, Box] | None:
    """The formula as an `Expression` and its box: [-side, side]^m unless a box is given; None with faults added."""
    if box is not None and not isinstance(box, Box):
        box = Box(box)
    if not faults.check(side > 0 or box is not None, f"side = {side:g}: the domain is [-D, D]^m with D > 0"):
        return None
    if isinstance(formula, Expression):
        expression = formula
    else:
        try:
            expression = Expression(str(formula), box)
        except ValueError as error:
            faults.add(str(error))
            return None
    names = expression.names
    if box is None:
        box = Box.from_bounds([-side] * len(names), [side] * len(names), names)
    elif not faults.check(set(box.names) == set(names), f"the box has sides {box.names}, the formula takes {names}"):
        return None
    expression = expression.with_names(box.names)
    return expression, box
