"""A network as one C99 function that needs the C library alone: tables, loops, a self-test.

    void network(const double *x, double *y);          cc -O2 -c f.c;     cc -O2 -DSELFTEST f.c -lm && ./a.out

A network over sequences is told their sizes first: void network(int n, const double *x, double *y). Arrays of the call
are on its stack, each kept as long as it is used. -DSOFTWRIGHT_NAME=gelu calls the function gelu instead, for programs
that link several networks.

The file is the network's program for one point, folded, every node a loop (`c_loops.py`); constants are hexadecimal.
Rounding: sums run in the order written, each operation is rounded once or fused with its neighbour: an order that the
rounding part of the claim covers (`program.py`). exp is in the file, more exact than was charged (`exp.py`), and
heads whose claim charges closed forms run those (`c_closed.py`).
Compilers may not reassociate, flush or approximate: -ffast-math is refused by an #error, and so are registers wider
than the type, in which a number is not rounded where it should be.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.errors import InvalidInput
from softwright.export.c_body import MOST_ENTRIES, Body, body_of
from softwright.export.c_closed import CLOSED, shortened
from softwright.export.c_shapes import Shape, Size, shapes_of, times
from softwright.export.c_simplify import padded, simplified, with_biases
from softwright.export.c_views import View, in_rows, letters_of, loops
from softwright.export.claim import claim_lines
from softwright.export.near.heads import near_of
from softwright.export.near.lines import NEARBY, Near, near_lines
from softwright.export.near.pieces import Pieces
from softwright.export.near.ranges import in_range
from softwright.export.near.versions import Way, chosen, versions
from softwright.export.program import Program
from softwright.export.programs import PROGRAMS
from softwright.export.python_source import checked_program, identifiers
from softwright.export.selftest import Answers, answers_of
from softwright.export.vectors.exp import LANES, lanes_of
from softwright.export.vectors.loops import FAST, FUSED, helpers_of, vectors_source, wide_source, widened
from softwright.fileformat import write_atomically
from softwright.version import __version__

if TYPE_CHECKING:
    from softwright.result.built import Built


MOST_NODES = 64  # of a network over sequences whose longest ones have loops of their own
MOST_TEXT = 40_000  # letters of a body that is compiled for processors with AVX-512 too
MOST_LOOPS = 256  # operations on prompts of free sizes: over several times as many compilers take minutes
MOST_FREE = 4096  # each of two free sizes, so that products of them are whole numbers of C


@dataclass(frozen=True)
class _Written:
    """A program with its lines for vectors of a width."""

    program: Program
    names: dict[str, str]
    shapes: dict[str, Shape]
    body: Body


class CSource:
    """A row of `EXPORTERS`."""

    name = "c"
    suffix = ".c"
    kinds = frozenset(PROGRAMS)
    needs = ""
    summary = "one C99 function with its tables, -Wall -Wextra -Werror -pedantic clean; self-test under -DSELFTEST"

    def write(self, built: Built[Any], path: Path) -> None:
        write_atomically(path, c_source(built).encode())


# To look for true ones: clang -fsanitize=memory -DSOFTWRIGHT_CLONES= -DSELFTEST; it found none for sorted(k), nor for
# floor(3*x) + x in float32, where gcc 12 warned.
_NO_FALSE_ALARMS = [
    "#if defined(__GNUC__) && !defined(__clang__)",
    "/* At -O3 gcc 12 unrolls loops past what they run over, reads rows of vectors whole, and warns of what no loop",
    "   reaches and no answer takes. */",
    '#pragma GCC diagnostic ignored "-Wuninitialized"',
    '#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"',
    "#endif",
]


def c_source(built: Built[Any]) -> str:
    """The text of the file."""
    program, lines = checked_program(built), claim_lines(built.sections())
    if len(program.free) > 1 and len(program.nodes) > MOST_LOOPS:
        fault = f"c holds a network of kind {built.kind!r} of at most {MOST_LOOPS} operations, this one has"
        raise InvalidInput("export", [f"{fault} {len(program.nodes)}; use onnx, numpy or jax, or fewer steps"])
    ranged = in_range(built, program)
    program = _shorter(program)
    real, outside = ("double" if dtype == "float64" else "float" for dtype in (program.dtype, program.outside))
    lanes = lanes_of(real)
    plain = program
    own = _written(plain, lanes)
    program, names, shapes, body = own.program, own.names, own.shapes, own.body
    count = times(*shapes[program.output])
    takes = [f"const {'long long' if key in program.whole else outside} *{names[key]}" for key in program.inputs]
    head = f"void SOFTWRIGHT_NAME({', '.join([*(f'int {n}' for n in program.free), *takes, f'{outside} *y'])})"
    text = "\n".join(body.lines)
    helpers = helpers_of(text, real, lanes)
    vectors = [vectors_source(real)] if helpers or "softwright_" in text else []
    near = near_of(built) if vectors else None
    small = not program.free and len(program.nodes) <= MOST_NODES and len(text) <= MOST_TEXT
    first = None if ranged is None or not small else _written(_shorter(ranged), lanes)
    made = {*helpers, *_tables([own], real)}
    rolled = _rolled if len(program.free) > 1 and vectors else list[str]
    if first is not None:
        text += "\n".join(first.body.lines) + "softwright_all("
    wide = (
        _wider(first or own, plain if first is None else _shorter(ranged or plain), lanes)
        if small and near is None
        else None
    )
    way = _way(near, first, wide)
    longest = _longest(program)
    small = longest <= LANES and len(program.nodes) <= MOST_NODES
    usual = longest if vectors and small else 0
    inner = "softwright_any" if vectors else "softwright_run"
    arguments = [*program.free, *(names[key] for key in program.inputs), "y"]
    sizes = ", ".join(f"{names[key]}: {times(*shapes[key])}" for key in program.inputs)
    comment = [re.sub(r"\*/|/\*|\?\?", "..", line.encode("ascii", "backslashreplace").decode()) for line in lines]
    return "\n".join(
        [
            *(f"{'/*' if i == 0 else ' *'} {line}" for i, line in enumerate(comment)),
            *_ways_said(near, first),
            f" * Written by softwright {__version__}. No -ffast-math. Numbers in: {sizes}; out: {count}. */",
            "#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || \\",
            "  (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)",
            '#error "-ffast-math voids the claim: compile without it"',
            "#endif",
            "#include <float.h>",
            "#include <math.h>",
            "#include <stdint.h>",
            "#include <string.h>",
            f"#if FLT_EVAL_METHOD == 2{' || FLT_EVAL_METHOD == 1' if real == 'float' else ''}",
            f'#error "intermediate results are kept wider than {real}: use SSE2 (-mfpmath=sse)"',
            "#endif",
            *_NO_FALSE_ALARMS,
            *([FUSED, FAST, *vectors] if vectors else []),
            *([] if way is None else ["#ifdef SOFTWRIGHT_HEADS", "#undef SOFTWRIGHT_WIDE", "#endif"]),
            "",
            "#ifndef SOFTWRIGHT_NAME",
            "#define SOFTWRIGHT_NAME network",
            "#endif",
            f"{head};",
            *rolled(helpers),
            *_tables([own], real),
            "",
            *rolled(_function(own, real, outside, head, inner, longest)),
            *([] if first is None else ["#ifndef SOFTWRIGHT_HEADS"]),
            *(
                one
                for one in [*helpers_of(text, real, lanes), *_tables([own, first], real)]
                if first and one not in made
            ),
            *(_function(first, real, outside, head, "softwright_in_range", 0) if first is not None else []),
            *([] if first is None else ["#endif"]),
            *_near_lines(near, real),
            *(_wide_lines(wide, [own, first], real, outside, head) if wide is not None else []),
            *(versions(usual, head, arguments, way, small, wide is not None) if vectors else []),
            head,
            "{",
            *(chosen(arguments, small or way is not None) if vectors else []),
            f"  softwright_run({', '.join(arguments)});",
            "}",
            *_selftest(answers_of(built), program, shapes, outside, way is not None, near),
            "",
        ]
    )


def _rolled(lines: Sequence[str]) -> list[str]:
    """Loops of a stack in context as they stand: clang would repeat the body of each for sizes that it does not know,
    and its code then takes twice the time."""
    return [re.sub(r"(?<!SOFTWRIGHT_UNROLL )\bfor \(", "SOFTWRIGHT_ROLLED for (", line) for line in lines]


def _shorter(program: Program) -> Program:
    program = shortened(program)
    return simplified(program, shapes_of(program))


def _way(near: Near | Pieces | None, first: _Written | None, wide: _Written | None) -> Way | None:
    """That of points of a box or a range."""
    if near is not None:
        wider = "softwright_wide_near" if isinstance(near, Near) and near.wide else "softwright_near"
        return Way(wider, "softwright_near", near.inside, isinstance(near, Pieces))
    name = "softwright_in_range"
    return None if first is None else Way("softwright_wide_in_range" if wide is not None else name, name, "", True)


def _ways_said(near: Near | Pieces | None, first: _Written | None) -> list[str]:
    """What is no run of the network's own operations, and why it is covered."""
    if isinstance(near, Pieces):
        return [" * In the box: polynomials, proved to differ from the network by less than the rounding part.", _OFF]
    if first is not None:
        return [
            " * Heads are polynomials while their numbers stay in a range, as near to them as the claim charges.",
            _OFF,
        ]
    return []


