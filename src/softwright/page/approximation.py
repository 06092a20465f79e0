"""The page of an approximation: curves and slices, the error under its bound, tokens by name, attention at a point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from softwright.attention.head import Head
from softwright.attention.layer import SoftmaxHead
from softwright.attention.network import AttentionNetwork
from softwright.attention.token_names import token_names
from softwright.page.content import Content, numbers
from softwright.page.explored import explored

if TYPE_CHECKING:
    from softwright.result.built import Built

MOST_NAMES = 600  # tokens that are called by name; networks of more number them


def content(built: Built[Any]) -> Content:
    network: AttentionNetwork = built.network
    return Content(
        title=str(built.target.get("text") or built.target.get("name") or "a table"),
        headline=f"{len(network.heads())} softmax head(s), {network.tokens} tokens, {network.box.dim} variable(s)",
        fragments=("explore.html", "attention.html"),
        scripts=("formula.js", "layer.js", "heads.js", "explore.js"),
        data={
            **explored(built, network.box, network.outputs),
            **weights(network),
            "wide": network.engine == "double",
        },
    )


def weights(network: AttentionNetwork) -> dict[str, Any]:
    """The entries that assets/layer.js evaluates, with names of the tokens."""
    box, named = network.box, network.tokens <= MOST_NAMES
    center, scale = (tensor.double().cpu().numpy() for tensor in (network.center, network.scale))
    heads = [
        _head(module, head, token_names(head, box, center, scale) if named else None)
        for module, head in zip(network.layer, network.heads(), strict=True)
    ]
    return {"center": numbers(network.center), "scale": numbers(network.scale), "heads": heads}


def _head(module: SoftmaxHead, head: Head, names: list[str] | None) -> dict[str, Any]:
    return {
        "keys": numbers(module.keys),
        "biases": numbers(module.biases),
        "values": numbers(module.values),
        "slopes": None if module.slopes is None else numbers(module.slopes),
        "sizes": [axis.tokens for axis in head.axes],
        "names": names,
    }
