"""A network as one C99 function that needs the C library's exp and nothing else: tables, loops, a self-test.

    void network(const double *x, double *y);          cc -O2 -c f.c;     cc -O2 -DSELFTEST f.c -lm && ./a.out

-DSOFTWRIGHT_NAME=gelu calls the function gelu instead, for programs that link several networks.

The file is the network's program for one point, folded, every node a loop over an array of fixed size; constants are
hexadecimal. Rounding: each sum runs in order, each operation is rounded once or fused with its neighbour: an order that
the rounding part of the claim covers (`program.py`), given that the C library's exp is as accurate as was charged:
hypothesis exp-ulp, 4 ulp in double and 32 in float. Compilers may not reassociate, flush or approximate: -ffast-math is
refused by an #error, and so are registers wider than the type, in which a number is not rounded where it should be.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.errors import InvalidInput
from softwright.export.claim import claim_lines
from softwright.export.program import Node, Program, computed
from softwright.export.programs import PROGRAMS
from softwright.export.python_source import checked_program, identifiers
from softwright.export.selftest import Answers, answers_of
from softwright.fileformat import write_atomically
from softwright.version import __version__

if TYPE_CHECKING:
    from softwright.result.built import Built

MOST_ENTRIES = 1 << 16  # of the arrays on the stack of one call
MOST_TERMS = 1 << 10  # of a product that is written term by term


class CSource:
    """A row of `EXPORTERS`."""

    name = "c"
    suffix = ".c"
    kinds = frozenset(PROGRAMS) - {"in_context", "memory", "program"}
    needs = ""
    summary = "one C99 function with its tables, -Wall -Wextra -Werror -pedantic clean; self-test under -DSELFTEST"

    def write(self, built: Built[Any], path: Path) -> None:
        write_atomically(path, c_source(built).encode())


def c_source(built: Built[Any]) -> str:
    """The text of the file."""
    program, lines = checked_program(built), claim_lines(built.sections())
    real, exp = ("double", "exp") if program.dtype == "float64" else ("float", "expf")
    shapes = _shapes(program)
    entries = sum(math.prod(shapes[node.output]) for node in program.nodes if node.op != "Reshape")
    if entries > MOST_ENTRIES:
        fault = f"one call would hold {entries} numbers on its stack, more than {MOST_ENTRIES}"
        raise InvalidInput("export", [f"{fault}; use .onnx, or build it for a larger tolerance"])
    names = {key: f"v_{word}" for key, word in identifiers(program).items()}  # no keyword, no function of the library
    (given,) = program.inputs
    names[given], size = "x", math.prod(shapes[given])
    body: list[str] = []
    for node in program.nodes:
        body += _loops(node, names, shapes, program, real, exp)
    count = math.prod(shapes[program.output])
    wide = "double" if real == "double" else "float"
    comment = [re.sub(r"\*/|/\*|\?\?", "..", line.encode("ascii", "backslashreplace").decode()) for line in lines]
    return "\n".join(
        [
            *(f"{'/*' if i == 0 else ' *'} {line}" for i, line in enumerate(comment)),
            f" * Written by softwright {__version__}. Compile without -ffast-math. {size} numbers in, {count} out. */",
            "#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || \\",
            "  (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)",
            '#error "-ffast-math voids the claim: compile without it"',
            "#endif",
            "#include <float.h>",
            "#include <math.h>",
            f"#if FLT_EVAL_METHOD == 2{' || FLT_EVAL_METHOD == 1' if wide == 'float' else ''}",
            f'#error "intermediate results are kept wider than {wide}: use SSE2 (-mfpmath=sse)"',
            "#endif",
            "",
            "#ifndef SOFTWRIGHT_NAME",
            "#define SOFTWRIGHT_NAME network",
            "#endif",
            f"void SOFTWRIGHT_NAME(const {real} *x, {real} *y);",
            *(
                f"static const {real} {names[key]}[{array.size}] = {{{_table(array)}}};"
                for key, array in program.constants.items()
                if any(f"{names[key]}[" in line or line.endswith(f" {names[key]};") for line in body)
            ),
            "",
            f"void SOFTWRIGHT_NAME(const {real} *x, {real} *y)",
            "{",
            *body,
            f"  for (int i = 0; i < {count}; i++) y[i] = {names[program.output]}[i];",
            "}",
            *_selftest(answers_of(built), real, size, count),
            "",
        ]
    )


def _table(array: np.ndarray) -> str:
    suffix = "" if array.dtype == np.float64 else "f"
    words = [f"{float(value).hex()}{suffix}" for value in array.ravel()]
    rows = [", ".join(words[i : i + 4]) for i in range(0, len(words), 4)]
    return "\n  " + ",\n  ".join(rows)


def _shapes(program: Program) -> dict[str, tuple[int, ...]]:
    """The shape of every value for a batch of one."""
    values: dict[str, np.ndarray] = dict(program.constants)
    for name, shape in program.inputs.items():
        values[name] = np.zeros([1 if isinstance(size, str) else size for size in shape], dtype=program.dtype)
    for node in program.nodes:
        values[node.output] = computed(node, [values[name] for name in node.inputs], program.dtype)
    return {name: array.shape for name, array in values.items()}


def _strides(shape: Sequence[int], rank: int) -> list[int]:
    """Strides of an array of this shape in a broadcast of so many axes."""
    own = [math.prod(shape[i + 1 :]) if size > 1 else 0 for i, size in enumerate(shape)]
    return [0] * (rank - len(shape)) + own


def _nest(sizes: Sequence[int], letters: str) -> tuple[str, list[str]]:
    """Loops over axes of more than one entry, and for each axis its letter, or 0."""
    loops, index = "", []
    for size, letter in zip(sizes, letters, strict=False):
        if size == 1:
            index.append("")
            continue
        loops += f"for (int {letter} = 0; {letter} < {size}; {letter}++) "
        index.append(letter)
    return loops, index


def _at(index: Sequence[str], strides: Sequence[int]) -> str:
    """The place in memory of an entry."""
    terms = [
        letter if stride == 1 else f"{stride} * {letter}"
        for letter, stride in zip(index, strides, strict=True)
        if letter and stride
    ]
    return " + ".join(terms) or "0"


_LETTERS = "abcdegh"


def _loops(
    node: Node, names: dict[str, str], shapes: dict[str, tuple[int, ...]], program: Program, real: str, exp: str
) -> list[str]:
    """One node."""
    out, shape = names[node.output], shapes[node.output]
    sources, given = [names[name] for name in node.inputs], [shapes[name] for name in node.inputs]
    declared = f"  {real} {out}[{math.prod(shape)}];"
    rank, own = len(shape), _strides(shape, len(shape))
    loops, index = _nest(shape, _LETTERS)
    here = _at(index, own)
    match node.op:
        case "Reshape":
            return [f"  const {real} *const {out} = {sources[0]};"]
        case "Sub" | "Add" | "Mul" | "Div":
            sign = {"Sub": "-", "Add": "+", "Mul": "*", "Div": "/"}[node.op]
            one, two = (f"{s}[{_at(index, _strides(g, rank))}]" for s, g in zip(sources, given, strict=True))
            return [declared, f"  {loops}{out}[{here}] = {one} {sign} {two};"]
        case "Relu":
            one = f"{sources[0]}[{here}]"
            return [declared, f"  {loops}{out}[{here}] = {one} > 0 ? {one} : 0;"]
        case "Expand":
            return [declared, f"  {loops}{out}[{here}] = {sources[0]}[{_at(index, _strides(given[0], rank))}];"]
        case "Causal":
            row, column = (letter or "0" for letter in index[-2:])
            kept = f"{column} > {row} + {node.numbers['offset'][0]} ? -HUGE_VAL : {sources[0]}[{here}]"
            return [declared, f"  {loops}{out}[{here}] = {kept};"]
        case "Hardmax":
            loops, index = _nest(shape[:-1], _LETTERS)
            row, n, s = _at(index, own[:-1]), shape[-1], sources[0]
            return [
                declared,
                f"  {loops}{{ {real} top = {s}[{row}], sum = 0;",
                f"    for (int j = 1; j < {n}; j++) if ({s}[{row} + j] > top) top = {s}[{row} + j];",
                f"    for (int j = 0; j < {n}; j++) {{ {out}[{row} + j] = {s}[{row} + j] == top;"
                f" sum += {out}[{row} + j]; }}",
                f"    for (int j = 0; j < {n}; j++) {out}[{row} + j] /= sum; }}",
            ]
        case "Transpose":
            moved = _strides(given[0], rank)
            place = _at(index, [moved[axis] for axis in node.numbers["perm"]])
            return [declared, f"  {loops}{out}[{here}] = {sources[0]}[{place}];"]
        case "Slice":
            moved = _strides(given[0], rank)
            start = node.numbers["start"][0] * moved[node.numbers["axis"][0]]
            return [declared, f"  {loops}{out}[{here}] = {sources[0]}[{_at(index, moved)} + {start}];"]
        case "Concat":
            lines, offset, axis = [declared], 0, node.numbers["axis"][0]
            step = math.prod(shape[axis + 1 :])
            for source, sizes in zip(sources, given, strict=True):
                loops, index = _nest(sizes, _LETTERS)
                place = _at(index, [stride if size > 1 else 0 for stride, size in zip(own, sizes, strict=True)])
                inner = _at(index, _strides(sizes, rank))
                lines.append(f"  {loops}{out}[{place} + {offset * step}] = {source}[{inner}];")
                offset += sizes[axis]
            return lines
        case "MatMul":
            if (terms := _terms(node, shape, given, program)) is not None:
                return [declared, *_sums(out, sources, terms)]
            return [declared, *_product(out, shape, sources, given, real)]
        case "Softmax":
            loops, index = _nest(shape[:-1], _LETTERS)
            row, n = _at(index, own[:-1]), shape[-1]
            s = sources[0]
            return [
                declared,
                f"  {loops}{{ {real} top = {s}[{row}], sum = 0;",
                f"    for (int j = 1; j < {n}; j++) if ({s}[{row} + j] > top) top = {s}[{row} + j];",
                f"    for (int j = 0; j < {n}; j++) {{ {out}[{row} + j] = {exp}({s}[{row} + j] - top);"
                f" sum += {out}[{row} + j]; }}",
                "    sum = 1 / sum;",
                f"    for (int j = 0; j < {n}; j++) {out}[{row} + j] *= sum; }}",
            ]
    raise KeyError(node.op)


def _terms(
    node: Node, shape: tuple[int, ...], given: list[tuple[int, ...]], program: Program
) -> list[list[tuple[int, int]]] | None:
    """For every entry of a product its terms, as places in both factors, if one factor is a constant with many zeros.

    A product with 0 is 0, and adding it changes nothing: what is left out costs time alone.
    """
    known = [program.constants.get(name) for name in node.inputs]
    array = known[1] if known[1] is not None else known[0]
    if array is None or 2 * np.count_nonzero(array) > array.size:
        return None
    places = [np.arange(math.prod(sizes)).reshape(sizes) for sizes in given]
    lead = shape[:-2]
    left = np.broadcast_to(places[0], (*lead, *given[0][-2:])).reshape(-1, *given[0][-2:])
    right = np.broadcast_to(places[1], (*lead, *given[1][-2:])).reshape(-1, *given[1][-2:])
    which, flat = (1, known[1]) if known[1] is not None else (0, known[0])
    found = []
    for a, b in zip(left, right, strict=True):
        for i in range(a.shape[0]):
            for j in range(b.shape[1]):
                pairs = list(zip(a[i].tolist(), b[:, j].tolist(), strict=True))
                found.append([pair for pair in pairs if flat is not None and flat.flat[pair[which]] != 0])
    return found if sum(map(len, found)) + len(found) <= MOST_TERMS else None


def _sums(out: str, sources: list[str], terms: list[list[tuple[int, int]]]) -> list[str]:
    lines = []
    for place, pairs in enumerate(terms):
        total = " + ".join(f"{sources[0]}[{one}] * {sources[1]}[{two}]" for one, two in pairs)
        lines.append(f"  {out}[{place}] = {total or '0'};")
    return lines


def _product(
    out: str, shape: tuple[int, ...], sources: list[str], given: list[tuple[int, ...]], real: str
) -> list[str]:
    rank, n = len(shape), given[0][-1]
    loops, index = _nest(shape, _LETTERS)
    own = _strides(shape, rank)
    left, right = _strides(given[0][:-1], rank - 1), _strides(given[1][:-2], rank - 2)
    left = [stride * n for stride in left]  # rows of the left matrix lie n apart
    size = given[1][-2] * given[1][-1]
    right = [stride * size for stride in right]
    one = _at([*index[:-1], "k" if n > 1 else ""], [*left, 1])
    width = given[1][-1]
    two = _at([*index[:-2], "k" if n > 1 else "", index[-1]], [*right, width, 1])
    return [
        f"  {loops}{{ {real} sum = 0;",
        f"    for (int k = 0; k < {n}; k++) sum += {sources[0]}[{one}] * {sources[1]}[{two}];",
        f"    {out}[{_at(index, own)}] = sum; }}",
    ]


def _selftest(answers: Answers, real: str, size: int, count: int) -> list[str]:
    q = len(answers.inputs)
    return [
        "",
        "#ifdef SELFTEST",
        "#include <stdio.h>",
        f"static const {real} asked[{answers.inputs.size}] = {{{_table(answers.inputs)}}};",
        f"static const {real} answered[{answers.outputs.size}] = {{{_table(answers.outputs)}}};",
        "int main(void)",
        "{",
        f"  double off = 0, allowed = {answers.allowed.hex()}; /* {answers.meaning} */",
        f"  for (int i = 0; i < {q}; i++) {{",
        f"    {real} y[{count}];",
        f"    SOFTWRIGHT_NAME(asked + {size} * i, y);",
        f"    for (int o = 0; o < {count}; o++) {{ double d = fabs((double)y[o] - (double)answered[{count} * i + o]);",
        "      if (!(d <= off)) off = d; }",
        "  }",
        '  printf("largest deviation from torch %.3g, allowed %.3g\\n", off, allowed);',
        "  return off <= allowed ? 0 : 1;",
        "}",
        "#endif",
    ]


EXPORTER = CSource()
