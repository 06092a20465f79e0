"""A link layer and a step layer of logistic, Poisson or robust regression; `statement` says what is proved of them.

The link layer writes G_j (`links`) to every observation; the step layer adds -eta mean_j (x.x_j) v_j, v_j a combination
of G_j and y_j, by means beside counting tokens (`bilinear`), and the penalty (`steps.penalty_group`). The step is
linear in v, so that an error e of v_j costs at most eta |x.x_j| e.
"""

from __future__ import annotations

import math

import numpy as np
from flint import arb, fmpq

from softwright.checker.in_context import steps
from softwright.checker.in_context.bilinear import Group, gamma, run_error
from softwright.checker.in_context.links import link_error, moved
from softwright.checker.in_context.losses import LOSSES, Loss
from softwright.checker.in_context.preparation import (
    Form,
    check_centre,
    check_tokens,
    only,
    rational,
    read_group,
    weighted,
)
from softwright.checker.in_context.scaling import cell_edges, cell_rows, check_soft_cells
from softwright.checker.in_context.stack import ExpectedHead, Layer, Stack
from softwright.checker.in_context.steps import Claim
from softwright.checker.refusal import require


def generalised(stack: Stack) -> Claim:
    s, precision, loss = stack.settings, stack.precision, LOSSES[stack.settings["method"]]
    d, constant, penalised = s["features"], s["intercept"], s["penalty"] > 0
    require(bool(s["step_size"]) and not s["scaling"], "steps have a size and are proved for features as given")
    require(constant or loss.curvature is not None, f"{s['method']} has an intercept")
    extra = dict.fromkeys(("s", "G", "log_a", "slope", "bias", "value", "link", "weights", "rates"), 1)
    steps.columns(stack, extra | {"z": d + constant}, d + constant)
    check_tokens(stack, constant=constant, counting=True, start=0.0, log_a=math.log(loss.curvature or 1.0))
    link, step = _prepared(stack, loss)
    largest = {"float64": 30.0, "float32": 17.0}[precision.name] if loss.link == "exp" else None
    more = steps.step_guards(stack, 2, "s", largest)
    steps.check_guards(stack, ("data", "query"), ("data",), stack.head, "x", more)
    tokens, scale = _check_link_tokens(stack, loss), rational(s["loss_scale"])
    ideal_argument, ideal_slope = loss.argument(scale), loss.slope(scale)
    argument = {slot: rational(float(link.tensors["Wq"][0, stack.at(slot), 1])) for slot in ideal_argument}
    fresh = stack.residual(("G", "G", 0.0))
    stack.same_layer(link, "link", ("data",), ("link",), [_link_head(stack, argument)], fresh)

    slope = {slot: rational(float(step.tensors["Wv"][0, stack.at(slot), 0])) for slot in ideal_slope}
    sink = rational(float(step.tensors["Wk"][0, stack.at("count"), 2]))
    own, many, to = stack.block("x") + stack.block("g"), 2 * s["order"], stack.vector(s=1.0)
    counts = (stack.vector(one=1.0), stack.vector(count=steps.as_float(sink)))
    also = [only(stack, "data", "count"), weighted(stack), counts]
    values = stack.vector(**{slot: steps.as_float(weight) for slot, weight in slope.items()})
    heads, scales, outputs = read_group(step, range(many), Form(also, own, stack.block("x"), values, to))
    steps.check_angle(stack, scales)
    penalty: tuple[tuple[fmpq, ...], tuple[fmpq, ...]] = ((), ())
    units = ("unit",) if penalised else ()
    if penalised:
        more, *free = read_group(step, range(many, 2 * many), Form([only(stack, "pen")], own, stack.block("g"), to, to))
        heads, penalty = heads + more, (free[0], free[1])
    stack.same_layer(step, "step", ("data", "query", "basis", *units), ("data", "count", *units), heads)

    X, Y, W, eta = (arb(s[name]) for name in ("x_bound", "y_bound", "w_bound", "step_size"))
    u, tau = arb(precision.unit), arb(precision.smallest)
    score = W * (X * X + int(constant)).sqrt()
    top = arb.min(score, arb(s["rate_bound"]).log()) if loss.link == "exp" else score
    sizes = {"s": score, "y": Y}
    error = link_error(loss.link, argument, ideal_argument, sizes, top, tokens, precision)
    weight = abs(arb(slope["G"]))
    sizes |= {"G": error.most, "data": arb(1)}
    value = sum((abs(arb(w)) * sizes[slot] for slot, w in slope.items()), arb(0))
    stored = moved(slope, ideal_slope, sizes | {"G": error.ideal})
    keys = 2 * s["max_rows"] + 2 * (d + int(constant)) * penalised
    rounded, wanted = gamma(3, precision) * value + 6 * tau, -rational(s["step_size"])
    found = []
    for size, reach, slot in ((arb(1), X, W), (X, X * X + int(constant), score * (1 + u) + tau)):
        groups = [Group(scales, outputs, wanted, reach, value, rounded, d + int(constant), 1 + X, sink)]
        exact = eta * reach * (weight * error.exact + stored)
        rounding = eta * reach * weight * error.rounding
        if penalised:
            group, off, carried = steps.penalty_group(stack, *penalty, size)
            groups.append(group)
            exact, rounding = exact + off, rounding + carried
        alone = sum((group.exact() for group in groups), arb(0))
        every = value + score + sum((group.value for group in groups), arb(0))
        largest = steps.largest_number(s) + every + slot + error.most + abs(arb(sink))
        rounding += run_error(
            groups, precision, exact=alone, keys=keys, heads=step.heads, slot=slot, values=every, largest=largest
        )
        found.append((exact + alone, rounding))
    (exact, rounding), prediction = found
    rates = f", rates e^s <= {s['rate_bound']:g}" if loss.link == "exp" else ""
    return Claim(
        f"each coefficient after one gradient step of {s['method']} against the exact step, for all prompts of up to "
        f"{s['max_rows']} rows of weight 1 with |x| <= {s['x_bound']:g} (after centring) and "
        f"|y| <= {s['y_bound']:g}, |(w, b)| <= {s['w_bound']:g}{rates}",
        exact,
        rounding,
        bounds={"prediction_bound": sum(prediction, arb(0)), "link_error": error.exact + error.rounding},
        sizes={"largest_step": eta * X * value},
        method=f"exact two-token links, {Claim.method}",
    )


