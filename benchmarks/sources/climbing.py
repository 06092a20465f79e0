"""A search for the largest deviation of a network from its source."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

_STARTS = 48


def climbed(network: nn.Module, source: Any, low: np.ndarray, high: np.ndarray, steps: int, seed: int) -> np.ndarray:
    """Points (n, d) of the range: the starts, and where climbing ended; steps shrink to a millionth of the range."""
    rng = np.random.default_rng(seed)
    d = len(low)
    x = low + (high - low) * rng.uniform(size=(_STARTS, d))
    x[: _STARTS // 4] = np.where(rng.random((_STARTS // 4, d)) < 0.5, low, high)
    kind = next(t.dtype for t in network.state_dict().values() if t.is_floating_point())

    def deviation(points: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            own = network(torch.from_numpy(points).to(kind)).double().numpy()
        return np.abs(own - source(points)).max(axis=1)

    def stored(points: np.ndarray) -> np.ndarray:
        if kind == torch.float64:
            return points
        rounded = points.astype(np.float32)
        rounded = np.where(rounded < low, np.nextafter(rounded, np.float32(np.inf)), rounded)
        return np.where(rounded > high, np.nextafter(rounded, np.float32(-np.inf)), rounded).astype(np.float64)

    x = stored(x)
    tried, best = [x], deviation(x)
    for step in np.geomspace(0.5, 1e-6, steps):
        moved = x + step * (high - low) * rng.normal(size=x.shape) * (rng.random(x.shape) < max(0.1, 2 / d))
        moved = stored(np.clip(moved, low, high))
        found = deviation(moved)
        better = found > best
        x, best = np.where(better[:, None], moved, x), np.where(better, found, best)
    return np.concatenate([*tried, x])
