"""What a forward does beside its operations is seen, or what was made of it is run beside it and refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import softwright as sw
from softwright.errors import InvalidInput


class Recurrent(nn.Module):
    """A module that is cut: a GRU, and layers behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.a, self.b = nn.GRU(4, 6, batch_first=True), nn.Linear(6, 6), nn.Linear(6, 3)
        self.norm = nn.LayerNorm(6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.relu(self.between(self.a(self.gru(x)[0]))))

    def between(self, s: torch.Tensor) -> torch.Tensor:
        return s


class InPlace(Recurrent):
    """Two names of one value, one of which is changed."""

    def between(self, s: torch.Tensor) -> torch.Tensor:
        before = s
        s += 1.0
        return self.norm(before) + s


class ThroughView(Recurrent):
    def between(self, s: torch.Tensor) -> torch.Tensor:
        turned = s.transpose(-1, -2)
        turned *= 2.0
        return self.norm(s)


class Cast(Recurrent):
    def between(self, s: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.b(torch.relu(s)).float() @ torch.ones(3, 6)


class Mixed(Recurrent):
    def __init__(self) -> None:
        super().__init__()
        self.other = nn.Linear(6, 6).double()

    def between(self, s: torch.Tensor) -> torch.Tensor:
        return self.other(torch.relu(s).double()).float()


class Counted(Recurrent):
    """What a single sequence is given differs; nothing in the graph says so."""

    def between(self, s: torch.Tensor) -> torch.Tensor:
        try:
            alone = len(s) == 1
        except (TypeError, RuntimeError):
            alone = False
        return 2 * s if alone else s


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (InPlace, "iadd works in place on a value that is used again"),
        (ThroughView, "imul is not used|imul works in place"),
        (Cast, "switches torch.autocast"),
        (Mixed, "weights of float32 and float64; bring them to one dtype"),
        (Counted, "something else than the operations of its forward"),
    ],
)
def test_what_no_graph_says_is_refused_by_name(kind: Callable[[], nn.Module], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        sw.transpile(kind().eval(), box=(-1, 1), progress=False)


class Asks(Recurrent):
    def between(self, s: torch.Tensor) -> torch.Tensor:
        if s.dtype == torch.float16:
            s = s * 2
        s = self.norm(s)
        n = s.shape[1]
        n += 1
        return s * n


class Largest(Recurrent):
    def between(self, s: torch.Tensor) -> torch.Tensor:
        return torch.max(torch.relu(s), 1)[0] + torch.relu(s).min(-2).values


class OneMeetsMany(Recurrent):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(6))

    def between(self, s: torch.Tensor) -> torch.Tensor:
        return torch.tanh(s.norm(dim=-1, keepdim=True) * self.w)


class Constant(Recurrent):
    def between(self, s: torch.Tensor) -> torch.Tensor:
        return torch.relu(s + torch.ones(1, 6))


class Wider(Recurrent):
    """A norm along axis 1 that has another size than the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.along = nn.BatchNorm1d(5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.relu(self.along(self.a(torch.cat([x, x[..., :2]], -1)))))


@pytest.mark.parametrize("kind", [Asks, Largest, OneMeetsMany, Constant, Wider])
def test_what_is_cut_runs_as_it_did(kind: Callable[[], nn.Module]) -> None:
    torch.manual_seed(6)
    source = kind().double().eval()
    built = sw.transpile(source, box=(-1, 1), progress=False)
    assert built.parts and built.network.dtype == torch.float64
    x = torch.rand(2, 5, 4, dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(built.network(x), source(x), atol=1e-12)


def test_batch_norm_in_training_mode_beside_a_block_is_refused() -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    with pytest.raises(InvalidInput, match="batch norm in training mode"):
        sw.transpile(nn.Sequential(layer, nn.BatchNorm1d(5)), progress=False)


def test_a_network_of_buffers_is_one() -> None:
    class Held(nn.Module):
        w: torch.Tensor
        v: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("w", torch.randn(6, 4, dtype=torch.float64))
            self.register_buffer("v", torch.randn(2, 6, dtype=torch.float64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.linear(torch.relu(nn.functional.linear(x, self.w)), self.v)

    source = Held()
    built = sw.transpile(source, box=(-1, 1), progress=False)
    x = torch.rand(5, 4, dtype=torch.float64)
    assert built.certificate is not None
    assert float((built.network(x) - source(x)).abs().max()) <= built.certificate.bound


def test_a_buffer_that_is_set_anew_is_seen() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 3)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls = self.calls + 1
            return self.b(torch.relu(self.a(x)))

    with pytest.raises(InvalidInput, match="changes its own calls"):
        sw.transpile(Counting().eval(), box=(-1, 1), progress=False)
