"""scikit-learn's MLPs and pipelines, fitted to a few hundred rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from sources.case import Case

DIRECT = (
    "MLPRegressor relu",
    "MLPRegressor tanh",
    "MLPRegressor two outputs",
    "MLPRegressor logistic",
    "MLPClassifier digits",
    "MLPClassifier binary",
    "MLPClassifier many labels",
    "StandardScaler, MLPRegressor",
    "MinMaxScaler, MLPRegressor",
    "StandardScaler, PCA, MLPRegressor",
    "RobustScaler, MLPClassifier",
    "SelectKBest, StandardScaler, MLPClassifier",
    "StandardScaler, MLPRegressor, scaled target",
    "imputer, MaxAbsScaler, MLPRegressor",
)


def fitted(name: str) -> tuple[Any, np.ndarray]:
    """The fitted model of a name, and its data."""
    from sklearn import compose, decomposition, feature_selection, impute, neural_network, pipeline, preprocessing

    rng = np.random.default_rng(len(name))
    X = rng.normal(size=(300, 8)) * rng.uniform(0.3, 2.0, size=8)
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
    labels = (y > 0).astype(int) if "binary" in name else np.digitize(y, [-1.0, 0.0, 1.0])
    activation = next((found for found in ("tanh", "logistic") if found in name), "relu")
    options: dict[str, Any] = {"activation": activation, "max_iter": 40, "random_state": 0}
    classifier = "MLPClassifier" in name
    target: np.ndarray = labels if classifier else y
    if "two outputs" in name:
        target = np.stack([y, y**2], axis=1)
    if "many labels" in name:
        target = np.stack([labels > 1, X[:, 3] > 0], axis=1).astype(int)
    kind = neural_network.MLPClassifier if classifier else neural_network.MLPRegressor
    last: Any = kind(hidden_layer_sizes=(24, 12), **options)
    if "scaled target" in name:
        last = compose.TransformedTargetRegressor(last, transformer=preprocessing.StandardScaler())
    before: list[Any] = []
    for part, make in {
        "imputer": impute.SimpleImputer,
        "SelectKBest": lambda: feature_selection.SelectKBest(k=5),
        "StandardScaler": preprocessing.StandardScaler,
        "MinMaxScaler": preprocessing.MinMaxScaler,
        "MaxAbsScaler": preprocessing.MaxAbsScaler,
        "RobustScaler": preprocessing.RobustScaler,
        "PCA": lambda: decomposition.PCA(5, whiten=True),
    }.items():
        if part in name:
            before.append(make())
    model = pipeline.make_pipeline(*before, last) if before else last
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, target), X


def estimators() -> list[Case]:
    return [Case(f"sklearn {name}", lambda name=name: fitted(name)[0], (-2.0, 2.0)) for name in DIRECT]
