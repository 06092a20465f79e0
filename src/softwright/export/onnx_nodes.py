"""A node of a program as nodes of ONNX: numbers that it takes are attributes, or constants that come first.

Nodes that stand before the last one are called after it: "scores_back.rows" belongs to "scores_back". What the checker
writes down by itself (`checker/graphs/lines.py`) has the same names, and the two are compared byte by byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from softwright.export.program import Node

_PLAIN = {"Sub", "Add", "Mul", "Div", "MatMul", "Relu", "Sqrt"}


class _Writer:
    """Collects the nodes of one step."""

    def __init__(self, step: Node, dtype: str, onnx: Any) -> None:
        self.step, self.dtype, self.onnx, self.found = step, dtype, onnx, []

    def node(self, op: str, inputs: Sequence[str], what: str = "", **attributes: Any) -> str:
        name = f"{self.step.output}.{what}" if what else self.step.output
        self.found.append(self.onnx.helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def whole(self, what: str, numbers: Sequence[int]) -> str:
        """A constant of whole numbers, with one axis."""
        return self.node("Constant", [], what, value_ints=list(numbers))

    def tensor(self, what: str, value: float, shape: Sequence[int]) -> str:
        """A constant of the program's dtype."""
        array = np.full(tuple(shape), value, dtype=self.dtype)
        return self.node("Constant", [], what, value=self.onnx.numpy_helper.from_array(array))

    def one(self, what: str, number: int) -> str:
        return self.node("Constant", [], what, value_int=number)


def nodes_of(step: Node, dtype: str, onnx: Any) -> list[Any]:
    """A step as ONNX has it."""
    write, given, numbers = _Writer(step, dtype, onnx), list(step.inputs), step.numbers
    kind = {"float64": onnx.TensorProto.DOUBLE, "float32": onnx.TensorProto.FLOAT}[dtype]
    if step.op in _PLAIN:
        write.node(step.op, given)
        return write.found
    match step.op:
        case "Softmax":
            write.node("Softmax", given, axis=-1)
        case "Cast":
            write.node("Cast", given, to=numbers["to"][0])
        case "Concat":
            write.node("Concat", given, axis=numbers["axis"][0])
        case "Transpose":
            write.node("Transpose", given, perm=list(numbers["perm"]))
        case "Reshape":
            write.node("Reshape", [*given, write.whole("shape", numbers["shape"])])
        case "Slice":
            parts = [
                write.whole(what, numbers[key])
                for what, key in (("starts", "start"), ("ends", "stop"), ("axes", "axis"))
            ]
            write.node("Slice", [*given, *parts])
        case "Constant":
            write.tensor("", float(numbers["value"][0]), numbers["shape"])
        case "Expand":
            lead = write.node("Shape", [given[1]], "lead", start=0, end=numbers["lead"][0])
            shape = write.node("Concat", [lead, write.whole("ones", [1] * numbers["rest"][0])], "shape", axis=0)
            write.node("Expand", [given[0], shape])
        case "First":
            length = write.node("Shape", [given[1]], "length", start=1, end=2)
            write.node("Slice", [given[0], write.whole("starts", [0]), length, write.whole("axes", [0])])
        case "Rows":
            whole = write.node("Cast", [given[1]], "whole", to=onnx.TensorProto.INT64)
            rows = write.node("Sub", [whole, write.whole("low", numbers["low"])], "rows")
            write.node("Gather", [given[0], rows], axis=0)
        case "Places":
            ends = [write.one("first", 0), write.one("count", numbers["count"][0]), write.one("step", 1)]
            write.node("Range", ends)
        case "Equals":
            write.node("Cast", [write.node("Equal", given, "equal")], to=kind)
        case "Hardmax":
            most = write.node("ReduceMax", given, "most", axes=[-1], keepdims=1)
            top = write.node("Cast", [write.node("Equal", [*given, most], "equal")], "top", to=kind)
            shared = write.node("ReduceSum", [top, write.whole("axes", [-1])], "shared", keepdims=1)
            write.node("Div", [top, shared])
        case "Causal":
            first, unit = write.one("first", 0), write.one("step", 1)
            columns = write.node("Shape", given, "columns_size", start=-1)
            columns = write.node("Squeeze", [columns], "columns_count")
            columns = write.node("Range", [first, columns, unit], "columns")
            rows = write.node("Shape", given, "rows_size", start=-2, end=-1)
            rows = write.node("Squeeze", [rows], "rows_count")
            rows = write.node("Range", [first, rows, unit], "rows")
            rows = write.node("Add", [rows, write.whole("offset", numbers["offset"])], "reach")
            rows = write.node("Reshape", [rows, write.whole("column", [-1, 1])], "reach_column")
            later = write.node("Greater", [columns, rows], "later")
            write.node("Where", [later, write.tensor("never", -np.inf, []), given[0]])
        case _:
            raise KeyError(step.op)
    return write.found
