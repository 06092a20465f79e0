"""The proof of a table: a head of one variable t in [-1, 1] against its function there, by the prover of all heads.

What runs in the stack is what `AttentionNetwork` runs on the box [-1, 1]: the query (t, 1), keys (k_j, b_j), values
v_j; its centre is 0 and its scale 1, so the change to its frame rounds nothing. Other fixed tokens get a weight that
underflows to exactly 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from softwright.attention import AttentionNetwork, Head
from softwright.compiler.nodes import Expression, Node
from softwright.compiler.tables import Table
from softwright.domain import Box
from softwright.precision import Precision
from softwright.proof import certify
from softwright.result.certificate import Certificate

_WORK, _BOXES, _TIGHTNESS = 5.0, 4000, 0.3


@dataclass(frozen=True)
class TableProof:
    """|what runs - F(t)| <= exact + rounding on [-1, 1]; infinite without a certificate."""

    exact: float
    rounding: float
    certificate: Certificate | None


def prove_table(table: Table, output: int, function: Node, bound: float, precision: Precision) -> TableProof:
    """One output of a table against its function, a tree in t."""
    head = Head(table.keys[:, None], table.biases, table.values[:, output : output + 1])
    network = AttentionNetwork([head], Box(t=(-1.0, 1.0)), precision.torch_dtype)
    target = Expression.from_nodes([function], ("t",))
    answer = certify(network, target, bound=bound, max_work=_WORK, max_boxes=_BOXES, progress=False)
    if answer.certificate is None:  # what can be proved instead is worth knowing: the next round asks for less
        answer = certify(network, target, tightness=_TIGHTNESS, max_work=_WORK, max_boxes=_BOXES, progress=False)
    certificate = answer.certificate or answer.weaker
    if certificate is None:
        return TableProof(math.inf, 0.0, None)
    return TableProof(certificate.exact_part, certificate.rounding_part, certificate)
