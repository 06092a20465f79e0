"""Feed-forward networks as targets: whatever `targets/mlp` reads as dense layers and activations, gated or not.

The target is the network in real arithmetic with exactly the weights that the source holds. Linear layers are one
matrix product on the coefficients of the Taylor models; the model of an activation is that of its formula in one
variable (`Activation.formula`), put in place of the variable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from softwright.domain import Box
from softwright.errors import Faults
from softwright.proof.arithmetic.directed import gamma, up
from softwright.proof.arithmetic.series import Basis
from softwright.proof.arithmetic.taylor_model import TaylorModel, constant, variables
from softwright.proof.models.formula import ExpressionModels
from softwright.proof.models.targets import TargetModels, models_of
from softwright.targets import Expression, Target
from softwright.targets.mlp import Activation, DenseLayer, DenseNetwork, GatedNetwork

Rule = Callable[[TaylorModel], TaylorModel]


@lru_cache(maxsize=64)
def activation_rule(activation: Activation) -> Rule:
    """The Taylor rule of an activation."""
    walk = ExpressionModels(Expression(activation.formula, ("x",)))
    return lambda x: walk([x])[0]


class MlpTarget(Target):
    """A feed-forward network as a target; values in float64."""

    kind: ClassVar[str] = "network"

    def __init__(self, network: DenseNetwork | GatedNetwork, names: Sequence[str]) -> None:
        faults = Faults("MLP target")
        faults.check(
            network.inputs == len(names),
            f"{network.name} takes {network.inputs} numbers but gets {len(names)}, {', '.join(names)}; mend the layers",
        )
        faults.raise_if_any()
        self.network, self.names, self.outputs = network, tuple(names), network.outputs

    def __call__(self, points: np.ndarray) -> np.ndarray:
        return self.network(points)

    def describe(self) -> dict[str, Any]:
        return {**self.network.describe(), "variables": list(self.names)}

    def models(self, shape: Basis, centers: np.ndarray, radii: np.ndarray) -> list[TaylorModel]:
        """Taylor models of the outputs over boxes."""
        inputs = variables(shape, centers, radii)
        if isinstance(self.network, GatedNetwork):
            gate, value = _layer(shape, inputs, self.network.gate), _layer(shape, inputs, self.network.value)
            return _layer(shape, [u * b for u, b in zip(gate, value, strict=True)], self.network.down)
        for layer in self.network.layers:
            inputs = _layer(shape, inputs, layer)
        return inputs


@models_of.register
def _(target: MlpTarget, names: Sequence[str], domain: Box) -> tuple[TargetModels, tuple[str, ...]]:
    return target.models, ()


def _layer(shape: Basis, inputs: list[TaylorModel], layer: DenseLayer) -> list[TaylorModel]:
    sums = _linear(shape, inputs, layer.weight, layer.bias)
    if layer.activation.name == "identity":
        return sums
    rule = activation_rule(layer.activation)
    return [rule(s) for s in sums]


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
