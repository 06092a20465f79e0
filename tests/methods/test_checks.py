"""What is asked outside the attention: whether an answer is a solution, and what is behind a refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import softwright as sw
from softwright.errors import InvalidInput
from softwright.methods.checks import stationary
from softwright.methods.methods import METHODS
from softwright.methods.reference import random_design, reference

SOLVED = [row.name for row in METHODS.values() if row.loss is not None]


def _stack(method: str, features: int = 3, **options: Any) -> sw.Built:
    return sw.in_context(method, features, sample=False, certify=False, **options)


def _refusal(built: sw.Built, x: np.ndarray, y: np.ndarray, **prompt: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        built(x=x, y=y, queries=x[:2], **prompt)
    return str(caught.value)


@pytest.mark.parametrize("method", SOLVED)
def test_a_coefficient_that_is_off_is_measured(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Coefficients moved by e of their size, and the predictions with them, are found to be off by about e."""
    options: dict[str, Any] = {"condition": 20.0} if method in ("lasso", "nonnegative_least_squares") else {}
    built = _stack(method, **options)
    x, y = random_design(method, 3, 50, 11)
    w, b = reference(x, y, built.network.constants)
    fit = stationary._Fit
    found = []
    monkeypatch.setattr(fit, "left", lambda self, *asked: found.append(self) or 0.0)
    built.network.fitted(x, y)
    (seen,) = found
    monkeypatch.undo()
    large = np.abs(seen.w[:3]).argmax()
    for e in (1e-4, 1e-3, 1e-2):
        moved = seen.w.copy()
        moved[large] *= 1.0 + e
        off = stationary.replace(seen, w=moved)
        assert off.left(x, None) == pytest.approx(e, rel=0.2)
    assert seen.left(x, None) < 1e-8
    assert np.isfinite(w).all()
    assert np.isfinite(b)


@pytest.mark.parametrize("method", ["logistic", "poisson", "robust"])
@pytest.mark.parametrize("closeness", [1e-2, 1e-3, 1e-5])
def test_tokens_that_drift_apart_from_their_coefficients_are_no_answer(method: str, closeness: float) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(60, 4))
        x[:, 3] = x[:, 0] - x[:, 1] + closeness * x[:, 3]
        s = x[:, 0] - 0.5 * x[:, 2]
        y = {
            "logistic": (s + rng.logistic(size=60) > 0) * 1.0,
            "poisson": rng.poisson(np.exp(1 + 0.5 * s)) * 1.0,
            "robust": s + rng.standard_cauchy(size=60),
        }[method]
        built = _stack(method, 4, solver="irls", penalty=0.0)
        try:
            w, _ = built.network.fitted(x, y)
        except InvalidInput:
            continue
        exact, _ = reference(x, y, built.network.constants)
        assert np.abs(w - exact).max() <= 1e-5 * np.abs(exact).max()


def test_separable_classes_and_rows_of_zeros_are_told_from_columns_that_nearly_depend() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(50, 3))
    s = x @ [1.0, -0.5, 0.3]
    for method in ("logistic", "probit"):
        assert "the classes are separable" in _refusal(_stack(method, penalty=0.0), x, (s > 0) * 1.0)
    several = _stack("multinomial", penalty=0.0)
    assert "the classes are separable" in _refusal(several, x, np.digitize(s, [-0.5, 0.5]) * 1.0)
    group = np.column_stack([x[:, 0], np.arange(50) < 20, x[:, 1]]).astype(float)
    zeros = rng.poisson(np.exp(1 + x[:, 0])) * (np.arange(50) >= 20.0)
    assert "some rows of count 0 differ" in _refusal(_stack("poisson", penalty=0.0), group, zeros)
    near = np.column_stack([x[:, 0], x[:, 0] + 1e-5 * x[:, 1], x[:, 2]])
    labels = (s + rng.logistic(size=50) > 0) * 1.0
    for method in ("logistic", "multinomial"):
        said = _refusal(
            _stack(method, penalty=0.0, **({"classes": 2} if method == "multinomial" else {})), near, labels
        )
        assert "nearly linearly dependent" in said
        assert "separable" not in said


def test_classes_that_no_plane_separates_keep_their_answer() -> None:
    x, y = random_design("multinomial", 3, 60, 3)
    built = _stack("multinomial", penalty=0.0)
    found = built(x=x, y=y, queries=x[:5])
    from softwright.methods.answers.multinomial import exact_multinomial

    assert np.abs(found - exact_multinomial(x, y, x[:5], built.network.constants)).max() <= 1e-7


