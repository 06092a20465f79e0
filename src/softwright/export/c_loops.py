"""Nodes of a program as loops of C over views; sizes may be texts, for what a function is told when called.

The innermost loop runs over neighbours in memory, in vectors where there is room for them (`vectors/exp.py`), without
reordering anything: the order is written down here, and every order is charged. Operations entry by entry that follow
each other are one loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from softwright.export.c_closed import ClosedForm
from softwright.export.c_products import Factors, product_lines
from softwright.export.c_shapes import Shape, Size, times
from softwright.export.c_views import MOST_WRITTEN, View, in_rows, letters_of, loops, run_in_vectors, run_over
from softwright.export.program import Node, Program
from softwright.export.vectors.exp import LANES

FEW = 3  # scores of a softmax that have no maximum to look for
FEW_ROWS = 2  # pairs that have a vector each
ROWS = 4  # of a softmax that are computed side by side
ENTRYWISE = frozenset({"Sub", "Add", "Mul", "Div", "Equals", "Relu", "Rows", "Causal"})
_OF_VECTORS = frozenset({"Sub", "Add", "Mul", "Div"})
_SIGNS = {"Sub": "-", "Add": "+", "Mul": "*", "Div": "/"}


class Printer:
    """Prints nodes. `views` says where values lie; `inlined` are nodes that are written where they are used."""

    def __init__(
        self,
        program: Program,
        views: Mapping[str, View],
        shapes: Mapping[str, Shape],
        inlined: Mapping[str, Node],
        lanes: int,
    ) -> None:
        self.program, self.views, self.shapes, self.inlined = program, views, shapes, inlined
        self.real = "double" if program.dtype == "float64" else "float"
        self.lanes = lanes
        infinite = any(not np.isfinite(one).all() for one in program.constants.values())
        self.masked = infinite or any(node.op == "Causal" for node in program.nodes)  # scores may be -inf
        self.unscaled: dict[str, str] = {}  # weights that are not divided by their sum: the name of one over it

    @property
    def foreign(self) -> frozenset[str]:
        """Arrays whose numbers are of another type."""
        names = self.program.inputs if self.program.ends else self.program.whole
        return frozenset(self.views[name].array for name in names)

    def factors(self, node: Node) -> Factors:
        one, two, *bias = (self.views[name] for name in node.inputs)
        known = [self.program.constants.get(name) for name in node.inputs[:2]]
        return Factors(one, two, known, self.real, self.lanes, self.foreign, *bias)

    def lines(self, node: Node, out: View) -> tuple[list[str], bool]:
        """What fills the output of a node, and whether it fills the room of its array too."""
        match node.op:
            case "MatMul":
                return product_lines(self.factors(node), out, self.unscaled.get(node.inputs[0], ""))
            case "Softmax":
                return self._softmax(node, out), True
            case "Hardmax":
                return self._hardmax(self.views[node.inputs[0]], out), False
            case "Concat":
                return self._concat(node, out)
            case "Reshape":
                return self._copied(self.views[node.inputs[0]], out)
            case "Closed":
                return self._closed(node, out)
        return self._entries(node, out)

    def leaves(self, node: Node) -> list[str]:
        """The values that a node reads, with those of the nodes that are written inside it."""
        found = []
        for name in node.inputs:
            found += self.leaves(self.inlined[name]) if name in self.inlined else [name]
        return found

    def _entries(self, node: Node, out: View) -> tuple[list[str], bool]:
        """What is computed entry by entry, neighbouring axes as one where all operands allow it."""
        order, sizes = out.order, dict(enumerate(out.shape))
        given = [self.views[name] for name in self.leaves(node)]
        index = letters_of(out.shape)
        ops = {node.op, *(one.op for one in self._inside(node))}
        while len(order) > 1 and not ops & {"Rows", "Causal"}:
            a, b = order[-2:]
            if not all(_one_run(view, a, b, len(out.shape)) for view in (*given, out)):
                break
            sizes[b], index[a] = times(sizes[a], sizes[b]), ""
            order.remove(a)
        outer = loops([sizes[a] for a in order[:-1]], [index[a] for a in order[:-1]])
        if not order:
            return [f"  {out.entry(index)} = {self._value(node, index)};"], False
        inner = order[-1]

        def statement(letter: str, along: int = -1) -> str:
            places = [letter if axis == inner else one for axis, one in enumerate(index)]
            value = self._value(node, places, along)
            return f"{out.entry(places)} = {value};" if along < 0 else f"{_vector_at(out, places)} = {value};"

        merged = sizes[inner] != out.shape[inner]
        in_vectors = ops <= _OF_VECTORS and self._neighbours(given, out, inner)
        text, filled = self._run(index[inner], sizes[inner], statement, (*given, out), inner, in_vectors, merged)
        return [f"  {outer}{text}"], filled

    def _neighbours(self, given: Sequence[View], out: View, inner: int) -> bool:
        """Whether along an axis all are neighbours or stay, and some are neighbours, of the type of the program."""
        steps = [_step(view, inner, len(out.shape)) for view in given]
        foreign = self.foreign
        own = all(step == 0 or view.array not in foreign for view, step in zip(given, steps, strict=True))
        return own and set(steps) <= {0, 1} and 1 in steps and out.step(inner) == 1

    def _run(
        self,
        letter: str,
        size: Size,
        statement: Callable[..., str],
        views: Sequence[View],
        inner: int,
        in_vectors: bool,
        merged: bool = False,
    ) -> tuple[str, bool]:
        """The innermost loop over an axis of the last view, and whether it fills the room of that one."""
        rank = len(views[-1].shape)
        if not in_vectors:
            return run_over(letter, size, statement), False
        if isinstance(size, int):
            room = -(-size // self.lanes) * self.lanes
            held = (view.holds(inner - (rank - len(view.shape)), room) for view in views if _step(view, inner, rank))
            if room == size or (not merged and all(held)):
                return run_in_vectors(letter, room, self.lanes, lambda at: statement(at, inner)), True
            if size < self.lanes:
                return run_over(letter, size, statement), False
        elif any(self._is_table(view) for view in views):  # it may be shorter than a vector, which compilers notice
            return run_over(letter, size, statement), False
        return run_over(letter, size, statement, lambda at: statement(at, inner)), False

    def _inside(self, node: Node) -> list[Node]:
        nodes = [self.inlined[name] for name in node.inputs if name in self.inlined]
        return nodes + [other for one in nodes for other in self._inside(one)]

    def _operand(self, name: str, index: Sequence[str], along: int) -> str:
        lost = len(index) - len(self.shapes[name])
        own, along = index[lost:], along - lost
        if name in self.inlined:
            return f"({self._value(self.inlined[name], own, along)})"
        view = self.views[name]
        return view.entry(own) if along < 0 else view.vector(own, along)

    def _value(self, node: Node, index: Sequence[str], along: int = -1) -> str:
        """An entry, or a vector of entries along an axis."""
        if node.op == "Rows":
            row = self._operand(node.inputs[1], index[:-1], -1)
            low = node.numbers["low"][0]
            number = f"((int){row} - {low})" if low else f"(int){row}"
            return self.views[node.inputs[0]].entry([number, index[-1]])
        places = [self._operand(name, index, along) for name in node.inputs]
        match node.op:
            case "Sub" | "Add" | "Mul" | "Div":
                return f"{places[0]} {_SIGNS[node.op]} {places[1]}"
            case "Equals":
                return f"{places[0]} == {places[1]}"
            case "Relu":
                return f"{places[0]} > 0 ? {places[0]} : 0"
            case "Causal":
                row, column = (letter or "0" for letter in index[-2:])
                return f"{column} > {row} + {node.numbers['offset'][0]} ? -HUGE_VAL : {places[0]}"
        raise KeyError(node.op)

    def held_rows(self, node: Node) -> str:
        """A return without an answer where a number names no row, which is found out before it is cast."""
        view, low = self.views[node.inputs[1]], node.numbers["low"][0]
        index = letters_of(view.shape)
        number, high = view.entry(index), low + int(self.shapes[node.inputs[0]][0]) - 1
        named = f"{number} >= {low} && {number} <= {high} && {number} == (int){number}"
        return f"  {loops(view.shape, index)}if (!({named})) return;"

    def _concat(self, node: Node, out: View) -> tuple[list[str], bool]:
        axis, lines, begin, filled = node.numbers["axis"][0], [], [], True
        for name in node.inputs:
            source = self.views[name]
            first = " + ".join([*([str(out.first)] if out.first != 0 else []), *begin]) or 0
            shape = tuple(source.shape[a] if a == axis else size for a, size in enumerate(out.shape))
            room = 0 if out.step(axis) == 1 else out.room  # what lies behind a part may be the next one
            more, whole = self._copied(source, View(out.array, shape, out.steps, first, room))
            lines, filled = lines + more, filled and whole
            begin.append(str(times(source.shape[axis], out.steps[axis])))
        return lines, filled and out.step(axis) != 1

    def _copied(self, source: View, out: View) -> tuple[list[str], bool]:
        """Entry by entry in the order of the axes of the source, which has as many entries."""
        if len(source.shape) != len(out.shape):
            source, out = _alike(source, out)
        index = letters_of(out.shape)
        order = out.order
        if not order:
            return [f"  {out.entry(index)} = {source.entry(index)};"], False
        inner = order[-1]
        outer = loops([out.shape[a] for a in order[:-1]], [index[a] for a in order[:-1]])

        def statement(letter: str, along: int = -1) -> str:
            places = [letter if axis == inner else one for axis, one in enumerate(index)]
            if along < 0:
                return f"{out.entry(places)} = {source.entry(places)};"
            return f"{_vector_at(out, places)} = {source.vector(places, along)};"

        in_vectors = self._neighbours([source], out, inner)
        text, filled = self._run(index[inner], out.shape[inner], statement, (source, out), inner, in_vectors)
        return [f"  {outer}{text}"], filled

    def _is_table(self, view: View) -> bool:
        return any(view.array == self.views[name].array for name in self.program.constants)

    def _softmax(self, node: Node, out: View) -> list[str]:
        s = self.views[node.inputs[0]]
        n, rows = out.shape[-1], [a for a in range(len(out.shape) - 1) if out.shape[a] != 1]
        if side_by_side(out):
            return self._columns(s, out, rows[0])
        index = letters_of(out.shape[:-1])
        outer = loops([out.shape[a] for a in rows], [index[a] for a in rows])
        w = out.at([*index, ""])
        if few(n):
            return self._few(s, out, index, outer)
        known = isinstance(n, int) and n <= MOST_WRITTEN * self.lanes
        room = _whole(n, self.lanes) if isinstance(n, int) else rounded(n)
        part, weights = f"part_{len(self.unscaled)}", f"softwright_weights{'' if known else '_of'}"
        if n == room and s.step(len(s.shape) - 1) == 1:
            scores = f"{s.array} + {s.at([*index, ''])}"
            made = f"const {self.real} {part} = {weights}({out.array} + {w}, {scores}, {room});"
            if not rows and self._divides_last(node):
                self.unscaled[node.output] = part
                return [f"  {made}"]
            return [f"  {outer}{{ {made} softwright_scale({out.array} + {w}, {part}, {room}); }}"]
        copy = run_over("j", n, lambda j: f"w[{j or 0}] = {s.entry([*index, j])};")
        return [
            f"  {outer}{{ {self.real} *const w = {out.array} + {w}; {copy}",
            f"    for (int j = {n}; j < {room}; j++) w[j] = -HUGE_VAL;",
            f"    softwright_scale(w, {weights}(w, w, {room}), {room}); }}",
        ]

    def _divides_last(self, node: Node) -> bool:
        """Whether the sums that weights are used in can be divided in the place of the weights: step 4 of
        `proof/arithmetic/rounding.py` charges either."""
        users = [one for one in self.program.nodes if node.output in one.inputs]
        used = all(one.op == "MatMul" and one.inputs[0] == node.output for one in users)
        return self.program.divides_last and used and node.output != self.program.output

    def _few(self, s: View, out: View, index: list[str], outer: str) -> list[str]:
        """One or two."""
        n = int(out.shape[-1])
        scores = [s.entry([*index, str(j)]) for j in range(n)]
        places = [out.entry([*index, str(j)]) for j in range(n)]
        if n == 1:
            return [f"  {outer}{places[0]} = 1 + ({scores[0]} - {scores[0]});"]  # 1, or nan
        rows = [letter for letter, size in zip(index, out.shape, strict=False) if letter and size != 1]
        size = out.shape[index.index(rows[0])] if len(rows) == 1 else 0
        if isinstance(size, int) and size > FEW_ROWS:
            return self._few_rows(s, out, index, rows[0], size)
        return [
            f"  {outer}{{ softwright_v low, high, d = {{0}};",
            f"    d += {scores[1]} - {scores[0]};",
            *([] if outer or self.masked else ["    d -= 0 * d;"]),  # an infinite score minus itself is nan
            "    softwright_pairs(&low, &high, &d);",
            f"    memcpy(&{places[0]}, &low, sizeof({self.real}));",
            f"    memcpy(&{places[1]}, &high, sizeof({self.real})); }}",
        ]

    def _few_rows(self, s: View, out: View, index: list[str], row: str, size: int) -> list[str]:
        """Pairs of several rows share a vector."""
        at = [f"({row} + i)" if letter == row else letter for letter in index]
        low, high = (f"{s.entry([*at, c])}" for c in "01")
        places = [out.entry([*at, c]) for c in "01"]
        each = f"for (int i = 0; i < SOFTWRIGHT_LANES && {row} + i < {size}; i++)"
        return [
            f"  for (int {row} = 0; {row} < {size}; {row} += SOFTWRIGHT_LANES) {{",
            f"    {self.real} t[2 * SOFTWRIGHT_LANES] = {{0}};",
            f"    {each} t[i] = {high} - {low};",
            "    softwright_v first, second, d = softwright_in(t);",
            "    softwright_pairs(&first, &second, &d);",
            "    softwright_out(t) = first;",
            "    softwright_out(t + SOFTWRIGHT_LANES) = second;",
            f"    {each} {{ {places[0]} = t[i]; {places[1]} = t[SOFTWRIGHT_LANES + i]; }}",
            "  }",
        ]

    def _columns(self, s: View, out: View, row: int) -> list[str]:
        """Many rows at once, one score of each after another: no sum and no maximum goes across a vector. Where there
        is no room for whole vectors the last rows are computed with some of those before them."""
        R, n = int(out.shape[row]), out.shape[-1]
        room = _whole(R, self.lanes)
        last = s.step(row) != 1 or not s.holds(row, room)
        head = f"for (int i = 0; i < {R}; i += SOFTWRIGHT_LANES) {{ "
        if last:
            head += f"const int r = i + SOFTWRIGHT_LANES <= {R} ? i : {R} - SOFTWRIGHT_LANES; "
        r = "r" if last else "i"
        index = [r if axis == row else "" for axis in range(len(out.shape) - 1)]
        if n == 2:
            places = [_vector_at(out, [*index, c]) for c in "01"]
            low, high = (f"softwright_in({s.array} + {s.at([*index, c])})" for c in "01")
            text = f"const softwright_v d = {high} - {low}; softwright_pairs(&{places[0]}, &{places[1]}, &d);"
        else:
            steps = ", ".join(str(view.step(len(view.shape) - 1)) for view in (out, s))
            start, first = (f"{view.array} + {view.at([*index, ''])}" for view in (out, s))
            text = f"softwright_columns({start}, {first}, {n}, {steps});"
        return [f"  {head}{text} }}"]

    def _closed(self, node: Node, out: View) -> tuple[list[str], bool]:
        """In whole vectors where all have room for them, else in a vector of which one number is used."""
        form = ClosedForm(self.program.closed[node.output], self.program.dtype)
        given, index, axes = [self.views[name] for name in node.inputs], letters_of(out.shape), out.order
        inner = axes[-1] if axes else -1
        size = int(out.shape[inner]) if axes else 1
        room = _whole(size, self.lanes)
        whole = len(axes) == 1 and all(view.holds(inner, room) for view in (*given, out))
        if whole and self._neighbours(given, out, inner):

            def statement(letter: str) -> str:
                places = [letter if axis == inner else one for axis, one in enumerate(index)]
                words = [view.vector(places, inner) for view in given]
                return f"{{ {form.statements(words, _vector_at(out, places), f'{size} - {letter}')} }}"

            return [f"  {run_in_vectors(index[inner], room, self.lanes, statement)}"], True
        outer = loops([out.shape[a] for a in axes], [index[a] for a in axes])
        words = [f"({view.entry(index)} - (softwright_v){{0}})" for view in given]
        text = form.statements(words, "const softwright_v found", "1")
        return [f"  {outer}{{ {text} memcpy(&{out.entry(index)}, &found, sizeof({self.real})); }}"], False

    def _hardmax(self, s: View, out: View) -> list[str]:
        n, rows = out.shape[-1], range(len(out.shape) - 1)
        index = letters_of(out.shape[:-1])
        outer = loops([out.shape[a] for a in rows], [index[a] for a in rows])
        score, place, first = s.entry([*index, "j"]), out.entry([*index, "j"]), s.entry([*index, ""])
        return [
            f"  {outer}{{ {self.real} top = {first}, sum = 0;",
            f"    for (int j = 1; j < {n}; j++) top = {score} > top ? {score} : top;",
            f"    for (int j = 0; j < {n}; j++) {{ {place} = {score} == top; sum += {place}; }}",
            f"    for (int j = 0; j < {n}; j++) {place} /= sum; }}",
        ]


def few(size: Size) -> bool:
    """Whether so many scores have no maximum to look for."""
    return isinstance(size, int) and size < FEW


def rounded(size: Size) -> Size:
    """The next multiple of the lanes."""
    return _whole(size, LANES) if isinstance(size, int) else f"(({size} + {LANES - 1}) / {LANES} * {LANES})"


def _whole(size: int, lanes: int) -> int:
    return -(-size // lanes) * lanes


def side_by_side(view: View) -> bool:
    """Whether the rows of a softmax lie next to each other, score by score."""
    rows = [a for a in range(len(view.shape) - 1) if view.shape[a] != 1]
    return len(rows) == 1 and view.step(rows[0]) == 1 and view.shape[-1] != 1


def softmax_place(array: str, s: View, shape: Shape, lanes: int) -> View:
    """Where the weights of scores lie: side by side if those do, else in rows with room for whole vectors."""
    rows = [a for a in range(len(shape) - 1) if shape[a] != 1]
    if len(rows) == 1 and shape[-1] != 1 and isinstance(shape[rows[0]], int) and s.step(rows[0]) == 1:
        R = int(shape[rows[0]])
        room = _whole(R, lanes)
        if lanes <= R or (R >= ROWS and s.holds(rows[0], room)):
            order = [len(shape) - 1, rows[0]]
            return replace(in_rows(array, shape, order, inner=room), room=room if room > R else 0)
    n = shape[-1]
    if few(n) or isinstance(n, str):
        return in_rows(array, shape, inner=None if few(n) else rounded(n))
    return replace(in_rows(array, shape, inner=_whole(n, lanes)), room=_whole(n, lanes))


def _vector_at(view: View, index: Sequence[str]) -> str:
    return f"softwright_out({view.array} + {view.at(index)})"


def _step(view: View, axis: int, rank: int) -> Size:
    """Along an axis of a broadcast."""
    own = axis - (rank - len(view.shape))
    return view.step(own) if own >= 0 else 0


def _one_run(view: View, a: int, b: int, rank: int) -> bool:
    """Whether axes a and b of a broadcast are one axis in memory."""
    lost = rank - len(view.shape)
    outer, inner = (0 if axis < lost else view.step(axis - lost) for axis in (a, b))
    size = 1 if b < lost else view.shape[b - lost]
    return outer == inner == 0 or (size != 1 and outer != 0 and outer == times(size, inner))


def _alike(source: View, out: View) -> tuple[View, View]:
    """A source and a plain copy of it of another shape, both with the source's axes."""
    return source, View(out.array, source.shape, in_rows("", source.shape).steps, out.first)
