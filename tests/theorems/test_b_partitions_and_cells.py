"""B1, B2 and B4 in the sup norm: bounds over grids of sizes and random instances, mutations, rates, explicit layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softwright.domain import Box
from softwright.theorems import find_theorem
from softwright.theorems.tools.cell_attention import cross_attention, other_sequence, self_attention
from softwright.theorems.tools.modulus import Modulus
from softwright.theorems.tools.network import Attention, CrossAttention, Tokens
from tests.theorems.theorem_checks import change, check, is_caught

B1, B2, B4 = (find_theorem(label) for label in ("B1", "B2", "B4"))
FORMULAS = ["sin(3*x)*exp(-y**2)", "abs(x) + max(x, y)", "sqrt(x + 1)", "x*y - z", "tanh(5*x), x**2"]
_NUMBERS = st.floats(-2, 2).map(lambda a: round(a, 3))


@pytest.mark.parametrize("pieces", [2, 5, 30])
@pytest.mark.parametrize("dim", [1, 2, 6])
@pytest.mark.parametrize("width", [0.3, 0.01])
def test_b1_over_a_grid_of_sizes(pieces: int, dim: int, width: float) -> None:
    check(B1.build(pieces=pieces, dim=dim, width=width, eps0=1e-4, seed=pieces + dim))


@given(
    st.integers(2, 25),
    st.integers(1, 5),
    st.floats(0.005, 0.5),
    st.sampled_from([1e-1, 1e-3, 1e-8]),
    st.integers(0, 10**6),
)
@settings(max_examples=50)
def test_b1_random_partitions(pieces: int, dim: int, width: float, eps0: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = B1.build(slopes=rng.normal(size=(pieces, dim)), offsets=rng.normal(size=pieces), width=width, eps0=eps0)
    check(made, seed=seed)
    row = dim + 1 + int(seed % pieces)  # the row of Z that holds the indicator of one piece
    change(made, "stages.0.R", (row, row - dim - 1), 2.0 * made.bound)
    if np.isin(row - dim - 1, made.target(made.sample(np.random.default_rng(seed), 400)).argmax(axis=1)):
        is_caught(made, seed=seed)


def test_b1_band_is_as_wide_as_said() -> None:
    # One wall at x = 0 between slopes -1 and 1: eps0 is met at width/2 exactly, and not inside the band.
    made = B1.build(slopes=[[-1.0], [1.0]], offsets=[0.0, 0.0], width=0.2, eps0=1e-3)
    out = made.network.evaluate(np.array([[[0.1]], [[0.05]]]))[:, 0, 0]
    assert out[0] <= made.bound <= 1e-3
    assert out[1] > 1e-3


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("cells", [1, 3, 8])
@pytest.mark.parametrize("theorem", [B2, B4], ids=["B2", "B4"])
def test_b2_and_b4_over_a_grid_of_sizes(theorem, formula: str, cells: int) -> None:
    made = theorem.build(formula=formula, cells=cells, eps0=1e-5)
    check(made)
    assert (made.layers, made.heads) == (made.network.layers, made.network.heads) == (1, 1)
    assert made.tokens == cells ** len(made.box.names)


@pytest.mark.parametrize("cross", [False, True], ids=["B2", "B4"])
@given(
    st.tuples(_NUMBERS, _NUMBERS, _NUMBERS, _NUMBERS),
    st.sampled_from(["{0}*sin({1}*x) + {2}", "{0}*abs(x - {1}) + {2}*y*x", "exp({0}*x) - {1}*max(y, {2})"]),
    st.integers(2, 9),
    st.sampled_from([1e-2, 1e-6, 1e-10]),
    st.integers(0, 10**6),
)
@settings(max_examples=50)
def test_b2_and_b4_random_formulas(
    cross: bool, numbers: tuple, pattern: str, cells: int, eps0: float, seed: int
) -> None:
    formula = pattern.format(*(f"({a})" for a in numbers))
    box = Box(x=(-1.0, 0.5 + abs(numbers[3])), y=(-2.0, 1.0)) if "y" in formula else Box(x=(-1, 1 + abs(numbers[3])))
    made = (B4 if cross else B2).build(formula=formula, cells=cells, eps0=eps0, box=box)
    check(made, seed=seed)
    last = (-1, seed % made.tokens) if cross else (box.dim + 1, seed % made.tokens)
    change(made, "stages.1.Y" if cross else "stages.0.R", last, max(2.0 * made.bound, 1e-9))
    is_caught(made, seed=seed, n=6000)


@pytest.mark.parametrize("formula", ["sin(3*x)", "sin(3*x)*exp(-y**2)", "abs(x) + 2*y"])
def test_b2_error_falls_like_the_cell_size(formula: str) -> None:
    sizes = [8, 16, 32] if "y" in formula else [16, 32, 64, 128]
    errors = [B2.build(formula=formula, cells=cells).observe(n=1600)[0] for cells in sizes]
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert abs(slope + 1.0) <= 0.15


def test_b2_tokens_are_the_sum_of_linear_maps_and_all_columns_of_the_attention_agree() -> None:
    made = B2.build(formula="x + y*z - w", cells=3, columns=2)
    tokens, attention = made.network.stages
    assert isinstance(tokens, Tokens)
    assert isinstance(attention, Attention)
    X = torch.from_numpy(made.sample(np.random.default_rng(0), 20))
    Z = sum(P @ X @ Q for P, Q in zip(tokens.P, tokens.Q, strict=True)) + tokens.R
    torch.testing.assert_close(tokens(X), Z)
    assert tokens.P.shape == (2, 2 * 4 + 3, 2)  # one term per column of X; keys, bias, value, copy, one
    scores = (attention.W_K[0] @ Z).transpose(1, 2) @ (attention.W_Q[0] @ Z)
    whole = (attention.W_V[0] @ Z) @ scores.softmax(dim=1)  # (q, 1, N): the attention of every token
    torch.testing.assert_close(whole, made.network(X).expand_as(whole))


def test_b4_layer_computes_the_function_that_the_other_sequence_holds() -> None:
    made = B4.build(formula="sin(3*x)", cells=32)
    other = B2.build(formula="cos(2*x)", cells=32, beta=made.quantities["beta"])
    cross = made.network.stages[1]
    assert isinstance(cross, CrossAttention)
    X = np.linspace(-1, 1, 50)[:, None, None]
    same = self_attention("B2", made.cells).evaluate(X)
    np.testing.assert_allclose(made.network.evaluate(X), same, atol=1e-12)
    Y = torch.from_numpy(other_sequence(other.cells))
    with torch.inference_mode():
        got = cross(made.network.stages[0](torch.from_numpy(X)), Y).numpy()
    np.testing.assert_allclose(got, other.network.evaluate(X), atol=1e-12)
    again = cross_attention("B4", other.cells).stages[1]
    assert isinstance(again, CrossAttention)
    assert torch.equal(again.W_K, cross.W_K)


@pytest.mark.parametrize("formula", ["sin(3*x)*y", "abs(x - y)", "sqrt(x + 1) + y", "exp(x), x*y"])
def test_modulus_is_never_below_sampled_differences(formula: str) -> None:
    made = B2.build(formula=formula, cells=4)
    modulus = Modulus(made.expression, made.box)
    rng = np.random.default_rng(3)
    for rho in (0.01, 0.1, 0.7):
        x = rng.uniform(-1, 1, (4000, 2))
        step = rng.normal(size=x.shape)
        y = np.clip(x + rho * step / np.sqrt((step**2).sum(axis=1, keepdims=True)), -1, 1)
        seen = np.abs(made.expression(x) - made.expression(y)).max()
        assert seen <= modulus(rho)
    assert np.abs(made.expression(x)).max() <= modulus.sup_norm
