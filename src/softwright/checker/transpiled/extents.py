"""Where the exact numbers of a layer lie while the inputs are anywhere in the box.

An `Extent` has an interval for every number and a ball for all of them, |a - centre|_2 <= radius. W a + b has the ball
of radius |W|_2 radius around W centre + b; phi is steep by L at most, so |phi(s) - phi(0)|_2 <= L |s|_2, unless it
jumps. After an activation an extent remembers `Tangents`: straight lines over max(phi, 0) and over max(-phi, 0), true
on the interval of each s, proved on 512 cells, where phi is between the ends of its span.

`positive_terms` is an upper bound of sum_i max(w_i a_i, 0) for each row w, and so of every partial sum: by intervals;
by the ball, sum_i max(w_i c_i, 0) + |w'|_2 radius, w' the weights of terms that can be positive; and by lines, as sum_i
(w_i^+ upper_i + w_i^- lower_i) is linear in s, so in the numbers one layer before, whose intervals are known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from softwright.checker.limits import check_time
from softwright.checker.transpiled.activations import Activation
from softwright.checker.transpiled.outward import LOST, gamma, length, spectral_norm, up

Array = np.ndarray
SAFE = 1 + 2.0**-50  # a few roundings of single numbers
CELLS = 512
TOGETHER = 1 << 16  # ends of cells that are looked at in one array
WORK = 1 << 31  # products of two matrices beyond which lines are not followed


@dataclass(frozen=True)
class Tangents:
    """upper_j = (slope, height) over max(phi(s_j), 0), lower_j over max(-phi(s_j), 0), and s = weight a + bias."""

    upper: tuple[Array, Array]
    lower: tuple[Array, Array]
    weight: Array
    bias: Array
    before: Extent


@dataclass(frozen=True)
class Extent:
    """See above; `radius` may be infinite."""

    low: Array
    high: Array
    centre: Array
    radius: float
    tangents: Tangents | None = None

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


def positive_terms(weight: Array, bias: Array, extent: Extent) -> Array:
    """sum_i max(w_i a_i, 0) + max(b, 0) at most, for each row."""
    check_time()
    n = weight.shape[1]
    terms = np.maximum(0.0, np.maximum(weight * extent.low, weight * extent.high))
    least = up(terms.sum(axis=1), n)
    lengths = np.sqrt(up(np.where(terms > 0, weight * weight, 0.0).sum(axis=1), n)) * SAFE
    around = up(np.maximum(weight * extent.centre, 0.0).sum(axis=1), n) + lengths * extent.radius
    least = np.minimum(least, around * SAFE)
    tangents = extent.tangents
    if tangents is not None and weight.size * tangents.weight.shape[1] <= WORK:
        least = np.minimum(least, _under_lines(weight, tangents))
    return (least + np.maximum(bias, 0.0)) * SAFE


def _under_lines(weight: Array, tangents: Tangents) -> Array:
    rising, falling = np.clip(weight, 0.0, None), np.clip(-weight, 0.0, None)
    (slope, height), (other, depth) = tangents.upper, tangents.lower
    count, n = tangents.weight.shape
    mixed = rising * slope + falling * other
    fixed = up(rising @ np.clip(height, 0.0, None) + falling @ np.clip(depth, 0.0, None), count + 2)
    rows = mixed @ tangents.weight
    before = tangents.before
    middle = 0.5 * (before.low + before.high)
    half = _farthest(before.low, before.high, middle)
    size = up(np.abs(tangents.weight) @ (np.abs(middle) + half) + np.abs(tangents.bias), n + 2)
    steep = rising * np.abs(slope) + falling * np.abs(other)
    slip = gamma(count + n + 12) * (up(steep @ size, count + 2) + fixed)
    value = rows @ middle + np.abs(rows) @ half + mixed @ tangents.bias
    return np.maximum(value + fixed + slip, 0.0) * SAFE + LOST


def affine_extent(weight: Array, bias: Array, a: Extent) -> tuple[Extent, Array, Array]:
    """W a + b, and its positive and negative terms."""
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
    plus, minus = positive_terms(weight, bias, a), positive_terms(-weight, -bias, a)
    low = np.maximum(np.maximum(value - spread, centre - ball), -minus)
    high = np.minimum(np.minimum(value + spread, centre + ball), plus)
    carried = (spectral_norm(weight) * a.radius + length(wrong)) * SAFE if math.isfinite(a.radius) else math.inf
    return Extent(low, high, centre, min(carried, length(_farthest(low, high, centre)))), plus, minus


def activated_extent(activation: Activation, weight: Array, bias: Array, a: Extent, s: Extent) -> Extent:
    """phi(s), s = W a + b."""
    low, high = activation.span(s.low, s.high)
    zero = np.zeros(1)
    ends = [float(end[0]) for end in activation.span(zero, zero)]
    centre = np.full(len(low), 0.5 * (ends[0] + ends[1]))
    apart = math.sqrt(len(low)) * 0.505 * (ends[1] - ends[0])  # phi(0) may be anywhere between the ends
    steep = math.inf if activation.jumps else activation.slope * (length(s.centre) + s.radius) + apart
    radius = min(steep * SAFE, length(_farthest(low, high, centre)))
    tangents = None
    if np.isfinite(s.low).all() and np.isfinite(s.high).all():
        tangents = Tangents(_line(activation, s, False), _line(activation, s, True), weight, bias, a)
    return Extent(low, high, centre, radius, tangents)


def _line(activation: Activation, s: Extent, downwards: bool) -> tuple[Array, Array]:
    """Slope and height of a line over max(phi, 0), or over max(-phi, 0), between the ends of every s."""

    def top(low: Array, high: Array) -> Array:
        least, most = activation.span(low, high)
        return np.maximum(0.0, -least if downwards else most)

    check_time()
    slope = (top(s.high, s.high) - top(s.low, s.low)) / np.maximum(s.high - s.low, LOST)
    height = np.full(len(slope), -np.inf)
    many = max(1, TOGETHER // max(1, len(slope)))
    for first in range(0, CELLS, many):
        ends = np.arange(first, min(first + many, CELLS) + 1)[:, None]
        edges = np.where(ends == CELLS, s.high, s.low + (s.high - s.low) * (ends / CELLS))  # (cells + 1, neurons)
        left, right = edges[:-1], edges[1:]
        over = top(left, np.maximum(left, right)) - np.minimum(slope * left, slope * right)
        height = np.maximum(height, over.max(axis=0))
    return slope, height + 8 * 2.0**-53 * (np.abs(slope) * s.largest + np.abs(height)) + LOST
