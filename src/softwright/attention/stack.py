"""`AttentionStack`: a prompt of observations goes in, the predictions of a model fitted to it come out.

Tokens are rows. A layer is softmax attention, a linear map of the residual stream, and nothing else:

    X_rows  <-  X_rows R  +  sum_h softmax( (X_rows Wq_h) (X_keys Wk_h)^T ) (X_keys Wv_h) Wo_h,

R the identity unless given. There is no feed-forward block, no normalisation and no mask: a head that must not see a
token gives it a score of -Omega, so that its weight underflows to exactly 0 and the scores of all others stay as they
are. The softmax is that of `scaled_dot_product_attention`; `attention.multihead` writes the same stack with stock
`nn.MultiheadAttention` modules.

The sequence consists of segments. Those of observations hold one token a row of the prompt, the queries one token each,
all made by one linear map; the others are fixed tokens. A layer updates the segments `rows` and looks at the segments
`keys`; what is in no `rows` is read-only. Layers that repeat are stored once: `program` lists them in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from softwright.errors import Faults, InvalidInput
from softwright.methods.guards import Guard
from softwright.methods.prompts import Prompt, read_prompt
from softwright.result.constructed import load_tensors

SOURCES = ("data", "query", "fixed")
Stream = dict[str, Tensor]  # segment -> (batch, tokens, width)


@dataclass(frozen=True)
class Segment:
    """Tokens of one kind: `base` (T, D), plus for observations and queries a linear map `embed` (d + 2, D) of
    (x, y, log weight), added to the one base row."""

    name: str
    source: str
    base: np.ndarray
    embed: np.ndarray | None = None


@dataclass(frozen=True)
class HeadWeights:
    """One head: Wq, Wk (D, k), Wv (D, v), Wo (v, D)."""

    Wq: np.ndarray
    Wk: np.ndarray
    Wv: np.ndarray
    Wo: np.ndarray


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """The heads of a layer, the segments it updates, those it reads, and the linear map of the residual stream."""

    heads: list[HeadWeights]
    rows: tuple[str, ...]
    keys: tuple[str, ...]
    R: np.ndarray | None = None
    label: str = ""


@dataclass(frozen=True)
class Blueprint:
    """Everything that makes a stack: what the builders of `softwright.methods` return.

    `read` (D,) is the prediction as a functional of a query token. `coefficient` names a segment and a functional (D,)
    that reads the coefficients of the scaled features at it; the scales are the slot `tau` of the unit tokens. `tail`
    counts the last layers of the program, which read a state out and can be run after any layer before them, and `head`
    the first, which prepare the prompt.
    """

    slots: dict[str, tuple[int, int]]
    segments: list[Segment]
    program: list[LayerWeights]
    read: np.ndarray
    coefficient: tuple[str, np.ndarray]
    guards: list[Guard] = field(default_factory=list)
    head: int = 0
    tail: int = 0


class StackLayer(nn.Module):
    """One layer; all heads are padded to a common size so that one call of SDPA runs them."""

    Wq: Tensor
    Wk: Tensor
    Wv: Tensor
    Wo: Tensor
    R: Tensor | None

    def __init__(
        self,
        shapes: Mapping[str, Sequence[int]],
        rows: Sequence[str],
        keys: Sequence[str],
        label: str,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.rows, self.keys, self.label = tuple(rows), tuple(keys), label
        self._known: tuple[Any, tuple[Tensor, Tensor, Tensor, Tensor]] | None = None
        for name in ("Wq", "Wk", "Wv", "Wo"):
            self.register_buffer(name, torch.zeros(*shapes[name], dtype=dtype))
        self.register_buffer("R", torch.zeros(*shapes["R"], dtype=dtype) if "R" in shapes else None)

    @classmethod
    def of(cls, weights: LayerWeights, dtype: torch.dtype) -> StackLayer:
        k = max(head.Wq.shape[1] for head in weights.heads)
        v = max(head.Wv.shape[1] for head in weights.heads)

        def stacked(name: str, size: int, axis: int) -> np.ndarray:
            padded = []
            for head in weights.heads:
                matrix = getattr(head, name)
                width = [(0, 0), (0, 0)]
                width[axis] = (0, size - matrix.shape[axis])
                padded.append(np.pad(matrix, width))
            return np.stack(padded)

        tensors = {
            "Wq": stacked("Wq", k, 1),  # (H, D, k)
            "Wk": stacked("Wk", k, 1),
            "Wv": stacked("Wv", v, 1),  # (H, D, v)
            "Wo": stacked("Wo", v, 0),  # (H, v, D)
        }
        if weights.R is not None:
            tensors["R"] = weights.R
        layer = cls(
            {name: array.shape for name, array in tensors.items()}, weights.rows, weights.keys, weights.label, dtype
        )
        for name, array in tensors.items():
            getattr(layer, name).copy_(torch.from_numpy(array))
        return layer

    @property
    def heads(self) -> int:
        return self.Wq.shape[0]

    def attend(self, rows: Tensor, keys: Tensor) -> Tensor:
        """(B, T, D), (B, S, D) -> the sum over the heads (B, T, D)."""
        q, k, v, o = self._used()
        mixed = scaled_dot_product_attention(
            rows[:, None, :, q] @ self.Wq[:, q],
            keys[:, None, :, k] @ self.Wk[:, k],
            keys[:, None, :, v] @ self.Wv[:, v],
            scale=1.0,
        )  # (B, H, T, v)
        out = torch.zeros_like(rows)
        out[..., o] = mixed.transpose(1, 2).flatten(2) @ self.Wo[..., o].flatten(0, 1)
        return out

    def _used(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The coordinates that any head reads or writes: a token is wide, a layer looks at a few of its slots, and
        leaving out products with zero changes nothing but time. Found again when a weight changes."""
        tensors = (self.Wq, self.Wk, self.Wv, self.Wo)
        state = tuple((tensor.data_ptr(), tensor._version) for tensor in tensors)
        if self._known is None or self._known[0] != state:
            axes = ((0, 2), (0, 2), (0, 2), (0, 1))
            found = [(tensor != 0).sum(dim=axis).nonzero()[:, 0] for tensor, axis in zip(tensors, axes, strict=True)]
            self._known = (state, (found[0], found[1], found[2], found[3]))
        return self._known[1]

    def description(self) -> dict[str, Any]:
        shapes = {name: list(tensor.shape) for name, tensor in self.named_buffers()}
        return {"rows": list(self.rows), "keys": list(self.keys), "label": self.label, "shapes": shapes}


