"""The meaning of each operation on numbers: NumPy float64 arrays, and torch tensors of any floating dtype.

Both tables follow IEEE 754: outside its domain an operation gives nan or inf and nothing is raised. Sub-expressions
without variables are folded once in float64, so that float32 networks see correctly rounded constants.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from softwright.targets.formula.functions import ELEMENTARY
from softwright.targets.formula.nodes import CONSTANT_VALUES, Constant, Node, Number, Variable
from softwright.targets.formula.tape import Tape

Array = Any  # float64 array or scalar; boolean for comparisons. NumPy's own stubs do not unify the two.


def _power(base: Array, exponent: Array) -> Array:
    # x*x is correctly rounded and a tenth of the price of pow; np.power treats an integer-valued float exponent of a
    # negative base as the integer power, so no other case needs care.
    if np.ndim(exponent) == 0 and exponent == 2.0:
        return np.square(base)
    return np.power(base, exponent)


NUMPY_RULES: dict[str, Callable[..., Array]] = {
    "neg": np.negative,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": _power,
    "min": np.minimum,
    "max": np.maximum,
    "less": np.less,
    "less_equal": np.less_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "where": np.where,
    **{name: row.numpy for name, row in ELEMENTARY.items()},
}

# A folded constant stays a Python float beside tensors; only these are operators of Python, the rest takes tensors.
_OPERATORS: dict[str, Callable[..., Any]] = {
    "neg": operator.neg,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "pow": operator.pow,
}

TORCH_RULES: dict[str, Callable[..., torch.Tensor]] = {
    **_OPERATORS,
    "min": torch.minimum,
    "max": torch.maximum,
    "less": torch.lt,
    "less_equal": torch.le,
    "and": torch.logical_and,
    "or": torch.logical_or,
    "where": torch.where,
    **{name: row.torch for name, row in ELEMENTARY.items()},
}


def fold_constants(tape: Tape) -> dict[int, float]:
    """float64 values of the steps that hold no variable (comparisons give 0.0 or 1.0)."""
    folded: dict[int, float] = {}
    with np.errstate(all="ignore"):
        for index, (node, arguments) in enumerate(tape.steps):
            if not tape.constant[index]:
                continue
            if isinstance(node, Number):
                folded[index] = node.value
            elif isinstance(node, Constant):
                folded[index] = CONSTANT_VALUES[node.name]
            else:
                folded[index] = float(NUMPY_RULES[node.name](*(np.float64(folded[a]) for a in arguments)))
    return folded


def numpy_values(tape: Tape, folded: Mapping[int, float], columns: Mapping[str, np.ndarray]) -> list[Array]:
    """Values of the tape's outputs where each variable holds its column; constants come back as scalars."""
    values: list[Array] = [None] * len(tape.steps)
    with np.errstate(all="ignore"):  # a replay without its calls: formulas are asked often, for a few points
        for index, (node, arguments) in enumerate(tape.steps):
            if index in folded:
                values[index] = np.float64(folded[index])
            elif isinstance(node, Variable):
                values[index] = columns[node.name]
            else:
                values[index] = NUMPY_RULES[node.name](*[values[a] for a in arguments])  # type: ignore[union-attr]
            for done in tape.spent[index]:
                values[done] = None
    return [values[index] for index in tape.outputs]


def torch_values(tape: Tape, folded: Mapping[int, float], columns: Mapping[str, torch.Tensor]) -> list[Any]:
    """The same with tensors, differentiable; constants come back as Python floats."""
    like = next(iter(columns.values()))

    def leaf(index: int, node: Node) -> Any:
        return columns[node.name] if isinstance(node, Variable) else folded[index]

    def rule(index: int, name: str, arguments: Sequence[Any]) -> Any:
        if index in folded:
            return folded[index]
        if name == "where" and isinstance(arguments[0], float):
            return as_tensor(arguments[1] if arguments[0] else arguments[2])
        if name not in _OPERATORS:
            arguments = [as_tensor(a) for a in arguments]
        return TORCH_RULES[name](*arguments)

    def as_tensor(value: Any) -> torch.Tensor:
        return value if isinstance(value, torch.Tensor) else like.new_full((), value)

    return tape.replay(leaf, rule)
