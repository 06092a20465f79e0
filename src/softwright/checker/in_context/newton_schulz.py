"""One layer of Newton and Schulz's iteration; `statement` says what is proved of it.

The layer is linear in the values z, so that an error per unit of their largest coordinate is the same for all sizes but
for what underflows, which counts most where that coordinate is least, and what overflows, where it is largest.
"""

from __future__ import annotations

import math

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
from softwright.checker.in_context.stack import Stack
from softwright.checker.in_context.steps import Claim
from softwright.checker.refusal import require


def newton_schulz(stack: Stack) -> Claim:
    s, precision, LARGEST = stack.settings, stack.precision, arb(2) ** 64
    require(s["method"] == "ridge" or s["penalty"] == 0, "least squares has no penalty")
    d, penalised, many, data = s["features"], s["penalty"] > 0, 2 * s["order"], people(stack)
    steps.columns(stack, {"z": d, "f": 1}, d)
    largest = d * math.sqrt(2.0) if s["scaling"] else s["largest_eigenvalue"] + s["penalty"]
    start = 1.9 / largest
    check_tokens(stack, constant=False, counting=False, start=start, log_a=0.0)
    require(stack.head == (6 if s["scaling"] else 1) and stack.tail == 1, "other layers prepare the prompt or read out")
    check_centre(stack, stack.program[0], True, ("offset",) if s["intercept"] else (), start)
    if s["scaling"]:
        check_scaling(stack, stack.program[1:6], start)
    steps.read_out(stack, "f", {"f": 1.0, "offset": 1.0})
    steps.check_guards(stack, (*data, "query"), data, len(stack.program) - 1, "z")
    also, x, z = [only(stack, "data"), weighted(stack)], stack.block("x"), stack.block("z")
    last = stack.program[-1]
    heads, scales, outputs = read_group(
        last, range(last.heads), Form(also, z, x, stack.vector(y=1.0), stack.vector(f=1.0))
    )
    check_product(stack, scales, outputs, 1.0, s["score_bound"], s["order"], s["angle"])
    stack.same_layer(last, "read", ("query", "basis"), data, heads)

    wanted = math.log(1.0 / s["tolerance"]) * largest * s["condition"] / 1.9
    (layer,) = steps.repeated(stack, s["steps"] or max(1, math.ceil(math.log2(wanted))), 1)
    heads, scales, outputs = read_group(layer, range(many), Form(also, z, x, z, z.T))
    steps.check_angle(stack, scales)
    parts, units = [(scales, outputs, fmpq(-1))], ("unit",) if penalised else ()
    if penalised:
        pen, g = [only(stack, "pen")], stack.block("g")
        more, scales, outputs = read_group(layer, range(many, 2 * many), Form(pen, z, g, z, z.T))
        heads += more
        parts.append((scales, outputs, fmpq(-d)))
    doubled = stack.residual(("z", "z", 2.0))
    stack.same_layer(layer, "newton-schulz", (*data, "query", "basis", *units), (*data, *units), heads, doubled)

    reach, keys = arb(s["score_bound"]), s["max_rows"] * len(data) + 2 * d * penalised
    exact = sum((Group(*part, reach, arb(1), arb(0), d, LARGEST).exact() for part in parts), arb(0))
    rounding = arb(0)
    for most in (1 / LARGEST, LARGEST):
        groups = [Group(*part, reach, most, arb(0), d, LARGEST) for part in parts]
        error = run_error(
            groups,
            precision,
            exact=exact * most,
            keys=keys,
            heads=layer.heads,
            slot=2 * most,
            values=most,
            largest=LARGEST,
        )
        rounding = arb.max(rounding, error / most)
    old = (
        "one Newton-Schulz layer against the exact covariance, per unit of the largest coordinate, for all prompts of "
        f"up to {s['max_rows']} rows of weight 1 with |x||z| <= {s['score_bound']:g}"
        + (f" and |g||z| <= {s['score_bound']:g} for the penalty's tokens g" if penalised else "")
    )
    statement = f"{old}, numbers between 2^-64 and 2^64 in size"
    return Claim(statement, exact, rounding, relative="relative_to_score_bound", old=old)