_OFF = " * -DSOFTWRIGHT_HEADS compiles it without them: attention heads run everywhere."


def _near_lines(near: Near | Pieces | None, real: str) -> list[str]:
    if isinstance(near, Pieces):
        return [NEARBY, *near.lines(), "#endif"]
    return [] if near is None else near_lines(near, real)


def _longest(program: Program) -> int:
    """The longest sequence that the tables of a network hold; 0: any. A small network has loops of their own for these,
    which compilers know then."""
    tables = [program.constants.get(node.inputs[0]) for node in program.nodes if node.op == "First"]
    longest = min((len(table) for table in tables if table is not None), default=0)
    return longest if len(program.free) == 1 else 0


def _fitting(free: list[str], arrays: dict[str, Size]) -> list[str]:
    """Sizes whose arrays are too large for the stack of a call get no answer."""
    sizes = [f"1LL * {size}" for size in arrays.values() if isinstance(size, str)]
    if not sizes:
        return []
    return [
        f"  if ({' || '.join(f'{n} > {MOST_FREE}' for n in free)}) return;",
        f"  if ({' + '.join(sizes)} > {4 * MOST_ENTRIES}) return;",
    ]


def _written(program: Program, lanes: int) -> _Written:
    program = with_biases(padded(program, shapes_of(program), lanes))
    shapes = shapes_of(program)
    names = {key: f"v_{word}" for key, word in identifiers(program).items()}  # no keyword, no function of the library
    names |= {key: f"x_{key}" if len(program.inputs) > 1 else "x" for key in program.inputs}
    return _Written(program, names, shapes, body_of(program, names, shapes, lanes))


