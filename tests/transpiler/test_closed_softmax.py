"""Heads that run by a closed form of their softmax: the same weights, the same derivatives, within the same bounds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import softwright as sw
from softwright.checker.precision import as_run
from softwright.checker.transpiled.ladder import Ladder, _unshared
from softwright.checker.transpiled.smooth import smooth_run
from softwright.checker.transpiled.unit import Run
from softwright.targets.mlp import Activation
from softwright.transpiler.closed_softmax import EvenTokens, Pair, by_powers, closed_form, power_slips
from softwright.transpiler.neuron_heads import _by_softmax, apply_table
from softwright.transpiler.tokens import fitted_table, table_for, token_counts
from softwright.transpiler.unit_bounds import unit_of

KINDS = {"float64": torch.float64, "float32": torch.float32}
FITTED = ("gelu", "gelu_tanh", "softplus")


def _points(dtype: str, seed: int) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    s = np.concatenate([rng.normal(size=4000) * 3, np.geomspace(1e-30, 60, 200), -np.geomspace(1e-30, 60, 200), [0.0]])
    return torch.tensor(s).to(KINDS[dtype])


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", FITTED)
def test_powers_are_the_weights_of_even_tokens_and_within_both_bounds(name: str, dtype: str) -> None:
    activation = Activation(name)
    for count in [count for count in token_counts(activation) if dtype == "float64" or count <= 16]:
        table = fitted_table(activation, count, dtype)
        tokens, s = torch.tensor(table.stacked, dtype=KINDS[dtype]), _points(dtype, count)
        even = closed_form(s, tokens)
        assert isinstance(even, EvenTokens) and Ladder.of(table.stacked) is not None
        wide = s.numpy().astype(np.longdouble)
        weights = np.exp(wide[:, None] * table.keys.astype(np.longdouble) + table.biases)
        exact = (weights * (wide[:, None] * table.slopes + table.offsets)).sum(1) / weights.sum(1)
        error = np.abs(by_powers(s, even).numpy().astype(np.longdouble) - exact).astype(float)
        size = np.abs(s.double().numpy())
        run = Run(as_run(dtype, "softmax"), "softmax")
        assert np.all(error <= unit_of(activation, table, dtype).rounding(size))
        assert np.all(error <= smooth_run(table.stacked, run)(size, size))
        few = s[:5000]  # one chunk
        assert np.array_equal(apply_table(few[:, None], tokens, "softmax")[:, 0], by_powers(few, even))


def test_prover_and_checker_count_the_same_roundings_of_powers() -> None:
    for count in (3, 6, 12, 14):
        assert np.array_equal(power_slips(count), _unshared(count))
    assert power_slips(14)[12:, 12:].max() <= 6  # neighbours share most of theirs


@pytest.mark.parametrize("name", FITTED)
def test_prover_and_checker_find_the_same_polynomials_and_those_of_the_table(name: str) -> None:
    for count in token_counts(Activation(name)):
        table = fitted_table(Activation(name), count, "float64")
        even, ladder = EvenTokens.of(table.stacked), Ladder.of(table.stacked)
        assert even is not None and ladder is not None
        assert np.array_equal(even.coefficients, ladder.polynomials)  # both are the nearest numbers
        y = np.linspace(0.0, 1.0, 33)[:, None]
        x, w = y / (1 + y) ** 2, y / (1 + y)
        Z, U, B, A = (x ** np.arange(count // 2) @ row for row in even.coefficients)
        meant = np.exp(table.biases - table.biases[0]) * y ** np.arange(count) / (1 + y) ** (count - 1)
        for found, values in ((Z, np.ones(count)), (U, table.offsets), (B - 2 * w[:, 0] * A, table.slopes)):
            assert np.allclose(found, meant @ values, rtol=0, atol=1e-13 * Z.max())


@pytest.mark.parametrize("change", ["keys", "biases", "slopes", "offsets"])
def test_tokens_that_are_even_but_for_one_digit_run_as_they_are(change: str) -> None:
    table = fitted_table(Activation("gelu"), 16, "float64").stacked.copy()
    assert EvenTokens.of(table) is not None
    row = ("keys", "biases", "slopes", "offsets").index(change)
    table[row, 3] = np.nextafter(table[row, 3], 10.0)
    assert EvenTokens.of(table) is None and Ladder.of(table) is None
    s = _points("float64", 1)[:, None]
    tokens = torch.tensor(table)
    assert torch.equal(apply_table(s, tokens, "softmax"), _by_softmax(s, tokens))


@pytest.mark.parametrize("name", [*FITTED, "tanh", "silu", "sigmoid"])
def test_derivatives_are_those_of_the_head_at_zero_too(name: str) -> None:
    tokens = torch.tensor(table_for(Activation(name), "float64").stacked)
    s = torch.tensor([[0.0, -1.5, 0.7]], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(apply_table(s, tokens, "softmax").sum(), s)
    h = 1e-5
    with torch.no_grad():
        apart = (apply_table(s + h, tokens, "softmax") - apply_table(s - h, tokens, "softmax")) / (2 * h)
    assert torch.allclose(slope, apart, atol=1e-8)


def test_pairs_whose_slopes_would_cancel_are_left_to_softmax() -> None:
    steep = table_for(Activation("leaky_relu", (-5.3,)), "float32")
    gentle = table_for(Activation("leaky_relu", (0.3,)), "float32")
    assert Pair.of(steep.stacked.tolist()) is None and Pair.of(gentle.stacked.tolist()) is not None
    assert Pair.of(np.array([[1.0, 0.5], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0]]).tolist()) is None


def test_float64_networks_in_float32_keep_the_arithmetic_of_their_source() -> None:
    mlp = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)).eval()
    layouts = {
        (source, dtype): sw.transpile(mlp.to(KINDS[source]), (-1, 1), dtype=dtype).network.layout
        for source in KINDS
        for dtype in KINDS
    }
    assert {kinds for kinds, layout in layouts.items() if layout == "double"} == {("float64", "float32")}
    assert sw.transpile(mlp.double(), (-1, 1), dtype="float32", layout="softmax").network.layout == "softmax"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("slope", [0.0, 0.25, -0.5])
def test_hard_pairs_are_the_softmax_bit_by_bit_away_from_zero(slope: float, dtype: str) -> None:
    """And near 0 no farther from it than the softmax is from relu; slopes here are powers of two, products exact."""
    kind = getattr(torch, dtype)
    tokens = torch.tensor([[0.0, 2.0**60], [0.0, 0.0], [slope, 1.0], [0.0, 0.0]], dtype=kind)
    rng = np.random.default_rng(3)
    sizes = 2.0 ** rng.uniform(-49.9, 20, size=4000)
    s = torch.tensor(sizes * rng.choice([-1.0, 1.0], size=4000), dtype=kind)[:, None]
    assert torch.equal(apply_table(s, tokens, "softmax"), _by_softmax(s, tokens))
    near = torch.tensor(rng.uniform(-(2.0**-52), 2.0**-52, size=4000), dtype=kind)[:, None]
    apart = (apply_table(near, tokens, "softmax") - _by_softmax(near, tokens)).abs().max()
    assert 0.2 * abs(1 - slope) < float(apart) * 2.0**60 < 0.279 * abs(1 - slope)
    zero = torch.zeros(1, 1, dtype=kind, requires_grad=True)
    (half,) = torch.autograd.grad(apply_table(zero, tokens, "softmax").sum(), zero)
    assert float(half) == (1 + slope) / 2  # the softmax's own slope: derivatives are not those of the shortcut
