"""What the steps of all solvers share: the claim, columns, programs, and the heads of a penalty.

A penalty lambda is made of unit tokens +-g_p, g_p = sqrt(lambda) e_p as stored, which carry +-w.g_p rounded once. Their
covariance is a mean, because they come in pairs; d times it is sum_p (x.g_p)(w.g_p), which is lambda w.x but for
|g_p^2 - lambda| and for the rounding of what they carry.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flint import arb, fmpq

from softwright.checker.entries import is_text
from softwright.checker.in_context.bilinear import Group
from softwright.checker.in_context.preparation import rational
from softwright.checker.in_context.stack import Layer, Stack
from softwright.checker.refusal import require


@dataclass(frozen=True)
class Claim:
    """What was proved of a step: a sentence, the two parts of its bound, further bounds and sizes by name."""

    statement: str
    exact: arb
    rounding: arb
    bounds: dict[str, arb] = field(default_factory=dict)
    sizes: dict[str, arb] = field(default_factory=dict)
    relative: str = "relative_to_largest_step"
    scale: str = "score_bound"  # the setting that the bound is compared with, where no sizes are stated
    method: str = "Richardson weights, Cauchy's estimate and a rounding analysis of the heads"
    old: str = ""  # the sentence of files that did not yet say all that it presupposes
    numbers: dict[str, float] | None = None  # all quantities besides the bounds, where they are those of no step
    total: arb | None = None  # both parts, where they are not bounded one by one


def columns(stack: Stack, extra: dict[str, int], coordinates: int) -> None:
    """The names and sizes of the columns."""
    single = ("y", "log_weight", "offset", "one", "data", "unit", "pen", "null", "count", "pos", "neg", "tau1", "tau")
    several = ("x", "e", "own", "other", "range", "scale1", "spread", "scale2", "g")
    wanted = dict.fromkeys(single, 1) | dict.fromkeys(several, coordinates) | extra
    found = {name: stop - start for name, (start, stop) in stack.slots.items()}
    require(found == wanted, "the columns of the tokens are not those of this solver")


def repeated(stack: Stack, count: int, what: int) -> list[Layer]:
    """The layers of one step: `what` of them, run `count` times, and nothing else between head and tail."""
    steps = stack.program[stack.head : len(stack.program) - stack.tail]
    require(len(steps) == count * what, f"there are {len(steps)} layers where {count} steps should be")
    require(all(layer is steps[i % what] for i, layer in enumerate(steps)), "the steps are not all the same")
    return steps[:what]


def check_angle(stack: Stack, scales: tuple[fmpq, ...]) -> None:
    """The heads are those of the order, the angle and the score bound that the file states."""
    s = stack.settings
    largest = float(arb(max(scales))) * s["score_bound"]
    good = abs(largest - s["order"] * s["angle"]) <= 1e-5 * s["order"] * s["angle"]
    require(good, "angle, order or score_bound are not those stated")


def check_guards(
    stack: Stack,
    rows: tuple[str, ...],
    keys: tuple[str, ...],
    position: int,
    slot: str,
    more: list[dict[str, Any]] | None = None,
) -> None:
    """The checks of prompts at run time, with the limits that the settings say; the last looks at products of x with
    `slot`, the inverse, where there is one, at M A. Then come `more`, which older files do not have: a check refuses
    prompts, and what is claimed of the others does not rest on it."""
    s, units = stack.settings, ("unit",)
    wanted = []
    if s["scaling"]:
        wanted.append(_guard("scores", 2, s["range_bound"], "x", "scale1", ("query",), units))
        wanted.append(_guard("scores", 5, s["feature_bound"], "x", "scale2", ("data", "query"), units))
    if slot == "z":
        double = stack.precision.name == "float64"
        limit = max(1e3 * s["tolerance"], 1e-6 if double else 1e-2)
        own = {"weight_slot": "log_weight", "penalty_slot": "g", "wanted": float(s["features"])}
        corrected = _guard("corrected", position + 1, 1e-8 if double else 1e-2, "f", "z", keys, ("basis",))
        more = [corrected | {"weight_slot": "log_weight", "penalty_slot": "g"}]
        penalised = units if s["penalty"] > 0 else ()
        wanted.append(_guard("inverse", position, limit, "x", "z", keys, penalised) | own)
    wanted.append(_guard("scores", position, 2.0 * s["score_bound"], slot, "x", rows, keys))
    same_guards(stack, wanted, more or [])


def step_guards(stack: Stack, each: int, slot: str, largest: float | None = None) -> list[dict[str, Any]]:
    """Further checks of gradient descent, steps of `each` layers: whether e^s at the data, up to e^`largest`, still has
    its digits, whether each step is shorter than the one before it, four at a time and overlapping by one, and whether
    e^s at queries, if that is read, has its digits."""
    end = len(stack.program) - stack.tail
    above = lambda position, rows: _guard("above", position, largest or 0.0, "s", "", (rows,), ())  # noqa: E731
    guards = [] if largest is None else [above(end - 2, "data")]
    count = (end - stack.head) // each
    for last in sorted(range(count, 1, -3)):
        moves = min(4, last)
        shorter = _guard("shorter", stack.head + last * each, 1.0 + 1e-6, slot, "x", ("data",), ("basis",))
        guards.append(shorter | {"reach": moves * each, "wanted": float(moves)})
    return guards + [above(end + 1, "query")] * (largest is not None and stack.tail == 1)


def check_normal_guards(stack: Stack, inverted: int, end: int) -> None:
    """Those of the normal equations: the scaling, whether the inverse is one, whether the last refinement moves."""
    s, units, double = stack.settings, ("unit",), stack.precision.name == "float64"
    wanted = []
    if s["scaling"]:
        wanted.append(_guard("scores", 2, s["range_bound"], "x", "scale1", ("query",), units))
        wanted.append(_guard("scores", 5, s["feature_bound"], "x", "scale2", ("data", "query"), units))
    limit = max(1e3 * s["tolerance"], 1e-6 if double else 1e-2)
    more = {"penalty_slot": "t", "wanted": float(s["features"])}
    wanted.append(_guard("inverse", inverted, limit, "t", "e", (), units) | more)
    wanted.append(_guard("refined", end, 1e-9 if double else 1e-3, "step", "w", units, ()))
    same_guards(stack, wanted)


def same_guards(stack: Stack, wanted: list[dict[str, Any]], more: list[dict[str, Any]] | None = None) -> None:
    require(all(is_text(guard.get("remedy")) for guard in stack.guards), "a guard has no remedy, or no text for it")
    found = [{name: value for name, value in guard.items() if name != "remedy"} for guard in stack.guards]
    require(found in (wanted, wanted + (more or [])), "the checks of prompts at run time are not those of this stack")


def _guard(
    kind: str, position: int, limit: float, row_slot: str, key_slot: str, rows: tuple[str, ...], keys: tuple[str, ...]
) -> dict[str, Any]:
    where = {"row_slot": row_slot, "key_slot": key_slot, "rows": list(rows), "keys": list(keys)}
    none = {"reach": 0, "weight_slot": "", "penalty_slot": "", "wanted": 0.0}
    return {"kind": kind, "position": position, "limit": limit, **where, **none}


def read_out(stack: Stack, slot: str, read: dict[str, float], at: str = "basis") -> None:
    require(stack.coefficients == at, f"the coefficients are not those of the {at} tokens")
    stack.same(stack.tensors["read_coefficient"], stack.vector(**{slot: 1.0}), "read_coefficient")
    stack.same(stack.tensors["read"], stack.vector(**read), "read")


def penalty_group(
    stack: Stack, scales: tuple[fmpq, ...], outputs: tuple[fmpq, ...], size: arb
) -> tuple[Group, arb, arb]:
    """The group over the unit tokens, for a row with |x| <= size, and what |g_p^2 - lambda| and the rounding cost."""
    s, precision, d, g = stack.settings, stack.precision, stack.settings["features"], stack.at("g")
    u, tau, W, eta = arb(precision.unit), arb(precision.smallest), arb(s["w_bound"]), rational(s["step_size"])
    units = stack.tensors["base_unit"][: 2 * d]
    require(bool((units[::2, g : g + d] == -units[1::2, g : g + d]).all()), "unit tokens do not come in pairs")
    roots = [rational(float(units[2 * p, g + p])) for p in range(d)]
    largest = arb(max(roots))
    rounded = u * largest * W + tau
    group = Group(scales, outputs, -eta * d, largest * size, largest * W + rounded, arb(0), d, largest)
    off = max(abs(root * root - rational(s["penalty"])) for root in roots)
    return group, arb(eta) * arb(off) * size * W, arb(eta) * d * largest * size * rounded


def largest_number(settings: dict[str, Any]) -> arb:
    """Above the features, responses and fixed numbers that a step reads."""
    return 2 + arb(settings["x_bound"]) + arb(settings["y_bound"]) + 2 * arb(settings["penalty"]).sqrt()


def as_float(x: fmpq) -> float:
    """A rational number that was read from a float, as that float."""
    return int(x.p) / int(x.q)
