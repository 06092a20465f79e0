"""Nodes of a program as loops of C over views; sizes may be texts, for what a function is told when called.

The innermost loop runs over neighbours in memory, so that compilers can use vector instructions without reordering
anything: the order is written down here, and every order is charged. Operations entry by entry that follow each other
are one loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from softwright.export.c_exp import LANES, lanes_of
from softwright.export.c_products import product_lines
from softwright.export.c_shapes import Shape, Size, times
from softwright.export.c_views import View, in_rows, letters_of, loops, run_over
from softwright.export.program import Node, Program

FEW = 3  # scores of a softmax that are computed one by one
ROWS = 4  # of a softmax that are computed side by side
ENTRYWISE = frozenset({"Sub", "Add", "Mul", "Div", "Equals", "Relu", "Rows", "Causal"})
_SIGNS = {"Sub": "-", "Add": "+", "Mul": "*", "Div": "/"}


class Printer:
    """Prints nodes. `views` says where values lie; `inlined` are nodes that are written where they are used."""

    def __init__(
        self, program: Program, views: Mapping[str, View], shapes: Mapping[str, Shape], inlined: Mapping[str, Node]
    ) -> None:
        self.program, self.views, self.shapes, self.inlined = program, views, shapes, inlined
        self.real = "double" if program.dtype == "float64" else "float"

    def lines(self, node: Node, out: View) -> list[str]:
        """What fills the output of a node."""
        match node.op:
            case "MatMul":
                one, two = (self.views[name] for name in node.inputs)
                known = [self.program.constants.get(name) for name in node.inputs]
                return product_lines(one, two, out, known, self.real)
            case "Softmax":
                return self._softmax(self.views[node.inputs[0]], out)
            case "Hardmax":
                return self._hardmax(self.views[node.inputs[0]], out)
            case "Concat":
                return self._concat(node, out)
            case "Reshape":
                return self._copied(self.views[node.inputs[0]], out)
        return [self._entries(node, out)]

    def leaves(self, node: Node) -> list[str]:
        """The values that a node reads, with those of the nodes that are written inside it."""
        found = []
        for name in node.inputs:
            found += self.leaves(self.inlined[name]) if name in self.inlined else [name]
        return found

    def _entries(self, node: Node, out: View) -> str:
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
            return f"  {out.entry(index)} = {self._value(node, index)};"
        inner = order[-1]

        def statement(letter: str) -> str:
            places = [letter if axis == inner else one for axis, one in enumerate(index)]
            return f"{out.entry(places)} = {self._value(node, places)};"

        blocks = not any(self._is_table(view) for view in given)
        return f"  {outer}{run_over(index[inner], sizes[inner], statement, blocks)}"

    def _inside(self, node: Node) -> list[Node]:
        nodes = [self.inlined[name] for name in node.inputs if name in self.inlined]
        return nodes + [other for one in nodes for other in self._inside(one)]

    def _operand(self, name: str, index: Sequence[str]) -> str:
        own = index[len(index) - len(self.shapes[name]) :]
        return f"({self._value(self.inlined[name], own)})" if name in self.inlined else self.views[name].entry(own)

    def _value(self, node: Node, index: Sequence[str]) -> str:
        if node.op == "Rows":
            row = self._operand(node.inputs[1], index[:-1])
            low = node.numbers["low"][0]
            number = f"((int){row} - {low})" if low else f"(int){row}"
            return self.views[node.inputs[0]].entry([number, index[-1]])
        places = [self._operand(name, index) for name in node.inputs]
        match node.op:
            case "Sub" | "Add" | "Mul" | "Div":
                return f"{places[0]} {_SIGNS[node.op]} {places[1]}"
            case "Equals":
                return f"{places[0]} == {places[1]}"
            case "Relu":
                return f"softwright_positive({places[0]})"
            case "Causal":
                row, column = (letter or "0" for letter in index[-2:])
                return f"{column} > {row} + {node.numbers['offset'][0]} ? -HUGE_VAL : {places[0]}"
        raise KeyError(node.op)

    def _concat(self, node: Node, out: View) -> list[str]:
        axis, lines, begin = node.numbers["axis"][0], [], []
        for name in node.inputs:
            source = self.views[name]
            first = " + ".join([*([str(out.first)] if out.first != 0 else []), *begin]) or 0
            shape = tuple(source.shape[a] if a == axis else size for a, size in enumerate(out.shape))
            lines += self._copied(source, View(out.array, shape, out.steps, first))
            begin.append(str(times(source.shape[axis], out.steps[axis])))
        return lines

    def _copied(self, source: View, out: View) -> list[str]:
        """Entry by entry in the order of the axes of the source, which has as many entries."""
        if len(source.shape) != len(out.shape):
            source, out = _alike(source, out)
        index = letters_of(out.shape)
        order = out.order
        if not order:
            return [f"  {out.entry(index)} = {source.entry(index)};"]
        inner = order[-1]
        outer = loops([out.shape[a] for a in order[:-1]], [index[a] for a in order[:-1]])

        def statement(letter: str) -> str:
            places = [letter if axis == inner else one for axis, one in enumerate(index)]
            return f"{out.entry(places)} = {source.entry(places)};"

        return [f"  {outer}{run_over(index[inner], out.shape[inner], statement, not self._is_table(source))}"]

    def _is_table(self, view: View) -> bool:
        return any(view.array == self.views[name].array for name in self.program.constants)

    def _softmax(self, s: View, out: View) -> list[str]:
        n, rows = out.shape[-1], [a for a in range(len(out.shape) - 1) if out.shape[a] != 1]
        if side_by_side(out):
            return self._columns(s, out, rows[0])
        index = letters_of(out.shape[:-1])
        outer = loops([out.shape[a] for a in rows], [index[a] for a in rows])
        w = out.at([*index, ""])
        if few(n):
            return self._few(s, out, index, outer)
        lanes = lanes_of(self.real, n) if isinstance(n, int) else LANES
        room = -(-n // lanes) * lanes if isinstance(n, int) else rounded(n)
        softmax = f"softwright_softmax_{lanes if isinstance(n, int) else 'of'}"
        if n == room and s.step(len(s.shape) - 1) == 1:
            scores = f"{s.array} + {s.at([*index, ''])}"
            return [f"  {outer}{softmax}({out.array} + {w}, {scores}, {room});"]
        copy = run_over("j", n, lambda j: f"w[{j or 0}] = {s.entry([*index, j])};")
        return [
            f"  {outer}{{ {self.real} *const w = {out.array} + {w}; {copy}",
            f"    for (int j = {n}; j < {room}; j++) w[j] = -HUGE_VAL;",
            f"    {softmax}(w, w, {room}); }}",
        ]

    def _few(self, s: View, out: View, index: list[str], outer: str) -> list[str]:
        """One or two, by the C library's exp."""
        exp = "exp" if self.real == "double" else "expf"
        n = int(out.shape[-1])
        scores = [s.entry([*index, str(j)]) for j in range(n)]
        places = [out.entry([*index, str(j)]) for j in range(n)]
        if n == 1:
            return [f"  {outer}{places[0]} = {exp}({scores[0]} - {scores[0]});"]  # 1, or nan
        # exp(0) is 1: the smaller of two scores has an exp to take, the larger one none
        return [
            f"  {outer}{{ const {self.real} d = {scores[1]} - {scores[0]}, e = {exp}(d > 0 ? -d : d);",
            f"    const {self.real} part = 1 / (1 + e), other = e * part;",
            f"    {places[0]} = d > 0 ? other : part;",
            f"    {places[1]} = d > 0 ? part : other; }}",
        ]

    def _columns(self, s: View, out: View, row: int) -> list[str]:
        """Many rows at once, one score of each after another: no sum and no maximum goes across a vector."""
        R, n = out.shape[row], out.shape[-1]
        if n == 2 and isinstance(R, int):
            return self._pairs(s, out, row, R)

        def each(text: Callable[[str, str], str], c: str) -> str:
            def statement(r: str) -> str:
                index = [r if axis == row else "" for axis in range(len(out.shape) - 1)]
                return text(s.entry([*index, c]), out.entry([*index, c])).replace("#", r)

            return run_over("r", R, statement)

        def largest(scores: list[str]) -> str:
            return scores[0] if len(scores) == 1 else f"softwright_max({largest(scores[:-1])}, {scores[-1]})"

        def grown(first: str, later: Callable[[list[str], list[str]], str]) -> list[str]:
            """Four scores of every row at once, so that sums and maxima do not wait for each other."""
            lines = [f"  {each(lambda s, w: first.format(s=s, w=w), '0')}"]

            def four(names: list[str]) -> str:
                def statement(r: str) -> str:
                    index = [r if axis == row else "" for axis in range(len(out.shape) - 1)]
                    given = ([view.entry([*index, c]) for c in names] for view in (s, out))
                    return later(*given).replace("#", r)

                return run_over("r", R, statement)

            if isinstance(n, str):
                return [*lines, f"  for (int c = 1; c < {n}; c++) {four(['c'])}"]
            whole = (n - 1) - (n - 1) % 4
            if whole:
                lines.append(f"  for (int c = 1; c < {whole}; c += 4) {four(['c', '(c + 1)', '(c + 2)', '(c + 3)'])}")
            return lines + ([f"  {four([str(c) for c in range(whole + 1, n)])}"] if whole + 1 < n else [])

        every = f"for (int c = 0; c < {n}; c++) "
        all_of = run_over("i", times(R, n), lambda i: f"{out.array}[{i}] = softwright_exp({out.array}[{i}]);")
        return [
            f"  {{ {self.real} top[{R}], part[{R}];",
            *grown("top[#] = {s};", lambda s, w: f"top[#] = softwright_max(top[#], {largest(s)});"),
            f"  {every}{each(lambda s, w: f'{w} = softwright_least({s} - top[#]);', 'c')}",
            f"  {all_of}",
            *grown("part[#] = {w};", lambda s, w: f"part[#] += {' + '.join(w)};"),
            f"  {run_over('r', R, lambda r: f'part[{r}] = 1 / part[{r}];')}",
            f"  {every}{each(lambda s, w: f'{w} *= part[#];', 'c')} }}",
        ]

    def _pairs(self, s: View, out: View, row: int, R: int) -> list[str]:
        """Two scores in each of many rows: the smaller one has an exp to take. Whole vectors, filled up with zeros."""
        lanes = lanes_of(self.real, R)
        room = -(-R // lanes) * lanes

        def at(view: View, r: str, c: str) -> str:
            return view.entry([*(r if axis == row else "" for axis in range(len(out.shape) - 1)), c])

        every = f"for (int r = 0; r < {room}; r++) "
        rest = f" for (int r = {R}; r < {room}; r++) d[r] = 0;" if room > R else ""
        chosen = (
            f"{{ {at(out, '#', '0')} = d[#] > 0 ? e[#] : part[#]; {at(out, '#', '1')} = d[#] > 0 ? part[#] : e[#]; }}"
        )
        difference = f"d[#] = {at(s, '#', '1')} - {at(s, '#', '0')};"
        return [
            f"  {{ {self.real} d[{room}], e[{room}], part[{room}];",
            f"  {run_over('r', R, lambda r: difference.replace('#', r))}{rest}",
            f"  {every}e[r] = softwright_least(d[r] > 0 ? -d[r] : d[r]);",
            f"  {every}e[r] = softwright_exp(e[r]);",
            f"  {every}part[r] = 1 / (1 + e[r]);",
            f"  {every}e[r] *= part[r];",
            f"  {run_over('r', R, lambda r: chosen.replace('#', r))} }}",
        ]

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
    """Whether so many scores are computed one by one."""
    return isinstance(size, int) and size < FEW


def rounded(size: Size) -> Size:
    """The next multiple of the lanes."""
    return -(-size // LANES) * LANES if isinstance(size, int) else f"(({size} + {LANES - 1}) / {LANES} * {LANES})"


def side_by_side(view: View) -> bool:
    """Whether the rows of a softmax lie next to each other, score by score."""
    rows = [a for a in range(len(view.shape) - 1) if view.shape[a] != 1]
    if len(rows) != 1 or view.step(rows[0]) != 1 or view.shape[-1] == 1:
        return False
    return view.step(len(view.shape) - 1) == view.shape[rows[0]]


def softmax_place(array: str, s: View, shape: Shape) -> View:
    """Where the weights of scores lie: side by side if those do, else in rows with room for whole vectors."""
    rows = [a for a in range(len(shape) - 1) if shape[a] != 1]
    across = in_rows(array, shape, [len(shape) - 1, *rows])
    if len(rows) == 1 and isinstance(shape[rows[0]], int) and int(shape[rows[0]]) >= ROWS and s.step(rows[0]) == 1:
        return across
    return in_rows(array, shape) if few(shape[-1]) else in_rows(array, shape, inner=rounded(shape[-1]))


def _one_run(view: View, a: int, b: int, rank: int) -> bool:
    """Whether axes a and b of a broadcast are one axis in memory."""
    lost = rank - len(view.shape)
    outer, inner = (0 if axis < lost else view.step(axis - lost) for axis in (a, b))
    size = 1 if b < lost else view.shape[b - lost]
    return outer == inner == 0 or (size != 1 and outer != 0 and outer == times(size, inner))


def _alike(source: View, out: View) -> tuple[View, View]:
    """A source and a plain copy of it of another shape, both with the source's axes."""
    return source, View(out.array, source.shape, in_rows("", source.shape).steps, out.first)
