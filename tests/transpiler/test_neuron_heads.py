"""A neuron as a head: every activation, every layout, both dtypes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from softwright.attention.richardson import richardson
from softwright.errors import InvalidInput
from softwright.targets.mlp.activation import Activation
from softwright.targets.mlp.activations import ACTIVATIONS, BETA
from softwright.transpiler.gated_heads import GatedHeads
from softwright.transpiler.neuron_heads import LAYOUTS, NeuronHeads
from softwright.transpiler.token_table import TokenTable
from softwright.transpiler.tokens import direct_gate, exact_table, fitted_table, table_for, token_counts

DTYPES = {"float64": torch.float64, "float32": torch.float32}
S = np.concatenate([np.linspace(-60, 60, 1201), np.geomspace(1e-22, 1, 80), -np.geomspace(1e-22, 1, 80)])


def values(table: TokenTable, s: np.ndarray, dtype: str, layout: str) -> np.ndarray:
    """The head of one neuron with weight 1 at the points s."""
    heads = NeuronHeads(np.ones((1, 1)), np.zeros(1), table, DTYPES[dtype], layout)
    return heads(torch.tensor(s, dtype=DTYPES[dtype])[:, None])[:, 0].double().numpy()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", [row.name for row in ACTIVATIONS.values() if not row.shapes])
def test_exact_activations_are_exact_up_to_rounding(name: str, layout: str) -> None:
    activation = Activation(name)
    for dtype, unit in (("float64", 2.0**-53), ("float32", 2.0**-24)):
        table = exact_table(activation, dtype)
        assert table is not None and table.tokens <= 5
        s = S.astype(dtype).astype(np.float64)
        error = np.abs(values(table, s, dtype, layout) - activation(s.astype(np.longdouble)))
        assert np.all(error <= unit * (2 * np.abs(s) + 24)), f"{dtype}: {error.max()}"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sigmoid_and_silu_are_accurate_relative_to_their_value_and_tanh_to_its_range(layout: str) -> None:
    for name in ("sigmoid", "silu", "tanh"):
        exact = Activation(name)(S.astype(np.longdouble))
        table = exact_table(Activation(name), "float64")
        assert table is not None
        scale = 1.0 if name == "tanh" else np.maximum(np.abs(exact), 1e-300)
        assert float((np.abs(values(table, S, "float64", layout) - exact) / scale).max()) <= 1e-15


def test_relu_is_within_its_theorem_at_every_sharpness() -> None:
    for beta in (1.0, 64.0, 2.0**20, BETA):
        s = np.concatenate([S, np.linspace(-8, 8, 4001) / beta])
        error = np.abs(TokenTable.of((0, 0, 0, 0), (beta, 0, 1, 0))(s) - np.maximum(s, 0))
        assert 0.27 / beta < error[np.abs(s) < 8 / beta].max() <= 0.2785 / beta
        assert np.all(error <= 0.2785 / beta + 1e-14)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gelu_takes_at_most_24_tokens_for_1e_9(layout: str) -> None:
    table = fitted_table(Activation("gelu"), 24, "float64")
    assert table.tokens <= 24
    assert np.abs(values(table, S, "float64", layout) - Activation("gelu")(S)).max() <= 1e-10


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "softplus"])
def test_more_tokens_are_closer_and_the_edges_are_the_asymptotes(name: str) -> None:
    activation = Activation(name, (1.0, 1e300) if name == "softplus" else ())
    errors = []
    for count in token_counts(activation):
        table = fitted_table(activation, count, "float64")
        assert table.slopes[[0, -1]].tolist() == [0.0, 1.0] and table.offsets[[0, -1]].tolist() == [0.0, 0.0]
        errors.append(float(np.abs(table(S) - activation(S)).max()))
        assert abs(table(np.array([1e6]))[0] - 1e6) == 0.0 and table(np.array([-1e6]))[0] == 0.0
    assert errors == sorted(errors, reverse=True) and errors[-1] < 3e-11


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_all_layouts_agree_on_a_layer(name: str) -> None:
    rng = np.random.default_rng(3)
    weight, bias = rng.normal(size=(5, 7)), rng.normal(size=5)
    table = table_for(Activation(name), "float64")
    x = torch.tensor(rng.normal(size=(3, 4, 7)))
    found = [NeuronHeads(weight, bias, table, torch.float64, layout)(x) for layout in LAYOUTS]
    exact = Activation(name)(x.numpy() @ weight.T + bias)
    apart = 1e-11 if ACTIVATIONS[name].family == "sides" else 1e-13  # scores of size beta |s| are rounded
    for layout, value in zip(LAYOUTS, found, strict=True):
        assert value.shape == (3, 4, 5)
        assert float((value - found[0]).abs().max()) <= apart, layout
        assert np.abs(value.numpy() - exact).max() <= 1e-10


def test_more_inputs_than_neurons_and_one_row_alone_work_in_every_layout() -> None:
    rng = np.random.default_rng(5)
    table = table_for(Activation("tanh"), "float64")
    weight = rng.normal(size=(1, 9))
    x = torch.tensor(rng.normal(size=9))
    exact = np.tanh(weight @ x.numpy())
    for layout in LAYOUTS:
        assert np.abs(NeuronHeads(weight, np.zeros(1), table, layout=layout)(x).numpy() - exact).max() < 1e-15


def test_heads_are_differentiable_and_the_sink_gate_is_recognised() -> None:
    table = exact_table(Activation("relu"), "float64")
    assert table is not None and table.sink_gate == BETA
    assert table_for(Activation("tanh"), "float64").sink_gate is None
    direct = {name: direct_gate(Activation(name)) for name in ACTIVATIONS}
    assert {name: second for name, second in direct.items() if second is not None} == {"sigmoid": 0.0, "tanh": -1.0}
    x = torch.tensor([[0.5, -2.0, 0.0]], dtype=torch.float64, requires_grad=True)
    NeuronHeads(np.eye(3), np.zeros(3), table)(x).sum().backward()
    assert x.grad is not None and torch.isfinite(x.grad).all() and x.grad[0, :2].tolist() == [1.0, 0.0]


def test_richardson_weights_cancel_the_odd_powers() -> None:
    for order in (1, 2, 3, 4):
        c, k = np.array(richardson(order), dtype=float), np.arange(1, order + 1)
        moments = [float((c * k ** (2 * n + 1.0)).sum()) for n in range(order)]
        assert np.allclose(moments, [1.0] + [0.0] * (order - 1), atol=1e-12)


def test_unknown_layouts_are_refused_by_name() -> None:
    table = table_for(Activation("relu"), "float64")
    with pytest.raises(InvalidInput, match="layout 'flash' is not known"):
        NeuronHeads(np.ones((1, 1)), np.zeros(1), table, layout="flash")
    pair = np.ones((1, 1)), np.zeros(1)
    with pytest.raises(InvalidInput, match="has no gated form"):
        GatedHeads(pair, pair, None, 0.0, np.ones(1), np.ones(1), layout="sequence")
