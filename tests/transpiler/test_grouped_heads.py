"""Four neurons in one softmax: the same function, within both proofs, and what a file says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import softwright as sw
from softwright.checker.precision import PRECISIONS
from softwright.checker.transpiled.activations import read_activation
from softwright.checker.transpiled.groups import group_totals
from softwright.checker.transpiled.heads import unit_of as checked_unit
from softwright.checker.transpiled.unit import Run
from softwright.fileformat import read_model, write_model
from softwright.targets.mlp.activation import Activation
from softwright.transpiler.grouped_heads import GROUP, GROUPED_LAYOUTS, group_of
from softwright.transpiler.neuron_heads import NeuronHeads
from softwright.transpiler.tokens import exact_table, table_for
from softwright.transpiler.unit_bounds import unit_of

PAIRS = [("relu", ()), ("leaky_relu", (0.3,)), ("leaky_relu", (-0.5,)), ("silu", ()), ("sigmoid", ()), ("tanh", ())]
DTYPES = {"float32": torch.float32, "float64": torch.float64}


def heads_of(activation: Activation, dtype: str, layout: str, count: int, group: int) -> NeuronHeads:
    table = exact_table(activation, dtype)
    assert table is not None
    return NeuronHeads(np.eye(count), np.zeros(count), table, DTYPES[dtype], layout, group)


def numbers(dtype: str) -> np.ndarray:
    """(n, 8): two groups, of numbers that are far apart and near together."""
    rng = np.random.default_rng(7)
    sizes = 10.0 ** rng.uniform(-18, 2, size=(3000, 8))
    near = rng.uniform(-30, 30, size=(1000, 1)) * (1 + rng.normal(size=(1000, 8)) * 1e-7)
    s = np.concatenate([sizes * rng.choice([-1.0, 1.0], size=sizes.shape), near, rng.uniform(-8, 8, size=(2000, 8))])
    return s.astype(dtype).astype(np.float64)


@pytest.mark.parametrize("layout", GROUPED_LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "given"), PAIRS)
def test_groups_are_within_both_proofs(name: str, given: tuple[float, ...], dtype: str, layout: str) -> None:
    activation = Activation(name, given)
    heads, s = heads_of(activation, dtype, layout, 8, GROUP), numbers(dtype)
    error = np.abs(heads(torch.tensor(s, dtype=DTYPES[dtype])).double().numpy() - activation(s.astype(np.longdouble)))
    size, table = np.abs(s), heads.table
    total = size.reshape(-1, 2, 4).sum(axis=2).repeat(4, axis=1)
    unit = unit_of(activation, table, dtype, layout, GROUP)
    assert unit.together is not None
    proved = unit.exact_for(size) + unit.rounding(size) + unit.together(total)
    described = read_activation({"name": name, "parameters": list(activation.parameters)})
    again = checked_unit(described, table.stacked, Run(PRECISIONS[dtype], layout), shared=True)
    assert again.beside is not None
    top = np.abs(activation(s))
    checked = again.exact_for(size) + again.run(size, top) + again.beside(np.stack([group_totals(m) for m in size]))
    assert (error <= checked).all() and (checked <= proved).all()
    assert error.max() > 0.002 * checked.max()


def test_a_large_neighbour_costs_what_single_heads_are_not_charged() -> None:
    """s = 1e-4 beside 3e4 in float32: its score is lost in that of its neighbour, and so is half of it."""
    activation, layout = Activation("relu"), "sdpa"
    heads = heads_of(activation, "float32", layout, 4, GROUP)
    s = np.array([3.0e4, 1e-4, 0.0, 0.0], dtype=np.float32)
    error = float(heads(torch.tensor(s)[None])[0, 1]) - float(s[1])
    alone = unit_of(activation, heads.table, "float32", layout)
    together = unit_of(activation, heads.table, "float32", layout, GROUP).together
    assert together is not None
    single = float(alone.exact + alone.rounding(np.array([float(s[1])]))[0])
    assert 100 * single < abs(error) <= float(together(np.array([3.1e4]))[0])


@pytest.mark.parametrize("layout", GROUPED_LAYOUTS)
@pytest.mark.parametrize("count", [1, 3, 4, 6])
def test_groups_give_what_single_heads_give(layout: str, count: int) -> None:
    rng = np.random.default_rng(count)
    x = torch.tensor(rng.normal(size=(11, count)) * 3)
    for name, given in PAIRS:
        activation = Activation(name, given)
        one, four = (heads_of(activation, "float64", layout, count, group) for group in (1, GROUP))
        assert torch.allclose(one(x), four(x), rtol=0, atol=1e-13)
        assert four(x[:0]).shape == (0, count) and torch.equal(four(x[None])[0], four(x))
        y = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(four(y).sum(), y)
        (wanted,) = torch.autograd.grad(one(y.clone()).sum(), y)
        assert torch.allclose(slope, wanted, rtol=0, atol=1e-9)
        assert torch.allclose(torch.func.vmap(four)(x), four(x), rtol=0, atol=1e-13)


def test_only_pairs_without_biases_share_a_softmax() -> None:
    for name in ("gelu", "mish", "elu", "hardtanh"):
        assert group_of(table_for(Activation(name), "float64"), "sdpa") == 1
    table = table_for(Activation("relu"), "float64")
    assert [group_of(table, layout) for layout in ("softmax", "double", "sequence")] == [1, 1, 1]
    with pytest.raises(sw.InvalidInput, match="cannot be taken by 4"):
        NeuronHeads(np.eye(4), np.zeros(4), table, layout="softmax", group=4)


def changed(path: Path, **entries: Any) -> Path:
    """The same file with other entries of its first step; None removes one."""
    file = read_model(path)
    sections = json.loads(json.dumps(file.sections))
    step = sections["model"]["steps"][0]
    for name, value in entries.items():
        step.pop(name, None)
        if value is not None:
            step[name] = value
    other = path.with_name("other.safetensors")
    write_model(other, file.tensors, sections)
    return other


@pytest.mark.parametrize("layout", GROUPED_LAYOUTS)
def test_a_file_says_how_its_heads_run(layout: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(3, 10), nn.SiLU(), nn.Linear(10, 2)).double().eval()
    built = sw.transpile(mlp, (-2, 2), layout=layout)
    path = tmp_path / "net.safetensors"
    built.save(path)
    assert sw.verify(path).status == "VERIFIED" and read_model(path).sections["model"]["steps"][0]["group"] == 4
    x = np.random.default_rng(0).uniform(-2, 2, size=(9, 3))
    loaded = sw.load(path)
    assert loaded.network.steps[0].group == 4 and np.array_equal(loaded(x), built(x))
    for value in (3, 8, "4", True):
        assert sw.verify(changed(path, group=value)).status != "VERIFIED"
    alone = changed(path, group=None)
    if layout == "multihead":  # whose stock module has other weights then
        assert sw.verify(alone).status != "VERIFIED"
    else:  # another network, of single heads, for which the bound is more than enough
        assert sw.verify(alone).status == "VERIFIED" and sw.load(alone).network.steps[0].group == 1


class Gated(nn.Module):
    def __init__(self, phi: Any) -> None:
        super().__init__()
        self.gate, self.up, self.down, self.phi = nn.Linear(4, 10), nn.Linear(4, 10), nn.Linear(10, 3), phi

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.phi(self.gate(x)) * self.up(x))


@pytest.mark.parametrize("layout", GROUPED_LAYOUTS)
@pytest.mark.parametrize("phi", [nn.functional.silu, nn.functional.gelu, torch.sigmoid, torch.tanh])
def test_gated_units_share_a_softmax(phi: Any, layout: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    block = nn.Sequential(nn.Identity(), Gated(phi)).double().eval()
    built = sw.transpile(block, (-2, 2), blocks=["1"], layout=layout).parts["1"]
    plain = sw.transpile(block, (-2, 2), blocks=["1"]).parts["1"]
    x = np.random.default_rng(2).uniform(-2, 2, size=(500, 4))
    exact = built.source(x, exact=True)
    assert np.abs(built(x) - exact).max() <= built.certificate.bound <= 8 * plain.certificate.bound
    path = tmp_path / "block.safetensors"
    built.save(path)
    assert sw.verify(path).status == "VERIFIED"
    loaded = sw.load(path)
    assert np.array_equal(loaded(x), built(x)) and loaded.network.steps[0].group == 4
    for value in (2, True):
        assert sw.verify(changed(path, group=value)).status != "VERIFIED"
    y = torch.tensor(x[:5], requires_grad=True)
    (slope,) = torch.autograd.grad(built.network(y).sum(), y)
    (wanted,) = torch.autograd.grad(block(y).sum(), y)
    assert torch.allclose(slope, wanted, atol=1e-7)
