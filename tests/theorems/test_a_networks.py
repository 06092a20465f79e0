"""A3 to A6: sequences, softmax after attention, gradient descent in context, activations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwright.domain import Box
from softwright.errors import InvalidInput
from softwright.targets import Expression
from softwright.theorems import find_theorem
from softwright.theorems.attention_then_softmax import size_and_slope
from softwright.theorems.gradient_descent import descend
from softwright.theorems.tools.hidden_layer import hidden_layer_of
from tests.theorems.theorem_checks import change, check, is_caught

A3, A4, A5, A6 = (find_theorem(label) for label in ("A3", "A4", "A5", "A6"))
_EPS0 = st.sampled_from([0.5, 1e-2, 1e-6])
_ACTIVATIONS = ["relu", "leaky_relu", "hard_tanh", "hard_sigmoid"]


# ------------------------------------------------------------------------------------------------ A3


@pytest.mark.parametrize("heads", [1, 7])
@pytest.mark.parametrize(("tokens", "dim", "hidden"), [(1, 1, 1), (4, 2, 10), (20, 5, 10)])
def test_a3_over_a_grid_of_sizes(heads: int, tokens: int, dim: int, hidden: int) -> None:
    check(A3.build(heads=heads, tokens=tokens, dim=dim, hidden=hidden), n=100)


@given(st.integers(1, 20), st.integers(1, 5), st.integers(1, 3), st.integers(1, 12), _EPS0, st.integers(0, 10**6))
@settings(max_examples=50)
def test_a3_random_networks(heads: int, tokens: int, dim: int, hidden: int, eps0: float, seed: int) -> None:
    low = -1.5 if seed % 2 else 0.0
    made = A3.build(heads=heads, tokens=tokens, dim=dim, hidden=hidden, low=low, high=1.0, eps0=eps0, seed=seed)
    # A network whose units never fire is a constant: the bound of real arithmetic is 0, rounding is all that is seen.
    observed, _ = made.observe(seed=seed, n=60)
    assert made.holds(observed, slack=1e-13)


@pytest.mark.parametrize(
    "formula", ["sin(3*x)", "abs(x) + x*y, exp(x + y) - 2", "max(2*x - y, 0)", "3, x", "x**3 - y**2"]
)
def test_a3_of_a_formula(formula: str) -> None:
    made = A3.build(formula=formula, low=-1.0, high=1.0, knots=12, heads=8)
    check(made, n=300)
    assert made.formula_error <= made.bound


def test_the_hidden_layer_of_a_formula_stays_within_its_own_error() -> None:
    expression = Expression("sin(2*x + y) + abs(x - 0.1) - x*y + 2")
    box = Box(x=(-1, 1), y=(-1, 1))
    layer = hidden_layer_of(expression, box, 16)
    points = np.random.default_rng(0).uniform(-1, 1, (20_000, 2))
    error = float(np.abs(layer(points) - expression(points)).max())
    assert layer.errors[0] / 20 < error <= layer.errors[0]


@pytest.mark.parametrize(
    ("formula", "limit"),
    [("sin(x)*y", 0.02), ("exp(x*y) - max(x, 0.5*y)", 0.3), ("sqrt(x + 1) + x*y*z/2, y", 0.4)],
)
def test_a3_of_terms_with_several_directions(formula: str, limit: float) -> None:
    made = A3.build(formula=formula, low=-1.0, high=1.0, heads=32)
    check(made, n=60)
    assert made.bound <= limit


@pytest.mark.parametrize(("low", "high"), [(-100.0, 70.0), (-1e-6, 1e-6)])
def test_the_ridges_of_a_product_stay_within_their_own_error(low: float, high: float) -> None:
    expression = Expression("x*y*sin(z/9) - y*z")
    box = Box(dict.fromkeys(expression.names, (low, high)))
    layer = hidden_layer_of(expression, box, 24)
    assert len(layer.t) <= 160
    points = np.random.default_rng(0).uniform(low, high, (20_000, 3))
    error = float(np.abs(layer(points) - expression(points)).max())
    assert layer.errors[0] / 60 < error <= layer.errors[0]


def test_a3_error_falls_with_heads_and_its_shape_is_the_theorems() -> None:
    heads = [4, 8, 16, 32]
    made = [A3.build(heads=h) for h in heads]
    errors = [check(each, n=100) for each in made]
    assert np.polyfit(np.log(heads), np.log(errors), 1)[0] == pytest.approx(-1.0, abs=0.15)
    assert {each.layers for each in made} == {2}
    assert [each.heads for each in made] == [h + 20 for h in heads]
    N, n, d, rows, H = 10, 20, 5, 8, 4
    first = d * rows * d + d * n * N + rows * N + H * (2 * 2 * rows + rows)
    second = N * (N + 1) + N**3 + (N + 1) * N + n * (2 * (N + 1) + d * (N + 1) + N * n)
    assert made[0].parameters == first + second


# ------------------------------------------------------------------------------------------------ A4


@pytest.mark.parametrize(
    "formula", ["sin(3*x)", "x*y", "abs(x) + y, x", "exp(x)*cos(2*y)", "cbrt(x), sign(x)*sqrt(abs(x))"]
)
@pytest.mark.parametrize("cells", [1, 3, 6])
def test_a4_over_a_grid_of_sizes(formula: str, cells: int) -> None:
    check(A4.build(formula=formula, cells=cells), n=150)


@given(
    st.lists(st.floats(-3, 3).map(lambda c: round(c, 3)), min_size=4, max_size=4),
    st.integers(1, 7),
    st.floats(0.1, 4.0),
    _EPS0,
)
@settings(max_examples=50)
def test_a4_random_formulas(c: list[float], cells: int, radius: float, eps0: float) -> None:
    formula = f"sin({c[0]!r}*x + {c[1]!r}) + ({c[2]!r})*x**2 + ({c[3]!r})*abs(x - 0.2)"
    check(A4.build(formula=formula, cells=cells, radius=radius, eps0=eps0), n=100)


def test_a4_has_one_layer_then_softmax() -> None:
    made = A4.build(cells=5)
    assert (made.layers, made.heads, made.network.layers) == (1, 1, 1)
    kinds = [entry["type"] for entry in made.network.describe()["stages"]]
    assert kinds == ["sum_of_linear", "attention", "sum_of_linear", "softmax", "linear"]
    p, N, rows = made.tokens, 5, 5
    assert made.parameters == rows + p + rows * p + 2 * 2 * rows + rows + p * N + 2 * N * N + N + N


def test_size_and_slope_are_upper_bounds() -> None:
    f = Expression("sin(3*x)*exp(y)")
    size, slope = size_and_slope(f, Box(x=(-1, 1), y=(-1, 1)))
    assert np.e <= size[0] <= 1.1 * np.e
    assert 3 * np.e <= slope <= 1.1 * 3 * np.e


# ------------------------------------------------------------------------------------------------ A5


@pytest.mark.parametrize("loss", ["squares", "logistic"])
@pytest.mark.parametrize(("points", "tokens", "dim", "steps"), [(6, 2, 1, 1), (30, 5, 2, 1), (60, 8, 3, 3)])
def test_a5_over_a_grid_of_sizes(loss: str, points: int, tokens: int, dim: int, steps: int) -> None:
    check(A5.build(loss=loss, points=points, tokens=tokens, dim=dim, steps=steps), n=60)


@given(
    st.sampled_from(["squares", "logistic"]),
    st.integers(1, 6),
    st.integers(1, 40),
    st.integers(1, 3),
    st.integers(1, 3),
    st.floats(0.01, 3.0),
    st.floats(0.1, 3.0),
    _EPS0,
)
@settings(max_examples=50)
def test_a5_random_instances(
    loss: str, tokens: int, more: int, dim: int, steps: int, eta: float, x_max: float, eps0: float
) -> None:
    points = max(6, tokens + more)
    made = A5.build(
        loss=loss, points=points, tokens=tokens, dim=dim, steps=steps, eta=eta, x_max=x_max, w_max=0.7, eps0=eps0
    )
    check(made, n=40)


def test_a5_keeps_the_data_and_its_error_falls_like_one_over_p() -> None:
    points = [50, 100, 200]
    made = [A5.build(points=p, tokens=6, dim=2) for p in points]
    bounds = [each.bound for each in made]
    assert np.polyfit(np.log(points), np.log(bounds), 1)[0] == pytest.approx(-1.0, abs=0.01)
    errors = [check(each, n=100) for each in made]
    assert errors[-1] < 0.5 * errors[0]
    Z = made[0].sample(np.random.default_rng(0), 4)
    out = made[0].network.evaluate(Z)
    np.testing.assert_array_equal(out[:, [0, 1, 2, 5]], Z[:, [0, 1, 2, 5]])
    assert np.ptp(out[:, 3:5], axis=2).max() <= 1e-12  # every token holds the same w
    assert (made[0].layers, made[0].heads) == (3, 6)


def test_gradient_descent_reaches_least_squares() -> None:
    rng = np.random.default_rng(0)
    Z = np.ones((8, 40))
    Z[:3] = rng.uniform(-1, 1, (3, 40))
    Z[3] = np.array([0.3, -0.7, 0.2]) @ Z[:3]
    Z[4:7] = 0.0
    np.testing.assert_allclose(descend("squares", Z, 3, 1.0, 400)[4:7, 0], [0.3, -0.7, 0.2], atol=1e-6)


# ------------------------------------------------------------------------------------------------ A6


@pytest.mark.parametrize("activation", _ACTIVATIONS)
@pytest.mark.parametrize(("points", "depth"), [(12, 1), (40, 1), (40, 3)])
def test_a6_over_a_grid_of_sizes(activation: str, points: int, depth: int) -> None:
    made = A6.build(activation=activation, points=points, depth=depth)
    check(made, n=100)
    heads = 2 if activation == "leaky_relu" else 1
    assert (made.layers, made.heads, made.tokens) == (depth, heads * depth, points)


@given(
    st.sampled_from(_ACTIVATIONS),
    st.integers(1, 6),
    st.integers(1, 30),
    st.integers(1, 3),
    st.floats(0.1, 5.0),
    st.floats(-0.5, 1.5),
    _EPS0,
    st.integers(0, 10**6),
)
@settings(max_examples=50)
def test_a6_random_networks(
    activation: str, width: int, more: int, depth: int, radius: float, slope: float, eps0: float, seed: int
) -> None:
    points = max(3, width + more)
    sizes = {"width": width, "points": points, "depth": depth, "radius": radius, "slope": slope, "eps0": eps0}
    check(A6.build(activation=activation, seed=seed, **sizes), seed=seed, n=60)


def test_a6_parameters() -> None:
    made = A6.build(points=20, width=4, depth=1, dim=3, outputs=2)
    rows = 5
    assert made.parameters == 3 * rows * 3 + 3 * 20 + rows * 20 + 2 * 2 * rows + rows + 20 * 4 + 1 + 4 * 2 + 2


# ------------------------------------------------------------------------------------------------ all


@pytest.mark.parametrize(
    ("theorem", "sizes", "tensor", "place"),
    [
        (A3, {"tokens": 3, "dim": 2, "heads": 4}, "stages.3.W_V", (0, 0, 10)),
        (A4, {"cells": 4}, "stages.4.M", (0, 2)),
        (A5, {"points": 20, "tokens": 4, "dim": 2}, "stages.5.R", (3, 1)),
        (A6, {"points": 20, "width": 4}, "stages.4.R", (0, 0)),
    ],
    ids=["A3", "A4", "A5", "A6"],
)
def test_one_value_off_by_twice_the_bound_is_caught(theorem, sizes: dict, tensor: str, place: tuple) -> None:
    made = theorem.build(**sizes)
    check(made)
    change(made, tensor, place, 2 * made.bound)
    is_caught(made)


def test_a5_too_few_points_for_many_steps_name_the_condition() -> None:
    with pytest.raises(InvalidInput, match="compact set"):
        find_theorem("A5").build(points=16, steps=20)
