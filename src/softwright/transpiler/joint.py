"""What functions of several neurons come to together, at one input of the box.

Wanted is an upper bound of sum_h r_h g_h(s_h), r >= 0, s = W a + b, for all a there can be; each g_h >= 0 is known
by what it is at most on cells of the range of its s. The sum of their maxima lets every neuron be at its worst, which
no input does. So each g_h gets a parabola above it,

    g_h(s) <= alpha_h + beta_h z + gamma_h z^2,     z = s - t_h,  t = W c + b,  gamma_h >= 0,

c the centre of a ball that a is in, and with y = a - c, whose z is W y, the sum is at most

    sum_h r_h alpha_h + (sum_h r_h beta_h W_h) y + |diag(r gamma)^(1/2) W y|^2.

In the second term weights cancel before the box of a or |y|_2 <= spread is used. The third is at most spread^2 times
the square of a spectral norm: neurons whose weights differ cannot all be far from t.

Every choice of parabolas is a bound; alpha is what the cells ask for. Of lines (gamma = 0) the one is taken that is
least at t. Curves are chosen for each r apart: neuron h takes that for which alpha + gamma q_h is least, q_h a guess of
z_h^2 at the worst input, and the guess is moved towards where these curves have their largest sum, at spread times the
first eigenvector of W' diag(r gamma) W, again and again (Frank and Wolfe's method for the dual problem, which looks for
the second moments of y at which parabolas cannot be improved).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softwright.proof.arithmetic.directed import TINY, U, gamma, up
from softwright.targets.mlp import DenseLayer
from softwright.transpiler.norms import spectral_norm

_COARSE = 32  # edges of cells by which slopes are chosen
_CURVES = tuple(2.0 ** (k / 2) for k in range(-16, 9))  # tried: gamma times the mean of z^2, beside the largest g
_MOVES, _POWERS = 20, 6  # of guesses, and steps to an eigenvector for each
_SQUARED = 6  # the largest singular values are about the same where guesses are good
_ROOM = 1.01  # a second proof chooses otherwise, and may lie a little higher
_LARGEST_LINES = 1 << 31  # multiplications that a bound by lines is worth
_LARGEST_PARABOLAS = 1 << 31


@dataclass(frozen=True)
class Around:
    """The numbers y = a - c before a layer: |y_i - middle_i| <= radius_i and |y|_2 <= spread; t as it was computed,
    and how far that is off at most."""

    layer: DenseLayer
    middle: np.ndarray
    radius: np.ndarray
    spread: float
    t: np.ndarray
    slip: np.ndarray

    @classmethod
    def of(cls, layer: DenseLayer, low: np.ndarray, high: np.ndarray, centre: np.ndarray, spread: float) -> Around:
        left, right = low - centre, high - centre
        middle = 0.5 * (left + right)
        radius = np.maximum(right - middle, middle - left) + 4 * U * np.maximum(np.abs(left), np.abs(right))
        t = layer.weight @ centre + layer.bias
        size = np.abs(layer.weight) @ np.abs(centre) + np.abs(layer.bias)
        return cls(layer, middle, radius, spread, t, 2 * gamma(layer.inputs + 4) * size + TINY)

    @property
    def far(self) -> np.ndarray:
        """Largest |z|."""
        return np.abs(self.layer.weight) @ (np.abs(self.middle) + self.radius)

    @property
    def square(self) -> np.ndarray:
        """z^2 where y has no direction."""
        return (self.layer.weight**2).sum(axis=1) * min(self.spread, 1e100) ** 2 / self.layer.inputs + TINY


@dataclass(frozen=True)
class Joint:
    """Above K functions of each neuron: lines (K, 2, H), and parabolas (K, number, 3, H)."""

    around: Around
    lines: np.ndarray
    parabolas: np.ndarray

    @classmethod
    def of(cls, around: Around, functions: list[tuple[np.ndarray, np.ndarray]]) -> Joint:
        """Of each function the edges of its cells, (C + 1, H), increasing, and what it is on them at most, (C, H)."""
        lines, parabolas = [], []
        for edges, most in functions:
            z, top = edges - around.t, np.maximum(most, 0.0)
            unit = top.max(axis=0) / around.square
            lines.append(_above(z, top, 0.0 * unit)[:2])
            parabolas.append([_above(z, top, curve * unit) for curve in _CURVES])
        return cls(around, np.array(lines), np.array(parabolas))

    def most(self, rows: list[np.ndarray]) -> np.ndarray:
        """(m,): bounds of sum_k sum_h rows_k[i, h] g_kh(s_h), each of `rows` (m, H) and not negative."""
        weight = self.around.layer.weight
        entries = len(rows[0]) * weight.size
        if entries > _LARGEST_LINES:
            return np.full(len(rows[0]), np.inf)
        none = np.zeros_like(rows[0])
        found = self._summed(rows, [(*line, none) for line in self.lines])
        if entries * min(weight.shape) <= _LARGEST_PARABOLAS and np.isfinite(self.around.spread):
            found = np.fmin(found, self._summed(rows, self._chosen(rows)))
        return np.where(np.isnan(found), np.inf, found)

    def _chosen(self, rows: list[np.ndarray]) -> list[tuple[np.ndarray, ...]]:
        """Parabolas for every row, (m, H) each."""
        around, weight = self.around, self.around.layer.weight
        guess = np.repeat(around.square[None], len(rows[0]), axis=0)
        direction = np.ones((len(guess), around.layer.inputs))
        for move in range(_MOVES):
            curve = sum(row * one[2] for row, one in zip(rows, self._at(guess), strict=True))
            for _ in range(_POWERS):
                direction = (curve * (direction @ weight.T)) @ weight
                direction /= np.sqrt((direction**2).sum(axis=1, keepdims=True)) + TINY
            guess = guess + 2 / (move + 3) * ((around.spread * (direction @ weight.T)) ** 2 - guess)
        return self._at(np.maximum(guess, 0.0))

    def _at(self, guess: np.ndarray) -> list[tuple[np.ndarray, ...]]:
        found = []
        for parabolas in self.parabolas:
            best = np.zeros(guess.shape, dtype=int)
            value = np.full(guess.shape, np.inf)
            for number, (alpha, _, bent) in enumerate(parabolas):
                mean = alpha + bent * guess
                best, value = np.where(mean < value, number, best), np.minimum(mean, value)
            found.append(tuple(parabolas[:, part][best, np.arange(guess.shape[1])] for part in range(3)))
        return found

    def _summed(self, rows: list[np.ndarray], above: list[tuple[np.ndarray, ...]]) -> np.ndarray:
        around, weight = self.around, self.around.layer.weight
        terms = len(rows) * len(weight) + weight.shape[1] + 16
        products = [[row * part for part in one] for row, one in zip(rows, above, strict=True)]
        fixed, tilt, bent = np.sum(products, axis=0)  # (m, H) each
        size, steep, _ = np.sum(np.abs(products), axis=0)
        through = tilt @ weight
        along = np.sqrt((through**2).sum(axis=1)) * (1 + gamma(terms)) * around.spread
        found = fixed.sum(axis=1) + np.fmin(through @ around.middle + np.abs(through) @ around.radius, along)
        slip = 4 * gamma(terms) * (size.sum(axis=1) + steep @ around.far) + steep @ around.slip
        if bent.any():
            norms = np.array([spectral_norm(np.sqrt(row)[:, None] * weight, _SQUARED) for row in bent])
            found = found + up((norms * around.spread) ** 2, 4 * terms)
            slip = slip + bent @ (3 * (around.far + around.slip) * around.slip)
        return np.maximum(found + up(slip, terms), 0.0) * _ROOM + TINY


def _above(z: np.ndarray, top: np.ndarray, bent: np.ndarray) -> np.ndarray:
    """(3, H): alpha, beta and gamma of the parabola of this gamma above each function that is least at z = 0, cells
    between the edges z."""
    beta = _tilt(z, top, bent)
    vertex = np.where(bent > 0, -beta / (2 * np.where(bent > 0, bent, 1.0)), np.inf)
    inside = np.clip(vertex, z[:-1], z[1:])
    straight = np.minimum(beta * z[:-1], beta * z[1:])
    lowest = np.where(bent > 0, beta * inside + bent * inside**2, straight)
    far = np.maximum(np.abs(z[0]), np.abs(z[-1]))
    size = np.abs(beta) * far + bent * far**2 + top.max(axis=0)
    return np.array([(top - lowest).max(axis=0) + 1e-14 * size + TINY, beta, bent])


def _tilt(z: np.ndarray, top: np.ndarray, bent: np.ndarray) -> np.ndarray:
    """The slope of the lowest line at z = 0 above g - gamma z^2, at some of the edges: of a side of their hull."""
    step = max(1, len(top) // _COARSE)
    height = (np.maximum(np.pad(top, ((0, 1), (0, 0))), np.pad(top, ((1, 0), (0, 0)))) - bent * z**2)[::step]
    z = z[::step]
    middle = np.clip(0.0, z[0], z[-1])
    width = z[None] - z[:, None]  # (i, j, H)
    sides = (width > 0) & (z[:, None] <= middle) & (middle <= z[None])
    slope = (height[None] - height[:, None]) / np.where(sides, width, 1.0)
    at = np.where(sides, height[:, None] + slope * (middle - z[:, None]), -np.inf).reshape(-1, z.shape[1])
    return slope.reshape(at.shape)[at.argmax(axis=0), np.arange(z.shape[1])]
