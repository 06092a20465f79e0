"""The bisection tree that proves a bound: preorder bytes, their text form, and the boxes at its leaves.

One byte a node: i in 0..d-1 splits the box along variable i at the midpoint, the lower half first; 255 is a leaf.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Sequence

import numpy as np

from softwright.errors import InvalidInput

LEAF = 255
_LARGEST_TREE = 64 * 2**20  # nodes; a proof with more leaves than this is a mistake or an attack


def encode_tree(tree: bytes) -> str:
    """Preorder bytes -> text for JSON."""
    return base64.b64encode(zlib.compress(tree, 9)).decode("ascii")


def decode_tree(text: str) -> bytes:
    """Text -> preorder bytes; refuses anything that is not exactly one zlib stream of at most 64 MiB."""
    unpacker = zlib.decompressobj()
    try:
        tree = unpacker.decompress(base64.b64decode(text, validate=True), _LARGEST_TREE + 1)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise InvalidInput(
            "Certificate", [f"the proof tree is damaged ({error}); certify the network again"]
        ) from error
    if len(tree) > _LARGEST_TREE:
        raise InvalidInput("Certificate", [f"the proof tree exceeds {_LARGEST_TREE} nodes; prove a smaller domain"])
    if not unpacker.eof or unpacker.unused_data or unpacker.unconsumed_tail:
        raise InvalidInput("Certificate", ["the proof tree is cut short or padded; certify the network again"])
    return tree


def count_leaves(tree: bytes, dim: int) -> int:
    """Leaves of a complete tree over `dim` variables; an `InvalidInput` if the bytes are not exactly one such tree."""
    nodes = np.frombuffer(tree, dtype=np.uint8)
    leaf = nodes == LEAF
    if not np.all(leaf | (nodes < dim)):
        raise InvalidInput("Certificate", [f"the proof tree splits a variable that is not there (dimension {dim})"])
    # open_after[i]: subtrees still owed after node i. A complete preorder owes 0 for the first time at its last node.
    open_after = 1 + np.cumsum(np.where(leaf, -1, 1))
    if len(nodes) == 0 or open_after[-1] != 0 or np.any(open_after[:-1] == 0):
        raise InvalidInput("Certificate", ["the proof tree is not complete; certify the network again"])
    return int(np.count_nonzero(leaf))


def leaf_boxes(
    tree: bytes, lower: Sequence[float], upper: Sequence[float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leaves in preorder as lower corners (n, d), upper corners (n, d) and depths (n,), in float64: for pictures."""
    leaves = count_leaves(tree, len(lower))
    low, high, depth = np.empty((leaves, len(lower))), np.empty((leaves, len(lower))), np.empty(leaves, dtype=int)
    pending = [(np.array(lower, dtype=float), np.array(upper, dtype=float), 0)]
    found = 0
    for node in tree:
        a, b, level = pending.pop()
        if node == LEAF:
            low[found], high[found], depth[found] = a, b, level
            found += 1
            continue
        middle = 0.5 * (a[node] + b[node])
        left, right = b.copy(), a.copy()
        left[node] = right[node] = middle
        pending += [(right, b, level + 1), (a, left, level + 1)]
    return low, high, depth
