"""`in_context`: a stack of attention layers that fits a statistical model to the observations in its prompt.

    method, number of features, constants  ->  layers  ->  stack  ->  bound of the distance, or of one step  ->  result

Nothing is fitted here: the weights depend on the arguments alone. The distance from the stack's answer to the true
solution is observed, on random designs that no constant was tuned to; for least squares and ridge by the normal
equations it is also proved, for a set of prompts (`solution`).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from softwright.attention.stack import check_blueprint
from softwright.errors import Faults, InvalidInput
from softwright.methods.bilinear import ANGLES
from softwright.methods.constants import Constants, check, plain
from softwright.methods.gradient import DEFAULT_STEPS
from softwright.methods.methods import METHODS, Method, Solver
from softwright.methods.network import InContextStack
from softwright.methods.reference import observe
from softwright.precision import FLOAT64, Dtype, precision_of
from softwright.progress import Progress, reporting
from softwright.result.built import Built
from softwright.result.closed_form import ClosedForm
from softwright.result.outcome import Outcome
from softwright.result.plan import Plan
from softwright.threads import one_thread


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
    x_bound: float | None = None,
    y_bound: float = 8.0,
    w_bound: float = 8.0,
    max_rows: int = 1000,
    accuracy: float | None = None,
    order: int | None = None,
    angle: float | None = None,
    dtype: Dtype = "float64",
    certify: bool = True,
    sample: bool = True,
    progress: Progress = None,
    tolerance: None = None,
    **options: float | str,
) -> Built[InContextStack]:
    """A stack whose prompt is observations (x_i, y_i), any number, and queries; its output are the predictions.

    method       what is fitted; METHODS below
    solver       how; the first that METHODS lists unless given
    penalty      of the mean loss: ridge alpha/n, lasso alpha, logistic 1/(C n) in scikit-learn's terms
    scaling      scale the features in context first; on unless the solver is gradient
    condition    the average over the smallest eigenvalue of the features' correlation matrix, penalty included: at most
                 its condition number. Sets the number of layers
    steps        layers or iterations, instead of what condition and accuracy ask for
    step_size    of gradient steps (1 over the largest eigenvalue unless given); of ADMM, its rho
    largest_eigenvalue   of the features' correlation matrix, of their covariance if scaling is off; features by default
    score_bound  bound of |x_i A^-1 x_j|, how much leverage a row or query may have; 10 * features by default, 1000 *
                 features for generalised linear models. For gradient descent of |x_i.x_j|, x_bound^2 by default
    feature_bound, range_bound   how far rows may lie from the mean in standard deviations, queries in ranges
    loss_scale   c of the robust loss, and the dispersion of negative_binomial
    rate_bound   the largest mean count of poisson by irls, the largest count of negative_binomial
    response     generalised linear models: return probabilities or rates instead of w.x + b
    x_bound, y_bound, w_bound, max_rows   the range of prompts that the certificate of a step speaks of
    accuracy     what the iteration is to leave of the error at its start; 1e-12 in float64, 1e-6 in float32
    order, angle   heads per sign of a bilinear group, and the largest score; see docs/in_context.md
    dtype        float64 or float32, by name or as a torch.dtype
    certify      prove the distance to the exact solution (normal equations), or a bound of one step (gradient descent,
                 Newton-Schulz); for one prompt: built.certify_at(x, y, queries)
    sample       observe the distance to the exact solution on random designs
    progress     None: shown if it takes long; False: never; or a function that is given each message
    options      arguments of one method alone, listed with it below
    """
    started = time.monotonic()
    faults = Faults("in_context")
    faults.check(tolerance is None, "tolerance is called accuracy now; give accuracy=")
    given = {
        "method": method, "features": features, "solver": solver, "penalty": penalty, "intercept": intercept,
        "scaling": scaling, "condition": condition, "steps": steps, "step_size": step_size,
        "largest_eigenvalue": largest_eigenvalue, "score_bound": score_bound, "feature_bound": feature_bound,
        "range_bound": range_bound, "loss_scale": loss_scale, "rate_bound": rate_bound, "response": response,
        "x_bound": x_bound, "y_bound": y_bound, "w_bound": w_bound, "max_rows": max_rows, "accuracy": accuracy,
        "order": order, "angle": angle, "dtype": dtype, "options": options,
    }  # fmt: skip
    constants = _settled(given, faults)
    chosen = METHODS[constants.method].solvers[constants.solver]
    if constants.dtype == "float32" and constants.condition > chosen.float32_condition:
        warnings.warn(
            f"Newton-Schulz in float32 with condition {constants.condition:g}: beyond {chosen.float32_condition:g} its "
            "rounding errors are visible in the predictions; use dtype='float64' or a smaller condition",
            UserWarning,
            stacklevel=2,
        )
    with reporting(progress, "building the stack") as say:
        blueprint = chosen.build(constants)
        check_blueprint(blueprint, constants.dtype)
        stack = InContextStack(blueprint, constants, precision_of(constants.dtype).torch_dtype)
        target = {"kind": stack.kind, "text": METHODS[method].text, **constants.stored()}
        certificate, unproved = None, Outcome.NOT_ASKED.value
        if certify:
            say("proving a bound")
            certificate, unproved = _certificate(chosen, stack, target)
        observed = None
        if sample:
            say(f"comparing {stack.depth} layers with the exact solution")
            with one_thread():
                observed = observe(stack)
    return Built(stack, _plan(stack, started, certificate), target, observed, certificate, unproved)


in_context.__doc__ = (
    f"{in_context.__doc__}\n    METHODS\n"
    + "".join(
        f"    {row.name}: {row.objective}; by {', '.join(row.solvers)}\n"
        + "".join(
            f"        {name}: {option.meaning}; {option.shown} by default\n" for name, option in row.options.items()
        )
        for row in METHODS.values()
    )
    + "    "
)


def _settled(given: Mapping[str, Any], faults: Faults) -> Constants:
    """The arguments with their defaults filled in; all faults are raised together."""
    values = {name: plain(value) for name, value in given.items()}
    known = isinstance(values["method"], str) and values["method"] in METHODS
    faults.check(known, f"unknown method {values['method']!r}; choose from {', '.join(METHODS)}")
    row = METHODS[values["method"]] if known else next(iter(METHODS.values()))
    name = values["solver"] or next(iter(row.solvers))
    found = isinstance(name, str) and name in row.solvers
    faults.check(found or not known, f"{row.name} has no solver {name!r}; choose from {', '.join(row.solvers)}")
    values["solver"] = name if found else next(iter(row.solvers))
    solver = row.solvers[values["solver"]]
    values["options"] = _options(row, values["options"], faults if known else Faults("in_context"))
    values["dtype"] = (faults.take(precision_of, values["dtype"]) or FLOAT64).name
    _fill(values, row, solver)
    check({name: value for name, value in values.items() if value is not None}, faults)
    if known:
        _check_method(values, row, faults)
    faults.raise_if_any()
    if values["score_bound"] is None:
        leverage = row.leverage * values["features"]
        values["score_bound"] = float(leverage if solver.default_step is None else values["x_bound"] ** 2 + 1)
    if values["angle"] is None:
        values["angle"] = ANGLES[values["dtype"]][values["order"]]
    constants = Constants(**values)
    if solver.default_step is not None and constants.step_size is None:
        constants = replace(constants, step_size=solver.default_step(constants))
    return constants


def _options(row: Method, given: Mapping[str, Any], faults: Faults) -> tuple[tuple[str, Any], ...]:
    """The arguments of one method alone, with their defaults."""
    foreign = ", ".join(sorted(given.keys() - row.options.keys()))
    own = f"its own are {', '.join(row.options)}" if row.options else "it has none of its own"
    faults.check(not foreign, f"{row.name} takes no argument {foreign}; {own}")
    values = []
    for name, option in row.options.items():
        value = plain(given.get(name, option.default))
        fault = option.fault(name, value)
        faults.check(not fault, fault)
        values.append((name, int(value) if option.whole and not fault else value))
    return tuple(values)


def _fill(values: dict[str, Any], row: Method, solver: Solver) -> None:
    """The defaults that depend on the method, the solver and the dtype alone."""
    double, descends = values["dtype"] == "float64", solver.default_step is not None
    precise = descends or (solver.precise and double)
    if values["order"] is None:
        values["order"] = (6 if precise else 4) if double else (3 if precise else 2)
    defaults = {
        "penalty": 0.0,
        "scaling": row.scaled and not descends,
        "condition": 1e3 if double else 50.0,
        "accuracy": 1e-12 if double else 1e-6,
        "x_bound": 8.0,
        "angle": 0.07 if precise and double and values["order"] == 6 else None,  # for the sake of the bound
        **row.defaults,
    }
    if isinstance(values["features"], int):
        defaults["largest_eigenvalue"] = float(max(values["features"], 1))
    for name, value in defaults.items():
        if values[name] is None:
            values[name] = value


def _check_method(values: Mapping[str, Any], row: Method, faults: Faults) -> None:
    faults.check(not row.needs_intercept or bool(values["intercept"]), f"{row.needs_intercept}; leave intercept on")
    fits = row.takes is None or values["features"] == row.takes
    faults.check(fits, f"{row.name} takes {row.takes} column(s) in x; give features={row.takes}")
    faults.check(row.scaled or not values["scaling"], f"{row.name} takes features as given; leave scaling off")
    if row.penalised is True:
        faults.check(values["penalty"] != 0, f"{row.name} needs a penalty above 0; for none use least_squares")
    if row.penalised is False:
        faults.check(values["penalty"] == 0, f"{row.name} has no penalty; use ridge or lasso")


def _certificate(solver: Solver, stack: InContextStack, target: dict[str, Any]) -> tuple[ClosedForm | None, str]:
    c = stack.constants
    if solver.certificate is None:
        return None, f"a step of {c.method} by {c.solver} is not covered by the closed form; its error is observed only"
    try:
        return solver.certificate(stack, target), ""
    except InvalidInput as error:  # a range without a bound is no fault of the stack
        return None, error.faults[0]


def _distance(certificate: ClosedForm | None) -> str:
    if certificate is not None and "leverage" in certificate.quantities:
        return "the distance to the exact solution is proved, all layers counted"
    return "the distance to the exact solution is observed only"


def _depth(c: Constants) -> str:
    """What sets the number of layers."""
    if METHODS[c.method].solvers[c.solver].default_step is not None:
        return (
            f"{c.steps or DEFAULT_STEPS} steps of gradient descent of size {c.eta:g}: the answer is what they give, "
            "however far that is from the solution"
        )
    if c.steps is None:
        return f"condition {c.condition:g} and accuracy {c.accuracy:g} set the depth"
    return f"{c.steps} steps were asked for"


def _plan(stack: InContextStack, started: float, certificate: ClosedForm | None) -> Plan:
    c = stack.constants
    labels = [stack.layer_at(i).label for i in range(stack.head)]
    return Plan.of(
        stack,
        started,
        strategy=c.solver,
        heads=[
            {"layer": layer.label, "times": stack.program.count(place), "heads": layer.heads}
            for place, layer in enumerate(stack.distinct)
        ],
        tokens=stack.fixed_tokens,
        parameters=stack.parameter_count,
        reasons=[
            _depth(c),
            f"{stack.head} layer(s) prepare the prompt: {', '.join(dict.fromkeys(labels))}",
            f"bilinear groups of {2 * c.order} heads with scores up to {c.angle:g} "
            f"for products up to {c.score_bound:g}",
            _distance(certificate),
        ],
    )
