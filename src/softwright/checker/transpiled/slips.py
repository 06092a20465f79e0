"""How far the numbers of a layer that runs are from the exact ones, and how that goes on to the next layer.

Three descriptions are kept of a^ - a, all true at once:

    each     |a^_i - a_i| <= each_i
    norm     |a^ - a|_2 <= norm
    common   a^ - a = C t + r, |t_k| <= 1, |r_i| <= left_i, |r|_2 <= left_norm: the entries of t are roundings, each of
             which reaches several neurons, so that W C keeps what cancels

A linear map sends `each` to |W| each or |W_i|_2 norm, C to W C and r likewise. For an activation, phi(s^) - phi(s) =
D (s^ - s) with D diagonal, p_i <= D_i <= q_i, and D = m + (D - m), m = (p + q)/2: m C t + m r + (D - m)(s^ - s), whose
last part is at most (q - p)/2 times `each`, and in norm at most the largest (q - p)/2 times `norm`. New errors are new
columns of C. Where C would be large it is given up, and everything is `left`. Columns of one layer are largest at some
input each, and `layers` remembers what they are at one input together (`together.py`). `behind` keeps C and the slopes
for the next linear map, which reaches each output through all slopes at once (`crossing.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from softwright.checker.transpiled.crossing import crossed, fits, shares
from softwright.checker.transpiled.outward import LOST, UNIT, gamma, length, product, spectral_norm, up
from softwright.checker.transpiled.together import Together

Array = np.ndarray
SAFE = 1 + 2.0**-50
ENTRIES = 1 << 20  # of C


@dataclass(frozen=True)
class AtOnce:
    """What roundings of a layer are at one input: sums of parts of their sizes, and of squares of these parts."""

    parts: Together
    squares: Together


@dataclass(frozen=True)
class Behind:
    """Of a^ - a = d (C t) + r, behind slopes d within `half` of `middle`: C, and sizes of r."""

    middle: Array
    half: Array
    common: Array
    left: Array


@dataclass(frozen=True)
class Slips:
    """The three descriptions; `common` None where nothing is."""

    each: Array
    norm: float
    common: Array | None
    left: Array
    left_norm: float
    layers: tuple[tuple[int, AtOnce | None], ...] = ()  # columns of C each, and their parts at one input
    behind: Behind | None = None  # after an activation

    @classmethod
    def of(cls, each: Array) -> Slips:
        """Errors of these sizes, one cause for each."""
        if len(each) ** 2 > ENTRIES:
            return cls(each, length(each), None, each, length(each))
        return cls(each, length(each), np.diag(each), np.zeros(len(each)), 0.0, ((len(each), None),))

    @classmethod
    def nothing(cls, count: int) -> Slips:
        return cls(np.zeros(count), 0.0, np.zeros((count, 0)), np.zeros(count), 0.0)

    def mapped(self, weight: Array) -> Slips:
        """W (a^ - a)."""
        if not self.each.any():
            return Slips.nothing(len(weight))
        size, n = np.abs(weight), weight.shape[1]
        rows, whole = np.sqrt(up((weight**2).sum(axis=1), n)) * SAFE, spectral_norm(weight)
        each = np.minimum(product(size, self.each), rows * self.norm * SAFE)
        norm = whole * self.norm * SAFE
        if self.common is None:
            return Slips(each, min(norm, length(each)), None, each, min(norm, length(each)))
        common = weight @ self.common
        wrong = gamma(n + 2) * product(size, _row_sums(self.common))
        left = (np.minimum(product(size, self.left), rows * self.left_norm * SAFE) + wrong) * SAFE
        left_norm = min((whole * self.left_norm + length(wrong)) * SAFE, length(left))
        each = np.minimum(each, (self._at_once(common) + left) * SAFE)
        if self.behind is not None:
            each = np.minimum(each, self._crossing(weight, common, wrong, self.behind))
        return Slips(each, min(norm, length(each)), common, left, left_norm, self.layers)

    def _crossing(self, weight: Array, common: Array, wrong: Array, behind: Behind) -> Array:
        """W (a^ - a), slopes and roundings taken together (`crossing.py`)."""
        outputs, (rows, columns) = len(weight), behind.common.shape
        if not fits(outputs, rows, columns):
            return np.full(outputs, np.inf)
        rest = self._at_once(common[:, columns:], columns) + product(np.abs(weight), behind.left) + wrong
        found = np.empty(outputs)
        for i, own in enumerate(weight):
            matrix = np.vstack([common[i, :columns], (own * behind.half)[:, None] * behind.common])
            if not np.isfinite(matrix).all():
                return np.full(outputs, np.inf)
            a, b = shares(matrix)
            squares = 0.0
            for part, at_once in self._layers((b**2)[None]):
                most = float(_row_sums(part)[0])
                known = most if at_once is None else float(at_once.squares.largest([part])[0])
                squares += min(most, known)
            found[i] = crossed(matrix, a, b, squares * SAFE)
        return _up((found + rest) * SAFE)

    def bent(self, least: Array, most: Array) -> Slips:
        """D (s^ - s), least <= D <= most."""
        if not self.each.any():
            return self
        steep = np.maximum(np.abs(least), np.abs(most))
        each, norm = _up(steep * self.each), float(steep.max()) * self.norm * SAFE
        if self.common is None:
            return Slips(each, min(norm, length(each)), None, each, min(norm, length(each)))
        middle = 0.5 * (least + most)
        half = np.maximum(most - middle, middle - least) * SAFE
        common = middle[:, None] * self.common
        aside, wrong = half * self.each * SAFE, 2 * UNIT * _row_sums(common)
        left = _up(np.abs(middle) * self.left + aside + wrong)
        kept = float(np.abs(middle).max()) * self.left_norm + length(wrong)
        left_norm = (kept + min(length(aside), float(half.max()) * self.norm * SAFE)) * SAFE
        each = np.minimum(each, _up(self._at_once(common) + left))
        behind = Behind(middle, half, self.common, _up(steep * self.left + wrong))
        return Slips(each, min(norm, length(each)), common, left, min(left_norm, length(left)), self.layers, behind)

    def with_own(self, own: Array, at_once: AtOnce | None = None) -> Slips:
        """Besides, what the layer adds itself, and the parts of it at one input."""
        if not own.any():
            return self
        each = _up(self.each + own)
        norm = min(length(each), (self.norm + length(own)) * SAFE)
        if self.common is None or len(own) * (self.common.shape[1] + len(own)) > ENTRIES:
            return Slips(each, norm, None, each, norm)
        layers, common = (*self.layers, (len(own), at_once)), np.hstack([self.common, np.diag(own)])
        return Slips(each, norm, common, self.left, self.left_norm, layers, self.behind)

    def _at_once(self, common: Array, start: int = 0) -> Array:
        """sum_k |C_ik|, each layer's part at one input; of the columns from `start` on."""
        found = np.zeros(len(common))
        for part, at_once in self._layers(np.abs(common), start):
            most = _row_sums(part)
            found = found + (most if at_once is None else np.minimum(most, at_once.parts.largest([part])))
        return up(found, len(self.layers) + 2)

    def _layers(self, columns: Array, start: int = 0) -> Iterator[tuple[Array, AtOnce | None]]:
        """Columns layer by layer, where the first of them is number `start`."""
        number = 0
        for count, at_once in self.layers:
            if start <= number < start + columns.shape[1]:
                yield columns[:, number - start : number - start + count], at_once
            number += count


def _row_sums(matrix: Array) -> Array:
    """sum_k |C_ik|, rounded up."""
    return up(np.abs(matrix).sum(axis=1), matrix.shape[1]) if matrix.shape[1] else np.zeros(len(matrix))


def _up(error: Array) -> Array:
    return np.where(error > 0, error * SAFE + LOST, 0.0)
