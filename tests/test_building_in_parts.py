"""Fits and stacks that would exceed the limit of memory run in parts, and find what they would find at once."""

from __future__ import annotations

import numpy as np
import pytest

import softwright as sw
from softwright import chunks
from softwright.approximation.fitting.families import uniform_axis
from softwright.approximation.fitting.least_squares import ridge_solve
from softwright.approximation.fitting.tall import is_held, largest_miss, solved
from softwright.approximation.problem import Problem
from softwright.approximation.strategies.table import fit_table
from softwright.attention.head import evaluate

AXIS = uniform_axis(30, 1.3, 1.0)


@pytest.mark.parametrize("strength", [1e-3, 1e-8, 1e-12])
def test_a_tall_matrix_has_the_same_least_squares(strength: float, monkeypatch: pytest.MonkeyPatch) -> None:
    t = np.sort(np.random.default_rng(0).uniform(-1, 1, 2000))
    F = np.stack([np.sin(9 * t), np.exp(t)], axis=1)
    whole = ridge_solve(AXIS.weights(t), F, strength)
    assert np.array_equal(solved(AXIS.weights, t, F, AXIS.tokens, strength), whole)
    monkeypatch.setattr(chunks, "MOST_BYTES", 1 << 19)
    assert not is_held(len(t), AXIS.tokens)
    in_parts = solved(AXIS.weights, t, F, AXIS.tokens, strength)
    assert np.abs(in_parts - whole).max() <= 1e-9 * np.abs(whole).max()
    assert largest_miss(AXIS.weights, t, F, in_parts) == pytest.approx(np.abs(AXIS.weights(t) @ whole - F).max())


@pytest.mark.parametrize("shape", [(900,), (700, 3)])
def test_long_tables_are_met(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = np.meshgrid(*[np.linspace(-1, 1, n) for n in shape], indexing="ij")
    points = np.stack([part.ravel() for part in mesh], axis=1)
    table = sw.Table(points, np.sin(5 * points[:, 0]) * np.exp(points.sum(axis=1)))
    monkeypatch.setattr(chunks, "MOST_BYTES", 1 << 17)
    fit = fit_table(Problem(table, points.shape[1], 1, 1e-4), table, table.box)
    assert fit.error <= 1e-4
    seen = np.abs(evaluate(fit.heads, points) - table.values).max()
    assert seen == pytest.approx(fit.error, rel=1e-6, abs=1e-10)


def test_formulas_have_the_same_values_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    formula = sw.Expression("sin(3*x)*exp(-y**2) + x*y", names=("x", "y"))
    points = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    whole = formula(points)
    monkeypatch.setattr(chunks, "MOST_BYTES", 1 << 12)
    assert np.array_equal(formula(points), whole)


def test_prompts_and_their_rows_go_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    built = sw.in_context("ridge", features=2, penalty=0.1, certify=False)
    x, queries = rng.normal(size=(7, 20, 2)), rng.normal(size=(7, 9, 2))
    y = x @ [1.0, -2.0]
    whole, fitted = built(x=x, y=y, queries=queries), built.network.fitted(x, y)
    for limit in (1 << 20, 1 << 14):  # some prompts at a time, then some rows of one prompt
        monkeypatch.setattr(chunks, "MOST_BYTES", limit)
        np.testing.assert_allclose(built(x=x, y=y, queries=queries), whole, rtol=1e-9, atol=1e-9)
        for part, at_once in zip(built.network.fitted(x, y), fitted, strict=True):
            np.testing.assert_allclose(part, at_once, rtol=1e-9, atol=1e-9)
