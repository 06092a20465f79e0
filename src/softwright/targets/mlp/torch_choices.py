"""Comparisons, and what a forward chooses by them: where(x > 0, x, c x), maximum(a, b), x * (x > 0), masked_fill.

What is chosen is read where it is continuous, as a sum of ramps (`values.chosen`, `values.largest`); anything else
jumps, and no softmax jumps.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from softwright.targets.mlp import values as algebra
from softwright.targets.mlp.values import Value

_ABOVE = (operator.gt, operator.ge, torch.gt, torch.ge, torch.greater, torch.greater_equal,
          "gt", "ge", "greater", "greater_equal", "__gt__", "__ge__")  # fmt: skip
_BELOW = (operator.lt, operator.le, torch.lt, torch.le, torch.less, torch.less_equal,
          "lt", "le", "less", "less_equal", "__lt__", "__le__")  # fmt: skip
_NOT = (operator.invert, torch.logical_not, torch.bitwise_not, "logical_not", "bitwise_not", "__invert__")
_LARGEST = (torch.maximum, torch.max, torch.fmax, "maximum", "max", "fmax")
_SMALLEST = (torch.minimum, torch.min, torch.fmin, "minimum", "min", "fmin")
_WHERE = (torch.where, "where")
_FILL = (torch.masked_fill, "masked_fill")
_TIMES = (operator.mul, torch.mul, torch.multiply, "mul", "multiply")
_THRESHOLD = (torch.nn.functional.threshold, torch.threshold)


@dataclass(frozen=True)
class Condition:
    """Where a value is positive; on its zeros nothing is said, and continuous choices need not know."""

    value: Value


def choice(called: Any, operands: list[Any], given: tuple[Any, ...], shown: str) -> Value | Condition | None:
    """A comparison, or what is chosen by one; None for anything else. `given` are the operands as they are written."""
    if getattr(called, "__name__", called) in ("max", "min") and len(given) > 1 and not isinstance(given[1], fx.Node):
        return None  # max(x, 1) is along axis 1
    plain = len(operands) == 2 and all(isinstance(x, Value) for x in operands)
    if plain and called in _ABOVE:
        return _compared(operands[0], operands[1], shown)
    if plain and called in _BELOW:
        return _compared(operands[1], operands[0], shown)
    if plain and called in (*_LARGEST, *_SMALLEST):
        return (algebra.largest if called in _LARGEST else algebra.smallest)(operands[0], operands[1], shown)
    if called in _THRESHOLD and len(operands) >= 3 and all(isinstance(x, Value) for x in operands[:3]):
        above = _compared(operands[0], operands[1], shown)
        return above if isinstance(above, Value) else algebra.chosen(above.value, operands[0], operands[2], shown)
    conditions = [x for x in operands if isinstance(x, Condition)]
    if len(conditions) != 1:
        return None
    (condition,), others = conditions, [x for x in operands if not isinstance(x, Condition)]
    if not all(isinstance(x, Value) for x in others):
        return None
    if called in _NOT and not others:
        return _negated(condition, shown)
    if called in _TIMES and len(others) == 1:
        return algebra.chosen(condition.value, others[0], Value(0.0), shown)
    if called in _WHERE and len(others) == 2:  # torch.where(c, a, b) and a.where(c, b) alike
        return algebra.chosen(condition.value, others[0], others[1], shown)
    if called in _FILL and len(others) == 2:
        return algebra.chosen(condition.value, others[1], others[0], shown)
    return None


def _compared(one: Value, other: Value, shown: str) -> Value | Condition:
    apart = algebra.arithmetic("sub", [one, other], shown)
    return apart if isinstance(apart.thing, algebra.Missing) else Condition(apart)


def _negated(condition: Condition, shown: str) -> Value | Condition:
    turned = algebra.arithmetic("neg", [condition.value], shown)
    return turned if isinstance(turned.thing, algebra.Missing) else Condition(turned)
