"""The proof of a table: a head of one variable t in [-1, 1] against its function there, by the prover of all heads.

What runs in the stack is what `AttentionNetwork` runs on the box [-1, 1]: the query (t, 1), keys (k_j, b_j), values
v_j; its centre is 0 and its scale 1, so the change to its frame rounds nothing. Other fixed tokens get a weight that
underflows to exactly 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from softwright.attention import AttentionNetwork, Head
from softwright.compiler.nodes import Expression, Node, number, substitute
from softwright.compiler.tables import Table
from softwright.domain import Box
from softwright.precision import Precision
from softwright.proof import certify

_LEAF = 255  # of a stored tree
_NEXT_TO_NOTHING = 2.0**-40
_WORK, _BOXES, _TIGHTNESS = 5.0, 4000, 0.3


@dataclass(frozen=True)
class TableProof:
    """|what runs - F(t)| <= exact + rounding on [-1, 1]; infinite without a proof, and then without a tree."""

    exact: float
    rounding: float
    order: int = 0
    tree: bytes | None = None


def prove_table(table: Table, output: int, function: Node, bound: float, precision: Precision) -> TableProof:
    """One output of a table against its function, a tree in t."""
    head = Head(table.keys[:, None], table.biases, table.values[:, output : output + 1])
    network = AttentionNetwork([head], Box(t=(-1.0, 1.0)), precision.torch_dtype)
    return _proof(network, function, bound)


def prove_halves(
    table: Table, output: int, function: Node, side: int, bound: float, precision: Precision
) -> TableProof:
    """The same for a function that is singular at 0: from there to either end, so that boxes shrink towards 0.

    `function` is a tree in the distance `t` on the side where it is not constant. The halves are those of t and -t in
    [0, 1]; in the frame of a network on that interval, measured from 0, coordinates are doubled, keys are halved. The
    tree of [-1, 1] is halved at 0 first, and on the left stands a mirror image.
    """
    found: list[TableProof] = []
    for half in (-1, 1):
        head = Head((0.5 * half * table.keys)[:, None], table.biases, table.values[:, output : output + 1])
        network = AttentionNetwork([head], Box(t=(0.0, 1.0)), precision.torch_dtype, origin=[-1.0])
        found.append(_proof(network, function if half == side else substitute(function, {"t": number(0)}), bound))
    left, right = found
    if left.tree is None or right.tree is None:
        return TableProof(math.inf, 0.0)
    tree = bytes([0]) + _mirrored(left.tree) + right.tree
    exact, rounding = max(left.exact, right.exact), max(left.rounding, right.rounding)
    return TableProof(exact, rounding, max(left.order, right.order), tree)


def _proof(network: AttentionNetwork, function: Node, bound: float) -> TableProof:
    target = Expression.from_nodes([function], ("t",))
    answer = certify(network, target, bound=bound, max_work=_WORK, max_boxes=_BOXES, progress=False)
    if answer.certificate is None:  # what can be proved instead is worth knowing: the next round asks for less
        answer = certify(network, target, tightness=_TIGHTNESS, max_work=_WORK, max_boxes=_BOXES, progress=False)
    certificate = answer.certificate or answer.weaker
    if certificate is None or not isinstance(certificate.tree, bytes):
        return TableProof(math.inf, 0.0)
    # What rounding does to values next to nothing is far below what others can show of it.
    rounding = max(certificate.rounding_part, _NEXT_TO_NOTHING * certificate.exact_part)
    return TableProof(certificate.exact_part, rounding, certificate.order, certificate.tree)


def _mirrored(tree: bytes) -> bytes:
    """The tree of a mirror image: in preorder, with the two halves of every box changed over."""
    whole: list[bytes] = []
    for node in reversed(tree):  # backwards, the halves of a box are at hand when the box is met
        if node == _LEAF:
            whole.append(bytes([node]))
        else:
            first, second = whole.pop(), whole.pop()
            whole.append(bytes([node]) + second + first)
    return whole[0]
