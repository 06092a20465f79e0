"""Nodes of a program as loops of C over arrays in rows; sizes may be texts, for what a function is told when called.

Sums of products run over rows that lie next to each other, so that compilers can use vector instructions without
reordering anything: the order is written down here, and every order is charged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from softwright.export.c_shapes import Shape, Size, times
from softwright.export.program import Node, Program

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_TERMS = 1 << 10  # of a product that is written term by term
FEW = 64  # entries of a softmax, or terms of a product, that are computed one by one
LETTERS = "abcdegh"
_SIGNS = {"Sub": "-", "Add": "+", "Mul": "*", "Div": "/"}

SUMS = """\
static inline REAL softwright_sum(const REAL *a, int n)
{
  REAL t[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  int i = 0;
  for (; i + 8 <= n; i += 8) for (int j = 0; j < 8; j++) t[j] += a[i + j];
  for (; i < n; i++) t[0] += a[i];
  return ((t[0] + t[1]) + (t[2] + t[3])) + ((t[4] + t[5]) + (t[6] + t[7]));
}
static inline REAL softwright_dot(const REAL *a, const REAL *b, int n)
{
  REAL t[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  int i = 0;
  for (; i + 8 <= n; i += 8) for (int j = 0; j < 8; j++) t[j] += a[i + j] * b[i + j];
  for (; i < n; i++) t[0] += a[i] * b[i];
  return ((t[0] + t[1]) + (t[2] + t[3])) + ((t[4] + t[5]) + (t[6] + t[7]));
}"""


def strides(shape: Shape, rank: int) -> list[Size]:
    """Strides of an array of this shape in a broadcast of so many axes."""
    own: list[Size] = [times(*shape[i + 1 :]) if size != 1 else 0 for i, size in enumerate(shape)]
    return [*([0] * (rank - len(shape))), *own]


def nest(sizes: Shape, letters: str = LETTERS) -> tuple[str, list[str]]:
    """Loops over axes of more than one entry, and for each axis its letter, or nothing."""
    loops, index = "", []
    for size, letter in zip(sizes, letters, strict=False):
        index.append("" if size == 1 else letter)
        loops += f"for (int {letter} = 0; {letter} < {size}; {letter}++) " if size != 1 else ""
    return loops, index


def at(index: Sequence[str], steps: Sequence[Size]) -> str:
    """The place in memory of an entry."""
    pairs = [(letter, step) for letter, step in zip(index, steps, strict=True) if letter and step != 0]
    return " + ".join(letter if step == 1 else f"{step} * {letter}" for letter, step in pairs) or "0"


class Printer:
    """Prints nodes, given the names and shapes of all values."""

    def __init__(self, program: Program, names: Mapping[str, str], shapes: Mapping[str, Shape], real: str) -> None:
        self.program, self.names, self.shapes, self.real = program, names, shapes, real

    def lines(self, node: Node) -> list[str]:
        """What fills the output of a node, which is declared already."""
        print_one: Callable[[Node], list[str]] = getattr(self, f"_{node.op.lower()}", self._entries)
        return print_one(node)

    def _parts(self, node: Node) -> tuple[str, Shape, list[str], list[Shape]]:
        given = list(node.inputs)
        return (
            self.names[node.output],
            self.shapes[node.output],
            [self.names[one] for one in given],
            [self.shapes[one] for one in given],
        )

    def _entries(self, node: Node) -> list[str]:
        """What is computed entry by entry."""
        out, shape, sources, given = self._parts(node)
        rank, (loops, index), numbers = len(shape), nest(shape), node.numbers
        aligned = zip(sources, given, strict=True) if node.op not in ("Expand", "First", "Rows") else ()
        places = [f"{source}[{at(index, strides(size, rank))}]" for source, size in aligned]
        match node.op:
            case "Sub" | "Add" | "Mul" | "Div":
                value = f"{places[0]} {_SIGNS[node.op]} {places[1]}"
            case "Equals":
                value = f"{places[0]} == {places[1]}"
            case "Relu":
                value = f"{places[0]} > 0 ? {places[0]} : 0"
            case "Expand" | "First":
                inner = [0 if a == 1 else b for a, b in zip(given[0], strides(given[0], rank), strict=True)]
                value = f"{sources[0]}[{at(index, inner)}]"
            case "Rows":
                row = f"((int){sources[1]}[{at(index[:-1], strides(given[1], rank - 1))}] - {numbers['low'][0]})"
                value = f"{sources[0]}[{given[0][1]} * {row} + {index[-1] or 0}]"
            case "Causal":
                row, column = (letter or "0" for letter in index[-2:])
                value = f"{column} > {row} + {numbers['offset'][0]} ? -HUGE_VAL : {places[0]}"
            case "Transpose":
                moved = strides(given[0], rank)
                value = f"{sources[0]}[{at(index, [moved[axis] for axis in numbers['perm']])}]"
            case "Slice":
                moved = strides(given[0], rank)
                begin = times(numbers["start"][0], moved[numbers["axis"][0]])
                value = f"{sources[0]}[{at(index, moved)} + {begin}]"
            case _:
                raise KeyError(node.op)
        return [f"  {loops}{out}[{at(index, strides(shape, rank))}] = {value};"]

    def _concat(self, node: Node) -> list[str]:
        out, shape, sources, given = self._parts(node)
        rank, axis, lines = len(shape), node.numbers["axis"][0], []
        own, begin = strides(shape, rank), "0"
        step = times(*shape[axis + 1 :])
        for source, sizes in zip(sources, given, strict=True):
            loops, index = nest(sizes)
            lines.append(f"  {loops}{out}[{at(index, own)} + {begin}] = {source}[{at(index, strides(sizes, rank))}];")
            more = str(times(sizes[axis], step))
            begin = more if begin == "0" else f"{begin} + {more}"
        return lines

    def _softmax(self, node: Node) -> list[str]:
        out, shape, (s,), _ = self._parts(node)
        n, rows = shape[-1], times(*shape[:-1])
        if isinstance(entries := times(*shape), int) and entries < FEW:  # vectors would wait for single numbers
            exp = "exp" if self.real == "double" else "expf"
            return [
                f"  for (int r = 0; r < {rows}; r++) {{ const {self.real} *const s = {s} + {n} * r;",
                f"    {self.real} top = s[0], sum = 0, *const w = {out} + {n} * r;",
                f"    for (int j = 1; j < {n}; j++) if (s[j] > top) top = s[j];",
                f"    for (int j = 0; j < {n}; j++) {{ w[j] = {exp}(s[j] - top); sum += w[j]; }}",
                "    sum = 1 / sum;",
                f"    for (int j = 0; j < {n}; j++) w[j] *= sum; }}",
            ]
        return [
            f"  for (int r = 0; r < {rows}; r++) {{ const {self.real} *const s = {s} + {n} * r;",
            f"    {self.real} top = s[0], *const w = {out} + {n} * r;",
            f"    for (int j = 1; j < {n}; j++) top = s[j] > top ? s[j] : top;",
            f"    for (int j = 0; j < {n}; j++) w[j] = s[j] - top; }}",
            f"  for (int i = 0; i < {times(rows, n)}; i++) {out}[i] = softwright_exp({out}[i]);",
            f"  for (int r = 0; r < {rows}; r++) {{ {self.real} *const w = {out} + {n} * r;",
            f"    const {self.real} part = 1 / softwright_sum(w, {n});",
            f"    for (int j = 0; j < {n}; j++) w[j] *= part; }}",
        ]

    def _hardmax(self, node: Node) -> list[str]:
        out, shape, (s,), _ = self._parts(node)
        n, rows = shape[-1], times(*shape[:-1])
        return [
            f"  for (int r = 0; r < {rows}; r++) {{ const {self.real} *const s = {s} + {n} * r;",
            f"    {self.real} top = s[0], sum = 0, *const w = {out} + {n} * r;",
            f"    for (int j = 1; j < {n}; j++) top = s[j] > top ? s[j] : top;",
            f"    for (int j = 0; j < {n}; j++) {{ w[j] = s[j] == top; sum += w[j]; }}",
            f"    for (int j = 0; j < {n}; j++) w[j] /= sum; }}",
        ]

    def _matmul(self, node: Node) -> list[str]:
        out, shape, sources, given = self._parts(node)
        if (terms := _terms(node, shape, given, self.program)) is not None:
            return [
                f"  {out}[{place}] = "
                + (" + ".join(f"{sources[0]}[{one}] * {sources[1]}[{two}]" for one, two in pairs) or "0")
                + ";"
                for place, pairs in enumerate(terms)
            ]
        lead, (rows, width), n = shape[:-2], shape[-2:], given[0][-1]
        loops, index = nest((*lead, rows))
        matrix = times(given[1][-2], given[1][-1])
        left = [times(step, n) for step in strides(given[0][:-1], len(lead) + 1)]
        right = [times(step, matrix) for step in strides(given[1][:-2], len(lead))]
        result = [times(step, width) for step in strides((*lead, rows), len(lead) + 1)]
        a, b, c = at(index, left), at(index[:-1], right), at(index, result)
        if isinstance(work := times(*shape, n), int) and work < FEW:
            place = f"{c} + j" if width != 1 else c
            column = f"{width} * k + j" if width != 1 else "k"
            inner = f"for (int j = 0; j < {width}; j++) " if width != 1 else ""
            return [
                f"  {loops}{inner}{{ {self.real} sum = 0;",
                f"    for (int k = 0; k < {n}; k++) sum += {sources[0]}[{a} + k] * {sources[1]}[{b} + {column}];",
                f"    {out}[{place}] = sum; }}",
            ]
        if width == 1:
            return [f"  {loops}{out}[{c}] = softwright_dot({sources[0]} + {a}, {sources[1]} + {b}, {n});"]
        return [
            f"  {loops}{{ const {self.real} *const one = {sources[0]} + {a}, *const two = {sources[1]} + {b};",
            f"    {self.real} *const sum = {out} + {c};",
            f"    for (int j = 0; j < {width}; j++) sum[j] = 0;",
            f"    for (int k = 0; k < {n}; k++)",
            f"      for (int j = 0; j < {width}; j++) sum[j] += one[k] * two[{width} * k + j]; }}",
        ]


def _terms(node: Node, shape: Shape, given: list[Shape], program: Program) -> list[list[tuple[int, int]]] | None:
    """For every entry of a product its terms, as places in both factors, if one factor is a constant with many zeros.

    A product with 0 is 0, and adding it changes nothing: what is left out costs time alone.
    """
    if any(isinstance(size, str) for one in (shape, *given) for size in one):
        return None
    known = [program.constants.get(name) for name in node.inputs]
    which = 1 if known[1] is not None else 0
    array = known[which]
    if array is None or 2 * np.count_nonzero(array) > array.size:
        return None
    sizes = [tuple(int(size) for size in one) for one in given]
    places = [np.arange(math.prod(one)).reshape(one) for one in sizes]
    lead = tuple(int(size) for size in shape[:-2])
    left, right = (
        np.broadcast_to(place, (*lead, *one[-2:])).reshape(-1, *one[-2:])
        for place, one in zip(places, sizes, strict=True)
    )
    found = []
    for a, b in zip(left, right, strict=True):
        for i in range(a.shape[0]):
            for j in range(b.shape[1]):
                pairs = zip(a[i].tolist(), b[:, j].tolist(), strict=True)
                found.append([pair for pair in pairs if array.flat[pair[which]] != 0])
    return found if sum(map(len, found)) + len(found) <= MOST_TERMS else None