def test_coefficients_beyond_floats_are_refused() -> None:
    x, y = random_design("least_squares", 3, 40, 5)
    built = _stack("least_squares")
    with pytest.raises(InvalidInput, match="larger than floats hold"):
        built.network.fitted(x * [1e-150, 1.0, 1.0], y * 1e200)


def test_rows_far_out_that_hardly_count_cost_no_digits_unsaid() -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(60, 3))
        x[5, 0] = 1e5
        y, weights = x @ [1.0, -0.5, 0.3] + rng.normal(size=60), 10 ** rng.uniform(-12, 0, 60)
        root = np.sqrt(weights / weights.sum())
        for method, penalty in (("ridge", 10.0), ("bayesian_ridge", 1e-3)):
            built = _stack(method, penalty=penalty, **({"intercept": False} if method == "ridge" else {}))
            try:
                found = built(x=x, y=y, queries=x[:4], sample_weight=weights)
            except InvalidInput:
                continue
            mean = root**2 @ x if method == "bayesian_ridge" else np.zeros(3)
            level = root**2 @ y if method == "bayesian_ridge" else 0.0
            rows = np.concatenate([root[:, None] * (x - mean), np.sqrt(penalty) * np.eye(3)])
            w = np.linalg.lstsq(rows, np.append(root * (y - level), np.zeros(3)), rcond=None)[0]
            exact = (x[:4] - mean) @ w + level
            said = found[:, 0] if method == "bayesian_ridge" else found
            assert np.abs(said - exact).max() <= 2e-8 * max(np.abs(exact).max(), np.abs(y).max() * 1e-2)


def test_a_tie_on_the_way_of_clusters_is_said() -> None:
    x = np.repeat(np.random.default_rng(2).normal(size=(8, 3)), 8, axis=0)
    start = np.full(64, -1.0)
    start[:2] = [0.0, 1.0]  # the same point twice
    assert "as near to one centre as to another" in _refusal(_stack("k_means", clusters=2), x, start)


def test_variances_of_a_filter_that_leave_no_digits_are_refused() -> None:
    times, y = np.arange(30.0)[:, None], np.random.default_rng(3).normal(size=30)
    for prior, answered in ((1e10, True), (1e300, False)):
        built = _stack("kalman", 1, prior=prior, persistence=0.5, process=0.0, noise=1e-5)
        if answered:
            assert np.isfinite(built(x=times, y=y, queries=times[:3])).all()
        else:
            assert "variances of times beside each other lose their digits" in _refusal(built, times, y)


def test_estimators_take_a_link_once_and_keep_columns_that_a_fit_without_a_constant_needs() -> None:
    pytest.importorskip("sklearn")
    from softwright.sklearn import InContextRegressor

    x, y = random_design("poisson", 3, 50, 13)
    plain = InContextRegressor("poisson").fit(x, y).predict(x[:4])
    asked = InContextRegressor("poisson", options={"response": True}).fit(x, y).predict(x[:4])
    assert np.abs(asked - plain).max() <= 1e-10
    wide = np.column_stack([x, np.full(50, 2.0)])
    without = InContextRegressor("ridge", penalty=0.1, intercept=False).fit(wide, y)
    exact = np.linalg.solve(wide.T @ wide / 50 + 0.1 * np.eye(4), wide.T @ y / 50)
    assert np.abs(without.coef_ - exact).max() <= 1e-10
    wrong: Any
    for wrong, said in (([1], "arguments by name"), ({"features": 2}, "cannot be given"), ({"steps": [1]}, "a number")):
        with pytest.raises(InvalidInput, match=said):
            InContextRegressor(options=wrong).fit(x, y)
    with pytest.raises(InvalidInput, match="no column varies"):
        InContextRegressor("multinomial").fit(np.ones((9, 2)), np.arange(9) % 3)


def test_columns_beside_the_time_may_lie_far_from_0() -> None:
    rng = np.random.default_rng(17)
    x = np.column_stack([np.arange(60.0), np.round(rng.normal(size=60) * 2.0**20) / 2.0**20])
    y = np.cumsum(rng.normal(size=60)) + x[:, 1]
    built = _stack("autoregression", 2)
    expected = built(x=x, y=y, queries=x[[5, 30, 59]])
    moved = x + np.array([0.0, 2.0**30])
    far = built(x=moved, y=y, queries=moved[[5, 30, 59]])
    assert np.abs(far - expected).max() <= 1e-10 * np.abs(expected).max()
