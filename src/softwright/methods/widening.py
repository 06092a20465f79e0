"""Constants that follow from a prompt: where a guard finds it outside the range of a stack, a wider stack is built.

A stack is made for a range, and its weights depend on that alone: `condition` sets how far an inverse is iterated,
`score_bound`, `feature_bound` and `range_bound` the scales of its heads, `steps` how long it goes on. A guard that
refuses a prompt says by how much it is out, and so which constant to change:

    scores     the products were larger than the heads take: the bound becomes what was found, and a quarter more
    inverse    the inverse was not reached: condition times 32
    refined    the digits are not there yet: condition times 32
    settled    the iteration still moves: twice the steps, and condition times 32, but for means of clusters and
               components, which move however well a matrix is inverted
    spectrum   an eigenvalue is below those that the steps were chosen for: the condition becomes what was found

The wider stack has the same method, solver and penalties. Every widening costs digits (rounding grows with the bounds)
or layers, so there is a limit to each, beyond which the prompt is refused with the reason that the guard gives.

Before that a prompt is put in other units: powers of two that bring x and y to a size that the heads resolve; and
features that lie a million ranges from 0 are counted from their first row, where an intercept makes up for it.

A batch has one stack and one unit. Where its prompts, or the targets of one, differ in size by more than a few binades,
the smaller ones would lose to the unit of the largest what their own would give them: these are asked one at a time.

Multiplying with a power of two is exact, and so is a difference of neighbours. What the answers become, and which
constants have units of their own, is known for every method; with u and v the powers that x and y are multiplied with:

    penalties on |w|^2 and |w|    w = u w': the penalty becomes penalty u^2, or penalty u, where features share one u
    distances                     bandwidths become h u; projections and centres are divided by u
    least squares over w >= 0,    predictions are divided by v; the penalty on |w| becomes penalty v
    lasso, autoregression
    values of states              features follow any unit of their own, so each is brought to size 1
    gamma, Poisson                predictions become s - log v, rates are divided by v; Poisson's penalty becomes
                                  penalty v: mean e^s - y s is 1/v times the same of v y and s + log v, and a constant
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from softwright.methods.constants import Constants
from softwright.methods.guards import UNMOVED, Guard, OutOfRange
from softwright.methods.methods import METHODS
from softwright.methods.network import InContextStack
from softwright.methods.prompts import UNITS
from softwright.precision import precision_of

_MOST = {
    "score_bound": 1e7,
    "feature_bound": 1e4,
    "range_bound": 1e6,
    "rate_bound": 1e15,
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
_LENGTHS = (-100.0, 100.0)  # log2 of ranges whose squares are taken without another unit
_SIZES = {"times": (-20.0, 20.0), "log": (-10.0, 10.0)}  # log2 of sizes of y that are taken as they are
_FAR = 2.0**20  # ranges from 0
_LEAST_LENGTH = 1e-140  # of a bandwidth, whose square is still a number
_APART = 2.0**10  # of sizes within one batch


def argument_of(guard: Guard) -> str:
    """The argument that a guard speaks of, if there is one."""
    if guard.kind in UNMOVED or (guard.row_slot, guard.key_slot) == ("s", "one"):
        return ""  # ties, sizes of weights, and the end of a link, which no bound moves
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
        inverted = not refusal.guard.row_slot.endswith("centre")  # means move however well a matrix is inverted
        more, condition = 2 * (constants.steps or usual), constants.condition * (_MORE if inverted else 1.0)
        if usual == 0 and constants.steps is None:  # the condition sets the steps
            return replace(constants, condition=condition) if condition <= _MOST_SLOW else None
        return replace(constants, steps=more, condition=condition) if 0 < more <= _MOST_STEPS * usual else None
    if not name:
        return None
    now, kind = getattr(constants, name), refusal.guard.kind
    unknown = name == "condition" and kind != "spectrum"
    wanted = _MORE * now if unknown else _ROOM * now * refusal.found / refusal.limit
    most = _MOST_SLOW if kind in ("spectrum", "corrected") else _MOST[name]  # more layers rarely help there
    if refusal.guard.key_slot == "pair":  # errors of a network in training grow for ever, or stay in the size of y
        most = _MOST["w_bound"]
    if constants.dtype == "float32" or not math.isfinite(wanted) or wanted > most:
        return None
    return replace(constants, **{name: wanted})


def following(constants: Constants, x: Any, queries: Any, y: Any = None) -> Constants:
    """Constants of a method whose distances are those of the features as given: x_bound is the power of two above their
    range, that of times where it is for those, so that the digits do not depend on the units. Where squares of y are
    taken, y_bound follows likewise."""
    row = METHODS[constants.method]
    if row.follows_y and y is not None:
        constants = _following_y(constants, y)
    if row.scaled and row.follows is None:
        return constants
    try:
        rows = [np.asarray(part, dtype=float).reshape(-1, constants.features) for part in (x, queries)]
        values = np.concatenate(rows)[:, row.follows or slice(None)]
        range_ = float((values.max(axis=0) - values.min(axis=0)).max())
    except (TypeError, ValueError, IndexError):
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


@dataclass(frozen=True)
class Units:
    """Constants in other units, the powers of two that x and y are multiplied with, and where x is counted from."""

    constants: Constants
    x: Any = 1.0  # or one of each column
    y: float = 1.0
    origin: np.ndarray | None = None  # (.., 1, d), before the unit

    def of_x(self, values: Any) -> Any:
        if self.origin is not None:
            values = np.asarray(values, dtype=float) - self.origin
        return values if np.all(self.x == 1.0) else np.asarray(values, dtype=float) * self.x

    def of_y(self, values: Any) -> Any:
        return values if self.y == 1.0 else np.asarray(values, dtype=float) * self.y

    def of_answers(self, values: np.ndarray) -> np.ndarray:
        row = METHODS[self.constants.method]
        if row.answers_x and np.any(self.x != 1.0):
            return values / self.x
        if self.y == 1.0:
            return values
        return values - math.log(self.y) if row.y_units == "log" and not self.constants.response else values / self.y

    def of_coefficients(self, coefficients: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if METHODS[self.constants.method].y_units == "log":
            coefficients, intercept = coefficients * self.x, intercept - math.log(self.y)
        else:
            coefficients, intercept = coefficients * (self.x / self.y), intercept / self.y
        if self.origin is not None:
            origin = self.origin if coefficients.ndim == self.origin.ndim else self.origin[..., 0, :]
            intercept = intercept - (coefficients * origin).sum(axis=-1)
        return coefficients, intercept


def in_other_units(constants: Constants, x: Any, y: Any, queries: Any = None) -> Units:
    """The units that a prompt asks for, and none where it is at fault, which is found out where it is read."""
    row = METHODS[constants.method]
    try:
        rows, values = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
        if row.free is not None and row.solvers[constants.solver].usual_steps is None:  # steps have units
            return _of_free_columns(constants, rows.reshape(-1, constants.features), queries, row.free)
        if row.lengths is not None:
            asked = rows if queries is None else np.asarray(queries, dtype=float)
            units = _of_lengths(constants, rows.reshape(-1, constants.features), asked.reshape(-1, constants.features))
        else:
            units = _of_penalised(constants, rows.reshape(-1, *rows.shape[-2:]))
        return replace(_with_y(units, values), origin=_origin(constants, rows))
    except (TypeError, ValueError, IndexError, OverflowError):
        return Units(constants)


def _of_free_columns(constants: Constants, rows: np.ndarray, queries: Any, free: slice) -> Units:
    """Columns of size 1, whose products keep the digits that a bound of 24 would cost them."""
    asked = rows[:0] if queries is None else np.asarray(queries, dtype=float).reshape(-1, constants.features)
    sizes = np.abs(rows).max(axis=0)
    if not np.isfinite(sizes).all():
        return Units(constants)
    units = np.ones(constants.features)
    units[free] = 2.0 ** -np.clip(np.frexp(np.where(sizes > 0, sizes, 0.5))[1][free], -1000, 1000)
    far = float(np.abs(asked * units)[:, free].max(initial=0.0))
    bound = 2.0 ** math.ceil(math.log2(max(1.0, min(far, _MOST["feature_bound"]))))
    return Units(replace(constants, feature_bound=bound), units)


def _of_lengths(constants: Constants, rows: np.ndarray, asked: np.ndarray) -> Units:
    both = np.concatenate([rows, asked])
    size = float((0.5 * both.max(axis=0) - 0.5 * both.min(axis=0)).max())
    if not 0 < size < math.inf or _LENGTHS[0] <= math.log2(size) <= _LENGTHS[1]:
        return Units(constants)
    unit = 2.0 ** -math.frexp(size)[1]
    lengths = METHODS[constants.method].lengths or ()
    options = {
        name: max(value * unit, _LEAST_LENGTH) if name in lengths else value for name, value in constants.options
    }
    return Units(replace(constants, options=tuple(options.items())), unit)


def _of_penalised(constants: Constants, rows: np.ndarray) -> Units:
    """Where ranges of features are beyond those of the cells; under a penalty all features share one unit."""
    row = METHODS[constants.method]
    if not (row.scaled and constants.scaling and constants.penalty > 0):
        return Units(constants)
    ranges = rows.max(axis=1) - rows.min(axis=1) if constants.intercept else np.abs(rows).max(axis=1)
    ranges = ranges[np.isfinite(ranges) & (ranges > 0)]
    if not ranges.size or (ranges.min() >= UNITS[0] and ranges.max() <= UNITS[1]):
        return Units(constants)
    exponent = -round(0.5 * (math.log2(ranges.min()) + math.log2(ranges.max())))
    least, most = math.log2(ranges.min()) + exponent, math.log2(ranges.max()) + exponent
    if least < math.log2(UNITS[0]) + 1 or most > math.log2(UNITS[1]) - 1:
        return Units(constants)  # no common unit
    penalty = math.ldexp(constants.penalty, row.penalty_power * exponent)
    return Units(replace(constants, penalty=max(penalty, _LEAST_PENALTY)), 2.0**exponent)


def _origin(constants: Constants, rows: np.ndarray) -> np.ndarray | None:
    """The first row in columns that are far off: their mean is rounded in their size, not in that of their range."""
    row = METHODS[constants.method]
    if not (constants.intercept and constants.scaling and row.scaled) or (row.loss is None and row.varying is None):
        return None
    first = rows[..., :1, :]
    off = np.abs(first) > _FAR * (rows.max(axis=-2, keepdims=True) - rows.min(axis=-2, keepdims=True))
    off[..., : row.varying or 0] = False  # times and marks are read as they are
    return np.where(off, first, 0.0) if off.any() else None


def _with_y(units: Units, y: np.ndarray) -> Units:
    """Another unit of y, where its size is far from 1 and the method allows one."""
    constants = units.constants
    row = METHODS[constants.method]
    sizes = np.abs(y)
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    if not row.y_units or not sizes.size or (row.y_units == "log" and not constants.intercept):
        return units
    size = float(np.log2(sizes.max()))
    least, most = _SIZES[row.y_units]
    if least <= size <= most:
        return units
    unit = 2.0 ** -max(-1000, min(1000, round(size)))
    penalty = constants.penalty
    if penalty > 0 and row.name != "gamma":
        penalty = max(penalty * unit, _LEAST_PENALTY)
        if not math.isfinite(penalty):
            return units
    return Units(replace(constants, penalty=penalty), units.x, unit)


def _differ(sizes: np.ndarray) -> bool:
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    return bool(sizes.size) and bool(sizes.max() / _APART > sizes.min())


def apart(constants: Constants, x: Any, y: Any) -> bool:
    """Whether prompts or targets differ so much in size that they need units of their own."""
    row = METHODS[constants.method]
    try:
        rows, values = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    except (TypeError, ValueError):
        return False  # the prompt is at fault, which is found out where it is read
    several = values.ndim == rows.ndim
    if rows.ndim < 2 or values.ndim not in (rows.ndim, rows.ndim - 1) or (rows.ndim == 2 and not several):
        return False
    if not rows.size or not values.size:
        return False
    with np.errstate(all="ignore"):
        if (row.y_units or row.follows_y) and _differ(np.abs(values).max(axis=rows.ndim - 2)):
            return True
        follows = not row.scaled or row.follows is not None
        first = slice(None) if row.follows is None else row.follows
        return follows and _differ(np.ptp(rows[..., first], axis=-2).max(axis=-1))


def one_at_a_time(ask: Callable[..., Any], x: Any, y: Any, *others: Any) -> list[Any]:
    """What `ask` says of every prompt, or of every target of one prompt: it is called with its part of each."""
    rows, values = np.asarray(x), np.asarray(y)
    if rows.ndim > 2:
        return [
            ask(rows[i], values[i], *(None if part is None else np.asarray(part)[i] for part in others))
            for i in range(len(rows))
        ]
    return [ask(rows, values[:, k], *others) for k in range(values.shape[1])]


@lru_cache(maxsize=16)
def stack_for(constants: Constants) -> InContextStack:
    """The stack of these constants."""
    blueprint = METHODS[constants.method].solvers[constants.solver].build(constants)
    return InContextStack(blueprint, constants, precision_of(constants.dtype).torch_dtype)
