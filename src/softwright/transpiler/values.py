"""What the numbers of a layer can be, for all inputs of a box together: intervals, a ball, and what
activations come to together.

    interval   low_i <= a_i <= high_i, from the intervals of the layer before
    ball       |a - centre|_2 <= spread: a linear map carries it by |W|_2, and |phi(s) - phi(0)|_2 <= L |s|_2
    joint      what sums of max(+-phi(s_i), 0) are at one input, by lines and parabolas above them (`joint.py`)

Intervals alone let every neuron be largest at the same time, which no input does. `Terms` bounds the sum of all
positive terms of W a + b, that of the negative ones, and that of both sizes, by the least of the three. No partial sum,
in any order, is beyond the first two, and where s is known they are half of the third and half of s at most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softwright.proof.arithmetic.directed import TINY, gamma, up
from softwright.targets.mlp import Activation, DenseLayer
from softwright.transpiler.joint import Around, Joint
from softwright.transpiler.norms import norm

_CELLS = 256


@dataclass
class Values:
    """The numbers above, of the exact values."""

    low: np.ndarray
    high: np.ndarray
    centre: np.ndarray
    spread: float
    joint: Joint | None = None  # max(a, 0) and max(-a, 0) behind an activation

    @classmethod
    def box(cls, low: np.ndarray, high: np.ndarray) -> Values:
        centre = 0.5 * (low + high)
        return cls(low, high, centre, norm(np.maximum(high - centre, centre - low) * (1 + 1e-15)))

    @property
    def size(self) -> np.ndarray:
        return np.maximum(np.abs(self.low), np.abs(self.high))


@dataclass(frozen=True)
class Terms:
    """Upper bounds of the sums of the positive terms, of the negative ones, and of all their sizes, for every s."""

    plus: np.ndarray
    minus: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, layer: DenseLayer, a: Values) -> Terms:
        weight, bias = layer.weight, layer.bias
        rising, falling = np.maximum(weight, 0.0), np.maximum(-weight, 0.0)
        plus = _sum(rising, falling, np.maximum(bias, 0.0), a)
        minus = _sum(falling, rising, np.maximum(-bias, 0.0), a)
        sizes = _sum(np.abs(weight), np.abs(weight), np.abs(bias), a)
        return cls(plus, minus, np.minimum(sizes, up(plus + minus, 4)))

    def between(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first two while s = plus - minus is in [low, high]."""
        room = 1e-12 * (self.plus + self.minus + np.abs(low) + np.abs(high)) + TINY  # for the rounding of all this
        plus = np.minimum(self.minus + high, 0.5 * (self.sizes + high)) + room
        minus = np.minimum(self.plus - low, 0.5 * (self.sizes - low)) + room
        return np.maximum(np.minimum(self.plus, plus), 0.0), np.maximum(np.minimum(self.minus, minus), 0.0)


def _sum(rising: np.ndarray, falling: np.ndarray, bias: np.ndarray, a: Values) -> np.ndarray:
    """sum_i rising_i max(a_i, 0) + falling_i max(-a_i, 0) + bias at most, for every row."""
    n = rising.shape[1]
    largest = np.maximum(rising * np.maximum(a.high, 0.0), falling * np.maximum(-a.low, 0.0))
    found = up(largest.sum(axis=1), n + 4)
    used = np.where(largest > 0, np.maximum(rising, falling), 0.0)
    rows = np.sqrt(up((used**2).sum(axis=1), n + 4)) * (1 + 1e-14)
    at_centre = np.maximum(rising * a.centre, -falling * a.centre).sum(axis=1)
    found = np.minimum(found, up(at_centre + rows * a.spread, n + 8))
    if a.joint is not None:
        found = np.minimum(found, a.joint.most([rising, falling]))
    return up(found + bias, 4)


def affine(layer: DenseLayer, a: Values, largest: float) -> tuple[Values, Terms]:
    """s = W a + b; `largest` bounds |W|_2."""
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
    terms = Terms.of(layer, a)
    low, high = np.maximum(low, -terms.minus), np.minimum(high, terms.plus)
    wide = min((largest * a.spread + norm(slip)) * (1 + 1e-14), norm(np.maximum(high - centre, centre - low)))
    return Values(low, high, centre, wide * (1 + 1e-14)), terms


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
    around = Around.of(layer, a.low, a.high, a.centre, a.spread) if finite else None
    joint = None if around is None else Joint.of(around, [_parts(phi, s, sign) for sign in (1.0, -1.0)])
    return Values(low, high, centre, wide, joint)


def _parts(phi: Activation, s: Values, sign: float) -> tuple[np.ndarray, np.ndarray]:
    """Edges of cells of the interval of every s, (C + 1, H), and what max(sign phi, 0) is on them at most, (C, H)."""
    edges = s.low + (s.high - s.low) * (np.arange(_CELLS + 1)[:, None] / _CELLS)
    edges[-1] = s.high
    least, largest = phi.span(edges[:-1].ravel(), np.maximum(edges[1:], edges[:-1]).ravel())
    return edges, np.maximum(largest if sign > 0 else -least, 0.0).reshape(_CELLS, -1)
