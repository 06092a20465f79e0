"""`Program`: what a network computes, as a list of plain operations on arrays. Formats are printed from it.

A value is an array whose first axis with a letter instead of a size, the batch, is free. Constants are the tensors of
the network under their own names. The operations are those of ONNX, with its broadcasting, and no others:

    Sub Add Mul MatMul           as NumPy has them
    Softmax                      over the last axis
    Relu                         max(a, 0)
    Reshape(shape)               one entry may be -1
    Transpose(perm)
    Slice(axis, start, stop)
    Concat(axis)

Which run the rounding part of a certificate covers: sums and products of matrices in any order, fused or not; softmax
as exp(s - max s) over the sum of all of them, exp being as exact as the certificate's hypotheses say; every other
operation rounded once. The order in which a program meets a term of a head is that of `attention/layer.py`: scores, the
softmax, values and slopes weighted apart, slopes contracted with t last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Shape = tuple[int | str, ...]  # a letter stands for a size that is free


@dataclass(frozen=True)
class Node:
    """output = op(inputs), with the whole numbers that the operation takes."""

    op: str
    inputs: tuple[str, ...]
    output: str
    numbers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass
class Program:
    """Inputs by name with their shapes, constants, and nodes in order; `output` is the value that is returned."""

    inputs: dict[str, Shape]
    constants: dict[str, np.ndarray]
    dtype: str
    nodes: list[Node] = field(default_factory=list)
    output: str = ""
    shape: Shape = ()  # of the output

    def add(self, op: str, inputs: Sequence[str], output: str, **numbers: Sequence[int]) -> str:
        """A node; returns the name of its value."""
        self.nodes.append(Node(op, tuple(inputs), output, {name: tuple(value) for name, value in numbers.items()}))
        return output

    def part(self, source: str, output: str, start: int, stop: int, axis: int = 0) -> str:
        return self.add("Slice", [source], output, axis=[axis], start=[start], stop=[stop])

    def ended(self, output: str, shape: Shape) -> Program:
        self.output, self.shape = output, shape
        return self


def folded(program: Program) -> Program:
    """The same with all that depends on no input computed once, here, in the dtype of the program."""
    known, nodes = dict(program.constants), []
    for node in program.nodes:
        if all(name in known for name in node.inputs):
            known[node.output] = computed(node, [known[name] for name in node.inputs])
        else:
            nodes.append(node)
    used = {name for node in nodes for name in node.inputs}
    constants = {name: array for name, array in known.items() if name in used}
    return Program(program.inputs, constants, program.dtype, nodes, program.output, program.shape)


def run(program: Program, *inputs: np.ndarray) -> np.ndarray:
    """What the program gives, by NumPy."""
    values: dict[str, np.ndarray] = {**program.constants, **dict(zip(program.inputs, inputs, strict=True))}
    for node in program.nodes:
        values[node.output] = computed(node, [values[name] for name in node.inputs])
    return values[program.output]


def computed(node: Node, values: Sequence[Any]) -> Any:
    """One node, by NumPy."""
    first, numbers = values[0], node.numbers
    match node.op:
        case "Sub":
            return first - values[1]
        case "Add":
            return first + values[1]
        case "Mul":
            return first * values[1]
        case "MatMul":
            return first @ values[1]
        case "Softmax":
            grown = np.exp(first - first.max(axis=-1, keepdims=True))
            return grown / grown.sum(axis=-1, keepdims=True)
        case "Relu":
            return np.maximum(first, 0)
        case "Reshape":
            return first.reshape(numbers["shape"])
        case "Transpose":
            return np.ascontiguousarray(first.transpose(numbers["perm"]))
        case "Slice":
            index = [slice(None)] * first.ndim
            index[numbers["axis"][0]] = slice(numbers["start"][0], numbers["stop"][0])
            return first[tuple(index)]
        case "Concat":
            return np.concatenate(values, axis=numbers["axis"][0])
    raise KeyError(node.op)
