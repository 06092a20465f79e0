"""Reading torch modules: any module whose forward is a chain of Linear layers and activations, with or without a gate.

What the nodes of the forward's graph come to is in `torch_follower.py`. Anything that is no layer is a fault that names
the operation; all faults of a module are listed together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn

from softwright.errors import Faults, InvalidInput
from softwright.precision import name_of
from softwright.targets.mlp.branches import Branch
from softwright.targets.mlp.dense import DenseNetwork, GatedNetwork
from softwright.targets.mlp.torch_checks import check_in_place, check_parts, out_of_place
from softwright.targets.mlp.torch_constants import dtype_of, made_in
from softwright.targets.mlp.torch_follower import Follower
from softwright.targets.mlp.torch_tracing import traced
from softwright.targets.mlp.values import Missing, Product, Value


@dataclass(frozen=True)
class Reading:
    """A module as a network, and what must be known of how it is run: whether axis 1 stood for the last one, so that it
    is the network for tables of rows alone, whether it makes rows first, and whether it is the same network in its own
    dtype alone, since weights are made of others when it is called, or values are cast."""

    network: DenseNetwork | GatedNetwork
    rows: bool
    flattens: bool
    alone: bool


def read_module(module: nn.Module, name: str | None = None, given: Mapping[str, Any] | None = None) -> Reading:
    """The network that a module computes, layer by layer; raises `InvalidInput` with every fault found."""
    faults = Faults(name or type(module).__name__)
    whole = nn.Sequential(module) if isinstance(module, nn.Linear) else module
    graph = check_module(whole, faults, given)
    if graph is None:
        faults.raise_if_any()
        raise InvalidInput(faults.subject, ["its forward cannot be followed; write it as torch.nn.Sequential"])
    follower = Follower(whole, graph)
    result = follower.result()
    if isinstance(result.thing, Missing):
        faults.found += [fault for fault in dict.fromkeys(result.thing.faults) if fault not in faults.found]
    faults.raise_if_any()
    network = network_from(result, dtype_of(module), name or type(module).__name__)
    return Reading(
        network,
        follower.rows and not follower.flattens,
        follower.flattens,
        bool(follower.casts or made_in(graph, follower.held)),
    )


def check_module(module: nn.Module, faults: Faults, given: Mapping[str, Any] | None = None) -> fx.Graph | None:
    """The graph of a module's forward; None, and faults, if it cannot be followed. Other faults are recorded too."""
    if isinstance(module, torch.jit.ScriptModule):
        faults.add("it is compiled by torch.jit, which hides its forward; give the module that it was made from")
        return None
    check_parts(module, faults)
    kinds = sorted({name_of(p.dtype) for p in module.parameters() if p.is_floating_point()})
    faults.check(
        len(kinds) < 2 or "float64" not in kinds,
        f"it holds weights of {' and '.join(kinds)}; bring them to one dtype, module.double() say",
    )
    if any(tensor.is_meta or tensor.is_complex() for tensor in (*module.parameters(), *module.buffers())):
        return None
    try:
        graph = traced(module, given)
    except Exception as error:  # whatever a foreign forward raises when it is traced
        faults.add(f"its forward cannot be followed ({error}); write it as torch.nn.Sequential")
        return None
    check_in_place(graph, dict(module.named_modules()), faults)
    out_of_place(graph)
    return graph


def network_from(value: Value, dtype: str, label: str) -> DenseNetwork | GatedNetwork:
    """The network that a value is."""
    thing = value.thing
    if isinstance(thing, Product) and thing.down is not None and len(thing.gate.layers) == 1:
        return GatedNetwork(thing.gate.layers[0], thing.value.layers[0], thing.down, dtype, label)
    if isinstance(thing, Branch):
        try:
            return DenseNetwork(thing.settled().layers, dtype, label, value.folded)
        except InvalidInput as error:
            raise InvalidInput(label, error.faults) from error
    if isinstance(thing, Product) and thing.down is not None:
        raise InvalidInput(label, ["a gate stands behind other layers; name its block alone in blocks=[...]"])
    if isinstance(thing, Missing):
        raise InvalidInput(label, list(thing.faults))
    raise InvalidInput(label, ["it does not end in a Linear layer after its gate; add one"])
