"""Parts of modules are read as they are called, and what takes their place is called like them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import softwright as sw
from softwright.errors import InvalidInput

WIDTH = 6


class Part(nn.Module):
    """A feed-forward part with options."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 12), nn.Linear(12, WIDTH)

    def forward(self, hidden: torch.Tensor, skip: bool = False, scale: float | None = None, mask: Any = None) -> Any:
        found = self.down(functional.gelu(self.up(self.norm(hidden))))
        found = found if mask is None else found * mask
        found = found if scale is None else found * scale
        return found + hidden if skip else found


class Around(nn.Module):
    """A module that calls a part in a way of its own."""

    def __init__(self, call: Callable[[nn.Module, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.part, self.call = Part(), call

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.call(self.part, x).cumsum(-1)


CALLS: dict[str, Callable[[nn.Module, torch.Tensor], torch.Tensor]] = {
    "by position": lambda part, x: part(x),
    "by name": lambda part, x: part(hidden=x),
    "with an option": lambda part, x: part(x, skip=True),
    "with an option by position": lambda part, x: part(x, False, 2.0),
    "with its default": lambda part, x: part(x, scale=None),
    "with a tensor": lambda part, x: part(x, mask=torch.sigmoid(x)),
    "twice alike": lambda part, x: part(part(x, True), True),
    "in two ways": lambda part, x: part(part(x), True),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_part_is_what_its_module_makes_of_it(name: str) -> None:
    torch.manual_seed(0)
    module = Around(CALLS[name]).double().eval()
    built = sw.transpile(module, box=(-3, 3), progress=False)
    for shape in ((5, WIDTH), (2, 5, WIDTH)):
        x = torch.randn(shape, dtype=torch.float64)
        with torch.no_grad():
            assert torch.allclose(built.network(x), module(x), atol=1e-10)


class Undecided(nn.Module):
    """A forward that cannot be followed."""

    def __init__(self) -> None:
        super().__init__()
        self.part = Part()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.part(x, skip=True)
        return found if found.sum() > 0 else -found


def test_a_part_with_options_and_unknown_calls_is_not_guessed() -> None:
    with pytest.raises(InvalidInput, match="cannot be followed"):
        sw.transpile(Undecided().double().eval(), box=(-3, 3), progress=False)


class Options(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor, scale: float | None = None) -> torch.Tensor:
        found = self.b(torch.relu(self.a(x)))
        return found if scale is None else found * scale


def test_other_options_than_those_read_are_refused_by_name() -> None:
    module = Options().double().eval()
    network = copy.deepcopy(sw.transpile(module, box=(-1, 1), progress=False).network)
    x = torch.zeros(3, 4, dtype=torch.float64)
    assert torch.allclose(network(x=x, scale=None), module(x), atol=1e-12)
    with pytest.raises(InvalidInput, match="scale is None in what was built"):
        network(x, scale=2.0)


class Norm(nn.Module):
    """RMSNorm as people write it."""

    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.rand(WIDTH) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.gamma


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


@pytest.mark.parametrize("norm", [Norm, lambda: nn.LayerNorm(WIDTH), lambda: nn.RMSNorm(WIDTH)])
def test_a_part_behind_a_norm_needs_no_box(norm: Callable[[], nn.Module]) -> None:
    built = sw.transpile(nn.Sequential(norm(), Gated()).double().eval(), progress=False)
    assert built.certificate is not None
    reach = built.parts["1"].target["box"][1]
    assert max(reach) <= 1.002 * WIDTH**0.5 * 1.5 + 1e-5


def test_a_part_that_is_also_called_without_the_norm_has_no_range() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.part = Norm(), Gated()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.part(self.norm(x)) + self.part(x)

    with pytest.raises(InvalidInput, match="needs the range of its inputs"):
        sw.transpile(Both().double().eval(), progress=False)


# Axis 1 is the last one in tables of rows, and another one elsewhere.
class AlongAxisOne(nn.Module):
    def __init__(self, layer: nn.Module, normed: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4) if normed else nn.Identity()
        self.a, self.layer, self.b = nn.Linear(4, 6), layer, nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.relu(self.layer(self.a(self.norm(x)))))


@pytest.mark.parametrize("layer", [lambda: nn.BatchNorm1d(6), lambda: nn.PReLU(6)])
def test_axis_one_of_sequences_is_not_taken_for_the_last(layer: Callable[[], nn.Module]) -> None:
    torch.manual_seed(1)
    inner = layer()
    for tensor in (*inner.parameters(), *inner.buffers()):
        if tensor.is_floating_point():
            nn.init.uniform_(tensor, 0.2, 2.0)
    x = torch.randn(2, 6, 4, dtype=torch.float64)
    module = AlongAxisOne(inner, True).double().eval()
    built = sw.transpile(module, box=(-3, 3), progress=False)
    with torch.no_grad():
        assert torch.allclose(built.network(x), module(x), atol=1e-9)
    rows = sw.transpile(AlongAxisOne(inner, False).double().eval(), box=(-3, 3), progress=False)
    with pytest.raises(InvalidInput, match="rows"):
        rows.network(x)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.calls = nn.Linear(4, 8), nn.Linear(8, 2), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.b(torch.relu(self.a(x))) * (1.0 if self.calls < 5 else 2.0)


class Noisy(Options):
    def forward(self, x: torch.Tensor, scale: float | None = None) -> torch.Tensor:
        return self.b(torch.relu(self.a(x)) + 1e-9 * torch.rand(8, dtype=x.dtype))


@pytest.mark.parametrize(("make", "said"), [(Counting, "changes its own calls"), (Noisy, "draws random numbers")])
def test_what_is_another_function_at_every_call_is_refused(make: Callable[[], nn.Module], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        sw.transpile(make().double().eval(), box=(-1, 1), progress=False)
