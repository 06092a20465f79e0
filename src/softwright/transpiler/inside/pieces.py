"""Pieces of a module that is cut, and the module with networks in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, fx, nn

from softwright.transpiler.inside.calling import only_default
from softwright.transpiler.inside.patches import Patches, PatchNetwork


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
    inputs: tuple[Tensor, ...] | None = None  # at which the module runs, if any were found

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
