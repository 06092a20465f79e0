"""Networks that `transpile` returns: one whose neurons are heads, and a user's module with such blocks inside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from softwright.chunks import in_chunks, rows_within
from softwright.errors import InvalidInput
from softwright.precision import name_of, precision_of
from softwright.result.constructed import Room, load_tensors
from softwright.settings import as_proved, differentiable, looked_through
from softwright.transpiler.gated_heads import GatedHeads
from softwright.transpiler.grouped_heads import group_of
from softwright.transpiler.neuron_heads import WINDOW, NeuronHeads, widened
from softwright.transpiler.separate_heads import SeparateHeads
from softwright.transpiler.token_table import TokenTable

if TYPE_CHECKING:
    from softwright.attention.view import AttentionView


class Projection(nn.Linear):
    """A linear map between heads: the output projection of one layer, or a layer without an activation."""

    def __init__(self, weight: np.ndarray, bias: np.ndarray, dtype: torch.dtype, layout: str = "softmax") -> None:
        nn.Module.__init__(self)  # not that of Linear, whose weights are parameters
        self.layout, self.ends = layout, False
        self.out_features, self.in_features = weight.shape
        self.register_buffer("weight", torch.tensor(weight, dtype=dtype))
        self.register_buffer("bias", torch.tensor(bias, dtype=dtype))

    def forward(self, input: Tensor) -> Tensor:
        with as_proved(input):
            if self.layout == "double":
                found = linear(input.double(), self.weight.double(), self.bias.double())
                return found.to(self.weight.dtype) if self.ends else found
            return linear(widened(input, self.weight), self.weight, self.bias)


class _Transpiled(nn.Module):
    """What the networks that `transpile` returns have in common."""

    layout: str

    @property
    def dtype(self) -> torch.dtype:
        return next(tensor.dtype for tensor in self.state_dict().values() if tensor.is_floating_point())

    @property
    def heads(self) -> int:
        return sum(heads_of(part) for part in self.modules())

    @property
    def tokens(self) -> int:
        """Tokens of all heads together."""
        return sum(tokens_of(part) for part in self.modules())

    def evaluate(self, inputs: Any) -> Any:
        """NumPy in, NumPy out; whole numbers (indices of tokens) stay whole."""
        x = torch.as_tensor(np.array(inputs))
        with torch.no_grad():
            return self(x if self._takes_indices(x) else x.to(self.dtype)).double().cpu().numpy()

    def _takes_indices(self, x: Tensor) -> bool:
        return False

    def _facts(self, first: tuple[str, str]) -> list[tuple[str, str]]:
        return [first, ("heads", f"{self.heads} (one per neuron), {self.tokens} tokens in all")]


class TranspiledNetwork(_Transpiled):
    """`steps`: `NeuronHeads`, `GatedHeads` and linear projections, one after another. (..., d) -> (..., m)."""

    kind: ClassVar[str] = "transpiled"

    def __init__(self, steps: Sequence[nn.Module], names: Sequence[str], layout: str) -> None:
        """`names` says for each step which activation it is, for people."""
        super().__init__()
        self.steps = nn.ModuleList(steps)
        self.names, self.layout = tuple(names), layout
        self._widest = max(1, self.inputs, *(_width(step) for step in steps))
        self._at_once = self._rows(self.inputs, 8)  # rows that never need to be parted
        if isinstance(steps[-1], NeuronHeads | Projection):
            steps[-1].ends = True
        self.train(False)

    @property
    def inputs(self) -> int:
        first = self.steps[0]
        return first.in_features if isinstance(first, nn.Linear) else int(getattr(first, "inputs", 0))

    @property
    def outputs(self) -> int:
        return _width(self.steps[-1])

    def forward(self, x: Tensor) -> Tensor:
        """(..., d) -> (..., m), in chunks that bound the memory; images (n, c, h, w) of d numbers are rows."""
        if x.dim() > 2 and x.shape[-1] != self.inputs and math.prod(x.shape[1:]) == self.inputs:
            x = x.flatten(1)  # a source that begins with Flatten is called with images
        own = next(self.buffers()).dtype  # cheaper than `dtype`, which is for callers
        # Numbers of half precision are widened, exactly; layout double makes all numbers float64.
        known = (own, torch.float16, torch.bfloat16, *((torch.float64,) if self.layout == "double" else ()))
        if x.shape[-1:] != (self.inputs,) or x.dtype not in known:
            fault = f"give {own} of shape (..., {self.inputs}); got {x.dtype} of shape {tuple(x.shape)}"
            raise InvalidInput("TranspiledNetwork", [fault if x.dtype in known else f"{fault}; use x.to({own})"])
        # Positions that stand in one sequence stay together; all others are rows of their own.
        if not looked_through() and x.dim() == 2 and x.shape[0] <= self._at_once:
            with as_proved(x):
                return self._run(x)
        lead = x.dim() - 2 if self.layout == "sequence" and x.dim() >= 3 else x.dim() - 1
        rows = x.reshape(-1, *x.shape[lead:])
        y = in_chunks(
            self._run, rows, self._rows(math.prod(rows.shape[1:]), 8 if self.layout == "double" else x.element_size())
        )
        return y.reshape(*x.shape[:lead], *y.shape[1:])

    def _run(self, x: Tensor) -> Tensor:
        for step in self.steps:
            x = step(x)
        return x

    def _rows(self, entries: int, size: int) -> int:
        """How many rows of so many entries are run at a time: whole windows, where rows are put into sequences."""
        rows = rows_within(4 * self._widest * max(1, entries // max(1, self.inputs)) * max(size, 4))
        return max(rows - rows % WINDOW, WINDOW)

    def attention(self, inputs: Any, /) -> AttentionView:
        """The weights of every neuron's tokens at inputs (..., d)."""
        from softwright.transpiler.view import view_of

        return view_of(self, inputs)

    def facts(self) -> list[tuple[str, str]]:
        return self._facts(("network", f"{self.inputs} numbers -> {self.outputs}, layout {self.layout}"))

    def describe(self) -> dict[str, Any]:
        return {
            "dtype": name_of(self.dtype),
            "layout": self.layout,
            "names": list(self.names),
            "steps": [_describe(step) for step in self.steps],
        }

    @classmethod
    def rebuilt(cls, model: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Self:
        dtype = precision_of(model["dtype"]).torch_dtype
        room = Room(tensors)
        steps = [
            _rebuilt(entry, f"steps.{i}.", tensors, room, dtype, model["layout"])
            for i, entry in enumerate(model["steps"])
        ]
        network = cls(steps, model["names"], model["layout"])
        load_tensors(network, tensors)
        return network


class TranspiledModule(_Transpiled):
    """A user's module in which feed-forward blocks were replaced. Runs like the module; its file is a state_dict."""

    kind: ClassVar[str] = "transpiled_module"

    def __init__(self, module: nn.Module, blocks: Sequence[str], layout: str) -> None:
        super().__init__()
        self.module, self.blocks, self.layout = module, tuple(blocks), layout
        self.train(False)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        with differentiable():
            return self.module(*inputs, **named)

    def _takes_indices(self, x: Tensor) -> bool:
        return not x.is_floating_point()

    def facts(self) -> list[tuple[str, str]]:
        return self._facts(
            ("blocks", f"{len(self.blocks)} feed-forward block(s) became attention, layout {self.layout}")
        )


def _width(step: nn.Module) -> int:
    """Numbers that a step gives for each row."""
    return step.out_features if isinstance(step, nn.Linear) else int(getattr(step, "heads", 0))


def heads_of(part: nn.Module) -> int:
    """Heads of a module itself, without those of its children."""
    if isinstance(part, GatedHeads):
        return part.heads * len(part.steps)
    return part.heads if isinstance(part, NeuronHeads) else 0


def tokens_of(part: nn.Module) -> int:
    """Tokens of a module's own heads."""
    if isinstance(part, GatedHeads):
        return 2 * heads_of(part)
    return part.heads * part.tokens.shape[1] if isinstance(part, NeuronHeads) else 0


def _describe(step: nn.Module) -> dict[str, Any]:
    if isinstance(step, NeuronHeads):
        shared = {"group": step.group} if step.group > 1 else {}
        return {"step": "heads", "inputs": step.inputs, "heads": step.heads, **shared}
    if isinstance(step, GatedHeads):
        gate = {"inputs": step.inputs, "heads": step.heads, "second": step.second, "activated": step.gate is not None}
        return {"step": "gated", **gate, **({"group": step.group} if step.group > 1 else {})}
    if isinstance(step, nn.Linear):
        return {"step": "linear", "inputs": step.in_features, "outputs": step.out_features}
    raise TypeError(f"a {type(step).__name__} is no step of a transpiled network")


def _rebuilt(
    entry: Mapping[str, Any],
    prefix: str,
    tensors: Mapping[str, np.ndarray],
    room: Room,
    dtype: torch.dtype,
    layout: str,
) -> nn.Module:
    """A step of the right shape; of the tensors only token tables, which decide the shapes, are used here."""
    rows = entry["outputs" if entry["step"] == "linear" else "heads"]
    shape = room.take((rows, entry["inputs"]))
    zeros = np.zeros(shape), np.zeros(shape[0])
    if entry["step"] == "linear":
        return Projection(*zeros, dtype, layout)
    if entry["step"] == "heads":
        return _neurons(zeros, prefix, tensors, dtype, layout, entry.get("group", 1))
    table = TokenTable(*tensors[prefix + "gate.tokens"].astype(np.float64)) if entry["activated"] else None
    steps, shares = (tensors[prefix + name].astype(np.float64) for name in ("steps", "shares"))
    group = entry.get("group", 1)
    heads = GatedHeads(zeros, zeros, table, entry["second"], steps, shares, dtype, layout, group)
    if table is not None:
        heads.gate = _neurons(
            zeros, prefix + "gate.", tensors, dtype, layout, 1 if group == 1 else group_of(table, layout)
        )
    return heads


def _neurons(
    zeros: tuple[np.ndarray, np.ndarray],
    prefix: str,
    tensors: Mapping[str, np.ndarray],
    dtype: torch.dtype,
    layout: str,
    group: int = 1,
) -> NeuronHeads:
    """Heads of the right shape; in files of earlier versions every neuron has a stock head, which holds its weights, or
    all have one that is wider than it need be."""
    table = TokenTable(*tensors[prefix + "tokens"].astype(np.float64))
    if layout == "multihead" and prefix + "weight" not in tensors:
        return SeparateHeads(*zeros, table, dtype)
    width = tensors[prefix + "attention.in_proj_weight"].shape[-1] if layout == "multihead" else None
    return NeuronHeads(*zeros, table, dtype, layout, group, width)
