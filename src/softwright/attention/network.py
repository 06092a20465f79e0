"""`AttentionNetwork`: the module that users run. Points of the box in, values out, one attention layer in between.

    x (..., d)  ->  t = (x - center) * scale, in [-1, 1]^d  ->  sum of softmax heads  ->  (..., m)

The change to the unit frame is a linear map of (x, 1), so it belongs to the query projection; it is kept apart because
subtracting the centre first is what keeps float32 accurate far from the origin.

Engines: the same formula in another order or another type. "sdpa" is stock attention in the network's dtype;
"factorised" takes grid heads axis by axis; "double" is stock attention in float64 on the network's own float32 weights
and inputs, rounded once at the end, so that a float32 network is wrong by its weights and half an ulp of its output.
"window" takes large grid heads by the keys that carry weight (see `window.py`), "tree" heads of any keys (`tree.py`),
in float64; no certificate speaks of them, `network.window_error()` and `network.tree_error()` bound what they compute.
`network.engine` is what runs unless a call names another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from softwright.attention.factorised import factorised_head
from softwright.attention.few_points import MOST_SCORES, RUN_AS, few_points, module_at_one_point, points_by_name
from softwright.attention.head import Axis, Head
from softwright.attention.layer import AttentionLayer
from softwright.attention.token_names import in_user_coordinates, token_names
from softwright.attention.view import AttentionView, HeadView, check_size
from softwright.chunks import arrays_in_chunks, in_chunks, rows_within
from softwright.domain import Box
from softwright.errors import Faults, InvalidInput
from softwright.precision import FLOAT64, name_of, precision_of
from softwright.result.constructed import Room, load_tensors
from softwright.settings import looked_through, runs_as_proved

ENGINES = ("sdpa", "factorised", "double")  # what certificates speak of
_LEAVING_OUT = {"window": True, "tree": False}  # what leaves tokens out, and whether its heads must be grids
_RUN_BY = (*ENGINES, *_LEAVING_OUT)


_DOUBLE_TOKENS = 20  # of a head: "double" takes 1.4 to 2.7 times as long as "sdpa" in float32, under 0.2 us a point


def _run_and_error(engine: str) -> tuple[Callable[..., Tensor], Callable[..., float]]:
    """How a head runs that leaves tokens out, and how far off it is; loaded when first used."""
    if engine == "window":
        from softwright.attention.window import window_error, window_head

        return window_head, window_error
    from softwright.attention.tree import tree_error, tree_head

    return tree_head, tree_error


def usual_engine(heads: Sequence[Head], dtype: torch.dtype) -> str:
    """The engine of a network that nobody asked another of: "double" for float32 where it costs little, else "sdpa"."""
    few = all(head.tokens <= _DOUBLE_TOKENS for head in heads)
    return "double" if dtype == torch.float32 and few else "sdpa"


def check_engine(engine: str, place: str = "AttentionNetwork") -> str:
    """The name of an engine; an `InvalidInput` that lists them for anything else."""
    if engine not in _RUN_BY:
        raise InvalidInput(place, [f"unknown engine {engine!r}; choose from {', '.join(_RUN_BY)}"])
    return engine


class AttentionNetwork(nn.Module):
    """One layer of softmax heads on a box. An ordinary module: `state_dict`, autograd, any leading shape."""

    kind: ClassVar[str] = "approximation"
    center: Tensor
    scale: Tensor

    def __init__(
        self,
        heads: Sequence[Head],
        box: Box,
        dtype: torch.dtype = torch.float64,
        origin: Sequence[float] | None = None,
        engine: str = "sdpa",
    ) -> None:
        """`origin`, in the unit frame, is the point that coordinates are measured from (the centre unless given).
        `engine` is what runs unless a call names another."""
        super().__init__()
        faults = Faults("AttentionNetwork")
        if faults.check(len(heads) > 0, "no heads given; a network needs at least one"):
            dims, outputs = {head.dim for head in heads}, {head.outputs for head in heads}
            faults.check(dims == {box.dim}, f"heads take {sorted(dims)} inputs, the box has {box.dim}; they must agree")
            faults.check(len(outputs) == 1, f"heads give {sorted(outputs)} outputs; they must agree")
        faults.take(precision_of, dtype)
        faults.take(check_engine, engine)
        faults.raise_if_any()
        self.box = box
        self._engine = engine
        center = box.center if origin is None else box.from_unit(np.asarray(origin, dtype=float))
        self.register_buffer("center", torch.tensor(center, dtype=dtype))
        self.register_buffer("scale", torch.tensor(1.0 / box.halfwidth, dtype=dtype))
        self.layer = AttentionLayer(heads, dtype)

    @property
    def names(self) -> tuple[str, ...]:
        return self.box.names

    @property
    def outputs(self) -> int:
        return next(iter(self.layer)).values.shape[1]

    @property
    def tokens(self) -> int:
        return self.layer.tokens

    @property
    def dtype(self) -> torch.dtype:
        return self.center.dtype

    @property
    def engine(self) -> str:
        """What runs unless a call names another: one of `ENGINES`, "window" or "tree"."""
        return self._engine

    @engine.setter
    def engine(self, engine: str) -> None:
        self._engine = check_engine(engine)

    @property
    def parameter_count(self) -> int:
        """Numbers that describe the network (a grid head's keys and biases are counted axis by axis)."""
        return sum(head.parameters for head in self.heads())

    def heads(self) -> list[Head]:
        """The heads as data, with the very numbers that run."""
        return [head.to_head() for head in self.layer]

    def forward(self, x: Tensor, engine: str | None = None) -> Tensor:
        """(..., d) -> (..., m), by the network's own engine unless one is named."""
        engine = self._engine if engine is None else engine
        if not looked_through() and engine in RUN_AS:
            found = module_at_one_point(self, x)
            if found is not None:
                return found
        return self._forward(x, check_engine(engine))

    @runs_as_proved
    def _forward(self, x: Tensor, engine: str) -> Tensor:
        if x.shape[-1:] != self.center.shape:
            wanted = f"{len(self.names)} number(s), {', '.join(self.names)}"
            raise InvalidInput(
                "AttentionNetwork",
                [f"the last axis must hold {wanted}; got shape {tuple(x.shape)}"],
            )
        if x.dtype != self.dtype:
            raise InvalidInput(
                "AttentionNetwork",
                [f"input is {x.dtype}, the network {self.dtype}; use x.to({self.dtype}) or network.to({x.dtype})"],
            )
        points = x.reshape(-1, x.shape[-1])  # (q, d)
        size = 8 if engine == "double" or engine in _LEAVING_OUT else x.element_size()
        y = in_chunks(lambda part: self._run(part, engine), points, self._rows(size))
        return y.reshape(*x.shape[:-1], y.shape[-1])

    def _run(self, x: Tensor, engine: str) -> Tensor:
        if engine in _LEAVING_OUT and not (looked_through() or (torch.is_grad_enabled() and self._learns(x))):
            t = (x.double() - self.center.double()) * self.scale.double()
            (run, _), grids = _run_and_error(engine), _LEAVING_OUT[engine]
            runs = (run(head, t) if not grids or head.structure == "grid" else head(t) for head in self.layer)
            return reduce(torch.add, runs).to(x.dtype)
        if engine == "double":  # every float32 number is a float64 number: nothing is rounded but the end
            t = (x.double() - self.center.double()) * self.scale.double()
            return self.layer(t).to(x.dtype)
        t = (x - self.center) * self.scale  # (q, d)
        if engine == "sdpa":
            return self.layer(t)
        return reduce(
            torch.add, (factorised_head(head, t) if head.structure == "grid" else head(t) for head in self.layer)
        )

    def _learns(self, x: Tensor) -> bool:
        return x.requires_grad or any(parameter.requires_grad for parameter in self.parameters())

    def window_error(self) -> float:
        """A proved bound, for points of the box, of |what engine "window" computes - the same heads in real numbers|.

        With `certificate.exact_part` it bounds the distance to the target. Infinite if some head is no grid.
        """
        return self._error_of("window")

    def tree_error(self) -> float:
        """The same for engine "tree", whose heads need be no grids."""
        return self._error_of("tree")

    def _error_of(self, engine: str) -> float:
        heads, (_, error), grids = list(self.layer), _run_and_error(engine), _LEAVING_OUT[engine]
        if grids and any(head.structure != "grid" for head in heads):
            return math.inf
        one = max(error(head, precision_of(self.dtype).unit) for head in heads)
        if len(heads) == 1:
            return one
        sizes = sum(float(head.values.abs().max()) + _steepest(head.slopes) for head in heads)
        return len(heads) * one + 4 * len(heads) * FLOAT64.unit * (sizes + len(heads) * one)

    def _rows(self, size: int) -> int:
        """How many points are taken at a time: the point, its frame, and the sums of the heads so far."""
        return rows_within(3 * (len(self.names) + self.outputs) * size)

    def evaluate(self, points: Any = None, /, engine: Any = None, **named: Any) -> np.ndarray:
        """NumPy in, NumPy out: points (..., d) in any float type, or one array per variable by name; values (..., m)
        in float64."""
        if points is None:
            if "engine" in self.box.names:  # a variable of that name is meant
                named["engine"], engine = engine, None
            points = self._points(named)
        else:
            points = np.asarray(points)
        engine = self._engine if engine is None else engine
        if engine in RUN_AS and points.ndim and 0 < points.size <= MOST_SCORES:
            found = few_points(self, points if points.dtype == np.float64 else points.astype(np.float64))
            if found is not None:
                return found

        def run(part: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                x = torch.from_numpy(np.require(part, np.float64, ["C", "W"])).to(self.dtype)
                return self(x, engine=engine).double().numpy()

        if points.ndim < 2 or points.shape[-1] != len(self.names):
            return run(points)
        flat = points.reshape(-1, points.shape[-1])
        as_it_is = self.dtype == torch.float64 and flat.dtype == np.float64
        if as_it_is and flat.flags.c_contiguous and flat.flags.writeable:  # nothing is copied: forward takes the parts
            y = run(flat)
        else:
            y = arrays_in_chunks(run, flat, self._rows(16))
        return y.reshape(*points.shape[:-1], y.shape[-1])

    def attention(self, points: Any = None, /, **named: Any) -> AttentionView:
        """Weights, keys and values of every head at points (..., d), or by name, in the user's coordinates."""
        x = np.asarray(self._points(named) if points is None else points, dtype=np.float64)
        if x.shape[-1:] != (len(self.names),):
            raise InvalidInput(
                "attention", [f"points hold {len(self.names)} number(s), {', '.join(self.names)}; got shape {x.shape}"]
            )
        x = x.reshape(-1, len(self.names))  # (q, d)
        check_size(len(x), self.tokens)
        center, scale = (tensor.double().cpu().numpy() for tensor in (self.center, self.scale))
        views = []
        for number, head in enumerate(self.heads(), 1):
            keys, biases, values, slopes = in_user_coordinates(head, center, scale)
            names = token_names(head, self.box, center, scale)
            weights = head.weights((x - center) * scale)
            views.append(HeadView(f"head {number}", names, x, weights, keys, biases, values, slopes))
        asked = [", ".join(f"{n} = {v:.6g}" for n, v in zip(self.names, point, strict=True)) for point in x]
        return AttentionView(asked, views)

    def _points(self, named: Mapping[str, Any]) -> np.ndarray:
        return points_by_name(self.box.names, named, "AttentionNetwork")

    def facts(self) -> list[tuple[str, str]]:
        sides = ", ".join(f"{name} in [{low:g}, {high:g}]" for name, low, high in self.box)
        return [("domain", sides), ("heads", str(len(self.layer.heads))), ("tokens", str(self.tokens))]

    def describe(self) -> dict[str, Any]:
        heads = [{"structure": head.structure, "axis_sizes": list(head.axis_sizes)} for head in self.layer]
        engine = {} if self.engine not in ENGINES[1:] else {"engine": self.engine}
        return {"box": self.box.as_dict(), "dtype": name_of(self.dtype), "heads": heads, **engine}

    @classmethod
    def rebuilt(cls, model: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Self:
        heads = [_head(tensors, i, info) for i, info in enumerate(model["heads"])]
        engine = model.get("engine", "sdpa")  # files written before there was a choice name none
        network = cls(heads, Box(model["box"]), precision_of(model["dtype"]).torch_dtype, engine=engine)
        load_tensors(network, tensors)
        return network

    def extra_repr(self) -> str:
        return f"{', '.join(self.names)} -> {self.outputs} output(s), {self.tokens} tokens, {self.dtype}"


def _steepest(slopes: Tensor | None) -> float:
    return 0.0 if slopes is None else float(slopes.abs().sum(dim=-1).max())


def _head(tensors: Mapping[str, np.ndarray], index: int, info: Mapping[str, Any]) -> Head:
    prefix = f"layer.heads.{index}."
    arrays = {name: tensors.get(prefix + name) for name in ("keys", "biases", "values", "slopes")}
    keys, biases, values = arrays["keys"], arrays["biases"], arrays["values"]
    if keys is None or biases is None or values is None:
        raise KeyError(f"{prefix}keys, biases or values")
    sizes = info.get("axis_sizes") or []
    # Only the sizes of the axes matter here: the numbers themselves are loaded into the module from the file.
    axes = tuple(Axis(np.zeros(n), np.zeros(n)) for n in Room({"biases": biases}).take(sizes))
    return Head(keys, biases, values, arrays["slopes"], info["structure"], axes)
