"""Tokens of constant value times s, for GELU in its forms: what they promise, and how stock attention runs them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import softwright as sw
from softwright.checker.precision import as_run
from softwright.checker.transpiled.activations import read_activation
from softwright.checker.transpiled.heads import unit_of as checked_unit
from softwright.checker.transpiled.unit import Run
from softwright.errors import InvalidInput
from softwright.fileformat import read_model, write_model
from softwright.targets.mlp.activation import Activation
from softwright.targets.mlp.activations import ACTIVATIONS
from softwright.transpiler.closed_softmax import EvenTokens
from softwright.transpiler.neuron_heads import NeuronHeads, apply_table, stock_attention
from softwright.transpiler.token_proof import proved_error
from softwright.transpiler.token_table import TokenTable
from softwright.transpiler.tokens import fitted_table, table_for, token_counts
from tests.checker.transpiled_files import TranspiledFile, made

KINDS = {"float64": torch.float64, "float32": torch.float32}
GATED = [Activation(row.name) for row in ACTIVATIONS.values() if row.gate is not None]
ODD = [Activation("gelu_erf", (1.7, 1.0)), Activation("gelu_cubic", (0.81, 0.0447))]


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("activation", [*GATED, *ODD], ids=str)
def test_tokens_are_those_of_a_gate(activation: Activation, dtype: str) -> None:
    for count in token_counts(activation):
        table = fitted_table(activation, count, dtype)
        assert np.array_equal(table.stacked, table.rounded(dtype).stacked)
        assert not table.offsets.any() and table.one_kind
        assert np.array_equal(table.slopes, 1.0 - table.slopes[::-1]) and np.array_equal(table.keys, -table.keys[::-1])
        assert table.slopes[[0, -1]].tolist() == [0.0, 1.0]
        assert np.abs(table.slopes).max() < 1.06  # nothing cancels in a mean of them
        assert EvenTokens.of(table.stacked) is not None  # whatever the rate


# What each number of tokens is worth, in units of 1/rate: proved, and what the documentation says.
WORTH = {
    "gelu": {8: 2.4e-6, 16: 8.5e-9, 24: 1.6e-11, 32: 3e-14},
    "gelu_tanh": {8: 1.2e-5, 16: 3.7e-8, 24: 1.7e-10, 32: 3.7e-12, 40: 3.9e-14},
}


@pytest.mark.parametrize("name", WORTH)
def test_what_tokens_are_worth_is_proved(name: str) -> None:
    activation = Activation(name)
    assert token_counts(activation) == list(WORTH[name])
    for count, worth in WORTH[name].items():
        assert proved_error(activation, fitted_table(activation, count, "float64")) <= worth
    single = table_for(activation, "float32")
    assert single.tokens == 16 and proved_error(activation, single) <= 2.0**-24


@pytest.mark.parametrize("layout", ["sdpa", "multihead"])
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "mish", "softsign"])
def test_numbers_alone_run_as_pairs_of_them_do_and_within_both_proofs(name: str, dtype: str, layout: str) -> None:
    """Queries s, keys k and values v, with biases as a mask, against (s, 1), (k, b) and (v, u)."""
    activation, kind = Activation(name), KINDS[dtype]
    table = table_for(activation, dtype)
    heads = NeuronHeads(np.ones((1, 1)), np.zeros(1), table, kind, "multihead", width=1)
    wide = NeuronHeads(np.ones((1, 1)), np.zeros(1), table, kind, "multihead", width=4)
    assert (heads.attention.embed_dim, wide.attention.embed_dim) == (1, 4)
    rng = np.random.default_rng(3)
    s = torch.tensor(np.concatenate([rng.normal(size=3000) * 4, [0.0, 1e-30, -1e-30, 70.0, -70.0]])).to(kind)[:, None]
    found = heads(s) if layout == "multihead" else apply_table(s, table_stored(table, kind), "sdpa")
    size = np.abs(s.double().numpy())[:, 0]
    exact = activation(s.numpy()[:, 0].astype(np.longdouble))
    described = read_activation({"name": name, "parameters": []})
    unit = checked_unit(described, table.stacked, Run(as_run(dtype, layout), layout))
    allowed = unit.exact_for(size) + unit.run(size, np.abs(exact.astype(float)))
    slack = 1e-15 * size if name.startswith("gelu") else 0.0  # of the error function of the comparison, float64
    for values in (found, wide(s)):
        assert (np.abs(values[:, 0].double().numpy() - exact.astype(float)) <= allowed + slack).all()
    few = s[:7].clone().requires_grad_()
    (slope,) = torch.autograd.grad(heads(few).sum(), few)
    (wanted,) = torch.autograd.grad(apply_table(few, table_stored(table, kind), "softmax").sum(), few)
    assert torch.allclose(slope, wanted, rtol=1e-3 if dtype == "float32" else 1e-6, atol=1e-3)
    assert torch.allclose(torch.func.vmap(heads)(s[:9]), heads(s[:9]), rtol=0, atol=1e-4)


def table_stored(table: TokenTable, kind: torch.dtype) -> torch.Tensor:
    return torch.tensor(table.stacked, dtype=kind)


def test_values_of_two_kinds_need_width_4() -> None:
    one = np.ones((1, 1)), np.zeros(1)
    for name in ("softplus", "elu", "hardtanh"):
        table = table_for(Activation(name), "float64")
        assert NeuronHeads(*one, table, layout="multihead").attention.embed_dim == 4
        with pytest.raises(InvalidInput, match="width 1"):
            NeuronHeads(*one, table, layout="multihead", width=1)
    with pytest.raises(InvalidInput, match="width 3"):
        NeuronHeads(*one, table_for(Activation("gelu"), "float64"), layout="multihead", width=3)


def narrowed(file: TranspiledFile, **tensors: np.ndarray) -> str:
    """Why a file with other tensors of its stock attention is refused, signed anew; nothing if it is VERIFIED."""
    other = file.copied()
    for name, array in tensors.items():
        other.tensors[f"steps.0.attention.{name.replace('__', '.')}"] = array
    return other.verdict().reason if not other.verdict() else ""


def test_a_file_of_width_1_holds_ones_and_no_other_number_is_taken() -> None:
    file = made("gelu", "float64", "multihead")
    ones, none, prescribed = np.ones((3, 1)), np.zeros(3), "is not what the layout prescribes"
    assert np.array_equal(file.tensors["steps.0.attention.in_proj_weight"], ones)
    assert narrowed(file, in_proj_weight=ones) == ""
    for row in range(3):
        for value in (0.0, -1.0, float(np.nextafter(1.0, 2.0))):
            other = ones.copy()
            other[row] = value
            assert prescribed in narrowed(file, in_proj_weight=other)
        assert prescribed in narrowed(file, in_proj_bias=none + np.eye(3)[row] * 1e-300)
    assert prescribed in narrowed(file, out_proj__weight=2 * np.ones((1, 1)))
    assert prescribed in narrowed(file, out_proj__bias=np.full(1, 1e-9))
    assert "shape" in narrowed(file, in_proj_weight=np.ones((1, 3)))


def test_values_of_two_kinds_are_refused_in_stock_attention_of_width_1(tmp_path: Path) -> None:
    file = made("softplus", "float64", "multihead")
    stock = stock_attention(torch.float64, 1, 1).state_dict()
    narrow = {name.replace(".", "__"): tensor.numpy() for name, tensor in stock.items()}
    assert narrowed(file) == "" and "two kinds" in narrowed(file, **narrow)
    mixed = made("gelu", "float64", "multihead")
    mixed.tensors["steps.0.tokens"][3, 5] = 1e-300  # an offset beside slopes
    assert "two kinds" in narrowed(mixed)
    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(3, 6), nn.Softplus(), nn.Linear(6, 2)).double().eval()
    path = tmp_path / "net.safetensors"
    sw.transpile(mlp, (-2, 2), layout="multihead").save(path)
    stored = read_model(path)
    held = {f"steps.0.attention.{name}": tensor.numpy() for name, tensor in stock.items()}
    write_model(path, stored.tensors | held, stored.sections)
    with pytest.raises(sw.SoftwrightError):
        sw.load(path)
