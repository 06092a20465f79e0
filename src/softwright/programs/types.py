"""`Types`: of every term its kind (real, integer, symbol, truth) and its range, or why it has none.

Ranges are exact fractions. Whole numbers stay whole under + - * // % min max abs where and comparisons; everything else
is real. What may be undefined (a quotient by a range that holds 0), what compares reals, and what mixes symbols with
numbers is refused, with the term and a remedy.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod

from softwright.programs.fields import Sequence
from softwright.programs.finite import Undefined, leaves_of, value_at
from softwright.programs.linear import affine_ends, always_at_itself
from softwright.programs.places import by_place
from softwright.programs.reals.functions import is_map, power_range, range_of
from softwright.programs.terms import AGGREGATES, Term, shown

MOST_LISTED = 2048  # values of whole numbers that are tried one by one
_LARGEST = 2**53
WHOLE = ("integer", "symbol", "truth")


class Refused(Exception):
    """A term that has no type, or no way to be computed; `term` says which, the text why and what to do."""

    def __init__(self, term: Term, reason: str) -> None:
        super().__init__(reason)
        self.term, self.reason = term, reason


@dataclass(frozen=True)
class Type:
    """A kind of value and its range."""

    kind: str
    low: Fraction
    high: Fraction

    @property
    def whole(self) -> bool:
        return self.kind in WHOLE

    @property
    def size(self) -> int:
        """How many whole numbers there are in the range."""
        return int(self.high - self.low) + 1

    @property
    def largest(self) -> Fraction:
        return max(abs(self.low), abs(self.high))


TRUTH = Type("truth", Fraction(0), Fraction(1))


class Types:
    """The types of the terms over one kind of sequence."""

    def __init__(self, tokens: Sequence) -> None:
        self.tokens = tokens
        self._known: dict[int, Type] = {}

    def of(self, term: Term) -> Type:
        pending = [term]
        while pending:
            last = pending[-1]
            missing = [arg for arg in last.args if arg.number not in self._known]
            if missing:
                pending += missing
                continue
            pending.pop()
            if last.number not in self._known:
                self._known[last.number] = self._type(last)
        return self._known[term.number]

    def _type(self, term: Term) -> Type:
        op, types = term.op, [self._known[arg.number] for arg in term.args]
        tokens = self.tokens
        if op == "number":
            return Type("integer" if term.value.denominator == 1 else "real", term.value, term.value)
        if op == "symbol":
            code = Fraction(tokens.symbols.index(term.value))
            return Type("symbol", code, code)
        if op == "field":
            field = tokens.fields[term.value]
            return Type(field.kind, Fraction(field.low), Fraction(field.high))
        if op == "position":
            return Type("integer", Fraction(0), Fraction(tokens.longest - 1))
        if op == "length":
            return Type("integer", Fraction(tokens.shortest), Fraction(tokens.longest))
        if op in ("i", "j"):
            return types[0]
        if op in ("eq", "lt", "le"):
            return self._comparison(term, types)
        if op in ("and", "or", "not"):
            for arg, kind in zip(term.args, types, strict=True):
                if kind.kind != "truth":
                    raise Refused(arg, f"{shown(arg)} is {_named(kind)}, not a condition; compare it with something")
            return TRUTH
        if op == "where":
            return self._where(term, types)
        if op == "table":
            return self._table(term, types)
        if op in AGGREGATES:
            return self._aggregate(term, types)
        if op == "at":
            return _hull(term, types[0], types[2]) if len(types) > 2 else types[0]
        if op == "sort":
            if not types[1].whole and term.args[0] is not term.args[1]:
                how = "write sorted(x)[i], backwards sorted(x)[n-1-i], or value(y[j], where=largest(x[j]), margin=0.01)"
                raise Refused(term, f"what is sorted by real numbers jumps where two of them are equal; {how}")
            return types[0]
        if op == "smooth":
            self._numeric(term, types[:1])
            return Type("real", types[0].low, types[0].high)
        if op in ("attend", "select"):
            self._numeric(term, types[:2])
            return Type("real", types[0].low, types[0].high)
        if op in ("interp", "slope", "start", "assume"):
            self._numeric(term, types)
            return self._supposed(term, types)
        if op == "place_of":
            self._numeric(term, types[:1])
            return Type("integer", Fraction(0), Fraction(tokens.longest - 1))
        if op == "choose":
            self._numeric(term, types[1:2])
            return types[0]
        return self._arithmetic(term, types)

    def _supposed(self, term: Term, types: list[Type]) -> Type:
        """What rests on a hypothesis: lines between points that are apart, and numbers of a stated range."""
        if term.op == "assume":
            low, high = max(types[0].low, types[1].low), min(types[0].high, types[2].high)
            if low > high:
                ends = f"{float(types[0].low):.6g} to {float(types[0].high):.6g}"
                raise Refused(term, f"{shown(term.args[0])} is from {ends}, never what is assumed; choose other ends")
            return Type(types[0].kind if types[0].whole else "real", low, high)
        if term.op == "interp":
            return Type("real", types[2].low, types[2].high)
        most = types[1].high
        return Type("real", -most, most)

    def _numeric(self, term: Term, types: list[Type]) -> None:
        for arg, kind in zip(term.args, types, strict=False):
            if kind.kind == "symbol":
                raise Refused(arg, f"{shown(arg)} is a symbol; numbers are needed here: compare it, s == 'a'")

    def _comparison(self, term: Term, types: list[Type]) -> Type:
        left, right = types
        if "symbol" in (left.kind, right.kind) and left.kind != right.kind:
            raise Refused(term, f"{shown(term)} compares a symbol with a number; put symbols in quotes")
        if not (left.whole and right.whole):
            how = "equality and order of reals jump; use whole numbers or symbols, or max, min and mean of the values"
            raise Refused(term, f"{shown(term)} compares real numbers: {how}")
        return TRUTH

    def _where(self, term: Term, types: list[Type]) -> Type:
        if types[0].kind != "truth":
            raise Refused(term, f"{shown(term.args[0])} is {_named(types[0])}, not a condition; compare it")
        return _hull(term, types[1], types[2])

    def _table(self, term: Term, types: list[Type]) -> Type:
        if not types[0].whole:
            raise Refused(term.args[0], f"{shown(term.args[0])} is {_named(types[0])}; tables are for whole numbers")
        found = types[1]
        for kind in types[2:]:
            found = _hull(term, found, kind)
        return found

    def _aggregate(self, term: Term, types: list[Type]) -> Type:
        value, condition = types
        if condition.kind != "truth" and term.args[1].op != "number":
            raise Refused(term.args[1], f"{shown(term.args[1])} is {_named(condition)}, not a condition; compare it")
        if term.op in ("max_of", "min_of"):
            nothing = Type("symbol" if value.kind == "symbol" else "integer", Fraction(0), Fraction(0))
            return value if always_at_itself(term.args[1]) else _hull(term, value, nothing)
        self._numeric(term, types[:1])
        some = bool(always_at_itself(term.args[1]))
        low, high = (value.low, value.high) if some else (min(value.low, 0), max(value.high, 0))
        if term.op == "mean":
            return Type("real", Fraction(low), Fraction(high))
        least = self.tokens.shortest if _always(term.args[1]) else int(some)
        ends, low, high = (least, self.tokens.longest), value.low, value.high
        corners = [end * count for end, count in product((low, high), ends)]
        return Type("integer" if value.whole else "real", Fraction(min(corners)), Fraction(max(corners)))

    def _arithmetic(self, term: Term, types: list[Type]) -> Type:
        op = term.op
        if not (op in ("min", "max", "abs") and all(kind.kind == "symbol" for kind in types)):
            self._numeric(term, types)
        whole = all(kind.whole for kind in types)
        low, high = [kind.low for kind in types], [kind.high for kind in types]
        place = affine_ends(term, self.tokens.shortest, self.tokens.longest)
        if place is not None:
            ends = place
        elif op == "add":
            ends = low[0] + low[1], high[0] + high[1]
        elif op == "sub":
            ends = low[0] - high[1], high[0] - low[1]
            largest, smallest = term.args
            if (largest.op, smallest.op) == ("max_of", "min_of") and largest.args == smallest.args:
                ends = Fraction(0), ends[1]  # the largest is no smaller than the smallest
            if _is_extreme(largest, "max_of", smallest) or _is_extreme(smallest, "min_of", largest):
                ends = max(ends[0], Fraction(0)), ends[1]  # nor than one of those that it is the largest of
            if _is_variance(largest, smallest):
                ends = max(ends[0], Fraction(0)), ends[1]  # a mean of squares is no smaller than the square of the mean
        elif op == "neg":
            ends = -high[0], -low[0]
        elif op == "mul":
            corners = [a * b for a, b in product((low[0], high[0]), (low[1], high[1]))]
            if term.args[0] is term.args[1]:
                corners = [low[0] ** 2, high[0] ** 2] + ([Fraction(0)] if low[0] <= 0 <= high[0] else [])
            ends = min(corners), max(corners)
        elif op in ("min", "max"):
            take = min if op == "min" else max
            ends = take(low), take(high)
        elif op == "abs":
            ends = (Fraction(0) if low[0] <= 0 <= high[0] else min(abs(low[0]), abs(high[0]))), types[0].largest
        elif op in ("div", "floordiv", "mod"):
            if low[1] <= 0 <= high[1] and (listed := self._listed(term)) is not None:
                return listed
            if low[1] <= 0 <= high[1] and (listed := self._listed(term.args[1])) is not None:
                low, high = [low[0], listed.low], [high[0], listed.high]
            if low[1] <= 0 <= high[1]:
                raise Refused(term, f"{shown(term)} divides by what may be 0; add a number that keeps it away from 0")
            if op != "div" and not whole:
                raise Refused(term, f"{shown(term)} is for whole numbers alone; use '/'")
            corners = [a / b for a, b in product((low[0], high[0]), (low[1], high[1]))]
            ends = min(corners), max(corners)
            if op == "floordiv":
                ends = Fraction(ends[0] // 1), Fraction(ends[1] // 1)
            elif op == "mod":
                ends = (Fraction(0), high[1] - 1) if low[1] > 0 else (low[1] + 1, Fraction(0))
            whole = whole and op != "div"
        elif op == "pow":
            return self._power(term, types)
        elif is_map(op):
            return self._function(term, range_of(op.removeprefix("map:"), low[0], high[0]))
        else:
            raise Refused(term, f"{shown(term)} has no range here")
        return Type("integer" if whole else "real", Fraction(ends[0]), Fraction(ends[1]))

    def _power(self, term: Term, types: list[Type]) -> Type:
        base, exponent = types
        if base.whole and exponent.whole and exponent.low != exponent.high:
            return self._whole_power(term, base, exponent)
        if exponent.low != exponent.high or abs(exponent.low) > 64:
            raise Refused(term, f"{shown(term)}: exponents are numbers from -64 to 64; write exp(b*log(a))")
        if exponent.low.denominator != 1 or exponent.low < 0:
            return self._function(term, power_range(base.low, base.high, exponent.low))
        k = int(exponent.low)
        corners = [base.low**k, base.high**k] + ([Fraction(0)] if k and base.low <= 0 <= base.high else [])
        return Type("integer" if base.whole else "real", min(corners), max(corners))

    def _whole_power(self, term: Term, base: Type, exponent: Type) -> Type:
        """k**m of whole numbers, m from 0 on: largest in size where both are; 0**0 is 1."""
        most = (
            base.largest ** int(min(exponent.high, 4096)) if base.largest <= 1 or exponent.high <= 64 else _LARGEST + 1
        )
        if exponent.low < 0 or most > _LARGEST:
            how = "whole numbers to powers from 0 on, and results of at most 2**53"
            raise Refused(term, f"{shown(term)}: exponents that are no constants are for {how}")
        if base.low < 0:
            most = max(most, Fraction(1))
            return Type("integer", -Fraction(most), Fraction(most))
        low = Fraction(0) if base.low == 0 else base.low ** int(exponent.low)
        return Type("integer", low, max(base.high, Fraction(1)) ** int(exponent.high))

    def _listed(self, term: Term) -> Type | None:
        """The range of a function of few whole numbers by all its values; None if it has none, or is another."""
        shortest, longest = self.tokens.shortest, self.tokens.longest
        leaves = leaves_of(term)
        placed = {leaf.number: found for leaf in leaves if (found := by_place(leaf, longest)) is not None}
        free = [leaf for leaf in leaves if leaf.number not in placed]
        kinds = [self.of(leaf) for leaf in free]
        deciding = {name for name, _ in placed.values()}
        counts = [longest - shortest + 1 if "length" in deciding else 1, longest if "position" in deciding else 1]
        if not all(kind.whole for kind in kinds) or prod([*counts, *(kind.size for kind in kinds)]) > MOST_LISTED:
            return None
        values: list[Fraction] = []
        for n in range(shortest, longest + 1) if "length" in deciding else [longest]:
            for i in range(n) if "position" in deciding else [0]:
                at = {number: row[n if name == "length" else i] for number, (name, row) in placed.items()}
                for chosen in product(*(range(kind.size) for kind in kinds)):
                    more = {leaf.number: kind.low + k for leaf, kind, k in zip(free, kinds, chosen, strict=True)}
                    try:
                        values.append(value_at(term, at | more, self.tokens.symbols))
                    except (Undefined, ZeroDivisionError):
                        return None
        wide = max(map(abs, values)) / 2**80  # values of functions are known to 240 bits
        return Type("real", min(values) - wide, max(values) + wide)

    def _function(self, term: Term, found: tuple[Fraction, Fraction] | None) -> Type:
        if found is None and (listed := self._listed(term)) is not None:
            return listed
        if found is None:
            how = "add a number, or change the range of a field, so that its argument stays where it is defined"
            raise Refused(term, f"{shown(term)} may be undefined, or too large: {how}")
        return Type("real", *found)


def _always(condition: Term) -> bool:
    return condition.op == "number"


def _is_extreme(extreme: Term, op: str, value: Term) -> bool:
    """Whether a term is the largest (smallest) of a value over tokens of which the token itself is one."""
    if extreme.op != op or not always_at_itself(extreme.args[1]):
        return False
    return extreme.args[0].op == "j" and extreme.args[0].args[0] is value


def _is_variance(squares: Term, square: Term) -> bool:
    """Whether two terms are mean(a[j]**2 for c) and mean(a[j] for c)**2."""
    if squares.op != "mean" or square.op != "mul" or square.args[0] is not square.args[1]:
        return False
    inner, mean = squares.args[0], square.args[0]
    if mean.op != "mean" or inner.op != "j" or inner.args[0].op != "mul" or mean.args[0].op != "j":
        return False
    value = mean.args[0].args[0]
    return inner.args[0].args == (value, value) and squares.args[1] is mean.args[1]


def _hull(term: Term, one: Type, other: Type) -> Type:
    ends = min(one.low, other.low), max(one.high, other.high)
    if one.kind == other.kind:
        return Type(one.kind, *ends)
    if "symbol" in (one.kind, other.kind):
        raise Refused(term, f"{shown(term)} is a symbol in one case and a number in another; make both alike")
    return Type("integer" if one.whole and other.whole else "real", *ends)


def _named(kind: Type) -> str:
    return {"real": "a real number", "integer": "a whole number", "symbol": "a symbol", "truth": "a truth value"}[
        kind.kind
    ]
