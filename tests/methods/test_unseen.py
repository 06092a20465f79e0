"""Prompts that nobody tidied: units, ties, outliers, weights and shapes get the right answer or the true reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import softwright as sw
from softwright.errors import InvalidInput
from softwright.methods.methods import METHODS
from softwright.methods.reference import exact_predictions, random_design

ANY_LENGTH = [row.name for row in METHODS.values() if row.lengths is not None]
ANY_SIZE = [row.name for row in METHODS.values() if row.y_units]


def _asked(method: str, **options: Any) -> tuple[sw.Built, np.ndarray, np.ndarray, np.ndarray]:
    features = METHODS[method].takes or 3
    built = sw.in_context(method, features, sample=False, certify=False, **options)
    x, y = random_design(method, features, 46, 77)
    queries = x[40:].copy()
    if method == "autoregression":
        queries[:, 0] = np.arange(10, 16)
        x[:, 0] = np.arange(46)
    return built, x[:40], y[:40], queries


def _refused(built: sw.Built, **prompt: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        built(**prompt)
    return str(caught.value)


@pytest.mark.parametrize("method", ANY_LENGTH)
@pytest.mark.parametrize("unit", [2.0**-330, 2.0**480])
def test_distances_have_no_unit_of_their_own(method: str, unit: float) -> None:
    built, x, y, queries = _asked(method)
    options: dict[str, Any] = {
        name: built.network.constants.option(name) * unit for name in METHODS[method].lengths or ()
    }
    other = sw.in_context(method, 3, sample=False, certify=False, **options)
    found = other(x=x * unit, y=y, queries=queries * unit)
    expected = built(x=x, y=y, queries=queries) * (unit if METHODS[method].answers_x else 1.0)
    assert np.abs(found - expected).max() <= 1e-9 * np.abs(expected).max()


@pytest.mark.parametrize("method", ANY_SIZE)
@pytest.mark.parametrize("size", [1e-100, 1e-10, 1e10, 1e100])
def test_y_has_any_size(method: str, size: float) -> None:
    options: dict[str, Any] = (
        {} if METHODS[method].penalised is False else {"penalty": 1e-3 if method == "gamma" else 1e-3 * size}
    )
    if method in ("lasso", "nonnegative_least_squares"):
        options["condition"] = 20.0  # fewer steps
    built, x, y, queries = _asked(method, **options)
    own: dict[str, Any] = (
        dict(options) if method == "gamma" or "penalty" not in options else {**options, "penalty": 1e-3}
    )
    plain = sw.in_context(method, 3, sample=False, certify=False, **own)
    expected, found = plain(x=x, y=y, queries=queries), built(x=x, y=y * size, queries=queries)
    wanted = expected + np.log(size) if METHODS[method].y_units == "log" else expected * size
    assert np.abs(found - wanted).max() <= 1e-8 * np.abs(wanted).max()


@pytest.mark.parametrize("method", ["least_squares", "ridge", "bayesian_ridge"])
def test_features_far_from_0_keep_their_digits(method: str) -> None:
    built, x, y, queries = _asked(method)
    x, queries = np.round(x * 2.0**20) / 2.0**20, np.round(queries * 2.0**20) / 2.0**20
    far = np.array([0.0, 2.0**30, -(2.0**26)])  # added exactly
    near = built(x=x, y=y, queries=queries)
    assert np.abs(built(x=x + far, y=y, queries=queries + far) - near).max() <= 1e-10 * np.abs(near).max()
    if method != "bayesian_ridge":
        w, _ = built.network.fitted(x, y)
        found, constant = built.network.fitted(x + far, np.stack([y, 2 * y], axis=1))
        assert np.abs(found - [w, 2 * w]).max() <= 1e-11
        assert (
            np.abs(found @ (x + far).T + constant[:, None] - [built(x=x, y=k * y, queries=x) for k in (1, 2)]).max()
            < 1e-6
        )


def test_times_are_read_whatever_the_units_of_the_other_columns() -> None:
    built, x, y, queries = _asked("autoregression")
    expected = built(x=x, y=y, queries=queries)
    for unit in (1e-20, 1e6, 1e150):
        units = np.array([1.0, unit, 1.0])
        assert np.abs(built(x=x * units, y=y, queries=queries * units) - expected).max() <= 1e-9


def test_an_outlier_costs_an_answer_its_digits_and_says_so() -> None:
    for method, reason in (
        ("nadaraya_watson", "bandwidths"),
        ("kernel_ridge", "bandwidths"),
        ("nearest_neighbours", "cannot be told from the next"),
        ("k_means", "as near to one centre as to another"),
    ):
        built, x, y, queries = _asked(method)
        x = x.copy()
        x[7] = 1e6
        assert reason in _refused(built, x=x, y=y, queries=queries), method
    built, x, y, queries = _asked("principal_components")
    x[7] = 1e5
    exact = exact_predictions(x, y, queries, built.network.constants)
    assert np.abs(built(x=x, y=y, queries=queries) - exact).max() <= 1e-7 * np.abs(exact).max()


@pytest.mark.parametrize("rows", [2, 3])
def test_components_of_fewer_rows_than_columns(rows: int) -> None:
    built, x, y, queries = _asked("principal_components")
    exact = exact_predictions(x[:rows], y[:rows], queries, built.network.constants)
    assert np.abs(built(x=x[:rows], y=y[:rows], queries=queries) - exact).max() <= 1e-9


def test_one_row_decides_a_kernel_mean_however_far_the_others_are() -> None:
    built, x, y, queries = _asked("nadaraya_watson")
    nearest = ((queries[:, None] - x[None]) ** 2).sum(axis=2).argmin(axis=1)
    assert np.abs(built(x=x * 1e6, y=y, queries=queries * 1e6) - y[nearest]).max() <= 1e-12


def test_starts_of_clusters_are_checked() -> None:
    for method in ("k_means", "gaussian_mixture"):
        built, x, y, queries = _asked(method)
        for wrong, reason in (
            (np.full(40, -1.0), "no row begins cluster(s) 0, 1, 2"),
            (np.where(y == 2, 7.0, y), "needs 0, .., 2 in y"),
            (np.where(y == 2, 0.5, y), "needs 0, .., 2 in y"),
        ):
            assert reason in _refused(built, x=x, y=wrong, queries=queries)
    built, x, y, queries = _asked("multinomial")
    assert "up to 2; give classes=K" in _refused(built, x=x, y=np.where(y == 2, 7.0, y), queries=queries)


def test_a_weight_of_0_is_no_observation() -> None:
    weights = (np.arange(40) % 7 > 0).astype(float)
    built, x, y, queries = _asked("bayesian_ridge")
    left = built(x=x[weights > 0], y=y[weights > 0], queries=queries)
    assert np.abs(built(x=x, y=y, queries=queries, sample_weight=weights) - left).max() <= 1e-11
    for method, reason in (("kalman", "takes no sample_weight"), ("nearest_neighbours", "remove those")):
        built, x, y, queries = _asked(method)
        assert reason in _refused(built, x=x, y=y, queries=queries, sample_weight=weights)


def test_what_does_not_vary_or_depends_is_named() -> None:
    for method in ("bayesian_ridge", "multinomial", "autoregression"):
        built, x, y, queries = _asked(method)
        x[:, 2] = 3.0
        assert "column(s) 2 of x do not vary" in _refused(built, x=x, y=y, queries=queries), method
    built, x, y, queries = _asked("robust")
    x[:, 1] = x[:, 0] + 1e-9 * x[:, 1]
    assert "linearly dependent" in _refused(built, x=x, y=y, queries=queries)
    assert "far less than loss_scale" in _refused(_asked("robust")[0], x=x, y=1e-12 * y, queries=queries)


@pytest.mark.parametrize("method", list(METHODS))
def test_rows_of_several_lengths_and_none_at_all_are_refused(method: str) -> None:
    built, x, y, queries = _asked(method)
    assert "x is not an array of numbers" in _refused(built, x=[[1.0, 2.0], [3.0]], y=[1.0, 2.0], queries=queries)
    assert "needs at least 2" in _refused(built, x=x[:0], y=y[:0], queries=queries)
    if METHODS[method].columns is not None:
        assert len(built(x=x, y=y, queries=queries[:0])) == 0


def test_a_small_prompt_leaves_the_threads_as_they_were() -> None:
    before = torch.get_num_threads()
    built, x, y, queries = _asked("least_squares")
    built(x=x, y=y, queries=queries)
    assert torch.get_num_threads() == before
