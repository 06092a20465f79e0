"""Smooth activations that are no softmax of a few tokens: GELU (both forms) and softplus, by affine-valued tokens.

Both are s/2 plus an even function, 0 to the left and s to the right. Tokens sit at centres c_j, evenly spaced on [-R,
R] with spacing h, and have the Gaussian scores (c_j s - c_j^2/2)/w^2, w = r h; the values v_j s + u_j of the inner
ones solve one linear least-squares problem, those of the two edge tokens are the asymptotes 0 and s. Far out an edge
token holds all the weight, up to e^{-(|s| - R) h/w^2}, so the error is small on the whole real line and not on [-R,
R] only. By symmetry v_{-j} = 1 - v_j and u_{-j} = u_j.

R and r are tabulated for each number of tokens; the observed errors beside them are those of a dense check. What is
proved about a table is proved for its very numbers, where it is used (`certify/token_proof.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from softwright.targets.mlp.activations import Activation
from softwright.transpiler.token_table import TokenTable

_SAMPLES = 400
_CUT = 1e-13  # singular values below this share of the largest are left out: values stay near 1


@dataclass(frozen=True)
class Shape:
    """Half range R, width r in spacings, and the largest error seen."""

    reach: float
    ratio: float
    error: float


SHAPES: dict[str, dict[int, Shape]] = {
    "gelu": {
        8: Shape(2.75, 0.9, 1.4e-5),
        12: Shape(5.25, 1.1, 5.1e-8),
        16: Shape(5.75, 1.3, 4.3e-9),
        20: Shape(6.5, 1.4, 6.8e-11),
        24: Shape(9.25, 1.3, 1.8e-12),
    },
    "gelu_tanh": {
        8: Shape(3.75, 0.9, 2.7e-5),
        12: Shape(4.0, 1.0, 3.0e-7),
        16: Shape(4.75, 1.1, 1.5e-8),
        20: Shape(5.0, 1.3, 1.6e-9),
        24: Shape(6.25, 1.3, 4.2e-11),
        28: Shape(7.0, 1.3, 9.3e-13),
    },
    "softplus": {
        8: Shape(5.25, 1.0, 1.5e-5),
        12: Shape(6.25, 1.1, 4.6e-7),
        16: Shape(8.25, 1.1, 3.2e-8),
        20: Shape(4.25, 1.5, 3.6e-9),
        24: Shape(8.0, 1.2, 2.8e-10),
        28: Shape(8.0, 1.3, 1.4e-11),
    },
}


def affine_table(activation: Activation, tokens: int, dtype: str) -> TokenTable:
    """The tokens of GELU, its tanh form, or softplus; for softplus(beta s)/beta keys and offsets are scaled."""
    base = _fitted(activation.name, tokens)
    if activation.name == "softplus" and activation.options["beta"] != 1.0:
        beta = activation.options["beta"]
        base = TokenTable(beta * base.keys, base.biases, base.slopes, base.offsets / beta)
    return base.rounded(dtype)


def token_counts(activation: Activation) -> list[int]:
    """The table sizes there are, coarse to fine."""
    return sorted(SHAPES[activation.name])


def expected_error(activation: Activation, tokens: int) -> float:
    """What a dense check saw (not a bound): decides which table to try first."""
    error = SHAPES[activation.name][tokens].error
    return error / activation.options["beta"] if activation.name == "softplus" else error


@lru_cache(maxsize=32)
def _fitted(name: str, tokens: int) -> TokenTable:
    shape = SHAPES[name][tokens]
    function = Activation(name, (1.0, 1e300) if name == "softplus" else ())
    step = 2 * shape.reach / (tokens - 1)
    places = (np.arange(tokens) - (tokens - 1) / 2) * step  # exactly symmetric
    width = shape.ratio * step
    table = TokenTable(places / width**2, -(places**2) / (2 * width**2), np.zeros(tokens), np.zeros(tokens))
    s = 1.3 * shape.reach * np.cos(np.pi * (np.arange(_SAMPLES) + 0.5) / _SAMPLES)
    weights = table.weights(s)  # (n, p)
    inner, centres = weights[:, 1:-1], places[1:-1]
    design = np.hstack([inner * (s[:, None] - centres), inner])  # values a_j (s - c_j) + f_j are well scaled
    solution = np.linalg.lstsq(design, function(s) - weights[:, -1] * s, rcond=_CUT)[0]
    slopes, offsets = solution[: tokens - 2], solution[tokens - 2 :]
    offsets = offsets - slopes * centres
    slopes = 0.5 + (slopes - slopes[::-1]) / 2
    offsets = (offsets + offsets[::-1]) / 2
    return TokenTable(
        table.keys, table.biases, np.concatenate([[0.0], slopes, [1.0]]), np.concatenate([[0.0], offsets, [0.0]])
    )
