"""What single torch layers hold and are made of: their weights, and activations that are chains or sums of others.

prelu, rrelu, selu, celu, logsigmoid, hardswish, quick gelu, squared relu      chains and products, see `branches.py`
softshrink(s) = relu(s - l) - relu(-s - l)          tanhshrink(s) = s - tanh(s)
clamp(s, l, h) = hardtanh                           max(s, l) = relu(s - l) + l,     min(s, h) = h - relu(h - s)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from softwright.targets.mlp import values as algebra
from softwright.targets.mlp.activation import Activation
from softwright.targets.mlp.activations import NO_THRESHOLD
from softwright.targets.mlp.branches import Branch
from softwright.targets.mlp.values import Value

MADE_OF_OTHERS = (
    nn.PReLU, nn.RReLU, nn.SELU, nn.CELU, nn.LogSigmoid, nn.Hardswish, nn.Softshrink,
)  # fmt: skip
_SELU = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946  # alpha and scale, as torch has them
_QUICK = 1.702
_BOTH, _LOWER, _UPPER = ("min", "max"), ("min",), ("max",)
CLAMPS: dict[Any, tuple[str, ...]] = {
    **dict.fromkeys((torch.clamp, torch.clip, "clamp", "clip"), _BOTH),
    **dict.fromkeys((torch.clamp_min, "clamp_min"), _LOWER),
    **dict.fromkeys((torch.clamp_max, "clamp_max"), _UPPER),
}
SHRINKS: dict[Any, type[nn.Module]] = {functional.softshrink: nn.Softshrink}
Sum = Callable[[Value, str], Value]  # of a value, and how it is called in a fault


def numbers(tensor: Any) -> np.ndarray:
    return tensor.detach().double().cpu().numpy()


def numbers_of(module: nn.Module) -> Iterator[torch.Tensor]:
    """What a module computes with: its parameters, then its buffers, without whole numbers."""
    return (tensor for tensor in (*module.parameters(), *module.buffers()) if tensor.is_floating_point())


def is_foreign(layer: nn.Module) -> bool:
    """Whether it is a layer of transformers that is read by its name: an activation, or GPT-2's Linear layer."""
    where = type(layer).__module__
    return where == "transformers.activations" or is_transposed(layer)


def is_transposed(layer: nn.Module) -> bool:
    """Conv1D of transformers: a Linear layer that stores its weight (in, out)."""
    return type(layer).__module__ == "transformers.pytorch_utils" and type(layer).__name__ == "Conv1D"


def weights_of(layer: Any) -> tuple[np.ndarray, np.ndarray]:
    """Weight (out, in) and bias (out,) of a Linear layer, or of Conv1D of transformers."""
    weight = numbers(layer.weight).copy()
    weight = weight.T.copy() if is_transposed(layer) else weight
    return weight, np.zeros(len(weight)) if layer.bias is None else numbers(layer.bias).copy()


def chain_of(layer: nn.Module) -> Callable[[Branch], Any] | None:
    """Activations that are chains or products of others; None if it is none of them."""
    if "forward" in vars(layer):
        return None
    match layer:
        case nn.PReLU():
            return lambda value: value.leaky(layer.weight.detach().double().cpu().numpy())
        case nn.RReLU() if not layer.training:
            return lambda value: value.activated(Activation("leaky_relu", ((layer.lower + layer.upper) / 2,)))
        case nn.SELU():
            return lambda value: value.activated(Activation("elu", _SELU[:1])).scaled(_SELU[1])
        case nn.CELU():
            return lambda value: value.scaled(1 / layer.alpha).activated(Activation("elu", (1.0,))).scaled(layer.alpha)
        case nn.LogSigmoid():
            smooth = Activation("softplus", (1.0, NO_THRESHOLD))
            return lambda value: value.scaled(-1.0).activated(smooth).scaled(-1.0)
        case nn.Hardswish():
            return algebra.hard_swish
    if type(layer).__name__ == "QuickGELUActivation" and is_foreign(layer):
        return lambda value: value.scaled(_QUICK).activated(Activation("silu")).scaled(1 / _QUICK)
    if type(layer).__name__ == "ReLUSquaredActivation" and is_foreign(layer):
        return lambda value: algebra.product(value.activated(Activation("relu")), value.settled())
    return None


def batch_norm(layer: Any) -> tuple[np.ndarray, np.ndarray]:
    """Batch norm in eval mode: (s - mean)/sqrt(variance + eps) gain + shift as scale and shift of every value."""
    mean, variance = (numbers(x) for x in (layer.running_mean, layer.running_var))
    gain, shift = (1.0, 0.0) if layer.weight is None else (numbers(x) for x in (layer.weight, layer.bias))
    scale = gain / np.sqrt(variance + layer.eps)
    return scale, shift - mean * scale


def sum_of(layer: nn.Module) -> Sum | None:
    """Activations that are sums of others; None if it is none of them."""
    if "forward" in vars(layer):
        return None
    if isinstance(layer, nn.Softshrink):
        return lambda value, shown: _soft_shrink(value, float(layer.lambd), shown)
    return None


def called_sum(called: Any, rest: tuple[Any, ...], named: dict[str, Any]) -> Sum | None:
    """The same of a function or method of `CLAMPS` or `SHRINKS` and what it was called with."""
    if called in SHRINKS:
        return sum_of(SHRINKS[called](*rest, **named))
    given: dict[str, Any] = {**dict(zip(CLAMPS[called], rest, strict=False)), **named}
    limits = [given.get(name) for name in _BOTH]
    if not all(limit is None or isinstance(limit, float | int) for limit in limits):
        return None
    low, high = (None if limit is None else float(limit) for limit in limits)
    return lambda value, shown: algebra.clamped(value, low, high, shown)


def _soft_shrink(value: Value, width: float, shown: str) -> Value:
    turned = algebra.arithmetic("neg", [value], shown)
    moved = [algebra.arithmetic("sub", [side, Value(width)], shown) for side in (value, turned)]
    ramps = [algebra.function("", side, Activation("relu"), shown) for side in moved]
    return algebra.arithmetic("sub", ramps, shown)
