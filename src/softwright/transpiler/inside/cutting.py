"""Modules that are no network as a whole, cut where something stands that no head can be: norms, pools, softmax.

The module's own forward is followed (`torch.fx`). Every node has a value over some *root*: the input, or a node that
stays as it is. Where a node cannot be read over the root of its operands, they are roots themselves from then on; if it
cannot be read even so, or has operands over different roots (x + f(norm(x))), it stays, and is a root. What a node that
stays, or the output, needs, and what has an activation on its way from its root, is a *piece*: a network that becomes
attention. The rest of the graph runs as it did, under the same signature.

Convolutions are linear maps over patches (`patches.py`), so Conv, batch norm and activation are layers of a network
over patches; an activation that follows something else on images is one over patches of one pixel.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import fx, nn

from softwright.errors import Faults, InvalidInput
from softwright.precision import name_of, precision_of
from softwright.targets.mlp import (
    DEFAULT_ALONE,
    Activation,
    Branch,
    DenseLayer,
    Follower,
    Product,
    Source,
    Value,
    activation_of,
    batch_norm,
    call_name,
    chain_of,
    check_module,
    network_from,
    value_of,
)
from softwright.transpiler.inside.following import runs_as_traced
from softwright.transpiler.inside.patches import (
    CONVOLUTIONS,
    Patches,
    PatchNetwork,
    matrix_of,
    on_one_patch,
    patches_of,
)
from softwright.transpiler.job import Part

_LAST = (nn.LayerNorm, nn.RMSNorm)  # what says how many values its last axis has
_SAME = (
    nn.MaxPool1d, nn.MaxPool2d, nn.AvgPool1d, nn.AvgPool2d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d,
    nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm, nn.GroupNorm, nn.LocalResponseNorm,
)  # fmt: skip
_NUMBER_BY_NUMBER = ("add", "iadd", "mul", "imul", "sub", "isub")
_WALKS = (nn.Conv1d, nn.Conv2d, nn.ConvTranspose1d, nn.ConvTranspose2d)  # what says how many channels there are


@dataclass(frozen=True, eq=False)
class Piece:
    """From a root to a node: a network, over patches where it begins with a convolution."""

    root: fx.Node
    end: fx.Node
    value: Value
    patches: Patches | None
    nodes: tuple[fx.Node, ...] = ()


@dataclass(frozen=True, eq=False)
class Cut:
    """A module at `path`, its graph, its pieces, and what stays, by name."""

    path: str
    graph: fx.Graph
    pieces: list[Piece] = field(default_factory=list)
    stays: tuple[str, ...] = ()

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
            if node.meta.get(DEFAULT_ALONE):
                with whole.graph.inserting_after(inputs[-1]):
                    whole.graph.call_function(only_default, (node, node.args[0], str(node.target)))
        whole.recompile()
        return whole.eval()


def only_default(given: Any, usual: Any, name: str) -> None:
    """Refuse an option with which the module would do something else than its graph."""
    if given is not usual and not (isinstance(given, str) and given == usual):
        fault = f"{name} is {usual!r} in what was built; call it with that, or transpile a module that does no other"
        raise InvalidInput("transpile", [fault])


def cut_parts(module: nn.Module, path: str) -> list[Part]:
    """The pieces of a module as parts; none if it cannot be followed, or is not sound."""
    faults = Faults(path or type(module).__name__)
    graph = check_module(module, faults)
    if (
        graph is None
        or faults.found
        or not runs_as_traced(module, graph)
        or any(hasattr(module, f"attention_{i}") for i in range(64))
    ):
        return []
    cutter = _Cutter(module, graph)
    pieces = cutter.pieces()
    kept = tuple(dict.fromkeys(_shown(node, cutter.modules) for node in cutter.stays))
    cut = Cut(path, graph, pieces, kept)
    found = []
    for number, piece in enumerate(pieces):
        dtype = name_of(next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float64))
        names = [_shown(node, cutter.modules) for node in piece.nodes]
        label = f"{path + ': ' if path else ''}{names[0]} to {names[-1]}" if len(names) > 1 else names[0]
        try:
            network = network_from(piece.value, dtype, label)
        except InvalidInput:
            return []  # weights that are no numbers, shapes that do not meet: a fault of the module
        run = partial(_run_piece, _alone(piece, cutter.modules), piece.patches)
        absorbed = tuple(
            ".".join(filter(None, (path, str(node.target)))) for node in piece.nodes if node.op == "call_module"
        )
        norm = cutter.modules.get(str(piece.root.target)) if piece.root.op == "call_module" else None
        found.append(Part(cut.name(number), Source(network, run), cut=cut, absorbs=absorbed, norm=norm))
    return found


def _shown(node: fx.Node, modules: dict[str, nn.Module]) -> str:
    if node.op == "call_module":
        return f"{node.target} ({type(modules[str(node.target)]).__name__})"
    return call_name(node.target)


class _Cutter(Follower):
    """Values over roots, and which nodes are roots, stay, or are needed."""

    def __init__(self, module: nn.Module, graph: fx.Graph) -> None:
        super().__init__(module, graph)
        self.roots: dict[fx.Node, fx.Node] = {}
        self.patches: dict[fx.Node, Patches | None] = {}
        self.channels: dict[fx.Node, Patches] = {}  # nodes of images or sequences whose channels are known
        self.needed: list[fx.Node] = []
        self.stays: list[fx.Node] = []

    def pieces(self) -> list[Piece]:
        for node in self.graph.nodes:
            if node.op == "placeholder":
                self._root(node, self._size(node, alone=True))
            elif node.op == "output":
                self._need(node.all_input_nodes)
            elif node.op == "get_attr":
                self.values[node] = self.step(node)
            else:
                self._follow(node)
        return [piece for node in dict.fromkeys(self.needed) if (piece := self._piece(node)) is not None]

    def _root(self, node: fx.Node, width: int | None) -> None:
        self.values[node] = value_of(Branch(size=width))
        self.roots[node], self.patches[node] = node, None

    def _need(self, nodes: Sequence[fx.Node]) -> None:
        self.needed += [node for node in nodes if node in self.roots]

    def _follow(self, node: fx.Node) -> None:
        inputs = [entry for entry in node.all_input_nodes if entry in self.roots]
        found = self._read(node, inputs)
        if found is None and any(not self._bare(entry) for entry in inputs):
            before = {entry: (self.values[entry], self.roots[entry], self.patches[entry]) for entry in inputs}
            widths = {entry: self._width(entry) for entry in inputs}
            for entry in inputs:
                self._root(entry, widths[entry])
            found = self._read(node, inputs)
            for entry, (
                value,
                root,
                patches,
            ) in before.items():  # others may follow it further; pieces need it as it is
                self.values[entry], self.roots[entry], self.patches[entry] = value, root, patches
            if found is not None:
                self._need(inputs)
                self.values[node], self.roots[node] = found, inputs[0]
                return
        if found is not None:
            self.values[node], self.roots[node] = found, self.roots[inputs[0]]
            return
        self._need(inputs)
        self.stays.append(node)
        width = self._kept_width(node, inputs)
        self._root(node, width)

    def _bare(self, node: fx.Node) -> bool:
        value = self.values[node]
        return isinstance(value, Value) and isinstance(value.thing, Branch) and not value.thing.layers

    def _width(self, node: fx.Node) -> int | None:
        thing = self.values[node].thing if isinstance(self.values[node], Value) else None
        if node in self.channels or self.patches[node] is not None:
            return None
        return thing.width if isinstance(thing, Branch) else thing.outputs if isinstance(thing, Product) else None

    def _kept_width(self, node: fx.Node, inputs: list[fx.Node]) -> int | None:
        """How many values the last axis of a node has that stays; channels of images are noted."""
        layer = self.modules.get(str(node.target)) if node.op == "call_module" else None
        if isinstance(layer, _LAST):
            return layer.normalized_shape[-1]
        if isinstance(layer, nn.Embedding):
            return layer.embedding_dim
        if isinstance(layer, _WALKS):  # padded otherwise than with zeros, or the other way round
            flat = isinstance(layer, nn.Conv1d | nn.ConvTranspose1d)
            self.channels[node] = Patches(layer.out_channels, flat=flat)
            return None
        if isinstance(layer, _SAME) or call_name(node.target) in _NUMBER_BY_NUMBER:
            known = [self.channels[entry] for entry in inputs if entry in self.channels]
            if known:
                self.channels[node] = known[0]
                return None
            widths = [width for entry in inputs if (width := self._width(entry)) is not None]
            if layer is None and max(widths, default=1) > 1:  # one value may meet several
                return max(widths)
        return self._size(node, alone=True)  # the Linear layer behind it says so

    def _read(self, node: fx.Node, inputs: list[fx.Node]) -> Value | None:
        """The value of a node over the one root of its operands; None if there is none."""
        if len({self.roots[entry] for entry in inputs}) != 1:
            return None
        layer = self.modules.get(str(node.target)) if node.op == "call_module" else None
        if isinstance(layer, nn.Flatten):
            return None  # rows of what it is given are not rows of what it gives
        if isinstance(layer, CONVOLUTIONS):
            return self._convolved(node, layer, inputs[0])
        places = [self.patches[entry] for entry in inputs if self.patches[entry] is not None]
        single = next((self.channels[entry] for entry in inputs if entry in self.channels), None)
        if places or single is not None:
            return self._over_patches(node, layer, inputs, places[0] if places else None, single)
        found = self.step(node)
        if not isinstance(found, Value) or not isinstance(found.thing, Branch | Product):
            return None
        if isinstance(found.thing, Product) and len(found.thing.gate.layers) > 1:
            return None
        self.patches[node] = None
        return found

    def _convolved(self, node: fx.Node, layer: Any, operand: fx.Node) -> Value | None:
        value, inner = self.values[operand], self.patches[operand]
        how = patches_of(layer)
        if how is None:
            return None
        matrix, bias = matrix_of(layer)
        thing = value.thing
        if (
            not isinstance(thing, Branch)
            or (thing.layers and not (how.single and inner is not None))
            or not thing.plain
        ):
            return None
        self.patches[node] = inner if thing.layers else how
        self.channels[node] = Patches(layer.out_channels, flat=how.flat)
        return value_of(thing.linear(matrix, bias), value.folded)

    def _over_patches(
        self, node: fx.Node, layer: Any, inputs: list[fx.Node], how: Patches | None, single: Patches | None
    ) -> Value | None:
        """What may follow a convolution number by number: batch norm, activations, dropout."""
        value = self.values[inputs[0]]
        if len(inputs) > 1 or not isinstance(value, Value):
            return None
        thing = value.thing
        if how is None and single is not None and isinstance(thing, Branch) and not thing.layers:
            how, value = single, value_of(Branch(size=single.channels))
        known = isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.running_var is not None
        if known and isinstance(value.thing, Branch):
            found: Any = Value(value.thing.scaled(*batch_norm(layer)), (), True)
        elif layer is not None and (
            activation_of(layer) or chain_of(layer) or isinstance(layer, nn.Dropout | nn.Dropout2d)
        ):
            found = value if isinstance(layer, nn.Dropout2d) else self._with(inputs[0], value, node)
        elif node.op != "call_module" and self.activation(node) is not None:
            found = self._with(inputs[0], value, node)
        else:
            return None
        if not isinstance(found, Value) or not isinstance(found.thing, Branch):
            return None
        self.patches[node] = how
        if inputs[0] in self.channels:
            self.channels[node] = self.channels[inputs[0]]
        return found

    def _with(self, operand: fx.Node, value: Value, node: fx.Node) -> Any:
        """A step whose operand has this value for once."""
        before, self.values[operand] = self.values[operand], value
        try:
            return self.step(node)
        finally:
            self.values[operand] = before

    def _piece(self, node: fx.Node) -> Piece | None:
        value, root = self.values[node], self.roots[node]
        if root is node or not isinstance(value, Value):
            return None
        thing = value.thing
        if isinstance(thing, Product):
            if thing.down is None:
                last = DenseLayer(np.eye(thing.outputs), np.zeros(thing.outputs), Activation("identity"))
                value = replace(value, thing=replace(thing, down=last))
        elif not isinstance(thing, Branch) or all(layer.activation.name == "identity" for layer in thing.layers):
            return None
        return Piece(root, node, value, self.patches[node], tuple(_between(root, node)))


def _between(root: fx.Node, end: fx.Node) -> list[fx.Node]:
    """The nodes that lead from a root to a node, in their order."""
    wanted: set[fx.Node] = set()
    stack = [end]
    while stack:
        node = stack.pop()
        if node is not root and node not in wanted:
            wanted.add(node)
            stack += node.all_input_nodes
    return [node for node in root.graph.nodes if node in wanted and node.op != "placeholder"]


def _alone(piece: Piece, modules: dict[str, nn.Module]) -> nn.Module:
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


def _run_piece(piece: nn.Module, patches: Patches | None, points: np.ndarray, dtype: str) -> np.ndarray:
    """A piece of the source at points (n, d)."""
    first = next((p for p in piece.parameters()), None)
    if first is not None and name_of(first.dtype) != dtype:
        piece = copy.deepcopy(piece).to(precision_of(dtype).torch_dtype)
    x = torch.from_numpy(points).to(precision_of(dtype).torch_dtype)
    if patches is not None:
        x = x.reshape(len(points), *patches.shape())
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        return piece(x).double().cpu().numpy().reshape(len(points), -1)
