"""Random MLPs of torch over all activations, with what stands beside them: residual paths, norms, convolutions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from sources.case import Case


class SquaredReLU(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) ** 2


class NewGELU(nn.Module):
    """GELU as GPT-2's code spells it out."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * torch.pow(x, 3.0))))


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "ReLU": nn.ReLU,
    "LeakyReLU": lambda: nn.LeakyReLU(0.1),
    "PReLU": nn.PReLU,
    "ReLU6": nn.ReLU6,
    "Hardtanh": nn.Hardtanh,
    "Hardsigmoid": nn.Hardsigmoid,
    "Hardswish": nn.Hardswish,
    "SquaredReLU": SquaredReLU,
    "Sigmoid": nn.Sigmoid,
    "LogSigmoid": nn.LogSigmoid,
    "Tanh": nn.Tanh,
    "Softsign": nn.Softsign,
    "SiLU": nn.SiLU,
    "Mish": nn.Mish,
    "GELU": nn.GELU,
    "GELU tanh": lambda: nn.GELU(approximate="tanh"),
    "NewGELU": NewGELU,
    "Softplus": nn.Softplus,
    "ELU": nn.ELU,
    "SELU": nn.SELU,
    "CELU": lambda: nn.CELU(0.5),
}


def mlp(name: str, seed: int, dtype: torch.dtype = torch.float64, depth: int = 0) -> nn.Module:
    """One to three hidden layers, widths 3 to 40, one activation between all of them."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    sizes = [int(n) for n in rng.integers(3, 41, size=depth or rng.integers(3, 6))]
    layers: list[nn.Module] = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), ACTIVATIONS[name]()]
    return nn.Sequential(*layers[:-1]).to(dtype).eval()


class Residual(nn.Module):
    """x + f(norm(x)), twice."""

    def __init__(self, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.norms = nn.ModuleList([norm(12) for _ in range(2)])
        self.up, self.down = nn.Linear(12, 30), nn.Linear(30, 12)  # tied: both rounds use them
        self.end = nn.Linear(12, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm in self.norms:
            x = x + self.down(functional.gelu(self.up(norm(x))))
        return self.end(x)


class TwoInputs(nn.Module):
    """Two inputs, two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(5, 16), nn.Linear(3, 16)
        self.mean, self.scale = nn.Linear(16, 2), nn.Linear(16, 2)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = torch.relu(self.left(a) + self.right(b))
        return self.mean(h), functional.softplus(self.scale(h))


def _convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 8, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32, 10),
        nn.ReLU(),
        nn.Linear(10, 4),
    )


def _normalised() -> nn.Module:
    return nn.Sequential(
        nn.Linear(8, 24), nn.LayerNorm(24), nn.GELU(), nn.Linear(24, 24), nn.RMSNorm(24), nn.SiLU(), nn.Linear(24, 3)
    )


def _classifier() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 5), nn.Softmax(dim=-1))


def _batch_normed() -> nn.Module:
    net = nn.Sequential(nn.Linear(7, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Dropout(0.1), nn.Linear(20, 3))
    nn.init.uniform_(net[1].running_var, 0.3, 2.0)  # type: ignore[arg-type]
    return net


def _others() -> list[tuple[str, Callable[[], nn.Module], Callable[[], Mapping[str, Any]] | None]]:
    def rows(width: int) -> Callable[[], Mapping[str, Any]]:
        return lambda: {"input": torch.randn(40, width)}

    return [
        ("BatchNorm1d, Dropout", _batch_normed, None),
        ("LayerNorm and RMSNorm inside", _normalised, rows(8)),
        ("residual, LayerNorm, tied weights", lambda: Residual(nn.LayerNorm), lambda: {"x": torch.randn(40, 12)}),
        ("softmax output", _classifier, rows(6)),
        ("two inputs, two outputs", TwoInputs, lambda: {"a": torch.randn(9, 5), "b": torch.randn(9, 3)}),
        ("Conv2d, BatchNorm2d, MaxPool2d", _convolutional, lambda: {"input": torch.randn(5, 1, 8, 8)}),
        (
            "Conv1d",
            lambda: nn.Sequential(nn.Conv1d(4, 12, 5, padding=2), nn.GELU(), nn.Conv1d(12, 3, 1)),
            lambda: {"input": torch.randn(5, 4, 20)},
        ),
    ]


def mlps() -> list[Case]:
    """30 networks: every activation, deep where there is room, then the odd ones; two of them in half precision."""
    found = [
        Case(f"MLP {name}", lambda name=name, seed=seed: mlp(name, seed), (-2.0, 2.0))
        for seed, name in enumerate(ACTIVATIONS)
    ]

    def seeded(make: Callable[[], nn.Module], seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return make().eval()

    for seed, (name, make, inputs) in enumerate(_others(), 100):
        found.append(Case(name, lambda make=make, seed=seed: seeded(make, seed), (-2.0, 2.0), inputs=inputs))
    for name, half in (("ReLU", torch.float16), ("GELU", torch.bfloat16)):
        found.append(
            Case(f"MLP {name}, {str(half)[6:]}", lambda name=name, half=half: mlp(name, 77, half), (-2.0, 2.0))
        )
    return found
