"""An interpolation head whose ends are not in the sizes: they are read off where its keys cross.

A head of A1 on [low, high] has p points low + k D, D = (high - low)/p, and neighbours that weigh the same at the
crossings x_k = low + (k + 1/2) D. The first crossing, which float64 stores best, tells the end that is not known:

    low known          D = 2 (x_0 - low)
    high known         D = (high - x_0)/(p - 1/2)
    none, low = -high  high = -x_0 p/(p - 1)

Nothing rests on this choice: how far all crossings are from the points so chosen is `interpolation`'s tau, and whoever
uses the head must show that what it reads stays between the ends, or pay for what does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import arb, fmpq

from softwright.checker.refusal import require
from softwright.checker.theorems.interpolation import Scores, mean_distance, rationals, read_scores


@dataclass(frozen=True)
class Points:
    """p points from `low`, the last D below `high`, and how the stored scores lie to them."""

    low: fmpq
    high: fmpq
    levels: list[fmpq]
    scores: Scores
    beta: fmpq  # half of what a key grows from point to point, in the mean

    @property
    def size(self) -> fmpq:
        return max(abs(self.low), abs(self.high))

    def distance(self) -> arb:
        """The largest mean of |L_k - clip(s, low, high)| over all real s."""
        return mean_distance(self.scores, len(self.levels), arb(0))

    def off(self, values: Sequence[fmpq]) -> arb:
        """How far stored values are from the points."""
        return arb(max(abs(value - level) for value, level in zip(values, self.levels, strict=True)))

    def clip_error(self, values: Sequence[fmpq]) -> arb:
        """How far the head with these values is from clip(s, low, high), for every real s."""
        return self.distance() + self.off(values)


def read_points(ramp: np.ndarray, bias: np.ndarray, low: fmpq | None = None, high: fmpq | None = None) -> Points:
    """The points of scores ramp_k s + bias_k (p,), between ends of which both, one or none are known."""
    p, keys, biases = len(ramp), rationals(ramp), rationals(bias)
    require(p >= 3, "an interpolation head has at least 3 points")
    require(keys[1] > keys[0], "the keys of an interpolation head do not rise")
    first = (biases[0] - biases[1]) / (keys[1] - keys[0])
    if low is None and high is None:
        high = -first * p / (p - 1)
        low = -high
    elif high is None and low is not None:
        high = low + (first - low) * 2 * p
    elif low is None and high is not None:
        low = high - (high - first) * 2 * p / (2 * p - 1)
    if low is None or high is None:
        raise ValueError("both ends are known here")
    require(low < high, "the points of an interpolation head do not rise")
    step = (high - low) / p
    levels = [low + step * k for k in range(p)]
    scores = read_scores(keys, biases, low, step)
    return Points(low, high, levels, scores, (keys[-1] - keys[0]) / (2 * (p - 1)))
