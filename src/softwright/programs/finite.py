"""Plain terms of whole numbers, as functions on finitely many values."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from softwright.programs.terms import Term, shown
from softwright.programs.types import Refused


def leaves_of(term: Term) -> list[Term]:
    """The terms that a plain term is a function of: the nearest below it that are not plain, and no numbers."""
    found: dict[int, Term] = {}
    pending, seen = [term], set()
    while pending:
        last = pending.pop()
        if last.number in seen:
            continue
        seen.add(last.number)
        if last.plain:
            pending += last.args
        elif last.op not in ("number", "symbol"):
            found[last.number] = last
    return [found[number] for number in sorted(found)]


def value_at(term: Term, given: Mapping[int, Fraction], symbols: tuple[str, ...]) -> Fraction:
    """The value of a plain term where the terms of these numbers have these values."""
    if term.number in given:
        return given[term.number]
    op = term.op
    if op == "number":
        return term.value
    if op == "symbol":
        return Fraction(symbols.index(term.value))
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
    if op == "pow":
        return a[0] ** int(a[1])
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
    raise Refused(term, f"{shown(term)} has no value at whole numbers")
