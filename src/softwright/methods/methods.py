"""METHODS: one row per method that a stack can fit in context, with everything that is known of it.

A row says what is minimised, by which solvers, for which y, how the exact solution is found that stacks are measured
against, and which estimator of scikit-learn answers the same question. Arguments and their defaults, checks of
prompts, figures, the estimators, the command and the documentation read these rows, and nothing else knows a method by
its name. `tests/contracts/test_methods.py` runs over all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from torch import Tensor

from softwright.errors import Faults
from softwright.methods import classical, losses
from softwright.methods.answers.rows import FURTHER
from softwright.methods.chebyshev import chebyshev
from softwright.methods.constants import Constants
from softwright.methods.glm import Family, default_step, descent, reweighted
from softwright.methods.gradient import gradient
from softwright.methods.lasso import admm, fista, projected_gradient
from softwright.methods.link_bound import link_certificate
from softwright.methods.links import EXP, SIGMOID, TANH, log_logistic_curvature, log_tanh_ratio
from softwright.methods.losses import sigmoid
from softwright.methods.newton_schulz import newton_schulz
from softwright.methods.row import Method, Peer, Solver, noisy
from softwright.methods.solution.certificate import solution_certificate
from softwright.methods.solvers import curves
from softwright.methods.solvers.dependence import dependence
from softwright.methods.solvers.newton import Curve, damped_newton
from softwright.methods.solvers.normal_equations import normal_equations
from softwright.methods.step_bound import gradient_certificate, group_certificate

_FLOAT32_CONDITION = 100.0  # beyond, the rounding errors of Newton and Schulz's iteration show in the predictions


def _check_labels(name: str) -> Callable[[Tensor, Constants, Faults], None]:
    def check(y: Tensor, constants: Constants, faults: Faults) -> None:
        faults.check(bool(((y == 0) | (y == 1)).all()), f"{name} needs labels 0 and 1 in y")
        mean = y.mean(dim=-1)
        faults.check(bool(((mean > 0) & (mean < 1)).all()), f"{name} needs both labels in y; there is only one")

    return check


def _check_counts(name: str) -> Callable[[Tensor, Constants, Faults], None]:
    def check(y: Tensor, constants: Constants, faults: Faults) -> None:
        faults.check(bool((y >= 0).all()), f"{name} needs counts, 0 or more, in y")
        some = bool((y.sum(dim=-1) > 0).all())
        faults.check(some, f"{name} needs a count above 0; with all counts 0 the rate has no finite log")

    return check


def _check_positive(y: Tensor, constants: Constants, faults: Faults) -> None:
    faults.check(bool((y > 0).all()), "gamma needs numbers above 0 in y")


def newton(curve: Curve) -> dict[str, Solver]:
    """Damped Newton steps of a generalised linear model."""
    build = lambda c: damped_newton(c, curve)  # noqa: E731
    return {"newton": Solver(build, float32_condition=_FLOAT32_CONDITION, precise=True, usual_steps=curve.steps)}


def generalised(family: Family, curve: Curve | None = None) -> dict[str, Solver]:
    """The solvers of a generalised linear model."""
    return {
        **({} if curve is None else newton(curve)),
        "irls": Solver(lambda c: reweighted(c, family), float32_condition=_FLOAT32_CONDITION, usual_steps=family.steps),
        "gradient": Solver(
            lambda c: descent(c, family),
            lambda stack, target: link_certificate(stack, target, family),
            default_step=lambda c: default_step(c, family),
        ),
    }


def _check_robust_size(y: Tensor, constants: Constants, faults: Faults) -> None:
    """tanh of residuals over c is right to an absolute error; far below c nothing is left of it, nor of robustness."""
    if not y.numel():
        return
    spread = float((y.amax(dim=-1) - y.amin(dim=-1)).amax()) if constants.intercept else float(y.abs().amax())
    small = 0 < spread < 2.0**-31 * constants.loss_scale
    faults.check(
        not small,
        f"y varies by {spread:.2g}, far less than loss_scale ({constants.loss_scale:g}), where the loss is that of "
        "least squares; lower loss_scale, or use least_squares or ridge",
    )


def _check_independent(x: Tensor, queries: Tensor, constants: Constants, faults: Faults) -> None:
    """Without a penalty, features whose correlation matrix is singular to all its digits have no coefficients."""
    if constants.penalty == 0:
        why = dependence(x.reshape(-1, *x.shape[-2:]), None, constants, _DEPENDENT)
        faults.check(not why, why)


_DEPENDENT = {"float64": 1e-6, "float32": 1e-3}  # smallest over largest singular value
_SQUARES = {
    "normal_equations": Solver(normal_equations, solution_certificate, _FLOAT32_CONDITION, precise=True),
    "newton_schulz": Solver(newton_schulz, group_certificate, _FLOAT32_CONDITION),
    "gradient": Solver(gradient, gradient_certificate, default_step=lambda c: 1.0 / (c.most + c.penalty)),
    "chebyshev": Solver(chebyshev),
}
_EXACTLY = {"tol": 1e-12, "max_iter": 100_000, "solver": "newton-cholesky"}

_ROWS = (
    Method(
        name="least_squares",
        objective="1/2 mean (y - w.x - b)^2",
        solvers=_SQUARES,
        loss=losses.SQUARES,
        exact=classical.least_squares,
        design=noisy(0.5),
        penalised=False,
        peer=Peer("sklearn.linear_model:LinearRegression", lambda n, c: {}, ""),
    ),
    Method(
        name="ridge",
        objective="1/2 mean (y - w.x - b)^2 + penalty/2 |w|^2",
        solvers=_SQUARES,
        loss=losses.SQUARES,
        exact=classical.least_squares,
        design=noisy(0.5),
        defaults={"penalty": 1e-2},
        penalised=True,
        peer=Peer("sklearn.linear_model:Ridge", lambda n, c: {"alpha": n * c.penalty, "tol": 1e-12}, "alpha=n*penalty"),
    ),
    Method(
        name="lasso",
        y_units="times",
        objective="1/2 mean (y - w.x - b)^2 + penalty |w|_1",
        solvers={"fista": Solver(fista), "admm": Solver(admm, float32_condition=_FLOAT32_CONDITION)},
        loss=losses.SQUARES,
        exact=classical.coordinate_descent,
        design=noisy(0.5),
        defaults={"penalty": 1e-2, "condition": 200.0},
        penalised=True,
        penalty_power=1,
        needs_rows=False,
        peer=Peer(
            "sklearn.linear_model:Lasso",
            lambda n, c: {"alpha": c.penalty, "tol": 1e-14, "max_iter": 1_000_000},
            "alpha=penalty",
        ),
    ),
    Method(
        name="nonnegative_least_squares",
        y_units="times",
        objective="1/2 mean (y - w.x - b)^2 over w >= 0",
        solvers={"projected_gradient": Solver(projected_gradient)},
        loss=losses.SQUARES,
        exact=classical.nonnegative_least_squares,
        design=noisy(0.0),
        defaults={"condition": 200.0},
        penalised=False,
        nonnegative=True,
        needs_rows=False,
        peer=Peer("sklearn.linear_model:LinearRegression", lambda n, c: {"positive": True}, "positive=True"),
    ),
    Method(
        name="logistic",
        objective="mean log(1 + e^s) - y s + penalty/2 |w|^2, s = w.x + b",
        solvers=generalised(
            Family(
                link=SIGMOID,
                argument=lambda scale: {"s": Fraction(1)},
                slope=lambda scale: {"G": Fraction(1), "y": Fraction(-1)},
                curvature=0.25,
                log_weight=log_logistic_curvature,
                start="zero",
                steps=19,
                unsettled="the classes may be separable, which has no finite solution without a penalty; "
                "raise penalty, steps or condition",
                leverage=": are the classes separable?",
            ),
            curves.LOGISTIC,
        ),
        loss=losses.LOGISTIC,
        exact=classical.newton,
        design=lambda rng, s: (rng.random(len(s)) < sigmoid(s)).astype(float),
        defaults={"penalty": 1e-3, "condition": 100.0},
        leverage=1000.0,
        check=_check_labels("logistic"),
        peer=Peer(
            "sklearn.linear_model:LogisticRegression",
            lambda n, c: {"C": 1 / (n * c.penalty), **_EXACTLY} if c.penalty > 0 else None,
            "C=1/(n*penalty)",
        ),
    ),
    Method(
        name="poisson",
        y_units="log",
        objective="mean e^s - y s + penalty/2 |w|^2, s = w.x + b",
        solvers=generalised(
            Family(
                link=EXP,
                argument=lambda scale: {"s": Fraction(1)},
                slope=lambda scale: {"G": Fraction(1), "y": Fraction(-1)},
                curvature=None,
                log_weight=None,
                start="log mean",
                steps=16,
                careful=lambda steps: min(4, steps),
                unsettled="raise steps, rate_bound (the mean count) or condition",
            ),
            curves.POISSON,
        ),
        loss=losses.POISSON,
        exact=classical.newton,
        design=lambda rng, s: rng.poisson(np.exp(0.7 * s + 1.0)).astype(float),
        defaults={"penalty": 1e-3, "condition": 100.0},
        needs_intercept="poisson starts from the mean count, which takes an intercept",
        leverage=1000.0,
        check=_check_counts("poisson"),
        peer=Peer(
            "sklearn.linear_model:PoissonRegressor", lambda n, c: {"alpha": c.penalty, **_EXACTLY}, "alpha=penalty"
        ),
    ),
    Method(
        name="gamma",
        y_units="log",
        objective="mean y e^-s + s + penalty/2 |w|^2, s = w.x + b",
        solvers=newton(curves.GAMMA),
        loss=losses.GAMMA,
        exact=classical.newton,
        design=lambda rng, s: rng.gamma(4.0, np.exp(0.5 * s + 0.5) / 4.0),
        defaults={"penalty": 1e-3, "condition": 100.0},
        check=_check_positive,
        peer=Peer(
            "sklearn.linear_model:GammaRegressor", lambda n, c: {"alpha": c.penalty, **_EXACTLY}, "alpha=penalty"
        ),
    ),
    Method(
        name="negative_binomial",
        objective="mean (y + 1/c) log(1 + c e^s) - y s + penalty/2 |w|^2, s = w.x + b",
        solvers=newton(curves.NEGATIVE_BINOMIAL),
        loss=losses.NEGATIVE_BINOMIAL,
        exact=classical.newton,
        design=lambda rng, s: rng.poisson(np.exp(0.5 * s + 1.0) * rng.gamma(2.0, 0.5, len(s))).astype(float),
        defaults={"penalty": 1e-3, "condition": 100.0},
        check=_check_counts("negative_binomial"),
    ),
    Method(
        name="probit",
        objective="mean -log Phi((2y - 1) s) + penalty/2 |w|^2, s = w.x + b",
        solvers=newton(curves.PROBIT),
        loss=losses.PROBIT,
        exact=classical.newton,
        design=lambda rng, s: (rng.normal(size=len(s)) < s).astype(float),
        defaults={"penalty": 1e-3, "condition": 100.0},
        check=_check_labels("probit"),
    ),
    Method(
        name="robust",
        check_size=_check_robust_size,
        resolved=_check_independent,
        objective="mean c^2 log cosh((y - w.x - b)/c) + penalty/2 |w|^2",
        solvers=generalised(
            Family(
                link=TANH,
                argument=lambda scale: {"s": 1 / scale, "y": -1 / scale},
                slope=lambda scale: {"G": scale},
                curvature=1.0,
                log_weight=log_tanh_ratio,
                start="mean",
                steps=60,
                careful=lambda steps: steps // 2,
                majorised=True,
                unsettled="raise steps, condition or loss_scale",
                leverage=": are there outliers far beyond loss_scale? raise that",
            )
        ),
        loss=losses.LOG_COSH,
        exact=classical.newton,
        design=noisy(0.5),
        defaults={"condition": 100.0},
        leverage=1000.0,
    ),
)
METHODS: dict[str, Method] = {row.name: row for row in (*_ROWS, *FURTHER)}
