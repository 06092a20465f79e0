"""What a program computes only to multiply it by zeros, left out, and tokens of weight 0, added.

A row that is put together from parts and then multiplied by a constant matrix is, where the matrix has rows of zeros
for a part, the product of the other parts with the other rows: a product with 0 is 0, and adding it changes nothing. A
slice of such rows is put together from the slices of its parts. What nothing reads any more goes. The sums that are
left have the terms they had, in their order.

Heads of one row have their tokens filled up to whole vectors: a head over constant tokens, softmax(t keys + biases)
values, is the same with more tokens of bias -inf and value 0. Their exp is exactly 0, which changes neither the largest
score, nor the sum, nor what is weighted. So a loop over tokens has no rest that is computed number by number.

Where a claim charges the sum of products and a bias in any order, a product is told its bias and begins with it: one
operation less, and one that does not wait for the product.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from softwright.export.c_shapes import Shape
from softwright.export.program import Node, Program

LEAST = 3  # tokens: fewer are computed one by one


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
    return replace(program, constants=constants, nodes=read_nodes(nodes, program.output))


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


def read_nodes(nodes: list[Node], output: str) -> list[Node]:
    """Those that the output needs."""
    wanted, kept = {output}, []
    for node in reversed(nodes):
        if node.output in wanted:
            wanted |= set(node.inputs)
            kept.append(node)
    return kept[::-1]


def with_biases(program: Program) -> Program:
    """The program with biases as third inputs of the products that they are added to."""
    made = {node.output: node for node in program.nodes}
    uses = Counter(name for node in program.nodes for name in node.inputs)

    def joined(node: Node) -> Node:
        product = made.get(node.inputs[0]) if node.op == "Add" else None
        bias = program.constants.get(node.inputs[-1])
        if product is None or product.op != "MatMul" or bias is None or bias.size != bias.shape[-1]:
            return node
        weights = program.constants.get(product.inputs[1])
        weighted = made.get(product.inputs[0])
        alone = uses[product.output] == 1 and (weighted is None or weighted.op != "Softmax")
        fits = weights is not None and weights.ndim == 2 and weights.shape[1] == bias.size
        return Node("MatMul", (*product.inputs, node.inputs[-1]), node.output) if alone and fits else node

    if not program.bias_anywhere:
        return program
    return replace(program, nodes=read_nodes([joined(node) for node in program.nodes], program.output))


def padded(program: Program, shapes: dict[str, Shape], lanes: int) -> Program:
    """The program with such heads filled up to multiples of so many tokens."""
    made = {node.output: node for node in program.nodes}
    constants, changed = dict(program.constants), dict[str, Node]()

    def constant(name: str, axis: int, room: int, fill: float) -> str:
        array = program.constants[name]
        size = [(0, room - array.shape[axis]) if a == axis % array.ndim else (0, 0) for a in range(array.ndim)]
        key = f"{name}.filled"
        constants[key] = np.pad(array, size, constant_values=fill)
        return key

    for node in program.nodes:
        head = _head(program, node, made, shapes) if node.op == "Softmax" else None
        if head is None:
            continue
        scores, products, users = head
        n = int(shapes[node.output][-1])
        room = -(-n // lanes) * lanes
        if room == n:
            continue
        t, keys = products.inputs
        changed[products.output] = replace(products, inputs=(t, constant(keys, -1, room, 0.0)))
        changed[scores.output] = replace(
            scores, inputs=(products.output, constant(scores.inputs[1], -1, room, -np.inf))
        )
        for user in users:
            changed[user.output] = replace(user, inputs=(node.output, constant(user.inputs[1], -2, room, 0.0)))
    nodes = [changed.get(node.output, node) for node in program.nodes]
    return replace(program, constants=constants, nodes=nodes)


def _head(
    program: Program, softmax: Node, made: dict[str, Node], shapes: dict[str, Shape]
) -> tuple[Node, Node, list[Node]] | None:
    """Its scores, products and the products that use its weights, if it is such a head and all else is constant."""
    shape = shapes[softmax.output]
    n = shape[-1]
    if isinstance(n, str) or n < LEAST or any(size != 1 for size in shape[:-1]):
        return None
    scores = made.get(softmax.inputs[0])
    products = made.get(scores.inputs[0]) if scores is not None and scores.op == "Add" else None
    if scores is None or products is None or products.op not in ("Mul", "MatMul"):
        return None
    users = [node for node in program.nodes if softmax.output in node.inputs]
    tables = [scores.inputs[1], products.inputs[1], *(user.inputs[-1] for user in users)]
    read = {scores.inputs[0]: scores, softmax.inputs[0]: softmax}  # by nobody else
    alone = all([node for node in program.nodes if name in node.inputs] == [one] for name, one in read.items())
    whole = all(name in program.constants for name in tables) and program.output not in (*read, softmax.output)
    fits = whole and all(program.constants[name].shape[-1] == n for name in tables[:2])
    used = all(user.op == "MatMul" and user.inputs[0] == softmax.output for user in users)
    return (scores, products, users) if alone and fits and used else None
