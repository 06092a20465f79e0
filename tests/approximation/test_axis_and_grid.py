"""The search along one axis, and grids of several: few tokens, honest errors, values of bounded size."""

from __future__ import annotations

import numpy as np
import pytest

from softwright.approximation.fitting.axis_search import AxisProblem, fit_uniform, search_optimised, search_uniform
from softwright.approximation.problem import (
    Budget,
    Fit,
    OutOfBudget,
    Problem,
    affine_fit,
    best_of,
    probe_points,
    scaling_of,
)
from softwright.approximation.strategies.grid import fit_grid
from softwright.approximation.strategies.line import fit_affine_line, fit_line, fit_spectral_line
from softwright.attention import evaluate
from tests.approximation.problems import black_box, formula_problem, unit_box


def waves(t: np.ndarray) -> np.ndarray:
    return np.stack([np.sin(3 * t), np.cos(3 * t)], axis=1)


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-7])
def test_uniform_search_is_locally_smallest(affine: bool, tolerance: float) -> None:
    problem = AxisProblem(waves, tolerance, 100.0)
    fit = search_uniform(problem, affine)
    assert fit.error <= tolerance
    assert fit.affine == affine
    assert fit_uniform(problem, fit.tokens - 1, affine).error > tolerance
    t = np.random.default_rng(0).uniform(-1, 1, 3000)
    weights = fit.axis.weights(t)
    columns = np.hstack([weights, weights * t[:, None]]) if affine else weights
    assert np.abs(columns @ fit.values - waves(t)).max() <= 1.02 * tolerance


def test_optimised_keys_need_fewer_tokens() -> None:
    problem = AxisProblem(waves, 1e-6, 1e4)
    uniform = search_uniform(problem, True)
    optimised = search_optimised(problem, True, uniform.tokens, 1e5)
    assert optimised is not None
    assert optimised.error <= 1e-6
    assert optimised.tokens < uniform.tokens
    assert search_optimised(problem, True, 2, 1e5) is None


def test_hopeless_targets_end_early() -> None:
    # |t|^(1/2) converges like N^(-1/2): the search must not run to its last token.
    calls: list[int] = []
    problem = AxisProblem(lambda t: np.sqrt(np.abs(t))[:, None], 1e-8, 100.0, lambda: calls.append(1))
    fit = search_uniform(problem, False, 400)
    assert fit.error > 1e-8
    assert len(calls) < 400


def test_spectral_values_stay_modest() -> None:
    problem, _ = formula_problem("sin(3*x)", unit_box("x"), 1e-6)
    (head,) = fit_spectral_line(problem).heads
    assert not head.affine
    assert np.abs(head.values).max() <= 110
    assert head.tokens <= 12


def test_affine_takes_fewer_tokens_than_spectral() -> None:
    problem, _ = formula_problem("sin(3*x)", unit_box("x"), 1e-6)
    assert fit_affine_line(problem).tokens < fit_spectral_line(problem).tokens


@pytest.mark.parametrize("text", ["sin(3*x)", "exp(x)", "1/(1+25*x**2)", "tanh(5*x)", "sin(x), cos(x)"])
def test_lines_meet_their_tolerance_at_unseen_points(text: str) -> None:
    problem, _ = formula_problem(text, unit_box("x"), 1e-6)
    fit = fit_line(problem)
    t = np.random.default_rng(5).uniform(-1, 1, (5000, 1))
    assert np.abs(evaluate(fit.in_unit_frame(), t) - problem.function(t)).max() <= 1e-6
    assert fit.tokens <= 8


def test_a_grid_is_a_grid_with_one_affine_axis_at_most() -> None:
    problem, _ = formula_problem("sin(3*x)*exp(-y**2)", unit_box("x", "y"), 1e-5)
    fit = fit_grid(problem)
    assert fit is not None
    (head,) = fit.heads
    assert head.structure == "grid"
    assert fit.error <= 1e-5
    if head.slopes is not None:
        assert np.any(head.slopes != 0, axis=(0, 1)).sum() == 1
    t = np.random.default_rng(5).uniform(-1, 1, (5000, 2))
    assert np.abs(head(t) - problem.function(t)).max() <= 1e-5


def test_a_grid_of_vector_values_shares_its_keys() -> None:
    problem = Problem(
        lambda t: np.stack([np.sin(t[:, 0] + t[:, 1] * t[:, 0]), np.cos(t[:, 1])], axis=1), 2, 2, 1e-4, budget=Budget()
    )
    fit = fit_grid(problem, optimise=False)
    assert fit is not None
    assert len(fit.heads) == 1
    assert fit.heads[0].outputs == 2
    assert fit.error <= 1e-4


def test_affine_targets_are_one_token() -> None:
    problem = black_box(lambda t: 2 - t[:, 0] + 3 * t[:, 1], 2, 1e-9)
    points = probe_points(2, 500, 0)
    fit = affine_fit(problem, points, problem.function(points))
    assert fit is not None
    assert fit.tokens == 1
    curved = black_box(lambda t: t[:, 0] ** 2, 1, 1e-9)
    assert affine_fit(curved, points[:, :1], curved.function(points[:, :1])) is None


def test_the_best_of_several_fits() -> None:
    problem = black_box(lambda t: t[:, 0], 1, 1e-9)
    points = probe_points(1, 50, 0)
    one = affine_fit(problem, points, problem.function(points))
    assert one is not None
    few, many, poor = Fit(one.heads, 1e-3, "a"), Fit(one.heads * 3, 1e-4, "b"), Fit(one.heads, 0.5, "c")
    assert best_of([many, None, few, poor], 1e-2) is few
    assert best_of([few, many, poor], 1e-6) is many
    assert few.because("first").reasons == ("first",)


def test_scaling_is_midrange_and_half_range() -> None:
    scaling = scaling_of(np.array([[0.0, 5.0], [4.0, 5.0]]))
    assert scaling.middle.tolist() == [2.0, 5.0]
    assert scaling.scale == 2.0
    assert scaling_of(np.full((3, 1), 7.0)).scale > 0  # constants divide by no zero


def test_values_are_capped_by_the_dtype() -> None:
    problem = black_box(lambda t: t[:, 0], 1, 1e-6)
    assert problem.value_cap(1.0) == 1e4
    single = Problem(problem.function, 1, 1, 1e-6, "float32")
    assert single.value_cap(1.0) < 10.0


def test_time_runs_out_with_a_signal() -> None:
    with pytest.raises(OutOfBudget):
        Budget(max_seconds=-1.0).check()
