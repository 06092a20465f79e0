"""What a program computes only to multiply it by zeros, left out.

A row that is put together from parts and then multiplied by a constant matrix is, where the matrix has rows of zeros
for a part, the product of the other parts with the other rows: a product with 0 is 0, and adding it changes nothing. A
slice of such rows is put together from the slices of its parts. What nothing reads any more goes. The sums that are
left have the terms they had, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from softwright.export.c_shapes import Shape
from softwright.export.program import Node, Program


def simplified(program: Program, shapes: dict[str, Shape]) -> Program:
    """The same function without such work."""
    constants, shapes = dict(program.constants), dict(shapes)
    made: dict[str, Node] = {}
    nodes: list[Node] = []

    def put(node: Node, shape: Shape) -> None:
        made[node.output], shapes[node.output] = node, shape
        nodes.append(node)

    def parts_of(name: str) -> list[str]:
        """Of a row that is put together, if every part has a known width."""
        node = made.get(name)
        if node is None or node.op != "Concat" or node.numbers["axis"][0] != len(shapes[name]) - 1:
            return []
        return list(node.inputs) if all(isinstance(shapes[part][-1], int) for part in node.inputs) else []

    for old in program.nodes:
        node, parts = old, parts_of(old.inputs[0]) if old.inputs else []
        weights = constants.get(node.inputs[1]) if node.op == "MatMul" and len(node.inputs) == 2 else None
        shape = shapes[node.output]
        if parts and weights is not None and weights.ndim == 2:
            rows, first = [], 0
            for part in parts:
                width = int(shapes[part][-1])
                if weights[first : first + width].any():
                    rows.append((part, range(first, first + width)))
                first += width
            if 0 < len(rows) < len(parts):
                node = _fewer(node, rows, constants, shapes, put)
        elif parts and node.op == "Slice" and node.numbers["axis"][0] != len(shape) - 1:
            cut = []
            for i, part in enumerate(parts):
                cut.append(f"{node.output}.{i}")
                width = shapes[part][-1]
                put(replace(node, inputs=(part,), output=cut[-1]), (*shape[:-1], width))
            node = Node("Concat", tuple(cut), node.output, {"axis": (len(shape) - 1,)})
        put(node, shape)
    return replace(program, constants=constants, nodes=_read(nodes, program.output))


def _fewer(
    node: Node,
    rows: Sequence[tuple[str, range]],
    constants: dict[str, np.ndarray],
    shapes: Mapping[str, Shape],
    put: Callable[[Node, Shape], None],
) -> Node:
    """The product with the parts and rows that are left."""
    left, key = rows[0][0], f"{node.inputs[1]}.of.{node.output}"
    constants[key] = constants[node.inputs[1]][[i for _, places in rows for i in places]]
    if len(rows) > 1:
        left, lead = f"{node.inputs[0]}.for.{node.output}", shapes[node.inputs[0]][:-1]
        names = tuple(name for name, _ in rows)
        put(Node("Concat", names, left, {"axis": (len(lead),)}), (*lead, len(constants[key])))
    return replace(node, inputs=(left, key))


def _read(nodes: list[Node], output: str) -> list[Node]:
    """Those that the output needs."""
    wanted, kept = {output}, []
    for node in reversed(nodes):
        if node.output in wanted:
            wanted |= set(node.inputs)
            kept.append(node)
    return kept[::-1]
