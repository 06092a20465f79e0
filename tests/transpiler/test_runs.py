"""What runs is what was proved: autocast, threads and settings of torch change nothing that a bound does not cover."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import softwright as sw
from softwright.transpiler.gated_heads import GATED_LAYOUTS
from softwright.transpiler.neuron_heads import LAYOUTS

X = np.random.default_rng(0).uniform(-1, 1, (500, 6)).astype(np.float32)


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.gate, self.up, self.down = nn.Linear(6, 10), nn.Linear(6, 10), nn.Linear(10, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


def _mlp(activation: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 12), activation, nn.Linear(12, 12), activation, nn.Linear(12, 2)).eval()


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_autocast_changes_nothing(layout: str, half: torch.dtype) -> None:
    sources = [_mlp(nn.ReLU()), _mlp(nn.GELU())] + ([Gated().eval()] if layout in GATED_LAYOUTS else [])
    for source in sources:
        built = sw.transpile(source, (-1, 1), layout=layout)
        with torch.no_grad():
            plain = built.network(torch.from_numpy(X))
            with torch.autocast("cpu", dtype=half):
                cast = built.network(torch.from_numpy(X))
                narrow = built.network(torch.from_numpy(X).to(half))
        assert torch.equal(plain, cast) and cast.dtype == torch.float32
        exact = built.source(X.astype(np.float64), exact=True)
        assert np.abs(cast.double().numpy() - exact).max() <= built.certificate.bound
        given = torch.from_numpy(X).to(half).double().numpy()
        inside = np.abs(given).max(axis=1) <= 1
        off = np.abs(narrow.double().numpy() - built.source(given, exact=True))[inside]
        assert narrow.dtype == torch.float32 and off.max() <= built.certificate.bound


def test_autocast_leaves_the_blocks_of_a_transformer_alone() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).eval()
    built = sw.transpile(layer)
    block = nn.Sequential(built.network.module.linear1, built.network.module.linear2)  # type: ignore[union-attr]
    x = torch.randn(20, 8)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        cast = block(x)
        assert torch.isfinite(built.network(x[None])).all()
    assert torch.equal(cast, block(x))


@pytest.fixture
def settings() -> Iterator[None]:
    precision, threads = torch.get_float32_matmul_precision(), torch.get_num_threads()
    yield
    torch.set_float32_matmul_precision(precision)
    torch.set_num_threads(threads)
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("settings")
def test_settings_of_torch_stay_within_the_bound() -> None:
    built = sw.transpile(_mlp(nn.SiLU()), (-1, 1))
    exact = built.source(X.astype(np.float64), exact=True)
    for precision, threads, default in (("medium", 1, torch.float64), ("high", 2, torch.float32)):
        torch.set_float32_matmul_precision(precision)
        torch.set_num_threads(threads)
        torch.set_default_dtype(default)
        assert np.abs(built(X) - exact).max() <= built.certificate.bound


def test_weights_are_buffers_and_not_trained() -> None:
    for layout in ("softmax", "sdpa", "sequence"):
        network = sw.transpile(_mlp(nn.ReLU()), (-1, 1), layout=layout).network
        assert list(network.parameters()) == []
        assert {"steps.0.weight", "steps.0.bias", "steps.0.tokens", "steps.2.weight"} <= set(network.state_dict())
    stock = sw.transpile(_mlp(nn.ReLU()), (-1, 1), layout="multihead").network
    assert not any(parameter.requires_grad for parameter in stock.parameters())


def test_indices_of_tokens_stay_whole_numbers() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.mlp = nn.Embedding(10, 4), nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 4))

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            return self.mlp(self.embed(words))

    torch.manual_seed(0)
    net = Words().eval()
    built = sw.transpile(net, (-4, 4), blocks=["mlp"])
    words = np.array([[1, 2, 3]])
    with torch.no_grad():
        exact = net(torch.from_numpy(words)).numpy()
    assert np.abs(built(words) - exact).max() <= built.certificate.bound
