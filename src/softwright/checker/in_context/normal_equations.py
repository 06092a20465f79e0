"""The layer that forms the matrix of the normal equations; `statement` says what is proved of it.

Entry (p, q) of the matrix is cov_j(x_jp, x_jq), a group whose scores are single coordinates; the penalty adds d
cov_p(g_p, g_p) over its pairs of tokens. The other layers (Newton and Schulz's steps among the unit tokens, refinement,
reading out) are compared entry by entry with what they stand for.
"""

from __future__ import annotations

import math

import numpy as np
from flint import arb, fmpq

from softwright.checker.in_context import steps
from softwright.checker.in_context.bilinear import Group, run_error
from softwright.checker.in_context.preparation import (
    Form,
    check_centre,
    check_product,
    check_tokens,
    only,
    people,
    read_group,
    weighted,
)
from softwright.checker.in_context.scaling import check_scaling
from softwright.checker.in_context.stack import ExpectedHead, Layer, Stack
from softwright.checker.in_context.steps import Claim
from softwright.checker.refusal import require

REFINEMENTS = 4
PRODUCT = 4.0  # bound of the entries of A M
UNITS = ("unit",)


def normal_equations(stack: Stack) -> Claim:
    s = stack.settings
    require(s["method"] == "ridge" or s["penalty"] == 0, "least squares has no penalty")
    d, data = s["features"], people(stack)
    wide, single = ("z", "a", "t", "penalty"), ("c", "w", "step", "f")
    sizes: dict[str, int] = {**dict.fromkeys(wide, int(d)), **dict.fromkeys(single, 1)}
    steps.columns(stack, sizes, d)
    largest = d * math.sqrt(2.0) if s["scaling"] else s["largest_eigenvalue"] + s["penalty"]
    check_tokens(stack, constant=False, counting=False, start=0.0, log_a=0.0, inverse=1.9 / largest)
    require(stack.head == (6 if s["scaling"] else 1) and stack.tail == 1, "other layers prepare the prompt or read out")
    check_centre(stack, stack.program[0], True, ("offset",) if s["intercept"] else (), 0.0)
    if s["scaling"]:
        check_scaling(stack, stack.program[1:6], 0.0)
    steps.read_out(stack, "w", {"f": 1.0, "offset": 1.0}, "unit")
    wanted = math.log(1.0 / s["tolerance"]) * largest * s["condition"] / 1.9
    depth = s["steps"] or max(1, math.ceil(math.log2(wanted)))
    inverted = stack.head + 1 + 2 * depth
    end = inverted + 3 * REFINEMENTS
    require(len(stack.program) == end + 1, "there are more or fewer layers than the settings ask for")
    steps.check_normal_guards(stack, inverted, end)
    _check_solution(stack, stack.program[stack.head + 1 : inverted], stack.program[inverted:], data)
    return _matrix(stack, stack.program[stack.head], data)


def _product(
    stack: Stack, layer: Layer, heads: range, form: Form, factor: float, reach: float
) -> tuple[list[ExpectedHead], tuple[fmpq, ...], tuple[fmpq, ...]]:
    expected, scales, outputs = read_group(layer, heads, form)
    check_product(stack, scales, outputs, factor, reach, stack.settings["order"], stack.settings["angle"])
    return expected, scales, outputs


def _root(stack: Stack) -> float:
    """What bounds the coordinates of the penalty's tokens."""
    return 2.0 if stack.settings["scaling"] else 1.0 + stack.settings["penalty"]


