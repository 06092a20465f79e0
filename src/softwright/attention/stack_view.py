"""The attention of a stack on one sequence: in every layer and head, which tokens each token reads.

Tokens are called after their segment and their place in it, "data 3". A head compares queries with keys, so x of its
`HeadView` is the query of the row that asks.
"""

from __future__ import annotations

import numpy as np
import torch

from softwright.attention.stack import AttentionStack, Stream
from softwright.attention.view import AttentionView, HeadView, check_size
from softwright.errors import InvalidInput


@torch.no_grad()
def view_of_stack(stack: AttentionStack, stream: Stream, *, rows: str) -> AttentionView:
    """The heads of all layers that update the segment `rows`, as its tokens see them."""
    if next(iter(stream.values())).shape[0] != 1:
        raise InvalidInput("attention", ["give one sequence at a time, without a leading axis"])
    views: list[HeadView] = []
    for position, state in enumerate(stack.states(stream)):
        if position == stack.depth:
            break
        layer = stack.layer_at(position)
        if rows not in layer.rows:
            continue
        asking = state[rows][0].double()  # (T, D)
        names = [f"{name} {i}" for name in layer.keys for i in range(state[name].shape[1])]
        read = torch.cat([state[name][0] for name in layer.keys]).double()  # (S, D)
        check_size(len(asking), len(names) * layer.heads)
        for h in range(layer.heads):
            queries, keys, values = (
                (tokens @ matrix[h].double()).numpy()
                for tokens, matrix in ((asking, layer.Wq), (read, layer.Wk), (read, layer.Wv))
            )
            label = f" ({layer.label})" if layer.label else ""
            name = f"layer {position + 1}{label}, head {h + 1}"
            views.append(HeadView.of(name, names, queries, keys, np.zeros(len(keys)), values))
    return AttentionView([f"{rows} {i}" for i in range(stream[rows].shape[1])], views)
