"""Errors of a layer's numbers, carried from layer to layer in three ways at once, of which each neuron takes the least.

    error   |a^_i - a_i| <= error_i: through a linear map by |W|
    norm    |a^ - a|_2 <= norm: by |W|_2, and to one neuron by |W_i|_2
    shared  a^ - a = G xi + rest with |xi_k| <= 1: every rounding is a xi of its own, so that what one neuron's error
            does along several paths cancels as the weights do; G goes to W G, rest as above, by `rest` and `rest_norm`

An activation with slopes in [p, q] has phi(s^) - phi(s) = D (s^ - s), p <= D_i <= q, so with the middle m and radius r
of the slopes G goes to m G, and rest to m rest + r (s^ - s).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softwright.proof.arithmetic.directed import gamma, up
from softwright.transpiler.values import norm

_MOST_SHARED = 1 << 20  # entries of G


@dataclass
class Errors:
    """The numbers above; `shared` None: all is in `rest`."""

    error: np.ndarray
    norm: float
    shared: np.ndarray | None
    rest: np.ndarray
    rest_norm: float

    @classmethod
    def of(cls, own: np.ndarray) -> Errors:
        """Errors that nothing is known of but their sizes."""
        zero = np.zeros(len(own))
        if len(own) ** 2 > _MOST_SHARED:
            return cls(own, norm(own), None, own, norm(own))
        return cls(own, norm(own), np.diag(own), zero, 0.0)

    @classmethod
    def none(cls, count: int) -> Errors:
        return cls(np.zeros(count), 0.0, np.zeros((count, 0)), np.zeros(count), 0.0)

    def through(self, weight: np.ndarray, largest: float) -> Errors:
        """W (a^ - a); `largest` bounds |W|_2."""
        if self.norm == 0.0:
            return Errors.none(len(weight))
        size, n = np.abs(weight), weight.shape[1]
        rows = np.sqrt(up((weight**2).sum(axis=1), n + 4)) * (1 + 1e-14)
        error = np.minimum(up(size @ self.error, n + 4), rows * self.norm * (1 + 1e-14))
        rest = np.minimum(up(size @ self.rest, n + 4), rows * self.rest_norm * (1 + 1e-14))
        rest_norm, shared = largest * self.rest_norm * (1 + 1e-14), None
        if self.shared is not None:
            shared = weight @ self.shared
            entries = up(np.abs(self.shared).sum(axis=1), self.shared.shape[1] + 4)
            slip = 2 * gamma(n + 4) * up(size @ entries, n + 4)
            rest, rest_norm = up(rest + slip, 4), (rest_norm + norm(slip)) * (1 + 1e-14)
            error = np.minimum(error, _whole(shared, rest))
        else:
            rest, rest_norm = np.minimum(rest, error), largest * self.norm * (1 + 1e-14)
            error = np.minimum(error, rest)
        return Errors(error, min(norm(error), largest * self.norm * (1 + 1e-14)), shared, rest, rest_norm)

    def sloped(self, least: np.ndarray, most: np.ndarray) -> Errors:
        """D (s^ - s), least <= D <= most."""
        if self.norm == 0.0:
            return self
        slope = np.maximum(np.abs(least), np.abs(most))
        steepest = float(slope.max(initial=0.0))
        error, whole = up(slope * self.error, 4), steepest * self.norm * (1 + 1e-14)
        if self.shared is None:
            rest = up(slope * self.rest, 4)
            rest_norm = min(norm(rest), steepest * self.rest_norm * (1 + 1e-14))
            return Errors(error, min(norm(error), whole), None, rest, rest_norm)
        middle = 0.5 * (least + most)
        radius = np.maximum(most - middle, middle - least) * (1 + 1e-15)
        off = up(radius * self.error, 4)
        off_norm = min(norm(off), float(radius.max(initial=0.0)) * self.norm * (1 + 1e-14))
        shared = middle[:, None] * self.shared
        entries = up(np.abs(shared).sum(axis=1), shared.shape[1] + 4)
        slip = up(2.0**-52 * entries, 4)
        rest = up(np.abs(middle) * self.rest + off + slip, 8)
        kept = float(np.abs(middle).max(initial=0.0)) * self.rest_norm
        rest_norm = (kept + off_norm + norm(slip)) * (1 + 1e-14)
        error = np.minimum(error, _whole(shared, rest))
        return Errors(error, min(norm(error), whole), shared, rest, min(rest_norm, norm(rest)))

    def plus(self, own: np.ndarray) -> Errors:
        """Errors with new ones added."""
        if not own.any():
            return self
        error = up(self.error + own, 4)
        size = min(norm(error), (self.norm + norm(own)) * (1 + 1e-14))
        if self.shared is None or len(own) * (self.shared.shape[1] + len(own)) > _MOST_SHARED:
            return Errors(error, size, None, error, size)
        shared = np.concatenate([self.shared, np.diag(own)], axis=1)
        return Errors(error, size, shared, self.rest, self.rest_norm)


def _whole(shared: np.ndarray, rest: np.ndarray) -> np.ndarray:
    return up(np.abs(shared).sum(axis=1) + rest, shared.shape[1] + 8)
