"""`in_context` from end to end: every method against its exact solution, and every kind of bad input."""

from __future__ import annotations

import contextlib
import json
import unittest
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import softwright as sw
from softwright.cli import app
from softwright.errors import InvalidInput
from softwright.methods.reference import random_design, reference

LIMITS = {
    "least_squares": 1e-11,
    "ridge": 1e-11,
    "lasso": 1e-11,
    "nonnegative_least_squares": 1e-11,
    "logistic": 1e-8,
    "poisson": 1e-8,
    "robust": 1e-8,
}


@pytest.mark.parametrize("method", LIMITS)
def test_fresh_designs_of_any_length_from_one_stack(method: str) -> None:
    options: dict[str, Any] = {"condition": 20.0} if LIMITS[method] < 1e-10 else {}
    built = sw.in_context(method, 4, **options)
    assert built.observed is not None and built.observed_error <= LIMITS[method]
    for rows, seed in ((60, 51), (150, 52))[built.network.depth > 100 :]:
        x, y = random_design(method, 4, rows + 10, seed)
        w, b = reference(x[:rows], y[:rows], built.network.constants)
        given = built(x=x[:rows], y=y[:rows], queries=x[rows:])
        assert np.abs(given - (x[rows:] @ w + b)).max() <= LIMITS[method]


def test_diabetes() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    linear_model = pytest.importorskip("sklearn.linear_model")
    x, y = datasets.load_diabetes(return_X_y=True)
    exact = linear_model.LinearRegression().fit(x, y).predict(x[:20])
    for solver, most in (("newton_schulz", 25), ("normal_equations", 60)):
        built = sw.in_context("least_squares", 10, solver=solver, sample=False)
        assert built.network.depth <= most
        assert np.abs(built(x=x, y=y, queries=x[:20]) - exact).max() <= 1e-9
    ridge = sw.in_context("ridge", 10, solver="newton_schulz", penalty=1 / 442, condition=3.0, sample=False)
    assert ridge.network.depth <= 20
    exact = linear_model.Ridge(alpha=1.0, tol=1e-14).fit(x, y).predict(x[:20])
    assert np.abs(ridge(x=x, y=y, queries=x[:20]) - exact).max() <= 1e-10


@pytest.mark.parametrize(("method", "intercept"), [("logistic", True), ("logistic", False), ("poisson", True)])
def test_coefficients_and_responses_of_generalised_models(method: str, intercept: bool) -> None:
    x, y = random_design(method, 3, 120, 6)
    built = sw.in_context(method, 3, intercept=intercept, response=True, sample=False)
    w, b = reference(x[:100], y[:100], built.network.constants)
    found, constant = built.network.fitted(x[:100], y[:100])
    s = x[100:] @ w + b
    response = 1 / (1 + np.exp(-s)) if method == "logistic" else np.exp(s)
    assert np.abs(built(x=x[:100], y=y[:100], queries=x[100:]) - response).max() <= 1e-7
    if not intercept:
        assert constant == 0
    assert np.abs(found - w).max() <= 1e-8


def _say(built: sw.Built, **changes: object) -> str:
    x, y = random_design(str(built.network.constants.method), 3, 60, 1)
    with pytest.raises(InvalidInput) as caught:
        built(**{"x": x[:50], "y": y[:50], "queries": x[50:], **changes})  # pyright: ignore[reportArgumentType]
    return str(caught.value)


