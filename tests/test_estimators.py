"""Estimators that build a network of the data: scikit-learn's own contract, noise, weights, several outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import estimator_checks_generator

from softwright.attention import AttentionNetwork
from softwright.sklearn import AttentionClassifier, AttentionRegressor


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [AttentionRegressor, AttentionClassifier])
def test_scikit_learn_finds_nothing_wrong(kind: type[AttentionRegressor | AttentionClassifier]) -> None:
    checks: Any = estimator_checks_generator(kind(max_tokens=6))
    for estimator, check in checks:
        try:
            check(estimator)
        except pytest.skip.Exception:
            continue
        except Exception as error:
            if type(error).__name__ != "SkipTest":
                raise


def waves(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, (count, 1))
    truth = np.sin(6 * x[:, 0])
    return x, truth, truth + 0.1 * rng.normal(size=count)


def test_noise_is_not_repeated_and_its_size_is_reported() -> None:
    x, _, y = waves(300, 1)
    model = AttentionRegressor().fit(x, y)
    fresh, truth, _ = waves(2000, 2)
    assert isinstance(model.network_, AttentionNetwork) and model.network_.tokens <= 30
    assert np.sqrt(np.mean((model.predict(fresh) - truth) ** 2)) <= 0.05
    assert 0.09 <= model.rms_[0] <= 0.12 and 0.9 <= model.coverage_ <= 0.99
    told = AttentionRegressor(noise=0.1).fit(x, y)
    assert isinstance(told.network_, AttentionNetwork) and told.network_.tokens <= model.network_.tokens


def test_a_linear_law_stays_linear_and_outputs_are_fitted_together() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(120, 3))
    y = np.stack([x @ [1.0, -2.0, 0.5], np.full(120, 3.0)], axis=1)
    model = AttentionRegressor().fit(x, y)
    assert np.abs(model.predict(x) - y).max() <= 1e-3
    one = AttentionRegressor().fit(x, y[:, 0])
    assert one.predict(x).shape == (120,)


def test_a_weight_is_a_number_of_rows() -> None:
    x, _, y = waves(60, 4)
    weights = np.random.default_rng(5).integers(0, 4, 60)
    weighted = AttentionRegressor().fit(x, y, sample_weight=weights)
    repeated = AttentionRegressor().fit(np.repeat(x, weights, axis=0), np.repeat(y, weights))
    assert np.abs(weighted.predict(x) - repeated.predict(x)).max() <= 1e-7


def test_measured_data_and_grid_search() -> None:
    data: Any = load_diabetes(return_X_y=True)
    x, y = data
    ours = cross_val_score(AttentionRegressor(max_tokens=20), x, y, cv=3)
    linear = cross_val_score(LinearRegression(), x, y, cv=3)
    assert ours.mean() >= linear.mean() - 0.02
    search = GridSearchCV(AttentionRegressor(), {"max_tokens": [2, 12]}, cv=3).fit(x[:, :3], y)
    assert search.predict(x[:9, :3]).shape == (9,)


def test_classes_and_shares() -> None:
    data: Any = load_iris(return_X_y=True)
    x, y = data
    assert cross_val_score(AttentionClassifier(max_tokens=20), x, y, cv=3).mean() >= 0.93
    model = AttentionClassifier(max_tokens=20).fit(x, y)
    shares = model.predict_proba(x)
    assert np.allclose(shares.sum(axis=1), 1) and shares.min() > 0
    assert np.array_equal(
        model.classes_[shares.argmax(axis=1)][shares.max(axis=1) < 0.9], model.predict(x)[shares.max(axis=1) < 0.9]
    )
