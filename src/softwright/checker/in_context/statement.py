"""Steps of solvers in context, proved again from the file alone: what is proved, and that nothing else is stated.

What is proved is about one step of a stack, for tokens as they stand before it. N = max_rows.

**Gradient descent of squares** (least_squares, ridge; `squares`). For all n <= N observations of weight 1 with |x_j| <=
X, |y_j| <= Y, every |w| <= W, and tokens that carry w.x_j and, for a penalty, +-w.g_p, each rounded once: after the
layer the basis token p carries w_p - eta (cov_j(x_jp, w.x_j - y_j) + penalty w_p) up to the bound. Without an intercept
every observation has a mirror image, and the covariance is the mean. A query with |x| <= X that carried f carries f -
eta (cov_j(x.x_j, w.x_j - y_j) + penalty w.x) up to prediction_bound.

**Gradient descent of other losses** (logistic, poisson, robust; `generalised`). The same, by a link layer and a step
layer, with the mean instead of the covariance and the slope of the loss at s_j = w.x_j + b, |(w, b)| <= W, instead of
w.x_j - y_j; for poisson where rates e^{s_j} <= rate_bound.

**Newton and Schulz** (`newton_schulz`). For n <= N observations of weight 1 and tokens with |x||z| <= score_bound, and
|g||z| <= score_bound for the penalty's, no number above 2^64 and the largest coordinate of any z at least 2^-64: every
coordinate of 2 z_i - cov_j(x_j.z_i, z_j) - d cov_p(g_p.z_i, z_p) is met up to the bound times that largest coordinate.

**Normal equations** (`normal_equations`). For n <= N observations of weight 1 with |x_jp| <= feature_bound, and for a
penalty |g_pq| within the bound of its tokens: after the layer `matrix` every entry of cov_j(x_j, x_j) + sum_p g_p g_p^T
is met up to the bound.

**The distance to the solution** of normal equations (`solution`): every answer against that of the exact solution, for
a set of prompts, all layers counted. It is what is claimed where the quantities name a leverage.

What the tensors must hold for this is compared entry by entry (`preparation`); every other number is read from them;
the errors are those of `bilinear` and `links`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flint import arb

from softwright.checker.entries import is_number
from softwright.checker.in_context.generalised import generalised
from softwright.checker.in_context.losses import LOSSES
from softwright.checker.in_context.newton_schulz import newton_schulz
from softwright.checker.in_context.normal_equations import normal_equations
from softwright.checker.in_context.solution import solution
from softwright.checker.in_context.squares import squares
from softwright.checker.in_context.stack import Stack, read_stack
from softwright.checker.in_context.steps import Claim
from softwright.checker.refusal import require
from softwright.fileformat import ModelFile

OBJECTIVES = {
    "least_squares": "1/2 mean (y - w.x - b)^2",
    "ridge": "1/2 mean (y - w.x - b)^2 + penalty/2 |w|^2",
    **{method: loss.objective for method, loss in LOSSES.items()},
}
STEPS: dict[tuple[str, str], Callable[[Stack], Claim]] = {
    ("least_squares", "normal_equations"): normal_equations,
    ("ridge", "normal_equations"): normal_equations,
    ("least_squares", "newton_schulz"): newton_schulz,
    ("ridge", "newton_schulz"): newton_schulz,
    ("least_squares", "gradient"): squares,
    ("ridge", "gradient"): squares,
    **{(method, "gradient"): generalised for method in LOSSES},
}


def positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def flag(value: Any) -> bool:
    return isinstance(value, bool)


SETTINGS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("method", "solver", "dtype"), lambda value: isinstance(value, str)),
    **dict.fromkeys(("features", "max_rows", "order"), whole),
    **dict.fromkeys(("intercept", "scaling", "response"), flag),
    **dict.fromkeys(("condition", "tolerance", "largest_eigenvalue", "score_bound", "angle"), positive),
    **dict.fromkeys(("feature_bound", "range_bound", "loss_scale", "rate_bound"), positive),
    **dict.fromkeys(("x_bound", "y_bound", "w_bound"), positive),
    "penalty": lambda value: value == 0 or positive(value),
    "steps": lambda value: value is None or whole(value),
    "step_size": lambda value: value is None or positive(value),
}


def prove_step(file: ModelFile) -> str:
    """Redo the proof of one step; returns what was proved."""
    said, stack = file.sections["certificate"], read_stack(file)
    settings = stack.settings
    require(set(settings) == set(SETTINGS), "the settings are not those of a stack in context")
    for name, good in SETTINGS.items():
        require(good(settings[name]), f"the setting {name} is damaged")
    require(settings["dtype"] == stack.precision.name, "the dtype of the settings is not the model's")
    method, solver = settings["method"], settings["solver"]
    require((method, solver) in STEPS, f"nothing is known of {method} by {solver}")
    target = {"kind": "in_context", "text": f"minimise {OBJECTIVES[method]}", **settings}
    require(file.sections["target"] == target, "the target is not what the settings say")
    claim = STEPS[method, solver](stack)
    if solver == "normal_equations" and "leverage" in said["quantities"]:
        claim = solution(stack)
    require(said["statement"] in (claim.statement, claim.old), f"the statement should read: {claim.statement}")
    for name, wanted in {"norm": "sup", "engine": "any", "method": claim.method}.items():
        require(said[name] == wanted, f"the {name} of such a statement is {wanted!r}")
    _check_numbers(said, claim, settings)
    return f"{claim.statement}: within {said['bound']:.6g} in {stack.precision.name}, rounding included"


def _check_numbers(said: dict[str, Any], claim: Claim, settings: dict[str, Any]) -> None:
    """What is stated is at least what was proved, and the numbers beside it are what they are called."""
    given = said["quantities"]
    require(all(map(is_number, given.values())), "a quantity is no number")
    if claim.numbers is not None:
        _check_solution(said, claim, claim.numbers)
        return
    sizes = {
        name: given[name] for name in claim.sizes
    }  # of a step, as its errors make it: no more than a factor is known
    for name, size in claim.sizes.items():
        require(positive(given[name]) and size / 2 < given[name] < 2 * size, f"{name} is another one")
    scale = sizes.get("largest_step", settings[claim.scale])
    numbers = {"order": float(settings["order"]), claim.relative: said["bound"] / scale}
    numbers |= {"step_size": settings["step_size"]} if sizes else {claim.scale: settings[claim.scale]}
    require(set(given) == set(numbers) | set(sizes) | set(claim.bounds), "the quantities are not those of such a step")
    for name, number in numbers.items():
        require(abs(given[name] - number) <= 1e-9 * number, f"{name} should be {number:.6g}")
    stated = {**given, "exact part": said["exact_part"], "rounding part": said["rounding_part"]}
    for name, bound in {"exact part": claim.exact, "rounding part": claim.rounding, **claim.bounds}.items():
        least = float(bound.abs_upper())
        require(bound <= stated[name], f"{name}: {least:.6g} can be proved, {stated[name]:.6g} is stated")


def _check_solution(said: dict[str, Any], claim: Claim, numbers: dict[str, float]) -> None:
    """The set is that of the settings, and all bounds are at least what was proved."""
    given, total = said["quantities"], claim.total
    require(
        set(given) == set(numbers) | set(claim.bounds), "the quantities are not those of a distance to the solution"
    )
    for name, number in numbers.items():
        require(given[name] == number, f"{name} should be {number:.6g}")
    stated = {**given, "exact part": said["exact_part"]}
    for name, bound in {"exact part": claim.exact, **claim.bounds}.items():
        least = float(bound.abs_upper())
        require(bound <= stated[name], f"{name}: {least:.6g} can be proved, {stated[name]:.6g} is stated")
    both = arb(said["exact_part"]) + arb(said["rounding_part"])
    require(total is not None and total <= both, "the parts add up to less than can be proved")
