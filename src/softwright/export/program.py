"""`Program`: what a network computes, as a list of plain operations on arrays. Formats are printed from it.

A value is an array; axes with a letter instead of a size are free, the first of them, q, is the batch. Constants are
the tensors of the network under their own names. The operations are those of ONNX, with its broadcasting:

    Sub Add Mul Div MatMul Sqrt  as NumPy has them
    Softmax                      over the last axis
    Relu                         max(a, 0)
    Reshape(shape)               one entry may be -1; 0 is the size that the same axis has
    Transpose(perm)
    Slice(axis, start, stop)     stop END: to the end
    Concat(axis)
    Constant(value, shape)       one whole number everywhere

    Cast(to)                     another type, in ONNX's code

and few that are several nodes of ONNX:

    Expand(lead, rest) a b       a with as many first axes as `lead` says repeated as b has them; `rest` axes stay
    First a b                    as many rows of a as b has along its second axis
    Rows(low) a b                the rows of a that the whole numbers b - low name
    Places(count)                0, 1, .., count - 1, whole numbers
    Equals a b                   1 where they are equal, else 0
    Hardmax s                    over the last axis: what is largest shares 1 evenly, all else is 0
    Causal(offset) s             -inf where column > row + offset, over the last two axes

Which run the rounding part of a certificate covers: sums and products of matrices in any order, fused or not; softmax
as exp(s - max s) over the sum of all of them, exp being as exact as the certificate's hypotheses say; every other
operation rounded once. The order in which a program meets a term of a head is that of `attention/layer.py`: scores, the
softmax, values and slopes weighted apart, slopes contracted with t last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

END = 2**31 - 1  # of a slice
Shape = tuple[int | str, ...]  # a letter stands for a size that is free


@dataclass(frozen=True)
class Node:
    """output = op(inputs), with the whole numbers that the operation takes."""

    op: str
    inputs: tuple[str, ...]
    output: str
    numbers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Product:
    """Of u and b: b sum_k share_k w_k, w_k the sigmoid of step_k u (second 0) or its tanh (second -1)."""

    steps: np.ndarray
    shares: np.ndarray
    second: float


@dataclass(frozen=True, eq=False)
class Closed:
    """What a value is, of which closed forms are charged too: a head of tokens (4, p) at an input, or a product; or
    what a format computes in its place."""

    inputs: tuple[str, ...]
    what: Any


@dataclass
class Program:
    """Inputs by name with their shapes, constants, and nodes in order; `output` is the value that is returned.

    `whole` names the inputs that are whole numbers (int64). With `ends` inputs and output are of that type: inputs are
    made `dtype` numbers first, and the output is rounded once at the end.
    """

    inputs: dict[str, Shape]
    constants: dict[str, np.ndarray]
    dtype: str
    nodes: list[Node] = field(default_factory=list)
    output: str = ""
    shape: Shape = ()  # of the output
    whole: frozenset[str] = frozenset()
    ends: str = ""
    divides_last: bool = False  # its claim charges weights divided by their sum and weighted sums divided by it alike
    bias_anywhere: bool = False  # its claim charges a sum of products and a bias in any order
    closed: dict[str, Closed] = field(default_factory=dict)  # by the value; nodes compute it without them too
    smooth: dict[str, Closed] = field(default_factory=dict)  # heads of which no closed form is charged

    @property
    def outside(self) -> str:
        """The type of inputs and output."""
        return self.ends or self.dtype

    @property
    def free(self) -> list[str]:
        """The letters of sizes that are free, but for the batch."""
        return list(dict.fromkeys(n for shape in self.inputs.values() for n in shape[1:] if isinstance(n, str)))

    def add(self, op: str, inputs: Sequence[str], output: str, **numbers: Sequence[int]) -> str:
        """A node; returns the name of its value."""
        self.nodes.append(Node(op, tuple(inputs), output, {name: tuple(value) for name, value in numbers.items()}))
        return output

    def part(self, source: str, output: str, start: int, stop: int, axis: int = 0) -> str:
        return self.add("Slice", [source], output, axis=[axis], start=[start], stop=[stop])

    def number(self, value: int, output: str, shape: Sequence[int]) -> str:
        """A whole number, everywhere in an array."""
        return self.add("Constant", [], output, value=[value], shape=shape)

    def repeat(self, source: str, like: str, output: str, lead: int, rest: int) -> str:
        """`source` with its first axes, of size 1, as long as those of `like`."""
        return self.add("Expand", [source, like], output, lead=[lead], rest=[rest])

    def ended(self, output: str, shape: Shape) -> Program:
        self.output, self.shape = output, shape
        return self


def folded(program: Program) -> Program:
    """The same with all that depends on no input computed once, here, in the dtype of the program."""
    known, nodes = dict(program.constants), []
    for node in program.nodes:
        if all(name in known for name in node.inputs):
            known[node.output] = computed(node, [known[name] for name in node.inputs], program.dtype)
        else:
            nodes.append(node)
    used = {name for node in nodes for name in node.inputs}
    constants = {name: array for name, array in known.items() if name in used}
    return replace(program, constants=constants, nodes=nodes)


def run(program: Program, *inputs: np.ndarray) -> np.ndarray:
    """What the program gives, by NumPy."""
    values: dict[str, np.ndarray] = {**program.constants, **dict(zip(program.inputs, inputs, strict=True))}
    if program.ends:
        values |= {name: values[name].astype(program.dtype) for name in program.inputs}
    for node in program.nodes:
        values[node.output] = computed(node, [values[name] for name in node.inputs], program.dtype)
    return values[program.output].astype(program.ends) if program.ends else values[program.output]


def with_casts(program: Program, tensors: Mapping[str, np.ndarray]) -> Program:
    """A program with `ends` whose constants are the tensors as they are stored, and nodes that change types."""
    wide = {name: f"{name}.wide" for name in (*program.inputs, *sorted(tensors))}
    codes = {"float32": 1, "float64": 11}  # of ONNX
    nodes = [Node("Cast", (name,), cast, {"to": (codes[program.dtype],)}) for name, cast in wide.items()]
    nodes += [replace(node, inputs=tuple(wide.get(name, name) for name in node.inputs)) for node in program.nodes]
    nodes.append(Node("Cast", (program.output,), "narrow", {"to": (codes[program.ends],)}))
    return replace(program, constants=dict(tensors), nodes=nodes, output="narrow")


def computed(node: Node, values: Sequence[Any], dtype: str) -> Any:
    """One node, by NumPy."""
    first, numbers = values[0] if values else None, node.numbers
    if first is None:  # it takes none
        if node.op == "Places":
            return np.arange(numbers["count"][0])
        return np.full(numbers["shape"], float(numbers["value"][0]), dtype=dtype)
    match node.op:
        case "Sqrt":
            return np.sqrt(first)
        case "Expand":
            lead = numbers["lead"][0]
            return np.broadcast_to(first, values[1].shape[:lead] + first.shape[lead:])
        case "First":
            return first[: values[1].shape[1]]
        case "Rows":
            return first[values[1].astype(np.int64) - numbers["low"][0]]
        case "Equals":
            return (first == values[1]).astype(dtype)
        case "Causal":
            rows, columns = (np.arange(size) for size in first.shape[-2:])
            return np.where(columns > rows[:, None] + numbers["offset"][0], np.array(-np.inf, dtype=dtype), first)
        case "Sub":
            return first - values[1]
        case "Add":
            return first + values[1]
        case "Mul":
            return first * values[1]
        case "Div":
            return first / values[1]
        case "MatMul":
            return first @ values[1]
        case "Softmax":
            grown = np.exp(first - first.max(axis=-1, keepdims=True))
            return grown / grown.sum(axis=-1, keepdims=True)
        case "Hardmax":
            top = (first == first.max(axis=-1, keepdims=True)).astype(dtype)
            return top / top.sum(axis=-1, keepdims=True)
        case "Relu":
            return np.maximum(first, 0)
        case "Reshape":
            return first.reshape(resolved(numbers["shape"], first.shape))
        case "Transpose":
            return np.ascontiguousarray(first.transpose(numbers["perm"]))
        case "Slice":
            index = [slice(None)] * first.ndim
            index[numbers["axis"][0]] = slice(numbers["start"][0], numbers["stop"][0])
            return first[tuple(index)]
        case "Concat":
            return np.concatenate(values, axis=numbers["axis"][0])
    raise KeyError(node.op)


def resolved(shape: Sequence[int], given: Sequence[Any]) -> tuple[Any, ...]:
    """The shape that a Reshape asks for, with sizes that stay in the place of zeros."""
    return tuple(given[axis] if size == 0 else size for axis, size in enumerate(shape))
