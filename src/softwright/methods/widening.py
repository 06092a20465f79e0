"""Constants that follow from a prompt: where a guard finds it outside the range of a stack, a wider stack is built.

A stack is made for a range, and its weights depend on that alone: `condition` sets how far an inverse is iterated,
`score_bound`, `feature_bound` and `range_bound` the scales of its heads, `steps` how long it goes on. A guard that
refuses a prompt says by how much it is out, and so which constant to change:

    scores     the products were larger than the heads take: the bound becomes what was found, and a quarter more
    inverse    the inverse was not reached: condition times 32
    refined    the digits are not there yet: condition times 32
    settled    the iteration still moves: twice the steps, and condition times 32

The wider stack has the same method, solver and penalties. Every widening costs digits (rounding grows with the bounds)
or layers, so there is a limit to each, beyond which the prompt is refused with the reason that the guard gives.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from softwright.methods.constants import Constants
from softwright.methods.guards import Guard, OutOfRange
from softwright.methods.methods import METHODS
from softwright.methods.network import InContextStack
from softwright.methods.prompts import UNITS
from softwright.precision import precision_of

_MOST = {
    "score_bound": 1e7,
    "feature_bound": 1e4,
    "range_bound": 1e6,
    "rate_bound": 1e9,
    "x_bound": 1e100,
    "y_bound": 1e100,
    "w_bound": 1e6,
    "condition": 1e12,
}
_MOST_STEPS = 4  # times the usual
_MOST_SLOW = 1e5  # the condition where it takes its square root of steps
_ROOM = 1.25  # above what was found
_MORE = 32.0  # times the condition
_LEAST_PENALTY = 2.0**-900  # far below every digit of a feature of size 1


def argument_of(guard: Guard) -> str:
    """The argument that a guard speaks of."""
    if guard.kind == "scores":
        known = {
            "scale1": "range_bound",
            "scale2": "feature_bound",
            "one": "rate_bound",
            "e": "x_bound",
            "own": "feature_bound",
            "null": "x_bound",
            "y_reach": "y_bound",
            "pair": "y_bound",
            "hid": "w_bound",
        }
        return known.get(guard.key_slot.rpartition(".")[2], "score_bound")
    return "steps" if guard.kind == "settled" else "condition"


def widened(constants: Constants, refusal: OutOfRange) -> Constants | None:
    """Constants for a prompt that was refused, or None where there are none left to try."""
    name = argument_of(refusal.guard)
    if name == "steps":
        usual = METHODS[constants.method].solvers[constants.solver].usual_steps or 0
        more, condition = 2 * (constants.steps or usual), _MORE * constants.condition
        if usual == 0 and constants.steps is None:  # the condition sets the steps
            return replace(constants, condition=condition) if condition <= _MOST_SLOW else None
        return replace(constants, steps=more, condition=condition) if 0 < more <= _MOST_STEPS * usual else None
    now = getattr(constants, name)
    wanted = _MORE * now if name == "condition" else _ROOM * now * refusal.found / refusal.limit
    if constants.dtype == "float32" or not math.isfinite(wanted) or wanted > _MOST[name]:
        return None
    return replace(constants, **{name: wanted})


def following(constants: Constants, x: Any, queries: Any, y: Any = None) -> Constants:
    """Constants of a method whose distances are those of the features as given: x_bound is the power of two above their
    range, so that the digits do not depend on the units. Where squares of y are taken, y_bound follows likewise."""
    row = METHODS[constants.method]
    if row.follows_y and y is not None:
        constants = _following_y(constants, y)
    if row.scaled and not row.follows:
        return constants
    try:
        rows = [np.asarray(part, dtype=float).reshape(-1, constants.features) for part in (x, queries)]
        values = np.concatenate(rows)
        range_ = float((values.max(axis=0) - values.min(axis=0)).max())
    except (TypeError, ValueError):
        return constants  # the prompt is at fault, which is found out where it is read
    if not 0 < range_ < _MOST["x_bound"]:
        return constants
    return replace(constants, x_bound=2.0 ** math.ceil(math.log2(range_)))


def _following_y(constants: Constants, y: Any) -> Constants:
    try:
        values = np.asarray(y, dtype=float)
        range_ = float((values.max(axis=-1) - values.min(axis=-1)).max())
    except (TypeError, ValueError):
        return constants
    return replace(constants, y_bound=2.0 ** math.ceil(math.log2(range_))) if 0 < range_ < 1e100 else constants


def in_other_units(constants: Constants, x: Any) -> tuple[Constants, float]:
    """Constants and the power of two to multiply x with, where ranges of features are beyond those of the cells. Under
    a penalty all features share one: with w = u v and rows u x, penalty |w|^2 is penalty u^2 |v|^2."""
    row = METHODS[constants.method]
    if not (row.scaled and constants.scaling and constants.penalty > 0):
        return constants, 1.0
    try:
        rows = np.asarray(x, dtype=float)
        rows = rows.reshape(-1, *rows.shape[-2:])
        ranges = rows.max(axis=1) - rows.min(axis=1) if constants.intercept else np.abs(rows).max(axis=1)
    except (TypeError, ValueError, IndexError):
        return constants, 1.0  # the prompt is at fault, which is found out where it is read
    ranges = ranges[np.isfinite(ranges) & (ranges > 0)]
    if not ranges.size or (ranges.min() >= UNITS[0] and ranges.max() <= UNITS[1]):
        return constants, 1.0
    exponent = -round(0.5 * (math.log2(ranges.min()) + math.log2(ranges.max())))
    least, most = math.log2(ranges.min()) + exponent, math.log2(ranges.max()) + exponent
    if least < math.log2(UNITS[0]) + 1 or most > math.log2(UNITS[1]) - 1:
        return constants, 1.0  # no common unit
    try:
        penalty = math.ldexp(constants.penalty, row.penalty_power * exponent)
    except OverflowError:
        return constants, 1.0
    return replace(constants, penalty=max(penalty, _LEAST_PENALTY)), 2.0**exponent


@lru_cache(maxsize=16)
def stack_for(constants: Constants) -> InContextStack:
    """The stack of these constants."""
    blueprint = METHODS[constants.method].solvers[constants.solver].build(constants)
    return InContextStack(blueprint, constants, precision_of(constants.dtype).torch_dtype)
