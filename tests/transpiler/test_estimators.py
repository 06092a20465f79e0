"""scikit-learn's MLPs and pipelines: the same numbers as `predict`, within a bound that is verified."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softwright as sw
from softwright.errors import InvalidInput

pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install 'softwright[sklearn]'")
from sklearn import compose, decomposition, feature_selection, impute, model_selection, pipeline, preprocessing
from sklearn.neural_network import MLPClassifier, MLPRegressor

_RNG = np.random.default_rng(3)
X = _RNG.normal(size=(80, 5)) * [0.2, 1.0, 5.0, 1.0, 2.0] + [0.0, 1.0, -3.0, 0.0, 0.5]
Y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
BOX = (-4, 4)
STEPS: dict[str, list[Any]] = {
    "StandardScaler": [preprocessing.StandardScaler()],
    "without a mean": [preprocessing.StandardScaler(with_mean=False)],
    "MinMaxScaler": [preprocessing.MinMaxScaler((-1, 1))],
    "MaxAbsScaler": [impute.SimpleImputer(), preprocessing.MaxAbsScaler()],
    "RobustScaler": [preprocessing.RobustScaler()],
    "PCA": [preprocessing.StandardScaler(), decomposition.PCA(3, whiten=True)],
    "TruncatedSVD": [decomposition.TruncatedSVD(3)],
    "ColumnTransformer": [
        compose.ColumnTransformer(
            [
                ("two", pipeline.make_pipeline(preprocessing.StandardScaler(), preprocessing.MinMaxScaler()), [3, -5]),
                ("gone", "drop", [2]),
                ("one", preprocessing.RobustScaler(), slice(1, 2)),
            ],
            remainder="passthrough",
        ),
        preprocessing.FunctionTransformer(),
    ],
    "unmixed": [decomposition.IncrementalPCA(4), decomposition.FastICA(3, random_state=0)],
    "factors": [decomposition.FactorAnalysis(2)],
    "side by side": [
        pipeline.FeatureUnion(
            [("a", preprocessing.StandardScaler()), ("b", pipeline.make_pipeline(decomposition.PCA(2)))],
            transformer_weights={"b": 3.0},
        ),
        compose.ColumnTransformer(
            [("c", "passthrough", [0, 6]), ("d", preprocessing.MaxAbsScaler(), [1])], transformer_weights={"d": 0.25}
        ),
    ],
    "SelectKBest": [feature_selection.SelectKBest(feature_selection.f_regression, k=3), "passthrough"],
}


def fitted(model: Any, y: np.ndarray = Y) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def regressor() -> MLPRegressor:
    return MLPRegressor(hidden_layer_sizes=(7,), max_iter=5, random_state=0)


@pytest.mark.parametrize("name", STEPS)
def test_pipelines_are_what_they_predict(name: str, tmp_path: Path) -> None:
    model = fitted(pipeline.make_pipeline(*STEPS[name], regressor()))
    built = sw.transpile(model, BOX)
    points = np.clip(X, *BOX)
    assert np.abs(built(points)[:, 0] - model.predict(points)).max() <= built.certificate.bound + 1e-12 <= 2e-12
    built.save(tmp_path / "net.safetensors")
    assert sw.verify(tmp_path / "net.safetensors")


def test_targets_are_scaled_back_and_classifiers_give_their_logits() -> None:
    points = np.clip(X, *BOX)
    scaled = compose.TransformedTargetRegressor(
        pipeline.make_pipeline(preprocessing.StandardScaler(), regressor()), transformer=preprocessing.StandardScaler()
    )
    model = fitted(scaled)
    built = sw.transpile(model, BOX)
    assert np.abs(built(points)[:, 0] - model.predict(points)).max() <= built.certificate.bound + 1e-12
    network = MLPClassifier(hidden_layer_sizes=(7,), max_iter=5, random_state=0)
    labels = np.digitize(Y, [-1.0, 1.0])
    classes = fitted(pipeline.make_pipeline(preprocessing.RobustScaler(), network), labels)
    logits = sw.transpile(classes, BOX)(points)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert np.abs(shares - classes.predict_proba(points)).max() < 1e-12


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            pipeline.make_pipeline(
                compose.ColumnTransformer([("bins", preprocessing.KBinsDiscretizer(3, quantile_method="linear"), [0])]),
                regressor(),
            ),
            "^transpile: scikit-learn's KBinsDiscretizer in a pipeline",
        ),
        (pipeline.make_pipeline(preprocessing.PolynomialFeatures(), regressor()), "PolynomialFeatures"),
        (pipeline.make_pipeline(preprocessing.MinMaxScaler(clip=True), regressor()), "cuts values off"),
        (pipeline.make_pipeline(preprocessing.Normalizer(), regressor()), "Normalizer in a pipeline is not affine"),
        (pipeline.make_pipeline(preprocessing.StandardScaler(), decomposition.PCA(2)), "PCA is no MLP"),
        (pipeline.make_pipeline(impute.SimpleImputer(missing_values=0.0), regressor()), "replaces numbers"),
        (compose.TransformedTargetRegressor(regressor(), func=np.log1p, inverse_func=np.expm1), "than a scaler"),
    ],
)
def test_others_are_refused_by_name(model: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        sw.transpile(fitted(model, np.abs(Y)), BOX)


def test_what_is_not_fitted_says_so() -> None:
    with pytest.raises(InvalidInput, match="not fitted"):
        sw.transpile(pipeline.make_pipeline(preprocessing.StandardScaler(), regressor()), BOX)


def test_a_search_is_its_best() -> None:
    search = fitted(model_selection.GridSearchCV(regressor(), {"alpha": [0.1, 1.0]}, cv=2))
    points = np.clip(X, *BOX)
    built = sw.transpile(search, BOX)
    assert np.abs(built(points)[:, 0] - search.predict(points)).max() <= built.certificate.bound + 1e-12
