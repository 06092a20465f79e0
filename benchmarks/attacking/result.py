"""What one network of a family brought, and tools that families share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from flint import arb

from softwright.attention.network import AttentionNetwork


@dataclass(frozen=True)
class Result:
    """`share` is the largest certain error over its bound; `claims` false ones were made, `proved` of them believed."""

    share: float
    claims: int = 0
    proved: int = 0
    what: str = ""


def ball_values(network: AttentionNetwork, x: np.ndarray) -> list[arb]:
    """The outputs at one point, of the stored numbers, in balls."""
    center, scale = (tensor.double().numpy() for tensor in (network.center, network.scale))
    t = [(arb(float(a)) - arb(float(c))) * arb(float(s)) for a, c, s in zip(x, center, scale, strict=True)]
    total = [arb(0)] * network.outputs
    for head in network.heads():
        scores = [
            sum((arb(float(k)) * one for k, one in zip(row, t, strict=True)), arb(float(b)))
            for row, b in zip(head.keys, head.biases, strict=True)
        ]
        top = arb(max(float(score.mid()) for score in scores))
        weights = [(s - top).exp() for s in scores]
        whole = sum(weights, arb(0))
        for o in range(network.outputs):
            values = [arb(float(v)) for v in head.values[:, o]]
            if head.slopes is not None:
                values = [
                    v + sum((arb(float(g)) * one for g, one in zip(row, t, strict=True)), arb(0))
                    for v, row in zip(values, head.slopes[:, o], strict=True)
                ]
            total[o] = total[o] + sum((w * v for w, v in zip(weights, values, strict=True)), arb(0)) / whole
    return total


def climb(
    error: Callable[[np.ndarray], np.ndarray], start: np.ndarray, low: np.ndarray, high: np.ndarray, rng, first: float
) -> np.ndarray:
    """The best point of a walk uphill from the best of some, in steps that shrink from `first` of the box."""
    best = start[np.argsort(-error(start))[:6]]
    step = first * (high - low)
    for _ in range(36):
        moves = np.clip(best[:, None] + step * rng.normal(size=(len(best), 16, len(low))), low, high)
        both = np.concatenate([best, moves.reshape(-1, len(low))])
        best = both[np.argsort(-error(both))[:6]]
        step = 0.7 * step
    return best[0]
