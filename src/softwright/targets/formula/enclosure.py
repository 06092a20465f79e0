"""Rigorous ranges of a whole formula over many boxes at once, and where it may be undefined and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from softwright.targets.formula.functions import ELEMENTARY, RULES
from softwright.targets.formula.intervals import Interval, literal
from softwright.targets.formula.nodes import Node, Operation, Variable
from softwright.targets.formula.tape import Tape

REASONS: dict[str, str] = {
    "div": "division by zero",
    "pow": "negative number to a power that is no integer, or zero to a negative power",
    **{name: row.reason for name, row in ELEMENTARY.items() if row.reason},
}


# Whether an operation is outside its domain, at points where all its arguments are numbers.
OUTSIDE: dict[str, Callable[..., np.ndarray]] = {
    "div": lambda a, b: b == 0.0,
    "pow": lambda a, b: ((a < 0.0) & (b != np.rint(b))) | ((a == 0.0) & (b < 0.0)),
    **{name: row.outside for name, row in ELEMENTARY.items() if row.outside is not None},
}


class Suspect(NamedTuple):
    """A step that may be undefined on the boxes marked in `boxes` (n,): the sub-expression and the reason in words."""

    step: int
    node: Node
    reason: str
    boxes: np.ndarray


class Enclosure(NamedTuple):
    """Ranges of the outputs over n boxes; `defined` (n,) says where every output is certainly defined."""

    outputs: list[Interval]
    defined: np.ndarray
    suspects: list[Suspect]


class _Ranged(NamedTuple):
    interval: Interval
    undefined: np.ndarray | None  # None: certainly defined


def enclose(tape: Tape, constants: Mapping[int, Interval], columns: Mapping[str, Interval]) -> Enclosure:
    """Enclosures where each variable ranges over its column of intervals (n,).

    `constants` are the `constant_intervals` of the same tape.

    A branch of `where` that is certainly not taken neither widens the range nor makes it undefined.
    """
    count = len(next(iter(columns.values())).lower)
    suspects: list[Suspect] = []

    def leaf(index: int, node: Node) -> _Ranged:
        return _Ranged(columns[node.name], None) if isinstance(node, Variable) else constant(index)

    def constant(index: int) -> _Ranged:
        # The parser admits a constant only if its value is finite; what is unbounded here came in by other ways.
        bounded = np.isfinite(constants[index].lower) & np.isfinite(constants[index].upper)
        return _Ranged(constants[index], None if bounded else ~bounded)

    def rule(index: int, name: str, arguments: list[_Ranged]) -> _Ranged:
        if index in constants:
            return constant(index)
        interval, undefined_here = RULES[name](*(argument.interval for argument in arguments))
        inherited = [argument.undefined for argument in arguments]
        if name == "where":
            condition = arguments[0].interval
            inherited[1] = _and(inherited[1], condition.upper == 1.0)
            inherited[2] = _and(inherited[2], condition.lower == 0.0)
        if undefined_here is not None and np.any(undefined_here):
            boxes = np.broadcast_to(undefined_here, (count,))
            suspects.append(Suspect(index, tape.steps[index].node, REASONS[name], boxes))
            inherited.append(undefined_here)
        undefined: np.ndarray | None = None
        for mask in inherited:
            if mask is not None:
                undefined = mask if undefined is None else undefined | mask
        return _Ranged(interval, undefined)

    with np.errstate(all="ignore"):
        outputs = tape.replay(leaf, rule)
    defined = np.ones(count, dtype=bool)
    for output in outputs:
        if output.undefined is not None:
            defined &= ~output.undefined
    full = [Interval(*(np.broadcast_to(end, (count,)) for end in output.interval)) for output in outputs]
    return Enclosure(full, defined, suspects)


def _and(mask: np.ndarray | None, other: np.ndarray) -> np.ndarray | None:
    return None if mask is None else mask & other


def constant_intervals(tape: Tape) -> dict[int, Interval]:
    """Enclosures of the steps that hold no variable."""
    known: dict[int, Interval] = {}
    with np.errstate(all="ignore"):
        for index, (node, arguments) in enumerate(tape.steps):
            if tape.constant[index] and not isinstance(node, Variable):
                is_operation = isinstance(node, Operation)
                known[index] = RULES[node.name](*(known[a] for a in arguments))[0] if is_operation else literal(node)
    return known
