"""Shapes of the values of a program for one sequence of the batch, with sizes that may be free.

A size is a whole number, or a text of C such as "n" or "(8 + n)": what a function is told when it is called.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from softwright.export.program import END, Node, Program, resolved

Size = int | str
Shape = tuple[Size, ...]


def shapes_of(program: Program) -> dict[str, Shape]:
    """The shape of every value; the batch is 1."""
    found: dict[str, Shape] = {name: tuple(array.shape) for name, array in program.constants.items()}
    for name, shape in program.inputs.items():
        found[name] = (1, *shape[1:])
    for node in program.nodes:
        found[node.output] = _shape(node, [found[name] for name in node.inputs])
    return found


def times(*sizes: Size) -> Size:
    """A product of sizes; one product has one text."""
    words = [word for size in sizes for word in ([size] if isinstance(size, int) else _factors(size))]
    whole = math.prod(int(word) for word in words if isinstance(word, int) or word.isdigit())
    free = sorted(word for word in words if isinstance(word, str) and not word.isdigit())
    if not free or whole == 0:
        return whole
    return " * ".join([*([str(whole)] if whole != 1 else []), *free])


def _factors(text: str) -> list[str]:
    """Those of a product, what stands in brackets being one."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "*" and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [one.strip() for one in found]


def plus(*sizes: Size) -> Size:
    """A sum of sizes."""
    whole = sum(size for size in sizes if isinstance(size, int))
    free = [size for size in sizes if isinstance(size, str)]
    if not free:
        return whole
    return free[0] if len(free) == 1 and not whole else f"({' + '.join([*([str(whole)] if whole else []), *free])})"


def _shape(node: Node, given: list[Shape]) -> Shape:
    numbers = node.numbers
    match node.op:
        case "Sub" | "Add" | "Mul" | "Div" | "Equals":
            return _broadcast(given)
        case "MatMul":
            lead = _broadcast([given[0][:-2], given[1][:-2]])
            return (*lead, given[0][-2], given[1][-1])
        case "Reshape":
            return _reshaped(resolved(numbers["shape"], given[0]), given[0])
        case "Transpose":
            return tuple(given[0][axis] for axis in numbers["perm"])
        case "Slice":
            axis, start, stop = (numbers[name][0] for name in ("axis", "start", "stop"))
            size = plus(given[0][axis], -start) if stop == END else stop - start
            return (*given[0][:axis], size, *given[0][axis + 1 :])
        case "Concat":
            axis = numbers["axis"][0]
            return (*given[0][:axis], plus(*(shape[axis] for shape in given)), *given[0][axis + 1 :])
        case "Expand":
            lead = numbers["lead"][0]
            return (*given[1][:lead], *given[0][lead:])
        case "First":
            return (given[1][1], *given[0][1:])
        case "Rows":
            return (*given[1], *given[0][1:])
    return given[0]


def _broadcast(given: Sequence[Shape]) -> Shape:
    rank = max(len(shape) for shape in given)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in given]
    return tuple(next((size for size in sizes if size != 1), 1) for sizes in zip(*padded, strict=True))


def _reshaped(wanted: Shape, given: Shape) -> Shape:
    """With -1 replaced by what is left; axes that both have are taken out first."""
    if -1 not in wanted:
        return wanted
    left, rest = [size for size in given if size != 1], [size for size in wanted if size not in (-1, 1)]
    for size in list(rest):
        if size in left:
            left.remove(size)
            rest.remove(size)
    whole = math.prod(size for size in left if isinstance(size, int)) // math.prod(
        size for size in rest if isinstance(size, int)
    )
    size = times(whole, *(size for size in left if isinstance(size, str)))
    return tuple(size if one == -1 else one for one in wanted)