def _link_head(stack: Stack, argument: dict[str, fmpq], group: str = "link", to: str = "G") -> ExpectedHead:
    """The head that reads the tokens of a group at the argument's place, and writes their value."""
    asks = stack.vector(**{slot: steps.as_float(weight) for slot, weight in argument.items()})
    bias = (stack.vector(one=1.0), stack.vector(bias=1.0))
    pairs = [only(stack, group), (asks, stack.vector(slope=1.0)), bias]
    return ExpectedHead(pairs, stack.vector(value=1.0)[:, None], stack.vector(**{to: 1.0})[None])


def _prepared(stack: Stack, loss: Loss) -> tuple[Layer, Layer]:
    """The layers before the first step and after the last are right; those of one step are returned."""
    s, starts = stack.settings, loss.curvature is None
    targets = loss.starts if s["intercept"] else ()
    responds = s["response"] and loss.argument(fmpq(1)) == {"s": fmpq(1)}
    require(stack.head == 1 + starts and stack.tail == int(responds), "other layers prepare the prompt or read out")
    check_centre(stack, stack.program[0], False, targets, 0.0)
    if starts:
        head = _link_head(stack, {"offset": fmpq(1)}, "rates", "s")
        stack.same_layer(stack.program[1], "start", ("data", "query"), ("rates",), [head])
    if responds:
        head, R = _link_head(stack, {"s": fmpq(1)}), stack.residual(("G", "G", 0.0))
        stack.same_layer(stack.program[-1], "link", ("query",), ("link",), [head], R)
    steps.read_out(stack, "s", {"G": 1.0} if responds else {"s": 1.0})
    first, second = steps.repeated(stack, s["steps"] or 100, 2)
    return first, second


def _check_link_tokens(stack: Stack, loss: Loss) -> tuple[fmpq, fmpq]:
    """The two tokens of the link, and those that a gradient step does not read; V and m of exp."""
    found = stack.tensors["base_link"]
    top, ceiling = float(found[0, stack.at("value")]), float(found[1, stack.at("bias")])
    rows = {
        "sigmoid": [(1.0, 0.0, 1.0), (0.0, 0.0, 0.0)],
        "tanh": [(1.0, 0.0, 1.0), (-1.0, 0.0, -1.0)],
        "exp": [(1.0, 0.0, top), (0.0, ceiling, 0.0)],
    }[loss.link]
    tokens = [stack.vector(one=1.0, link=1.0, slope=a, bias=b, value=v) for a, b, v in rows]
    stack.same_tokens("base_link", np.stack(tokens))
    others = stack.sources.keys() & {"weights", "rates"}
    wanted = {"rates"} if loss.curvature is None else set()
    wanted |= {"weights"} if loss.log_weight is not None else set()
    require(others == wanted, "the file has other segments of tokens")
    if loss.log_weight is not None:
        check_soft_cells(stack, loss.log_weight)
    if loss.curvature is None:
        edges = cell_edges(-12, 24, 2)
        slopes, offsets = cell_rows(edges)
        rates = [
            stack.vector(one=1.0, rates=1.0, slope=a, bias=b, value=v)
            for a, b, v in zip(slopes, offsets, np.log(edges[1:]), strict=True)
        ]
        stack.same_tokens("base_rates", np.stack(rates), 1e3 * stack.precision.unit)
    return rational(top), rational(ceiling)
