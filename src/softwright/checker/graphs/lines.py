"""`Lines`: a graph as lines of text, from which ONNX's own messages are made.

A line is "output = Operation input input ... | name=1,2,3". Names of tensors hold no blanks. Whole numbers that ONNX
takes as inputs (`shape` of Reshape; `starts`, `ends`, `axes` of Slice) become Constant nodes in front of their node,
the others are attributes. Softmax is over the last axis, always. A Constant has `value_ints` (one axis), `value_int`
(no axis), or `value` and `shape`: one number of the graph's dtype everywhere.

What takes several nodes has a method; nodes before the last are called after it, "scores_back.rows" for "scores_back".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

AS_INPUTS = {"Reshape": ("shape",), "Slice": ("starts", "ends", "axes")}
INTS, INT, TENSOR = 7, 2, 4  # ONNX's types of attributes: a list of whole numbers, one whole number, a tensor
INT64 = 7  # ONNX's type of elements
ELEMENTS = {"float32": 1, "float64": 11}
LISTED = {"perm", "value_ints"}  # attributes that are lists


@dataclass(frozen=True)
class Graph:
    """Inputs (name, shape), the value that is the output and its shape; letters are free sizes; `whole`: int64."""

    inputs: list[tuple[str, list[Any]]]
    last: str
    shape: list[Any]
    whole: frozenset[str] = frozenset()


class Lines:
    """Collects lines."""

    def __init__(self, dtype: str) -> None:
        self.found: list[str] = []
        self.dtype = dtype

    def __call__(self, line: str) -> str:
        """Adds a line and returns the name of its value."""
        self.found.append(line)
        return line.split(" ", 1)[0]

    # -------------------------------------------------------------------------------- what takes several nodes

    def repeat(self, out: str, once: str, like: str, lead: int, rest: int) -> str:
        """`once` with its first axes as long as those of `like`."""
        self(f"{out}.lead = Shape {like} | end={lead} start=0")
        self(f"{out}.ones = Constant | value_ints={','.join(['1'] * rest)}")
        self(f"{out}.shape = Concat {out}.lead {out}.ones | axis=0")
        return self(f"{out} = Expand {once} {out}.shape")

    def first(self, out: str, table: str, like: str) -> str:
        """As many rows of a table as the second axis of `like` has entries."""
        self(f"{out}.length = Shape {like} | end=2 start=1")
        self(f"{out}.starts = Constant | value_ints=0")
        self(f"{out}.axes = Constant | value_ints=0")
        self.found.append(f"{out} = SliceAt {table} {out}.starts {out}.length {out}.axes")
        return out

    def rows(self, out: str, table: str, numbers: str, low: int) -> str:
        """The rows that whole numbers name, counted from `low`."""
        self(f"{out}.whole = Cast {numbers} | to={INT64}")
        self(f"{out}.low = Constant | value_ints={low}")
        self(f"{out}.rows = Sub {out}.whole {out}.low")
        return self(f"{out} = Gather {table} {out}.rows | axis=0")

    def equals(self, out: str, one: str, two: str) -> str:
        self(f"{out}.equal = Equal {one} {two}")
        return self(f"{out} = Cast {out}.equal | to={ELEMENTS[self.dtype]}")

    def places(self, out: str, count: int) -> str:
        for name, number in (("first", 0), ("count", count), ("step", 1)):
            self(f"{out}.{name} = Constant | value_int={number}")
        return self(f"{out} = Range {out}.first {out}.count {out}.step")

    def hardmax(self, out: str, scores: str) -> str:
        """What is largest shares 1 evenly."""
        self(f"{out}.most = ReduceMax {scores} | keepdims=1 reduced=-1")
        self(f"{out}.equal = Equal {scores} {out}.most")
        self(f"{out}.top = Cast {out}.equal | to={ELEMENTS[self.dtype]}")
        self(f"{out}.axes = Constant | value_ints=-1")
        self(f"{out}.shared = ReduceSum {out}.top {out}.axes | keepdims=1")
        return self(f"{out} = Div {out}.top {out}.shared")

    def causal(self, out: str, scores: str, offset: int) -> str:
        """-inf where the column is beyond the row plus the offset."""
        self(f"{out}.first = Constant | value_int=0")
        self(f"{out}.step = Constant | value_int=1")
        self(f"{out}.columns_size = Shape {scores} | start=-1")
        self(f"{out}.columns_count = Squeeze {out}.columns_size")
        self(f"{out}.columns = Range {out}.first {out}.columns_count {out}.step")
        self(f"{out}.rows_size = Shape {scores} | end=-1 start=-2")
        self(f"{out}.rows_count = Squeeze {out}.rows_size")
        self(f"{out}.rows = Range {out}.first {out}.rows_count {out}.step")
        self(f"{out}.offset = Constant | value_ints={offset}")
        self(f"{out}.reach = Add {out}.rows {out}.offset")
        self(f"{out}.column = Constant | value_ints=-1,1")
        self.found.append(f"{out}.reach_column = ReshapeTo {out}.reach {out}.column")
        self(f"{out}.later = Greater {out}.columns {out}.reach_column")
        self(f"{out}.never = Constant | value=-inf shape=")
        return self(f"{out} = Where {out}.later {out}.never {scores}")

    # -------------------------------------------------------------------------------------------- as ONNX has it

    def names(self) -> set[str]:
        """All values that lines make, and the constants in front of them."""
        made = set()
        for line in self.found:
            output, _, op, *_ = line.split(" ")
            made |= {output, *(f"{output}.{what}" for what in AS_INPUTS.get(op, ()))}
        return made

    def messages(self, last: str, onnx: Any) -> list[Any]:
        """NodeProto messages, with `last` called y."""
        nodes = []
        for line in self.found:
            work, _, given = line.partition(" | ")
            output, _, op, *inputs = work.split(" ")
            output, *inputs = ["y" if name == last else name for name in (output, *inputs)]
            numbers = dict(entry.split("=") for entry in given.split(" ")) if given else {}
            for name in AS_INPUTS.get(op, ()):
                front = onnx.NodeProto(op_type="Constant", name=f"{output}.{name}", output=[f"{output}.{name}"])
                front.attribute.add(name="value_ints", type=INTS, ints=map(int, numbers.pop(name).split(",")))
                nodes.append(front)
                inputs.append(f"{output}.{name}")
            kind = {"SliceAt": "Slice", "ReshapeTo": "Reshape"}.get(op, op)  # their numbers are values already
            node = onnx.NodeProto(op_type=kind, name=output, input=inputs, output=[output])
            if op == "Softmax":
                numbers = {"axis": "-1"}
            self._attributes(node, numbers)
            nodes.append(node)
        return nodes

    def _attributes(self, node: Any, numbers: dict[str, str]) -> None:
        shape = numbers.pop("shape", None)
        if "reduced" in numbers:  # the axes of a reduction: `axes` is an input of Slice
            node.attribute.add(name="axes", type=INTS, ints=map(int, numbers.pop("reduced").split(",")))
        for name in sorted(numbers):
            text = numbers[name]
            if name == "value":
                sizes = [int(size) for size in (shape or "").split(",") if size]
                entry = node.attribute.add(name=name, type=TENSOR)
                array = np.full(sizes, float(text), dtype=np.dtype(self.dtype).newbyteorder("<"))
                entry.t.dims.extend(sizes)
                entry.t.data_type, entry.t.raw_data = ELEMENTS[self.dtype], array.tobytes()
            elif name in LISTED:
                node.attribute.add(name=name, type=INTS, ints=map(int, text.split(",")))
            else:
                node.attribute.add(name=name, type=INT, i=int(text))
