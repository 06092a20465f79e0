"""Bisection trees in preorder, one byte a node, written and read a generation at a time instead of node by node.

A byte is the variable along which a box is halved, LEAF, or OPEN (of a tree that is not finished). Two facts replace
the stack of a reader. Let w(i) be how many sub-trees are still to be read before node i, itself included:

    w(i + 1) = w(i) + 1 after a node that is halved, w(i) - 1 after a leaf;
    the left half of a node i is the node i + 1, its right half the next node j > i with w(j) = w(i),

because below its left half w is larger than w(i), and is back at w(i) when that half has been read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LEAF = 255
OPEN = 254  # a leaf that is not proved yet
_LARGEST_INDEX = 2**60  # the halves of a box have indices that an int64 holds


def written(split: Sequence[int], first_child: Sequence[int], roots: int) -> tuple[bytes, np.ndarray, np.ndarray]:
    """Trees whose roots are the nodes 0 to roots - 1, from the variable (-1: none) and the first child of each node:
    their bytes one after the other, the leaves' nodes in that order, and where each tree ends."""
    dims, first = np.array(split, dtype=np.int64), np.array(first_child, dtype=np.int64)
    generations, nodes = [], np.arange(roots)
    while len(nodes):
        halved = nodes[dims[nodes] >= 0]
        generations.append(halved)
        nodes = np.concatenate([first[halved], first[halved] + 1])
    size = np.ones(len(dims), dtype=np.int64)
    for halved in reversed(generations):
        size[halved] += size[first[halved]] + size[first[halved] + 1]
    ends = np.cumsum(size[:roots])
    place = np.full(len(dims), -1, dtype=np.int64)
    place[:roots] = ends - size[:roots]
    for halved in generations:
        left = first[halved]
        place[left] = place[halved] + 1
        place[left + 1] = place[left] + size[left]
    reached = np.flatnonzero(place >= 0)  # children that an interrupt left without a link are part of no tree
    node_at = np.empty(len(reached), dtype=np.int64)
    node_at[place[reached]] = reached
    in_order = dims[node_at]
    is_leaf = in_order < 0
    return np.where(is_leaf, LEAF, in_order).astype(np.uint8).tobytes(), node_at[is_leaf], ends


def open_boxes(
    tree: bytes, ends: np.ndarray, index: np.ndarray, level: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Indices and levels (n, d) of the boxes that trees of the boxes index, level (roots, d) leave open, in their
    order; None if the bytes are not one complete tree for each root."""
    roots, dim = index.shape
    nodes = np.frombuffer(tree, dtype=np.uint8).astype(np.int64)
    halved = nodes < dim
    starts = np.concatenate([[0], ends[:-1]])
    whole = len(ends) == roots > 0 and bool(np.all(starts < ends)) and int(ends[-1]) == len(nodes)
    if not whole or not bool(np.all(halved | (nodes == LEAF) | (nodes == OPEN))):
        return None
    # w before each node, counted down from no sub-tree left after the last tree
    step = np.where(halved, 1, -1)
    wanted = roots + np.cumsum(step) - step
    left_at = np.append(wanted, roots + int(step.sum()))
    if not np.array_equal(left_at[ends], roots - 1 - np.arange(roots)):
        return None
    if bool(np.any(wanted < np.repeat(roots - np.arange(roots), ends - starts))):  # a tree that ended before its end
        return None
    order = np.argsort(wanted, kind="stable")
    right = np.full(len(nodes), -1, dtype=np.int64)
    right[order[:-1]] = order[1:]
    places, deep = np.zeros((len(nodes), dim), dtype=np.int64), np.zeros((len(nodes), dim), dtype=np.int64)
    places[starts], deep[starts] = index, level
    here = starts[halved[starts]]
    while len(here):
        if int(places[here].max()) >= _LARGEST_INDEX:
            return None
        along, rows = nodes[here], np.arange(len(here))
        below, depth = places[here], deep[here]
        below[rows, along] *= 2
        depth[rows, along] += 1
        places[here + 1], deep[here + 1] = below, depth
        below[rows, along] += 1
        places[right[here]], deep[right[here]] = below, depth
        here = np.concatenate([here + 1, right[here]])
        here = here[halved[here]]
    is_open = nodes == OPEN
    return places[is_open], deep[is_open]


def filled(own: np.ndarray, is_open: np.ndarray, below: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Entries in which the k-th open one is replaced by the next sizes[k] entries of `below`."""
    lengths = np.ones(len(own), dtype=np.int64)
    lengths[is_open] = sizes
    from_below = np.repeat(is_open, lengths)
    out = np.empty(len(from_below), dtype=own.dtype)
    out[from_below] = below
    out[~from_below] = own[~is_open]
    return out
