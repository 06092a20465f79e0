"""Plain terms of whole numbers, as functions on finitely many values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from softwright.programs.linear import constant
from softwright.programs.reals.functions import is_map, value_at_number
from softwright.programs.terms import Term, shown


class Undefined(Exception):
    """A plain term that has no value at some whole numbers."""

    def __init__(self, term: Term, reason: str) -> None:
        super().__init__(reason)
        self.term, self.reason = term, reason


MOST_TRIED = 64  # terms below a term on which alone it may depend


def leaves_of(term: Term, stop: Term | None = None) -> list[Term]:
    """The terms that a plain term is a function of: the nearest below it that are not plain, or `stop`; no numbers."""
    found: dict[int, Term] = {}
    pending, seen = [term], set()
    while pending:
        last = pending.pop()
        if last.number in seen:
            continue
        seen.add(last.number)
        if last.plain and last is not stop:
            pending += last.args
        elif last.op not in ("number", "symbol"):
            found[last.number] = last
    return [found[number] for number in sorted(found)]


def narrowest(term: Term, size: Callable[[Term], int]) -> Term | None:
    """The term of fewest values below a plain term that alone decides it; None if there is none."""
    below: dict[int, Term] = {}
    pending = list(term.args) if term.plain else []
    while pending and len(below) < MOST_TRIED:
        last = pending.pop(0)
        if last.number not in below and last.op not in ("number", "symbol"):
            below[last.number] = last
            pending += last.args if last.plain else ()
    alone = [one for one in below.values() if leaves_of(term, one) == [one]]
    return min(alone, key=lambda one: (size(one), one.number), default=None)


def is_rational(term: Term) -> bool:
    """Whether a plain term takes rational values where its leaves do."""
    if not term.plain:
        return True
    if is_map(term.op) or (term.op == "pow" and term.args[1].op != "number"):
        return False
    if term.op == "pow" and term.args[1].value.denominator != 1:
        return False
    return all(is_rational(arg) for arg in term.args)


def value_at(term: Term, given: Mapping[int, Fraction], symbols: tuple[str, ...]) -> Fraction:
    """The value of a plain term where the terms of these numbers have these values."""
    if term.number in given:
        return given[term.number]
    op = term.op
    if op == "number":
        return term.value
    if op == "symbol":
        return Fraction(symbols.index(term.value))
    if op == "table":
        place, listed = value_at(term.args[0], given, symbols), term.args[2:]
        return value_at(listed[int(place)] if 0 <= place < len(listed) else term.args[1], given, symbols)
    a = [value_at(arg, given, symbols) for arg in term.args]
    if op == "add":
        return a[0] + a[1]
    if op == "sub":
        return a[0] - a[1]
    if op == "neg":
        return -a[0]
    if op == "mul":
        return a[0] * a[1]
    if op == "div":
        return a[0] / a[1]
    if op == "floordiv":
        return Fraction(a[0] // a[1])
    if op == "mod":
        return a[0] - a[1] * (a[0] // a[1])
    if op == "pow" and constant(term.args[1]) is None and a[1] < 0:
        return Fraction(0)  # exponents that are no constants are never negative: this case does not occur
    if op == "pow" and a[1].denominator == 1:
        return a[0] ** int(a[1])
    if op == "pow" or is_map(op):  # to 240 bits
        found = value_at_number(op, a[0], a[-1])
        if found is None:
            raise Undefined(term, f"{shown(term)} may be undefined")
        return found
    if op == "abs":
        return abs(a[0])
    if op in ("min", "max"):
        return min(a) if op == "min" else max(a)
    if op == "where":
        return a[1] if a[0] else a[2]
    truths = {
        "eq": lambda: a[0] == a[1],
        "lt": lambda: a[0] < a[1],
        "le": lambda: a[0] <= a[1],
        "not": lambda: not a[0],
        "and": lambda: bool(a[0]) and bool(a[1]),
        "or": lambda: bool(a[0]) or bool(a[1]),
    }
    if op in truths:
        return Fraction(int(truths[op]()))
    raise Undefined(term, f"{shown(term)} has no value at whole numbers")
