"""Sup error of fitted tokens against their activation, on the whole real line, for the very numbers stored; that of
softsign's is in `sides/proof.py`, that of GELU's in `gate_proof.py`.

On [-L, L], L = 64 (64/rate for base(rate s)/rate) rounded up to a power of two, the Taylor-model prover bounds
|g - phi|, phi without its jump; scaling the tokens by a power of two is exact. Beyond L the edge token e at that end
has the activation's asymptote as its value, 0 or s, and

    |g(s) - phi(s)| <= sum_{j != e} e^{(k_j - k_e) s + b_j - b_e} (|v_j - v_e| |s| + |u_j - u_e|)
                       + |phi(s) - asymptote|.

Each term falls in |s| once |k_j - k_e| |s| >= 1, which is checked, so its value at L bounds the tail. The asymptote:
|base(s) - max(s, 0)| <= e^{-|s|} for |s| >= 8, which every fitted row promises.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from softwright.attention import AttentionNetwork, Head
from softwright.domain import Box
from softwright.errors import SoftwrightError
from softwright.proof.prover import certify
from softwright.targets.mlp import Activation
from softwright.transpiler.gate_proof import is_gate, proved_gate_error
from softwright.transpiler.sides.proof import proved_side_error
from softwright.transpiler.token_table import TokenTable

_REACH = 64.0


def proved_error(activation: Activation, table: TokenTable) -> float:
    """sup over all real s of |g(s) - phi(s)|, an upper bound."""
    return _proved(activation, table.stacked.tobytes(), table.tokens)


@lru_cache(maxsize=64)
def _proved(activation: Activation, content: bytes, tokens: int) -> float:
    table = TokenTable(*np.frombuffer(content, dtype=np.float64).reshape(4, tokens))
    gate = activation.row.gate
    if gate is not None and is_gate(table):
        return proved_gate_error(lambda s: gate(s, *activation.parameters), activation.rate, table)
    if activation.row.family == "sides":
        return proved_side_error(table) * (1 + 1e-12)
    rate = activation.rate
    reach = 2.0 ** math.ceil(math.log2(_REACH / rate))
    head = Head(
        (table.keys * reach)[:, None],
        table.biases,
        table.offsets[:, None],
        (table.slopes * reach)[:, None, None],
    )
    network = AttentionNetwork([head], Box(x=(-reach, reach)))
    found = certify(network, activation.smooth.formula, tightness=0.1, max_work=20.0)
    if found.certificate is None:
        raise SoftwrightError(f"the tokens of {activation} could not be proved ({found.status}); please report this")
    return (found.certificate.exact_part + tail_bound(table, reach, rate)) * (1 + 1e-12)


def tail_bound(table: TokenTable, reach: float, rate: float = 1.0) -> float:
    """What the error beyond +-reach can be at most; infinity if the tokens do not decay there."""
    total = 0.0
    for sign, edge, slope in ((-1.0, int(table.keys.argmin()), 0.0), (1.0, int(table.keys.argmax()), 1.0)):
        if table.slopes[edge] != slope or table.offsets[edge] != 0.0:
            return math.inf
        others = np.arange(table.tokens) != edge
        decay = sign * (table.keys[edge] - table.keys[others])  # > 0
        if np.any(decay * reach < 1.0):
            return math.inf
        logs = -decay * reach + table.biases[others] - table.biases[edge]
        sizes = np.abs(table.slopes[others] - slope) * reach + np.abs(table.offsets[others])
        total = max(total, float((np.exp(logs) * sizes).sum()))
    return 2.0 * total + math.exp(-rate * reach) / rate * 2.0  # twice: rounding of this evaluation
