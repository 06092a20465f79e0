"""scikit-learn's MLPs, alone or at the end of a pipeline of scalers, read as networks and run as they are.

    MLPRegressor; MLPClassifier up to its logits (before softmax or the logistic function)
    Pipeline of what is affine in a row of numbers: StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, PCA,
    TruncatedSVD, choices of columns (SelectKBest, VarianceThreshold, ..), imputers (which leave numbers as they are)
    TransformedTargetRegressor around one of these, with a scaler for the target

What stands before becomes part of the first layer, what stands behind part of the last, rounded to float64 once. Others
are refused by name. scikit-learn is not imported here: classes are known by their names.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from softwright.errors import InvalidInput
from softwright.targets.mlp.activation import Activation
from softwright.targets.mlp.branches import Affine, Branch, identity
from softwright.targets.mlp.dense import DenseLayer, DenseNetwork

_ACTIVATIONS = {"identity": "identity", "logistic": "sigmoid", "tanh": "tanh", "relu": "relu"}
_NETWORKS = ("MLPRegressor", "MLPClassifier")


def _scaled(scale: Any, shift: Any, width: int) -> Affine:
    return identity(width) * np.broadcast_to(scale, width)[:, None], np.broadcast_to(shift, width).astype(np.float64)


def _centred(scale: Any, centre: Any, width: int) -> Affine:
    """(x - centre)/scale, either of which may be left out."""
    factor = 1.0 / (np.ones(width) if scale is None else np.asarray(scale, dtype=np.float64))
    return _scaled(factor, 0.0 if centre is None else -np.asarray(centre, dtype=np.float64) * factor, width)


def _standard(step: Any, width: int) -> Affine:
    return _centred(step.scale_ if step.with_std else None, step.mean_ if step.with_mean else None, width)


def _robust(step: Any, width: int) -> Affine:
    return _centred(step.scale_ if step.with_scaling else None, step.center_ if step.with_centering else None, width)


def _min_max(step: Any, width: int) -> Affine:
    if step.clip:
        raise InvalidInput("transpile", ["MinMaxScaler(clip=True) cuts values off; fit it with clip=False"])
    return _scaled(step.scale_, step.min_, width)


def _components(step: Any, width: int) -> Affine:
    weight = np.asarray(step.components_, dtype=np.float64)
    if getattr(step, "whiten", False):
        weight = weight / np.sqrt(step.explained_variance_)[:, None]
    mean = getattr(step, "mean_", None)
    return weight, np.zeros(len(weight)) if mean is None else -(weight @ mean)


def _projected(step: Any, width: int) -> Affine:
    found = step.components_
    weight = np.asarray(found.toarray() if hasattr(found, "toarray") else found, dtype=np.float64)
    return weight, np.zeros(len(weight))


def _unmixed(step: Any, width: int) -> Affine:
    weight = np.asarray(step.components_, dtype=np.float64)
    return weight, -(weight @ step.mean_) if step.whiten else np.zeros(len(weight))


def _factors(step: Any, width: int) -> Affine:
    """(1 + W Psi^-1 W^T)^-1 W Psi^-1 (x - mean), the expected factors."""
    weighted = step.components_ / step.noise_variance_
    weight = np.linalg.solve(np.eye(len(step.components_)) + weighted @ step.components_.T, weighted)
    return weight, -(weight @ step.mean_)


def _imputed(step: Any, width: int) -> Affine:
    known = ~np.isnan(np.asarray(step.statistics_, dtype=np.float64))
    if not (isinstance(step.missing_values, float) and np.isnan(step.missing_values)):
        fault = f"SimpleImputer(missing_values={step.missing_values!r}) replaces numbers, which jumps; fit it for NaN"
        raise InvalidInput("transpile", [fault])
    if step.add_indicator:
        raise InvalidInput("transpile", ["SimpleImputer(add_indicator=True) adds columns; fit it without"])
    return identity(width)[known], np.zeros(int(known.sum()))


_STEPS: dict[str, Callable[[Any, int], Affine]] = {
    "StandardScaler": _standard,
    "RobustScaler": _robust,
    "MinMaxScaler": _min_max,
    "MaxAbsScaler": lambda step, width: _scaled(1.0 / step.scale_, 0.0, width),
    "PCA": _components,
    "IncrementalPCA": _components,
    "TruncatedSVD": _components,
    "GaussianRandomProjection": _projected,
    "SparseRandomProjection": _projected,
    "FastICA": _unmixed,
    "FactorAnalysis": _factors,
    "SimpleImputer": _imputed,
}


def is_sklearn(source: Any) -> bool:
    return type(source).__module__.startswith("sklearn.")


def _unpacked(model: Any) -> tuple[list[Any], Any, Any]:
    """The steps before the network, the network, and the scaler of its target (or None)."""
    kind = type(model).__name__
    if kind == "FrozenEstimator":
        return _unpacked(model.estimator)
    if kind == "TransformedTargetRegressor":
        if not hasattr(model, "regressor_"):
            raise InvalidInput("transpile", [f"the {kind} is not fitted; call fit first"])
        before, network, behind = _unpacked(model.regressor_)
        if behind is None and model.func is None and model.transformer is None and model.inverse_func is None:
            return before, network, None
        if behind is not None or model.func is not None or type(model.transformer_).__name__ not in _STEPS:
            raise InvalidInput("transpile", [f"the target of the {kind} goes through something else than a scaler"])
        return before, network, model.transformer_
    if kind == "Pipeline":
        steps = [step for _, step in model.steps if step is not None and not isinstance(step, str)]
        if not steps:
            raise InvalidInput("transpile", ["the Pipeline has no steps; give one that ends in an MLP"])
        inner, network, behind = _unpacked(steps[-1])
        return [*steps[:-1], *inner], network, behind
    if hasattr(model, "best_estimator_"):  # a search over settings predicts by its best
        return _unpacked(model.best_estimator_)
    if kind not in _NETWORKS:
        raise InvalidInput("transpile", [f"scikit-learn's {kind} is no MLP; give MLPRegressor or MLPClassifier"])
    return [], model, None


def read_sklearn(model: Any) -> DenseNetwork:
    """The network that a fitted model is; raises `InvalidInput` with what it cannot be."""
    steps, network, target = _unpacked(model)
    kind = type(network).__name__
    if not hasattr(network, "coefs_"):
        raise InvalidInput("transpile", [f"the {kind} is not fitted; call fit first"])
    last = getattr(network, "out_activation_", "identity")
    if kind == "MLPRegressor" and last != "identity":
        raise InvalidInput("transpile", [f"the regressor's output goes through {last}; fit it with the squared error"])
    if network.activation not in _ACTIVATIONS:
        raise InvalidInput("transpile", [f"activation {network.activation!r} is not one of {', '.join(_ACTIVATIONS)}"])
    chain = Branch()
    width = int(getattr(steps[0] if steps else network, "n_features_in_", len(network.coefs_[0])))
    weight, bias = identity(width) if steps else np.empty((0, 0)), np.zeros(width)
    for step in steps:
        own, shift = _affine(step, len(bias))
        weight, bias = own @ weight, own @ bias + shift
    for i, (matrix, offset) in enumerate(zip(network.coefs_, network.intercepts_, strict=True)):
        own, shift = np.array(matrix.T, dtype=np.float64), np.array(offset, dtype=np.float64)
        if i == 0 and steps:
            own, shift = own @ weight, own @ bias + shift
        final = i == len(network.coefs_) - 1
        phi = Activation("identity" if final else _ACTIVATIONS[network.activation])
        chain = Branch((*chain.layers, DenseLayer(own, shift, phi)))
    if target is not None:
        scale, shift = _affine(target, chain.layers[-1].outputs)
        inverse = np.linalg.inv(scale) if scale.shape[0] == scale.shape[1] else None
        if inverse is None or np.count_nonzero(scale - np.diag(np.diag(scale))):
            raise InvalidInput("transpile", ["the target goes through something else than a scaler; use one"])
        chain = chain.scaled(1.0 / np.diag(scale), -shift / np.diag(scale)).settled()
    name = kind if not steps and target is None else f"{type(model).__name__} with {kind}"
    return DenseNetwork(chain.layers, str(network.coefs_[0].dtype), name, bool(steps) or target is not None)


def _affine(step: Any, width: int) -> Affine:
    """A step of a pipeline as weight and bias."""
    kind = type(step).__name__
    try:
        if kind in _STEPS:
            return _STEPS[kind](step, width)
        if kind == "ColumnTransformer":
            return _by_columns(step, width)
        if kind == "Pipeline":
            return _one_after_another([part for _, part in step.steps], width)
        if kind == "FeatureUnion":
            return _beside_one_another(step, width)
        if kind == "FunctionTransformer" and step.func is None:
            return identity(width), np.zeros(width)
        if hasattr(step, "get_support"):
            chosen = np.asarray(step.get_support(), dtype=bool)
            return identity(len(chosen))[chosen], np.zeros(int(chosen.sum()))
    except AttributeError as error:
        raise InvalidInput("transpile", [f"the {kind} is not fitted ({error}); call fit first"]) from error
    known = ", ".join(_STEPS)
    raise InvalidInput("transpile", [f"scikit-learn's {kind} in a pipeline is not affine in a row; use {known}"])


def _one_after_another(steps: list[Any], width: int) -> Affine:
    weight, shift = identity(width), np.zeros(width)
    for step in steps:
        if step is None or isinstance(step, str):  # passthrough
            continue
        own, moved = _affine(step, len(shift))
        weight, shift = own @ weight, own @ shift + moved
    return weight, shift


def _beside_one_another(step: Any, width: int) -> Affine:
    """A FeatureUnion: the results of its parts, each times its weight."""
    weights = step.transformer_weights or {}
    parts = [(name, part) for name, part in step.transformer_list if part != "drop"]
    found = [(identity(width), np.zeros(width)) if part == "passthrough" else _affine(part, width) for _, part in parts]
    scales = [float(weights.get(name, 1.0)) for name, _ in parts]
    return (
        np.concatenate([scale * weight for scale, (weight, _) in zip(scales, found, strict=True)]),
        np.concatenate([scale * shift for scale, (_, shift) in zip(scales, found, strict=True)]),
    )


def _by_columns(step: Any, width: int) -> Affine:
    """A ColumnTransformer: each of its parts on its own columns, their results in the order in which it has them."""
    named = list(getattr(step, "feature_names_in_", ()))
    weights, shifts = [], []
    for name, part, columns in step.transformers_:
        if isinstance(part, str) and part == "drop":
            continue
        chosen = [named.index(c) for c in columns] if _are_names(columns) else np.arange(width)[columns]
        rows = identity(width)[np.atleast_1d(chosen)]
        own = (identity(len(rows)), np.zeros(len(rows)))
        if len(rows) and not isinstance(part, str):
            steps = [inner for _, inner in part.steps] if type(part).__name__ == "Pipeline" else [part]
            own = _one_after_another(steps, len(rows))
        scale = float((step.transformer_weights or {}).get(name, 1.0))
        own = scale * own[0], scale * own[1]
        place = step.output_indices_[name]
        if len(own[1]) != place.stop - place.start or sum(map(len, shifts)) != place.start:
            raise InvalidInput(
                "transpile", [f"part {name!r} of the ColumnTransformer gives other columns than it says"]
            )
        weights.append(own[0] @ rows)
        shifts.append(own[1])
    if not weights:
        raise InvalidInput("transpile", ["the ColumnTransformer drops every column; keep one at least"])
    return np.concatenate(weights), np.concatenate(shifts)


def _are_names(columns: Any) -> bool:
    return not isinstance(columns, slice) and any(
        isinstance(c, str) for c in np.atleast_1d(np.asarray(columns, object))
    )


def _framed(model: Any, points: np.ndarray) -> Any:
    """Points as a table with the names that a ColumnTransformer was fitted with: it asks for its columns by them."""
    names = getattr(model, "feature_names_in_", None)
    if names is None or not any(type(step).__name__ == "ColumnTransformer" for step in _unpacked(model)[0]):
        return points
    from pandas import DataFrame  # pyright: ignore[reportMissingImports]

    return DataFrame(points, columns=list(names))


def run_sklearn(model: Any, points: np.ndarray, dtype: str) -> np.ndarray:
    """The model's own predictions (n, m): of a classifier the numbers before softmax or the logistic function."""
    points = _framed(model, points.astype(dtype))
    _, network, _ = _unpacked(model)
    if type(network).__name__ == "MLPRegressor":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # points have no column names
            return np.asarray(model.predict(points), dtype=np.float64).reshape(len(points), -1)
    bare = copy.copy(network)
    bare.out_activation_ = "identity"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in _unpacked(model)[0]:
            points = step.transform(points)
        found = np.asarray(bare.predict_proba(points), dtype=np.float64).reshape(len(points), -1)
    return found[:, 1:] if bare.n_outputs_ == 1 else found  # of (1 - z, z) the z