def _wider(own: _Written, program: Program, lanes: int) -> _Written | None:
    """The same for vectors of twice as many numbers, where exps fill more than one now and rows that lie side by side
    have enough of them."""
    sizes = [own.shapes[node.output] for node in own.program.nodes if node.op in ("Softmax", CLOSED)]
    if program.free or not any(isinstance(n, int) and n > lanes for shape in sizes for n in shape):
        return None
    wide = _written(program, 2 * lanes)
    columns = ("\n".join(one.body.lines).count("softwright_columns(") for one in (own, wide))
    return wide if len(set(columns)) == 1 else None


def _tables(several: Sequence[_Written | None], real: str) -> list[str]:
    """Of all that are there, each once."""
    return list(dict.fromkeys(table for one in several if one is not None for table in _tables_of(one, real)))


def _tables_of(written: _Written, real: str) -> list[str]:
    text, found = "\n".join(written.body.lines), []
    for key, array in written.program.constants.items():
        name, stored = written.names[key], written.body.stored(key, array)
        if stored.size and re.search(rf"\b{name}\b", text):
            kind = real if array.dtype.kind == "f" else "long long"
            table = "SOFTWRIGHT_TABLE" if "softwright_" in text else "static const"
            found.append(f"{table} {kind} {name}[{stored.size}] = {{{_table(stored)}}};")
    return found


def _function(written: _Written, real: str, outside: str, head: str, name: str, longest: int) -> list[str]:
    """The body as a function of all inputs."""
    program, body, head = written.program, written.body, head.replace("SOFTWRIGHT_NAME", name)
    ranged = name == "softwright_in_range"  # which says whether it had an answer
    if ranged:
        head = head.replace("void ", "int ", 1)
    return [
        f"{'SOFTWRIGHT_INLINE' if name != 'softwright_run' else 'static'} {head}",
        "{",
        *(f"  if ({n} < 1{f' || {n} > {longest}' if longest else ''}) return;" for n in program.free),
        *([] if longest else _fitting(program.free, body.arrays)),
        *(f"  {real} {array}[{size}];" for array, size in body.arrays.items()),
        *(["  softwright_m near = ~(softwright_m){0};"] if ranged else []),
        *body.lines,
        *(["  if (!softwright_all(&near)) return 0;"] if ranged else []),
        f"  {_answer(body.answer, f'({outside})' if program.ends else '')}",
        *(["  return 1;"] if ranged else []),
        "}",
    ]


