"""A1 and A2: clipped numbers by interpolation heads. Bounds, mutations, rates, sizes, conditions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwright.theorems import find_theorem
from softwright.theorems.tools.interpolation import Points, evaluate_line
from tests.theorems.theorem_checks import change, check, is_caught

A1, A2 = find_theorem("A1"), find_theorem("A2")
_ENDS = st.tuples(st.floats(-50, 50), st.floats(0.01, 60)).map(lambda pair: (pair[0], pair[0] + pair[1]))
_EPS0 = st.sampled_from([0.5, 0.1, 1e-3, 1e-6, 1e-9])


@pytest.mark.parametrize("points", [3, 4, 5, 8, 20, 120])
@pytest.mark.parametrize("eps0", [0.5, 1e-2, 1e-8])
@pytest.mark.parametrize(("a", "b"), [(-1.0, 1.0), (0.0, 50.0), (-3.0, -2.5)])
def test_a1_over_a_grid_of_sizes(points: int, eps0: float, a: float, b: float) -> None:
    check(A1.build(points=points, tokens=2, dim=3, a=a, b=b, eps0=eps0))


@given(st.integers(1, 12), st.integers(1, 30), st.integers(1, 5), _ENDS, _EPS0, st.integers(0, 10**6))
@settings(max_examples=50)
def test_a1_random_instances(tokens: int, more: int, dim: int, ends: tuple, eps0: float, seed: int) -> None:
    points = max(3, tokens + more)
    made = A1.build(points=points, tokens=tokens, dim=dim, a=ends[0], b=ends[1], eps0=eps0, seed=seed)
    check(made, seed=seed, n=60)


@pytest.mark.parametrize("heads", [1, 2, 5, 16])
@pytest.mark.parametrize("tokens", [3, 4, 12])
@pytest.mark.parametrize(("a", "b", "eps0"), [(-1.0, 1.0, 0.5), (0.0, 50.0, 1e-6), (1000.0, 1001.0, 1e-3)])
def test_a2_over_a_grid_of_sizes(heads: int, tokens: int, a: float, b: float, eps0: float) -> None:
    check(A2.build(heads=heads, tokens=tokens, dim=3, a=a, b=b, eps0=eps0))


@given(st.integers(3, 12), st.integers(1, 12), st.integers(1, 5), _ENDS, _EPS0, st.integers(0, 10**6))
@settings(max_examples=50)
def test_a2_random_instances(tokens: int, heads: int, dim: int, ends: tuple, eps0: float, seed: int) -> None:
    made = A2.build(heads=heads, tokens=tokens, dim=dim, a=ends[0], b=ends[1], eps0=eps0, seed=seed)
    check(made, seed=seed, n=60)


@pytest.mark.parametrize("points", [3, 4, 5, 17])
@pytest.mark.parametrize("eps0", [0.5, 0.1, 1e-5])
def test_the_mean_distance_of_the_derivation(points: int, eps0: float) -> None:
    # The docstring's claim, on a fine line: sum_k w_k |L_k - clip(s)| stays below the three cases of the proof.
    grid = Points(-1.0, 2.0, points, eps0)
    s = np.linspace(-8.0, 9.0, 4001)
    target = np.clip(s, -1.0, 2.0)
    far = np.array(
        [
            evaluate_line(grid.ramp, grid.bias, np.abs(grid.levels - y), np.array([x]))[0]
            for x, y in zip(s, target, strict=True)
        ]
    )
    assert far.max() <= grid.bound()
    if grid.q <= 1 / 8:
        assert far.max() <= grid.distance()
        inside = (s >= -1.0) & (s <= grid.levels[-1])
        assert far[inside].max() <= grid.step * (0.5 + 3.1 * grid.q)


@pytest.mark.parametrize("theorem", [A1, A2])
def test_rounding_is_small_and_given_up_where_scores_are_too_large(theorem) -> None:
    made = theorem.build()
    assert made.rounding is not None
    assert 1e-16 < made.rounding < 1e-3 * made.bound
    assert "entries up to 100" in made.statement
    steep = theorem.build(a=0.0, b=1e-12)
    assert steep.rounding is None
    assert "every input X" in steep.statement


@pytest.mark.parametrize("label", ["A1", "A2"])
def test_one_value_off_by_twice_the_bound_is_caught(label: str) -> None:
    if label == "A1":
        made = A1.build(points=8, tokens=4, dim=2)
        change(made, "stages.0.R", (2 * 2 + 2, 7), 2 * made.bound)  # the value of the last point
    else:
        made = A2.build(heads=3, tokens=6, dim=2)
        inner = 2 + 3
        change(made, "stages.1.W_V", (1, 0, inner), 2 * made.bound)  # the values of the second head
    is_caught(made)


def test_rates_in_points_and_in_heads() -> None:
    points = [60, 75, 90, 105, 120]
    errors = [check(A1.build(points=p), n=60) for p in points]
    assert np.polyfit(np.log(points), np.log(errors), 1)[0] == pytest.approx(-1.0, abs=0.1)
    heads = [1, 2, 4, 8, 16]
    errors = [check(A2.build(heads=h), n=60) for h in heads]
    assert np.polyfit(np.log(heads), np.log(errors), 1)[0] == pytest.approx(-1.0, abs=0.1)


def test_a1_at_the_papers_size_is_sharp() -> None:
    made = A1.build(points=60, tokens=50, dim=10, a=-25.0, b=25.0, eps0=1e-6)
    assert made.bound == pytest.approx(25e-6 + 50 / 60, rel=1e-12)
    assert made.quantities["beta"] == pytest.approx(np.log(58e6) * 60 / 50, rel=1e-9)
    observed = check(made)
    assert observed >= made.bound / 3


def test_layers_heads_tokens_and_parameters() -> None:
    n, d, p, o = 4, 3, 9, 2
    made = A1.build(points=p, tokens=n, dim=d, outputs=o, coordinate=1)
    rows = 2 * d + o + 2
    assert (made.layers, made.heads, made.tokens) == (1, 1, p)
    assert made.network.layers == 1
    assert made.network.stages[0].R.shape == (rows, p)
    assert made.parameters == n * rows * d + n * n * p + rows * p + 2 * (d + 1) * rows + o * rows + p * n
    out = made.network.evaluate(made.sample(np.random.default_rng(0), 3))
    assert out.shape == (3, o, n)
    assert np.all(out[:, 0] == 0)  # nothing is written to other coordinates
    H = 5
    made = A2.build(heads=H, tokens=n, dim=d, outputs=o)
    rows = d + 7
    assert (made.layers, made.heads, made.tokens) == (1, H, n)
    assert made.network.stages[0].R.shape == (rows, n)  # no extra tokens
    assert made.parameters == n * rows * d + n**3 + rows * n + H * (2 * (d + 1) * rows + o * rows)


def test_given_weights_are_used() -> None:
    w, t = np.array([[2.0], [-1.0]]), np.array([0.5, 0.0])
    made = A1.build(points=400, tokens=2, dim=1, a=-10.0, b=10.0, weights=w, offsets=t)
    X = np.array([[1.25, 3.0]])
    np.testing.assert_allclose(made.network.evaluate(X), [[3.0, -3.0]], atol=made.bound)
