"""Structure is found where it is, and not where it is not."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwright.approximation.structure import (
    along_ridge,
    clique_functions,
    interaction_strengths,
    maximal_cliques,
    ridge_direction,
)
from tests.approximation.problems import black_box, formula_problem, unit_box


@pytest.mark.parametrize(
    ("text", "names", "direction"),
    [
        ("cos(6*x + 4*y)", "xy", [0.6, 0.4]),
        ("exp(-(x - y)**2)", "xy", [0.5, -0.5]),
        ("abs(x - 2*y)", "xy", [1 / 3, -2 / 3]),
        ("tanh(a + 0.5*b - 0.25*c)", "abc", [4 / 7, 2 / 7, -1 / 7]),
        ("sin(y)", "xy", [0.0, 1.0]),
        ("sin(pi*x + y)", "xy", [np.pi / (np.pi + 1), 1 / (np.pi + 1)]),
    ],
)
def test_ridge_directions(text: str, names: str, direction: list[float]) -> None:
    problem, _ = formula_problem(text, unit_box(*names), 1e-6)
    w = ridge_direction(problem)
    assert w is not None
    assert np.abs(w).sum() == pytest.approx(1, abs=1e-12)
    w = w * np.sign(w[np.abs(w).argmax()]) * np.sign(direction[int(np.abs(direction).argmax())])
    assert np.abs(w - direction).max() <= 1e-7
    line = along_ridge(problem, w)
    t = np.random.default_rng(0).uniform(-1, 1, (500, len(names)))
    assert np.abs(line.function((t @ w)[:, None]) - problem.function(t)).max() <= 1e-7


@pytest.mark.parametrize("text", ["x*y", "sin(x) + y**2", "cos(6*x + 4*y) + 1e-3*x*y", "1/(1 + x**2 + y**2)"])
def test_what_is_no_ridge(text: str) -> None:
    problem, _ = formula_problem(text, unit_box("x", "y"), 1e-6)
    assert ridge_direction(problem) is None


def test_a_ridge_carries_its_kinks_along() -> None:
    problem, _ = formula_problem("abs(x + 3*y - 1) + max(x + 3*y, 2)", unit_box("x", "y"), 1e-6)
    w = ridge_direction(problem)
    assert w is not None
    kinks = along_ridge(problem, w).kinks
    assert kinks is not None
    sign = np.sign(w[0])
    zeros = [0.25 * sign, 0.5 * sign]  # (x + 3 y)/4 = s
    for kink, zero in zip(kinks, zeros, strict=True):
        assert abs(kink(np.array([[zero]]))[0]) <= 1e-12


def friedman(t: np.ndarray) -> np.ndarray:
    return np.sin(np.pi * t[:, 0] * t[:, 1]) + t[:, 2] ** 2 + 0.5 * t[:, 3] + 0.2 * t[:, 4] + 3.0


def ishigami(t: np.ndarray) -> np.ndarray:
    x = np.pi * t
    return np.sin(x[:, 0]) + 7 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])


def chain(t: np.ndarray) -> np.ndarray:
    return np.sin(t[:, 0] * t[:, 1]) + np.exp(t[:, 1] * t[:, 2]) + t[:, 2] * t[:, 3] - 1.7


@pytest.mark.parametrize(
    ("function", "dim", "cliques"),
    [
        (friedman, 5, [(0, 1), (2,), (3,), (4,)]),
        (ishigami, 3, [(0, 2), (1,)]),
        (chain, 4, [(0, 1), (1, 2), (2, 3)]),
        (lambda t: t.prod(axis=1), 3, [(0, 1, 2)]),
    ],
)
def test_cliques_are_found_and_add_up(
    function: Callable[[np.ndarray], np.ndarray], dim: int, cliques: list[tuple[int, ...]]
) -> None:
    problem = black_box(function, dim, 1e-6)
    strengths = interaction_strengths(problem.function, dim)
    assert np.array_equal(strengths, strengths.T)
    found = maximal_cliques(strengths > 1e-9)
    assert found == cliques
    t = np.random.default_rng(0).uniform(-1, 1, (200, dim))
    total = sum(
        part.function(t[:, list(clique)]) for part, clique in zip(clique_functions(problem, found), found, strict=True)
    )
    assert np.abs(total - problem.function(t)).max() <= 1e-12 * (1 + np.abs(total).max())


@given(st.integers(1, 7), st.integers(0, 2**32 - 1), st.sampled_from([0.2, 0.5, 0.8]))
def test_maximal_cliques_against_brute_force(size: int, seed: int, density: float) -> None:
    upper = np.triu(np.random.default_rng(seed).uniform(size=(size, size)) < density, 1)
    adjacent = upper | upper.T
    complete = [
        set(subset)
        for r in range(1, size + 1)
        for subset in combinations(range(size), r)
        if all(adjacent[i, j] for i, j in combinations(subset, 2))
    ]
    maximal = {tuple(sorted(c)) for c in complete if not any(c < other for other in complete)}
    found = maximal_cliques(adjacent)
    assert set(found) == maximal
    assert len(found) == len(maximal)
