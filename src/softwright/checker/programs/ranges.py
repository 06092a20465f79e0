"""Kinds and ranges of all values of a graph, in exact fractions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import isfinite, prod
from typing import Any

from flint import ctx

from softwright.checker.composition.intervals import above, below
from softwright.checker.programs.bounds import over
from softwright.checker.programs.functions import BITS, ball_value, has_map, is_map, map_range, power_range
from softwright.checker.programs.graph_core import PLAIN, Graph
from softwright.checker.programs.places import always_itself, is_place, place_ends
from softwright.checker.programs.plain import plain_value, written_out
from softwright.checker.programs.weighing import Weigher, leaves_under
from softwright.checker.refusal import require

MOST_LISTED = 2048  # values of whole numbers that are tried one by one


@dataclass(frozen=True)
class Range:
    """real, integer, symbol or truth, from low to high."""

    kind: str
    low: Fraction
    high: Fraction

    @property
    def whole(self) -> bool:
        return self.kind != "real"

    @property
    def size(self) -> int:
        return int(self.high - self.low) + 1

    @property
    def largest(self) -> Fraction:
        return max(abs(self.low), abs(self.high))


TRUTH = Range("truth", Fraction(0), Fraction(1))


def fields_of(tokens: dict[str, Any]) -> tuple[dict[str, Range], list[str]]:
    """The ranges of fields, and all symbols in the order of their numbers."""
    symbols: list[str] = []
    for part in ("symbols", "also"):
        for field in tokens["fields"]:
            symbols += [symbol for symbol in field.get(part, ()) if symbol not in symbols]
    found: dict[str, Range] = {}
    for field in tokens["fields"]:
        kind = field["kind"]
        if kind == "symbol":
            found[field["name"]] = Range(kind, Fraction(0), Fraction(len(symbols) - 1))
        elif kind == "truth":
            found[field["name"]] = TRUTH
        else:
            found[field["name"]] = Range(kind, Fraction(field["low"]), Fraction(field["high"]))
    return found, symbols


class Ranges:
    """The range of every value, worked out once, arguments first."""

    def __init__(self, graph: Graph, fields: dict[str, Range], symbols: list[str], lengths: tuple[int, int]) -> None:
        self.graph, self.fields, self.symbols, self.lengths = graph, fields, symbols, lengths
        self._known: dict[int, Range] = {}
        self.granted: set[int] = set()  # hypotheses that the sentence of the claim names

    def grant(self, values: list[int]) -> None:
        """From now on these hypotheses alone; what others gave is forgotten."""
        self.granted = set(values)
        self._known = {}

    def of(self, value: int) -> Range:
        pending = [value]
        while pending:
            last = pending[-1]
            missing = [arg for arg in self.graph.args[last] if arg not in self._known]
            if missing:
                pending += missing
                continue
            pending.pop()
            if last not in self._known:
                self._known[last] = self._range(last)
        return self._known[value]

    def _range(self, value: int) -> Range:
        graph, (shortest, longest) = self.graph, self.lengths
        op, constant = graph.op[value], graph.constant[value]
        given = [self._known[arg] for arg in graph.args[value]]
        if op == "number":
            return Range("integer" if constant.denominator == 1 else "real", constant, constant)
        if op == "symbol":
            place = Fraction(self.symbols.index(constant))
            return Range("symbol", place, place)
        if op == "field":
            return self.fields[constant]
        if op in ("position", "rank"):
            return Range("integer", Fraction(0), Fraction(longest - 1))
        if op == "place":
            require(is_place(graph, graph.args[value][0], self.lengths), "a place may lie outside the sequence")
            return Range("integer", Fraction(0), Fraction(longest - 1))
        if op == "length":
            return Range("integer", Fraction(shortest), Fraction(longest))
        if op == "difference":  # of the places of two symbols
            require(len(given) == 2 and all(one.kind == "symbol" for one in given), "a difference of no symbols")
            return Range("integer", given[0].low - given[1].high, given[0].high - given[1].low)
        if op == "table":
            require(len(given) >= 3 and given[0].whole, "a table of no whole number")
            found = given[1]
            for one in given[2:]:
                found = _joined(found, one)
            return found
        if op in ("i", "j"):
            return given[0]
        if op in ("eq", "lt", "le"):
            alike = (given[0].kind == "symbol") == (given[1].kind == "symbol")
            require(alike and given[0].whole and given[1].whole, "a comparison of what cannot be compared")
            return TRUTH
        if op in ("and", "or", "not"):
            require(all(one.kind == "truth" for one in given), "a condition is no truth value")
            return TRUTH
        if op in ("sum", "mean", "max_of", "min_of"):
            return self._aggregate(op, given, graph.args[value][1])
        if op == "weighed":
            return self._weighed(value, given)
        if op == "at":
            return _joined(given[0], given[2]) if len(given) == 3 else given[0]
        if op == "sort":
            require(given[1].whole or graph.args[value][0] == graph.args[value][1], "a key is no whole number")
            return given[0]
        if op == "smooth":
            _numbers(given[:1])
            return Range("real", given[0].low, given[0].high)
        if op == "attend":
            _numbers(given)
            return Range("real", given[0].low, given[0].high)
        if op == "select":
            _numbers(given)
            lead = graph.args[value][2]
            require(graph.is_number(lead) and graph.constant[lead] > 0, "a margin is missing")
            return Range("real", given[0].low, given[0].high)
        if op == "place_of":
            _numbers(given)
            lead, taken = graph.args[value][1], graph.args[value][2:]
            require(graph.is_number(lead) and graph.constant[lead] > 0, "a margin is missing")
            earlier = [graph.make("place_of", *graph.args[value][: 2 + k]) for k in range(len(taken))]
            require(list(taken) == earlier and len(taken) < shortest, "places that were not taken before")
            return Range("integer", Fraction(0), Fraction(longest - 1))
        if op in ("interp", "slope", "start", "assume"):
            return self._supposed(value, op, given)
        if op == "choose":
            _numbers(given[1:2])
            margin = graph.args[value][2]
            require(graph.is_number(margin) and graph.constant[margin] > 0, "a margin is missing")
            return given[0]
        if op == "where":
            require(given[0].kind == "truth", "a condition is no truth value")
            return _joined(given[1], given[2])
        if is_map(op):
            _numbers(given)
            return self._known_or_listed(value, map_range(op, given[0].low, given[0].high))
        require(op in PLAIN, f"unknown operation {op!r}")
        return self._arithmetic(value, op, given, graph.args[value])

    def _weighed(self, value: int, given: list[Range]) -> Range:
        """A sum with known weights: by its mass; at the token itself, by all its factors."""
        _numbers(given[:3])
        require(len(given) == 4, "a weighed sum is damaged")
        weigher, (real, weight, factor) = Weigher(self), given[:3]
        _, weights, factors, condition = self.graph.args[value]
        if condition == weigher.itself():
            require(self.graph.op[weights] == "number" and weight.low == 1, "weights at the token itself")
            known = weigher.listed(factors).values()
            ends = [c * v for ball in known for c in (-over(-ball), over(ball)) for v in (real.low, real.high)]
            return Range("real", min(ends), max(ends))
        mass = weigher.mass(value)
        if weight.low >= 0 and factor.low >= 0:
            return Range("real", min(Fraction(0), mass * real.low), max(Fraction(0), mass * real.high))
        return Range("real", -mass * real.largest, mass * real.largest)

    def _supposed(self, value: int, op: str, given: list[Range]) -> Range:
        """What rests on a hypothesis of the claim; slope and start of a line have the bounds made for them."""
        args = self.graph.args[value]
        _numbers(given)
        if op == "interp":
            good = len(args) == 4 and self.graph.is_number(args[3]) and self.graph.constant[args[3]] > 0
            require(good, "an interpolation without a spacing")
            return Range("real", given[2].low, given[2].high)
        if op == "assume":
            require(value in self.granted, "a hypothesis that the claim does not name")
            low, high = max(given[0].low, given[1].low), min(given[0].high, given[2].high)
            require(low <= high, "a hypothesis that never holds")
            return Range(given[0].kind, low, high)
        require(value in self.granted, "a line of no interpolation")
        return Range("real", -given[1].high, given[1].high)

    def _is_listed(self, value: int) -> bool:
        """Whether whole numbers, the length and the place decide a value."""
        leaves = leaves_under(self.graph, [value])
        return all(self.of(leaf).whole or written_out(self.graph, leaf, self.lengths[1]) for leaf in leaves)

    def _known_or_listed(self, value: int, ends: tuple[Fraction, Fraction] | None) -> Range:
        """A range of reals; if none is known, that of all values at the few whole numbers that decide them."""
        if ends is not None:
            return Range("real", *ends)
        graph, leaves, pending, seen = self.graph, set[int](), [value], set[int]()
        while pending:
            last = pending.pop()
            if last not in seen:
                seen.add(last)
                plain = graph.op[last] in PLAIN or is_map(graph.op[last])
                pending += graph.args[last] if plain else ()
                leaves |= set() if plain or graph.op[last] in ("number", "symbol") else {last}
        shortest, longest = self.lengths
        out = {leaf: found for leaf in leaves if (found := written_out(graph, leaf, longest)) is not None}
        kinds = {leaf: self.of(leaf) for leaf in sorted(leaves - out.keys())}
        names = {name for name, _ in out.values()}
        lengths = range(shortest, longest + 1) if "length" in names else range(longest, longest + 1)
        total = len(lengths) * (longest if "position" in names else 1) * prod(kind.size for kind in kinds.values())
        few = all(kind.whole for kind in kinds.values()) and total <= MOST_LISTED
        require(few, "a function may be undefined")
        low, high = Fraction(0), Fraction(0)
        free = [range(kind.size) for kind in kinds.values()]
        everything = (
            (n, i, c) for n in lengths for i in range(n if "position" in names else 1) for c in product(*free)
        )
        with ctx.workprec(BITS):
            for k, (n, i, chosen) in enumerate(everything):
                at = {leaf: kind.low + c for (leaf, kind), c in zip(kinds.items(), chosen, strict=True)}
                at |= {leaf: row[n if name == "length" else i] for leaf, (name, row) in out.items()}
                divisor = graph.args[value][1] if graph.op[value] == "div" else graph.number(1)
                undefined = not has_map(graph, divisor) and plain_value(graph, divisor, at, self.symbols) == 0
                require(not undefined, "a quotient by what may be 0")
                ball = ball_value(graph, value, at, lambda one, at=at: plain_value(graph, one, at, self.symbols))
                require(ball.is_finite(), "a function may be undefined")
                least, most = below(ball), above(ball)
                require(isfinite(least) and isfinite(most), "a function is too large")
                low, high = min(low, Fraction(least)), max(high, Fraction(most))
                if k == 0:
                    low, high = Fraction(least), Fraction(most)
        return Range("real", low, high)

    def _whole_power(self, a: Range, b: Range) -> Range:
        """k**m of whole numbers, m from 0 on: largest in size where both are; 0**0 is 1."""
        require(a.whole and b.whole and b.low >= 0, "a power is none that is known")
        require(a.largest <= 1 or (b.high <= 64 and a.largest ** int(b.high) <= 2**53), "a power is too large")
        if a.low < 0:
            size = max(a.largest ** int(b.high), Fraction(1))
            return Range("integer", -size, size)
        least = a.low ** int(b.low) if a.low > 0 else Fraction(0)
        return Range("integer", least, max(a.high, Fraction(1)) ** int(b.high))

    def _aggregate(self, op: str, given: list[Range], condition: int) -> Range:
        value, always = given[0], self.graph.is_number(condition)
        require(always or given[1].kind == "truth", "a condition is no truth value")
        require(not always or self.graph.constant[condition] == 1, "a condition is a number")
        some = always_itself(self.graph, condition) is True
        if op in ("max_of", "min_of"):
            nothing = Range("symbol" if value.kind == "symbol" else "integer", Fraction(0), Fraction(0))
            return value if some else _joined(value, nothing)
        _numbers([value])
        if op == "mean":
            ends = (value.low, value.high) if some else (min(value.low, 0), max(value.high, 0))
            return Range("real", Fraction(ends[0]), Fraction(ends[1]))
        counts = (self.lengths[0] if always else int(some), self.lengths[1])
        ends = [end * count for end in (value.low, value.high) for count in counts]
        return Range("integer" if value.whole else "real", Fraction(min(ends)), Fraction(max(ends)))

    def _bounds(self, extreme: int, op: str, value: int) -> bool:
        """Whether a value is the largest (smallest) of another over tokens of which its own token is one."""
        graph, args = self.graph, self.graph.args[extreme]
        if graph.op[extreme] != op or always_itself(graph, args[1]) is not True:
            return False
        return graph.op[args[0]] == "j" and graph.args[args[0]] == (value,)

    def _spread(self, squares: int, square: int) -> bool:
        """Whether two values are the mean of squares and the square of the mean, of the same over the same tokens."""
        graph = self.graph
        if graph.op[square] != "mul" or len(set(graph.args[square])) != 1:
            return False
        mean = graph.args[square][0]
        if graph.op[mean] != "mean" or graph.op[squares] != "mean" or graph.args[mean][1] != graph.args[squares][1]:
            return False
        one, other = graph.args[mean][0], graph.args[squares][0]
        if graph.op[one] != "j" or graph.op[other] != "j":
            return False
        (value,), (both,) = graph.args[one], graph.args[other]
        return graph.op[both] == "mul" and graph.args[both] == (value, value)

    def _arithmetic(self, value: int, op: str, given: list[Range], args: tuple[int, ...]) -> Range:
        if not (op in ("min", "max", "abs") and all(one.kind == "symbol" for one in given)):
            _numbers(given)
        whole, a = all(one.whole for one in given), given[0]
        b = given[1] if len(given) > 1 else given[0]
        places = place_ends(self.graph, value, self.lengths)
        if places is not None:
            ends = places
        elif op == "add":
            ends = [a.low + b.low, a.high + b.high]
        elif op == "sub":
            ends = [a.low - b.high, a.high - b.low]
            parts = [(self.graph.op[arg], self.graph.args[arg]) for arg in args]
            if [op for op, _ in parts] == ["max_of", "min_of"] and parts[0][1] == parts[1][1]:
                ends[0] = Fraction(0)  # the largest of what a condition meets is no smaller than the smallest
            if self._bounds(args[0], "max_of", args[1]) or self._bounds(args[1], "min_of", args[0]):
                ends[0] = max(ends[0], Fraction(0))  # over tokens among which the token itself is
            if self._spread(*args):
                ends[0] = max(ends[0], Fraction(0))  # Jensen; over no tokens both are 0
        elif op == "neg":
            ends = [-a.low, -a.high]
        elif op == "mul":
            ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
            if args[0] == args[1]:
                ends = [a.low**2, a.high**2] + [Fraction(0)] * (a.low <= 0 <= a.high)
        elif op == "abs":
            ends = [abs(a.low), abs(a.high)] + [Fraction(0)] * (a.low <= 0 <= a.high)
        elif op == "min":
            ends = [min(a.low, b.low), min(a.high, b.high)]
        elif op == "max":
            ends = [max(a.low, b.low), max(a.high, b.high)]
        elif op == "pow":
            power = b.low
            if b.low != b.high:
                return self._whole_power(a, b)
            require(abs(power) <= 64, "a power is none that is known")
            if power.denominator != 1 or power < 0:
                return self._known_or_listed(value, power_range(a.low, a.high, power))
            ends = [a.low ** int(power), a.high ** int(power)] + [Fraction(0)] * (power > 0 and a.low <= 0 <= a.high)
            whole = a.whole
        else:
            if op == "div" and b.low <= 0 <= b.high:
                if not self._is_listed(value):
                    b = self._known_or_listed(args[1], None)  # by all its values
                else:
                    return self._known_or_listed(value, None)
            require(not b.low <= 0 <= b.high, "a quotient by what may be 0")
            require(op == "div" or whole, "a remainder of real numbers")
            ends = [x / y for x in (a.low, a.high) for y in (b.low, b.high)]
            if op == "floordiv":
                ends = [Fraction(end // 1) for end in ends]
            elif op == "mod":
                ends = [Fraction(0), b.high - 1] if b.low > 0 else [b.low + 1, Fraction(0)]
            whole = whole and op != "div"
        return Range("integer" if whole else "real", Fraction(min(ends)), Fraction(max(ends)))


def _numbers(given: list[Range]) -> None:
    require(all(one.kind != "symbol" for one in given), "a symbol stands where a number belongs")


def _joined(one: Range, other: Range) -> Range:
    ends = min(one.low, other.low), max(one.high, other.high)
    if one.kind == other.kind:
        return Range(one.kind, *ends)
    require("symbol" not in (one.kind, other.kind), "a symbol in one case, a number in another")
    return Range("integer" if one.whole and other.whole else "real", *ends)
