"""Jumps with a gap: `where`, sign, floor, round and mod as gates that are right outside a band.

A comparison a < b has the difference c = b - a; what depends on it jumps where c = 0. With a gap g > 0 that the user
declares, nothing is claimed of points at which |c| < g for some comparison of the formula; elsewhere [c > 0] is known.
`Jumps` writes a formula anew with one variable for each comparison that is not decided on the box,

    where(a < b, p, q)       q + t (p - q)                  t = [c > 0],  c = b - a
    sign(u)                  2 t - 1                        c = u
    floor(u)                 n + sum_k t_k                  c_k = u - k, one for each integer k that u passes
    round(u), mod(a, b)      floor(u + 1/2), a - b floor(a/b)

and nested choices for `and` and `or`. A feature z [c > 0] is one gate of two tokens, sigma(B c) z. With |c^ - c| <= e <
g and |c| >= g its weight is within 1/(1 + exp(B (g - e))) of [c > 0]; inside the band it is some number of [0, 1].

**Between.** Ranges treat t as 1 where c >= g, as 0 where c <= -g, and as any number of [0, 1] between: so all that is
proved with them, that logarithms are taken of positive numbers above all, holds inside the band as well, where every
jump passes from one of its values to the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from softwright.compiler.nodes import (
    ONE,
    ZERO,
    CannotCompile,
    Expression,
    Node,
    Numbering,
    Operation,
    Tape,
    Variable,
    add,
    div,
    is_constant,
    mul,
    neg,
    number,
    of,
    sub,
    text,
)
from softwright.compiler.ranges import Range, Ranges
from softwright.domain import Box

_NEAR = 1e-12  # relative: what is decided by less is not decided
_MOST_STEPS = 200  # comparisons of one formula, the integers that a floor passes included


@dataclass(frozen=True)
class Jump:
    """One comparison: the variable that stands for [c > 0], and c, in such variables and in the formula's words."""

    name: str
    difference: Node
    written: Node


