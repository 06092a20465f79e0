"""`Lines`: a graph as lines of text, from which ONNX's own messages are made.

A line is "output = Operation input input ... | name=1,2,3". Names of tensors hold no blanks. Whole numbers that ONNX
takes as inputs (`shape` of Reshape; `starts`, `ends`, `axes` of Slice) become Constant nodes in front of their node,
the others (`axis`, `perm`) attributes. Softmax is over the last axis, always.
"""

from __future__ import annotations

from typing import Any

AS_INPUTS = {"Reshape": ("shape",), "Slice": ("starts", "ends", "axes")}
LISTS, SINGLE = 7, 2  # ONNX's types of attributes: a list of whole numbers, one whole number


class Lines:
    """Collects lines; `end` names the last value y, as the file's output is called."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def __call__(self, line: str) -> str:
        """Adds a line and returns the name of its value."""
        self.found.append(line)
        return line.split(" ", 1)[0]

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
            whole = {name: [int(number) for number in text.split(",")] for name, text in numbers.items()}
            for name in AS_INPUTS.get(op, ()):
                nodes.append(self._constant(f"{output}.{name}", whole.pop(name), onnx))
                inputs.append(f"{output}.{name}")
            node = onnx.NodeProto(op_type=op, name=output, input=inputs, output=[output])
            if op in ("Softmax", "Concat"):
                (axis,) = whole.get("axis", [-1])
                node.attribute.add(name="axis", type=SINGLE, i=axis)
            if op == "Transpose":
                node.attribute.add(name="perm", type=LISTS, ints=whole["perm"])
            nodes.append(node)
        return nodes

    def _constant(self, name: str, numbers: list[int], onnx: Any) -> Any:
        node = onnx.NodeProto(op_type="Constant", name=name, output=[name])
        node.attribute.add(name="value_ints", type=LISTS, ints=numbers)
        return node
