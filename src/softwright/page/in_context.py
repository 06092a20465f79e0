"""The page of a stack that fits a model in context: a prompt of points to drag, and the fit after every layer.

The whole stack runs in the page on the prompt shown: the tokens by segment, all layers of the program, and after any of
them the predictions as the last layers would read them, which is what `InContextStack.trace` gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from softwright.attention.stack import FIXED, StackLayer
from softwright.errors import Faults
from softwright.methods.methods import METHODS
from softwright.methods.network import InContextStack
from softwright.methods.reference import random_design
from softwright.page.content import Content, numbers, sparse
from softwright.precision import name_of

if TYPE_CHECKING:
    from softwright.result.built import Built

MOST_NUMBERS = 300_000  # nonzero weights
_ROWS, _QUERIES, _SEED = 14, 21, 3


def content(built: Built[Any]) -> Content:
    network: InContextStack = built.network
    constants = network.constants
    title = f"{constants.method} in context: {built.target.get('text', '')}"
    layers = f"{network.depth} layers of softmax attention ({len(network.distinct)} different)"
    headline = f"{layers}, {network.features} feature(s)"
    if network.alone or network.read.ndim > 1:
        return Content(
            title, f"{headline}; a page shows fits of one number by prompts of many queries, not these answers"
        )
    if sum(int((tensor != 0).sum()) for tensor in network.state_dict().values()) > MOST_NUMBERS:
        return Content(title, f"{headline}; too many numbers for a page to run")
    rows = max(_ROWS, 3 * network.features + 4)
    x, y = random_design(constants.method, network.features, rows, _SEED)
    data = {
        "float32": name_of(network.dtype) == "float32",
        "method": constants.method,
        "features": network.features,
        "x": x.tolist(),
        "y": y.tolist(),
        "allowed": _allowed(network),
        "queries": _QUERIES,
        "segments": _segments(network),
        "layers": [_layer(layer) for layer in network.distinct],
        "program": network.program,
        "width": network.width,
        "head": network.head,
        "tail": network.tail,
        "read": numbers(network.read.reshape(-1)),
    }
    return Content(title, headline, ("in_context.html",), ("tokens.js", "in_context.js"), data)


def _allowed(network: InContextStack) -> dict[str, bool]:
    """What y may hold, asked of the method itself: fractions, negative numbers, numbers above 1."""
    constants, answers = network.constants, {}
    for name, values in (("fractions", [0.0, 0.5, 1.0]), ("negative", [0.0, -1.0, 1.0]), ("above", [0.0, 2.0, 1.0])):
        faults = Faults("y")
        METHODS[constants.method].check(torch.tensor([values], dtype=torch.float64), constants, faults)
        answers[name] = not faults.found
    return answers


def _segments(network: InContextStack) -> list[dict[str, Any]]:
    found = []
    for name, source in network.sources.items():
        base = network.get_buffer(f"base_{name}")
        embed = None if source == FIXED else sparse(network.get_buffer(f"embed_{name}"))
        found.append({"name": name, "source": source, "tokens": len(base), "base": sparse(base), "embed": embed})
    return found


def _layer(layer: StackLayer) -> dict[str, Any]:
    heads = [{name: sparse(getattr(layer, name)[h]) for name in ("Wq", "Wk", "Wv", "Wo")} for h in range(layer.heads)]
    residual = None if layer.R is None else sparse(layer.R)
    return {"rows": list(layer.rows), "keys": list(layer.keys), "label": layer.label, "heads": heads, "R": residual}
