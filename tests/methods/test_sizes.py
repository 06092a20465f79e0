"""Sizes that differ within one prompt, one batch or one column: digits beside 50-digit arithmetic, or a true reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

import softwright as sw
from softwright.errors import InvalidInput
from softwright.methods.reference import random_design


def _rows(seed: int, n: int = 50) -> tuple[np.random.Generator, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    return rng, x, x @ [0.5, 0.3, -0.4], rng.normal(size=(6, 3))


def _built(method: str, **options: Any) -> sw.Built:
    return sw.in_context(method, 3, sample=False, certify=False, **options)


_CURVES: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "gamma": (
        lambda s, y: y * mpmath.exp(-s) + s,
        lambda s, y: 1 - y * mpmath.exp(-s),
        lambda s, y: y * mpmath.exp(-s),
    ),
    "negative_binomial": (
        lambda s, y: (y + 1) * mpmath.log1p(mpmath.exp(s)) - y * s,
        lambda s, y: (y + 1) / (1 + mpmath.exp(-s)) - y,
        lambda s, y: (y + 1) / (2 + mpmath.exp(-s) + mpmath.exp(s)),
    ),
}


def _exact(method: str, x: np.ndarray, y: np.ndarray, queries: np.ndarray, penalty: float) -> np.ndarray:
    """Newton's method with halved steps in 50 digits, on columns about their means."""
    value, slope, curvature = _CURVES[method]
    with mpmath.workdps(50):
        mean = x.mean(axis=0)
        A = [[mpmath.mpf(v) - mpmath.mpf(m) for v, m in zip(row, mean, strict=True)] + [mpmath.mpf(1)] for row in x]
        ys, n, D = [mpmath.mpf(v) for v in y], len(y), x.shape[1] + 1
        penalties = [mpmath.mpf(penalty)] * (D - 1) + [mpmath.mpf(0)]
        w = [mpmath.mpf(0)] * (D - 1) + [mpmath.log(mpmath.fsum(ys) / n)]

        def fits(w: list[Any]) -> list[Any]:
            return [mpmath.fdot(row, w) for row in A]

        def loss(w: list[Any]) -> Any:
            return mpmath.fsum(map(value, fits(w), ys)) / n + mpmath.fdot(penalties, [v * v for v in w]) / 2

        for _ in range(60):
            s = fits(w)
            g, h = [slope(a, b) / n for a, b in zip(s, ys, strict=True)], list(map(curvature, s, ys))
            right = mpmath.matrix([mpmath.fdot(g, [r[p] for r in A]) + penalties[p] * w[p] for p in range(D)])
            H = mpmath.matrix(D, D)
            for p in range(D):
                for q in range(D):
                    H[p, q] = mpmath.fsum(c * r[p] * r[q] for c, r in zip(h, A, strict=True)) / n
                H[p, p] += penalties[p]
            step, size = mpmath.lu_solve(H, right), mpmath.mpf(1)
            before = loss(w)
            while loss([a - size * b for a, b in zip(w, step, strict=True)]) > before and size > 1e-9:
                size /= 2
            w = [a - size * b for a, b in zip(w, step, strict=True)]
            if max(map(abs, step)) < 1e-25:
                break
        else:
            raise AssertionError("the reference has not converged")
        asked = [[mpmath.mpf(v) - mpmath.mpf(m) for v, m in zip(q, mean, strict=True)] + [1] for q in queries]
        return np.array([float(mpmath.fdot(q, w)) for q in asked])


@pytest.mark.parametrize("sigma", [4.0, 6.0])
def test_heavy_tails_of_gamma_keep_their_digits(sigma: float) -> None:
    rng, x, s, queries = _rows(1)
    y = np.exp(s + sigma * rng.normal(size=50))
    assert y.max() / y.min() > 1e9
    exact = _exact("gamma", x, y, queries, 1e-3)
    assert np.abs(_built("gamma")(x=x, y=y, queries=queries) - exact).max() <= 1e-10 * np.abs(exact).max()