def _wide_lines(wide: _Written, narrow: Sequence[_Written | None], real: str, outside: str, head: str) -> list[str]:
    """The same for vectors of 64 bytes, with tables of its own where its rows are longer."""
    name = "softwright_any" if narrow[1] is None else "softwright_in_range"
    lines, made = _function(wide, real, outside, head, name, 0), set(_tables(narrow, real))
    tables, inside = [], "\n".join([*helpers_of("\n".join(lines), real, 2 * lanes_of(real)), *lines])
    for table in _tables([wide], real):
        if table not in made:
            name = re.search(r" (\w+)\[", table)
            old = name.group(1) if name is not None else ""
            inside = re.sub(rf"\b{old}\b", f"{old}_wide", inside)
            tables.append(table.replace(f" {old}[", f" {old}_wide[", 1))
    return ["#ifdef SOFTWRIGHT_WIDE", wide_source(real), *tables, widened(inside), "#endif"]


def _answer(view: View, cast: str) -> str:
    """The answer in rows."""
    letters, out = letters_of(view.shape), in_rows("y", view.shape)
    return f"{loops(view.shape, letters)}{out.entry(letters)} = {cast}{view.entry(letters)};"


def _table(array: np.ndarray) -> str:
    if array.dtype.kind != "f":
        words = [str(int(value)) for value in array.ravel()]
    else:
        suffix = "" if array.dtype == np.float64 else "f"
        texts = [float(value).hex() for value in array.ravel()]
        words = [text.replace("inf", "HUGE_VAL") if "inf" in text else f"{text}{suffix}" for text in texts]
    rows = [", ".join(words[i : i + 4]) for i in range(0, len(words), 4)]
    return "\n  " + ",\n  ".join(rows)


def _selftest(
    answers: Answers, program: Program, shapes: dict[str, Shape], real: str, two_ways: bool, near: Near | Pieces | None
) -> list[str]:
    """A main that asks the same and compares; where points have a way of their own, the other way too, and of a table
    of pieces all rows."""
    free: dict[str, int] = {}
    for shape, array in zip(program.inputs.values(), answers.given, strict=True):
        free |= {n: size for n, size in zip(shape, array.shape, strict=True) if isinstance(n, str) and n != "q"}
    q, count = len(answers.outputs), answers.outputs[0].size
    tables = [
        f"static const {'long long' if key in program.whole else real} asked{i}[{array.size}] = {{{_table(array)}}};"
        for i, (key, array) in enumerate(zip(program.inputs, answers.given, strict=True))
    ]
    given = [f"asked{i} + {array[0].size} * i" for i, array in enumerate(answers.given)]
    call = ", ".join([*(str(free[n]) for n in program.free), *given, "y"])
    asked = f"SOFTWRIGHT_NAME({call});"
    if two_ways:
        asked = f"if (way == 0) {asked} else softwright_any({call});"
    return [
        "",
        "#ifdef SELFTEST",
        "#include <stdio.h>",
        *tables,
        f"static const {real} answered[{answers.outputs.size}] = {{{_table(answers.outputs)}}};",
        "int main(void)",
        "{",
        f"  double off = 0, allowed = {answers.allowed.hex()}; /* {answers.meaning} */",
        *(["  for (int way = 0; way < 2; way++)"] if two_ways else []),
        f"  for (int i = 0; i < {q}; i++) {{",
        f"    {real} y[{count}];",
        f"    {asked}",
        f"    for (int o = 0; o < {count}; o++) {{ double d = fabs((double)y[o] - (double)answered[{count} * i + o]);",
        "      if (!(d <= off)) off = d; }",
        "  }",
        *(near.asked() if isinstance(near, Pieces) else []),
        '  printf("largest deviation from torch %.3g, allowed %.3g\\n", off, allowed);',
        "  return off <= allowed ? 0 : 1;",
        "}",
        "#endif",
    ]


EXPORTER = CSource()
