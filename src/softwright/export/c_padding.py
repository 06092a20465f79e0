"""Heads of one row whose tokens are filled up to whole vectors.

A head over constant tokens, softmax(t keys + biases) values, is the same with more tokens of bias -inf and value 0:
their exp is exactly 0, which changes neither the largest score, nor the sum, nor what is weighted. So a loop over
tokens has no rest that is computed number by number.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from softwright.export.c_exp import lanes_of
from softwright.export.c_shapes import Shape
from softwright.export.program import Node, Program

LEAST = 3  # tokens: fewer are computed one by one


def padded(program: Program, shapes: dict[str, Shape]) -> Program:
    """The program with such heads filled up."""
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
        lanes = lanes_of("double" if program.dtype == "float64" else "float")
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
