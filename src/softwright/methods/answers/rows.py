"""Rows of METHODS whose answers are not one linear function of the features: several numbers, neighbours, kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import Tensor

from softwright.errors import Faults
from softwright.methods.answers.autoregression import autoregression, check_times, exact_autoregression, timed
from softwright.methods.answers.averaging import METHODS_LISTED, averaging, check_marks, exact_averaging, marked
from softwright.methods.answers.bayesian import bayesian_ridge, exact_bayesian_ridge, finish
from softwright.methods.answers.clusters import STEPS, exact_k_means, k_means
from softwright.methods.answers.components import exact_components, principal_components
from softwright.methods.answers.kalman import check_series, exact_kalman, in_order, kalman
from softwright.methods.answers.kernel import exact_kernel_ridge, exact_nadaraya_watson, kernel_ridge, nadaraya_watson
from softwright.methods.answers.mixture import STEPS as STEPS_EM
from softwright.methods.answers.mixture import exact_mixture, gaussian_mixture, grouped
from softwright.methods.answers.multinomial import exact_multinomial, multinomial
from softwright.methods.answers.neighbours import exact_neighbours, nearest_neighbours
from softwright.methods.answers.resolution import few_bandwidths, neighbours_apart, small_numbers, weights_apart
from softwright.methods.answers.temporal_difference import STEPS as STEPS_TD
from softwright.methods.answers.temporal_difference import check_trajectory, exact_values, lstd, td
from softwright.methods.answers.two_layers import STEPS as STEPS_NETWORK
from softwright.methods.answers.two_layers import exact_two_layers, two_layers
from softwright.methods.constants import Constants
from softwright.methods.row import Method, Option, Peer, Solver, noisy

_BANDWIDTH = Option(1.0, 1e-150, "h, in the units of the features")


def _check_classes(y: Tensor, constants: Constants, faults: Faults) -> None:
    count = int(constants.option("classes"))
    whole = bool(((y == y.round()) & (y >= 0) & (y < count)).all())
    faults.check(whole, f"multinomial needs labels 0, 1, .., K-1 in y, here up to {count - 1}; give classes=K")


def _check_varies(y: Tensor, constants: Constants, faults: Faults) -> None:
    same = bool((y == y[..., :1]).all(dim=-1).any()) if y.numel() else False
    faults.check(not same, "y does not vary, so that its past has no coefficients: every forecast is that number")


def _check_starts(name: str, option: str) -> Callable[[Tensor, Constants, Faults], None]:
    """Labels of the rows that begin a cluster: whole, known, and one row at least for each."""

    def check(y: Tensor, constants: Constants, faults: Faults) -> None:
        count = int(constants.option(option))
        whole = bool(((y == y.round()) & (y >= -1) & (y < count)).all())
        faults.check(whole, f"{name} needs 0, .., {count - 1} in y at rows that begin a cluster, -1 at all others")
        missing = [str(k) for k in range(count) if not bool((y == k).any(dim=-1).all())]
        faults.check(
            not missing, f"{name}: no row begins cluster(s) {', '.join(missing[:8])}; mark one with its number in y"
        )

    return check


def _check_mixture(y: Tensor, constants: Constants, faults: Faults) -> None:
    """Rows about K means span n - K dimensions, and with fewer than all the covariance has no inverse."""
    _check_starts("gaussian_mixture", "components")(y, constants, faults)
    count = int(constants.option("components"))
    enough = y.shape[-1] >= constants.features + count
    faults.check(
        enough, f"{y.shape[-1]} rows about {count} means leave the covariance of {constants.features} columns no "
        "inverse; give more rows, or fewer components",
    )  # fmt: skip


FURTHER = (
    Method(
        name="bayesian_ridge",
        posterior=True,
        varying=0,
        objective="posterior of y at x: w normal with variance noise^2/(n penalty), b flat",
        solvers={"normal_equations": Solver(bayesian_ridge, precise=True)},
        design=noisy(0.5),
        answers=exact_bayesian_ridge,
        columns=lambda c: ("mean", "variance"),
        finish=finish,
        options={"noise": Option(1.0, 1e-150, "standard deviation of an observation")},
        defaults={"penalty": 1e-2},
        penalised=True,
        needs_intercept="the mean has a flat prior",
        weights="counts",
        peer=Peer("sklearn.linear_model:Ridge", lambda n, c: None, "alpha=n*penalty"),
    ),
    Method(
        name="multinomial",
        varying=0,
        objective="probabilities of K classes: mean log sum_k e^(s_k) - s_y + penalty/2 |w|^2",
        solvers={"majorised": Solver(multinomial, float32_condition=100.0, precise=True)},
        design=lambda rng, s: np.digitize(s + 0.5 * rng.normal(size=len(s)), [-0.5, 0.5]).astype(float),
        answers=exact_multinomial,
        columns=lambda c: tuple(f"class {k}" for k in range(int(c.option("classes")))),
        options={"classes": Option(3, 2, "K; y holds 0, 1, .., K-1", whole=True)},
        defaults={"penalty": 1e-2, "accuracy": 1e-9},
        needs_rows=False,
        check=_check_classes,
        peer=Peer("sklearn.linear_model:LogisticRegression", lambda n, c: None, "C=1/(n*penalty)"),
    ),
    Method(
        name="autoregression",
        varying=1,
        y_units="times",
        objective="least squares of y at time t (the first column) on y at t-1, .., t-p and on the other columns",
        solvers={"normal_equations": Solver(autoregression, float32_condition=100.0, precise=True)},
        design=noisy(0.5),
        arranged=timed,
        answers=exact_autoregression,
        options={"lags": Option(2, 1, "p, how many past values count", whole=True)},
        defaults={"x_bound": 1024.0},
        penalised=False,
        follows=slice(0, 1),
        check_size=_check_varies,
        check_rows=check_times,
    ),
    Method(
        name="kalman",
        weights="none",
        objective="mean and variance of y_t from y before t; y_t = s_t + noise, s_t = phi s_{t-1} + noise; time in x",
        solvers={"scan": Solver(kalman, precise=True)},
        design=lambda rng, s: np.cumsum(0.5 * rng.normal(size=len(s))) + s,
        arranged=in_order,
        answers=exact_kalman,
        columns=lambda c: ("mean", "variance"),
        options={
            "persistence": Option(1.0, 1e-6, "phi", most=1.0),
            "process": Option(1.0, 0.0, "q, the variance of the state's noise"),
            "noise": Option(1.0, 1e-300, "r, the variance of an observation"),
            "prior": Option(1e4, 1e-300, "p, the variance of the state at the first time; its mean is 0"),
        },
        defaults={"x_bound": 511.0},
        penalised=False,
        needs_rows=False,
        scaled=False,
        takes=1,
        check_rows=check_series,
    ),
    Method(
        name="state_values",
        objective="w.phi with sum_t phi_t (phi_t - gamma phi_{t+1}).w = sum_t phi_t r_t; time, phi in x, r in y",
        solvers={
            "lstd": Solver(lstd, float32_condition=100.0, precise=True),
            "td": Solver(td, precise=True, usual_steps=STEPS_TD),
        },
        design=noisy(0.5),
        arranged=timed,
        answers=exact_values,
        options={"discount": Option(0.9, 0.0, "gamma")},
        defaults={"condition": 1e4, "x_bound": 1024.0},
        penalised=False,
        follows=slice(0, 1),
        free=slice(1, None),
        needs_rows=False,
        check_rows=check_trajectory,
    ),
    Method(
        name="nadaraya_watson",
        lengths=("bandwidth",),
        resolved=weights_apart,
        objective="mean of y with weights e^(-|x - x_j|^2/(2 h^2))",
        solvers={"softmax": Solver(nadaraya_watson, precise=True)},
        design=noisy(0.5),
        answers=exact_nadaraya_watson,
        options={"bandwidth": _BANDWIDTH},
        penalised=False,
        needs_rows=False,
        scaled=False,
        peer=Peer("sklearn.neighbors:KNeighborsRegressor", lambda n, c: None, "n, weights=e^(-d^2/2h^2)"),
    ),
    Method(
        name="nearest_neighbours",
        lengths=(),
        resolved=neighbours_apart,
        weights="positive",
        objective="mean of y over the k nearest observations",
        solvers={"rounds": Solver(nearest_neighbours, precise=True)},
        design=noisy(0.5),
        answers=exact_neighbours,
        options={"neighbours": Option(5, 1, "k, how many observations count", whole=True)},
        penalised=False,
        needs_rows=False,
        scaled=False,
        peer=Peer("sklearn.neighbors:KNeighborsRegressor", lambda n, c: None, "k"),
    ),
    Method(
        name="principal_components",
        lengths=(),
        answers_x=True,
        objective="projection of x on the k leading components of the observations",
        solvers={"purification": Solver(principal_components, precise=True)},
        design=noisy(0.5),
        answers=exact_components,
        columns=lambda c: tuple(f"x{p}" for p in range(c.features)),
        options={"components": Option(1, 1, "k, how many components count", whole=True)},
        penalised=False,
        needs_rows=False,
        scaled=False,
        peer=Peer("sklearn.decomposition:PCA", lambda n, c: None, "k, inverse_transform(transform(x))"),
    ),
    Method(
        name="k_means",
        lengths=(),
        answers_x=True,
        check=_check_starts("k_means", "clusters"),
        objective="the centre of x by Lloyd's iteration; y = 0, .., K-1 marks rows that begin a cluster, -1 the others",
        solvers={"lloyd": Solver(k_means, precise=True, usual_steps=STEPS)},
        design=lambda rng, s: np.where(np.arange(len(s)) < 6, np.arange(len(s)) % 3, -1.0),
        answers=exact_k_means,
        columns=lambda c: tuple(f"x{p}" for p in range(c.features)),
        options={"clusters": Option(3, 1, "K, how many clusters", whole=True)},
        penalised=False,
        needs_rows=False,
        scaled=False,
        peer=Peer("sklearn.cluster:KMeans", lambda n, c: None, "K, init=the same start"),
    ),
    Method(
        name="gaussian_mixture",
        varying=0,
        check=_check_mixture,
        objective="shares of K Gaussians of one covariance, by EM; y = 0, .., K-1 marks rows that begin one, -1 others",
        solvers={"em": Solver(gaussian_mixture, float32_condition=100.0, precise=True, usual_steps=STEPS_EM)},
        design=lambda rng, s: np.where(np.arange(len(s)) < 6, np.arange(len(s)) % 3, -1.0),
        arranged=grouped,
        answers=exact_mixture,
        columns=lambda c: tuple(f"component {k}" for k in range(int(c.option("components")))),
        options={"components": Option(3, 1, "K, how many Gaussians", whole=True)},
        defaults={"condition": 100.0},
        penalised=False,
        needs_rows=False,
        leverage=100.0,
        peer=Peer("sklearn.mixture:GaussianMixture", lambda n, c: None, "K, covariance_type='tied', the same start"),
    ),
    Method(
        name="kernel_ridge",
        lengths=("bandwidth",),
        resolved=few_bandwidths,
        objective="1/2 mean (y - f - b)^2 + penalty/2 |f|_k^2, b the mean of y, k = e^(-|x - x'|^2/(2 h^2))",
        solvers={"richardson": Solver(kernel_ridge, precise=True)},
        design=noisy(0.5),
        answers=exact_kernel_ridge,
        options={"bandwidth": _BANDWIDTH},
        defaults={"penalty": 1e-2},
        penalised=True,
        needs_rows=False,
        scaled=False,
        peer=Peer(
            "sklearn.kernel_ridge:KernelRidge", lambda n, c: None, "kernel='rbf', alpha=n*penalty, gamma=1/(2h^2)"
        ),
    ),
    Method(
        name="two_layer_network",
        resolved=small_numbers,
        objective="sum_h a_h tanh(w_h.x + b_h) after gradient steps on 1/2 mean (y - f)^2, from weights drawn by seed",
        solvers={"gradient_steps": Solver(two_layers, precise=True, usual_steps=STEPS_NETWORK)},
        design=noisy(0.5),
        answers=exact_two_layers,
        options={
            "hidden": Option(4, 1, "H, how many hidden units", whole=True, most=64),
            "rate": Option(0.1, 1e-12, "the size of a step"),
            "seed": Option(0, 0, "of the weights at the start", whole=True),
        },
        penalised=False,
        needs_rows=False,
        scaled=False,
    ),
    Method(
        name="averaging",
        varying=1,
        as_given=True,
        objective="sum_k p_k f_k, p = softmax(-e/temperature), e_k how far method k misses rows that x marks with 1",
        solvers={"votes": Solver(averaging, precise=True)},
        design=noisy(0.5),
        arranged=marked,
        answers=exact_averaging,
        options={
            "methods": Option(METHODS_LISTED, 0, "the list, each with its penalty or bandwidth"),
            "temperature": Option(0.1, 1e-100, "of the mean squared error; small ones choose the best"),
        },
        penalised=False,
        needs_rows=False,
        follows=slice(1, None),
        follows_y=True,
        check_rows=check_marks,
        peer=Peer("sklearn.linear_model:Ridge", lambda n, c: None, "each method, weights e^(-mse/temperature)"),
    ),
)
