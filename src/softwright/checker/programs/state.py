"""`State`: what every column holds, as far as it is proved; what forms of columns mean, and how they are rounded."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from softwright.checker.entries import is_count, is_size, is_whole, list_of
from softwright.checker.programs.bounds import Bounds
from softwright.checker.programs.graph import Meaning
from softwright.checker.programs.lines import ONE, STRUCTURE, Lines
from softwright.checker.programs.pairs.products import is_over_pairs, pieces_of_sum
from softwright.checker.programs.pairs.reading import Lines as Interpolated
from softwright.checker.programs.pairs.reading import lines as lines_between
from softwright.checker.programs.places import by_length_and_place
from softwright.checker.programs.ranges import Ranges
from softwright.checker.programs.roots import Root, power_of_two, sqrt_over
from softwright.checker.programs.weighing import Weigher
from softwright.checker.refusal import require

Combination = dict[Any, Fraction]  # "" -> constant; a value, or ("high", value, low, base) -> factor
BESIDE = ("mark", "key", "bias")  # columns that belong to another one
HOLDS = {**dict.fromkeys(BESIDE, 2), "real": 2, "near": 2, "whole": 3, "sign": 2, "bit": 5, "digit": 5}


@dataclass
class Held:
    """What is proved of a column: the numbers it should hold, and how far a run is off."""

    low: Fraction
    high: Fraction
    exact: bool
    error: Fraction
    layer: int
    root: Root | None = None


@dataclass(frozen=True)
class Line:
    """What a column is said to hold."""

    kind: str
    value: int = -1
    numbers: tuple[Any, ...] = ()
    leaves: tuple[int, ...] | None = None


class State:
    """All columns of a network under proof."""

    def __init__(self, lines: Lines, meaning: Meaning, ranges: Ranges, bounds: Bounds) -> None:
        self.lines, self.meaning, self.graph = lines, meaning, meaning.graph
        self.ranges, self.bounds = ranges, bounds
        self.weigher = Weigher(ranges)
        self.fields_said: list[dict[str, Any]] = []
        self.said = [self._line(entry) for entry in lines.columns]
        self.held: dict[int, Held] = {}
        self.held[ONE] = Held(Fraction(1), Fraction(1), True, Fraction(0), 0)
        # what a column can be at tokens of the bank: rows that heads shut out must not reach their scores
        self.at_bank = [Fraction(float(x)) for x in np.abs(lines.bank).max(axis=0)]
        self.unknown: dict[int, Fraction] = {}  # how far what a column of functions should hold is from what is said
        self._combined: dict[int, Combination] = {}

    def _line(self, entry: list[Any]) -> Line:
        kind = entry[0]
        if kind in STRUCTURE and len(entry) == 1:
            return Line(kind)
        require(isinstance(kind, str) and kind in HOLDS, f"a column of unknown kind {kind!r}")
        size, leaves = HOLDS[kind], None
        if len(entry) == size + 1 and kind != "near" and kind not in BESIDE:
            leaves = entry[-1]
            require(list_of(is_count)(leaves) and all(k < len(self.lines.values) for k in leaves), "leaves are damaged")
            leaves = tuple(self.lines.values[k] for k in leaves)
        else:
            require(len(entry) == size, "a column's line is damaged")
        if kind in BESIDE:
            require(is_count(entry[1]) and entry[1] < len(self.lines.columns), "a line that belongs to no column")
            return Line(kind, entry[1])
        require(is_count(entry[1]) and entry[1] < len(self.lines.values), "a column of no term")
        numbers = tuple(entry[2:size])
        tests = {"whole": (is_whole,), "bit": (is_whole, is_size, is_count)}
        if kind == "digit":
            good = is_whole(numbers[0]) and is_size(numbers[1]) and numbers[2] in ("high", "low")
            good = good and numbers[1] & (numbers[1] - 1) == 0
        else:
            good = all(test(x) for test, x in zip(tests.get(kind, ()), numbers, strict=True))
        require(good, "the numbers of a column's line are damaged")
        require(kind != "bit" or (numbers[1] <= 40 and numbers[2] < numbers[1]), "a bit that there is not")
        return Line(kind, self.lines.values[entry[1]], numbers, leaves)

    # ---------------------------------------------------------------------------------------------------- forms

    def form(self, weights: np.ndarray) -> dict[int, Fraction]:
        """A column of a matrix as a form of data tokens; it reads what is proved, and no structure but the one."""
        found = {int(k): Fraction(float(weights[k])) for k in np.flatnonzero(weights)}
        for k in found:
            require(k in self.held, f"a form reads column {k}, of which nothing is proved")
        return found

    def layer_of(self, form: dict[int, Fraction]) -> int:
        return max((self.held[k].layer for k in form), default=0)

    def size(self, form: dict[int, Fraction]) -> Fraction:
        return sum(
            (
                abs(c) * (max(abs(self.held[k].low), abs(self.held[k].high)) + self.held[k].error)
                for k, c in form.items()
            ),
            Fraction(0),
        )

    def is_exact(self, form: dict[int, Fraction]) -> bool:
        """Every partial sum is a whole multiple of a common unit and small enough: nothing is ever rounded."""
        if not all(self.held[k].exact for k in form):
            return False
        unit = max((c.denominator for c in form.values()), default=1)
        limit = Fraction(1) / Fraction(self.bounds.precision.unit) / 2
        return unit <= 2**20 and self.size(form) * unit < limit

    def rounding(self, form: dict[int, Fraction]) -> Fraction:
        """|what a run computes - the form of what the columns should hold|."""
        if self.is_exact(form):
            return Fraction(0)
        own = sum((abs(c) * self.held[k].error for k, c in form.items()), Fraction(0))
        if len(form) == 1 and all(power_of_two(c) for c in form.values()):
            return own
        tiny = Fraction(self.bounds.precision.smallest) * 4 * (len(form) + 1)
        return own + self.bounds.gamma(len(form) + 2) * self.size(form) + tiny

    def root(self, form: dict[int, Fraction]) -> Root | None:
        """Of a combination of sums of squares with factors above 0, as it runs; None if it is none."""
        found: list[tuple[Fraction, Root]] = []
        for k, c in form.items():
            own = self.held[k].root
            if own is None or c <= 0:
                return None
            found.append((c, own))
        if not found:
            return None
        eta, off = (
            sqrt_over(sum((c * x**2 for c, x in pairs), Fraction(0)))
            for pairs in ([(c, one.eta) for c, one in found], [(c, one.off) for c, one in found])
        )
        tau, top = (
            sum((c * one.tau for c, one in found), Fraction(0)),
            sum((c * one.top for c, one in found), Fraction(0)),
        )
        whole = Root(eta, tau, off, top)
        if len(found) == 1 and power_of_two(found[0][0]):
            return whole
        tiny = Fraction(self.bounds.precision.smallest) * 4 * (len(form) + 1)
        return whole.rounded(self.bounds.gamma(len(form) + 2), tiny)

    def stray(self, form: dict[int, Fraction], factor: Fraction = Fraction(1)) -> Fraction:
        """What tokens of the bank that are shut out may add to a value: each weighs f or less."""
        junk = sum((abs(c) * self.at_bank[k] for k, c in form.items()), Fraction(0))
        return 4 * self.bounds.all * self.bounds.f * abs(factor) * junk

    # ------------------------------------------------------------------------------------------------- meanings

    def combination(self, value: int) -> Combination:
        """A value as a combination of values that are no sums: sums, differences, multiples and gates written out."""
        found = self._combined.get(value)
        if found is None:
            found = self._combination(value)
            self._combined[value] = found
        return found

    def _combination(self, value: int) -> Combination:
        graph = self.graph
        op, args = graph.op[value], graph.args[value]
        if op == "number":
            return _clean({"": graph.constant[value]})
        if op == "symbol":
            return _clean({"": Fraction(self.meaning.symbols.index(graph.constant[value]))})
        if op in ("add", "sub", "difference"):
            return _plus(self.combination(args[0]), self.combination(args[1]), Fraction(1 if op == "add" else -1))
        if op == "neg":
            return _plus({}, self.combination(args[0]), Fraction(-1))
        if op in ("place", "assume"):
            return self.combination(args[0])
        if op == "interp":
            parts, slope, start = self.interpolated(value)
            return _plus({start: Fraction(1)}, self.combination(graph.make("mul", slope, parts.query)), Fraction(1))
        if op == "mul":
            for one, other in (args, args[::-1]):
                factor = graph.folded(one)
                if factor is not None:
                    return _plus({}, self.combination(other), factor)
        if op == "div":
            divisor = graph.folded(args[1])
            if divisor is not None and not self.ranges.of(args[0]).whole:
                return _plus({}, self.combination(args[0]), 1 / divisor)
        if op == "weighed":
            return {value: Fraction(1)}
        resolved = None if self.ranges.of(value).whole else self.weigher.resolve(value)
        if resolved is not None:
            total: Combination = {}
            for factor, part in resolved:
                total = _plus(total, self.combination(part), factor)
            return total
        if is_over_pairs(graph, value):
            total = {}
            for factor, part in pieces_of_sum(graph, value):
                total = _plus(total, {value: Fraction(1)} if part == value else self.combination(part), factor)
            return total
        if self.ranges.of(value).whole:
            return self._split(value, op, args)
        alone = graph.op[args[0]] == "sum" and not is_over_pairs(graph, args[0]) if op == "div" else False
        if op == "div" and alone and graph.op[args[1]] == "length":
            inner, condition = graph.args[args[0]]  # n is the same at all tokens
            inner = graph.args[inner][0] if graph.op[inner] == "j" else inner
            share = graph.make("j", graph.make("div", inner, args[1]))
            return {graph.make("sum", share, condition): Fraction(1)}
        return self._formula(value, op, args)

    def interpolated(self, value: int) -> tuple[Interpolated, int, int]:
        """The lines of an interpolation, and the slope and start of the line that a run comes to at the query.

        slope is whatever the run has, start is what then is missing: interp = start + slope q by definition."""
        graph, ranges = self.graph, self.ranges
        require(value in ranges.granted, "an interpolation that the claim does not name")
        found = lines_between(graph, value, *(ranges.of(arg) for arg in graph.args[value][1:3]))
        ranges.granted.add(found.step)
        most = 2 * ranges.of(found.steep).largest
        slope = graph.make("slope", value, graph.number(most))
        far = ranges.of(value).largest + most * ranges.of(found.query).largest
        start = graph.make("start", value, graph.number(far))
        ranges.granted |= {slope, start}
        return found, slope, start

    def _formula(self, value: int, op: str, args: tuple[int, ...]) -> Combination:
        """Quotients are products with reciprocals; max(a, b) = b + max(a - b, 0), min(a, b) = a - max(a - b, 0), and
        |a| = 2 max(a, 0) - a."""
        graph, zero = self.graph, self.graph.number(0)
        if op == "abs":
            top = graph.make("max", args[0], zero)
            return _plus(_plus({}, self.combination(top), Fraction(2)), self.combination(args[0]), Fraction(-1))
        if op in ("max", "min") and not (op == "max" and args[1] == zero):
            more = {graph.make("max", graph.make("sub", *args), zero): Fraction(1)}
            rest = self.combination(args[1] if op == "max" else args[0])
            return _plus(rest, more, Fraction(1 if op == "max" else -1))
        found = self._gates(value, op, args)
        factor = graph.folded(args[0]) if op == "div" else None
        if op != "div" or factor == 1 or found != {value: Fraction(1)}:
            return found
        inverse = graph.make("div", graph.number(1), args[1])
        if factor is not None:
            return _plus({}, {inverse: Fraction(1)}, factor)
        return self.combination(graph.make("mul", args[0], inverse))

    def zero(self, value: int) -> int:
        """What is 0 among the values of a kind: of symbols the first."""
        if self.ranges.of(value).kind == "symbol":
            return self.graph.make("symbol", constant=self.meaning.symbols[0])
        return self.graph.number(0)

    def _split(self, value: int, op: str, args: tuple[int, ...]) -> Combination:
        """Whole numbers as sums of gates where(c, a, 0) and of quarters: a b = (a + b)^2 // 4 - (a - b)^2 // 4."""
        graph, kinds = self.graph, [self.ranges.of(arg).kind for arg in args]
        if self.ranges.of(value).kind not in ("integer", "symbol"):
            return {value: Fraction(1)}
        if op in ("max", "min"):
            first, second = args if op == "min" else args[::-1]
            return self.combination(graph.make("where", graph.make("lt", *args), first, second))
        if op == "abs":
            below = graph.make("lt", args[0], graph.number(0))
            return self.combination(graph.make("where", below, graph.make("neg", args[0]), args[0]))
        if op == "mul" and args[0] != args[1] and set(kinds) <= {"integer", "truth"}:
            found: Combination = {}
            for sign, name in ((1, "add"), (-1, "sub")):
                both = graph.make(name, *args)
                quarter = graph.make("floordiv", graph.make("mul", both, both), graph.number(4))
                found = _plus(found, {quarter: Fraction(1)}, Fraction(sign))
            return found
        if op in ("floordiv", "mod") and not graph.is_number(args[1]) and self.ranges.of(args[1]).low >= 1:
            return self._divided(value, op, args)
        zero = self.zero(value)
        if op == "where" and args[2] != zero:
            gates: Combination = {}
            if args[1] != zero:
                gates = {graph.make("where", args[0], args[1], zero): Fraction(1)}
            return _plus(
                gates, {graph.make("where", graph.make("not", args[0]), args[2], zero): Fraction(1)}, Fraction(1)
            )
        return {value: Fraction(1)}

    def _divided(self, value: int, op: str, args: tuple[int, ...]) -> Combination:
        """a // b = q + sum of (k b <= a) for q < k <= r, if a // b is from q to r; a % b = a - b (a // b)."""
        graph, (above, below) = self.graph, args
        place = by_length_and_place(graph, above) if graph.op[below] == "length" else None
        if place is not None:  # linear in i; at the ends of i, monotone in n
            ends = [place[0] + (place[1] * i + place[2]) / n for n in self.meaning.lengths for i in (0, n - 1)]
        else:
            one, other = self.ranges.of(above), self.ranges.of(below)
            ends = [x / y for x in (one.low, one.high) for y in (other.low, other.high)]
        least, most = int(min(ends) // 1), int(max(ends) // 1)
        if most - least > 4:
            return {value: Fraction(1)}
        found: Combination = {"": Fraction(least)} if op == "floordiv" else self.combination(above)
        if op == "mod":
            found = _plus(found, self.combination(below), Fraction(-least))
        for k in range(least + 1, most + 1):
            test = graph.make("le", graph.make("mul", graph.number(k), below), above)
            if op == "floordiv":
                found = _plus(found, {test: Fraction(1)}, Fraction(1))
            else:
                gate = graph.make("where", test, below, graph.number(0))
                found = _plus(found, {gate: Fraction(1)}, Fraction(-1))
        return _clean(found)

    def _gates(self, value: int, op: str, args: tuple[int, ...]) -> Combination:
        """Reals under truth values: where(c, a, b) is b + where(c, a - b, 0); k x the sum of v where(k == v, x, 0)."""
        graph, zero = self.graph, self.graph.number(0)
        if op == "where" and args[2] != zero:
            gate = graph.make("where", args[0], graph.make("sub", args[1], args[2]), zero)
            return _plus(self.combination(args[2]), self.combination(gate), Fraction(1))
        if op in ("mul", "div"):
            place = 1 if self.ranges.of(args[1]).whole else 0
            kind = self.ranges.of(args[place])
            if kind.whole and kind.size <= 16 and not (op == "div" and place == 0):
                if self.ranges.of(args[1 - place]).whole:
                    return {value: Fraction(1)}
                found: Combination = {}
                for k in range(int(kind.low), int(kind.high) + 1):
                    factor = Fraction(k) if op == "mul" else Fraction(1, k)
                    chosen = graph.make("eq", args[place], graph.number(k))
                    gate = graph.make("where", chosen, args[1 - place], zero)
                    found = _plus(found, self.combination(gate), factor)
                return found
        return {value: Fraction(1)}

    def meant(self, form: dict[int, Fraction]) -> Combination:
        """What a form of columns means, by what they hold."""
        found: Combination = {}
        for column, factor in form.items():
            line = self.said[column]
            if line.kind == "one":
                found = _plus(found, {"": Fraction(1)}, factor)
            elif line.kind in ("real", "near"):
                found = _plus(found, self.combination(line.value), factor)
            elif line.kind == "whole":
                found = _plus(
                    _plus(found, self.combination(line.value), factor), {"": Fraction(line.numbers[0])}, factor
                )
            elif line.kind == "sign":
                found = _plus(_plus(found, self.combination(line.value), 2 * factor), {"": Fraction(-1)}, factor)
            elif line.kind == "digit":
                low, base, which = line.numbers
                high: Combination = {("high", line.value, low, base): Fraction(1)}
                if which == "high":
                    found = _plus(_plus(found, high, factor), {"": Fraction(1)}, factor)
                else:  # 1 + (t - low - base high)
                    found = _plus(_plus(found, self.combination(line.value), factor), high, -base * factor)
                    found = _plus(found, {"": Fraction(1 - low)}, factor)
            else:
                found = _plus(found, {("column", column): Fraction(1)}, factor)
        return found

    def apart(self, one: Combination, other: Combination) -> Fraction:
        """The most by which two combinations can differ; refused if that is not known."""
        found = Fraction(0)
        for key, factor in _plus(one, other, Fraction(-1)).items():
            if key == "":
                found += abs(factor)
                continue
            require(isinstance(key, int), "a form does not mean what it should: digits or bits remain")
            found += abs(factor) * self.ranges.of(key).largest
        return found

    def off(self, form: dict[int, Fraction], wanted: Combination) -> Fraction:
        """How far a run of a form is from what it should mean."""
        return self.apart(self.meant(form), wanted) + self.rounding(form)


def times(wanted: Combination, factor: Fraction, constant: Fraction = Fraction(0)) -> Combination:
    """factor * wanted + constant"""
    return _plus({"": constant} if constant else {}, wanted, factor)


def _plus(one: Combination, other: Combination, factor: Fraction) -> Combination:
    found = dict(one)
    for key, value in other.items():
        found[key] = found.get(key, Fraction(0)) + factor * value
    return _clean(found)


def _clean(found: Combination) -> Combination:
    return {key: value for key, value in found.items() if value != 0}
