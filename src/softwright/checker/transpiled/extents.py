"""Where the exact numbers of a layer lie while the inputs are anywhere in the box.

An `Extent` has an interval for every number and a ball for all of them, |a - centre|_2 <= radius. W a + b has the ball
of radius |W|_2 radius around W centre + b; phi is steep by L at most, so |phi(s) - phi(0)|_2 <= L |s|_2, unless it
jumps. After an activation an extent remembers what max(phi, 0) and max(-phi, 0) are at most on 512 cells of the
interval of each s, where phi is between the ends of its span, for sums of all neurons at one input (`together.py`).

`sizes` is an upper bound of sum_i (p_i max(a_i, 0) + q_i max(-a_i, 0)) for rows p, q >= 0: by intervals; by the ball,
which adds |w'|_2 radius to what it is at the centre, w' the weights that count; and at one input. With the positive and
negative weights for p and q, or the other way round, no partial sum is larger, and with both for both it is the sum of
the sizes of all terms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from softwright.checker.limits import check_time
from softwright.checker.transpiled.activations import Activation
from softwright.checker.transpiled.outward import LOST, UNIT, gamma, length, spectral_norm, up
from softwright.checker.transpiled.together import Together

Array = np.ndarray
SAFE = 1 + 2.0**-50  # a few roundings of single numbers
CELLS = 512


@dataclass(frozen=True)
class Extent:
    """See above; `radius` may be infinite."""

    low: Array
    high: Array
    centre: Array
    radius: float
    sums: Together | None = None  # of max(a, 0) and max(-a, 0)

    @classmethod
    def of(cls, low: Array, high: Array) -> Extent:
        """A box, and the ball around it."""
        centre = 0.5 * (low + high)
        return cls(low, high, centre, length(_farthest(low, high, centre)))

    @property
    def largest(self) -> Array:
        return np.maximum(np.abs(self.low), np.abs(self.high))


def _farthest(low: Array, high: Array, point: Array) -> Array:
    return np.maximum(np.maximum(high - point, point - low), 0.0) * SAFE


def sizes(rising: Array, falling: Array, bias: Array, extent: Extent) -> Array:
    """sum_i rising_i max(a_i, 0) + falling_i max(-a_i, 0) + bias at most, for each row."""
    check_time()
    n, low, high, centre = rising.shape[1], extent.low, extent.high, extent.centre
    terms = np.maximum(rising * np.clip(high, 0.0, None), falling * np.clip(-low, 0.0, None))
    least = up(terms.sum(axis=1), n)
    used = np.where(terms > 0, np.maximum(rising, falling), 0.0)
    lengths = np.sqrt(up((used * used).sum(axis=1), n)) * SAFE
    there = rising @ np.clip(centre, 0.0, None) + falling @ np.clip(-centre, 0.0, None)
    least = np.minimum(least, (up(there, 2 * n) + lengths * extent.radius) * SAFE)
    if extent.sums is not None:
        least = np.minimum(least, extent.sums.largest([rising, falling]))
    return (least + bias) * SAFE


@dataclass(frozen=True)
class Terms:
    """At most: the sums of positive and of negative terms of each s, and of the sizes of all."""

    plus: Array
    minus: Array
    all: Array

    @classmethod
    def of(cls, weight: Array, bias: Array, a: Extent) -> Terms:
        rising, falling = np.clip(weight, 0.0, None), np.clip(-weight, 0.0, None)
        plus = sizes(rising, falling, np.clip(bias, 0.0, None), a)
        minus = sizes(falling, rising, np.clip(-bias, 0.0, None), a)
        both = sizes(np.abs(weight), np.abs(weight), np.abs(bias), a)
        return cls(plus, minus, np.minimum(both, (plus + minus) * SAFE))

    def within(self, left: Array, right: Array) -> tuple[Array, Array]:
        """Positive and negative terms while s, their difference, is between these: each is the other and s, and half
        of the sum of both and of s."""
        room = 64 * UNIT * (self.plus + self.minus + np.abs(left) + np.abs(right)) + LOST
        rising = np.minimum(self.minus + right, (self.all + right) / 2) + room
        falling = np.minimum(self.plus - left, (self.all - left) / 2) + room
        return np.clip(np.minimum(self.plus, rising), 0.0, None), np.clip(np.minimum(self.minus, falling), 0.0, None)


def affine_extent(weight: Array, bias: Array, a: Extent) -> tuple[Extent, Terms]:
    """W a + b, and its terms."""
    n, size = weight.shape[1], np.abs(weight)
    middle = 0.5 * (a.low + a.high)
    half = _farthest(a.low, a.high, middle)
    slip = gamma(n + 4) * up(size @ (np.abs(middle) + half) + np.abs(bias), n + 2)
    spread = up(size @ half, n) + slip
    value = weight @ middle + bias
    centre = weight @ a.centre + bias
    wrong = gamma(n + 4) * up(size @ np.abs(a.centre) + np.abs(bias), n + 2)
    lengths = np.sqrt(up((weight * weight).sum(axis=1), n)) * SAFE
    ball = (lengths * a.radius + wrong) * SAFE
    terms = Terms.of(weight, bias, a)
    low = np.maximum(np.maximum(value - spread, centre - ball), -terms.minus)
    high = np.minimum(np.minimum(value + spread, centre + ball), terms.plus)
    carried = (spectral_norm(weight) * a.radius + length(wrong)) * SAFE if math.isfinite(a.radius) else math.inf
    return Extent(low, high, centre, min(carried, length(_farthest(low, high, centre)))), terms


def activated_extent(activation: Activation, weight: Array, bias: Array, a: Extent, s: Extent) -> Extent:
    """phi(s), s = W a + b."""
    low, high = activation.span(s.low, s.high)
    zero = np.zeros(1)
    ends = [float(end[0]) for end in activation.span(zero, zero)]
    centre = np.full(len(low), 0.5 * (ends[0] + ends[1]))
    apart = math.sqrt(len(low)) * 0.505 * (ends[1] - ends[0])  # phi(0) may be anywhere between the ends
    steep = math.inf if activation.jumps else activation.slope * (length(s.centre) + s.radius) + apart
    radius = min(steep * SAFE, length(_farthest(low, high, centre)))
    sums = None
    if np.isfinite(s.low).all() and np.isfinite(s.high).all():
        edges, least, most = _cells(activation, s)
        parts = [(edges, most), (edges, -least)]
        sums = Together.of(weight, bias, (a.low, a.high), (a.centre, a.radius), parts)
    return Extent(low, high, centre, radius, sums)


def _cells(activation: Activation, s: Extent) -> tuple[Array, Array, Array]:
    """Edges between the ends of every s, (CELLS + 1, neurons), and the span of phi between them."""
    parts = np.arange(CELLS + 1)[:, None]
    edges = np.where(parts == CELLS, s.high, s.low + (s.high - s.low) * (parts / CELLS))
    check_time()
    least, most = activation.span(edges[:-1], np.maximum(edges[1:], edges[:-1]))
    return edges, least, most