def test_bad_prompts_are_refused_with_their_remedy() -> None:
    built = sw.in_context("least_squares", 3, sample=False, certify=False)
    x, y = random_design("least_squares", 3, 60, 1)
    x, y, far = x[:50], y[:50], x[50:] * 200
    flat, holes, twin = x.copy(), x.copy(), x.copy()
    flat[:, 1] = 7.0
    holes[3, 2] = np.nan
    twin[:, 2] = twin[:, 0] - 2 * twin[:, 1]
    assert "more rows, or a penalty" in _say(built, x=x[:3], y=y[:3])
    assert "column(s) 1 of x do not vary" in _say(built, x=flat)
    assert "nan or infinite" in _say(built, x=holes)
    assert "linearly dependent" in _say(built, x=twin)
    assert "range_bound" in _say(built, queries=far, adapt=False)
    assert "range_bound" in _say(built, queries=1e9 * far)
    ridge = sw.in_context("ridge", 3, sample=False, certify=False)
    assert "in other units" in _say(ridge, x=x * [1.0, 1e30, 1.0])
    for size in (1e-150, 1e-30, 1e-9):  # the last within the range of the cells, but not together with the penalty
        units = np.array([1.0, size, 1.0])
        assert "column(s) 1 of x have a penalty of up to" in _say(ridge, x=x * units, queries=x[:2] * units)
    assert "built for 3 feature" in _say(built, x=x[:, :2])
    assert "y has shape" in _say(built, y=y[:-1])
    assert "weights are 0 or more" in _say(built, sample_weight=-np.ones(50))
    message = _say(built, x=holes, queries=np.full((2, 3), np.inf))
    assert "2 faults" in message
    with pytest.raises(InvalidInput, match="give x, y and queries"):
        built(x=x)
    wild = np.asarray(built(x=twin, y=y, queries=x, check=False))
    assert wild.shape == (50,)  # switched off, the stack answers whatever comes of it


def test_leverage_beyond_the_bound_is_refused() -> None:
    built = sw.in_context("least_squares", 3, solver="newton_schulz", score_bound=4.0, sample=False, certify=False)
    assert "raise score_bound" in _say(built, adapt=False)
    x, y = random_design("least_squares", 3, 60, 1)
    w, b = reference(x[:50], y[:50], built.network.constants)
    assert np.abs(built(x=x[:50], y=y[:50], queries=x[50:]) - (x[50:] @ w + b)).max() <= 1e-10


def test_labels_and_counts_are_checked_and_separable_classes_are_noticed() -> None:
    x, _ = random_design("logistic", 3, 60, 1)
    logistic = sw.in_context("logistic", 3, solver="irls", penalty=0.0, sample=False)
    assert "labels 0 and 1" in _say(logistic, y=x[:50, 0])
    assert "only one" in _say(logistic, y=np.ones(50))
    assert "separable" in _say(logistic, y=(x[:50, 0] > 0).astype(float))
    poisson = sw.in_context("poisson", 3, solver="irls", sample=False)
    assert "counts" in _say(poisson, y=-np.ones(50))
    assert "no finite log" in _say(poisson, y=np.zeros(50))


def test_bad_arguments_are_listed_together() -> None:
    with pytest.raises(InvalidInput) as caught:
        sw.in_context("lass", 0, condition=-1.0, dtype="float16", penalty=-2.0)
    text = str(caught.value)
    for part in ("unknown method", "features must", "condition must", "unknown dtype", "penalty must"):
        assert part in text
    for options, part in (
        ({"method": "lasso", "solver": "irls"}, "choose from fista, admm"),
        ({"method": "ridge", "penalty": 0.0}, "needs a penalty"),
        ({"method": "least_squares", "penalty": 1.0}, "use ridge"),
        ({"method": "least_squares", "steps": 0}, "steps must"),
        ({"method": "poisson", "intercept": False}, "leave intercept on"),
        ({"method": "least_squares", "order": 9}, "order must"),
    ):
        with pytest.raises(InvalidInput, match=part):
            sw.in_context(features=3, **options)  # pyright: ignore[reportArgumentType]


def test_float32_warns_beyond_condition_100_and_runs_below() -> None:
    with pytest.warns(UserWarning, match="float32"):
        sw.in_context("least_squares", 3, dtype="float32", condition=1e3, sample=False, certify=False)
    built = sw.in_context("least_squares", 3, dtype="float32")
    assert built.observed_error <= 1e-3


def test_repr_says_what_is_proved_and_what_is_seen() -> None:
    text = repr(sw.in_context("least_squares", 3))
    assert "<=" in text and "observed error" in text and "layers" in text
    assert "none:" in repr(sw.in_context("logistic", 3, sample=False))


