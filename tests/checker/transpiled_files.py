"""Files of transpiled networks as a forger would write them: something changed, everything signed anew.

`holds` is the oracle: the stored network is run, and the source that the file describes is evaluated in long double, at
random points and corners of the box. A changed file may be VERIFIED only where what it says still holds there.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

import softwright as sw
from softwright.checker.verdict import Verdict
from softwright.checker.verify import reprove
from softwright.fileformat import ModelFile, reference_sha256, weights_sha256, with_reference
from softwright.result.constructed import tensors_of
from softwright.targets.mlp import Activation, DenseLayer, DenseNetwork, GatedNetwork
from softwright.targets.mlp.dense import digest
from softwright.transpiler.network import TranspiledNetwork

MODULES: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "leaky_relu": lambda: nn.LeakyReLU(0.3),
    "hardtanh": lambda: nn.Hardtanh(-0.7, 1.3),
    "hardsigmoid": nn.Hardsigmoid,
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "softsign": nn.Softsign,
    "silu": nn.SiLU,
    "mish": nn.Mish,
    "elu": lambda: nn.ELU(0.7),
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU("tanh"),
    "softplus": lambda: nn.Softplus(2.0, 3.0),
}
VERSION_1 = (
    *("statement", "bound", "exact_part", "rounding_part", "method", "dtype", "weights_sha256", "target", "version"),
    *("seconds", "quantities", "assumptions", "engine", "norm"),
)
FITTED = ("gelu", "gelu_tanh", "softplus")


class GatedBlock(nn.Module):
    """W_d (phi(W_g x) * W_u x)."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.gate, self.value, self.down = nn.Linear(3, 4), nn.Linear(3, 4), nn.Linear(4, 2)
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.activation(self.gate(x)) * self.value(x))


@dataclass
class TranspiledFile:
    """A file in pieces."""

    tensors: dict[str, np.ndarray]
    reference: dict[str, np.ndarray]
    sections: dict[str, Any]

    @property
    def said(self) -> dict[str, Any]:
        return self.sections["certificate"]

    @property
    def target(self) -> dict[str, Any]:
        return self.sections["target"]

    def copied(self) -> TranspiledFile:
        tensors, reference = ({n: a.copy() for n, a in part.items()} for part in (self.tensors, self.reference))
        return TranspiledFile(tensors, reference, copy.deepcopy(self.sections))

    def verdict(self) -> Verdict:
        """Signed and checked."""
        self.said["weights_sha256"] = weights_sha256(self.tensors)
        self.said.pop("reference_sha256", None)
        if self.reference:
            self.said["reference_sha256"] = reference_sha256(self.reference)
        self.said["target"] = copy.deepcopy(self.target)
        return reprove(ModelFile(with_reference(self.tensors, self.reference), copy.deepcopy(self.sections)))

    def source(self) -> DenseNetwork | GatedNetwork:
        """What the file says it is compared with; of layouts that hold weights under their plain names."""
        activations = [Activation(entry["name"], tuple(entry["parameters"])) for entry in self.target["activations"]]
        gated = self.sections["model"]["steps"][0]["step"] == "gated"
        activations += [Activation("identity")] * 2 * gated
        stored = self.reference or self._plain(gated)
        layers = [
            DenseLayer(stored[f"layers.{i}.weight"].astype(float), stored[f"layers.{i}.bias"].astype(float), activation)
            for i, activation in enumerate(activations)
        ]
        return GatedNetwork(layers[0], layers[1], layers[2], "float64") if gated else DenseNetwork(layers)

    def _plain(self, gated: bool) -> dict[str, np.ndarray]:
        found, tensors = {}, self.tensors
        for kind in ("weight", "bias"):
            if gated:
                gate = f"steps.0.gate.{kind}" if f"steps.0.gate.{kind}" in tensors else f"steps.0.gate_{kind}"
                names = [gate, f"steps.0.value_{kind}", f"steps.1.{kind}"]
            else:
                names = [f"steps.{i}.{kind}" for i in range(len(self.sections["model"]["steps"]))]
            found |= {f"layers.{i}.{kind}": tensors[name] for i, name in enumerate(names)}
        return found

    def name_source(self) -> None:
        """The target names the weights that are now in the file."""
        self.target["sha256"] = digest(self.source().layers)

    def holds(self, seed: int = 0, count: int = 400) -> bool:
        """Whether the bound is kept where it was looked at."""
        model = self.sections["model"]
        network = TranspiledNetwork.rebuilt(model, self.tensors)
        low, high = (np.array(side) for side in self.target["box"])
        rng = np.random.default_rng(seed)
        points = low + (high - low) * rng.uniform(size=(count, len(low)))
        points[: count // 4] = np.where(rng.random((count // 4, len(low))) < 0.5, low, high)
        points = np.clip(points.astype(model["dtype"]).astype(float), low, high)
        run = network.evaluate(points)
        return bool(np.abs(run - self.source()(points, exact=True)).max() <= self.said["bound"])


def file_of(built: sw.Built[Any]) -> TranspiledFile:
    """What `save` writes, the certificate with its entries side by side, as version 1 of its schema has them."""
    tensors = {name: array.copy() for name, array in tensors_of(built.network).items()}
    said = asdict(built.certificate)
    flat = {name: list(value) if isinstance(value, tuple) else value for name, value in said.items()}
    flat = {name: flat[name] for name in VERSION_1}
    sections = {**built.sections(), "certificate": {"schema": built.certificate.schema, **flat}}
    return TranspiledFile(tensors, dict(built.reference), copy.deepcopy(sections))


@functools.cache
def _made(activation: str, dtype: str, layout: str, source: str, gated: bool, boxed: bool) -> TranspiledFile:
    torch.manual_seed(7)
    act = MODULES[activation]()
    module = GatedBlock(act) if gated else nn.Sequential(nn.Linear(3, 5), act, nn.Linear(5, 4), act, nn.Linear(4, 2))
    module = module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))  # no numbers of float32
    module = module.to(getattr(torch, source)).eval()
    coarse = activation in FITTED or (activation == "softsign" and dtype == "float64")
    tol = 1.0 if coarse else None  # the coarsest tokens: the finest take seconds to be proved
    box = (-1.5, 2.0) if boxed else None
    return file_of(sw.transpile(module, box, dtype=dtype, layout=layout, tol=tol, progress=False))


def made(
    activation: str,
    dtype: str = "float64",
    layout: str = "softmax",
    *,
    source: str = "float64",
    gated: bool = False,
    boxed: bool = True,
) -> TranspiledFile:
    """A small transpiled network of this kind, ready to be changed."""
    return _made(activation, dtype, layout, source, gated, boxed).copied()
