"""Pieces of a module that is cut, and the module with networks in their place."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from softwright.precision import PRECISIONS, name_of, precision_of
from softwright.transpiler.inside.calling import only_default
from softwright.transpiler.inside.patches import Patches, PatchNetwork, on_one_patch


@dataclass(frozen=True, eq=False)
class Piece:
    """From a root to a node: a network, over patches where it begins with a convolution."""

    root: fx.Node
    end: fx.Node
    value: Any  # what it is, over its root
    patches: Patches | None
    nodes: tuple[fx.Node, ...] = ()


@dataclass(frozen=True, eq=False)
class Cut:
    """A module at `path`, its graph, its pieces, and what stays, by name."""

    path: str
    graph: fx.Graph
    pieces: list[Piece] = field(default_factory=list)
    stays: tuple[str, ...] = ()
    options: tuple[fx.Node, ...] = ()  # inputs whose defaults the graph stands for
    given: Mapping[str, Any] = field(default_factory=dict)  # options that it is called with
    inputs: Sequence[tuple[Tensor, ...]] = ()  # at which the module runs, if any were found

    def name(self, number: int) -> str:
        return ".".join(filter(None, (self.path, f"attention_{number}")))

    def applied(self, module: nn.Module, networks: Sequence[nn.Module]) -> nn.Module:
        """The module, or a copy of it, with the networks in place of its pieces."""
        graph, copies = fx.Graph(), {}
        places = {piece.end: (f"attention_{i}", piece.root) for i, piece in enumerate(self.pieces)}
        for node in self.graph.nodes:
            if node in places:
                name, root = places[node]
                copies[node] = graph.call_module(name, (copies[root],))
            else:
                copies[node] = graph.node_copy(node, lambda old: copies[old])
        for i, (piece, network) in enumerate(zip(self.pieces, networks, strict=True)):
            whole = network if piece.patches is None else PatchNetwork(network, piece.patches)
            module.add_module(f"attention_{i}", whole)
        whole = fx.GraphModule(module, graph, type(module).__name__)
        whole.graph.eliminate_dead_code()
        whole.delete_all_unused_submodules()
        inputs = [node for node in whole.graph.nodes if node.op == "placeholder"]
        for node in inputs:
            if node.name in {option.name for option in self.options}:
                with whole.graph.inserting_after(inputs[-1]):
                    whole.graph.call_function(only_default, (node, node.args[0], str(node.target)))
        whole.recompile()
        return whole.eval()


def between(root: fx.Node, end: fx.Node) -> list[fx.Node]:
    """The nodes that lead from a root to a node, in their order."""
    wanted: set[fx.Node] = set()
    stack = [end]
    while stack:
        node = stack.pop()
        if node is not root and node not in wanted:
            wanted.add(node)
            stack += node.all_input_nodes
    return [node for node in root.graph.nodes if node in wanted and node.op != "placeholder"]


def alone(piece: Piece, modules: dict[str, nn.Module]) -> nn.Module:
    """The source's own nodes of a piece, as a module of one input; a convolution sees one patch at a time."""
    graph = fx.Graph()
    copies = {piece.root: graph.placeholder("x")}
    parts: dict[str, Any] = {}
    for node in piece.nodes:
        copies[node] = graph.node_copy(node, lambda old: copies[old])
        target = str(node.target)
        if node.op == "call_module":
            parts[target] = on_one_patch(modules[target])
        elif node.op == "get_attr":
            owner, _, name = target.rpartition(".")
            parts[target] = getattr(modules[owner], name)
    graph.output(copies[piece.end])
    return fx.GraphModule(parts, graph).eval()


def run_piece(
    piece: nn.Module, patches: Patches | None, alone: str | None, points: np.ndarray, dtype: str, axes: int = 2
) -> np.ndarray | None:
    """A piece of the source at points (n, d); `alone` and `axes` as of `run_module`."""
    first = next((p for p in piece.parameters()), None)
    if first is not None and name_of(first.dtype) != dtype:
        if alone is not None and (alone in PRECISIONS or dtype != "float32"):
            return None
        piece = copy.deepcopy(piece).to(precision_of(dtype).torch_dtype)
    x = torch.from_numpy(points).to(precision_of(dtype).torch_dtype)
    more = (1,) * (axes - 2)
    x = x.reshape(more + points.shape if patches is None else (len(points), *patches.shape()))
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        found = piece(x).double().cpu().numpy()
    if patches is not None:
        return found.reshape(len(points), -1)
    return found[(0,) * len(more)] if found.shape[: len(more)] == more else found
