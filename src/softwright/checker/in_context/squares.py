"""One gradient layer of least squares or ridge; `statement` says what is proved of it.

Heads over the observations give -eta cov_j(x.x_j, f_j - y_j), with f_j = w.x_j rounded once, which moves the covariance
by at most |x| X (u X W + tau); those over the unit tokens give the penalty (`steps.penalty_group`).
"""

from __future__ import annotations

from flint import arb, fmpq

from softwright.checker.in_context import steps
from softwright.checker.in_context.bilinear import Group, run_error
from softwright.checker.in_context.preparation import (
    Form,
    check_centre,
    check_tokens,
    only,
    people,
    rational,
    read_group,
    weighted,
)
from softwright.checker.in_context.stack import Stack
from softwright.checker.in_context.steps import Claim
from softwright.checker.refusal import require


def squares(stack: Stack) -> Claim:
    s, precision = stack.settings, stack.precision
    require(s["method"] == "ridge" or s["penalty"] == 0, "least squares has no penalty")
    require(bool(s["step_size"]) and not s["scaling"], "steps have a size and are proved for features as given")
    d, penalised, data = s["features"], s["penalty"] > 0, people(stack)
    steps.columns(stack, {"f": 1}, d)
    check_tokens(stack, constant=False, counting=False, start=0.0, log_a=0.0)
    require(stack.head == 1 and stack.tail == 0, "other layers prepare the prompt or read out")
    check_centre(stack, stack.program[0], True, ("offset",) if s["intercept"] else (), 0.0)
    steps.read_out(stack, "f", {"f": 1.0, "offset": 1.0})
    steps.check_guards(stack, (*data, "query"), data, stack.head, "x", steps.step_guards(stack, 1, "f"))

    (layer,) = steps.repeated(stack, s["steps"] or 100, 1)
    own, f, many = stack.block("x") + stack.block("g"), stack.vector(f=1.0), 2 * s["order"]
    also, difference = [only(stack, "data"), weighted(stack)], stack.vector(f=1.0, y=-1.0)
    heads, scales, outputs = read_group(layer, range(many), Form(also, own, stack.block("x"), difference, f))
    steps.check_angle(stack, scales)
    penalty: tuple[tuple[fmpq, ...], tuple[fmpq, ...]] = ((), ())
    units = ("unit",) if penalised else ()
    if penalised:
        more, *free = read_group(layer, range(many, 2 * many), Form([only(stack, "pen")], own, stack.block("g"), f, f))
        heads, penalty = heads + more, (free[0], free[1])
    stack.same_layer(layer, "gradient", (*data, "query", "basis", *units), (*data, *units), heads)

    X, Y, W, eta = (arb(s[name]) for name in ("x_bound", "y_bound", "w_bound", "step_size"))
    u, tau = arb(precision.unit), arb(precision.smallest)
    keys = s["max_rows"] * len(data) + 2 * d * penalised
    carried = u * X * W + tau
    value = X * W + carried + Y
    found = []
    for size, slot in ((arb(1), W), (X, X * W + carried)):  # of a basis token, of a query
        groups = [Group(scales, outputs, -rational(s["step_size"]), X * size, value, u * value + tau, d, X)]
        exact, rounding = arb(0), eta * X * size * carried
        if penalised:
            group, off, rounded = steps.penalty_group(stack, *penalty, size)
            groups.append(group)
            exact, rounding = exact + off, rounding + rounded
        alone = sum((group.exact() for group in groups), arb(0))
        values = value + sum((group.value for group in groups), arb(0))
        largest = steps.largest_number(s) + values + slot
        rounding += run_error(
            groups, precision, exact=alone, keys=keys, heads=layer.heads, slot=slot, values=values, largest=largest
        )
        found.append((exact + alone, rounding))
    (exact, rounding), prediction = found
    return Claim(
        "each coefficient after one gradient layer against the exact step, for all prompts of up to "
        f"{s['max_rows']} rows of weight 1 with |x| <= {s['x_bound']:g} and |y| <= {s['y_bound']:g} (after centring), "
        f"|w| <= {s['w_bound']:g}",
        exact,
        rounding,
        bounds={"prediction_bound": sum(prediction, arb(0))},
        sizes={"largest_step": eta * X * value},
    )
