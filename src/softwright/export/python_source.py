"""A network as one dependency-free Python function: NumPy or JAX source, every constant in hexadecimal.

The source is the network's program, folded: what depends on no input was computed beforehand. It imports the array
library and nothing else; constants are texts of `float.hex`, read without rounding. A file for NumPy checks itself when
it is run as a program: it holds a few points with the answers of torch, and compares.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.errors import Faults
from softwright.export.claim import claim_lines
from softwright.export.program import Node, Program, folded
from softwright.export.programs import PROGRAMS, program_of
from softwright.export.selftest import Answers, answers_of
from softwright.fileformat import write_atomically
from softwright.version import __version__

if TYPE_CHECKING:
    from softwright.result.built import Built

MOST_NUMBERS = 1 << 18  # constants of a source: more of them belong into a file of tensors
MOST_NODES = 1 << 12  # operations of a source: compilers take minutes over longer functions


class PythonSource:
    """A row of `EXPORTERS`: `library` is what the source imports as xp."""

    kinds = frozenset(PROGRAMS)

    def __init__(self, name: str, suffix: str, library: str, needs: str, summary: str) -> None:
        self.name, self.suffix, self.library, self.needs, self.summary = name, suffix, library, needs, summary

    def write(self, built: Built[Any], path: Path) -> None:
        write_atomically(path, python_source(built, self.library).encode())


def python_source(built: Built[Any], library: str) -> str:
    """The text of the file."""
    program, lines = checked_program(built), claim_lines(built.sections())
    names = identifiers(program)
    text = "\n".join(_plain(line) for line in lines)
    body = [f"    {names[node.output]} = {_expression(node, names, library, program.dtype)}" for node in program.nodes]
    takes = ", ".join(f"{names[one]} ({', '.join(map(str, shape))})" for one, shape in program.inputs.items())
    kinds = {one: "int64" if one in program.whole else program.outside for one in program.inputs}
    gives = ", ".join(map(str, program.shape))
    wide, narrow = (f'.astype("{program.dtype}")', f'.astype("{program.ends}")') if program.ends else ("", "")
    source = [
        f'"""{text}',
        "",
        f"Written by softwright {__version__}. Needs {library} and nothing else.",
        '"""',
        "",
        f"import {library} as xp",
        "",
        *(["import jax", "", 'jax.config.update("jax_enable_x64", True)', ""] if library == "jax.numpy" else []),
        "",
        "def _array(shape, texts):",
        f'    return xp.array([float.fromhex(t) for t in texts.split()], dtype="{program.dtype}").reshape(shape)',
        "",
        "",
        *(f"{names[name]} = {_constant(array)}" for name, array in program.constants.items()),
        "",
        "",
        *(_IN_FULL if library == "jax.numpy" else _SOFTMAX),
        *(line for op, lines in _HELPERS.items() if any(node.op == op for node in program.nodes) for line in lines),
        "",
        "",
        f"def f({', '.join(names[one] for one in program.inputs)}):",
        f'    """{takes} -> ({gives}), in {program.outside}; letters are free, q counts."""',
        *(f'    {names[one]} = xp.asarray({names[one]}, dtype="{kind}"){wide}' for one, kind in kinds.items()),
        *body,
        f"    return {names[program.output]}{narrow}",
        "",
    ]
    return "\n".join([*source, *(_selftest(answers_of(built)) if library == "numpy" else [])])


def checked_program(built: Built[Any]) -> Program:
    """The program as sources print it, unless it is too large for one."""
    program = folded(program_of(built))
    size = sum(array.size for array in program.constants.values())
    faults = Faults("export")
    faults.check(size <= MOST_NUMBERS, f"{size} constants are too many for a source; use .onnx or .npz")
    most = len(program.nodes) <= MOST_NODES
    faults.check(most, f"{len(program.nodes)} operations are too many for a source; use .onnx, or fewer steps")
    faults.raise_if_any()
    return program


def identifiers(program: Program) -> dict[str, str]:
    """A name for every value that Python and C take, each different."""
    found: dict[str, str] = {}
    taken = {"f", "xp", "q"}
    for name in (*program.inputs, *program.constants, *(node.output for node in program.nodes)):
        base = re.sub(r"\W", "_", name)
        base = base if base.isidentifier() and base.isascii() else f"v_{len(found)}"
        while base in taken:
            base += "_"
        taken.add(base)
        found[name] = base
    return found


def _plain(line: str) -> str:
    """A line that ends no text and escapes nothing."""
    return line.encode("ascii", "backslashreplace").decode().replace("\\", "/").replace('"', "'")


