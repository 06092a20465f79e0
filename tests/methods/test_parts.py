"""The primitives of stacks in context: bilinear heads, links, gates, cells and the scaling made of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import softwright as sw
from softwright.attention.richardson import richardson
from softwright.attention.stack import HeadWeights
from softwright.methods.bilinear import ORDERS, bilinear_heads
from softwright.methods.chebyshev import chebyshev_steps, leja
from softwright.methods.links import (
    EXP,
    SIGMOID,
    TANH,
    cell_edges,
    cell_scores,
    log_logistic_curvature,
    log_tanh_ratio,
    soft_cell_rows,
)
from softwright.methods.reference import random_design, reference


def _run(heads: list[HeadWeights], rows: np.ndarray, keys: np.ndarray) -> np.ndarray:
    out = np.zeros_like(rows)
    for head in heads:
        scores = (rows @ head.Wq) @ (keys @ head.Wk).T
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        out += (weights / weights.sum(axis=1, keepdims=True)) @ (keys @ head.Wv) @ head.Wo
    return out


def _link(rows: list[tuple[float, float, float]], s: np.ndarray) -> np.ndarray:
    slope, bias, value = np.array(rows).T
    scores = s[:, None] * slope + bias
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights @ value / weights.sum(axis=1)


@pytest.mark.parametrize("order", ORDERS)
def test_richardson_weights_satisfy_their_equations_exactly(order: int) -> None:
    c = richardson(order)
    for q in range(order):
        total = sum((weight * Fraction(h) ** (2 * q + 1) for h, weight in enumerate(c, 1)), start=Fraction(0))
        assert total == (1 if q == 0 else 0)


@given(st.integers(0, 10_000), st.sampled_from(ORDERS))
@settings(max_examples=40, deadline=None)
def test_bilinear_heads_keep_their_truncation_bound(seed: int, order: int) -> None:
    rng = np.random.default_rng(seed)
    n, angle = int(rng.integers(2, 30)), 0.15
    t = rng.choice([-1.0, 1.0], n) if seed % 3 == 0 else rng.uniform(-1, 1, n)
    v = t.copy() if seed % 5 == 0 else rng.uniform(-1, 1, n)
    keys = np.stack([t, v, np.zeros(n)], axis=1)
    rows = np.array([[1.0, 0.0, 0.0]])
    e = np.eye(3)
    heads = bilinear_heads(e[:, :1], e[:, :1], e[:, 1], e[2], reach=1.0, order=order, angle=angle)
    found = _run(heads, rows, keys)[0, 2]
    R = 1.2
    c = [float(weight) for weight in richardson(order)]
    bound = sum(
        angle ** (m - 1) * abs(sum(weight * h**m for h, weight in enumerate(c, 1))) / (R**m * math.cos(R))
        for m in range(2 * order + 1, 2 * order + 41, 2)
    )
    assert abs(found - np.mean((t - t.mean()) * v)) <= bound + 1e-12 / angle


def test_exact_links() -> None:
    s = np.linspace(-30, 30, 2001)
    assert np.abs(_link(SIGMOID.tokens(0.0, 0.0), s) - 1 / (1 + np.exp(-s))).max() <= 3e-16
    assert np.abs(_link(TANH.tokens(0.0, 0.0), s) - np.tanh(s)).max() <= 3e-16
    assert np.abs(_link(EXP.tokens(48.0, math.exp(48.0)), s[s < 10]) / np.exp(s[s < 10]) - 1).max() <= 2e-14


@pytest.mark.parametrize(("function", "limit"), [(log_logistic_curvature, 1e-4), (log_tanh_ratio, 2e-3)])
def test_soft_cells_of_log_weights(function: Callable[[np.ndarray], np.ndarray], limit: float) -> None:
    s = np.linspace(-40, 40, 5001)
    assert np.abs(_link(soft_cell_rows(function), s) - function(s)).max() <= limit
    assert np.isfinite(_link(soft_cell_rows(function), np.array([-1e4, 1e4]))).all()


@given(st.floats(1e-8, 1e8))
@settings(max_examples=60, deadline=None)
def test_cells_pick_a_scale_within_their_width(value: float) -> None:
    edges = cell_edges(-30, 30, 1)
    slopes, offsets = cell_scores(edges)
    scale = _link(list(zip(slopes, offsets, edges[1:], strict=True)), np.array([value]))[0]
    assert 0.4 * scale <= value <= 1.1 * scale


def test_leja_order_takes_every_root_once_and_the_steps_contract() -> None:
    steps = np.array(chebyshev_steps(0.01, 4.0, 40))
    assert np.allclose(np.sort(leja(1 / steps)), np.sort(1 / steps))
    eigenvalues = np.linspace(0.01, 4.0, 500)
    left = np.abs(np.prod(1 - np.outer(steps, eigenvalues), axis=0)).max()
    assert left <= 2.1 * math.exp(-2 * 40 * math.sqrt(0.01 / 4.0))


@given(st.integers(0, 10_000), st.booleans(), st.booleans())
@settings(max_examples=12, deadline=None)
def test_scales_of_features_do_not_matter(seed: int, intercept: bool, penalised: bool) -> None:
    """Units from 1e-4 to 1e4 and means far from 0: the answers are those of the exact solution, without rebuilding."""
    rng = np.random.default_rng(seed)
    method = "ridge" if penalised else "least_squares"
    built = _stack(method, intercept)
    x, y = random_design(method, 4, 66, seed)
    x = (x + rng.normal(size=4)) * 10.0 ** rng.uniform(-4, 4, 4)
    y = y * 10.0 ** rng.uniform(-3, 3)
    w, b = reference(x[:60], y[:60], built.network.constants)
    found, constant = built.network.fitted(x[:60], y[:60])
    size = np.abs(y).max()
    assert np.abs(built(x=x[:60], y=y[:60], queries=x[60:]) - (x[60:] @ w + b)).max() <= 1e-9 * size
    assert np.abs((found - w) * x.std(axis=0)).max() <= 1e-9 * size
    assert abs(constant - b) <= 1e-8 * size


@cache
def _stack(method: str, intercept: bool) -> sw.Built[Any]:
    return sw.in_context(method, 4, intercept=intercept, sample=False, certify=False)


def test_sample_weights_stand_for_repeated_rows() -> None:
    rng = np.random.default_rng(3)
    for method in ("least_squares", "logistic", "lasso"):
        steps = 150 if method == "lasso" else None
        built = sw.in_context(method, 3, steps=steps, sample=False, certify=False)
        x, y = random_design(method, 3, 50, 5)
        counts = rng.integers(0, 4, 40)
        repeated = np.repeat(np.arange(40), counts)
        weighted = built(x=x[:40], y=y[:40], queries=x[40:], sample_weight=counts.astype(float))
        plain = built(x=x[repeated], y=y[repeated], queries=x[40:])
        assert np.abs(weighted - plain).max() <= 1e-9, method


def test_the_lasso_has_exact_zeros_and_meets_its_conditions() -> None:
    built = sw.in_context("lasso", 6, penalty=0.2, condition=20.0, sample=False)
    x, y = random_design("lasso", 6, 80, 8)
    w, b = built.network.fitted(x, y)
    gradient = x.T @ (x @ w + b - y) / len(y)
    assert 0 < (w == 0).sum() < 6
    assert np.abs(gradient[w != 0] + 0.2 * np.sign(w[w != 0])).max() <= 1e-10
    assert np.abs(gradient[w == 0]).max() <= 0.2 + 1e-10


def test_nonnegative_coefficients() -> None:
    built = sw.in_context("nonnegative_least_squares", 5, condition=20.0, sample=False)
    x, y = random_design("nonnegative_least_squares", 5, 60, 9)
    w, _ = built.network.fitted(x, y)
    exact, _ = reference(x, y, built.network.constants)
    assert (w >= 0).all() and (w == 0).any()
    assert np.abs(w - exact).max() <= 1e-10