@pytest.mark.parametrize("count", [1e4, 1e6, 1e8])
def test_one_count_far_beyond_the_others(count: float) -> None:
    rng, x, s, queries = _rows(2)
    y = rng.poisson(np.exp(1 + s) * rng.gamma(2.0, 0.5, 50)).astype(float)
    y[5] = count
    exact = _exact("negative_binomial", x, y, queries, 1e-3)
    found = _built("negative_binomial")(x=x, y=y, queries=queries)
    assert np.abs(found - exact).max() <= 1e-7 * np.abs(exact).max()


def test_rates_whose_means_fall_short_are_refused_where_no_unit_helps() -> None:
    rng, x, s, queries = _rows(3)
    y = np.exp(s + rng.normal(size=50))
    for method, unit, end in (("gamma", 1e-20, "smallest"), ("poisson", 1e7, "largest")):
        stack = _built(method, steps=120, condition=1e5, penalty=0.0)
        with pytest.raises(InvalidInput, match=f"the {end} rates are so far from 1"):
            stack(x=x, y=y * unit, queries=queries, adapt=False)
        assert np.abs(
            stack(x=x, y=y * unit, queries=queries) - stack(x=x, y=y, queries=queries) - np.log(unit)
        ).max() < (1e-6 if method == "poisson" else 1e-9)


@pytest.mark.parametrize(
    ("method", "solver"),
    [("logistic", "newton"), ("logistic", "irls"), ("poisson", "newton"), ("poisson", "irls"), ("gamma", "newton")],
)
def test_coefficients_do_not_depend_on_what_is_answered(method: str, solver: str) -> None:
    rng, x, s, queries = _rows(4)
    y = (s + rng.normal(size=50) > 0) * 1.0 if method == "logistic" else np.round(np.exp(s + 1)) + 1.0
    linear, response = (_built(method, solver=solver, response=given) for given in (False, True))
    (w, b), (v, c) = linear.network.fitted(x, y), response.network.fitted(x, y)
    assert np.abs(w - v).max() <= 1e-12
    assert abs(b - c) <= 1e-12
    assert np.abs(linear(x=x, y=y, queries=queries) - queries @ v - c).max() <= 1e-8


def test_responses_have_no_ceiling_that_is_not_said() -> None:
    x = np.linspace(-5, 5, 40)[:, None]
    y = np.round(np.exp(2 * x[:, 0] + 5))
    for solver, inside, outside in (("newton", 150.0, 250.0), ("irls", 10.0, 30.0)):
        options: dict[str, Any] = {"solver": solver, "penalty": 0.0, "sample": False, "certify": False}
        linear, response = (sw.in_context("poisson", 1, response=given, **options) for given in (False, True))
        s = linear(x=x, y=y, queries=[[inside], [-inside / 5]])
        assert np.abs(response(x=x, y=y, queries=[[inside], [-inside / 5]]) / np.exp(s) - 1).max() <= 1e-7
        with pytest.raises(InvalidInput, match="ask with response=False"):
            response(x=x, y=y, queries=[[outside]])


def test_a_coefficient_that_the_penalty_leaves_no_digits_is_refused_and_predictions_are_not() -> None:
    rng, x, s, queries = _rows(5)
    y, units = rng.poisson(np.exp(1 + s)).astype(float), np.array([1e-8, 1.0, 1e3])
    built = _built("poisson")
    with pytest.raises(InvalidInput, match=r"column\(s\) 0 of x have a penalty"):
        built.network.fitted(x * units, y)
    without = sw.in_context("poisson", 2, sample=False, certify=False)
    found = built(x=x * units, y=y, queries=queries * units)
    expected = without(x=(x * units)[:, 1:], y=y, queries=(queries * units)[:, 1:])
    assert np.abs(found - expected).max() <= 1e-8


