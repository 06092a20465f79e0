"""Modules that are no network as a whole: cut at what no head can be, their pieces proved, the rest run as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

import softwright as sw
from softwright.errors import InvalidInput


class Forward(nn.Module):
    """Layers by name, and a forward of one's own."""

    def __init__(self, forward: Callable[..., torch.Tensor], **layers: nn.Module) -> None:
        super().__init__()
        self.own = forward
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.own(self, x)


class TwoOfEach(nn.Module):
    """Two inputs, two outputs, one of them named."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.end = nn.Linear(3, 8), nn.Linear(3, 8), nn.Linear(8, 2)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
        h = torch.tanh(self.left(a) + self.right(b))
        return {"mean": self.end(h), "spread": functional.softplus(self.end(h))}


class Block(nn.Module):
    """A residual block of images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.Conv2d(4, 4, 3, padding=1, groups=2)
        self.norm1, self.norm2, self.relu = nn.BatchNorm2d(4), nn.BatchNorm2d(4), nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        out += x
        return self.relu(out)


def rows(width: int) -> Callable[[], tuple[torch.Tensor, ...]]:
    return lambda: (torch.randn(6, width, dtype=torch.float64),)


def images(*shape: int) -> Callable[[], tuple[torch.Tensor, ...]]:
    return lambda: (torch.randn(2, *shape, dtype=torch.float64),)


def deep(activation: Callable[[], nn.Module]) -> nn.Module:
    return nn.Sequential(nn.Linear(5, 7), activation(), nn.Linear(7, 6), activation(), nn.Linear(6, 2))


# what it is, what it is given, how many pieces it has, and what stays
MODULES: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[torch.Tensor, ...]], int, str]] = {
    "norms inside": (
        lambda: nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 8), nn.RMSNorm(8), nn.SiLU()),
        rows(5),
        2,
        "LayerNorm",
    ),
    "softmax": (
        lambda: nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax(-1)),
        rows(5),
        1,
        "3 (Softmax)",
    ),
    "hardshrink beside relu": (
        lambda: nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3), nn.Hardshrink(), nn.Linear(3, 3), nn.Tanh()),
        rows(5),
        2,
        "Hardshrink",
    ),
    "hardswish twice": (lambda: deep(nn.Hardswish), rows(5), 2, "no others"),
    "residual tanh": (
        lambda: Forward(lambda net, x: x + net.down(torch.tanh(net.up(x))), up=nn.Linear(5, 9), down=nn.Linear(9, 5)),
        rows(5),
        1,
        "add",
    ),
    "two inputs": (
        TwoOfEach,
        lambda: (torch.randn(4, 3, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)),
        2,
        "add",
    ),
    "images": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 6, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2),
            nn.BatchNorm2d(6),
            nn.LeakyReLU(0.1),
            nn.Conv2d(6, 3, 1),
            nn.MaxPool2d(2),
            nn.GELU(),
            nn.Flatten(),
            nn.Linear(12, 4),
            nn.ELU(),
        ),
        images(2, 8, 6),
        3,
        "MaxPool2d",
    ),
    "sequences": (
        lambda: nn.Sequential(nn.Conv1d(3, 5, 3, padding=1), nn.SiLU(), nn.Conv1d(5, 2, 1), nn.Hardsigmoid()),
        images(3, 9),
        1,
        "no others",
    ),
    "residual block": (lambda: nn.Sequential(Block(), Block()), images(4, 5, 5), 4, "add"),
}


def parts_of(output: torch.Tensor | dict[str, torch.Tensor]) -> list[torch.Tensor]:
    return list(output.values()) if isinstance(output, dict) else [output]


@pytest.mark.parametrize("name", MODULES)
def test_pieces_become_attention_and_the_whole_stays_the_same(name: str, tmp_path: Path) -> None:
    make, given, count, stays = MODULES[name]
    torch.manual_seed(len(name))
    module = make().double()
    module(*given())  # statistics of batch norm that are not those of a new one
    module.eval()
    built = sw.transpile(module, box=(-3, 3))
    assert len(built.parts) == count and built.certificate.bound < 1e-9
    assert any(stays in told for told in built.plan.reasons)
    inputs = given()
    with torch.no_grad():
        left, right = (parts_of(net(*(x.clone() for x in inputs))) for net in (module, built.network))
    assert all(float((a - b).abs().max()) < 1e-9 and a.shape == b.shape for a, b in zip(left, right, strict=True))
    for path, part in built.parts.items():
        assert part.observed_error <= part.certificate.bound
        part.save(tmp_path / "piece.safetensors")
        assert sw.verify(tmp_path / "piece.safetensors"), path


def test_a_norm_says_where_the_inputs_of_a_piece_lie() -> None:
    module = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 2)).double().eval()
    built = sw.transpile(module)
    (part,) = built.parts.values()
    low, high = part.target["box"]
    assert max(high) == pytest.approx(6**0.5 * 1.001, rel=1e-3) and min(low) == -max(high)


def changed(net: Forward, x: torch.Tensor) -> torch.Tensor:
    before = net.norm(net.up(x))  # type: ignore[operator]
    after = before
    after += 1.0
    return torch.relu(before) + net.norm(after)  # type: ignore[operator]


def test_a_value_that_is_changed_in_place_and_used_is_not_cut_around() -> None:
    """torch.fx follows += as a sum, which it is not for the other names of the value."""
    module = Forward(changed, up=nn.Linear(4, 6), norm=nn.LayerNorm(6)).eval()
    with pytest.raises(InvalidInput, match="LayerNorm"):
        sw.transpile(module, box=(-1, 1))


