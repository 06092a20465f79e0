"""What a file says of its network, without the network: what `softwright info` shows, and no torch is loaded.

A stored network is a description and tensors. Whoever wants to know what it is needs the description and the shapes of
the tensors: `Described` has kind, type and facts of the network of a file, and its tensors as arrays, and stands in its
place in a `Built`, which then tells everything and cannot be run. A contract test compares these facts with those of
the network itself, for every kind.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from softwright.domain import Box
from softwright.errors import InvalidInput
from softwright.fileformat import read_model
from softwright.precision import precision_of
from softwright.result.built import Built, told_by

Facts = list[tuple[str, str]]
Tensors = Mapping[str, np.ndarray]
Model = Mapping[str, Any]


class Described:
    """The network of a file as far as it is described: it has facts, a type and tensors, and does not run."""

    def __init__(self, model: Model, tensors: Tensors) -> None:
        self.kind: str = model["kind"]
        self._tensors = dict(tensors)
        self._facts = FACTS[self.kind](model, tensors)
        self.dtype, self.box = _dtype(model, tensors), _box(model)
        if self.kind == "approximation":
            self.engine = str(model.get("engine", "sdpa"))
            self.outputs = tensors["layer.heads.0.values"].shape[1]
            self.tokens = _tokens(model, tensors)

    def facts(self) -> Facts:
        return list(self._facts)

    def state_dict(self) -> dict[str, Any]:
        return dict(self._tensors)

    def evaluate(self, *inputs: Any, **named: Any) -> Any:
        raise InvalidInput("described", ["this is what a file says of a network; softwright.load gives the network"])


def described(path: str | Path) -> tuple[Built[Any], str]:
    """What `load` returns, with a `Described` in place of the network and without the live target; and the SHA-256 of
    the weights."""
    content = read_model(path)
    return told_by(content, path, Described), content.weights_sha256


def _approximation(model: Model, tensors: Tensors) -> Facts:
    return [_domain(model), ("heads", str(len(model["heads"]))), ("tokens", str(_tokens(model, tensors)))]


def _composition(model: Model, tensors: Tensors) -> Facts:
    features = len(model["features"]) - 1 - len(model["box"])
    fixed = f"{_fixed(model, tensors)} fixed ones and the data token"
    return [
        _domain(model),
        ("layers", _layers(model)),
        ("tokens", f"{int(model['tokens'])} over all heads, {fixed}"),
        ("width", _width(model)),
        ("features", str(features)),
    ]


def _program(model: Model, tensors: Tensors) -> Facts:
    tokens = model["tokens"]
    shortest, longest = tokens["length"]
    return [
        ("sequences", f"{shortest} to {longest} tokens of {', '.join(map(_in_words, tokens['fields']))}"),
        ("layers", _layers(model)),
        ("bank", f"{_fixed(model, tensors)} fixed tokens"),
        ("width", _width(model)),
        ("outputs", ", ".join(model["outputs"])),
    ]


def _in_context(model: Model, tensors: Tensors) -> Facts:
    settings, heads = model["settings"], _heads_of_layers(model)
    different = f"({len(heads)} different), at most {max(heads)} heads each"
    return [
        ("method", f"{settings['method']} by {settings['solver']}"),
        ("takes", f"observations (x, y) with {settings['features']} feature(s), any number, and queries"),
        ("layers", f"{len(model['program'])} of softmax attention {different}"),
        ("width", _width(model)),
    ]


def _memory(model: Model, tensors: Tensors) -> Facts:
    how, codes = model["reading"], tensors["head.codes"]
    order = "in order" if how["positional"] else "as multisets"
    context = ", looking back only" if how["causal"] else ""
    kind = "sequences" if how["mode"] == "sequence" else "tokens in context"
    alphabet = f"{len(codes)} tokens" if len(codes) else f"vectors of {codes.shape[1]}"
    labels = f"{tensors['readout.values'].shape[1]} real number(s)"
    if model["labels"] == "classes":
        labels = f"{len(json.loads(tensors['class_text'].tobytes()))} classes"
    return [
        ("stored", f"{len(tensors['readout.keys'])} {kind}, read {order}{context}"),
        ("alphabet", f"{alphabet}, at most {len(tensors['head.log_weights'])} in a sequence"),
        ("labels", labels),
        ("attention", f"one softmax head, rank {len(tensors['head.W_V'])}"),
        ("readout", "softmax over the stored ids" if model["readout"] == "attention" else "relu feed-forward"),
    ]


def _transpiled(model: Model, tensors: Tensors) -> Facts:
    steps = model["steps"]
    outputs = steps[-1]["outputs" if steps[-1]["step"] == "linear" else "heads"]
    heads = tokens = 0
    for i, step in enumerate(steps):
        if step["step"] == "heads":
            heads += step["heads"]
            tokens += step["heads"] * tensors[f"steps.{i}.tokens"].shape[1]
        elif step["step"] == "gated":
            heads += step["heads"] * len(tensors[f"steps.{i}.steps"])
            tokens += 2 * step["heads"] * len(tensors[f"steps.{i}.steps"])
            if step["activated"]:
                heads += step["heads"]
                tokens += step["heads"] * tensors[f"steps.{i}.gate.tokens"].shape[1]
    return [
        ("network", f"{steps[0]['inputs']} numbers -> {outputs}, layout {model['layout']}"),
        ("heads", f"{heads} (one per neuron), {tokens} tokens in all"),
    ]


def _theorem(model: Model, tensors: Tensors) -> Facts:
    rows, columns = map(int, model["inputs"])
    types = [str(stage["type"]) for stage in model["stages"]]
    heads = [len(tensors[f"stages.{i}.W_K"]) for i, name in enumerate(types) if name == "attention"]
    heads += [1 for name in types if name == "cross_attention"]
    layers, count = len(heads), sum(heads)
    shape = f"{layers} attention layer{'s' * (layers != 1)}, {count} head{'s' * (count != 1)}"
    chain = " -> ".join(name.replace("_", " ") for name in types)
    return [("input", f"{rows} x {columns} (columns are tokens)"), ("network", f"{shape}: {chain}")]


FACTS: dict[str, Callable[[Model, Tensors], Facts]] = {
    "approximation": _approximation,
    "composition": _composition,
    "memory": _memory,
    "transpiled": _transpiled,
    "in_context": _in_context,
    "program": _program,
    "theorem": _theorem,
}


def _dtype(model: Model, tensors: Tensors) -> str:
    """The name of the type: as the description says it, or that of the tensors where it says none."""
    said = model.get("dtype")
    return precision_of(next(iter(tensors.values())).dtype.name if said is None else said).name


def _box(model: Model) -> Box | None:
    box = model.get("box")
    return None if box is None else Box({name: box[name] for name in model.get("variables", box)})


def _domain(model: Model) -> tuple[str, str]:
    box = _box(model) or ()
    return "domain", ", ".join(f"{name} in [{low:g}, {high:g}]" for name, low, high in box)


def _tokens(model: Model, tensors: Tensors) -> int:
    return sum(len(tensors[f"layer.heads.{i}.keys"]) for i in range(len(model["heads"])))


def _heads_of_layers(model: Model) -> list[int]:
    return [int(layer["shapes"]["Wq"][0]) for layer in model["layers"]]


def _layers(model: Model) -> str:
    return f"{len(model['program'])} of softmax attention, {sum(_heads_of_layers(model))} heads"


def _width(model: Model) -> str:
    return str(max(int(stop) for _, stop in model["slots"].values()))


def _fixed(model: Model, tensors: Tensors) -> int:
    return sum(len(tensors[f"base_{name}"]) for name, source in model["sources"].items() if source == "fixed")


def _in_words(field: Mapping[str, Any]) -> str:
    """A field of a token: its symbols, or its range."""
    if field["kind"] == "symbol":
        shown = " ".join(field["symbols"][:12]) + (" ..." if len(field["symbols"]) > 12 else "")
        return f"{field['name']} in {{{shown}}}"
    low, high = (0, 1) if field["kind"] == "truth" else (field["low"], field["high"])
    return f"{'' if field['kind'] == 'real' else 'whole '}{field['name']} in [{low:g}, {high:g}]"