def _constant(array: np.ndarray) -> str:
    if array.dtype.kind == "i":
        return f"xp.array({array.ravel().tolist()}).reshape({tuple(array.shape)})"
    texts = " ".join(float(value).hex() for value in array.ravel())
    parts, line = [], ""
    for word in texts.split(" "):
        if len(line) + len(word) > 100:
            parts.append(line)
            line = ""
        line += word + " "
    parts.append(line)
    joined = "".join(f'\n    "{part}"' for part in parts)
    return f"_array({tuple(array.shape)}, ({joined}\n))"


_SOFTMAX = [
    "def _softmax(s):",
    "    w = xp.exp(s - s.max(axis=-1, keepdims=True))",
    "    return w / w.sum(axis=-1, keepdims=True)",
]
_HELPERS = {
    "Causal": [
        "",
        "",
        "def _causal(s, offset):",
        "    later = xp.arange(s.shape[-1]) > xp.arange(s.shape[-2])[:, None] + offset",
        "    return xp.where(later, xp.array(-xp.inf, dtype=s.dtype), s)",
    ],
    "Rows": [  # what names no row gives nan: a negative index would name one from behind, and JAX takes the nearest
        "",
        "",
        "def _rows(table, numbers, low):",
        "    known = (numbers >= low) & (numbers < low + table.shape[0]) & (numbers == xp.floor(numbers))",
        '    rows = table[xp.where(known, numbers - low, 0).astype("int64")]',
        "    return xp.where(known[..., None], rows, xp.nan)",
    ],
    "Hardmax": [
        "",
        "",
        "def _hardmax(s):",
        "    w = (s == s.max(axis=-1, keepdims=True)).astype(s.dtype)",
        "    return w / w.sum(axis=-1, keepdims=True)",
    ],
}
_IN_FULL = [
    *_SOFTMAX,
    "",
    "",
    "def _matmul(a, b):",
    '    return xp.matmul(a, b, precision="highest")',
]


def _expression(node: Node, names: dict[str, str], library: str, dtype: str) -> str:
    values, numbers = [names[name] for name in node.inputs], node.numbers
    signs = {"Sub": "-", "Add": "+", "Mul": "*", "Div": "/", "MatMul": "@"}
    if node.op == "MatMul" and library == "jax.numpy":  # else a GPU would take TF32
        return f"_matmul({values[0]}, {values[1]})"
    if node.op in signs:
        return f"{values[0]} {signs[node.op]} {values[1]}"
    match node.op:
        case "Softmax":
            return f"_softmax({values[0]})"
        case "Relu":
            return f"xp.maximum({values[0]}, 0)"
        case "Sqrt":
            return f"xp.sqrt({values[0]})"
        case "Reshape":
            sizes = [f"{values[0]}.shape[{i}]" if n == 0 else str(n) for i, n in enumerate(numbers["shape"])]
            return f"{values[0]}.reshape(({', '.join(sizes)},))"
        case "Expand":
            lead = numbers["lead"][0]
            return f"xp.broadcast_to({values[0]}, {values[1]}.shape[:{lead}] + {values[0]}.shape[{lead}:])"
        case "First":
            return f"{values[0]}[: {values[1]}.shape[1]]"
        case "Rows":
            return f"_rows({values[0]}, {values[1]}, {numbers['low'][0]})"
        case "Equals":
            return f'({values[0]} == {values[1]}).astype("{dtype}")'
        case "Hardmax":
            return f"_hardmax({values[0]})"
        case "Causal":
            return f"_causal({values[0]}, {numbers['offset'][0]})"
        case "Transpose":
            return f"{values[0]}.transpose({tuple(numbers['perm'])})"
        case "Concat":
            return f"xp.concatenate([{', '.join(values)}], axis={numbers['axis'][0]})"
        case "Slice":
            before = ":, " * numbers["axis"][0]
            return f"{values[0]}[{before}{numbers['start'][0]}:{numbers['stop'][0]}]"
    raise KeyError(node.op)


def _selftest(answers: Answers) -> list[str]:
    given = ", ".join(f"x{i}" for i in range(len(answers.given)))
    return [
        "",
        'if __name__ == "__main__":',
        *(f"    x{i} = {_indented(_constant(array))}" for i, array in enumerate(answers.given)),
        f"    y = {_indented(_constant(answers.outputs))}",
        f"    off = float(abs(f({given}) - y).max())",
        f"    allowed = float.fromhex({answers.allowed.hex()!r})  # {answers.meaning}",
        '    print(f"largest deviation from torch {off:.3g}, allowed {allowed:.3g}")',
        "    raise SystemExit(0 if off <= allowed else 1)",
        "",
    ]


def _indented(text: str) -> str:
    return text.replace("\n", "\n    ")


NUMPY = PythonSource(
    "python", ".py", "numpy", "", "one NumPy function with its constants and a self-test, no softwright"
)
JAX = PythonSource("jax", ".jax.py", "jax.numpy", "", "one pure JAX function with its constants, float64 switched on")
