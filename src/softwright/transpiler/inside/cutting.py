"""Modules that are no network as a whole, cut where something stands that no head can be: norms, pools, softmax.

The module's own forward is followed (`torch.fx`). Every node has a value over some *root*: the input, or a node that
stays as it is. Where a node cannot be read over the root of its operands, they are roots themselves from then on; if it
cannot be read even so, or has operands over different roots (x + f(norm(x))), it stays, and is a root. What a node that
stays, or the output, needs, and what has an activation on its way from its root, is a *piece*: a network that becomes
attention. The rest of the graph runs as it did, under the same signature.

Convolutions are linear maps over patches (`patches.py`), so Conv, batch norm and activation are layers of a network
over patches; an activation that follows something else on images is one over patches of one pixel.

A network is applied along the last axis, so a node can be read where the width of that axis is known: by the layers
before it, or by the Linear layer behind it. How many axes there are is known behind a Flatten only; axis 1 is the last
one there, and is read so nowhere else.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import fx, nn

from softwright.errors import Faults, InvalidInput
from softwright.precision import PRECISIONS, name_of, precision_of
from softwright.targets.mlp import (
    AXES,
    DEFAULT_ALONE,
    Activation,
    Branch,
    Condition,
    DenseLayer,
    Halves,
    Product,
    Source,
    Value,
    activation_of,
    axes_of,
    batch_norm,
    call_name,
    chain_of,
    check_module,
    dtype_of,
    made_in,
    network_from,
    state_of,
    value_of,
)
from softwright.transpiler.inside.axes import Axes, shown
from softwright.transpiler.inside.calling import FREE, Manner
from softwright.transpiler.inside.following import not_as_traced
from softwright.transpiler.inside.patches import (
    CONVOLUTIONS,
    Patches,
    matrix_of,
    on_one_patch,
    patches_of,
)
from softwright.transpiler.inside.pieces import Cut, Piece
from softwright.transpiler.job import Part

_ONE_BY_ONE = (  # functions of every number, along no axis
    "clamp", "clip", "clamp_min", "clamp_max", "hardswish", "selu", "celu", "logsigmoid", "softshrink", "glu",
)  # fmt: skip


def cut_parts(
    module: nn.Module, path: str, manner: Manner | None = None, boxed: bool = True, notes: list[str] | None = None
) -> list[Part]:
    """The pieces of a module as parts; none if it cannot be followed, or is not sound, and `notes` say why.

    `manner` is how it is called; `boxed` is whether its pieces have ranges, without which few gates have a form.
    """
    faults = Faults(path or type(module).__name__)
    given = {} if manner is None else manner.given
    graph = check_module(module, faults, given)
    if graph is None or faults.found or any(hasattr(module, f"attention_{i}") for i in range(64)):
        return []
    plain = {name: value for name, value in given.items() if value is not FREE}
    before = state_of(module)
    amiss, inputs = not_as_traced(module, graph, plain)
    if state_of(module) != before:
        amiss = "changes its own numbers when it is called, and one call says nothing of the next; leave that out"
    if amiss:
        if notes is not None:
            notes.append(f"{path or type(module).__name__} {amiss}")
        return []
    cutter = _Cutter(module, graph, boxed)
    pieces = cutter.pieces()
    if not pieces and notes is not None:
        notes += dict.fromkeys(cutter.unsure)
    kept = tuple(dict.fromkeys(shown(node, cutter.modules) for node in cutter.stays))
    options = tuple(node for node in graph.nodes if node.meta.get(DEFAULT_ALONE))
    cut = Cut(path, graph, pieces, kept, options, plain, inputs)
    dtype = dtype_of(module)
    found = []
    for number, piece in enumerate(pieces):
        names = [shown(node, cutter.modules) for node in piece.nodes]
        label = f"{path + ': ' if path else ''}{names[0]} to {names[-1]}" if len(names) > 1 else names[0]
        try:
            network = network_from(piece.value, dtype, label)
        except InvalidInput:
            return []  # weights that are no numbers, shapes that do not meet: a fault of the module
        alone = dtype if (cutter.made | cutter.casts).intersection(piece.nodes) else None
        run = partial(_run_piece, _alone(piece, cutter.modules), piece.patches, alone)
        axes = axes_of(network, run) if piece.patches is None else AXES
        absorbed = tuple(
            ".".join(filter(None, (path, str(node.target)))) for node in piece.nodes if node.op == "call_module"
        )
        behind: tuple[nn.Module, ...] = ()
        if piece.root.op == "call_module":
            behind = (cutter.modules[str(piece.root.target)],)
        elif piece.root is next(iter(graph.nodes)) and manner is not None:
            behind = manner.behind
        padded = piece.patches is not None and any(piece.patches.padding)
        source = Source(network, run, axes)
        found.append(Part(cut.name(number), source, cut=cut, absorbs=absorbed, behind=behind, padded=padded))
    return found


class _Cutter(Axes):
    """Values over roots, and which nodes are roots, stay, or are needed."""

    def __init__(self, module: nn.Module, graph: fx.Graph, boxed: bool) -> None:
        super().__init__(module, graph)
        self.boxed = boxed
        self.made = made_in(graph, self.held)
        self.roots: dict[fx.Node, fx.Node] = {}
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

    def is_surely_last(self, axis: Any, node: fx.Node) -> bool:
        return self.is_last(axis, node)

    def _root(self, node: fx.Node, width: int | None) -> None:
        self.values[node] = value_of(Branch(size=width))
        self.roots[node], self.patches[node] = node, None

    def _need(self, nodes: Sequence[fx.Node]) -> None:
        """Note what must be there; halves and conditions are made again as they were, from what they are made of."""
        for node in nodes:
            if node not in self.roots:
                continue
            if isinstance(self.values[node], Value):
                self.needed.append(node)
            elif node not in self.stays:
                self.stays.append(node)
                self._need(node.all_input_nodes)

    def _follow(self, node: fx.Node) -> None:
        if node in self.held:
            self.values[node] = self.step(node)
            return
        inputs = [entry for entry in node.all_input_nodes if entry in self.roots]
        if self.is_table(node, inputs):
            self.tables.add(node)
        found = self._read(node, inputs)
        if found is None and any(not self._bare(entry) for entry in inputs):
            before = {entry: (self.values[entry], self.roots[entry], self.patches[entry]) for entry in inputs}
            widths = {entry: self.width_of(entry) for entry in inputs}
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
        width = self.kept_width(node, inputs)
        self._root(node, width)

    def _meets_vector(self, node: fx.Node) -> bool:
        return any(isinstance(x, torch.Tensor) and x.numel() > 1 for x in map(self.held.get, node.all_input_nodes))

    def _bare(self, node: fx.Node) -> bool:
        value = self.values[node]
        return isinstance(value, Value) and isinstance(value.thing, Branch) and not value.thing.layers

    def _read(self, node: fx.Node, inputs: list[fx.Node]) -> Any:
        """The value of a node over the one root of its operands; None if there is none."""
        if len({self.roots[entry] for entry in inputs}) != 1:
            return None
        if any(self._bare(entry) and self.width_of(entry) is None for entry in inputs) and self._meets_vector(node):
            return None  # one value may meet several
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
        if isinstance(found, Condition | Halves):
            self.patches[node] = None
            return found
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
            self.of_many.add(node)
            found: Any = Value(value.thing.scaled(*batch_norm(layer)), (), True)
        elif layer is not None and (
            activation_of(layer) or chain_of(layer) or isinstance(layer, nn.Dropout | nn.Dropout2d | nn.GLU)
        ):
            found = value if isinstance(layer, nn.Dropout2d) else self._with(inputs[0], value, node)
        elif node.op != "call_module" and (self.activation(node) or call_name(node.target) in _ONE_BY_ONE):
            found = self._with(inputs[0], value, node)
        else:
            return None
        thing = found.thing if isinstance(found, Value) else None
        gated = isinstance(thing, Product) and self.boxed and len(thing.gate.layers) == 1
        if not gated and not isinstance(thing, Branch):
            return None
        self.patches[node] = how
        if inputs[0] in self.channels:
            given = self.channels[inputs[0]]
            count = thing.outputs if isinstance(thing, Product) else given.channels
            self.channels[node] = replace(given, channels=count)
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
        nodes, patches = tuple(_between(root, node)), self.patches[node]
        if patches is not None and self.of_many.intersection(nodes):
            patches = replace(patches, of_many=True)
        return Piece(root, node, value, patches, nodes)


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


def _run_piece(
    piece: nn.Module, patches: Patches | None, alone: str | None, points: np.ndarray, dtype: str
) -> np.ndarray | None:
    """A piece of the source at points (n, d); `alone` as of `run_module`."""
    first = next((p for p in piece.parameters()), None)
    if first is not None and name_of(first.dtype) != dtype:
        if alone is not None and (alone in PRECISIONS or dtype != "float32"):
            return None
        piece = copy.deepcopy(piece).to(precision_of(dtype).torch_dtype)
    x = torch.from_numpy(points).to(precision_of(dtype).torch_dtype)
    if patches is not None:
        x = x.reshape(len(points), *patches.shape())
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        found = piece(x).double().cpu().numpy()
    return found if patches is None else found.reshape(len(points), -1)
