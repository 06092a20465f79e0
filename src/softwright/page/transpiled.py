"""The page of a transpiled network: layers of neurons, a neuron's tokens, and the bound through the layers.

Every layer travels as W, b and the tokens that all its neurons share, whatever layout runs them. The source network is
evaluated beside it, from the formulas of its activations; a gated layer is shown without its source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from softwright.page.content import Content, numbers
from softwright.page.formula import tape_of_text
from softwright.precision import name_of
from softwright.targets.mlp.activations import ACTIVATIONS
from softwright.transpiler.gated_heads import GatedHeads
from softwright.transpiler.network import TranspiledNetwork
from softwright.transpiler.neuron_heads import NeuronHeads
from softwright.transpiler.view import token_names

if TYPE_CHECKING:
    from softwright.result.built import Built

MOST_NUMBERS = 400_000
SHOWN_INPUTS = 24  # that have a slider; all others rest at the middle of their range
_SPREAD = 3.0  # inputs without a box are turned this far


def content(built: Built[Any]) -> Content:
    network: TranspiledNetwork = built.network
    title = str(built.target.get("text", "network"))
    headline = f"{network.heads} heads, one per neuron, {network.tokens} tokens, layout {network.layout}"
    if sum(tensor.numel() for tensor in network.state_dict().values()) > MOST_NUMBERS:
        return Content(
            title, f"{headline}; too many numbers for a page to run", ("layers.html",), ("layers.js",), bounds(built)
        )
    low, high = _box(built, network)
    proved = built.certificate
    data = {
        "names": [f"x{i}" for i in range(1, network.inputs + 1)],
        "sides": np.stack([low, high], axis=1).tolist(),
        "shown": min(network.inputs, SHOWN_INPUTS),
        "outputs": network.outputs,
        "start": (0.5 * (low + high) + 0.2 * (high - low)).tolist(),
        "float32": name_of(network.dtype) == "float32",
        "wide": network.layout == "double",
        "bound": None if proved is None else proved.bound,
        "boxes": 0,
        "proof": [],
        "target": None,
        "steps": [_step(step) for step in network.steps],
        "stepNames": list(network.names),
        "source": _source(built),
        **bounds(built),
    }
    return Content(title, headline, ("neurons.html", "explore.html", "layers.html"), _SCRIPTS, data)


_SCRIPTS = ("formula.js", "transpiled.js", "explore.js", "layers.js")


def module_content(built: Built[Any]) -> Content:
    """A user's module with replaced blocks: what the bound of each block is; the blocks have pages of their own."""
    text = (
        f"{len(built.network.blocks)} feed-forward block(s) became attention; built.parts holds each with its own page"
    )
    return Content(str(built.target.get("text", "module")), text, ("layers.html",), ("layers.js",), bounds(built))


def bounds(built: Built[Any]) -> dict[str, Any]:
    """The numbers of the certificate that speak of single layers or blocks, in their order."""
    proved = built.certificate
    found = {} if proved is None else getattr(proved, "quantities", {})
    return {"through": [[name, float(value)] for name, value in found.items() if name.startswith("error ")]}


def _box(built: Built[Any], network: TranspiledNetwork) -> tuple[np.ndarray, np.ndarray]:
    given = built.target.get("box")
    if given is not None:
        low, high = (np.broadcast_to(np.asarray(side, dtype=float), (network.inputs,)) for side in given)
        if np.isfinite(low).all() and np.isfinite(high).all():
            return low, np.where(low < high, high, low + 1.0)  # a slider needs some room
    return np.full(network.inputs, -_SPREAD), np.full(network.inputs, _SPREAD)


def _step(step: nn.Module) -> dict[str, Any]:
    if isinstance(step, NeuronHeads):
        return {"type": "heads", **_neurons(step)}
    if isinstance(step, GatedHeads):
        gate = (
            {"type": "linear", **_affine(step.gate_weight, step.gate_bias)} if step.gate is None else _step(step.gate)
        )
        return {
            "type": "gated",
            "gate": gate,
            "value": _affine(step.value_weight, step.value_bias),
            "second": float(step.second),
            "steps": numbers(step.steps),
            "shares": numbers(step.shares),
            "outputs": step.heads,
        }
    if isinstance(step, nn.Linear):
        return {"type": "linear", **_affine(step.weight, step.bias)}
    raise TypeError(f"a {type(step).__name__} is no step of a transpiled network")


def _neurons(step: NeuronHeads) -> dict[str, Any]:
    weight, bias = step.affine()
    table = step.tokens  # (4, p)
    rows = {name: numbers(table[i].contiguous()) for i, name in enumerate(("keys", "biases", "slopes", "offsets"))}
    return {**_affine(weight, bias), **rows, "tokenNames": token_names(step.table)}


def _affine(weight: torch.Tensor, bias: torch.Tensor) -> dict[str, Any]:
    return {
        "outputs": weight.shape[0],
        "inputs": weight.shape[1],
        "weight": numbers(weight.contiguous()),
        "bias": numbers(bias.contiguous()),
    }


def _source(built: Built[Any]) -> list[dict[str, Any]] | None:
    """The source layer by layer: its activation as a formula in x, and its weights where the network rounds them."""
    target, steps, beside = built.target, list(built.network.steps), built.reference
    listed = target.get("activations")
    if "weights" not in target or not isinstance(listed, list) or len(listed) != len(steps):
        return None
    found = []
    for i, (entry, step) in enumerate(zip(listed, steps, strict=True)):
        row = ACTIVATIONS.get(entry.get("name"))
        tape = None if row is None else tape_of_text(row.formula(*entry.get("parameters", ())), ("x",))
        if tape is None or isinstance(step, GatedHeads):
            return None
        own = None
        if target["weights"] == "reference":
            weight, bias = (beside.get(f"layers.{i}.{name}") for name in ("weight", "bias"))
            if weight is None or bias is None:
                return None
            own = _affine(torch.from_numpy(np.array(weight)), torch.from_numpy(np.array(bias)))
        found.append({"tape": tape, "own": own})
    return found
