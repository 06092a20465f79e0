"""The page of a memory: a sequence is typed, its id computed, and the stored ids that it comes near are shown.

A memory keeps ids and labels, not the sequences themselves; the words of its tokenizer travel with it. The page
computes ids as `ContextHead.ids` does, in float64, the embedding in the network's own type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from softwright.memory.network import MemoryNetwork
from softwright.page.content import Content, numbers
from softwright.precision import name_of

if TYPE_CHECKING:
    from softwright.result.built import Built

MOST_NUMBERS = 400_000  # of keys, codes and values: what a page carries
_HEAD = ("codes", "log_weights", "place_codes", "reach")


def content(built: Built[Any]) -> Content:
    network: MemoryNetwork = built.network
    title = str(built.target.get("name", "memory"))
    kind = "sequences" if network.reading.mode == "sequence" else "tokens in context"
    headline = f"{network.stored} {kind} in one attention layer and a readout"
    size = sum(tensor.numel() for tensor in network.state_dict().values())
    if size > MOST_NUMBERS or not network.stored:
        return Content(title, f"{headline}; `softwright recall` asks it, {size} numbers are too many for a page")
    data = {"float32": name_of(network.dtype) == "float32", "start": _start(network), **_layers(network)}
    return Content(title, headline, ("memory.html",), ("memory.js",), {**data, **_words(network), **_labels(network)})


def _layers(network: MemoryNetwork) -> dict[str, Any]:
    head, readout = network.head, network.readout
    e = head.code_size
    w_i, w_v = head.W_I.double(), head.W_V.double()
    return {
        "head": {
            **{name: numbers(getattr(head, name)) for name in _HEAD},
            "vocabulary": [int(token) for token in head.vocabulary.tolist()],
            "sentinel": float(head.sentinel),
            "codeSize": e,
            "rank": head.rank,
            "longest": head.longest,
            "vectors": head.takes_vectors,
            "score": numbers(head.W_K[0, :e].double()),
            "value": numbers(w_v[:, :e].contiguous()),
            "own": numbers(w_i[:, :e].contiguous()),
            "place": numbers(w_i[:, e].contiguous()),
            "shift": numbers(w_i[:, e + 1].contiguous()),
            "read": numbers(w_i[:, e + 2 :].contiguous()),
            "width": len(w_i),
        },
        "reading": {"byToken": network.reading.mode == "token", "causal": network.reading.causal},
        "readout": {
            "kind": readout.name,
            "keys": numbers(readout.keys.double()),
            "values": numbers(readout.values.double()),
            "beta": float(readout.beta) if readout.name == "attention" else None,  # type: ignore[union-attr]
            "slopes": numbers(readout.slopes.double()) if readout.name == "feedforward" else None,  # type: ignore[union-attr]
            "offsets": numbers(readout.offsets.double()) if readout.name == "feedforward" else None,  # type: ignore[union-attr]
            "outputs": network.outputs,
        },
        "radius": float(network.radii[0]),
        "gap": float(network.gap),
    }


def _words(network: MemoryNetwork) -> dict[str, Any]:
    """How a text becomes tokens: by words, by bytes, or not at all (numbers are typed)."""
    tokenizer = network.tokenizer
    name = "" if tokenizer is None else tokenizer.name
    words = list(tokenizer.places) if name == "whitespace" else []  # type: ignore[union-attr]
    return {"tokenizer": name if name in ("whitespace", "bytes") else "", "words": words, "foreignTokenizer": name}


def _labels(network: MemoryNetwork) -> dict[str, Any]:
    classes = network.classes
    return {"classes": None if classes is None else [item if isinstance(item, str) else repr(item) for item in classes]}


def _start(network: MemoryNetwork) -> str:
    """A sequence to begin with: a few tokens that the memory knows, in no order that means anything."""
    head = network.head
    if head.takes_vectors:
        return " ".join(["0"] * head.code_size)
    count = min(3, head.longest, len(head.codes))
    words = _words(network)
    if words["tokenizer"] == "bytes":
        return "abc"[:count]
    if words["tokenizer"] == "whitespace":
        return " ".join(words["words"][:count])
    known = head.vocabulary.tolist() if len(head.vocabulary) else list(range(len(head.codes)))
    return " ".join(str(token) for token in known[:count])