def apply_layer(layer: StackLayer, stream: Stream, attend: Callable[[Tensor, Tensor], Tensor] | None = None) -> Stream:
    """The stream after one layer; `attend` runs the heads in another way (see `attention.multihead`)."""
    rows = torch.cat([stream[name] for name in layer.rows], dim=1)
    keys = torch.cat([stream[name] for name in layer.keys], dim=1)
    kept = rows if layer.R is None else rows @ layer.R
    changed = kept + (layer.attend if attend is None else attend)(rows, keys)
    lengths = [stream[name].shape[1] for name in layer.rows]
    return {**stream, **dict(zip(layer.rows, changed.split(lengths, dim=1), strict=True))}


class AttentionStack(nn.Module):
    """A stack of attention layers that fits a statistical model to the observations in its prompt."""

    kind: ClassVar[str] = "in_context"

    def __init__(self, blueprint: Blueprint, settings: Mapping[str, Any], dtype: torch.dtype = torch.float64) -> None:
        """`settings` are the arguments the stack was built with; method, features and intercept steer its checks."""
        super().__init__()
        self.settings = dict(settings)
        self.slots = dict(blueprint.slots)
        self.guards = list(blueprint.guards)
        self.head, self.tail = blueprint.head, blueprint.tail
        self.sources = {segment.name: segment.source for segment in blueprint.segments}
        for segment in blueprint.segments:
            self.register_buffer(f"base_{segment.name}", torch.tensor(segment.base, dtype=dtype))
            if segment.embed is not None:
                self.register_buffer(f"embed_{segment.name}", torch.tensor(segment.embed, dtype=dtype))
        unique = list({id(layer): layer for layer in blueprint.program}.values())
        place = {id(layer): i for i, layer in enumerate(unique)}
        self.program = [place[id(layer)] for layer in blueprint.program]
        self.layers = nn.ModuleList([StackLayer.of(layer, dtype) for layer in unique])
        self.coefficient_segment = blueprint.coefficient[0]
        self.register_buffer("read", torch.tensor(blueprint.read, dtype=dtype))
        self.register_buffer("read_coefficient", torch.tensor(blueprint.coefficient[1], dtype=dtype))

    read: Tensor
    read_coefficient: Tensor

    @property
    def dtype(self) -> torch.dtype:
        return self.read.dtype

    @property
    def features(self) -> int:
        return int(self.settings["features"])

    @property
    def depth(self) -> int:
        """Attention layers that a prompt passes."""
        return len(self.program)

    @property
    def parameter_count(self) -> int:
        return sum(tensor.numel() for tensor in self.state_dict().values())

    def layer_at(self, position: int) -> StackLayer:
        layer = self.layers[self.program[position]]
        if not isinstance(layer, StackLayer):
            raise TypeError("the layers of a stack are StackLayers")
        return layer

    def embed(self, prompt: Prompt) -> Stream:
        """The tokens of a prompt, by segment: one linear map each, and the fixed ones."""
        batch = prompt.x.shape[0]
        data = torch.cat([prompt.x, prompt.y[..., None], prompt.log_weights[..., None]], dim=-1)  # (B, n, d + 2)
        query = pad(prompt.queries, (0, 2))  # (B, m, d + 2)
        stream: Stream = {}
        for name, source in self.sources.items():
            base = getattr(self, f"base_{name}")
            if source == "fixed":
                stream[name] = base.expand(batch, -1, -1)
            else:
                stream[name] = (data if source == "data" else query) @ getattr(self, f"embed_{name}") + base
        return stream

    def states(
        self, stream: Stream, check: bool = False, attend: Sequence[Callable[[Tensor, Tensor], Tensor]] | None = None
    ) -> Iterator[Stream]:
        """The stream after 0, 1, .., depth layers; with `check` every guard looks at it when its layer is reached."""
        seen: list[Stream] = [stream]
        watched = max((guard.reach for guard in self.guards), default=0) + 1
        for position in range(self.depth + 1):
            if check:
                for guard in self.guards:
                    if guard.position == position:
                        guard.look(seen, self.slots)
            yield seen[-1]
            if position < self.depth:
                layer = self.layer_at(position)
                run = None if attend is None else attend[self.program[position]]
                seen = [*seen[-watched:], apply_layer(layer, seen[-1], run)]

    def run(self, prompt: Prompt, check: bool = True) -> Stream:
        return deque(self.states(self.embed(prompt), check), maxlen=1).pop()

    def forward(
        self, x: Tensor, y: Tensor, queries: Tensor, sample_weight: Tensor | None = None, check: bool = True
    ) -> Tensor:
        """x (..., n, d), y (..., n), queries (..., m, d) -> predictions (..., m)."""
        prompt = read_prompt(x, y, queries, sample_weight, self.settings, self.dtype, check)
        return prompt.unbatched(self.run(prompt, check)["query"] @ self.read)

    def coefficients(
        self, x: Tensor, y: Tensor, sample_weight: Tensor | None = None, check: bool = True
    ) -> tuple[Tensor, Tensor]:
        """(..., d) coefficients and (...) intercepts.

        The stack holds the coefficients of scaled features and their scales; their product is taken here, outside the
        attention, as is the intercept: the prediction at the mean of x minus what the coefficients make of that mean.
        """
        whole = read_prompt(x, y, None, sample_weight, self.settings, self.dtype, check)
        mean = (whole.log_weights.softmax(dim=-1)[..., None] * whole.x).sum(dim=1, keepdim=True)  # (B, 1, d)
        prompt = replace(whole, queries=mean)
        final = self.run(prompt, check)
        at = final[self.coefficient_segment] @ self.read_coefficient
        # Unit tokens come in pairs of both signs; half their difference is free of what rounding adds to both alike.
        scaled = (at if self.coefficient_segment == "basis" else 0.5 * (at[:, ::2] - at[:, 1::2]))[:, : self.features]
        tau = final["unit"][:, ::2, self.slots["tau"][0]][:, : self.features]
        coefficients = scaled * tau  # (B, d)
        intercept = (final["query"] @ self.read)[:, 0] - (coefficients * mean[:, 0]).sum(dim=-1)
        if not self.settings["intercept"]:
            intercept = torch.zeros_like(intercept)
        return prompt.unbatched(coefficients), prompt.unbatched(intercept)

    def trace(self, x: Tensor, y: Tensor, queries: Tensor, sample_weight: Tensor | None = None) -> list[Tensor]:
        """Predictions (..., m) after every layer that follows the preparation, as the last layers would read them."""
        prompt = read_prompt(x, y, queries, sample_weight, self.settings, self.dtype, True)
        found = []
        for position, stream in enumerate(self.states(self.embed(prompt))):
            if self.head <= position <= self.depth - self.tail:
                shown = stream
                for place in range(self.depth - self.tail, self.depth):
                    shown = apply_layer(self.layer_at(place), shown)
                found.append(prompt.unbatched(shown["query"] @ self.read))
        return found

    def evaluate(
        self,
        inputs: Any = None,
        /,
        *,
        x: Any = None,
        y: Any = None,
        queries: Any = None,
        sample_weight: Any = None,
        check: bool = True,
    ) -> np.ndarray:
        """NumPy in, NumPy out: evaluate(x=..., y=..., queries=...), or one tuple (x, y, queries)."""
        if inputs is not None:
            x, y, queries = inputs
        if x is None or y is None or queries is None:
            raise InvalidInput("in_context", ["give x, y and queries: built(x=..., y=..., queries=...)"])
        with torch.no_grad():
            return self(x, y, queries, sample_weight, check).double().numpy()

    def fitted(self, x: Any, y: Any, sample_weight: Any = None, check: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """NumPy in, NumPy out: the coefficients and the intercept."""
        with torch.no_grad():
            coefficients, intercept = self.coefficients(x, y, sample_weight, check)
        return coefficients.double().numpy(), intercept.double().numpy()

    def describe(self) -> dict[str, Any]:
        layers = [layer.description() for layer in self.layers if isinstance(layer, StackLayer)]
        shapes = {name: list(tensor.shape) for name, tensor in self.named_buffers(recurse=False)}
        return {
            "settings": self.settings,
            "dtype": str(self.dtype).removeprefix("torch."),
            "slots": {name: list(place) for name, place in self.slots.items()},
            "sources": self.sources,
            "shapes": shapes,
            "program": self.program,
            "layers": layers,
            "guards": [guard.as_dict() for guard in self.guards],
            "coefficient_segment": self.coefficient_segment,
            "head": self.head,
            "tail": self.tail,
        }

    @classmethod
    def rebuilt(cls, model: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Self:
        dtype = getattr(torch, model["dtype"])
        network = cls.__new__(cls)
        nn.Module.__init__(network)
        network.settings = dict(model["settings"])
        network.slots = {name: (int(a), int(b)) for name, (a, b) in model["slots"].items()}
        network.guards = [Guard.from_dict(data) for data in model["guards"]]
        network.head, network.tail = int(model["head"]), int(model["tail"])
        network.coefficient_segment = model["coefficient_segment"]
        network.sources = dict(model["sources"])
        network.program = [int(place) for place in model["program"]]
        for name, shape in model["shapes"].items():
            network.register_buffer(name, torch.zeros(*shape, dtype=dtype))
        stored = [
            StackLayer(layer["shapes"], layer["rows"], layer["keys"], layer["label"], dtype)
            for layer in model["layers"]
        ]
        network.layers = nn.ModuleList(stored)
        load_tensors(network, tensors)
        return network

    def facts(self) -> list[tuple[str, str]]:
        most = max(layer.heads for layer in self.layers if isinstance(layer, StackLayer))
        return [
            ("method", f"{self.settings['method']} by {self.settings['solver']}"),
            ("takes", f"observations (x, y) with {self.features} feature(s), any number, and queries"),
            ("layers", f"{self.depth} of softmax attention ({len(self.layers)} different), at most {most} heads each"),
            ("width", str(self.read.shape[0])),
        ]


def check_blueprint(blueprint: Blueprint) -> None:
    """Raise if a builder made something that cannot run: unknown segments, matrices of the wrong width."""
    faults = Faults("AttentionStack")
    names = {segment.name for segment in blueprint.segments}
    width = len(blueprint.read)
    for i, layer in enumerate(blueprint.program):
        unknown = {*layer.rows, *layer.keys} - names
        faults.check(not unknown, f"layer {i} names segments {sorted(unknown)} that do not exist")
        for head in layer.heads:
            faults.check(head.Wq.shape[0] == head.Wk.shape[0] == width, f"layer {i} has a head of another width")
    faults.raise_if_any()
