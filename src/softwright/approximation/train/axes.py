"""An axis of a tensor train: where the function is asked along one variable, and the polynomial through these values.

The variable t in [-1, 1] is read through a map t = m_c(u), u in [-1, 1],

    m_c(u) = 2 (e^(c (u + 1) / 2) - 1) / (e^c - 1) - 1,        m_0(u) = u,        m_-c(u) = -m_c(-u),

so that a function of log(t - t_0) with t_0 just below the interval, which needs many nodes in t, needs few in u. Nodes
are Leja points: each new one is where the product of the distances to those before it is largest. They are as good as
Chebyshev points for the degrees used here, and any number of them is contained in the next, so that an axis which turns
out to need another node wastes no query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

MOST_NODES = 40
_MAPS = (3.0, -3.0, 6.0, -6.0, 9.0, -9.0)
_FIRST = 7  # nodes of a line at first
_EASY = 11  # nodes that are no reason to look for a map
_LINE = 21  # nodes of a line that is asked to compare maps


@lru_cache(maxsize=1)
def leja_points() -> np.ndarray:
    """(MOST_NODES,) in [-1, 1], each where the product of distances to those before it is largest."""
    candidates = np.cos(np.pi * np.arange(4001) / 4000)
    found = [1.0, -1.0, 0.0]
    logs = sum(np.log(np.maximum(np.abs(candidates - point), 1e-300)) for point in found)
    while len(found) < MOST_NODES:
        found.append(float(candidates[np.argmax(logs)]))
        logs = logs + np.log(np.maximum(np.abs(candidates - found[-1]), 1e-300))
    return np.array(found)


@lru_cache(maxsize=MOST_NODES)
def coefficients_of(count: int) -> np.ndarray:
    """(count, count): values at the first Leja points -> Chebyshev coefficients of the polynomial through them."""
    return np.linalg.inv(chebyshev(leja_points()[:count], count))


def chebyshev(u: np.ndarray, count: int) -> np.ndarray:
    """(q, count): T_0 ... T_count-1 at u in [-1, 1]."""
    found = np.ones((len(u), count))
    if count > 1:
        found[:, 1] = u
    for k in range(2, count):
        found[:, k] = 2 * u * found[:, k - 1] - found[:, k - 2]
    return found


@dataclass(frozen=True)
class Axis:
    """A map and a number of nodes."""

    nodes: int
    strength: float = 0.0

    def to_map(self, t: np.ndarray) -> np.ndarray:
        """u of t"""
        c = self.strength
        if c == 0:
            return t
        s = np.sign(c)
        return s * (2 / abs(c) * np.log1p((s * t + 1) / 2 * np.expm1(abs(c))) - 1)

    def from_map(self, u: np.ndarray) -> np.ndarray:
        """t of u"""
        c = self.strength
        if c == 0:
            return u
        s = np.sign(c)
        return s * np.clip(2 * np.expm1(abs(c) * (s * u + 1) / 2) / np.expm1(abs(c)) - 1, -1, 1)

    def slope(self, u: np.ndarray) -> np.ndarray:
        """dt/du"""
        c = abs(self.strength)
        return np.ones_like(u) if c == 0 else c * np.exp(c * (np.sign(self.strength) * u + 1) / 2) / np.expm1(c)

    @property
    def places(self) -> np.ndarray:
        """(nodes,) t of the nodes, in the order in which they join."""
        return self.from_map(leja_points()[: self.nodes])

    def columns(self, t: np.ndarray) -> np.ndarray:
        """(q, nodes): Chebyshev polynomials of the mapped variable."""
        return chebyshev(np.clip(self.to_map(t), -1, 1), self.nodes)


def needed(values: np.ndarray, small: float) -> int:
    """How many nodes a polynomial through values (n, lines) at Leja points needs for a tail below `small`."""
    n = len(values)
    sizes = np.abs(coefficients_of(n) @ values).max(axis=1)
    tails = np.append(np.cumsum(sizes[::-1])[::-1], 0.0)  # tails[k]: all coefficients from k on
    return int(np.flatnonzero(tails <= small)[0])


def axis_for(ask: Callable[[np.ndarray], np.ndarray], small: float) -> Axis:
    """The map that needs fewest nodes along a variable; `ask(t) -> (n, lines)` gives values on a few lines."""
    best = (_nodes_for(ask, 0.0, small), 0.0)
    tried = list(_MAPS)
    while best[0] > _EASY and tried:
        strength = tried.pop(0)
        if abs(strength) > abs(_MAPS[0]) and best[1] * strength <= 0:
            continue  # a stronger map of the same side, only where the weaker one helped
        found = _nodes_for(ask, strength, small)
        if found < best[0]:
            best = (found, strength)
    return Axis(int(np.clip(best[0] + 1, 2, _LINE)), best[1])


def _nodes_for(ask: Callable[[np.ndarray], np.ndarray], strength: float, small: float) -> float:
    """How many nodes it takes; where the last coefficients of a line still matter, more than it has, by their size."""
    axis, count = Axis(_LINE, strength), _FIRST
    while True:
        values = ask(axis.from_map(leja_points()[:count]))
        found = needed(values, small)
        if found < count - 1:
            return float(found)
        if count >= _LINE:
            last = float(np.abs(coefficients_of(count)[-2:] @ values).max())
            return MOST_NODES + np.log10(max(last / small, 1.0))
        count = min(count + 5, _LINE)
