"""The tree of blocks compiled by numba (extra `fast`): one point after the other.

The same bounds and tokens as in `tree.py`. Scores of a block are taken together, four at a time in the processor. From
all of them the largest score of the first block is subtracted; when a later block exceeds it by more than 50, sums so
far are multiplied by an exp, so that nothing overflows and that happens rarely.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from softwright.attention.window_numba import kernels

_MORE = 50.0


@cache
def tree_kernel() -> Any:
    """Compiled at the first call."""
    import numba  # pyright: ignore[reportMissingImports]

    exp_of, dot = kernels()[2]

    @numba.njit(nogil=True, fastmath={"contract"})
    def bounded(
        tau: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        level: np.ndarray,
        gamma: float,
        base: float,
        into: np.ndarray,
    ) -> int:
        """U of boxes (d, n), into an array (n,); the place of the largest."""
        into[:] = 0.0
        for i in range(len(tau)):
            x, a, b = tau[i], low[i], high[i]
            for k in range(len(into)):
                y = max(a[k] - x, x - b[k], 0.0)
                into[k] += y * y
        best = 0
        for k in range(len(into)):
            into[k] = base + level[k] - gamma * into[k]
            if into[k] > into[best]:
                best = k
        return best

    @numba.njit(nogil=True, fastmath={"contract"})
    def scored(t: np.ndarray, keys: np.ndarray, biases: np.ndarray, into: np.ndarray) -> None:
        into[:] = biases
        for i in range(len(t)):
            x, k = t[i], keys[i]
            for j in range(len(into)):
                into[j] += x * k[j]

    @numba.njit(nogil=True, fastmath={"nnan", "nsz"})  # a maximum in any order
    def highest(s: np.ndarray) -> float:
        m = s[0]
        for j in range(len(s)):
            m = max(m, s[j])
        return m

    @numba.njit(nogil=True)
    def weigh(s: np.ndarray, shift: float) -> None:
        for j in range(len(s)):
            s[j] = exp_of(s[j] - shift)

    @numba.njit(nogil=True)
    def run(
        t: np.ndarray,
        keys: np.ndarray,
        biases: np.ndarray,
        table: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        level: np.ndarray,
        group_low: np.ndarray,
        group_high: np.ndarray,
        group_level: np.ndarray,
        origin: np.ndarray,
        gamma: float,
        depth: float,
        out: np.ndarray,
    ) -> None:
        groups, each = level.shape
        width, n = table.shape[1], keys.shape[2]
        of_groups, of_blocks, s, ones = np.empty(groups), np.empty(each), np.empty(n), np.ones(n)
        sums, tau = np.empty(width), np.empty(t.shape[1])
        for q in range(len(t)):
            base = 0.0
            for i in range(len(tau)):
                tau[i] = (t[q, i] + origin[i]) / (2.0 * gamma)
                base += gamma * (tau[i] * tau[i])
            best = bounded(tau, group_low, group_high, group_level, gamma, base, of_groups)
            shift = most = -np.inf
            total = 0.0
            sums[:] = 0.0
            for place in range(-1, groups):
                g = best if place < 0 else place
                if (place == best) or of_groups[g] < most - depth:
                    continue
                inner = bounded(tau, low[g], high[g], level[g], gamma, base, of_blocks)
                for other in range(-1, each):
                    f = inner if other < 0 else other
                    if (other == inner) or of_blocks[f] < most - depth:
                        continue
                    b = g * each + f
                    scored(t[q], keys[b], biases[b], s)
                    found = highest(s)
                    if found > shift + _MORE:
                        if shift > -np.inf:
                            factor = exp_of(shift - found)
                            total *= factor
                            sums *= factor
                        shift = found
                    most = max(most, found)
                    weigh(s, shift)
                    total += dot(s, ones)
                    for c in range(width):
                        sums[c] += dot(s, table[b, c])
            for c in range(width):
                out[q, c] = sums[c] / total

    return run