class Jumps:
    """The comparisons of formulas on one box, each with a variable of its own."""

    def __init__(self, box: Box, gap: float) -> None:
        self.box, self.gap = box, gap
        self.found: dict[str, Jump] = {}
        self._by_number: dict[int, Jump] = {}
        self._number = Numbering()
        self._prefixes = [p for p in ("jump", "leap", "step_") if not any(n.startswith(p) for n in box.names)]
        self._relaxed: dict[str, Node] = {}  # differences of the comparisons
        self.ranges = _RelaxedRanges(self)

    @property
    def differences(self) -> tuple[str, ...]:
        """What may not be within the gap of 0, as texts of the formula's own variables."""
        return tuple(text(jump.written) for jump in self.found.values())

    # The formula anew -----------------------------------------------------------------------------------------------

    def rewritten(self, node: Node) -> Node:
        """The formula with a variable for each comparison, and `where(variable, a, b)` for choices."""
        built: list[Node] = []
        tape = Tape((node,))
        for part, positions in tape.steps:
            if not isinstance(part, Operation):
                built.append(part)
                continue
            arguments = tuple(built[p] for p in positions)
            if part.name in ("less", "less_equal", "and", "or"):
                built.append(Operation(part.name, arguments))  # taken apart where it is used, below
            elif part.name == "where":
                condition, first, second = arguments
                built.append(self._chosen(condition, first, second, part.arguments[0]))
            elif part.name in _STEPPED:
                built.append(self._stepped(part, arguments))
            elif part.name == "mul":
                built.append(_distributed(*arguments))
            else:
                built.append(Operation(part.name, arguments))
        return built[-1]

    def _chosen(self, condition: Node, first: Node, second: Node, written: Node) -> Node:
        if not isinstance(condition, Operation) or not isinstance(written, Operation):
            raise CannotCompile(condition, "is no condition")
        if self._number(first) == self._number(second):
            return first
        if condition.name in ("and", "or"):
            left, right = condition.arguments
            left_written, right_written = written.arguments
            if condition.name == "and":
                inner = self._chosen(right, first, second, right_written)
                return self._chosen(left, inner, second, left_written)
            inner = self._chosen(right, first, second, right_written)
            return self._chosen(left, first, inner, left_written)
        a, b = condition.arguments
        if self._number(a) == self._number(b):
            return first if condition.name == "less_equal" else second
        difference, said = sub(b, a), sub(written.arguments[1], written.arguments[0])
        found = self.ranges.of(difference)
        exact = isinstance(difference, Variable)
        edge = 0.0 if exact else _NEAR * (abs(found.low) + abs(found.high))
        if found.low > edge or (exact and found.low >= 0 and condition.name == "less_equal"):
            return first
        if found.high < -edge or (exact and found.high <= 0 and condition.name == "less"):
            return second
        return Operation("where", (self._variable(difference, said), first, second))

    def _stepped(self, node: Operation, arguments: tuple[Node, ...]) -> Node:
        if node.name == "sign":
            (u,) = arguments
            found = self.ranges.of(u)
            if found.low > 0 or found.high < 0:
                return ONE if found.low > 0 else neg(ONE)
            return Operation("where", (self._variable(u, node.arguments[0]), ONE, neg(ONE)))
        if node.name == "mod":
            a, b = arguments
            return sub(a, mul(b, self._floor(node, div(a, b), div(*node.arguments))))
        half = number(0.5)
        if node.name == "round":
            return self._floor(node, add(arguments[0], half), add(node.arguments[0], half))
        return self._floor(node, arguments[0], node.arguments[0])

    def _floor(self, node: Node, u: Node, written: Node) -> Node:
        if is_constant(u):
            return of("floor", u)
        found = self.ranges.of(u)
        if not (math.isfinite(found.low) and math.isfinite(found.high)):
            raise CannotCompile(node, "its argument has no finite range")
        edge = _NEAR * (1.0 + max(abs(found.low), abs(found.high)))  # an end that others may round to the other side
        lowest, highest = math.floor(found.low - edge), math.floor(found.high + edge)
        if highest - lowest > _MOST_STEPS:
            raise CannotCompile(node, f"it takes {highest - lowest + 1} values on the box, more than are compiled")
        total: Node = number(lowest)
        for k in range(lowest + 1, highest + 1):
            total = add(total, self._variable(_less(u, k), _less(written, k)))
        return total

    def _variable(self, difference: Node, written: Node) -> Variable:
        key = self._number(difference)
        if key not in self._by_number:
            if len(self.found) >= _MOST_STEPS or not self._prefixes:
                raise CannotCompile(written, "the formula has more jumps than are compiled")
            jump = Jump(f"{self._prefixes[0]}{len(self.found) + 1}", difference, written)
            self.found[jump.name] = self._by_number[key] = jump
            self.ranges = _RelaxedRanges(self)  # a variable more
        return Variable(self._by_number[key].name)

    def written_out(self, node: Node) -> Node:
        """The same in the inputs alone, with comparisons in place of their variables."""
        built: list[Node] = []
        for part, positions in Tape((node,)).steps:
            if isinstance(part, Variable) and part.name in self.found:
                built.append(Operation("where", (self._comparison(part.name), ONE, ZERO)))
            elif isinstance(part, Operation):
                arguments = [built[p] for p in positions]
                if part.name == "where" and isinstance(part.arguments[0], Variable):
                    arguments[0] = self._comparison(part.arguments[0].name)
                built.append(Operation(part.name, tuple(arguments)))
            else:
                built.append(part)
        return built[-1]

    def _comparison(self, name: str) -> Node:
        return Operation("less", (ZERO, self.found[name].written))

    # Between --------------------------------------------------------------------------------------------------------

    def relaxed(self, node: Node) -> Node:
        """The same with every comparison free inside its band: a formula of the inputs and of numbers of [0, 1]."""
        built: list[Node] = []
        for part, positions in Tape((node,)).steps:
            if isinstance(part, Variable) and part.name in self.found:
                built.append(self._between(part.name, ONE, ZERO))
            elif isinstance(part, Operation):
                first = part.arguments[0]
                if part.name == "where" and isinstance(first, Variable):
                    built.append(self._between(first.name, *(built[p] for p in positions[1:])))
                else:
                    built.append(Operation(part.name, tuple(built[p] for p in positions)))
            else:
                built.append(part)
        return built[-1]

    def _between(self, name: str, first: Node, second: Node) -> Node:
        if name not in self._relaxed:
            self._relaxed[name] = self.relaxed(self.found[name].difference)
        c, gap = self._relaxed[name], number(self.gap)
        free = Variable(between_name(name))
        mixed = add(mul(free, first), mul(sub(ONE, free), second))
        inner = Operation("where", (Operation("less_equal", (c, neg(gap))), second, mixed))
        return Operation("where", (Operation("less_equal", (gap, c)), first, inner))


_STEPPED = ("sign", "floor", "round", "mod")


def _less(u: Node, k: int) -> Node:
    return add(u, number(-k)) if k < 0 else sub(u, number(k))


def between_name(name: str) -> str:
    return f"{name}_between"


def _distributed(first: Node, second: Node) -> Node:
    """A product with a choice between two constants as a choice between two products: one gate instead of two."""
    for one, other in ((first, second), (second, first)):
        if isinstance(one, Operation) and one.name == "where" and isinstance(one.arguments[0], Variable):
            variable, a, b = one.arguments
            if is_constant(a) and is_constant(b) and not is_constant(other):
                return Operation("where", (variable, mul(a, other), mul(b, other)))
    return Operation("mul", (first, second))


class _RelaxedRanges(Ranges):
    """Ranges of formulas with jumps: those of what `relaxed` makes of them."""

    def __init__(self, jumps: Jumps) -> None:
        free = {between_name(name): (0.0, 1.0) for name in jumps.found}
        super().__init__(Box({**{name: (low, high) for name, low, high in jumps.box}, **free}))
        self._jumps = jumps

    def of(self, node: Node) -> Range:
        return super().of(self._jumps.relaxed(node))

    def refined(self, node: Node, low: float | None = None, high: float | None = None) -> Range:
        return super().refined(self._jumps.relaxed(node), low, high)

    def positive(self, node: Node) -> Range | None:
        return super().positive(self._jumps.relaxed(node))


def jumps_of(expression: Expression, box: Box, gap: float) -> tuple[Jumps, tuple[Node, ...]]:
    """The comparisons of a formula that are not decided on the box, and the formula with variables for them."""
    jumps = Jumps(box, gap)
    return jumps, tuple(jumps.rewritten(node) for node in expression.nodes)
