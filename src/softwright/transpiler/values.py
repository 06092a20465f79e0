"""What the numbers of a layer can be, for all inputs of a box together: intervals, a ball, and lines above activations.

    interval   low_i <= a_i <= high_i, from the intervals of the layer before
    ball       |a - centre|_2 <= spread: a linear map carries it by |W|_2, and |phi(s) - phi(0)|_2 <= L |s|_2
    lines      max(+-phi(s_i), 0) <= slope_i s_i + offset_i over the interval of s_i, found cell by cell

Intervals alone let every neuron be largest at the same time, which no input does. `terms` bounds the sum of all
positive terms of W a + b, and that of the negative ones, by the least of the three; with lines it is a linear function
of the layer before, whose weights cancel. No partial sum, in any order, is beyond these two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softwright.proof.arithmetic.directed import TINY, gamma, up
from softwright.targets.mlp import Activation, DenseLayer

_CELLS = 256
_ROOM = 1.001  # lines of a second proof, with other constants of the activations, may lie a little higher
_LARGEST_PRODUCT = 1 << 31  # multiplications of two matrices that a bound is worth


def norm(vector: np.ndarray) -> float:
    """|v|_2, rounded up."""
    largest = float(np.abs(vector).max(initial=0.0))
    if largest == 0.0 or not np.isfinite(largest):
        return largest
    return largest * float(np.sqrt(((vector / largest) ** 2).sum())) * (1 + gamma(len(vector) + 4))


@dataclass
class Lines:
    """max(phi, 0) <= above, max(-phi, 0) <= below, each (slope, offset) of s, made by the layer of `values`."""

    above: tuple[np.ndarray, np.ndarray]
    below: tuple[np.ndarray, np.ndarray]
    layer: DenseLayer
    values: Values


@dataclass
class Values:
    """The numbers above, of the exact values."""

    low: np.ndarray
    high: np.ndarray
    centre: np.ndarray
    spread: float
    lines: Lines | None = None

    @classmethod
    def box(cls, low: np.ndarray, high: np.ndarray) -> Values:
        centre = 0.5 * (low + high)
        return cls(low, high, centre, norm(np.maximum(high - centre, centre - low) * (1 + 1e-15)))

    @property
    def size(self) -> np.ndarray:
        return np.maximum(np.abs(self.low), np.abs(self.high))


def terms(layer: DenseLayer, a: Values) -> tuple[np.ndarray, np.ndarray]:
    """Upper bounds of the sums of the positive terms and of the negative ones, for every s."""
    return _terms(layer.weight, layer.bias, a), _terms(-layer.weight, -layer.bias, a)


def _terms(weight: np.ndarray, bias: np.ndarray, a: Values) -> np.ndarray:
    n = weight.shape[1]
    largest = np.maximum(np.maximum(weight * a.low, weight * a.high), 0.0)
    found = up(largest.sum(axis=1), n + 4)
    rows = np.sqrt(up(np.where(largest > 0, weight**2, 0.0).sum(axis=1), n + 4)) * (1 + 1e-14)
    found = np.minimum(found, up(np.maximum(weight * a.centre, 0.0).sum(axis=1) + rows * a.spread, n + 8))
    lines = a.lines
    if lines is not None and weight.size * lines.layer.inputs <= _LARGEST_PRODUCT:
        found = np.minimum(found, _by_lines(weight, lines))
    return up(found + np.maximum(bias, 0.0), 4)


def _by_lines(weight: np.ndarray, lines: Lines) -> np.ndarray:
    """sum_i max(w_i a_i, 0) <= V s + offsets with V = W^+ above + W^- below, s = W' a' + b'."""
    plus, minus = np.maximum(weight, 0.0), np.maximum(-weight, 0.0)
    V = plus * lines.above[0] + minus * lines.below[0]
    layer, before = lines.layer, lines.values
    middle = 0.5 * (before.low + before.high)
    radius = np.maximum(before.high - middle, middle - before.low) * (1 + 1e-15)
    through = V @ layer.weight
    offsets = up(plus @ np.maximum(lines.above[1], 0.0) + minus @ np.maximum(lines.below[1], 0.0), layer.outputs + 8)
    size = np.abs(layer.weight) @ (np.abs(middle) + radius) + np.abs(layer.bias)
    steep = plus * np.abs(lines.above[0]) + minus * np.abs(lines.below[0])
    slip = 2 * gamma(layer.outputs + layer.inputs + 16) * (steep @ size + offsets)
    value = through @ middle + np.abs(through) @ radius + V @ layer.bias
    return np.maximum(value + offsets + up(slip, layer.outputs + 8), 0.0) * _ROOM + TINY


