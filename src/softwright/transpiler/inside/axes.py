"""What is known of the axes of the nodes of a graph: which are tables of rows, which are images with channels.

A network is read along the last axis. How many axes a value has is known behind a Flatten only, where axis 1 is the
last one; of images (N, C, H, W) and sequences (N, C, L) that a convolution gave, the channels are axis 1, and a network
over patches has them last. A single image (C, H, W) has something else there: what goes along axis 1 is for many.
"""

from __future__ import annotations

from typing import Any

from torch import fx, nn

from softwright.targets.mlp import Branch, Follower, Product, Value, activation_of, call_name, chain_of
from softwright.transpiler.inside.patches import Patches

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


class Axes(Follower):
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