@pytest.mark.parametrize("method", ["lasso", "poisson", "gamma", "least_squares"])
def test_prompts_and_targets_of_different_size_are_answered_as_if_alone(method: str) -> None:
    rng, x, s, queries = _rows(6)
    options = {"condition": 20.0} if method == "lasso" else {}
    y = s + rng.normal(size=50) if method in ("lasso", "least_squares") else np.round(np.exp(s + 1)) + 1.0
    built, sizes = _built(method, **options), (1.0, 1e12)
    alone = [built(x=x, y=y * size, queries=queries) for size in sizes]
    fitted = [built.network.fitted(x, y * size) for size in sizes]
    both = np.stack([y * size for size in sizes])
    batch = built(x=np.stack([x, x]), y=both, queries=np.stack([queries, queries]))
    targets = built(x=x, y=both.T, queries=queries)
    w, b = built.network.fitted(x, both.T)
    for i in range(2):
        for found, exact in (
            (batch[i], alone[i]),
            (targets[:, i], alone[i]),
            (w[i], fitted[i][0]),
            (b[i], fitted[i][1]),
        ):
            assert np.abs(found - exact).max() <= 1e-9 * np.abs(exact).max()


def test_distances_of_a_batch_follow_each_prompt() -> None:
    rng, x, s, queries = _rows(7)
    y = s + rng.normal(size=50)
    for method in ("nearest_neighbours", "principal_components"):
        built = _built(method)
        batch = built(x=np.stack([x, 1e12 * x]), y=np.stack([y, y]), queries=np.stack([queries, 1e12 * queries]))
        assert np.array_equal(batch[0], built(x=x, y=y, queries=queries)), method
        assert np.array_equal(batch[1], built(x=1e12 * x, y=y, queries=1e12 * queries)), method


def test_a_prompt_that_has_settled_hides_none_that_has_not() -> None:
    from softwright.methods.guards import Guard

    guard = Guard("settled", 0, 1e-8, "moves", "s", "s", ("data",), (), reach=1)
    before = torch.tensor([[[1.0]], [[1e12]]], dtype=torch.float64)
    after = before + torch.tensor([[[1e-3]], [[0.0]]], dtype=torch.float64)
    with pytest.raises(InvalidInput, match="moves"):
        guard.look([{"data": before}, {"data": after}], {"s": (0, 1)})
    guard.look([{"data": after}, {"data": after}], {"s": (0, 1)})


def test_tensors_and_columns_of_objects_are_read() -> None:
    _, x, s, queries = _rows(8)
    x, queries = x.astype(np.float32), queries.astype(np.float32)
    y = np.round(4 * s)
    built = _built("least_squares")
    expected = built(x=x.astype(float), y=y, queries=queries.astype(float))
    parts = (torch.tensor(x, requires_grad=True), torch.tensor(y), torch.tensor(queries))
    for given in (parts, (x.astype(object), y.astype(object), queries.astype(object))):
        assert np.array_equal(built(x=given[0], y=given[1], queries=given[2]), expected)
        assert np.array_equal(built.network.fitted(*given[:2])[0], built.network.fitted(x.astype(float), y)[0])
    texts = x.astype(object)
    texts[3, 1] = "1.5"
    with pytest.raises(InvalidInput, match="x is not an array of numbers"):
        built(x=texts, y=y, queries=queries)


def test_weights_of_any_size() -> None:
    _, x, s, queries = _rows(9)
    weights = 1.0 + np.arange(50) % 3
    for method in ("gaussian_mixture", "least_squares"):
        x, y = random_design(method, 3, 50, 9)
        built = _built(method)
        expected = built(x=x, y=y, queries=queries, sample_weight=weights)
        for size in (1e-300, 1e200):
            found = built(x=x, y=y, queries=queries, sample_weight=weights * size)
            assert np.abs(found - expected).max() <= 1e-10, (method, size)
    built = _built("bayesian_ridge")
    with pytest.raises(InvalidInput, match="leave the variance no digits; give larger weights"):
        built(x=x, y=s, queries=queries, sample_weight=weights * 1e-15)


def test_an_empty_batch_has_no_answers() -> None:
    empty = np.zeros((0, 20, 3))
    assert _built("robust")(x=empty, y=empty[..., 0], queries=empty[:, :4]).shape == (0, 4)