def affine(layer: DenseLayer, a: Values, largest: float) -> tuple[Values, tuple[np.ndarray, np.ndarray]]:
    """s = W a + b, and its `terms`; `largest` bounds |W|_2."""
    n, weight = layer.inputs, layer.weight
    middle = 0.5 * (a.low + a.high)
    radius = np.maximum(a.high - middle, middle - a.low) * (1 + 1e-15)
    size = np.abs(weight)
    slip = 2 * gamma(n + 4) * (size @ (np.abs(middle) + radius) + np.abs(layer.bias))
    spread = up(size @ radius, n + 4) + slip + TINY
    value = weight @ middle + layer.bias
    low, high = value - spread, value + spread
    # The ball, whose centre is computed with a slip of its own.
    centre = weight @ a.centre + layer.bias
    slip = 2 * gamma(n + 4) * (size @ np.abs(a.centre) + np.abs(layer.bias)) + TINY
    rows = np.sqrt(up((weight**2).sum(axis=1), n + 4)) * (1 + 1e-14)
    reach = up(rows * a.spread + slip, 4)
    low, high = np.maximum(low, centre - reach), np.minimum(high, centre + reach)
    plus, minus = terms(layer, a)
    low, high = np.maximum(low, -minus), np.minimum(high, plus)
    wide = min((largest * a.spread + norm(slip)) * (1 + 1e-14), norm(np.maximum(high - centre, centre - low)))
    return Values(low, high, centre, wide * (1 + 1e-14)), (plus, minus)


def activated(layer: DenseLayer, a: Values, s: Values) -> Values:
    """phi(s), s = W a + b."""
    phi = layer.activation
    low, high = phi.span(s.low, s.high)
    least, most = phi.span(np.zeros(1), np.zeros(1))
    centre = np.full(len(low), 0.5 * (least + most)[0])
    from_zero = phi.slope * (norm(s.centre) + s.spread) + np.sqrt(len(low)) * 0.51 * float((most - least)[0])
    if phi.row.jump is not None:
        from_zero = np.inf  # no slope bounds a jump
    wide = min(from_zero * (1 + 1e-14), norm(np.maximum(high - centre, centre - low) * (1 + 1e-15)))
    finite = bool(np.isfinite(s.low).all() and np.isfinite(s.high).all())
    lines = Lines(_line(phi, s, 1.0), _line(phi, s, -1.0), layer, a) if finite else None
    return Values(low, high, centre, wide, lines)


def _line(phi: Activation, s: Values, sign: float) -> tuple[np.ndarray, np.ndarray]:
    """A line above max(sign phi, 0) on the interval of every s: slope and offset, cell by cell."""

    def most(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        least, largest = phi.span(low, high)
        return np.maximum(largest if sign > 0 else -least, 0.0)

    width = np.maximum(s.high - s.low, 1e-300)
    slope = (most(s.high, s.high) - most(s.low, s.low)) / width
    parts = np.arange(_CELLS + 1) / _CELLS
    edges = s.low[:, None] + (s.high - s.low)[:, None] * parts
    edges[:, -1] = s.high
    left, right = edges[:, :-1], edges[:, 1:]
    line = np.minimum(slope[:, None] * left, slope[:, None] * right)
    offset = (most(left, right) - line).max(axis=1)
    return slope, offset + 1e-14 * (np.abs(slope) * s.size + np.abs(offset)) + TINY
