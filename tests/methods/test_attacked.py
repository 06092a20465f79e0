"""Data that broke solvers once: steps that diverge, columns that depend, counts of any size, units of states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import softwright as sw
from softwright.errors import InvalidInput
from softwright.methods.reference import exact_predictions, random_design, reference


def _stack(method: str, features: int = 3, **options: Any) -> sw.Built:
    return sw.in_context(method, features, sample=False, certify=False, **options)


def _refusal(built: sw.Built, x: np.ndarray, y: np.ndarray) -> str:
    with pytest.raises(InvalidInput) as caught:
        built(x=x, y=y, queries=x[:2])
    return str(caught.value)


def _counts(seed: int, rate: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(40, 3))
    return x, rng.poisson(rate * np.exp(0.3 * x[:, 0])).astype(float)


@pytest.mark.parametrize(("method", "rate"), [("poisson", 40.0), ("least_squares", 1.0), ("logistic", 1.0)])
def test_gradient_steps_that_lead_nowhere_are_refused_and_short_ones_are_answered(method: str, rate: float) -> None:
    x, y = _counts(1, rate)
    y = (y > 1).astype(float) if method == "logistic" else y
    own: dict[str, Any] = {} if method == "least_squares" else {"penalty": 1e-3}
    long, short, once = (
        _stack(method, solver="gradient", step_size=size, steps=steps, **own)
        for size, steps in ((30.0, 60), (0.01, 60), (30.0, 1))
    )
    assert "step_size is too large" in _refusal(long, x, y)
    before, after = short(x=x, y=y, queries=x[:2]), long(x=x, y=y, queries=x[:2], check=False)
    assert np.isfinite(before).all()
    assert not np.abs(after - before).max() < 1.0
    assert np.isfinite(once(x=x, y=y, queries=x[:2])).all()  # one step is compared with nothing


def test_steps_between_one_and_two_over_the_curvature_go_back_and_forth_and_converge() -> None:
    x, y = _counts(2, 3.0)
    x -= x.mean(axis=0)
    largest = np.linalg.eigvalsh(x.T @ x / len(x))[-1]
    built = _stack("least_squares", solver="gradient", step_size=1.9 / largest, steps=400)
    w, _ = built.network.fitted(x, y)
    assert np.abs(w - reference(x, y, built.network.constants)[0]).max() <= 1e-9


def test_rates_by_gradient_have_no_ceiling_that_is_not_said() -> None:
    x = np.linspace(-1, 1, 40)[:, None]
    y = np.round(np.exp(x[:, 0] + 1))
    built = _stack("poisson", 1, solver="gradient", response=True, steps=200, step_size=0.1)
    found = built(x=x, y=y, queries=[[1.0]])
    assert np.log(found) == pytest.approx(_stack("poisson", 1, solver="gradient", steps=200, step_size=0.1)(
        x=x, y=y, queries=[[1.0]]
    ))  # fmt: skip
    with pytest.raises(InvalidInput, match="ask with response=False"):
        built(x=x, y=y, queries=[[60.0]])


def test_chebyshev_takes_the_steps_that_the_data_ask_for_or_says_so() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 3))
    y = x @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=60)
    built = _stack("least_squares", solver="chebyshev")
    for closeness, answered in ((3e-2, True), (1e-4, False)):
        near = np.column_stack([x[:, 0], x[:, 0] + closeness * x[:, 1], x[:, 2]])
        if answered:
            w = built.network.fitted(near, y)[0]
            assert np.abs(w - reference(near, y, built.network.constants)[0]).max() <= 1e-7 * np.abs(w).max()
        else:
            assert "the steps were chosen for" in _refusal(built, near, y)
    with pytest.raises(InvalidInput, match="raise condition"):
        built(x=np.column_stack([x[:, 0], x[:, 0] + 3e-2 * x[:, 1], x[:, 2]]), y=y, queries=x[:2], adapt=False)


def test_an_inverse_that_nothing_refines_says_which_digits_it_lost() -> None:
    year = np.arange(1700.0, 2000.0)
    x, y = np.stack([year, year**2, year**3], axis=1), np.sin(year)
    assert "normal_equations, which refines" in _refusal(_stack("least_squares", solver="newton_schulz"), x, y)
    w, _ = _stack("least_squares").network.fitted(x, y)
    exact = np.polynomial.Polynomial.fit(year, y, 3).convert().coef[1:]
    assert np.abs(w / exact - 1.0).max() <= 1e-6


@pytest.mark.parametrize("method", ["least_squares", "logistic", "probit", "poisson", "gamma", "robust"])
def test_columns_that_depend_are_named_whatever_else_seems_to_be_wrong(method: str) -> None:
    rng = np.random.default_rng(4)
    kind = rng.integers(0, 3, 60)
    x = np.column_stack([rng.normal(size=60), np.eye(3)[kind]])
    y = (rng.random(60) < 0.5).astype(float) if method in ("logistic", "probit") else rng.gamma(2.0, 1.0, 60)
    built = _stack(method, 4, **({} if method == "least_squares" else {"penalty": 0.0}))
    said = _refusal(built, x, y)
    assert "column(s) 1, 2, 3 of x are linearly dependent" in said
    assert "separable" not in said
    assert np.isfinite(_stack(method, 3, penalty=0.0)(x=x[:, :3], y=y, queries=x[:2, :3])).all()


def test_weights_of_0_leave_columns_that_depend() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(60, 3))
    x[:50, 2] = x[:50, 0] - 2 * x[:50, 1]
    y, weights = x[:, 0] + rng.normal(size=60), (np.arange(60) < 50).astype(float)
    built = _stack("least_squares")
    assert np.isfinite(built(x=x, y=y, queries=x[:2])).all()
    with pytest.raises(InvalidInput, match=r"column\(s\) 0, 1, 2 of x are linearly dependent"):
        built(x=x, y=y, queries=x[:2], sample_weight=weights)


@pytest.mark.parametrize("bound", [1e3, 1e6, 2e9])
def test_digits_of_counts_do_not_depend_on_the_largest_that_is_allowed(bound: float) -> None:
    x, y = _counts(6, 5.0)
    built = _stack("negative_binomial", rate_bound=bound, penalty=0.0, loss_scale=0.5)
    w, b = reference(x, y, built.network.constants)
    found, constant = built.network.fitted(x, y)
    assert np.abs(found - w).max() <= 1e-10
    assert abs(constant - b) <= 1e-10


@pytest.mark.parametrize("units", [np.array([1.0, 1e3, 1e-5]), np.array([1.0, 1e150, 1e-150])])
def test_values_of_states_do_not_depend_on_units_of_features(units: np.ndarray) -> None:
    built = _stack("state_values", discount=0.99)
    x, y = random_design("state_values", 3, 60, 8)
    expected = exact_predictions(x, y, x[:6], built.network.constants)
    found = built(x=x * units, y=y, queries=x[:6] * units)
    assert np.abs(found - expected).max() <= 1e-10 * np.abs(expected).max()


def test_a_linear_iteration_says_what_it_leaves_and_not_only_how_it_moves() -> None:
    import torch

    from softwright.methods.guards import Guard

    states = [{"data": torch.tensor([[[1.0 - 0.999**k]]], dtype=torch.float64)} for k in (8000, 8001, 8002)]
    for wanted, refused in ((0.0, False), (2.0, True)):  # the last move is 3e-7, what is left 3e-4
        guard = Guard("settled", 0, 1e-6, "moves", "s", "s", ("data",), (), reach=2 if wanted else 1, wanted=wanted)
        if refused:
            with pytest.raises(InvalidInput, match="moves"):
                guard.look(states, {"s": (0, 1)})
        else:
            guard.look(states, {"s": (0, 1)})


def test_a_network_that_training_drives_apart_is_refused() -> None:
    rng = np.random.default_rng(9)
    x, y = 60.0 + 10 * rng.normal(size=(20, 3)), 17.0 + 5 * rng.normal(size=20)
    for steps in (10, 60):
        built = _stack("two_layer_network", rate=0.5, hidden=8, steps=steps)
        assert "take a smaller rate" in _refusal(built, x, y)


def test_a_mixture_says_what_its_covariance_lacks() -> None:
    built = _stack("gaussian_mixture")
    x, start = random_design("gaussian_mixture", 3, 40, 10)
    assert "no inverse; give more rows" in _refusal(built, x[:5], start[:5])
    x[:, 2] = np.arange(40) % 3 == 0  # one component has no spread in it
    start[6:] = np.where(np.arange(6, 40) % 3 == 0, 0, 1 + np.arange(6, 40) % 2)
    start[:6] = [0, 1, 2, 0, 1, 2]
    assert "no spread in some direction" in _refusal(built, x, start)


def test_a_series_that_does_not_vary_has_no_coefficients() -> None:
    times = np.arange(30.0)[:, None]
    assert "y does not vary" in _refusal(_stack("autoregression", 1), times, np.full(30, 3.0))
