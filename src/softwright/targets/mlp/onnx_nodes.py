"""The nodes of ONNX graphs, one by one: what each makes of the values of its operands (`values.py`).

Layers, elementwise arithmetic, activations (also those that exporters spell out), and what converters put between:
Cast, Reshape, Flatten, Squeeze and Unsqueeze that keep a row a row, Gather, Slice and Split of columns, Concat, Scaler,
Imputer, BatchNormalization. Constants are taken as the file holds them; nodes of constants alone are worked out, where
the result is no larger than its operands together. Any other node is `Missing`, with its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from softwright.errors import InvalidInput
from softwright.targets.mlp import values as algebra
from softwright.targets.mlp.activation import Activation, read_spelling, spellings
from softwright.targets.mlp.branches import Branch
from softwright.targets.mlp.onnx_constants import DIGITS, folded
from softwright.targets.mlp.values import Missing, Value

_SPELLINGS = spellings("onnx")
_OPERATORS = ", ".join(dict.fromkeys(spelling.call for _, spelling in _SPELLINGS))
_ARITHMETIC = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Neg": "neg", "Pow": "pow", "Sum": "add"}
_INSIDE = {"Erf": "erf", "Tanh": "tanh", "Sigmoid": "sigmoid", "Softplus": "softplus", "Abs": "abs"}
_ROWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")  # what keeps the numbers of a row, checked by running
_LARGEST = float(np.finfo(np.float32).max)
_COMPARISONS = ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")
_SELU = float(np.float32(1.67326319217681884765625)), float(np.float32(1.05070102214813232421875))  # ONNX's defaults
KNOWN = f"Gemm, MatMul, Add, Sub, Mul, Div, {_OPERATORS}, Selu, Celu, PRelu, HardSwish, Concat, Gather, or Dropout"


class Nodes:
    """Values of a graph by name; `constants` are its arrays, `widths` the numbers of its inputs where known, `last` the
    axes that are the last one: 1 of tables of rows, 2 of sequences."""

    def __init__(
        self,
        constants: dict[str, np.ndarray],
        inputs: dict[str, Value],
        widths: dict[str, int | None],
        last: tuple[int, ...] = (1, -1),
    ) -> None:
        self.constants, self.values, self.widths, self.last = constants, dict(inputs), widths, last
        self.casts: set[int] = set()  # types that values are cast into
        self.dtype = ""  # that of the first matrix
        self.conditions: dict[str, Value] = {}  # values that are positive where a comparison holds
        self.shapes: dict[str, int] = {}  # the width of rows, by the name of a shape
        self.stored: dict[str, str] = {}  # of constants that were worked out, the dtype of what they are made of

    def add(self, node: Any, options: dict[str, Any]) -> None:
        """One node, whose results are then known by their names."""
        names = [str(name) for name in node.input]
        kind, outputs = str(node.op_type), [str(name) for name in node.output]
        if kind == "Split":
            self._split(names, outputs, options)
            return
        if kind == "Gather" and names[0] in self.shapes and len(names) > 1:
            places = self.constants.get(names[1])
            if places is not None and places.size == 1 and int(places.reshape(())) in self.last:
                self.constants[outputs[0]] = np.full(places.shape, self.shapes[names[0]], dtype=np.int64)
                return
        if names and all(name in self.constants for name in names if name):
            found = folded(kind, [self.constants[name] for name in names if name], options)
            if found is not None:
                self.constants[outputs[0]] = found
                self.stored[outputs[0]] = self._stored(names[0])
                return
        condition = self._condition(kind, names)
        if condition is not None:
            self.conditions[outputs[0]] = condition
            if kind != "Cast":
                return
            self.values[outputs[0]] = algebra.missing("a comparison is used as numbers, which jump; write it with Relu")
            return
        if kind == "Shape" and self._told_width(names[0], outputs[0]):
            return
        found = self._node(kind, names, options)
        if isinstance(found.thing, Missing) and len(outputs) > 1 and kind != "Dropout":
            self.values.update(dict.fromkeys(outputs, found))
        self.values[outputs[0]] = found

    def _condition(self, kind: str, names: list[str]) -> Value | None:
        """The value that is positive where a comparison holds; None for other nodes. On its zeros nothing is said."""
        if kind in _COMPARISONS and len(names) == 2:
            sides = [self.value(name) for name in (names if kind.startswith("Greater") else names[::-1])]
            return algebra.arithmetic("sub", sides, kind)
        given = self.conditions.get(names[0]) if names else None
        if given is None or kind not in ("Not", "Identity", "Cast"):
            return None
        return algebra.arithmetic("neg", [given], kind) if kind == "Not" else given

    def _told_width(self, name: str, output: str) -> bool:
        """Of a shape the last number is known; the first one, of rows, stands as -1 and may only be left alone."""
        thing = self.value(name).thing
        width = thing.width if isinstance(thing, Branch) else None
        width = self.widths.get(name) if width is None else width
        if width is None:
            return False
        self.shapes[output] = width
        return True

    def _stored(self, name: str) -> str:
        return self.stored.get(name) or str(self.constants[name].dtype)

    def value(self, name: str) -> Value:
        if name in self.values:
            return self.values[name]
        array = self.constants.get(name)
        if array is None or array.dtype.kind not in "fiu":
            return algebra.missing(f"{name or 'an operand'} is no constant of numbers; export with constants folded")
        return Value(np.asarray(array, dtype=np.float64))

    def _node(self, kind: str, names: list[str], options: dict[str, Any]) -> Value:
        first = self.value(names[0]) if names else algebra.missing(f"node {kind} has no input")
        layers: dict[str, Callable[[], Value]] = {
            "Gemm": lambda: self._product(kind, names, options),
            "MatMul": lambda: self._product(kind, names, options),
            "Concat": lambda: self._concat(names, options),
            "Gather": lambda: self._gather(names, options),
            "ArrayFeatureExtractor": lambda: self._gather(names, {"axis": -1}),
            "Slice": lambda: self._slice(names, options),
            "Scaler": lambda: self._scaler(first, options),
            "BatchNormalization": lambda: self._batch_norm(names, options),
            "Cast": lambda: self._cast(first, options),
            "Imputer": lambda: self._imputer(first, options),
            "Identity": lambda: first,
            "Dropout": lambda: self._dropout(names),
            "Max": lambda: self._extreme(algebra.largest, names, kind),
            "Min": lambda: self._extreme(algebra.smallest, names, kind),
            "Mean": lambda: self._mean(names),
            "ReduceMean": lambda: self._reduced(names, options, kind),
            "ReduceSum": lambda: self._reduced(names, options, kind),
            "Log": lambda: algebra.logarithm(first, kind),
            "Where": lambda: self._where(names),
            "PRelu": lambda: self._slopes(names),
            "Selu": lambda: self._selu(first, options),
            "Celu": lambda: self._celu(first, options),
            "HardSwish": lambda: algebra.chained(first, _hard_swish, "HardSwish"),
        }
        if kind in layers:
            return layers[kind]()
        if kind in _ARITHMETIC:
            return self._arithmetic(kind, names)
        if kind in _ROWS:
            return first if 1 in self.last else self._unknown(f"{kind} of sequences", first)
        return self._activated(kind, names, options)

    def _cast(self, operand: Value, options: dict[str, Any]) -> Value:
        if options.get("to") not in DIGITS:
            return self._unknown("Cast to other types than of floats", operand)
        self.casts.add(int(options["to"]))
        return operand

    def _imputer(self, operand: Value, options: dict[str, Any]) -> Value:
        """Rows of numbers have no NaN to replace; other numbers they may have."""
        if not np.isnan(options.get("replaced_value_float", 0.0)):
            return self._unknown("Imputer that replaces a number instead of NaN", operand)
        return operand

    def _unknown(self, kind: str, operand: Value) -> Value:
        return algebra.also(operand, algebra.missing(f"node {kind} has no attention form; use {KNOWN}"))

    def _arithmetic(self, kind: str, names: list[str]) -> Value:
        masks = [name for name in names if name in self.conditions]
        if kind == "Mul" and len(masks) == 1 and len(names) == 2:
            other = self.value(next(name for name in names if name not in masks))
            return algebra.chosen(self.conditions[masks[0]], other, Value(0.0), f"node {kind}")
        found = self.value(names[0])
        if kind == "Neg":
            return algebra.arithmetic("neg", [found], kind)
        for name in names[1:]:
            found = algebra.arithmetic(_ARITHMETIC[kind], [found, self.value(name)], kind)
        return found

    def _product(self, kind: str, names: list[str], options: dict[str, Any]) -> Value:
        matrix = self.constants.get(names[1]) if len(names) > 1 else None
        operand = self.value(names[0])
        if isinstance(operand.thing, Missing):
            return operand
        thing = operand.thing
        if not isinstance(thing, Branch | algebra.Product) or options.get("transA", 0):
            matrix = None
        if matrix is None or matrix.ndim != 2 or matrix.dtype.kind != "f":
            return algebra.missing(f"{kind} must be input times constant matrix; export it again")
        self.dtype = self.dtype or self._stored(names[1])
        weight = matrix.astype(np.float64)
        weight = np.ascontiguousarray(weight if kind == "Gemm" and options.get("transB", 0) else weight.T)
        width = _width(thing)
        if width not in (None, weight.shape[1]):
            fault = f"{kind} takes {weight.shape[1]} numbers, and {width} stand in a row before it"
            return algebra.missing(f"{fault}; no node between may make other axes of a row, mend or leave out Reshape")
        alpha, beta = float(options.get("alpha", 1.0)), float(options.get("beta", 1.0))
        bias = np.zeros(len(weight))
        if kind == "Gemm" and len(names) > 2 and names[2]:
            given = self.constants.get(names[2])
            if given is None or given.dtype.kind != "f":
                return algebra.missing(
                    f"{kind} has a bias that is no constant of numbers; export with constants folded"
                )
            if given.size not in (1, len(weight)):
                return algebra.missing(
                    f"{kind} has a bias of {given.size} numbers for {len(weight)} outputs; mend the shapes"
                )
            bias = np.broadcast_to(given.astype(np.float64).reshape(-1), (len(weight),)).copy()
        found = algebra.linear(
            operand, weight * alpha if alpha != 1.0 else weight, bias * beta if beta != 1.0 else bias
        )
        return found if alpha == beta == 1.0 else Value(found.thing, found.forms, True)

    def _concat(self, names: list[str], options: dict[str, Any]) -> Value:
        found = [self.value(name) for name in names]
        if len(found) == 1:
            return found[0]
        if options.get("axis") not in self.last:
            return algebra.missing("Concat joins along another axis than the last; use axis=-1")
        joined = algebra.join(found, "Concat")
        thing = joined.thing
        if (
            isinstance(thing, Branch)
            and len(thing.layers) == 1
            and _is_input(thing, sum(map(_or_none, self.widths.values())))
        ):
            return algebra.of(Branch(), True)  # all columns in their order are the input itself
        return joined

    def _gather(self, names: list[str], options: dict[str, Any]) -> Value:
        places = self.constants.get(names[1]) if len(names) > 1 else None
        if places is None or places.dtype.kind not in "iu" or options.get("axis", 0) not in self.last:
            return self._unknown("Gather along another axis than the last", self.value(names[0]))
        return algebra.selected(self.value(names[0]), places.reshape(-1), self.widths.get(names[0]), "Gather")

    def _slice(self, names: list[str], options: dict[str, Any]) -> Value:
        given = [self.constants.get(name) for name in names[1:]]
        operand, width = self.value(names[0]), self.widths.get(names[0])
        thing = operand.thing
        size = thing.width if isinstance(thing, Branch) and thing.width is not None else width
        if len(given) < 3 or any(x is None or x.size != 1 for x in given) or size is None:
            return self._unknown("Slice", operand)
        start, end, axis, *step = (int(x.reshape(())) for x in given if x is not None)
        if axis not in self.last:
            return self._unknown("Slice along another axis than the last", operand)
        return algebra.selected(operand, np.arange(size)[slice(start, end, *step)], width, "Slice")

    def _split(self, names: list[str], outputs: list[str], options: dict[str, Any]) -> None:
        operand, sizes = self.value(names[0]), self.constants.get(names[1]) if len(names) > 1 else None
        sizes = np.asarray(options["split"]) if "split" in options else sizes  # up to opset 12
        thing = operand.thing
        width = thing.width if isinstance(thing, Branch) and thing.width is not None else self.widths.get(names[0])
        good = width is not None and options.get("axis", 0) in self.last and len(outputs) <= 4096
        if good and sizes is None and width is not None and width % len(outputs) == 0:
            sizes = np.full(len(outputs), width // len(outputs))
        if not good or sizes is None or sizes.size != len(outputs) or int(sizes.sum()) != width or sizes.min() < 1:
            self.values.update(dict.fromkeys(outputs, self._unknown("Split", operand)))
            return
        ends = np.cumsum(sizes.reshape(-1))
        for name, start, end in zip(outputs, ends - sizes.reshape(-1), ends, strict=True):
            self.values[name] = algebra.selected(operand, np.arange(start, end), width, "Split")

    def _scaler(self, operand: Value, options: dict[str, Any]) -> Value:
        """(x - offset) scale, of the operators for machine learning."""
        offset, scale = (
            np.asarray(options.get(name, [first]), dtype=np.float64)
            for name, first in (("offset", 0.0), ("scale", 1.0))
        )
        moved = algebra.arithmetic("sub", [operand, Value(offset)], "Scaler")
        return algebra.arithmetic("mul", [moved, Value(scale)], "Scaler")

    def _batch_norm(self, names: list[str], options: dict[str, Any]) -> Value:
        arrays = [self.constants.get(name) for name in names[1:5]]
        if len(arrays) < 4 or any(array is None for array in arrays) or options.get("training_mode", 0):
            return self._unknown("BatchNormalization in training mode", self.value(names[0]))
        width = _width(self.value(names[0]).thing)
        if 1 not in self.last or any(array is not None and width not in (None, array.size) for array in arrays):
            return self._unknown("BatchNormalization along another axis than the last", self.value(names[0]))
        gain, shift, mean, variance = (np.asarray(array, dtype=np.float64) for array in arrays)
        scale = gain / np.sqrt(variance + float(options.get("epsilon", np.float32(1e-5))))
        return algebra.chained(
            self.value(names[0]), lambda s: s.scaled(scale, shift - mean * scale), "BatchNormalization"
        )

    def _dropout(self, names: list[str]) -> Value:
        random = self.constants.get(names[2]) if len(names) > 2 else None
        if random is not None and np.any(random):
            return algebra.missing("Dropout is in training mode; export in eval mode")
        return self.value(names[0])

    def _extreme(self, which: Callable[[Value, Value, str], Value], names: list[str], kind: str) -> Value:
        """Max or Min of values and numbers."""
        found = self.value(names[0])
        for name in names[1:]:
            found = which(found, self.value(name), kind)
        return found

    def _mean(self, names: list[str]) -> Value:
        found = self._arithmetic("Sum", names)
        return algebra.arithmetic("mul", [found, Value(1.0 / len(names))], "Mean") if len(names) > 1 else found

    def _reduced(self, names: list[str], options: dict[str, Any], kind: str) -> Value:
        """The sum or mean of the columns, which is kept as one column."""
        operand = self.value(names[0])
        axes = self.constants.get(names[1]) if len(names) > 1 else np.asarray(options.get("axes", []))
        if (
            axes is None
            or list(axes.reshape(-1)) not in [[axis] for axis in self.last]
            or not options.get("keepdims", 1)
        ):
            return self._unknown(f"{kind} over anything but the last axis, kept as one value (keepdims=1),", operand)
        if isinstance(operand.thing, Branch) and operand.thing.width is None:
            operand = Value(replace(operand.thing, size=self.widths.get(names[0])))
        return algebra.added_up(operand, kind == "ReduceMean", f"node {kind}")

    def _where(self, names: list[str]) -> Value:
        condition = self.conditions.get(names[0])
        if condition is None or len(names) != 3:
            return self._unknown("Where by anything but a comparison of values", self.value(names[1]))
        return algebra.chosen(condition, self.value(names[1]), self.value(names[2]), "node Where")

    def _slopes(self, names: list[str]) -> Value:
        slopes = self.constants.get(names[1]) if len(names) > 1 else None
        if slopes is None or slopes.size != slopes.shape[-1] if slopes is not None and slopes.ndim else slopes is None:
            return self._unknown("PRelu without constant slopes", self.value(names[0]))
        found = np.asarray(slopes, dtype=np.float64).reshape(-1)
        return algebra.chained(self.value(names[0]), lambda s: s.leaky(found), "PRelu")

    def _selu(self, operand: Value, options: dict[str, Any]) -> Value:
        alpha, gamma = (float(options.get(name, first)) for name, first in zip(("alpha", "gamma"), _SELU, strict=True))
        return algebra.chained(operand, lambda s: s.activated(Activation("elu", (alpha,))).scaled(gamma), "Selu")

    def _celu(self, operand: Value, options: dict[str, Any]) -> Value:
        alpha = float(options.get("alpha", 1.0))
        if not alpha > 0:
            return self._unknown(f"Celu with alpha = {alpha:g}, which is not positive,", operand)
        return algebra.chained(
            operand, lambda s: s.scaled(1 / alpha).activated(Activation("elu", (1.0,))).scaled(alpha), "Celu"
        )

    def _activated(self, kind: str, names: list[str], options: dict[str, Any]) -> Value:
        operand = self.value(names[0]) if names else algebra.missing(f"node {kind} has no input")
        try:
            found = self._activation(kind, names, options)
        except InvalidInput as error:
            return operand if isinstance(operand.thing, Missing) else algebra.missing(*error.faults)
        if isinstance(found, _Limit):
            return algebra.clamped(operand, found.low, found.high, f"node {kind}")
        if found is None and kind not in _INSIDE:
            return self._unknown(kind, operand)
        if isinstance(operand.thing, Branch) and operand.thing.width is None and found is not None:
            return algebra.missing(f"{kind} comes before any Gemm or MatMul; put a linear layer first")
        return algebra.function(_INSIDE.get(kind, ""), operand, found, f"node {kind}")

    def _activation(self, kind: str, names: list[str], options: dict[str, Any]) -> Activation | _Limit | None:
        """The activation that a node is, with the constants of the file; None if it is none."""

        def option(position: int, name: str, default: Any) -> Any:
            value = options.get(name, float(np.float32(default)) if isinstance(default, float) else default)
            if kind == "Clip" and name not in options and len(names) > position + 1 and names[position + 1]:
                value = self.constants.get(names[position + 1], np.empty(0))
            return value.decode(errors="replace") if isinstance(value, bytes) else value

        try:
            if kind == "Clip":
                return _limits(*(option(i, name, None) for i, name in enumerate(("min", "max"))))
            found = read_spelling([entry for entry in _SPELLINGS if entry[1].call == kind], option)
        except (TypeError, ValueError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(
                "ONNX", [f"node {kind} has an option that is no number; export the graph again"]
            ) from error
        return found


@dataclass(frozen=True)
class _Limit:
    """A Clip on one side, or on none."""

    low: float | None
    high: float | None


def _limits(low: Any, high: Any) -> Activation | _Limit:
    """A Clip; the largest numbers of float32 stand for no limit."""
    below = None if low is None or float(low) <= -_LARGEST else float(low)
    above = None if high is None or float(high) >= _LARGEST else float(high)
    return _Limit(below, above) if below is None or above is None else Activation("hardtanh", (below, above))


def _width(thing: Any) -> int | None:
    """How many numbers stand in a row, where that is known."""
    return thing.width if isinstance(thing, Branch) else getattr(thing, "outputs", None)


def _or_none(width: int | None) -> int:
    return width or 0


def _is_input(branch: Branch, width: int) -> bool:
    """Whether a branch is the whole input as it is."""
    layer = branch.layers[0]
    return branch.plain and layer.weight.shape == (width, width) and not layer.bias.any() and bool(
        np.array_equal(layer.weight, np.eye(width))
    )  # fmt: skip


def _hard_swish(branch: Branch) -> algebra.Product:
    """ONNX's: x max(0, min(1, alpha x + 1/2)), alpha the float32 of 1/6 as all attributes are."""
    return algebra.hard_swish(branch, float(np.float32(1 / 6)))