def _check_solution(stack: Stack, inverse: list[Layer], rest: list[Layer], data: tuple[str, ...]) -> None:
    """Newton and Schulz's steps, the refinements, and what is read."""
    s, d, e = stack.settings, stack.settings["features"], stack.block("e")
    many, unit = 2 * s["order"], [only(stack, "unit")]
    penalised = s["penalty"] > 0

    def over(query: str, V: np.ndarray, O: np.ndarray) -> Form:  # noqa: E741
        return Form(unit, stack.block(query), e, V, O)

    first, second = inverse[:2]
    require(all(layer is (first, second)[i % 2] for i, layer in enumerate(inverse)), "the steps are not all the same")
    heads, _, _ = _product(
        stack, first, range(many), over("z", stack.block("a"), stack.block("t").T), d, s["condition"]
    )  # fmt: skip
    stack.same_layer(first, "product", UNITS, UNITS, heads, stack.residual(("t", "t", 0.0)))
    heads, _, _ = _product(stack, second, range(many), over("t", stack.block("z"), -stack.block("z").T), d, PRODUCT)
    stack.same_layer(second, "newton-schulz", UNITS, UNITS, heads, stack.residual(("z", "z", 2.0)))

    residual, solve, fit = rest[:3]
    require(
        all(layer is (residual, solve, fit)[i % 3] for i, layer in enumerate(rest[:-1])),
        "the refinements are not all the same",
    )
    also = [only(stack, "data"), weighted(stack)]
    form = Form(also, e, stack.block("x"), stack.vector(y=1.0, f=-1.0), stack.vector(c=1.0))
    heads, _, _ = _product(stack, residual, range(many), form, 1.0, s["feature_bound"])
    if penalised:
        form = over("penalty", stack.vector(w=1.0), -stack.vector(c=1.0))
        heads += _product(stack, residual, range(many, 2 * many), form, d, _root(stack) ** 2)[0]
    keys = (*data, *(UNITS if penalised else ()))
    stack.same_layer(residual, "residual", UNITS, keys, heads, stack.residual(("c", "c", 0.0)))
    form = over("z", stack.vector(c=1.0), stack.vector(step=1.0, w=1.0))
    heads, _, _ = _product(stack, solve, range(many), form, d, s["condition"])
    stack.same_layer(solve, "solve", UNITS, UNITS, heads, stack.residual(("step", "step", 0.0)))
    form, fresh = over("x", stack.vector(w=1.0), stack.vector(f=1.0)), stack.residual(("f", "f", 0.0))
    for layer, rows in ((fit, data), (rest[-1], ("query",))):
        heads, _, _ = _product(stack, layer, range(many), form, d, s["feature_bound"])
        stack.same_layer(layer, "fit", rows, UNITS, heads, fresh)


def _matrix(stack: Stack, layer: Layer, data: tuple[str, ...]) -> Claim:
    s, precision, d, many = stack.settings, stack.precision, stack.settings["features"], 2 * stack.settings["order"]
    penalised, root = s["penalty"] > 0, _root(stack)
    e, x, g, a = (stack.block(slot) for slot in ("e", "x", "g", "a"))
    reach, held = arb(s["feature_bound"]), arb(root)
    form = Form([only(stack, "data"), weighted(stack)], e, x, x, a.T)
    heads, scales, outputs = _product(stack, layer, range(many), form, 1.0, s["feature_bound"])
    groups = [Group(scales, outputs, fmpq(1), reach, reach, arb(0), d, reach)]
    if penalised:
        form = Form([only(stack, "pen")], g, e, g, a.T + stack.block("penalty").T)
        more, scales, outputs = _product(stack, layer, range(many, 2 * many), form, d, root)
        heads += more
        groups.append(Group(scales, outputs, fmpq(d), held, held, arb(0), d, arb(1)))
    keys = (*data, *(UNITS if penalised else ()))
    stack.same_layer(layer, "matrix", UNITS, keys, heads)
    exact = sum((group.exact() for group in groups), arb(0))
    rounding = run_error(
        groups,
        precision,
        exact=exact,
        keys=s["max_rows"] * len(data) + 2 * d * penalised,
        heads=layer.heads,
        slot=arb(0),
        values=arb.max(reach, held),
        largest=reach + held + 2,
    )
    statement = (
        "each entry of the matrix of the normal equations against the exact covariance, for all prompts of "
        f"up to {s['max_rows']} rows of weight 1 whose scaled coordinates are at most {s['feature_bound']:g} in size"
        + (f", those of the penalty's tokens g at most {root:g}" if penalised else "")
    )
    return Claim(statement, exact, rounding, relative="relative_to_feature_bound", scale="feature_bound", old=statement)