def test_weights_that_are_no_numbers_are_faults_of_the_module_and_not_cut_around() -> None:
    module = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 6), nn.ReLU(), nn.Linear(5, 2)).eval()
    with pytest.raises(InvalidInput, match="LayerNorm"):
        sw.transpile(module, box=(-1, 1))
    hooked = deep(nn.Hardswish).eval()
    hooked[2].register_forward_hook(lambda layer, inputs, output: output + 1)  # type: ignore[operator,union-attr]
    with pytest.raises(InvalidInput, match="forward hook"):
        sw.transpile(hooked, box=(-1, 1))


class Options(nn.Module):
    """A forward with options, as many have them, and another way for those who use one."""

    def __init__(self, cut: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(5) if cut else nn.Identity()
        self.up, self.down = nn.Linear(5, 8), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None, *, mode: str = "plain") -> torch.Tensor:
        h = functional.gelu(self.up(self.norm(x)))
        if mask is not None:
            h = h * mask
        return self.down(h) + 1 if mode == "moved" else self.down(h)


@pytest.mark.parametrize("cut", [False, True])
def test_options_of_a_forward_have_their_defaults(cut: bool) -> None:
    torch.manual_seed(3)
    module = Options(cut).double().eval()
    built = sw.transpile(module, (-2, 2))
    x = torch.randn(7, 5, dtype=torch.float64).clamp(-2, 2)
    with torch.no_grad():
        assert float((built.network(x) - module(x)).abs().max()) <= 1e-11
        if cut:
            for wrong in ({"mask": torch.ones(8)}, {"mode": "moved"}):
                with pytest.raises(InvalidInput, match="in what was built"):
                    built.network(x, **wrong)


def test_a_mask_that_is_only_handed_on_stays_an_input() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attend = nn.MultiheadAttention(6, 2, batch_first=True)
            self.norm, self.up, self.down = nn.LayerNorm(6), nn.Linear(6, 9), nn.Linear(9, 6)

        def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
            x = x + self.attend(x, x, x, attn_mask=mask, need_weights=False)[0]
            return x + self.down(functional.gelu(self.up(self.norm(x))))

    torch.manual_seed(4)
    module = Block().double().eval()
    built = sw.transpile(module)
    x = torch.randn(2, 4, 6, dtype=torch.float64)
    mask = torch.full((4, 4), -torch.inf, dtype=torch.float64).triu(1)
    with torch.no_grad():
        for given in ((x,), (x, mask)):
            assert float((built.network(*given) - module(*given)).abs().max()) <= 1e-11


STAYS: dict[str, Callable[[], nn.Module]] = {
    "GroupNorm": lambda: nn.Sequential(nn.Linear(5, 12), nn.GroupNorm(3, 12), nn.ReLU(), nn.Linear(12, 3)),
    "softmax of one value": lambda: Forward(
        lambda m, x: m.end(torch.relu(m.up(x) + torch.softmax(m.gate(x), -1))),
        up=nn.Linear(5, 8), gate=nn.Linear(5, 1), end=nn.Linear(8, 3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
def test_what_follows_something_that_stays_has_the_width_of_the_layer_behind(name: str) -> None:
    torch.manual_seed(5)
    module = STAYS[name]().double().eval()
    built = sw.transpile(module, (-2, 2))
    x = torch.rand(9, 5, dtype=torch.float64)
    with torch.no_grad():
        assert float((built.network(x) - module(x)).abs().max()) <= 1e-12
    assert built.parts


def test_one_value_that_meets_several_is_no_row_of_them() -> None:
    """relu of a softmax of one value, times eight: nothing says that the relu has eight values."""
    gated = Forward(
        lambda m, x: m.end(torch.relu(torch.softmax(m.gate(x), -1)) * m.up(x)),
        up=nn.Linear(5, 8), gate=nn.Linear(5, 1), end=nn.Linear(8, 3),
    ).eval()  # fmt: skip
    with pytest.raises(InvalidInput, match="softmax has no attention form"):
        sw.transpile(gated, (-2, 2))


IMAGES: dict[str, Callable[[], nn.Module]] = {
    "InstanceNorm": lambda: nn.Sequential(nn.Conv2d(3, 6, 3), nn.InstanceNorm2d(6), nn.GELU(), nn.Conv2d(6, 2, 1)),
    "GroupNorm": lambda: nn.Sequential(nn.Conv2d(3, 6, 3), nn.GroupNorm(2, 6), nn.SiLU(), nn.Conv2d(6, 2, 1)),
    "reflected": lambda: nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1, padding_mode="reflect"), nn.ReLU(), nn.Conv2d(6, 2, 1)
    ),
    "transposed": lambda: nn.Sequential(nn.ConvTranspose2d(3, 6, 2), nn.ReLU(), nn.Conv2d(6, 2, 1)),
}


@pytest.mark.parametrize("name", IMAGES)
def test_images_keep_their_channels_through_what_stays(name: str) -> None:
    torch.manual_seed(6)
    module = IMAGES[name]().double().eval()
    built = sw.transpile(module, (-3, 3))
    x = torch.rand(2, 3, 8, 8, dtype=torch.float64)
    with torch.no_grad():
        assert float((built.network(x) - module(x)).abs().max()) <= 1e-10
