"""Residual paths, joins, constants, batch norm and activations that are chains of others: read as ordinary chains."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import softwright as sw
from softwright.errors import InvalidInput

SIZE = 4


class Forward(nn.Module):
    """Four layers and a forward of one's own."""

    def __init__(self, forward: Callable[[Forward, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.up, self.down, self.wide, self.end = (
            nn.Linear(*sizes) for sizes in ((SIZE, 9), (9, SIZE), (SIZE + 9, 2), (SIZE, 2))
        )
        self.mean, self.spread = nn.Buffer(torch.randn(SIZE)), nn.Buffer(torch.rand(SIZE) + 0.5)
        self.own = forward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.own(self, x)


def residual(activation: Callable[[torch.Tensor], torch.Tensor]) -> Forward:
    def forward(net: Forward, x: torch.Tensor) -> torch.Tensor:
        first = x + net.down(activation(net.up(x)))
        return net.end(first - 0.5 * net.down(activation(net.up(first))))

    return Forward(forward)


def dense_paths(net: Forward, x: torch.Tensor) -> torch.Tensor:
    """A value that waits through two layers, and one that both branches share."""
    once = net.down(torch.relu(net.up(x)))
    twice = net.down(torch.relu(net.up(once)))
    return net.end(x + once + twice)


def drawn(module: nn.Module) -> nn.Module:
    """The module with statistics of batch norm that are not those of a new one."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d):
            for tensor, low in ((part.running_mean, -1.0), (part.running_var, 0.1), (part.weight, -2.0)):
                if tensor is not None:
                    nn.init.uniform_(tensor, low, 2.0)
    return module


def between(activation: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(SIZE, 9), activation, nn.Linear(9, 2))


def last(activation: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(SIZE, 3), activation)


def spelt(activation: Callable[[torch.Tensor], torch.Tensor]) -> Forward:
    return Forward(lambda net, x: net.down(activation(net.up(x))))


def new_gelu(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * torch.pow(x, 3.0))))


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "residual relu": lambda: residual(functional.relu),
    "residual gelu": lambda: residual(functional.gelu),
    "residual silu": lambda: residual(functional.silu),
    "residual leaky": lambda: residual(lambda x: functional.leaky_relu(x, 0.2)),
    "two depths": lambda: Forward(dense_paths),
    "joined": lambda: Forward(lambda net, x: net.wide(torch.cat([x, torch.relu(net.up(x))], dim=-1))),
    "standardised": lambda: Forward(
        lambda net, x: 2 * net.end(net.down(torch.tanh(net.up((x - net.mean) / net.spread)))) - 1
    ),
    "negated": lambda: Forward(lambda net, x: 1.5 - net.end(-net.down(torch.sigmoid(net.up(-x))))),
    "batch norm": lambda: drawn(
        nn.Sequential(
            nn.BatchNorm1d(SIZE),
            nn.Linear(SIZE, 9),
            nn.BatchNorm1d(9),
            nn.ReLU(),
            nn.BatchNorm1d(9),
            nn.Linear(9, 3),
            nn.BatchNorm1d(3, affine=False),
        )
    ),
    "prelu": lambda: between(nn.PReLU()),
    "prelu of its own for each": lambda: last(nn.PReLU(3, 0.3)),
    "selu": lambda: between(nn.SELU()),
    "selu last": lambda: last(nn.SELU()),
    "celu": lambda: between(nn.CELU(0.7)),
    "logsigmoid": lambda: between(nn.LogSigmoid()),
    "logsigmoid last": lambda: last(nn.LogSigmoid()),
    "hardswish": lambda: between(nn.Hardswish()),
    "softshrink": lambda: between(nn.Softshrink(0.2)),
    "softshrink called": lambda: spelt(lambda x: functional.softshrink(x, 0.2)),
    "tanhshrink": lambda: between(nn.Tanhshrink()),
    "clamp": lambda: spelt(lambda x: x.clamp(-0.3, 0.4)),
    "clamp from below": lambda: spelt(lambda x: torch.clamp(x, min=-0.1)),
    "clamp from above": lambda: spelt(lambda x: x.clamp_max(0.2)),
    "an activation first": lambda: nn.Sequential(nn.SiLU(), nn.Dropout(), nn.Linear(SIZE, 3)),
    "a scaled activation first": lambda: Forward(lambda net, x: net.end(torch.tanh(2 * x + 1))),
    "hardswish spelt": lambda: spelt(lambda x: x * functional.relu6(x + 3) / 6),
    "squared relu": lambda: spelt(lambda x: torch.relu(x) ** 2),
    "squares": lambda: spelt(torch.square),
    "gelu spelt": lambda: spelt(new_gelu),
    "erf gelu spelt": lambda: spelt(lambda x: x * 0.5 * (1.0 + torch.erf(x / 1.41421))),
    "quick gelu spelt": lambda: spelt(lambda x: x * torch.sigmoid(1.702 * x)),
    "softsign spelt": lambda: spelt(lambda x: x / (1 + x.abs())),
    "softsign spelt, with a rate": lambda: spelt(lambda x: x / (1 + torch.abs(x) / 2)),
    "silu spelt, residual": lambda: residual(lambda x: x * torch.sigmoid(x)),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_it_is_what_runs_within_a_bound_that_is_verified(name: str, dtype: str, tmp_path: Path) -> None:
    torch.manual_seed(len(name))
    kind = getattr(torch, dtype)
    module = NETWORKS[name]().to(kind).eval()
    built = sw.transpile(module, box=(-1, 1))
    bound = built.certificate.bound
    assert bound < (1e-9 if dtype == "float64" else 1e-2)
    x = torch.rand(500, SIZE, dtype=kind) * 2 - 1
    with torch.no_grad():
        reference = module.double()(x.double()).numpy()
    rounding = 1e-14  # of the module itself, in float64
    assert np.abs(built(x.double().numpy()) - reference).max() <= bound + rounding * (1 + np.abs(reference).max())
    built.save(tmp_path / "net.safetensors")
    assert sw.verify(tmp_path / "net.safetensors")


def in_place_seen_twice(net: Forward, x: torch.Tensor) -> torch.Tensor:
    before = net.down(net.up(x))
    after = before
    after += x
    return net.end(before + after)


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "joined along another axis": (lambda: Forward(lambda net, x: net.end(torch.cat([x, x], dim=0))), "cat joins"),
    "a value changed in place and used": (
        lambda: Forward(in_place_seen_twice),
        "works in place on a value that is used again",
    ),
    "batch norm without statistics": (
        lambda: nn.Sequential(nn.Linear(SIZE, 3), nn.BatchNorm1d(3, track_running_stats=False)),
        "BatchNorm1d",
    ),
    "an input alone": (lambda: Forward(lambda net, x: torch.relu(x + 1)), "Linear before it"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_by_name(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(InvalidInput, match=message):
        sw.transpile(make().eval(), box=(-1, 1))
