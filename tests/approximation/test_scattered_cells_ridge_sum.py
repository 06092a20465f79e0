"""The strategies for tables and moderate dimension, and the papers' baseline."""

from __future__ import annotations

import numpy as np
import pytest

from softwright.approximation.problem import Budget
from softwright.approximation.strategies.cells import cell_head, fit_cells
from softwright.approximation.strategies.ridge import fit_ridge_sum
from softwright.approximation.strategies.scattered import farthest_points, fit_points, fit_scattered
from softwright.attention import evaluate
from tests.approximation.problems import black_box


def bump(t: np.ndarray) -> np.ndarray:
    return np.exp(-(t**2).sum(axis=1))


def test_farthest_points_cover_evenly() -> None:
    grid = np.stack([g.ravel() for g in np.meshgrid(*[np.linspace(-1, 1, 9)] * 2)], axis=1)
    chosen = farthest_points(grid, 9)
    assert len(set(chosen.tolist())) == 9
    assert np.array_equal(chosen[:5], farthest_points(grid, 5))  # a fixed order: more tokens keep the former centres
    gaps = np.sqrt(((grid[:, None] - grid[chosen][None]) ** 2).sum(axis=2)).min(axis=1)
    assert gaps.max() <= 0.75
    assert len(farthest_points(np.zeros((5, 2)), 3)) == 1  # repeated points count once


def test_scattered_tokens_for_a_function() -> None:
    fit = fit_scattered(black_box(bump, 3, 1e-3), samples=1500)
    assert fit.error <= 1e-3
    t = np.random.default_rng(9).uniform(-1, 1, (3000, 3))
    assert np.abs(evaluate(fit.in_unit_frame(), t)[:, 0] - bump(t)).max() <= 1.5e-3


def test_scattered_tokens_stop_at_the_budget() -> None:
    problem = black_box(lambda t: np.sign(t[:, 0]), 2, 1e-9)
    problem.budget.max_tokens = 12
    fit = fit_scattered(problem, samples=300)
    assert fit.error > 1e-9
    assert fit.tokens <= 12


def test_scattered_values_at_given_points() -> None:
    rng = np.random.default_rng(4)
    points = rng.uniform(-1, 1, (120, 2))
    fit = fit_points(points, bump(points)[:, None], black_box(bump, 2, 1e-5))
    assert fit.error <= 1e-5
    assert np.abs(evaluate(fit.in_unit_frame(), points)[:, 0] - bump(points)).max() <= 1e-5
    assert fit.tokens < 120


@pytest.mark.parametrize(("dim", "cells"), [(1, 40), (2, 20)])
def test_cells_converge_with_first_order(dim: int, cells: int) -> None:
    # Odd multiples keep the points of largest error comparable: the error is the slope times half a cell.
    problem = black_box(lambda t: np.sin(3 * t[:, 0]) + (t[:, -1] if dim > 1 else 0.0), dim, 1e-12)
    t = np.random.default_rng(0).uniform(-1, 1, (20_000, dim))
    errors = []
    for n in (cells, 2 * cells, 4 * cells):
        head = cell_head(problem, n)
        assert head.tokens == n**dim
        errors.append(float(np.abs(head(t) - problem.function(t)).max()))
    rates = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    assert np.all(np.abs(rates - 1) <= 0.1)


@pytest.mark.parametrize("dim", [1, 2])
def test_cells_keep_the_papers_bound(dim: int) -> None:
    problem = black_box(lambda t: np.sin(3 * t).sum(axis=1), dim, 1e-2)
    t = np.random.default_rng(0).uniform(-1, 1, (5000, dim))
    for cells in (3, 8, 21):
        h = 2 / cells
        # omega(h sqrt d) with the Lipschitz constant 3 sqrt d, plus a tenth of the tolerance for the soft walls
        bound = 3 * np.sqrt(dim) * h * np.sqrt(dim) + 0.1 * problem.tolerance
        assert np.abs(cell_head(problem, cells)(t) - problem.function(t)).max() <= bound


def test_cells_need_about_one_over_the_tolerance() -> None:
    fit = fit_cells(black_box(lambda t: np.sin(3 * t[:, 0]), 1, 1e-2))
    assert fit.error <= 1e-2
    assert 100 <= fit.tokens <= 700


def test_cells_stop_at_the_budget() -> None:
    problem = black_box(bump, 2, 1e-9)
    problem.budget.max_tokens = 400
    fit = fit_cells(problem)
    assert fit.tokens <= 400
    assert fit.error > 1e-9


def test_two_ridge_functions_are_found() -> None:
    def target(t: np.ndarray) -> np.ndarray:
        return np.sin(t @ [1.0, 0.5, -0.2]) + np.exp(0.5 * (t @ [0.3, -0.8, 0.6]))

    problem = black_box(target, 3, 1e-3)
    fit = fit_ridge_sum(problem)
    assert fit is not None
    assert fit.error <= 1e-3
    assert len(fit.heads) <= 8
    t = np.random.default_rng(8).uniform(-1, 1, (3000, 3))
    assert np.abs(evaluate(fit.in_unit_frame(), t)[:, 0] - target(t)).max() <= 1.2e-3
    again = fit_ridge_sum(black_box(target, 3, 1e-3))
    assert again is not None
    assert all(np.array_equal(a.keys, b.keys) for a, b in zip(fit.heads, again.heads, strict=True))


def test_budget_defaults() -> None:
    messages: list[str] = []
    budget = Budget(report=messages.append)
    budget.check()
    budget.say("working")
    assert messages == ["working"]
