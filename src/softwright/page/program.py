"""The page of a sequence program: a sequence is typed or dragged, and every head's pattern and writing can be seen.

The whole network runs in the page on the sequence shown: embedding by place and field, the bank of fixed tokens, all
layers with their causal heads, and the outputs. Columns of the stream and heads are called what the plan calls them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from softwright.attention.program import BANK, DATA, ProgramNetwork
from softwright.page.content import Content, sparse
from softwright.precision import name_of

if TYPE_CHECKING:
    from softwright.attention.stack import StackLayer
    from softwright.result.built import Built

MOST_NUMBERS = 300_000  # nonzero weights that a page runs
MOST_TOKENS = 96  # of a sequence in a page: every head draws its pattern
_START, _SEED = 10, 4


def content(built: Built[Any]) -> Content:
    network: ProgramNetwork = built.network
    title = str(built.target.get("text", "program")).replace("\n", "; ")
    layers = f"{network.depth} layer(s) of softmax attention, {network.heads} head(s)"
    headline = f"{layers}, {network.fixed_tokens} fixed tokens"
    places = network.places[:MOST_TOKENS]
    numbers = sum(int((tensor != 0).sum()) for tensor in (*_weights(network), places))
    if numbers > MOST_NUMBERS or network.tokens["length"][0] > MOST_TOKENS:
        return Content(title, f"{headline}; too many numbers for a page to run")
    data = {
        "float32": name_of(network.dtype) == "float32",
        "width": network.width,
        "length": [int(network.tokens["length"][0]), min(network.longest, MOST_TOKENS)],
        "longest": network.longest,
        "fields": [_field(network, field) for field in network.fields],
        "symbols": list(network.symbols),
        "outputs": list(network.outputs),
        "columns": [name.partition(": ")[2] or name for name in network.slots],
        "bank": sparse(network.get_buffer(f"base_{BANK}")),
        "base": sparse(network.get_buffer(f"base_{DATA}")),
        "places": sparse(places),
        "layers": [_layer(layer) for layer in network.distinct],
        "program": network.program,
        "causal": network.causal,
        "read": sparse(network.read),
        "says": _says(built, network),
        "start": _start(network),
    }
    return Content(title, headline, ("program.html",), ("tokens.js", "program.js"), data)


def _weights(network: ProgramNetwork) -> list[torch.Tensor]:
    return [tensor for name, tensor in network.state_dict().items() if name != "places"]


def _field(network: ProgramNetwork, field: dict[str, Any]) -> dict[str, Any]:
    """A field with the rows of its embedding; of symbols the numbers that its own vocabulary has."""
    own = {"name": field["name"], "kind": field["kind"], "rows": sparse(network.get_buffer(f"field_{field['name']}"))}
    if field["kind"] == "symbol":
        codes = [network.symbols.index(symbol) for symbol in field["symbols"]]
        return {**own, "low": 0, "high": len(network.symbols) - 1, "codes": codes}
    low, high = (0, 1) if field["kind"] == "truth" else (field["low"], field["high"])
    return {**own, "low": low, "high": high}


def _layer(layer: StackLayer) -> list[dict[str, Any]]:
    return [{name: sparse(getattr(layer, name)[h]) for name in ("Wq", "Wk", "Wv", "Wo")} for h in range(layer.heads)]


def _says(built: Built[Any], network: ProgramNetwork) -> list[list[str]]:
    """What the plan says of the heads of every layer; empty texts where it is silent."""
    said: list[list[str]] = [[] for _ in range(network.depth)]
    for head in built.plan.heads if built.plan is not None else ():
        place = int(head.get("layer", 0)) - 1
        if 0 <= place < network.depth:
            said[place].append(": ".join(str(head[name]) for name in ("computes", "values") if head.get(name)))
    sizes = [network.distinct[place].heads for place in network.program]
    return [(texts + [""] * size)[:size] for texts, size in zip(said, sizes, strict=True)]


def _start(network: ProgramNetwork) -> dict[str, list[float]]:
    """A sequence to begin with."""
    generator = np.random.default_rng(_SEED)
    shortest, longest = network.tokens["length"]
    length = min(max(_START, shortest), longest, MOST_TOKENS)
    found: dict[str, list[float]] = {}
    for field in network.fields:
        if field["kind"] == "real":
            drawn = generator.uniform(field["low"], field["high"], length).astype(np.float32)
            found[field["name"]] = np.clip(np.round(drawn.astype(float), 3), field["low"], field["high"]).tolist()
        elif field["kind"] == "symbol":
            codes = [network.symbols.index(symbol) for symbol in field["symbols"]]
            found[field["name"]] = generator.permutation(np.resize(codes, length)).astype(float).tolist()
        else:
            low, high = int(field.get("low", 0)), int(field.get("high", 1))
            found[field["name"]] = generator.integers(low, high + 1, length).astype(float).tolist()
    return found
