"""The tokens of an activation: those of its row where they are exact, fitted ones otherwise.

Softsign has tokens of its own kind (`sides/tokens.py`), and so has GELU in its forms (`gate_tokens.py`). Softplus is
s/2 plus an even function, 0 to the left and s to the right. Tokens sit at centres c_j, evenly spaced on [-R, R] with
spacing h, and have the Gaussian scores (c_j s - c_j^2/2)/w^2, w = r h; the values v_j s + u_j of the inner ones solve
one linear least-squares problem, those of the two edge tokens are the asymptotes 0 and s. Far out an edge token holds
all the weight, up to e^{-(|s| - R) h/w^2}, so the error is small on the whole real line and not on [-R, R] only. By
symmetry v_{-j} = 1 - v_j and u_{-j} = u_j.

R and r stand in the activation's row for each number of tokens. What is proved about a table is proved for its very
numbers, where it is used (`token_proof.py`).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from softwright.targets.mlp import Activation
from softwright.transpiler.gate_tokens import gate_table
from softwright.transpiler.sides.tokens import side_table
from softwright.transpiler.token_table import TokenTable

FINEST = 99
_KEY_STEPS = 1 << 14
_SAMPLES = 400
_CUT = 1e-13  # singular values below this share of the largest are left out: values stay near 1
_MOST_FLOAT32 = {"fitted": 16, "sides": 24}  # finer tokens are no better once they are stored in float32
_USUAL = 1e-3  # parameters that differ by a larger share are not those for which the row's shapes were found
_LOST = 2.0**-24  # an error of a head that rounding of values near 1 hides in float32


def table_for(activation: Activation, dtype: str, fineness: int = FINEST) -> TokenTable:
    """The tokens of one activation, as stored; `fineness` 0 is the coarsest table of a fitted one."""
    table = exact_table(activation, dtype)
    if table is not None:
        return table
    counts = token_counts(activation) if dtype == "float64" else _helpful(activation)
    return fitted_table(activation, counts[min(fineness, len(counts) - 1)], dtype)


@lru_cache(maxsize=64)
def _helpful(activation: Activation) -> list[int]:
    """The sizes that are worth their time in float32: up to the first whose error is lost in rounding."""
    counts = [count for count in token_counts(activation) if count <= _MOST_FLOAT32[activation.row.family]]
    s = np.linspace(-12.0, 12.0, 4001) / activation.rate
    meant = activation.smooth(s) * activation.rate
    for i, count in enumerate(counts):
        table = fitted_table(activation, count, "float64")
        if float(np.abs(table(s) * activation.rate - meant).max()) <= _LOST:
            return counts[: i + 1]
    return counts


def exact_table(activation: Activation, dtype: str) -> TokenTable | None:
    """The tokens of an activation, as the dtype stores them; None if they have to be fitted."""
    tokens = activation.tokens(dtype)
    return None if tokens is None else TokenTable.of(*tokens).rounded(dtype)


def direct_gate(activation: Activation) -> float | None:
    """c if the activation is the head {s: 1, c s: c}, which multiplies by itself (sigmoid 0, tanh -1), else None."""
    table = exact_table(activation, "float64")
    return None if table is None else table.direct_gate


def token_counts(activation: Activation) -> list[int]:
    """The sizes of fitted tables there are, coarse to fine; none where the tokens are exact."""
    return sorted(activation.row.shapes)


def fitted_table(activation: Activation, tokens: int, dtype: str) -> TokenTable:
    """So many tokens fitted to the activation; for base(rate s)/rate keys and offsets are scaled."""
    if activation.row.family == "sides":
        return side_table(activation.row.shapes[tokens], tokens, dtype)
    if activation.row.gate is not None:
        base = activation.base
        given = zip(base.parameters, base.row.parameters.values(), strict=True)
        usual = all(abs(x - y) <= _USUAL * abs(y) for x, y in given)
        return gate_table(base, activation.rate, base.row.shapes[tokens], usual, tokens, dtype)
    table, rate = _fitted(activation.base, tokens), activation.rate
    if rate != 1.0:
        table = TokenTable(rate * table.keys, table.biases, table.slopes, table.offsets / rate)
    stored = table.rounded(dtype)
    right = stored.slopes[(tokens + 1) // 2 :]  # near 1 or between 1/2 and 1: 1 - v is a number of the type as well
    slopes = np.concatenate([1.0 - right[::-1], stored.slopes[len(right) : tokens - len(right)], right])
    return TokenTable(stored.keys, stored.biases, slopes, stored.offsets)


@lru_cache(maxsize=64)
def _fitted(base: Activation, tokens: int) -> TokenTable:
    reach, ratio = base.row.shapes[tokens]
    step = 2 * reach / (tokens - 1)
    places = (np.arange(tokens) - (tokens - 1) / 2) * step  # exactly symmetric
    width = ratio * step
    # Keys are multiples of a number of few digits, so that every type stores them evenly spaced (`closed_softmax.py`).
    spacing = round(step / width**2 * _KEY_STEPS) / _KEY_STEPS
    keys = (np.arange(tokens) - (tokens - 1) / 2) * spacing
    table = TokenTable(keys, -keys * places / 2, np.zeros(tokens), np.zeros(tokens))
    s = 1.3 * reach * np.cos(np.pi * (np.arange(_SAMPLES) + 0.5) / _SAMPLES)
    weights = table.weights(s)  # (n, p)
    inner, centres = weights[:, 1:-1], places[1:-1]
    design = np.hstack([inner * (s[:, None] - centres), inner])  # values a_j (s - c_j) + f_j are well scaled
    solution = np.linalg.lstsq(design, base(s) - weights[:, -1] * s, rcond=_CUT)[0]
    slopes, offsets = solution[: tokens - 2], solution[tokens - 2 :]
    offsets = offsets - slopes * centres
    slopes = 0.5 + (slopes - slopes[::-1]) / 2
    offsets = (offsets + offsets[::-1]) / 2
    return TokenTable(
        table.keys, table.biases, np.concatenate([[0.0], slopes, [1.0]]), np.concatenate([[0.0], offsets, [0.0]])
    )