def test_the_error_falls_layer_by_layer() -> None:
    pytest.importorskip("matplotlib")
    from softwright.methods.figure import error_by_layer

    built = sw.in_context("least_squares", 3, solver="newton_schulz", sample=False)
    x, y = random_design("least_squares", 3, 60, 2)
    layers, errors = error_by_layer(built.network, x[:50], y[:50], x[50:])
    assert layers[-1] == built.network.depth - 1
    assert errors[-1] <= 1e-11 < errors[0]
    assert (np.diff(np.log(errors[:6])) < 0).all()
    assert built.plot().axes


def _write(path: Path, x: np.ndarray, y: np.ndarray) -> Path:
    rows = [",".join([*map(repr, row), repr(value)]) for row, value in zip(x.tolist(), y.tolist(), strict=True)]
    path.write_text("\n".join(["a,b,c,y", *rows]))
    return path


def test_command(tmp_path: Path) -> None:
    x, y = random_design("lasso", 3, 60, 3)
    data = _write(tmp_path / "data.csv", x, y)
    arguments = ["in-context", "lasso", "--data", str(data), "--target", "y", "--penalty", "0.1", "--steps", "200"]
    found = CliRunner().invoke(app, [*arguments, "--json", "--predictions", str(tmp_path / "out.csv")])
    assert found.exit_code == 0, found.output
    content = json.loads(found.stdout)
    assert content["scikit_learn"]["largest_difference_of_predictions"] <= 1e-9
    assert set(content["coefficients"]) == {"a", "b", "c"}
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 61
    shown = CliRunner().invoke(app, arguments)
    assert "Lasso" in shown.stdout and "intercept" in shown.stdout
    for changed, part in (
        (["--target", "z"], "no column 'z'"),
        (["--inputs", "a,y"], "among --inputs"),
        (["--penalty", "-1"], "penalty must"),
    ):
        bad = CliRunner().invoke(app, [*arguments, *changed])
        assert bad.exit_code == 2 and part in bad.stderr
    missing = CliRunner().invoke(app, ["in-context", "ridge", "--data", "nothing.csv", "--target", "y"])
    assert missing.exit_code == 4


def test_scikit_learn_estimators() -> None:
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    from softwright.sklearn import InContextClassifier, InContextRegressor

    small = ("check_estimators_dtypes", "check_fit2d_1sample", "check_sample_weights_invariance", "check_n_features_in")
    for estimator, some in ((InContextRegressor(), None), (InContextClassifier(options={"solver": "irls"}), small)):
        for case, check in checks.estimator_checks_generator(estimator):  # all of them where layers are few
            if some is None or check.func.__name__ in some:
                with contextlib.suppress(unittest.SkipTest):
                    check(case)
    x, y = random_design("logistic", 3, 80, 5)
    model = InContextClassifier(penalty=1e-2).fit(x, np.where(y > 0, "yes", "no"))
    assert set(model.predict(x)) == {"yes", "no"}
    assert np.allclose(model.predict_proba(x).sum(axis=1), 1)
    assert model.score(x, np.where(y > 0, "yes", "no")) > 0.6
    assert np.allclose(model.decision_function(x), x @ model.coef_ + model.intercept_, atol=1e-8)


def test_a_weight_that_overflows_its_type_is_refused() -> None:
    with pytest.raises(InvalidInput, match="beyond float32"):
        sw.in_context("logistic", 2, solver="gradient", dtype="float32", x_bound=1e18)
    large = sw.in_context("least_squares", 2, solver="gradient", x_bound=1e18, sample=False)
    assert large.certificate is not None


@pytest.mark.parametrize("wrong", [{"steps": 10**30}, {"steps": 100_001}, {"condition": 10**400}], ids=str)
def test_numbers_that_no_stack_can_have_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=f"{next(iter(wrong))} must be"):
        sw.in_context("logistic", 2, **wrong)


