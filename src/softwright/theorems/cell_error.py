"""The L_p error of a head of cells against an integrable function, enclosed from both sides (theorems B3 and B4).

`theorems.lp_integral` integrates |g - f|^p adaptively from ranges of g - f. Ranges of f come from the formula. For g,
on a box with centre c and half sides r (unit frame), let * lead at c, d_j = s_j(c) - s_*(c) and rho_j = |k_j - k_*|.r.
Relative to token *, the weight of token j lies in [E-, E+] = e^{d_j -+ (rho_j + eta_j)}, eta_j the rounding of d_j.
With a_j = v_j - v_*,

    g - v_* = sum_j a_j E_j / (1 + sum_i E_i),

and each term is monotone in its own weight and in those of the others, so with the sums over the tokens other than *

    g - v_* <= sum_{a_j > 0} a_j E+_j/(1 + E+_j + sum_{i != j} E-_i)
             + sum_{a_j < 0} a_j E-_j/(1 + E-_j + sum_{i != j} E+_i)

and the other way round from below; g never leaves [min v, max v]. What is enclosed is the head in real arithmetic with
the weights as stored. Nothing here is sampled.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from softwright.precision import FLOAT64
from softwright.theorems.integrable import Integrable, cell_edges
from softwright.theorems.tools.cell_attention import Cells
from softwright.theorems.tools.lp_integral import Enclosed, enclose_norm

_U = FLOAT64.unit
_MOST_ENTRIES = 2_000_000  # boxes times tokens at once
_LARGEST = 600.0  # exponents are cut off here, which only widens


def head_ranges(cells: Cells) -> Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Boxes (n, m), (n, m) of the input space -> the range of the head's one output on each: (n,), (n,)."""
    keys, biases, values = cells.keys, cells.biases, cells.values[:, 0]
    terms = keys.shape[1] + 4

    def some(lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        slack = 8.0 * _U * (np.maximum(np.abs(lower), np.abs(upper)) + np.abs(cells.centre)) / cells.half
        low = (lower - cells.centre) / cells.half - slack
        high = (upper - cells.centre) / cells.half + slack
        middle, radius = 0.5 * (low + high), 0.5 * (high - low) * (1.0 + 1e-12) + 1e-300  # (n, m)
        scores = middle @ keys.T + biases  # (n, N)
        sizes = np.abs(middle) @ np.abs(keys).T + np.abs(biases)
        lead = scores.argmax(axis=1)
        rows = np.arange(len(lead))
        behind = scores - scores[rows, lead][:, None]
        spread = np.zeros_like(scores)
        for i in range(keys.shape[1]):
            spread += np.abs(keys[:, i] - keys[lead, i][:, None]) * radius[:, i : i + 1]
        spread = spread * (1.0 + 1e-12) + 4.0 * terms * _U * (sizes + sizes[rows, lead][:, None] + np.abs(behind))
        most = np.exp(np.clip(behind + spread, -_LARGEST, _LARGEST)) * (1.0 + 1e-13)
        least = np.exp(np.clip(behind - spread, -_LARGEST, _LARGEST)) * (1.0 - 1e-13)
        least = np.where(behind - spread < -_LARGEST, 0.0, least)
        most[rows, lead] = least[rows, lead] = 0.0
        all_most, all_least = most.sum(axis=1)[:, None], least.sum(axis=1)[:, None]
        # Sums of N terms, differences of nearly equal ones included, are off by at most N u of the largest.
        error = 4.0 * keys.shape[0] * _U
        strong = most / (1.0 + most + np.maximum(all_least - least - error * all_least, 0.0))
        weak = least / (1.0 + least + (all_most - most) + error * all_most)
        ahead = values[None, :] - values[lead][:, None]
        up, down = np.maximum(ahead, 0.0), np.minimum(ahead, 0.0)
        grow = 1.0 + error
        top = (up * strong).sum(axis=1) * grow + (down * weak).sum(axis=1) / grow
        bottom = (down * strong).sum(axis=1) * grow + (up * weak).sum(axis=1) / grow
        size = 4.0 * _U * np.abs(values).max()
        g_low = np.maximum(values[lead] + bottom - size, values.min() - size)
        g_high = np.minimum(values[lead] + top + size, values.max() + size)
        return g_low, g_high

    def ranges(lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        count = max(1, _MOST_ENTRIES // len(keys))
        parts = [some(lower[i : i + count], upper[i : i + count]) for i in range(0, len(lower), count)]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    return ranges


def enclose_lp_error(
    cells: Cells, target: Integrable, p: float, *, tolerance: float = 0.02, most_boxes: int = 60_000
) -> Enclosed:
    """lower <= |g - f|_p <= upper for the head of the cells and the target, by adaptive integration."""
    head = head_ranges(cells)
    per_axis = round(len(cells.keys) ** (1.0 / target.box.dim))
    lower, upper = cell_edges(per_axis, target.box)

    def ranges(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        g_low, g_high = head(low, high)
        f_low, f_high = target.ranges(low, high)
        r_low = g_low - f_high - 1e-15 * (np.abs(g_low) + np.abs(f_high))
        r_high = g_high - f_low + 1e-15 * (np.abs(g_high) + np.abs(f_low))
        return r_low, r_high

    others = float(np.abs(cells.values).max())
    return enclose_norm(
        ranges, lower, upper, p, singularity=target.singularity, others=others, tolerance=tolerance,
        absolute=1e-6 * max(others, 1e-300), most_boxes=most_boxes,
    )  # fmt: skip
