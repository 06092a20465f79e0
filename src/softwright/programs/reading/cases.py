"""Conditions of several cases: what means, largest and smallest values over them are written out as.

A head averages, or takes the largest, over one product of equalities, truth values of one token and j <= i. Every other
condition is a union of such products that exclude each other (`cases`):

    not a_j == b_i       a_j < b_i, or a_j > b_i
    a_j < b_i            for every bit b: the higher bits agree, bit b of a is 0, bit b of b is 1
    A or B               A, or (not A and B)

and then, with w = v - low + 1, which is at least 1, and "of nothing" 0,

    max(v for c)         max over the cases of max(w for case), less 1 - low, where one token meets c; else 0
    min(v for c)         high + 1 less the same of w = high + 1 - v
    mean(v for c)        sum(v for c) / max(count(c), 1)

A condition with j < i among what it joins looks at the tokens before j up to i: every a_j is that of token j - 1 there.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from softwright.programs.conditions import polynomial
from softwright.programs.linear import always_at_itself
from softwright.programs.reading.windows import summed
from softwright.programs.terms import Pool, Term, shown
from softwright.programs.types import Refused, Type

MOST_CASES = 24
Conjunction = list[Term]
_ALL = frozenset(("less", "equal", "more"))


def is_single(condition: Term) -> bool:
    """Whether one head can look at the tokens of a condition."""
    found = polynomial(condition)
    if len(found) != 1:
        return False
    ((atoms, factor),) = found.items()
    return factor == 1 and all(atom[0] not in ("less", "more") for atom in atoms)


class Cases:
    """Writes aggregates over conditions of several cases out."""

    def __init__(self, pool: Pool, type_of: Callable[[Term], Type], symbols: tuple[str, ...]) -> None:
        self.pool, self.type, self.symbols = pool, type_of, symbols

    def aggregate(self, op: str, value: Term, condition: Term) -> Term:
        """mean, max_of or min_of of a value, its tokens written out, over a condition, by those of single cases."""
        if op == "mean" and condition.op != "number" and value.op not in ("j", "number"):
            return self._mean(value, condition)  # over pairs: a quotient of sums
        if is_single(condition):
            return self.pool.make(op, value, condition)
        before = self._before(condition)
        if before is not None:
            return self.aggregate(op, self._moved(value), before)
        if op == "mean":
            return self._mean(value, condition)
        return self._extreme(op, value.args[0] if value.op == "j" else value, condition)

    def _count(self, condition: Term) -> Term:
        return self.pool.make("sum", self.pool.number(1), condition)

    def _mean(self, value: Term, condition: Term) -> Term:
        pool, count = self.pool, self._count(condition)
        total = summed(pool, self.type, value, condition)
        some = count if always_at_itself(condition) else pool.make("max", count, pool.number(1))
        return pool.make("div", total, some)

    def _extreme(self, op: str, value: Term, condition: Term) -> Term:
        pool, kind, zero = self.pool, self.type(value), self.pool.number(0)
        if kind.kind == "symbol":
            how = "look for numbers that stand for them, table(s, [0, 1, 2])"
            raise Refused(condition, f"{shown(condition)} has several cases, and symbols are looked for; {how}")
        if op == "max_of":
            shift = pool.number(1 - kind.low)
            above = pool.make("add", value, shift)
        else:
            shift = pool.number(kind.high + 1)
            above = pool.make("sub", shift, value)
        parts = [pool.make("max_of", pool.make("j", above), self._joined(case)) for case in self.cases(condition, True)]
        if not parts:
            return zero
        while len(parts) > 1:
            pairs = [parts[k : k + 2] for k in range(0, len(parts), 2)]
            parts = [pool.make("max", *pair) if len(pair) == 2 else pair[0] for pair in pairs]
        found = pool.make("sub", parts[0], shift) if op == "max_of" else pool.make("sub", shift, parts[0])
        if always_at_itself(condition):
            return found
        return pool.make("where", pool.make("lt", zero, self._count(condition)), found, zero)

    # ---------------------------------------------------------------------------------------------------------- j < i

    def _before(self, condition: Term) -> Term | None:
        """The same condition on the tokens before: None if j < i is not among what it joins."""
        parts, pool = _conjuncts(condition), self.pool
        rest = [part for part in parts if not _is_before(part)]
        if len(rest) == len(parts):
            return None
        place = pool.make("position")
        causal = pool.make("le", pool.make("j", place), pool.make("i", place))
        later = pool.make("j", pool.make("lt", pool.number(0), place))
        return self._joined([causal, later, *(self._moved(part) for part in rest)])

    def _moved(self, term: Term) -> Term:
        if term.op == "j":
            return self.pool.make("j", self._shifted(term.args[0]))
        if term.op in ("i", "number"):
            return term
        return self.pool.make(term.op, *(self._moved(arg) for arg in term.args), value=term.value)

    def _shifted(self, term: Term) -> Term:
        """A term of the token before."""
        pool = self.pool
        before = pool.make("sub", pool.make("position"), pool.number(1))
        if term.op in ("number", "symbol"):
            return term
        if term.op == "position":  # a place, also where nothing is before
            return pool.make("max", before, pool.number(0))
        kind, zero = self.type(term).kind, pool.number(0)
        if kind == "truth":
            number = pool.make("where", term, pool.number(1), zero)
            return pool.make("eq", pool.make("at", number, before, zero), pool.number(1))
        default = pool.make("symbol", value=self.symbols[0]) if kind == "symbol" else zero
        return pool.make("at", term, before, default)

    # ---------------------------------------------------------------------------------------------------------- cases

    def cases(self, condition: Term, wanted: bool) -> list[Conjunction]:
        """Products that exclude each other; together they are the condition, or its contrary."""
        op, args = condition.op, condition.args
        if op == "number":
            return [[]] if (condition.value == 1) == wanted else []
        if op in ("i", "j"):
            return [[condition if wanted else self.pool.make(op, self.pool.make("not", args[0]))]]
        if op == "not":
            return self.cases(args[0], not wanted)
        if op in ("and", "or"):
            first, second = self.cases(args[0], wanted), self.cases(args[1], wanted)
            if (op == "and") != wanted:
                found = first + [[*a, *b] for a in self.cases(args[0], not wanted) for b in second]
            else:
                found = [[*a, *b] for a in first for b in second]
        else:
            found = self._compared(condition, wanted)
        if len(found) > MOST_CASES:
            how = "split it, or use sum and count"
            raise Refused(condition, f"{shown(condition)} has more than {MOST_CASES} cases; {how}")
        return found

    def _compared(self, condition: Term, wanted: bool) -> list[Conjunction]:
        left, right = condition.args
        forward = left.op == "j"
        mine, other = (left, right) if forward else (right, left)
        taken = {"eq": {"equal"}, "lt": {"less" if forward else "more"}}.get(condition.op)
        taken = frozenset(taken or {"equal", "less" if forward else "more"})
        taken = taken if wanted else _ALL - taken
        pool, places = self.pool, mine.args[0].op == other.args[0].op == "position"
        if places and taken == {"less", "equal"}:
            return [[pool.make("le", mine, other)]]
        found = [[pool.make("eq", mine, other)]] if "equal" in taken else []
        for name in ("less", "more"):
            if name in taken:
                found += self._by_bits(condition, mine.args[0], other.args[0], name == "less")
        return found

    def _by_bits(self, condition: Term, mine: Term, other: Term, less: bool) -> list[Conjunction]:
        if self.type(mine).kind == self.type(other).kind == "symbol":
            mine, other = self._numbered(mine), self._numbered(other)
        kinds = self.type(mine), self.type(other)
        if not all(kind.whole for kind in kinds):
            how = "compare whole numbers, or use max and min of the values"
            raise Refused(condition, f"{shown(condition)} orders real numbers in a condition of several cases; {how}")
        low = int(min(kind.low for kind in kinds))
        bits = int(max(kind.high for kind in kinds) - low).bit_length()
        found: list[Conjunction] = []
        for b in range(bits):
            case: Conjunction = []
            if b + 1 < bits:
                case.append(
                    self.pool.make(
                        "eq",
                        self.pool.make("j", self._above(mine, low, b + 1)),
                        self.pool.make("i", self._above(other, low, b + 1)),
                    )
                )
            case.append(self.pool.make("j", self._bit(mine, low, b, 0 if less else 1)))
            case.append(self.pool.make("i", self._bit(other, low, b, 1 if less else 0)))
            found.append(case)
        return found

    def _numbered(self, term: Term) -> Term:
        """A symbol as the number of its place."""
        numbers = [self.pool.number(k) for k in range(len(self.symbols))]
        return self.pool.make("table", term, numbers[0], *numbers)

    def _above(self, term: Term, low: int, b: int) -> Term:
        """(term - low) // 2**b"""
        pool = self.pool
        term = pool.make("sub", term, pool.number(low)) if low else term
        return pool.make("floordiv", term, pool.number(Fraction(2) ** b)) if b else term

    def _bit(self, term: Term, low: int, b: int, wanted: int) -> Term:
        pool = self.pool
        digit = pool.make("mod", self._above(term, low, b), pool.number(2))
        return pool.make("eq", digit, pool.number(wanted))

    def _joined(self, parts: Conjunction) -> Term:
        if not parts:
            return self.pool.number(1)
        found = parts[0]
        for part in parts[1:]:
            found = self.pool.make("and", found, part)
        return found


def _conjuncts(condition: Term) -> list[Term]:
    if condition.op != "and":
        return [condition]
    return [part for arg in condition.args for part in _conjuncts(arg)]


def _is_before(part: Term) -> bool:
    """Whether a part is j < i."""
    sides = part.op == "lt" and part.args[0].op == "j" and part.args[1].op == "i"
    return sides and all(arg.args[0].op == "position" for arg in part.args)
