"""`Dag`: formulas as numbered nodes, equal sub-expressions once, so that a program is put together without any text.

A node is (kind, payload, arguments), its arguments being numbers of earlier nodes:

    number   an exact rational            variable   its index            pi, e
    sum, product   the signs of the terms (-1 in a product divides)
    compare        the symbols            and, or, not, where, pow, and every function's name

What a tree of checker/trees.py means as a function of the inputs, with other nodes in place of its variables, is one
walk over it; features that read features grow the list, never the depth of a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from flint import fmpq

from softwright.checker.refusal import require
from softwright.checker.trees import LARGEST_DIGITS, Tree

MOST_NODES = 100_000
CONDITIONS = ("compare", "and", "or", "not")


@dataclass(frozen=True)
class Node:
    kind: str
    payload: Any = None
    arguments: tuple[int, ...] = ()


@dataclass
class Dag:
    """Nodes by number; `varies[n]` tells whether n holds a variable."""

    nodes: list[Node] = field(default_factory=list)
    varies: list[bool] = field(default_factory=list)
    _numbers: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _rationals: dict[int, fmpq | None] = field(default_factory=dict)

    def __getitem__(self, number: int) -> Node:
        return self.nodes[number]

    def add(self, kind: str, payload: Any = None, arguments: tuple[int, ...] = ()) -> int:
        spelt = (int(payload.p), int(payload.q)) if kind == "number" else payload
        key = (kind, spelt, arguments)
        found = self._numbers.get(key)
        if found is None:
            require(len(self.nodes) < MOST_NODES, f"the program has more than {MOST_NODES} operations")
            found = self._numbers[key] = len(self.nodes)
            self.nodes.append(Node(kind, payload, arguments))
            self.varies.append(kind == "variable" or any(self.varies[a] for a in arguments))
        return found

    def number(self, exact: fmpq | int) -> int:
        return self.add("number", fmpq(exact))

    def variable(self, index: int) -> int:
        return self.add("variable", index)

    def sum(self, terms: Sequence[tuple[int, int]]) -> int:
        """Of (sign, number)."""
        if not terms:
            return self.number(0)
        if len(terms) == 1 and terms[0][0] > 0:
            return terms[0][1]
        return self.add("sum", tuple(s for s, _ in terms), tuple(n for _, n in terms))

    def product(self, factors: Sequence[tuple[int, int]]) -> int:
        """Of (sign, number); a factor that stands there several times becomes a power, so that its range is."""
        counts: dict[tuple[int, int], int] = {}
        for factor in factors:
            counts[factor] = counts.get(factor, 0) + 1
        merged = [(s, n if k == 1 else self.power(n, fmpq(k))) for (s, n), k in counts.items()]
        if not merged:
            return self.number(1)
        if len(merged) == 1 and merged[0][0] > 0:
            return merged[0][1]
        return self.add("product", tuple(s for s, _ in merged), tuple(n for _, n in merged))

    def power(self, base: int, exponent: fmpq) -> int:
        return base if exponent == 1 else self.add("pow", None, (base, self.number(exponent)))

    def call(self, name: str, *arguments: int) -> int:
        return self.add(name, None, arguments)

    def difference(self, a: int, b: int) -> int:
        return self.sum([(1, a), (-1, b)])

    def tree(self, tree: Tree, given: Sequence[int]) -> int:
        """The node of a tree whose variable i stands for the node given[i]."""
        kind = tree[0]
        if kind == "variable":
            return given[tree[1]]
        if kind == "number":
            return self.number(tree[1])
        if kind in ("sum", "product"):
            parts = [(sign, self.tree(child, given)) for sign, child in tree[1]]
            return self.sum(parts) if kind == "sum" else self.product(parts)
        if kind == "compare":
            return self.add(kind, tuple(tree[2]), tuple(self.tree(child, given) for child in tree[1]))
        if kind in ("and", "or"):
            return self.add(kind, None, tuple(self.tree(child, given) for child in tree[1]))
        return self.add("log" if kind == "ln" else kind, None, tuple(self.tree(child, given) for child in tree[1:]))

    def rational(self, number: int) -> fmpq | None:
        """The value of a node made of numbers, + - * / and small powers alone; None for anything else."""
        if number not in self._rationals:
            self._rationals[number] = None if self.varies[number] else self._rational(self.nodes[number])
        return self._rationals[number]

    def _rational(self, node: Node) -> fmpq | None:
        if node.kind == "number":
            return node.payload
        if node.kind not in ("sum", "product", "pow"):
            return None
        known = [p for p in map(self.rational, node.arguments) if p is not None]
        if len(known) < len(node.arguments):
            return None
        if node.kind == "pow":
            base, exponent = known
            bits = int(base.p).bit_length() + int(base.q).bit_length()
            if exponent.q != 1 or abs(exponent.p) * bits > LARGEST_DIGITS or (base == 0 and exponent < 0):
                return None
            return base ** int(exponent.p)
        result = fmpq(0) if node.kind == "sum" else fmpq(1)
        for sign, p in zip(node.payload, known, strict=True):
            if node.kind == "product" and sign < 0 and p == 0:
                return None
            result = result + sign * p if node.kind == "sum" else result * p if sign > 0 else result / p
        return result

    def needed(self, targets: Iterable[int], cut: Iterable[int] = ()) -> list[int]:
        """All nodes below the targets in the order in which they can be computed; nothing below a cut one."""
        stop, seen, pending = set(cut), set(targets), list(targets)
        while pending:
            number = pending.pop()
            if number not in stop:
                for argument in self.nodes[number].arguments:
                    if argument not in seen:
                        seen.add(argument)
                        pending.append(argument)
        return sorted(seen)

    def variables(self, targets: Iterable[int]) -> list[int]:
        return [n for n in self.needed(targets) if self.nodes[n].kind == "variable"]
