"""`in_context`: a stack of attention layers that fits a statistical model to the observations in its prompt.

    method, number of features, constants  ->  layers  ->  stack  ->  bound of one step  ->  result

Nothing is fitted here: the weights depend on the arguments alone. The distance from the stack's answer to the true
solution is observed, on random designs that no constant was tuned to.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from softwright.attention import DTYPES
from softwright.attention.stack import check_blueprint
from softwright.errors import Faults, InvalidInput
from softwright.methods import glm
from softwright.methods.bilinear import ANGLES, ORDERS
from softwright.methods.chebyshev import chebyshev
from softwright.methods.gradient import gradient
from softwright.methods.lasso import admm, fista
from softwright.methods.link_bound import link_certificate
from softwright.methods.network import FitBlueprint, InContextStack
from softwright.methods.newton_schulz import Constants, newton_schulz
from softwright.methods.nonnegative import nonnegative
from softwright.methods.reference import observe
from softwright.methods.step_bound import gradient_certificate, group_certificate
from softwright.result.built import Built
from softwright.result.plan import Plan
from softwright.threads import one_thread

_SQUARES: dict[str, Callable[[Constants], FitBlueprint]] = {
    "newton_schulz": newton_schulz,
    "gradient": gradient,
    "chebyshev": chebyshev,
}
SOLVERS: dict[str, dict[str, Callable[[Constants], FitBlueprint]]] = {
    "least_squares": _SQUARES,
    "ridge": _SQUARES,
    "lasso": {"fista": fista, "admm": admm},
    "nonnegative_least_squares": {"projected_gradient": nonnegative},
    **{
        method: {
            "irls": lambda c, method=method: glm.reweighted(c, method),
            "gradient": lambda c, method=method: glm.descent(c, method),
        }
        for method in ("logistic", "poisson", "robust")
    },
}
METHODS = tuple(SOLVERS)
_GENERALISED = ("logistic", "poisson", "robust")
_TEXT = {
    "least_squares": "1/2 mean (y - w.x - b)^2",
    "ridge": "1/2 mean (y - w.x - b)^2 + penalty/2 |w|^2",
    "lasso": "1/2 mean (y - w.x - b)^2 + penalty |w|_1",
    "nonnegative_least_squares": "1/2 mean (y - w.x - b)^2 over w >= 0",
    "logistic": "mean log(1 + e^s) - y s + penalty/2 |w|^2, s = w.x + b",
    "poisson": "mean e^s - y s + penalty/2 |w|^2, s = w.x + b",
    "robust": "mean c^2 log cosh((y - w.x - b)/c) + penalty/2 |w|^2",
}
_CONDITION = {"lasso": 200.0, "nonnegative_least_squares": 200.0, **dict.fromkeys(_GENERALISED, 100.0)}
_POSITIVE = (
    "condition",
    "largest_eigenvalue",
    "feature_bound",
    "range_bound",
    "loss_scale",
    "rate_bound",
    "x_bound",
    "y_bound",
    "w_bound",
    "tolerance",
)
_MOST_CONDITION_FLOAT32 = 100.0


def in_context(
    method: str,
    features: int,
    *,
    solver: str | None = None,
    penalty: float | None = None,
    intercept: bool = True,
    scaling: bool | None = None,
    condition: float | None = None,
    steps: int | None = None,
    step_size: float | None = None,
    largest_eigenvalue: float | None = None,
    score_bound: float | None = None,
    feature_bound: float = 24.0,
    range_bound: float = 4.0,
    loss_scale: float = 1.0,
    rate_bound: float = 1e3,
    response: bool = False,
    x_bound: float = 8.0,
    y_bound: float = 8.0,
    w_bound: float = 8.0,
    max_rows: int = 1000,
    tolerance: float | None = None,
    order: int | None = None,
    angle: float | None = None,
    dtype: str = "float64",
    certify: bool = True,
    sample: bool = True,
) -> Built:
    """A stack whose prompt is observations (x_i, y_i), any number, and queries; its output are the predictions.

    method       least_squares, ridge, lasso, nonnegative_least_squares, logistic, poisson or robust
    solver       least squares and ridge: newton_schulz (default), gradient, chebyshev; lasso: fista (default), admm;
                 logistic, poisson, robust: irls (default), gradient
    penalty      of the mean loss: ridge alpha/n, lasso alpha, logistic 1/(C n) in scikit-learn's terms
    scaling      scale the features in context first; on unless the solver is gradient
    condition    the average over the smallest eigenvalue of the features' correlation matrix, penalty included: at most
                 its condition number. Sets the number of layers
    steps        layers or iterations, instead of what condition and tolerance ask for
    step_size    of gradient steps (1 over the largest eigenvalue unless given); of ADMM, its rho
    largest_eigenvalue   of the features' correlation matrix, of their covariance if scaling is off; features by default
    score_bound  bound of |x_i A^-1 x_j|, how much leverage a row or query may have; 10 * features by default, 1000 *
                 features for generalised linear models. For gradient descent of |x_i.x_j|, x_bound^2 by default
    feature_bound, range_bound   how far rows may lie from the mean in standard deviations, queries in ranges
    loss_scale   c of the robust loss;  rate_bound  the largest mean count of poisson
    response     logistic and poisson: return probabilities or rates instead of w.x + b
    x_bound, y_bound, w_bound, max_rows   the range of prompts that the certificate of a step speaks of
    order, angle   heads per sign of a bilinear group, and the largest score; see docs/in_context.md
    certify      prove a bound of one step (gradient descent, Newton-Schulz)
    sample       observe the distance to the exact solution on random designs
    """
    given = dict(locals())
    started = time.monotonic()
    faults = Faults("in_context")
    constants, settings = _settings(faults, given)
    faults.raise_if_any()
    if (
        dtype == "float32"
        and settings["solver"] in ("newton_schulz", "irls", "admm")
        and constants.condition > _MOST_CONDITION_FLOAT32
    ):
        warnings.warn(
            f"Newton-Schulz in float32 with condition {constants.condition:g}: beyond {_MOST_CONDITION_FLOAT32:g} its "
            "rounding errors are visible in the predictions; use dtype='float64' or a smaller condition",
            UserWarning,
            stacklevel=2,
        )
    blueprint = SOLVERS[method][settings["solver"]](constants)
    check_blueprint(blueprint)
    stack = InContextStack(blueprint, settings, DTYPES[dtype])
    target = {"kind": "in_context", "text": f"minimise {_TEXT[method]}", **settings}
    certificate, unproved = None, "not asked for"
    if certify:
        certificate, unproved = _certificate(stack, target)
    with one_thread():
        observed = observe(stack) if sample else None
    return Built(stack, _plan(stack, constants, time.monotonic() - started), target, observed, certificate, unproved)


def _settings(faults: Faults, given: dict[str, Any]) -> tuple[Constants, dict[str, Any]]:
    """The arguments with their defaults filled in; every fault is recorded."""
    method, d, dtype = given["method"], given["features"], given["dtype"]
    known = faults.check(method in SOLVERS, f"unknown method {method!r}; choose from {', '.join(METHODS)}")
    whole = isinstance(d, int | np.integer) and not isinstance(d, bool) and d >= 1
    if not faults.check(bool(whole), f"features must be a whole number of at least 1, got {d!r}"):
        d = 1
    d = int(d)
    solver = given["solver"]
    if known:
        solver = solver or next(iter(SOLVERS[method]))
        faults.check(
            solver in SOLVERS[method], f"{method} has no solver {solver!r}; choose from {', '.join(SOLVERS[method])}"
        )
    if not faults.check(dtype in DTYPES, f"unknown dtype {dtype!r}; choose from {', '.join(DTYPES)}"):
        dtype = "float64"
    descends = solver == "gradient"
    order = given["order"] or ((6 if descends else 4) if dtype == "float64" else (3 if descends else 2))
    faults.check(order in ORDERS, f"order must be one of {', '.join(map(str, ORDERS))}, got {order!r}")
    defaults: dict[str, Any] = {
        "penalty": {"ridge": 1e-2, "lasso": 1e-2, "logistic": 1e-3, "poisson": 1e-3}.get(method, 0.0),
        "scaling": not descends,
        "condition": _CONDITION.get(method, 1e3 if dtype == "float64" else 50.0),
        "largest_eigenvalue": float(d),
        "tolerance": 1e-12 if dtype == "float64" else 1e-6,
        "angle": 0.07 if descends and dtype == "float64" and order == 6 else None,  # for the sake of the bound
    }
    values = {**given, "features": d, "solver": solver, "order": order, "dtype": dtype}
    for name, value in defaults.items():
        if values[name] is None:
            values[name] = value
    for name in _POSITIVE:
        _positive(faults, name, values[name])
    for name in ("step_size", "score_bound", "angle"):
        if values[name] is not None:
            _positive(faults, name, values[name])
    for name in ("steps", "max_rows"):
        value = values[name]
        good = value is None or (isinstance(value, int) and value >= 1)
        faults.check(good, f"{name} must be a whole number of at least 1, got {value!r}")
    good = isinstance(values["penalty"], int | float) and math.isfinite(values["penalty"]) and values["penalty"] >= 0
    faults.check(good, f"penalty must be a number of 0 or more, got {values['penalty']!r}")
    fault = "poisson starts from the mean count, which takes an intercept; leave intercept on"
    faults.check(method != "poisson" or bool(values["intercept"]), fault)
    if method in ("ridge", "lasso"):
        faults.check(values["penalty"] != 0, f"{method} needs a penalty above 0; for none use least_squares")
    if method in ("least_squares", "nonnegative_least_squares"):
        faults.check(not values["penalty"], f"{method} has no penalty; use ridge or lasso")
    if faults.found:
        return _NOTHING, {}
    if values["score_bound"] is None:
        values["score_bound"] = float(
            values["x_bound"] ** 2 + 1 if descends else (1000.0 if method in _GENERALISED else 10.0) * d
        )
    if values["angle"] is None:
        values["angle"] = ANGLES[dtype][order]
    if descends and values["step_size"] is None:
        most = values["largest_eigenvalue"] * (math.sqrt(2.0) if values["scaling"] else 1.0)
        curvature = glm.CURVATURE.get(method, 1.0)
        values["step_size"] = 1.0 / (curvature * (most + (method in _GENERALISED)) + values["penalty"])
    names = {field: field for field in Constants.__dataclass_fields__} | {"given_angle": "angle"}
    constants = Constants(**{field: values[name] for field, name in names.items()})
    settings = {name: values[name] for name in given if name not in ("certify", "sample")}
    return constants, settings


_NOTHING = Constants(1, True, "float64", 1, True, 0.0, 1.0, 0.5, 1.0, 1.0, 1.0, 1, None, 1.0)


def _positive(faults: Faults, name: str, value: Any) -> None:
    good = (
        isinstance(value, int | float | np.number)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and value > 0
    )
    faults.check(bool(good), f"{name} must be a positive number, got {value!r}")


def _certificate(stack: InContextStack, target: dict[str, Any]) -> tuple[Any, str]:
    solver, method = stack.settings["solver"], stack.settings["method"]
    if solver == "gradient" and stack.settings["scaling"]:
        return None, "a step is proved for features as given; leave scaling off"
    if solver == "gradient" and method in _GENERALISED:
        try:
            return link_certificate(stack, target), ""
        except InvalidInput as error:  # a range without a bound is no fault of the stack
            return None, error.faults[0]
    if solver == "gradient":
        return gradient_certificate(stack, target), ""
    if solver == "newton_schulz":
        return group_certificate(stack, target), ""
    return None, f"a step of {method} by {solver} is not covered by the closed form; its error is observed"


def _plan(stack: InContextStack, constants: Constants, seconds: float) -> Plan:
    labels = [stack.layer_at(i).label for i in range(stack.depth)]
    heads = []
    for layer in dict.fromkeys(stack.program):
        module = stack.layers[layer]
        heads.append({"layer": module.label, "times": stack.program.count(layer), "heads": module.heads})
    reasons = [
        f"condition {constants.condition:g} and tolerance {constants.tolerance:g} set the depth"
        if constants.steps is None
        else f"{constants.steps} steps were asked for",
        f"{stack.head} layer(s) prepare the prompt: {', '.join(dict.fromkeys(labels[: stack.head]))}",
        f"bilinear groups of {2 * constants.order} heads with scores up to {constants.angle:g} "
        f"for products up to {constants.score_bound:g}",
    ]
    tokens = sum(getattr(stack, f"base_{name}").shape[0] for name, source in stack.sources.items() if source == "fixed")
    return Plan(
        strategy=str(stack.settings["solver"]),
        tolerance=0.0,
        heads=heads,
        tokens=tokens,
        parameters=stack.parameter_count,
        dtype=constants.dtype,
        seconds=seconds,
        reasons=reasons,
    )
