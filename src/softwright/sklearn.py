"""Scikit-learn estimators.

    AttentionRegressor()                   heads fitted to the data by cross-validated least squares, any outputs
    AttentionClassifier()                  the same, one output a class
    InContextRegressor(method="ridge")     any method of `softwright.methods.methods`; poisson predicts rates
    InContextClassifier()                  L2 logistic regression, two classes

The first two build a network of the data: tokens, widths and ridge are chosen by cross-validation
(`approximation/noisy.py`) and `predict` is one pass through `network_`. A fit to noisy data has no proved bound: `rms_`
is what cross-validation says of rows that were not seen.

The last two keep the observations, and `predict` shows them to a stack that is built for the number of features and the
constants, never for the data. Columns that do not vary have no coefficient and are left out. Needs
`pip install 'softwright[sklearn]'`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from softwright.errors import Faults, InvalidInput

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ImportError as error:  # the estimators are subclasses of scikit-learn's, so there is nothing without it
    raise InvalidInput(
        "softwright.sklearn", ["scikit-learn is missing; install it with: pip install 'softwright[sklearn]'"]
    ) from error

from softwright.approximation.noisy import fit_noisy
from softwright.attention import AttentionNetwork
from softwright.domain import Box
from softwright.methods.losses import sigmoid
from softwright.methods.methods import METHODS, Method
from softwright.methods.network import InContextStack
from softwright.methods.verb import in_context
from softwright.precision import precision_of


@lru_cache(maxsize=32)
def _stack(method: str, features: int, options: tuple[tuple[str, Any], ...]) -> InContextStack:
    return in_context(method, features, certify=False, sample=False, **dict(options)).network


def _weights(sample_weight: Any, x: Any) -> np.ndarray | None:
    if sample_weight is None:
        return None
    return np.asarray(_check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True))


class _InContext(BaseEstimator):
    """What the two estimators share: the observations, and the stack that reads them."""

    def __init__(
        self,
        penalty: float = 1e-2,
        intercept: bool = True,
        condition: float | None = None,
        check: bool = True,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.penalty = penalty
        self.intercept = intercept
        self.condition = condition
        self.check = check
        self.options = options

    def _remember(self, x: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None) -> None:
        if len(y) < 2:
            raise ValueError(
                f"Found array with n_samples={len(y)} sample(s) while a minimum of 2 is required (1 sample is none)"
            )
        counted = x if sample_weight is None else x[sample_weight > 0]
        if len(counted) < 2:
            raise ValueError("fewer than 2 samples have a weight above 0; give more")
        self.varying_ = self._counted_columns(counted)
        self.x_, self.y_, self.weight_ = x[:, self.varying_], y, sample_weight
        self.coef_ = np.zeros((*y.shape[1:], x.shape[1]))
        self.intercept_ = self._constant(y, sample_weight)
        if self.varying_.any() and self._row().loss is not None:
            coefficients, intercept = self._network().fitted(self.x_, self.y_, sample_weight, self.check)
            self.coef_[..., self.varying_] = coefficients
            self.intercept_ = float(intercept) if y.ndim == 1 else intercept

    def _counted_columns(self, x: np.ndarray) -> np.ndarray:
        """Which columns the stack is shown: those that have a coefficient, where there are any."""
        row, size = self._row(), np.abs(x).max(axis=0)
        if row.loss is None and row.varying != 0:
            return np.ones(x.shape[1], dtype=bool)
        spread = x.max(axis=0) - x.min(axis=0) if self.intercept else size
        varying = spread > 64 * np.finfo(np.float64).eps * size
        if row.loss is None and not varying.any():
            raise InvalidInput(
                row.name, ["no column varies, so that there is nothing to predict with; give more columns"]
            )
        return varying

    def _constant(self, y: np.ndarray, sample_weight: np.ndarray | None) -> Any:
        """The prediction where no column varies; of several targets an array."""
        if y.ndim > 1:
            return np.array([self._constant(target, sample_weight) for target in y.T])
        if not self.intercept:
            return 0.0
        loss = self._row().loss
        mean = float(np.average(y, weights=sample_weight))
        return mean if loss is None else loss.constant(mean)

    def _row(self) -> Method:
        name = str(self.get_params()["method"])
        if name not in METHODS:
            raise InvalidInput("method", [f"unknown method {name!r}; choose from {', '.join(METHODS)}"])
        return METHODS[name]

    def _network(self) -> InContextStack:
        row, given = self._row(), {} if self.options is None else self.options
        faults = Faults("options")
        named = isinstance(given, Mapping) and all(isinstance(name, str) for name in given)
        faults.check(named, "options are not arguments by name; give a dict as {'steps': 50}")
        faults.raise_if_any()
        own = sorted({"method", "features", "certify", "sample"} & set(given))
        faults.check(not own, f"{', '.join(own)} cannot be given: the estimator sets it; remove it")
        plain = all(value is None or isinstance(value, int | float | str | np.generic) for value in given.values())
        faults.check(plain, "an option is neither a number nor a text; give one")
        faults.raise_if_any()
        options = {"intercept": self.intercept, "condition": self.condition, **given}
        options.pop("response", None)  # predictions are responses, whose link is taken here
        if row.penalised is not False:
            options.setdefault("penalty", self.penalty)
        return _stack(row.name, int(self.varying_.sum()), tuple(sorted(options.items())))

    def _linear(self, x: Any) -> np.ndarray:
        check_is_fitted(self, "x_")
        rows = np.asarray(validate_data(self, x, reset=False, dtype=np.float64))
        if not self.varying_.any():
            return np.repeat(np.asarray(self.intercept_)[None], len(rows), axis=0)
        queries = rows[:, self.varying_]
        return self._network().evaluate(
            x=self.x_, y=self.y_, queries=queries, sample_weight=self.weight_, check=self.check
        )


class InContextRegressor(MultiOutputMixin, RegressorMixin, _InContext):
    """Regression by an attention stack: `predict` shows it the training observations and the queries in one prompt.

    Several targets, y (n, k), are fitted each for itself; `coef_` is then (k, d)."""

    def __init__(
        self,
        method: str = "ridge",
        penalty: float = 1e-2,
        intercept: bool = True,
        condition: float | None = None,
        check: bool = True,
        options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(penalty, intercept, condition, check, options)
        self.method = method

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> InContextRegressor:
        rows, values = validate_data(self, X, y, dtype=np.float64, y_numeric=True, multi_output=True)
        self._remember(np.asarray(rows), np.asarray(values, dtype=np.float64), _weights(sample_weight, rows))
        return self

    def predict(self, X: Any) -> np.ndarray:
        linear, loss = self._linear(X), self._row().loss
        return linear if loss is None or loss.response is None else loss.response(linear)


class InContextClassifier(ClassifierMixin, _InContext):
    """Logistic regression by an attention stack, two classes."""

    def _row(self) -> Method:
        return METHODS["logistic"]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> InContextClassifier:
        rows, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        weights = _weights(sample_weight, rows)
        self.classes_ = np.unique(labels if weights is None else np.asarray(labels)[weights > 0])
        if len(self.classes_) == 1:
            raise ValueError(f"Classifier can't train when only one class is present: {self.classes_[0]!r}.")
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass, with "
                f"{len(self.classes_)} classes."
            )
        binary = (np.asarray(labels) == self.classes_[1]).astype(float)
        self._remember(np.asarray(rows), binary, weights)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        return self._linear(X)

    def predict_proba(self, X: Any) -> np.ndarray:
        positive = sigmoid(self.decision_function(X))
        return np.stack([1.0 - positive, positive], axis=1)

    def predict(self, X: Any) -> np.ndarray:
        positive = self.decision_function(X) > 0
        return self.classes_[positive.astype(int)]


class _Fitted(BaseEstimator):
    """What the two estimators share: options, and the network."""

    def __init__(
        self, max_tokens: int = 200, noise: float | None = None, folds: int = 5, dtype: str = "float64", seed: int = 0
    ) -> None:
        self.max_tokens = max_tokens
        self.noise = noise
        self.folds = folds
        self.dtype = dtype
        self.seed = seed

    def _learn(self, x: np.ndarray, values: np.ndarray, weights: np.ndarray | None) -> None:
        """Fit the network to values (n, m)."""
        if len(x) < 2:
            raise ValueError(
                f"Found array with n_samples={len(x)} sample(s) while a minimum of 2 is required (1 sample is none)"
            )
        counted = x if weights is None else x[weights > 0]
        if len(counted) < 2:
            raise ValueError("fewer than 2 samples have a weight above 0; give more")
        low, high = counted.min(axis=0), counted.max(axis=0)
        self.varying_ = high - low > 1e-10 * np.maximum(np.abs(low), np.abs(high))
        own = None if weights is None else weights[weights > 0]
        wanted = values if weights is None else values[weights > 0]
        self.constant_ = np.average(wanted, axis=0, weights=own)
        self.network_ = None
        self.rms_ = np.sqrt(np.average((wanted - self.constant_) ** 2, axis=0, weights=own))
        self.coverage_, self.plan_ = 0.0, "the mean: no column varies"
        if not self.varying_.any():
            return
        box = Box.from_bounds(low[self.varying_], high[self.varying_])
        found = fit_noisy(
            counted[:, self.varying_],
            wanted,
            box,
            weights=own,
            sd=self.noise,
            most_tokens=self.max_tokens,
            folds=self.folds,
            seed=self.seed,
        )
        self.network_ = AttentionNetwork(found.heads, box, precision_of(self.dtype).torch_dtype)
        self.rms_, self.coverage_, self.plan_ = found.rms, found.coverage, found.words

    def _answer(self, X: Any) -> np.ndarray:
        """Outputs (n, m) of the network."""
        check_is_fitted(self, "varying_")
        rows = np.asarray(validate_data(self, X, reset=False, dtype=np.float64))
        if self.network_ is None:
            return np.repeat(np.atleast_1d(self.constant_)[None], len(rows), axis=0)
        return self.network_.evaluate(rows[:, self.varying_])


class AttentionRegressor(MultiOutputMixin, RegressorMixin, _Fitted):
    """Regression by softmax heads; one or several outputs.

    max_tokens   at most so many tokens
    noise        standard deviation of the measurements, if it is known: the fewest tokens that come near it
    folds, seed  of the cross-validation
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> AttentionRegressor:
        rows, values = validate_data(self, X, y, dtype=np.float64, y_numeric=True, multi_output=True)
        values = np.asarray(values, dtype=np.float64)
        self.single_ = values.ndim == 1
        table = values[:, None] if self.single_ else values
        self._learn(np.asarray(rows), table, _weights(sample_weight, rows))
        return self

    def predict(self, X: Any) -> np.ndarray:
        found = self._answer(X)
        return found[:, 0] if self.single_ else found


class AttentionClassifier(ClassifierMixin, _Fitted):
    """Classification by softmax heads: one output a class, fitted to 0 and 1; the largest wins."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> AttentionClassifier:
        rows, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        weights, labels = _weights(sample_weight, rows), np.asarray(labels)
        self.classes_ = np.unique(labels if weights is None else labels[weights > 0])
        if len(self.classes_) < 2:
            raise ValueError(f"Classifier can't train when only one class is present: {self.classes_!r}.")
        self._learn(np.asarray(rows), (labels[:, None] == self.classes_).astype(float), weights)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Outputs (n, classes), or for two classes how much the second is ahead (n,)."""
        found = self._answer(X)
        return found[:, 1] - found[:, 0] if len(self.classes_) == 2 else found

    def predict_proba(self, X: Any) -> np.ndarray:
        """Outputs brought into [0, 1] and to the sum 1: shares that were fitted, not calibrated probabilities."""
        found = np.clip(self._answer(X), 1e-9, 1.0)
        return found / found.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        found = self._answer(X)
        if len(self.classes_) == 2:
            return self.classes_[(found[:, 1] - found[:, 0] > 0).astype(int)]
        return self.classes_[found.argmax(axis=1)]
