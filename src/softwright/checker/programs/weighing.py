"""Reals times functions of whole numbers as sums with known weights, written anew (see docs/sequences.md).

weighed(v, w, c, condition) is the sum over tokens j of c(i) w(j) v(j): over all tokens, those up to i, or the token
itself. `resolve` says which combination of such sums a value is: by the laws of fractions, of sums, and that n is
the same at all tokens. `mass` bounds the sum of |c w| over j.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from flint import arb, ctx

from softwright.checker.programs.bounds import as_ball, over
from softwright.checker.programs.functions import BITS, ball_value, has_map, is_map
from softwright.checker.programs.graph_core import PLAIN, Graph
from softwright.checker.programs.pairs.products import is_over_pairs, pieces_of_sum
from softwright.checker.programs.plain import is_upto, plain_value, written_out
from softwright.checker.refusal import require

if TYPE_CHECKING:
    from softwright.checker.programs.ranges import Ranges

TABLE, MOST_PRODUCTS = 2048, 16
ONE = Fraction(1)
Sum = list[tuple[Fraction, int]]
Fractional = tuple[Fraction, list[int], list[int], list[int]]  # number, factors, divisors (whole numbers), reals


def leaves_under(graph: Graph, values: Sequence[int]) -> list[int]:
    """The values that plain ones are functions of, numbers apart."""
    found, seen, pending = set[int](), set[int](), list(values)
    while pending:
        last = pending.pop()
        if last in seen:
            continue
        seen.add(last)
        if graph.op[last] in PLAIN or is_map(graph.op[last]):
            pending += graph.args[last]
        elif graph.op[last] not in ("number", "symbol"):
            found.add(last)
    return sorted(found)


class Weigher:
    """Resolves values of one graph."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges, self.graph = ranges, ranges.graph

    def known(self, value: int) -> bool:
        """A function of whole numbers, few enough for a table."""
        return self.whole(value) and self.listable([value])

    def whole(self, value: int) -> bool:
        """A function of whole numbers that is no number, no symbol and no truth value."""
        kind = self.ranges.of(value)
        if self.graph.quotient(value) is not None or kind.kind == "symbol" or (kind.whole and kind.size <= 2):
            return False
        return all(self.ranges.of(leaf).whole for leaf in leaves_under(self.graph, [value]))

    def listable(self, values: Sequence[int]) -> bool:
        leaves = leaves_under(self.graph, values)
        if not leaves or (len(leaves) == 1 and self.graph.op[leaves[0]] in ("field", "position")):
            return True
        return prod(self.ranges.of(leaf).size for leaf in leaves) <= TABLE

    def by_length(self, value: int) -> bool:
        return all(self.graph.op[leaf] == "length" for leaf in leaves_under(self.graph, [value]))

    # ------------------------------------------------------------------------------------------------------ products

    def factored(self, value: int) -> Fractional:
        """A product and quotient, taken apart as it is written."""
        graph, number = self.graph, self.graph.quotient(value)
        op, args = graph.op[value], graph.args[value]
        if number is not None:
            return number, [], [], []
        if self.known(value):
            return ONE, [value], [], []
        if op == "neg":
            return _both((-ONE, [], [], []), self.factored(args[0]))
        if op == "mul":
            return _both(self.factored(args[0]), self.factored(args[1]))
        if op == "div":
            above, divisor = self.factored(args[0]), graph.quotient(args[1])
            if divisor:
                return _both((1 / divisor, [], [], []), above)
            if self.known(args[1]):
                return _both(above, (ONE, [], [args[1]], []))
            return _both(above, (ONE, [], [], [graph.make("div", graph.number(1), args[1])]))
        return ONE, [], [], [value]

    def expanded(self, value: int, top: bool = True) -> list[Fractional] | None:
        """A sum of products: sums are multiplied out where they are of several whole numbers; None if too many."""
        graph, number = self.graph, self.graph.quotient(value)
        op, args = graph.op[value], graph.args[value]
        if number is not None:
            return [(number, [], [], [])]
        known = self.known(value)
        if known and len(leaves_under(graph, [value])) <= 1:
            return [(ONE, [value], [], [])]
        found: list[Fractional] | None = [(ONE, [value], [], []) if known else (ONE, [], [], [value])]
        if op in ("add", "sub") and (top or self.whole(value)):
            found = self._joined([self.expanded(arg, top) for arg in args], ONE if op == "add" else -ONE)
        elif op == "neg":
            found = self._joined([[], self.expanded(args[0], top)], -ONE)
        elif op == "mul":
            left, right = (self.expanded(arg, False) for arg in args)
            found = None if left is None or right is None else [_both(a, b) for a in left for b in right]
        elif op == "div":
            divisor, above = graph.quotient(args[1]), self.expanded(args[0], False)
            if divisor or self.known(args[1]):
                below: Fractional = (1 / divisor, [], [], []) if divisor else (ONE, [], [args[1]], [])
                found = None if above is None else [_both(part, below) for part in above]
        return None if found is None or len(found) > MOST_PRODUCTS else found

    def _joined(self, parts: list[list[Fractional] | None], sign: Fraction) -> list[Fractional] | None:
        first, second = parts
        if first is None or second is None:
            return None
        return [*first, *(_both((sign, [], [], []), part) for part in second)]

    def products(self, value: int) -> list[Fractional]:
        found = self.expanded(value)
        return [(ONE, [], [], [value])] if found is None else found

    def product(self, factors: Sequence[int]) -> int:
        found = self.graph.number(1) if not factors else factors[0]
        for factor in factors[1:]:
            found = self.graph.make("mul", found, factor)
        return found

    def quotient(self, above: Sequence[int], below: Sequence[int]) -> int:
        top = self.product(above)
        return self.graph.make("div", top, self.product(below)) if below else top

    # ---------------------------------------------------------------------------------------------------- resolution

    def itself(self) -> int:
        place = self.graph.make("position")
        return self.graph.make("eq", self.graph.make("j", place), self.graph.make("i", place))

    def adds(self, value: int) -> bool:
        """Whether a value is a sum or mean of reals of token j over all tokens, or over those up to i."""
        graph, op, args = self.graph, self.graph.op[value], self.graph.args[value]
        if op not in ("sum", "mean") or graph.op[args[0]] != "j":
            return False
        open_ended = graph.is_number(args[1]) or is_upto(graph, args[1])
        return open_ended and not self.ranges.of(graph.args[args[0]][0]).whole

    def resolve(self, value: int) -> Sum | None:
        """The combination that a value is; None if no known weight stands in it."""
        asked, value = value, self.closed(value)
        if value != asked and self.known(value):
            return [(ONE, value)]
        if self.graph.op[value] in ("mul", "div") and not self.known(value):
            number, above, below, reals = self.factored(value)
            if not reals or not above + below:
                return None
            return [(number * factor, part) for factor, part in self.spread(above, below, self.product(reals))]
        if self.adds(value):
            found = self.summed([], [], value)
            return None if found == [(ONE, value)] else found
        return None

    def closed(self, value: int) -> int:
        """Sums and means that the length or the place alone decides, as tables of it."""
        graph, (shortest, longest) = self.graph, self.ranges.lengths
        op, args = graph.op[value], graph.args[value]
        if op in ("length", "position", "number"):
            return value
        out = written_out(graph, value, longest)
        if out is not None:
            start, end = (shortest, longest + 1) if out[0] == "length" else (0, longest)
            rows = [graph.number(number) for number in out[1][start:end]]
            index = graph.make(out[0])
            index = graph.make("sub", index, graph.number(start)) if start else index
            return graph.make("table", index, rows[0], *rows)
        if op in ("sum", "mean") and graph.op[args[0]] == "j":
            return graph.make(op, graph.make("j", self.closed(graph.args[args[0]][0])), args[1])
        if op not in PLAIN and not is_map(op):
            return value
        return graph.make(op, *(self.closed(arg) for arg in args), constant=graph.constant[value])

    def spread(self, above: list[int], below: list[int], real: int) -> Sum:
        """above / below times a real."""
        if self.adds(real):
            return self.summed(above, below, real)
        pieces = self.summands(real)
        if is_over_pairs(self.graph, real):
            pieces = pieces_of_sum(self.graph, real)
            whole = pieces == [(ONE, real)]
        else:
            whole = len(pieces) == 1 or not any(self.better_inside(part) for _, part in pieces)
        if whole:
            return [(ONE, self.at_itself(real, self.grouped(above, below)))]
        found: Sum = []
        for factor, part in pieces:
            number, up, down, reals = self.factored(part)
            if reals:
                inner = self.spread(above + up, below + down, self.product(reals))
                found += [(factor * number * own, one) for own, one in inner]
            else:
                found.append((factor * number, self.quotient(above + up, below + down)))
        return found

    def summands(self, value: int, factor: Fraction = ONE) -> Sum:
        graph, op, args = self.graph, self.graph.op[value], self.graph.args[value]
        if op in ("add", "sub"):
            return [*self.summands(args[0], factor), *self.summands(args[1], factor if op == "add" else -factor)]
        if op == "neg":
            return self.summands(args[0], -factor)
        if op == "mul":
            for one, other in (args, args[::-1]):
                number = graph.quotient(one)
                if number is not None:
                    return self.summands(other, factor * number)
        return [(factor, value)]

    def better_inside(self, value: int) -> bool:
        _, above, below, reals = self.factored(value)
        if reals and above + below:
            return True
        if not self.adds(value):
            return False
        inner = self.graph.args[self.graph.args[value][0]][0]
        return self.graph.op[value] == "sum" or any(one[1] + one[2] for one in self.products(inner))

    def summed(self, above: list[int], below: list[int], value: int) -> Sum:
        """above / below times a sum or mean."""
        graph = self.graph
        wrapped, condition = graph.args[value]
        inner = graph.args[wrapped][0]
        products = self.products(inner)
        if not any(one[1] + one[2] for one in products):
            products = [(ONE, [], [], [inner])]
            if not above + below:
                return [(ONE, value)]
        counts: list[int] = []
        if graph.op[value] == "mean":
            following = graph.make("add", graph.make("position"), graph.number(1))
            counts = [graph.make("length") if graph.is_number(condition) else following]
        found: Sum = []
        for number, up, down, reals in products:
            real = self.product(reals)
            c_up, c_down = (above + self._kept(up, True)), (below + self._kept(down, True))
            w_up, w_down = self._kept(up, False), self._kept(down, False)
            if not (c_up or c_down or w_up or w_down):
                plain = real if graph.quotient(real) is not None else graph.make("j", real)
                found.append((number, graph.make(graph.op[value], plain, condition)))
                continue
            weights, factors = self.grouped(w_up, w_down), self.grouped(c_up, counts + c_down)
            real = self.at_itself(real, weights[1:])
            w, c = (self.quotient(*groups[0]) if groups else graph.number(1) for groups in (weights, factors))
            made = graph.make("weighed", real, w, c, condition)
            found.append((number, self.at_itself(made, factors[1:])))
        return found

    def _kept(self, factors: list[int], pooled: bool) -> list[int]:
        return [factor for factor in factors if self.by_length(factor) == pooled]

    def grouped(self, above: list[int], below: list[int]) -> list[tuple[list[int], list[int]]]:
        """Factors that one table can hold together; divisors come first."""
        found: list[tuple[list[int], list[int]]] = []
        for factor, is_above in [(one, False) for one in below] + [(one, True) for one in above]:
            more = ([factor], []) if is_above else ([], [factor])
            if found:
                grown = (found[-1][0] + more[0], found[-1][1] + more[1])
                if self.listable(grown[0] + grown[1]):
                    found[-1] = grown
                    continue
            found.append(more)
        return found

    def at_itself(self, value: int, groups: list[tuple[list[int], list[int]]]) -> int:
        for above, below in groups:
            value = self.graph.make("weighed", value, self.graph.number(1), self.quotient(above, below), self.itself())
        return value

    # --------------------------------------------------------------------------------------------------------- sizes

    def listed(self, value: int) -> dict[tuple[int, ...], arb]:
        """All values of a function of whole numbers, by those of its leaves; places beyond the length apart."""
        graph, symbols, (_, longest) = self.graph, self.ranges.symbols, self.ranges.lengths
        leaves = leaves_under(graph, [value])
        kinds = [self.ranges.of(leaf) for leaf in leaves]
        require(all(kind.whole for kind in kinds) and self.listable([value]), "a weight that is not known")
        found: dict[tuple[int, ...], arb] = {}
        with ctx.workprec(BITS):
            for chosen in product(*(range(int(kind.low), int(kind.high) + 1) for kind in kinds)):
                said = {graph.op[leaf]: k for leaf, k in zip(leaves, chosen, strict=True)}
                if said.get("position", -1) >= said.get("length", longest):
                    continue
                at = {leaf: Fraction(k) for leaf, k in zip(leaves, chosen, strict=True)}
                if has_map(graph, value):
                    ball = ball_value(graph, value, at, lambda one, at=at: plain_value(graph, one, at, symbols))
                    found[chosen] = ball if ball.is_finite() else arb(0)
                else:
                    found[chosen] = as_ball(plain_value(graph, value, at, symbols))
        return found

    def mass(self, value: int) -> Fraction:
        """At least the sum over j of |c w|, at all tokens of all sequences."""
        graph, (_, longest) = self.graph, self.ranges.lengths
        _, weight, factor, condition = graph.args[value]
        c = {key: _short(over(abs(ball))) for key, ball in self.listed(factor).items()}
        w = {key: _short(over(abs(ball))) for key, ball in self.listed(weight).items()}
        top = max(w.values())
        if condition == self.itself():
            return max(c.values()) * top
        require(graph.is_number(condition) or is_upto(graph, condition), "weights over other tokens")
        places = leaves_under(graph, [weight])
        alone = len(places) == 1 and graph.op[places[0]] == "position"
        running = [Fraction(0)]
        for j in range(longest):
            running.append(running[-1] + (w[(j,)] if alone else top))
        names = [graph.op[leaf] for leaf in leaves_under(graph, [factor])]
        if not names or any(name not in ("length", "position") for name in names):
            return max(c.values()) * running[-1]
        most = Fraction(0)
        for key, largest in c.items():
            n = key[names.index("length")] if "length" in names else longest
            i = key[names.index("position")] if "position" in names else n - 1
            most = max(most, largest * running[n if graph.is_number(condition) else i + 1])
        return most


def _both(one: Fractional, other: Fractional) -> Fractional:
    return one[0] * other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]


def _short(size: Fraction) -> Fraction:
    """A number of few digits that is not below."""
    return Fraction(math.ceil(size * 2**100), 2**100)
