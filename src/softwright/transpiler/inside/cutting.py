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
one there, and is read so nowhere else. Of what a convolution gave, axis 1 holds the channels, last in a network over
patches; a single image, without an axis for many, has something else there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor, fx, nn

from softwright.errors import Faults, InvalidInput
from softwright.targets.mlp import (
    AXES,
    DEFAULT_ALONE,
    Activation,
    Branch,
    Condition,
    DenseLayer,
    Follower,
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
    is_product,
    made_in,
    network_from,
    state_of,
    value_of,
)
from softwright.transpiler.inside.calling import FREE, Manner
from softwright.transpiler.inside.following import not_as_traced
from softwright.transpiler.inside.patches import (
    CONVOLUTIONS,
    Patches,
    matrix_of,
    patches_of,
)
from softwright.transpiler.inside.pieces import Cut, Piece, alone, between, run_piece
from softwright.transpiler.job import Part

_LAST = (nn.LayerNorm, nn.RMSNorm)  # what says how many values its last axis has
_SAME = (
    nn.MaxPool1d, nn.MaxPool2d, nn.AvgPool1d, nn.AvgPool2d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d,
    nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm, nn.GroupNorm, nn.LocalResponseNorm,
    nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.Upsample, nn.ZeroPad1d, nn.ZeroPad2d, nn.Dropout2d, nn.Dropout1d,
)  # fmt: skip
_WINDOWS = (  # functions of images that keep their channels
    "max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
    "adaptive_max_pool1d", "adaptive_max_pool2d", "boolean_dispatch", "fn", "interpolate", "dropout2d", "contiguous",
)  # fmt: skip
_NUMBER_BY_NUMBER = ("add", "iadd", "mul", "imul", "sub", "isub")
_WALKS = (nn.Conv1d, nn.Conv2d, nn.ConvTranspose1d, nn.ConvTranspose2d)  # what says how many channels there are
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
    cut = Cut(path, graph, pieces, kept, options, plain, tuple(inputs))
    dtype = dtype_of(module)
    found = []
    for number, piece in enumerate(pieces):
        names = [shown(node, cutter.modules) for node in piece.nodes]
        label = f"{path + ': ' if path else ''}{names[0]} to {names[-1]}" if len(names) > 1 else names[0]
        try:
            network = network_from(piece.value, dtype, label)
        except InvalidInput:
            return []  # weights that are no numbers, shapes that do not meet: a fault of the module
        fixed = dtype if (cutter.made | cutter.casts).intersection(piece.nodes) else None
        run = partial(run_piece, alone(piece, cutter.modules), piece.patches, fixed)
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
        source = replace(source, run=partial(run, axes=source.least))
        found.append(Part(cut.name(number), source, cut=cut, absorbs=absorbed, behind=behind, padded=padded))
    return found


