"""Feed-forward networks as targets: `torch.nn.Sequential` of Linear layers and activations.

The target is the network in real arithmetic with exactly the weights stored in the module. Linear layers are one matrix
product on the coefficients of the Taylor models; piecewise-linear activations are relaxed where their sign is open,
smooth ones are composed like any other function.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from flint import arb
from torch import nn

from softwright.errors import Faults
from softwright.proof.arithmetic import elementary
from softwright.proof.arithmetic.balls import float_enclosure, precision
from softwright.proof.arithmetic.directed import gamma, up
from softwright.proof.arithmetic.series import Basis
from softwright.proof.arithmetic.taylor_model import TaylorModel, constant, positive_part, variables
from softwright.targets.target import Target


def _leaky(slope: float) -> Callable[[TaylorModel], TaylorModel]:
    return lambda x: positive_part(x) - positive_part(-x).times(slope)


def _hardtanh(low: float, high: float) -> Callable[[TaylorModel], TaylorModel]:
    def clip(x: TaylorModel) -> TaylorModel:
        return positive_part(x.plus(-low)).plus(low) - positive_part(x.plus(-high))

    return clip


def _sigmoid(x: TaylorModel) -> TaylorModel:
    return elementary.by_lagrange(x.times(0.5), "tanh").times(0.5).plus(0.5)


def _gelu(x: TaylorModel) -> TaylorModel:
    with precision(120):
        root, error = float_enclosure(1 / arb(2).sqrt())
    return x * elementary.by_lagrange(x.times(root, error), "erf").times(0.5).plus(0.5)


def _softplus(x: TaylorModel) -> TaylorModel:
    return elementary.log(elementary.exp(x).plus(1.0))


def activation_rule(layer: nn.Module) -> Callable[[TaylorModel], TaylorModel] | None:
    """The Taylor rule of an activation; None if it has none."""
    match layer:
        case nn.ReLU():
            return positive_part
        case nn.LeakyReLU():
            return _leaky(float(layer.negative_slope))
        case nn.Hardtanh():
            return _hardtanh(float(layer.min_val), float(layer.max_val))
        case nn.Tanh():
            return lambda x: elementary.by_lagrange(x, "tanh")
        case nn.Sigmoid():
            return _sigmoid
        case nn.SiLU():
            return lambda x: x * _sigmoid(x)
        case nn.GELU() if layer.approximate == "none":
            return _gelu
        case nn.Softplus() if float(layer.beta) == 1.0:
            return _softplus
        case nn.Identity():
            return lambda x: x
    return None


class MlpTarget(Target):
    """A feed-forward network as a target; values in float64."""

    def __init__(self, module: nn.Sequential, names: Sequence[str]) -> None:
        faults = Faults("MLP target")
        self.names = tuple(names)
        self.layers: list[nn.Module] = list(module)
        width = len(self.names)
        for i, layer in enumerate(self.layers):
            if isinstance(layer, nn.Linear):
                takes = layer.in_features
                faults.check(takes == width, f"layer {i} takes {takes} numbers but gets {width}; mend the layers")
                width = layer.out_features
                parameters = [p for p in (layer.weight, layer.bias) if p is not None]
                finite = all(bool(torch.isfinite(p).all()) for p in parameters)
                faults.check(finite, f"layer {i} holds NaN or infinite weights; train or build it again")
            else:
                faults.check(
                    activation_rule(layer) is not None,
                    f"layer {i} ({layer}) has no proof rule; use Linear with ReLU, LeakyReLU, Hardtanh, Tanh, Sigmoid, "
                    "SiLU, GELU or Softplus",
                )
        faults.raise_if_any()
        self.outputs = width

    def __call__(self, points: np.ndarray) -> np.ndarray:
        x = torch.tensor(np.asarray(points, dtype=np.float64))
        with torch.no_grad():
            for layer in self.layers:
                if isinstance(layer, nn.Linear):
                    x = x @ layer.weight.double().T + (0.0 if layer.bias is None else layer.bias.double())
                else:
                    x = layer(x)
        return x.numpy()

    def describe(self) -> dict[str, Any]:
        digest = hashlib.sha256()
        for layer in self.layers:
            digest.update(str(layer).encode())
            for name, tensor in layer.state_dict().items():
                digest.update(name.encode() + tensor.detach().double().cpu().numpy().tobytes())
        return {
            "kind": "network",
            "variables": list(self.names),
            "layers": [str(layer) for layer in self.layers],
            "sha256": digest.hexdigest(),
        }

    def models(self) -> MlpModels:
        steps: list[tuple[np.ndarray, np.ndarray] | nn.Module] = []
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                weight = layer.weight.detach().double().cpu().numpy()
                bias = np.zeros(len(weight)) if layer.bias is None else layer.bias.detach().double().cpu().numpy()
                steps.append((weight, bias))
            else:
                steps.append(layer)
        return MlpModels(steps)


@dataclass
class MlpModels:
    """Taylor models of the outputs; steps are (weight, bias) pairs and activations."""

    steps: list[tuple[np.ndarray, np.ndarray] | nn.Module]

    def __call__(self, shape: Basis, centers: np.ndarray, radii: np.ndarray) -> list[TaylorModel]:
        values = variables(shape, centers, radii)
        for step in self.steps:
            if isinstance(step, tuple):
                values = _linear(shape, values, *step)
            else:
                rule = activation_rule(step)
                if rule is None:
                    raise RuntimeError(f"activation {step} has no Taylor rule")
                values = [rule(value) for value in values]
        return values


def _linear(shape: Basis, inputs: list[TaylorModel], weight: np.ndarray, bias: np.ndarray) -> list[TaylorModel]:
    """weight @ inputs + bias on all coefficients at once."""
    stack = np.stack([model.coefficients for model in inputs])  # (in, M, B)
    norms = np.stack([model.norm() for model in inputs])  # (in, B)
    remainders = np.stack([model.remainder for model in inputs])
    live = np.any([model.live for model in inputs], axis=0)
    size = np.abs(weight)
    coefficients = np.tensordot(weight, stack, (1, 0))  # (out, M, B)
    n = len(inputs)
    remainder = up(size @ remainders + gamma(n + 2) * (size @ norms), n + 8)
    outputs = []
    for o in range(len(weight)):
        linear = TaylorModel(shape, coefficients[o], remainder[o], live)
        outputs.append(linear.plus(bias[o]) if bias[o] != 0.0 else linear)
    return outputs or [constant(shape, np.zeros(stack.shape[2]))]
