"""The tokens of GELU in its forms, phi(s) = s Phi(s), where Phi rises from 0 to 1 and Phi(s) + Phi(-s) = 1.

A token's value is v_j s with a constant v_j: the head is s times a mean of constants that is near Phi, so that nothing
cancels in it, and to the left, where phi vanishes, what rounding does to it vanishes too. Keys are evenly spaced and
symmetric, k_j = (j - (p - 1)/2) D, and so are biases,

    b_j = -c k_j^2/2 (1 + q (k_j/k_max)^2),

scores of Gaussians around c k_j for q = 0. By symmetry v_{-j} = 1 - v_j; the outermost values are 0 and 1, so that far
out the head is the asymptote, up to e^{-D (|s| - c k_max)}. The others solve a linear least-squares problem over a grid
of s >= 0, whose points are weighed anew after each of a few rounds by the errors there (Lawson), until the largest is
about as small as it can be. Keys and biases are rounded before, values after it, from the outermost inwards, each time
with what is left solved again.

D, c and q stand in the activation's row for each number of tokens. With p tokens the error falls like e^{-p} about.
Where a graph gives GELU constants of its own, so that its gate is another function than that of the row, D and c are
varied, and of those with values below 2 and a closed form (`closed_softmax.py`) the nearest are taken.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import product

import numpy as np

from softwright.transpiler.closed_softmax import EvenTokens
from softwright.transpiler.token_table import TokenTable

_DIGITS = 12  # of D, in bits: its odd multiples are numbers of every type, evenly spaced (`closed_softmax.py`)
_NEAR, _FAR = 8.0, 40.0  # the grid is fine up to the first and ends at the second
_POINTS = 300, 60
_ROUNDS, _LEAST, _POWER = 20, 1e-3, 0.6
_CUT = 1e-15  # singular values below this share of the largest are left out
_SPACINGS, _WIDTHS = (1.3, 1.0, 0.8, 0.65, 0.5), (0.6, 1.0)

Base = Callable[[np.ndarray], np.ndarray]


@lru_cache(maxsize=64)
def gate_table(base: Base, rate: float, shape: tuple[float, ...], usual: bool, tokens: int, dtype: str) -> TokenTable:
    """So many tokens, an even number, fitted to base(rate s)/rate, as the dtype stores them; `shape` holds D, c and q,
    which were found for this base if it is the usual one."""
    spacing, width, flatter = shape
    factors = [(1.0, 1.0)] if usual else product(_SPACINGS, _WIDTHS)
    tables = [_table(base, rate, (spacing * x, width * y, flatter), tokens, dtype) for x, y in factors]
    if len(tables) == 1:
        return tables[0]
    s = np.linspace(0.0, _FAR, 10 * _POINTS[0])
    good = [table for table in tables if np.abs(table.slopes).max() < 2.0 and EvenTokens.of(table.stacked) is not None]
    return min(good or tables, key=lambda table: float(np.abs(table(s / rate) * rate - base(s)).max()))


def _table(base: Base, rate: float, shape: tuple[float, float, float], tokens: int, dtype: str) -> TokenTable:
    spacing, width, flatter = shape
    fraction, exponent = np.frexp(spacing * rate)
    step = float(np.ldexp(np.round(np.ldexp(fraction, _DIGITS)), int(exponent) - _DIGITS))
    keys = (np.arange(tokens) - (tokens - 1) / 2) * step
    own = keys / rate
    biases = -width / 2 * own**2 * (1 + flatter * (own / own[-1]) ** 2)
    biases = biases.astype(dtype).astype(np.float64)
    right = _values(base, own, biases, np.dtype(dtype))
    slopes = np.concatenate([1.0 - right[::-1], right])  # 1 - v is a number of the type as well
    return TokenTable(keys, biases, slopes, np.zeros(tokens))


def _values(base: Base, keys: np.ndarray, biases: np.ndarray, kind: np.dtype) -> np.ndarray:
    """Those of the right half, from the middle outwards."""
    s = np.concatenate([np.linspace(0.0, _NEAR, _POINTS[0]), np.linspace(_NEAR, _FAR, _POINTS[1] + 1)[1:]])
    scores = s[:, None] * keys + biases
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    half = len(keys) // 2
    design = s[:, None] * (weights[:, half:] - weights[:, :half][:, ::-1])  # of v_j - 1/2
    found = np.full(half, 0.5)
    meant = base(s) - 0.5 * s
    for outermost in range(half - 1, 0, -1):
        meant = meant - design[:, outermost] * found[outermost]
        found[:outermost] = _fitted(design[:, :outermost], meant)
        found[outermost - 1] = _rounded(0.5 + found[outermost - 1], kind) - 0.5
    return 0.5 + found


def _rounded(value: float, kind: np.dtype) -> float:
    """A number near it that the type holds, as it does 1 minus it."""
    digits = np.finfo(kind).nmant + 1
    last = 2.0 ** (np.ceil(np.log2(max(abs(value), abs(1.0 - value)))) - digits)
    return float(np.round(value / last) * last)


def _fitted(design: np.ndarray, meant: np.ndarray) -> np.ndarray:
    """The solution of design x = meant whose largest error is about the smallest."""
    shares, least, found = np.ones(len(meant)), np.inf, np.zeros(design.shape[1])
    for _ in range(_ROUNDS):
        roots = np.sqrt(shares)
        values = np.linalg.lstsq(design * roots[:, None], meant * roots, rcond=_CUT)[0]
        errors = np.abs(design @ values - meant)
        largest = float(errors.max())
        if largest < least:
            least, found = largest, values
        shares = shares * (errors / largest + _LEAST) ** _POWER
    return found
