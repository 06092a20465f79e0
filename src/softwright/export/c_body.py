"""The body of a C function: which arrays it has, where each value lies in them, and the lines that fill them.

A value that is another one looked at differently (`c_views.py`) has no array. Arrays and tables have room for whole
vectors along their innermost axis: in tables zeros fill it, in arrays what is computed from them, and nothing reads it
but what is computed entry by entry. Arrays of equal size are used again when nothing lies in them any more. A node that
works entry by entry and is used once, by another such node of its shape, is written inside that one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from softwright.errors import InvalidInput
from softwright.export.c_loops import ENTRYWISE, ROWS, Printer, rounded, softmax_place
from softwright.export.c_products import by_columns, product_place
from softwright.export.c_shapes import Shape, Size, times
from softwright.export.c_views import View, in_rows, in_vectors, seen
from softwright.export.program import Node, Program

MOST_ENTRIES = 1 << 16  # of the arrays of fixed size on the stack of one call


@dataclass
class Body:
    """Arrays by name with their sizes, the lines, and where the answer lies."""

    arrays: dict[str, Size] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    turned: set[str] = field(default_factory=set)  # constants whose columns lie one behind the other
    rooms: dict[str, int] = field(default_factory=dict)  # of constants whose rows are filled up: to how many numbers
    answer: View = field(default_factory=lambda: View("", (), ()))

    def stored(self, key: str, array: np.ndarray) -> np.ndarray:
        """A constant as its table holds it."""
        array = array.T if key in self.turned else array
        more = self.rooms.get(key, 0)
        axis = next((a for a in reversed(range(array.ndim)) if array.shape[a] != 1), 0)
        size = [(0, more - array.shape[axis]) if more and a == axis else (0, 0) for a in range(array.ndim)]
        return np.pad(array, size)


def body_of(program: Program, names: dict[str, str], shapes: dict[str, Shape], lanes: int) -> Body:
    """`names` are those of inputs and constants in C, `lanes` the numbers in a vector."""
    inlined = _inlined(program, shapes)
    views: dict[str, View] = {}
    printer = Printer(program, views, shapes, inlined, lanes)
    turned = _turned(program, shapes, printer.lanes)
    for key in (*program.inputs, *program.constants):
        view = in_rows(names[key], shapes[key], [1, 0] if key in turned else None)
        fill = key in program.constants and program.constants[key].dtype.kind == "f"
        views[key] = in_vectors(view, printer.lanes) if fill else view
    body = Body(turned=set(turned), rooms={key: view.room for key, view in views.items() if view.room})
    last, root = _last_uses(program, inlined, printer)
    spare: dict[Size, list[str]] = {}
    held: dict[str, tuple[str, Size]] = {}  # of a value that has an array: its name and size
    for step, node in enumerate(program.nodes):
        if node.op == "Rows":
            body.lines.append(printer.held_rows(node))
        if node.output in inlined:
            continue
        shape = shapes[node.output]
        view = None if node.op in ENTRYWISE else seen(node, views[node.inputs[0]], shape)
        if view is None:
            wanted = _place(node, printer, shape)
            # A Hardmax fills no room, and gcc 12 at -O3 says so when it reads whole vectors of its rows.
            wanted = wanted if node.op in ("Softmax", "Reshape", "Hardmax") else in_vectors(wanted, printer.lanes)
            if node.op in ENTRYWISE:
                _turn_tables(program, node, printer, views, wanted, body)
            size = _room(wanted, node.op == "Softmax")
            if not spare.get(size):
                spare.setdefault(size, []).append(f"w{len(body.arrays)}")
                body.arrays[spare[size][-1]] = size
            array = spare[size].pop()
            lines, filled = printer.lines(node, replace(wanted, array=array))
            view = View(array, wanted.shape, wanted.steps, room=wanted.room if filled else 0)
            body.lines += lines
            held[node.output] = array, size
        views[node.output] = view
        for name in [name for name in held if last[root[name]] <= step]:
            array, size = held.pop(name)
            spare[size].append(array)
    body.answer = views[program.output]
    entries = sum(size for size in body.arrays.values() if isinstance(size, int))
    if entries > MOST_ENTRIES:
        fault = f"one call would hold {entries} numbers on its stack, more than {MOST_ENTRIES}"
        raise InvalidInput("export", [f"{fault}; use .onnx, or build it for a larger tolerance"])
    return body


def _turned(program: Program, shapes: dict[str, Shape], lanes: int) -> frozenset[str]:
    """Constants with few columns that one row is multiplied with, and nothing else: their columns are read whole."""
    found, other = set[str](), set[str]()
    for node in program.nodes:
        for place, name in enumerate(node.inputs):
            array = program.constants.get(name)
            one_row = node.op == "MatMul" and place == 1 and all(size == 1 for size in shapes[node.inputs[0]][:-1])
            if array is not None and one_row and array.ndim == 2 and by_columns(array.shape[0], array.shape[1], lanes):
                found.add(name)
            else:
                other.add(name)
    return frozenset(found - other)


def _turn_tables(
    program: Program, node: Node, printer: Printer, views: dict[str, View], wanted: View, body: Body
) -> None:
    """Tables that this node alone reads, entry by entry, lie as its result does: then both are read in vectors."""
    for name in printer.leaves(node):
        array, rank = program.constants.get(name), len(wanted.shape)
        if array is None or array.ndim != 2 or array.dtype.kind != "f" or name in body.turned:
            continue
        alone = sum(one.inputs.count(name) for one in program.nodes) == 1
        order = [axis - (rank - 2) for axis in wanted.order]
        if alone and order == [1, 0] and views[name].order == [0, 1]:
            views[name] = in_vectors(in_rows(views[name].array, views[name].shape, order), printer.lanes)
            body.turned.add(name)
            body.rooms.pop(name, None)
            body.rooms |= {name: views[name].room} if views[name].room else {}


def _inlined(program: Program, shapes: dict[str, Shape]) -> dict[str, Node]:
    """Nodes that are written inside the only node that uses them."""
    uses = Counter(name for node in program.nodes for name in node.inputs)
    uses[program.output] += 1
    made = {node.output: node for node in program.nodes if node.op in ENTRYWISE}
    found: dict[str, Node] = {}
    for node in program.nodes:
        for name in node.inputs if node.op in ENTRYWISE and node.op != "Rows" else ():
            if name in made and uses[name] == 1 and shapes[name] == shapes[node.output]:
                found[name] = made[name]
    return found


def _last_uses(program: Program, inlined: dict[str, Node], printer: Printer) -> tuple[dict[str, int], dict[str, str]]:
    """The step at which the array of a value is read last, and for each value the one in whose array it may lie."""
    root = {name: name for name in (*program.inputs, *program.constants)}
    last: dict[str, int] = {}
    for step, node in enumerate(program.nodes):
        if node.output in inlined:
            continue
        shares = node.op in ("Reshape", "Transpose", "Slice", "Expand", "First")
        root[node.output] = root[node.inputs[0]] if shares else node.output
        last |= {root[name]: step for name in printer.leaves(node)} | {root[node.output]: step}
    last[root[program.output]] = len(program.nodes)
    return last, root


def _place(node: Node, printer: Printer, shape: Shape) -> View:
    """How the array of a node's output is filled."""
    given = [printer.views[name] for name in printer.leaves(node)]
    match node.op:
        case "MatMul":
            return product_place("", printer.factors(node), shape)
        case "Softmax":
            return softmax_place("", given[0], shape, printer.lanes)
        case "Concat":
            axis = node.numbers["axis"][0]
            size = shape[axis]
            if axis == len(shape) - 1 and isinstance(size, int) and size < ROWS:
                return in_rows("", shape, [axis, *(a for a in range(axis) if shape[a] != 1)])
            return in_rows("", shape)
        case "Hardmax" | "Reshape" | "Rows" | "Causal":
            return in_rows("", shape)
    sized = [a for a, size in enumerate(shape) if size != 1]
    for view in given:
        lost = len(shape) - len(view.shape)
        order = [axis + lost for axis in view.order]
        if sorted(order) == sized:
            return in_rows("", shape, order)
    if len(sized) == 2 and sized[1] == len(shape) - 1:  # an outer product: its rows side by side
        size = shape[sized[0]]
        if isinstance(size, int) and size >= ROWS:
            return in_rows("", shape, sized[::-1])
    return in_rows("", shape)


def _room(view: View, padded: bool) -> Size:
    """Entries of the array that a view fills; rows of weights may have room for whole vectors."""
    order = view.order
    if not order:
        return 1
    if padded and isinstance(view.shape[-1], str) and order[-1] == len(view.shape) - 1:
        return times(*view.shape[:-1], rounded(view.shape[-1]))
    return view.room if view.room and len(order) == 1 else times(view.shape[order[0]], view.steps[order[0]])
