"""The largest sum, over neurons, of functions of their own s: each neuron's at the same input, not each at its worst.

Given are functions f_h(s_h) >= 0 of s = W a + b, by steps: f_h <= tops[c] for s_h between edges[c] and edges[c + 1];
and weights r_h >= 0. Write a = p + y, |y|_2 <= radius, y in a box, and s_h = m_h + z_h with m = W p + b as it was
computed, so that z is W y up to `wrong`. With any numbers beta and gamma >= 0, and the height that the steps ask for,

    f_h(s_h) <= height_h + beta_h z_h + gamma_h z_h^2,

    sum_h r_h f_h <= r . height + (W' (r beta)) . y + y . W' diag(r gamma) W y.

The middle term is bounded by the box and by the radius, the last by radius^2 |diag(r gamma)^(1/2) W|_2^2. A straight
line (gamma = 0) needs no radius. Which bowls are good depends on r: with x_h for z_h^2 at the input that matters, that
whose height + gamma x_h is least. x starts where y has no direction, and is then mixed with z^2 along the direction in
which the bowls chosen so rise most; where that changes nothing, no other bowls are better. All of this is choice: what
is added up at the end are upper bounds, whatever was chosen, and the least of several choices is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softwright.checker.limits import check_time
from softwright.checker.transpiled.outward import LOST, UNIT, gamma, spectral_norm, up

Array = np.ndarray
SAFE = 1 + 2.0**-50
LATTICE = 32  # edges among which the slope of a bowl is looked for
BENDS = 2.0 ** (np.arange(-16, 10) / 2)  # gamma, in units of the top over z^2 where y has no direction
ROUNDS, TURNS = (4, 6, 8, 10, 13, 16, 20, 24, 28, 32), 8  # of mixing, where bowls are tried; steps to a direction
DOUBLED = 6  # how often matrices are squared for their norm
FLAT_WORK, BOWL_WORK = 1 << 31, 1 << 32  # products beyond which lines, or bowls, are left out
SMALL_WORK = 1 << 27  # products up to which bowls are tried in every such round, else in each third


@dataclass(frozen=True)
class Bowls:
    """Of one function of every neuron: (height, beta, gamma) for each gamma, (1 + bends, 3, H), the first a line."""

    shapes: Array

    @classmethod
    def over(cls, edges: Array, tops: Array, unit: Array) -> Bowls:
        """`edges` (C + 1, H) of z and `tops` (C, H) >= 0."""
        largest = tops.max(axis=0)
        shapes = []
        for bend in (0.0, *BENDS):
            check_time()
            curve = bend * largest / unit
            beta = _slope_at_zero(edges, tops, curve)
            left, right = edges[:-1], edges[1:]
            bottom = np.clip(-beta / np.where(curve > 0, 2 * curve, 1.0), left, right)
            low = np.minimum(beta * left + curve * left**2, beta * right + curve * right**2)
            low = np.minimum(low, beta * bottom + curve * bottom**2)
            reach = np.maximum(np.abs(edges[0]), np.abs(edges[-1]))
            slip = 64 * UNIT * (largest + np.abs(beta) * reach + curve * reach**2) + LOST
            shapes.append([(tops - low).max(axis=0) + slip, beta, curve])
        return cls(np.array(shapes))

    def line(self) -> Array:
        return self.shapes[0]

    def best(self, squares: Array) -> Array:
        """(3, rows, H): what is least where z^2 is `squares` (rows, H)."""
        least, found = np.full(squares.shape, np.inf), np.zeros((3, *squares.shape))
        for shape in self.shapes[1:]:
            value = shape[0] + shape[2] * squares
            better = value < least
            least = np.minimum(value, least)
            found = np.where(better, shape[:, None], found)
        return found


def _slope_at_zero(edges: Array, tops: Array, curve: Array) -> Array:
    """Of the concave hull of f - gamma z^2 at z = 0, over some edges: that of the chord which is highest there."""
    every = max(1, len(tops) // LATTICE)
    steps = np.concatenate([tops[:1], np.maximum(tops[1:], tops[:-1]), tops[-1:]])
    height, place = (steps - curve * edges**2)[::every], edges[::every]
    zero = np.minimum(np.maximum(place[0], 0.0), place[-1])
    highest, slope = np.full(len(zero), -np.inf), np.zeros(len(zero))
    for i in range(len(place) - 1):
        apart = place[i + 1 :] - place[i]
        rise = (height[i + 1 :] - height[i]) / np.where(apart > 0, apart, 1.0)
        there = height[i] + rise * (zero - place[i])
        there[(apart <= 0) | (place[i] > zero) | (place[i + 1 :] < zero)] = -np.inf
        which = there.argmax(axis=0)
        value, tilt = (np.take_along_axis(x, which[None], axis=0)[0] for x in (there, rise))
        slope = np.where(value > highest, tilt, slope)
        highest = np.maximum(value, highest)
    return slope


@dataclass(frozen=True)
class Together:
    """s = weight a + bias for a = point + y, and bowls over some functions of it."""

    weight: Array
    middle: Array  # of the box of y
    half: Array
    radius: float
    wrong: Array
    bowls: tuple[Bowls, ...]

    @classmethod
    def of(
        cls,
        weight: Array,
        bias: Array,
        box: tuple[Array, Array],
        ball: tuple[Array, float],
        functions: list[tuple[Array, Array]],
    ) -> Together:
        """Each function as edges of s (C + 1, H), rising, and what it is at most between them, (C, H)."""
        (low, high), (point, radius) = box, ball
        left, right = low - point, high - point
        middle = 0.5 * (left + right)
        half = (np.maximum(right - middle, middle - left) + 4 * UNIT * np.maximum(np.abs(left), np.abs(right))) * SAFE
        m = weight @ point + bias
        wrong = gamma(weight.shape[1] + 4) * up(np.abs(weight) @ np.abs(point) + np.abs(bias), weight.shape[1] + 2)
        unit = (weight**2).sum(axis=1) * min(radius, 1e100) ** 2 / weight.shape[1] + LOST
        bowls = tuple(Bowls.over(edges - m, np.maximum(tops, 0.0), unit) for edges, tops in functions)
        return cls(weight, middle, half, radius, wrong + LOST, bowls)

    def largest(self, rows: list[Array]) -> Array:
        """For each row the sum of all functions, the k-th one weighted with rows[k] (rows, H), not negative."""
        check_time()
        count, work = len(rows[0]), len(rows[0]) * self.weight.size
        found = np.full(count, np.inf)
        if work > FLAT_WORK:
            return found
        found = self._added(rows, [bowl.line()[:, None] * np.ones((1, count, 1)) for bowl in self.bowls])
        if work * min(self.weight.shape) > BOWL_WORK or not np.isfinite(self.radius):
            return found
        squares = np.tile((self.weight**2).sum(axis=1) * self.radius**2 / self.weight.shape[1], (count, 1))
        y = np.ones((count, self.weight.shape[1]))
        tried = ROUNDS if work * min(self.weight.shape) <= SMALL_WORK else ROUNDS[::3]
        for number in range(max(tried) + 1):
            check_time()
            chosen = [bowl.best(squares) for bowl in self.bowls]
            if number in tried:
                found = np.fmin(found, self._added(rows, chosen))
            curve = np.sum([row * one[2] for row, one in zip(rows, chosen, strict=True)], axis=0)
            for _ in range(TURNS):
                y = ((y @ self.weight.T) * curve) @ self.weight
                y /= np.linalg.norm(y, axis=1)[:, None] + LOST
            squares += 2 / (number + 3) * ((self.radius * (y @ self.weight.T)) ** 2 - squares)
        return found

    def _added(self, rows: list[Array], chosen: list[Array]) -> Array:
        count = len(rows) * len(self.weight) + len(self.half) + 20
        products = [row * one for row, one in zip(rows, chosen, strict=True)]
        height, beta, curve = np.sum(products, axis=0)
        size, steep, _ = np.sum(np.abs(products), axis=0)
        through = beta @ self.weight
        boxed = through @ self.middle + np.abs(through) @ self.half
        round_ = np.sqrt((through**2).sum(axis=1)) * (1 + gamma(count)) * self.radius
        reach = up(np.abs(self.weight) @ (np.abs(self.middle) + self.half), count)
        value = height.sum(axis=1) + np.fmin(boxed, round_)
        slip = 2 * gamma(count) * (size.sum(axis=1) + steep @ reach) + steep @ self.wrong
        if curve.any():
            norms = np.array([spectral_norm(np.sqrt(row)[:, None] * self.weight, DOUBLED) for row in curve])
            value = value + up((norms * self.radius) ** 2, 4 * count)
            slip = slip + 3 * (curve @ ((reach + self.wrong) * self.wrong))
        total = np.maximum(value + up(2 * slip, count), 0.0) * (1 + 8 * UNIT) + LOST
        return np.where(np.isnan(total), np.inf, total)
