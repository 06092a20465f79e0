"""What one run of a model shows: the normalisation before a block, and layers that follow one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import softwright as sw
from softwright.errors import InvalidInput
from softwright.transpiler.inside.watching import chains, normalisation, watch

D = 6


class RootNorm(nn.Module):
    """x/rms(x), times the weight or 1 + the weight."""

    def __init__(self, more: float) -> None:
        super().__init__()
        self.weight, self.more = nn.Parameter(torch.randn(D)), more

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (self.more + self.weight)


class Layer(nn.Module):
    """A feed-forward part without a module of its own, between norms under misleading names."""

    def __init__(self, norm: Callable[[], nn.Module], change: Callable[[Tensor], Tensor] = lambda x: x) -> None:
        super().__init__()
        self.post_attention_layernorm, self.a, self.b = norm(), norm(), norm()
        self.up, self.act, self.down, self.change = nn.Linear(D, 9), nn.GELU(), nn.Linear(9, D), change

    def forward(self, hidden: Tensor, other: int = 0) -> Tensor:
        x = self.change(self.b(hidden))
        y = self.down(nn.functional.dropout(self.act(self.up(x)), 0.1, self.training))
        return self.post_attention_layernorm(hidden + self.a(y)) if other == 0 else y


class Model(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    @property
    def dummy_inputs(self) -> dict[str, Tensor]:
        return {"x": torch.linspace(-1, 1, 4 * D).reshape(2, 2, D)}

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 1e9:  # what no tracer follows
            return x
        for layer in self.layers:
            x = layer(x)
        return x


NORMS: dict[str, Callable[[], nn.Module]] = {
    "layer norm": lambda: drawn(nn.LayerNorm(D)),
    "layer norm without weights": lambda: nn.LayerNorm(D, elementwise_affine=False),
    "rms norm": lambda: RootNorm(0.0),
    "one more than the weight": lambda: RootNorm(1.0),
    "torch's rms norm": lambda: drawn(nn.RMSNorm(D, eps=1e-6)),
}


def drawn(norm: Any) -> nn.Module:
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    return norm


@pytest.mark.parametrize("name", NORMS)
def test_a_part_without_a_module_gets_the_range_of_the_norm_that_feeds_it(name: str) -> None:
    torch.manual_seed(1)
    model = Model(Layer(NORMS[name]), Layer(NORMS[name])).double().eval()
    built = sw.transpile(model)
    assert list(built.parts) == ["layers.0.up", "layers.1.up"]
    for i, part in enumerate(built.parts.values()):
        layer: Any = model.layers[i]
        reach = np.asarray(part.target["box"][1])
        with torch.no_grad():
            given = layer.b(torch.randn(4000, D, dtype=torch.float64) * 10).abs().numpy()
            rows = 1e3 * torch.eye(D, dtype=torch.float64)
            loud = torch.maximum(layer.b(rows).abs(), layer.b(-rows).abs()).numpy().diagonal()
        assert (given.max(axis=0) <= reach).all()
        assert (loud >= 0.9 * reach - 2e-6).all()  # and no wider than it must be
    assert built.certificate is not None and built.certificate.bound < 1e-10
    x = torch.randn(50, 3, D, dtype=torch.float64)
    with torch.no_grad():
        assert (built.network(x) - model(x)).abs().max() < 1e-9


def test_a_norm_that_is_changed_in_place_or_by_arithmetic_feeds_nothing() -> None:
    for change in (lambda x: x.mul_(2.0), lambda x: 2 * x, lambda x: x[..., :D] + 0):
        model = Model(Layer(NORMS["layer norm"], change)).eval()
        seen = watch(model)
        assert seen is not None
        assert seen.before("layers.0.up") == []
        built = sw.transpile(model.double())
        assert built.parts["layers.0.up"].target["box"] is None
    other_shape = Model(Layer(NORMS["layer norm"], lambda x: x.reshape(-1, D).view(2, 2, D))).eval()
    seen = watch(other_shape)
    assert seen is not None and seen.before("layers.0.up") == ["layers.0.b"]


def test_an_activation_between_several_layers_is_no_chain() -> None:
    shared = nn.GELU()

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two, self.three, self.act = nn.Linear(D, 5), nn.Linear(5, 5), nn.Linear(5, D), shared

        def forward(self, x: Tensor, other: int = 0) -> Tensor:
            return self.three(self.act(self.two(self.act(self.one(x) + other))))

    model = Model(Twice()).eval()
    seen = watch(model)
    assert seen is not None
    assert chains(model, seen, set()) == []


def test_a_chain_inside_of_a_block_is_not_found_again() -> None:
    model = Model(Layer(NORMS["layer norm"])).eval()
    seen = watch(model)
    assert seen is not None
    assert chains(model, seen, set()) == [("layers.0.up", "layers.0.act", "layers.0.down")]
    for taken in ("layers.0", "layers.0.act", "layers.0.down"):
        assert chains(model, seen, {taken}) == []


def test_what_normalises_otherwise_has_no_range() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(D))

        def forward(self, x: Tensor) -> Tensor:
            return x / x.abs().amax(-1, keepdim=True) * self.weight

    assert normalisation(Odd(), D) is None
    assert normalisation(nn.LayerNorm(D), D + 1) is None
    assert normalisation(nn.BatchNorm1d(D), D) is None
    assert normalisation(nn.Identity(), D) is None


def test_a_model_without_blocks_is_told_so() -> None:
    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Linear(D, D)

        def forward(self, x: Tensor, other: int = 0) -> Tensor:
            return torch.cumsum(self.one(x), 0)

    with pytest.raises(InvalidInput, match=r"no feed-forward block that can be read.*blocks="):
        sw.transpile(Model(Bare()).eval())


def test_hooks_do_not_stay() -> None:
    model = Model(Layer(NORMS["layer norm"])).eval()
    sw.transpile(model)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
