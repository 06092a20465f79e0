"""Activations that are a softmax of a few tokens, exactly or up to a gate of any sharpness.

Tokens are written {score: value}; beta is a power of two, so beta s is not rounded.

    sigmoid       {s: 1, 0: 0}                                             exact
    tanh          {s: 1, -s: -1}                                           exact
    silu          {s: s, 0: 0}                                             exact
    mish          {2s: s, s + ln 2: s, ln 2: 0}                            exact
    identity      {0: s}                                                   exact
    relu          {beta s: s, 0: 0}                                        error <= W0(1/e)/beta < 0.2785/beta
    leaky relu    {beta s: s, 0: a s}                                      |1 - a| times that
    hardtanh      {0: l, beta (s - l): s, beta (2s - l - h): h}            error <= W0(2/e)/beta < 0.4632/beta
    hardsigmoid   the same with the affine piece c s + e in the middle     c times that
    elu           {0: -a, i (s - m): a (e^m - 1) for i = 1..q, beta s: s}

Mish: tanh(log(1 + t)) = (t^2 + 2t)/(t^2 + 2t + 2) with t = e^s.

The gate bounds are those of section 7 of the theory: |l_j - l_*| <= C Delta_j for the pieces l_j at score gap beta
Delta_j (at a clip the far piece differs by h - l, which is less than its gap). For ELU write z = e^{s - m}: for s <=
0 the first q + 1 tokens give -a + a e^s (1 - z^q (1 - z)/(1 - z^{q+1})), so q tokens err by |a| e^{-q m}, and a small
m keeps the scores, whose rounding costs about m units in the last place, small; the gate of the last token splits at
the kink.
"""

from __future__ import annotations

import math

from softwright.targets.mlp.activations import Activation
from softwright.transpiler.token_table import TokenTable

BETA = 2.0**60
ELU_POWERS = 3
ELU_SHIFT = {"float64": 12.25, "float32": 5.75}

# The activations whose tokens are exact: nothing but rounding separates head and activation.
EXACT = frozenset({"identity", "sigmoid", "tanh", "silu", "mish"})
GATES = frozenset({"relu", "leaky_relu", "hardtanh", "hardsigmoid", "elu"})


def exact_table(activation: Activation, dtype: str) -> TokenTable | None:
    """The tokens of an activation, as the dtype stores them; None if it needs fitted tokens (`affine_heads.py`)."""
    table = _table(activation, dtype)
    return None if table is None else table.rounded(dtype)


def _table(activation: Activation, dtype: str) -> TokenTable | None:
    options = activation.options
    match activation.name:
        case "identity":
            return TokenTable.of((0, 0, 1, 0))
        case "relu":
            return TokenTable.of((0, 0, 0, 0), (BETA, 0, 1, 0))
        case "leaky_relu":
            return TokenTable.of((0, 0, options["slope"], 0), (BETA, 0, 1, 0))
        case "silu":
            return TokenTable.of((0, 0, 0, 0), (1, 0, 1, 0))
        case "sigmoid":
            return TokenTable.of((0, 0, 0, 0), (1, 0, 0, 1))
        case "tanh":
            return TokenTable.of((1, 0, 0, 1), (-1, 0, 0, -1))
        case "mish":
            return TokenTable.of((0, math.log(2), 0, 0), (1, math.log(2), 1, 0), (2, 0, 1, 0))
        case "hardtanh":
            return _clip(options["low"], options["high"], 1.0, 0.0, options["low"], options["high"])
        case "hardsigmoid":
            slope, offset = options["slope"], options["offset"]
            return _clip(-offset / slope, (1 - offset) / slope, slope, offset, 0.0, 1.0)
        case "elu":
            alpha, m = options["alpha"], ELU_SHIFT[dtype]
            powers = [(float(i), -i * m, 0.0, alpha * math.expm1(m)) for i in range(1, ELU_POWERS + 1)]
            return TokenTable.of((0, 0, 0, -alpha), *powers, (BETA, 0, 1, 0))
    return None


def _clip(left: float, right: float, slope: float, offset: float, low: float, high: float) -> TokenTable:
    """low for s < left, slope s + offset between, high for s > right."""
    return TokenTable.of(
        (0, 0, 0, low), (BETA, -BETA * left, slope, offset), (2 * BETA, -BETA * (left + right), 0, high)
    )