def test_a_diverged_iteration_is_called_so() -> None:
    built = sw.in_context("poisson", 3, solver="irls", penalty=0.0, sample=False)
    y = np.zeros(50)
    y[0] = 1e6
    assert "the iteration diverged" in _say(built, y=y, adapt=False)


def test_damped_steps_take_counts_that_make_others_diverge() -> None:
    built = sw.in_context("poisson", 3, penalty=0.0, sample=False)
    x, _ = random_design("poisson", 3, 60, 1)
    y = np.array([1e5, 37.0, 9.0, *[1.0, 0.0, 2.0, 0.0] * 10])
    w, b = reference(x[:43], y, built.network.constants)
    found, constant = built.network.fitted(x[:43], y)
    assert np.abs(found - w).max() <= 1e-8 and abs(constant - b) <= 1e-8


def test_units_from_1e_150_to_1e150_and_several_targets_at_once() -> None:
    built = sw.in_context("least_squares", 3, sample=False, certify=False)
    x, y = random_design("least_squares", 3, 60, 1)
    w, b = reference(x, y, built.network.constants)
    for size in (1e-150, 1e150):
        units = np.array([1.0, size, 1.0])
        found, constant = built.network.fitted(x * units, y)
        assert np.abs(found * units / w - 1).max() <= 1e-10 and abs(constant - b) <= 1e-10
    for method, power in (("ridge", 2), ("lasso", 1)):  # in one unit, in which the penalty is another number
        w, b = reference(x, y, sw.in_context(method, 3, penalty=0.1, sample=False, certify=False).network.constants)
        for size in (2.0**-400, 2.0**300):
            given: Any = {"penalty": 0.1 * size**power, "condition": 20.0}
            other = sw.in_context(method, 3, sample=False, certify=False, **given)
            found, constant = other.network.fitted(x * size, y)
            assert np.abs(found * size - w).max() <= 1e-9 and abs(constant - b) <= 1e-9
            assert np.allclose(other(x=x * size, y=y, queries=x[:5] * size), x[:5] @ w + b, atol=1e-9)
    w, b = reference(x, y, built.network.constants)
    both = np.stack([y, 2 * y + 1], axis=1)
    found, constant = built.network.fitted(x, both)
    assert np.allclose(found, [w, 2 * w], atol=1e-11) and np.allclose(constant, [b, 2 * b + 1], atol=1e-11)
    answers = built(x=x, y=both, queries=x[:5])
    assert answers.shape == (5, 2) and np.allclose(answers[:, 0], x[:5] @ w + b, atol=1e-11)


def test_nearly_dependent_columns_keep_their_digits_with_default_settings() -> None:
    """As in Longley's data: the condition follows from the prompt."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(30, 3)) * [1.0, 1.0, 2e-3]
    x[:, 2] += x[:, 0] - x[:, 1]
    y = x @ [1.0, 2.0, 3.0] + 0.1 * rng.normal(size=30)
    built = sw.in_context("least_squares", 3, sample=False, certify=False)
    w, _ = reference(x, y, built.network.constants)
    assert np.abs(built.network.fitted(x, y)[0] / w - 1).max() <= 1e-9
    assert "raise condition" in _say(built, x=x, y=y, queries=x, adapt=False)


def test_columns_that_cannot_be_written_to_are_read_without_a_warning() -> None:
    x, y = random_design("ridge", 3, 60, 1)
    x.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sw.in_context("ridge", 3, sample=False)(x=x[:50], y=y[:50], queries=x[50:])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_labels_that_no_feature_explains_are_answered(dtype: str) -> None:
    """What is left of constant labels is rounding, and so are its weights: no digits are lost with them."""
    built = sw.in_context("least_squares", 2, dtype=dtype, sample=False, certify=False)
    x = np.random.default_rng(0).normal(size=(20, 12, 2)).astype(dtype)
    found = built(x=x, y=np.ones((20, 12), dtype), queries=x[:, :3])
    assert np.abs(found - 1).max() <= (1e-12 if dtype == "float64" else 1e-5)
