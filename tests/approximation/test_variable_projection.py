"""Variable projection: Kaufman's Jacobian gives the exact gradient of the reduced cost, and steps only go down."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softwright.approximation.fitting.families import chebyshev_points, uniform_axis
from softwright.approximation.fitting.lapack import qr_stack, solve_stack
from softwright.approximation.fitting.variable_projection import _Asked, _Reduced, optimise_axis, optimised_axes
from softwright.attention import Axis


def reduced(axis: Axis, *given: Any) -> _Reduced:
    return _Reduced(axis.keys[None], axis.biases[None], _Asked(*given))


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("strength", [1e-1, 1e-3])
@pytest.mark.parametrize("tokens", [2, 4])
def test_gradient_of_the_cost_against_finite_differences(affine: bool, strength: float, tokens: int) -> None:
    rng = np.random.default_rng(tokens)
    t = chebyshev_points(50)
    F = np.stack([np.sin(3 * t), np.exp(-2 * t**2)], axis=1)
    weights = rng.uniform(0.3, 1.5, len(t))
    k, b = 3 * rng.normal(size=tokens), rng.normal(size=tokens)

    def cost(keys: np.ndarray, biases: np.ndarray) -> float:
        return float(reduced(Axis(keys, biases), t, F, affine, strength, weights).cost[0])

    J, residual = reduced(Axis(k, b), t, F, affine, strength, weights).jacobian([0])
    gradient = 2 * np.einsum("qrj,qr->j", J[0], residual[0])
    h = 1e-5
    for j in range(tokens):
        e = np.eye(tokens)[j] * h
        by_key = (cost(k + e, b) - cost(k - e, b)) / (2 * h)
        by_bias = (cost(k, b + e) - cost(k, b - e)) / (2 * h)
        scale = np.abs(gradient).max() + 1e-9
        assert abs(gradient[j] - by_key) <= 1e-5 * scale
        assert abs(gradient[tokens + j] - by_bias) <= 1e-5 * scale


def test_cost_is_misfit_plus_penalty_at_the_minimum() -> None:
    t = chebyshev_points(30)
    F = np.sin(3 * t)[:, None]
    at = reduced(uniform_axis(4, 1.0, 0), t, F, False, 1e-2, np.ones(30))
    axis = uniform_axis(4, 1.0, 0)
    A = axis.weights(t)

    def cost(v: np.ndarray) -> float:
        return float(((A @ v - F) ** 2).mean() + 1e-4 * (v**2).sum())

    assert abs(cost(at.values[0]) - at.cost[0]) <= 1e-14
    for direction in np.random.default_rng(0).normal(size=(10, 4, 1)):
        assert cost(at.values[0] + 1e-3 * direction) > at.cost[0]


def test_a_logistic_curve_is_found_with_two_tokens() -> None:
    t = chebyshev_points(80)
    F = np.tanh(4 * t - 0.7)[:, None]
    found = optimise_axis(uniform_axis(2, 1.0, 0.0), t, F, affine=False, strength=1e-10, goal=1e-9, iterations=60)
    A = found.weights(t)
    assert np.abs(A @ np.linalg.lstsq(A, F, rcond=None)[0] - F).max() <= 1e-7


def test_the_cost_never_rises_and_runs_are_equal() -> None:
    t = chebyshev_points(80)
    F = np.abs(t)[:, None] ** 1.5
    start = uniform_axis(5, 0.9, 0.0)
    costs = []
    for iterations in (0, 1, 3, 10, 30):
        axis = optimise_axis(start, t, F, affine=True, strength=1e-5, goal=0.0, iterations=iterations)
        costs.append(float(reduced(axis, t, F, True, 1e-5, np.ones(80)).cost[0]))
        again = optimise_axis(start, t, F, affine=True, strength=1e-5, goal=0.0, iterations=iterations)
        assert np.array_equal(axis.keys, again.keys)
        assert np.array_equal(axis.biases, again.biases)
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < 0.1 * costs[0]


def test_a_met_goal_leaves_the_axis_alone() -> None:
    start = uniform_axis(3, 1.0, 0.0)
    t = chebyshev_points(30)
    same = optimise_axis(start, t, t[:, None], affine=True, strength=1e-9, goal=1.0)
    assert same is start


def test_point_weights_pull_the_fit() -> None:
    t = chebyshev_points(100)
    F = np.sin(6 * t)[:, None]
    heavy = np.where(t > 0, 30.0, 0.03)
    errors = []
    for weights in (np.ones(100), heavy):
        axis = optimise_axis(
            uniform_axis(3, 1.0, 0.0), t, F, affine=False, strength=1e-6, goal=0.0, point_weights=weights
        )
        fitted = reduced(axis, t, F, False, 1e-6, weights).fitted[0]
        errors.append(float(np.abs(fitted - F)[t > 0].max()))
    assert errors[1] < 0.5 * errors[0]


def _many(tokens: int = 4) -> list[Axis]:
    rng = np.random.default_rng(1)
    return [Axis(4 * rng.normal(size=tokens), rng.normal(size=tokens)) for _ in range(6)]


def test_starts_side_by_side_are_starts_alone() -> None:
    """A stack of starts takes the steps that each would take by itself, up to rounding."""
    t = chebyshev_points(60)
    F = np.sin(3 * t)[:, None]
    found = {i: misfit for i, _, misfit in optimised_axes(_many(), t, F, affine=True, strength=1e-4, goal=1e-3)}
    assert sorted(found) == list(range(6))
    for i, start in enumerate(_many()):
        axis = optimise_axis(start, t, F, affine=True, strength=1e-4, goal=1e-3)
        alone = float(np.sqrt(reduced(axis, t, F, True, 1e-4, np.ones(60)).cost[0]))
        assert abs(alone - found[i]) <= 1e-3 * max(alone, 1e-3)


def test_the_cheapest_starts_go_on() -> None:
    t = chebyshev_points(60)
    F = np.abs(t)[:, None]
    options = {"affine": False, "strength": 1e-6, "goal": 0.0, "iterations": 8}
    pruned = [i for i, _, _ in optimised_axes(_many(), t, F, pruning={3: 2}, **options)]
    shorter = {i: misfit for i, _, misfit in optimised_axes(_many(), t, F, **{**options, "iterations": 3})}
    assert set(pruned) <= set(sorted(shorter, key=lambda i: shorter[i])[:2])
    assert len(pruned) <= 2
    assert min(shorter, key=lambda i: shorter[i]) in pruned


def test_all_end_where_two_came_to_the_same_minimum() -> None:
    t = chebyshev_points(60)
    F = np.sin(3 * t)[:, None]
    options: dict[str, Any] = {"affine": True, "strength": 1e-4, "goal": 0.0}
    alone = [misfit for _, _, misfit in optimised_axes(_many(2), t, F, **options)]
    assert len(alone) == 6
    agreed = [misfit for _, _, misfit in optimised_axes(_many(2), t, F, pruning={99: 1}, **options)]
    assert 1 <= len(agreed) < 6
    assert min(agreed) <= 1.02 * min(alone)


def test_singular_and_infinite_numbers_end_a_start_quietly() -> None:
    t = chebyshev_points(40)
    F = np.sin(3 * t)[:, None]
    odd = [Axis(np.zeros(3), np.zeros(3)), Axis(np.array([1e200, -1e200, 0.0]), np.zeros(3)), uniform_axis(3, 1.0, 0.0)]
    found = {i: misfit for i, _, misfit in optimised_axes(odd, t, F, affine=False, strength=1e-12, goal=1e-9)}
    assert 2 in found and np.isfinite(found[2])


def test_stacks_of_matrices_have_the_bits_of_numpys_own_functions() -> None:
    rng = np.random.default_rng(3)
    A, M, right = rng.normal(size=(5, 70, 6)), rng.normal(size=(5, 6, 6)), rng.normal(size=(5, 6, 2))
    M[2] = 0.0
    for mine, numpys in zip(qr_stack(A), np.linalg.qr(A), strict=True):
        assert np.array_equal(mine, numpys)
    found = solve_stack(M, right)
    assert np.isnan(found[2]).all()  # singular, and no other is touched
    for i in (0, 1, 3, 4):
        assert np.array_equal(found[i], np.linalg.solve(M[i], right[i]))
