"""The page of a formula compiled into a stack: its diagram, every column at a point, and every head layer by layer.

The weights travel sparse, as (row, column, value): most of a head's matrices are zero. Fixed tokens that a table leaves
out, by keys that no score survives, are left out here as `ComposedNetwork.forward` leaves them out of a gate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from softwright.attention.composition import BANK, DATA, ComposedNetwork
from softwright.attention.stack import StackLayer
from softwright.page.content import Content, numbers, sparse
from softwright.page.explored import explored
from softwright.page.formula import tape_of_text

if TYPE_CHECKING:
    from softwright.result.built import Built


def content(built: Built[Any]) -> Content:
    network: ComposedNetwork = built.network
    return Content(
        title=str(built.target.get("text", "a formula")),
        headline=f"{network.depth} layers of softmax attention, {network.heads} heads, {network.tokens} tokens",
        fragments=("stack.html", "explore.html"),
        scripts=("formula.js", "stack.js", "composition.js", "explore.js"),
        data={
            **explored(built, network.box, network.outputs),
            "features": _features(network),
            **weights(network),
        },
    )


def weights(network: ComposedNetwork) -> dict[str, Any]:
    """The entries that assets/stack.js evaluates: a stack on its data token."""
    bank, places = network.get_buffer(f"base_{BANK}"), zip(range(network.depth), network.tables, strict=True)
    return {
        "embed": sparse(network.get_buffer(f"embed_{DATA}")),
        "base": numbers(network.get_buffer(f"base_{DATA}")[0]),
        "layers": [_layer(network.layer_at(position), count, bank) for position, count in places],
        "read": sparse(network.read),
    }


def _features(network: ComposedNetwork) -> list[dict[str, Any]]:
    """Every named column: its text, and its formula in the inputs and the features before it."""
    inputs = len(network.names)
    found: list[dict[str, Any]] = [{"text": "1", "name": "1", "tape": None}]
    found += [{"text": name, "name": name, "tape": None} for name in network.names]
    names = list(network.names)
    for text in network.features[1 + inputs :]:
        name, _, meaning = text.partition(" = ")
        found.append({"text": text, "name": name, "tape": tape_of_text(meaning, tuple(names)) if meaning else None})
        names.append(name)
    return found


def _layer(layer: StackLayer, tables: int, bank: torch.Tensor) -> list[dict[str, Any]]:
    return [_table(layer, h, bank) if h < tables else _gate(layer, h, bank[0]) for h in range(layer.heads)]


def _table(layer: StackLayer, h: int, bank: torch.Tensor) -> dict[str, Any]:
    keys, values = bank @ layer.Wk[h], bank @ layer.Wv[h]  # (T, k), (T, v)
    far = (values == 0).all(dim=1) & (keys[:, 1:] <= -1024).any(dim=1) & (keys[:, 0] == 0)
    kept = ~far if bool((~far).any()) else torch.ones_like(far)
    return {
        "query": sparse(layer.Wq[h]),
        "width": keys.shape[1],
        "keys": numbers(keys[kept]),
        "values": numbers(values[kept]),
        "out": sparse(layer.Wo[h]),
    }


def _gate(layer: StackLayer, h: int, null: torch.Tensor) -> dict[str, Any]:
    return {
        "query": sparse(layer.Wq[h]),
        "key": sparse(layer.Wk[h]),
        "value": sparse(layer.Wv[h]),
        "nullKey": numbers(null @ layer.Wk[h]),
        "nullValue": numbers(null @ layer.Wv[h]),
        "out": sparse(layer.Wo[h]),
    }
