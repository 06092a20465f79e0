"""Layers and operations that forwards spell in their own way: read as they run, or refused with the true reason."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

import softwright as sw
from softwright.errors import InvalidInput


class Own(nn.Module):
    """Two Linear layers, two parameters, and a forward of one's own."""

    def __init__(self, forward: Callable[[Own, torch.Tensor], torch.Tensor], hidden: int = 8) -> None:
        super().__init__()
        self.own, self.scale = forward, 1 / math.sqrt(5)
        self.up, self.down = nn.Linear(5, 8), nn.Linear(hidden, 3)
        self.slopes, self.weight = nn.Parameter(torch.rand(8)), nn.Parameter(torch.randn(8, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.own(self, x)


def _split(m: Own, x: torch.Tensor) -> torch.Tensor:
    gate, value = m.up(x).split(4, dim=-1)
    return m.down(functional.gelu(gate) * value)


FORWARDS: dict[str, tuple[Callable[[Own, torch.Tensor], torch.Tensor], int]] = {
    "abs": (lambda m, x: m.down(torch.abs(m.up(x))), 8),
    "functional prelu": (lambda m, x: m.down(functional.prelu(m.up(x), m.slopes)), 8),
    "addmm": (lambda m, x: m.down(torch.relu(torch.addmm(m.slopes, x, m.weight.t()))), 8),
    "equalised learning rate": (lambda m, x: m.down(torch.relu(functional.linear(x, m.weight * m.scale))), 8),
    "a weight over a number": (lambda m, x: m.down(torch.relu(functional.linear(x, m.weight / 3.0, m.slopes))), 8),
    "split": (_split, 4),
    "detach": (lambda m, x: m.down(torch.relu(m.up(x.detach()).contiguous())), 8),
}


@pytest.mark.parametrize("name", FORWARDS)
def test_a_forward_is_read_as_it_is_spelt(name: str) -> None:
    forward, hidden = FORWARDS[name]
    torch.manual_seed(1)
    module = Own(forward, hidden).double().eval()
    built = sw.transpile(module, (-2, 2))
    assert not built.parts
    assert built.certificate is not None
    x = 4 * torch.rand(200, 5, dtype=torch.float64) - 2
    with torch.no_grad():
        assert float((built.network(x) - module(x)).abs().max()) <= built.certificate.bound + 1e-13


def test_a_network_that_flattens_takes_images() -> None:
    torch.manual_seed(2)
    module = nn.Sequential(nn.Flatten(), nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 2)).double().eval()
    built = sw.transpile(module, (-1, 1))
    images = torch.rand(4, 1, 3, 4, dtype=torch.float64)
    with torch.no_grad():
        assert float((built.network(images) - module(images)).abs().max()) <= 1e-13
        assert torch.equal(built.network(images), built.network(images.flatten(1)))


def test_complex_weights_are_refused() -> None:
    """The imaginary part was dropped, and a bound given for the rest."""
    module = nn.Sequential(nn.Linear(5, 9, dtype=torch.complex64), nn.Linear(9, 2, dtype=torch.complex64))
    with pytest.raises(InvalidInput, match="complex numbers"):
        sw.transpile(module, (-1, 1))


def test_weights_that_are_not_there_are_named() -> None:
    module = nn.Sequential(nn.Linear(5, 9, device="meta"), nn.ReLU(), nn.Linear(9, 2, device="meta"))
    with pytest.raises(InvalidInput, match="on the device meta"):
        sw.transpile(module, (-1, 1))


def test_an_out_of_none_writes_nowhere() -> None:
    module = Own(lambda m, x: m.down(functional.normalize(m.up(x), dim=-1)))
    with pytest.raises(InvalidInput) as caught:
        sw.transpile(module, (-1, 1))
    assert "writes into another tensor" not in str(caught.value)
    assert "normalize has no attention form" in str(caught.value)