class _Axes(Follower):
    """Follows a graph, and keeps what is known of the axes of its nodes."""

    def __init__(self, module: nn.Module, graph: fx.Graph) -> None:
        super().__init__(module, graph)
        self.patches: dict[fx.Node, Patches | None] = {}
        self.channels: dict[fx.Node, Patches] = {}  # nodes of images or sequences whose channels are known
        self.tables: set[fx.Node] = set()  # nodes that are tables of rows
        self.unsure: list[str] = []  # what goes along an axis that may be another than the last
        self.of_many: set[fx.Node] = set()  # nodes that mean channels by axis 1, which single images have elsewhere

    def is_last(self, axis: Any, node: fx.Node) -> bool:
        known = next((self.channels[entry] for entry in node.all_input_nodes if entry in self.channels), None)
        if known is not None:  # a network over patches has the channels last
            self.of_many |= {node} if axis == 1 else set()
            return axis in (1, -2 if known.flat else -3)
        if axis == 1 and not any(entry in self.tables for entry in node.all_input_nodes):
            self.unsure.append(
                f"{shown(node, self.modules)} goes along axis 1, which is the last one in tables of rows only; use "
                "dim=-1, or put it behind a Flatten"
            )
            return False
        return axis in (1, -1)

    def is_table(self, node: fx.Node, inputs: list[fx.Node]) -> bool:
        """Whether a node is a table of rows: behind a Flatten, and what keeps the axes of such a table."""
        layer = self.modules.get(str(node.target)) if node.op == "call_module" else None
        if isinstance(layer, nn.Flatten):
            return (layer.start_dim, layer.end_dim) == (1, -1)
        if call_name(node.target) == "flatten":
            return node.args[1:] == (1,) and not node.kwargs
        if not inputs or not all(entry in self.tables for entry in inputs):
            return False
        if node.op == "call_module":
            kept = (nn.Linear, nn.Dropout, nn.GLU, nn.Identity, nn.modules.batchnorm._BatchNorm, *_LAST)
            return isinstance(layer, kept) or (layer is not None and bool(activation_of(layer) or chain_of(layer)))
        return call_name(node.target) in (*_NUMBER_BY_NUMBER, "linear", "cat") or self.activation(node) is not None

    def width_of(self, node: fx.Node) -> int | None:
        value = self.values[node]
        thing = value.thing if isinstance(value, Value) else None
        if node in self.channels or self.patches[node] is not None:
            return None
        return thing.width if isinstance(thing, Branch) else thing.outputs if isinstance(thing, Product) else None

    def kept_width(self, node: fx.Node, inputs: list[fx.Node]) -> int | None:
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
        joined = self._joined_channels(node)
        if joined is not None:
            self.channels[node] = joined
            return None
        if isinstance(layer, _SAME) or call_name(node.target) in (*_NUMBER_BY_NUMBER, *_WINDOWS) or _cuts_off(node):
            known = [self.channels[entry] for entry in inputs if entry in self.channels]
            most = max(known, key=lambda one: one.channels, default=None)
            if most is not None and (len(known) == len(inputs) or most.channels > 1):
                self.channels[node] = most  # a single channel may meet several
                return None
            widths = [width for entry in inputs if (width := self.width_of(entry)) is not None]
            if layer is None and max(widths, default=1) > 1:  # one value may meet several
                return max(widths)
        weight = (
            self._held(node.args[1]) if call_name(node.target) in ("matmul", "bmm") and len(node.args) > 1 else None
        )
        if weight is not None and weight.ndim > 1:
            return weight.shape[-1]
        return self._size(node, alone=True)  # the Linear layer behind it says so

    def _joined_channels(self, node: fx.Node) -> Patches | None:
        """The channels of images that are joined."""
        given = node.args[0] if node.args and isinstance(node.args[0], list | tuple) else ()
        axis = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else 0)
        known = [self.channels.get(entry) for entry in given if isinstance(entry, fx.Node)]
        if call_name(node.target) not in ("cat", "concat") or axis != 1 or not known or None in known:
            return None
        parts = [patches for patches in known if patches is not None]
        return Patches(sum(patches.channels for patches in parts), flat=parts[0].flat)


def _cuts_off(node: fx.Node) -> bool:
    """Whether a node is x[:, :, a:b], which keeps the channels of images and sequences."""
    places = node.args[1] if call_name(node.target) == "getitem" and len(node.args) > 1 else ()
    whole = slice(None)
    return isinstance(places, tuple) and places[:2] == (whole, whole) and all(isinstance(x, slice) for x in places)


def shown(node: fx.Node, modules: dict[str, nn.Module]) -> str:
    if node.op == "call_module":
        return f"{node.target} ({type(modules[str(node.target)]).__name__})"
    return call_name(node.target)


class _Cutter(_Axes):
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

    def _bare(self, node: fx.Node) -> bool:
        value = self.values[node]
        return isinstance(value, Value) and isinstance(value.thing, Branch) and not value.thing.layers

    def _read(self, node: fx.Node, inputs: list[fx.Node]) -> Any:
        """The value of a node over the one root of its operands; None if there is none."""
        if len({self.roots[entry] for entry in inputs}) != 1:
            return None
        vectors = [x.ndim for x in map(self.held.get, node.all_input_nodes) if isinstance(x, Tensor) and x.numel() > 1]
        if any(self._bare(entry) and self.width_of(entry) is None for entry in inputs) and vectors:
            return None  # one value may meet several
        if max(vectors, default=1) > 1 and not is_product(node.target):
            return None  # and a row of several axes gives it to what it meets
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
        nodes, patches = tuple(between(root, node)), self.patches[node]
        if patches is not None and self.of_many.intersection(nodes):
            patches = replace(patches, of_many=True)
        return Piece(root, node, value, patches, nodes)
