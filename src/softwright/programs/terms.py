"""`Term`: the meaning of a program, a value at every token i, as a graph in which equal terms are one object.

    field, position, length, number                      what is there: fields of token i, its place, how many tokens
    add sub neg mul div floordiv mod pow abs min max     numbers
    eq lt le not and or where                            truth values; where(c, a, b)
    table(e, d, v0, v1, ...)                             the constant number e of a list, d outside
    map:<function>                                       an elementary function, such as map:sin
    at(a, e, default)                                    a at the place e, the default where there is no such token
    sum mean max_of min_of (value, condition)            over all tokens j that meet the condition; 0 if there are none
    sort(a, key)                                         the value of a at the token that is i-th when sorted by key
    smooth(a, alpha)                                     sum_j<=i (1-alpha)^(i-j) a_j / sum_j<=i (1-alpha)^(i-j)
    choose(a, score, margin)                             a at the token of the largest score
    interp(q, t, y, h)                                   y between the times t, linearly, at q; times are h apart
    slope(p, s), start(p)                                of a line through interp p at q: start + slope q; |slope| <= s
    assume(a, low, high)                                 a, which lies between two numbers: a hypothesis

Inside a value or condition of an aggregate, j(t) and i(t) are the term t at token j and at token i.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

AGGREGATES = ("sum", "mean", "max_of", "min_of")
COMPARISONS = ("eq", "lt", "le")
TRUTHS = (*COMPARISONS, "not", "and", "or")
PLAIN = ("add", "sub", "neg", "mul", "div", "floordiv", "mod", "pow", "abs", "min", "max", "where", "table", *TRUTHS)


class Term:
    """One value; made by a `Pool`, which makes no second one that is equal."""

    __slots__ = ("args", "number", "op", "place", "value")

    def __init__(self, op: str, args: tuple[Term, ...], value: Any, number: int, place: int) -> None:
        self.op, self.args, self.value = op, args, value
        self.number = number  # in the order in which terms were made: arguments come first
        self.place = place  # in the text

    @property
    def plain(self) -> bool:
        """Whether it is computed from its arguments at the same token alone."""
        return self.op in PLAIN or self.op.startswith("map:")

    def __repr__(self) -> str:
        return shown(self)


class Pool:
    """All terms of a program."""

    def __init__(self) -> None:
        self.terms: list[Term] = []
        self._known: dict[Any, Term] = {}
        self.place = 0  # of the text that is being read

    def make(self, op: str, *args: Term, value: Any = None) -> Term:
        key = (op, tuple(arg.number for arg in args), value)
        found = self._known.get(key)
        if found is None:
            found = Term(op, args, value, len(self.terms), self.place)
            self.terms.append(found)
            self._known[key] = found
        return found

    def number(self, value: Any) -> Term:
        return self.make("number", value=Fraction(value))


_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "pow": "**"}
_SIGNS |= {"eq": "==", "lt": "<", "le": "<=", "and": "and", "or": "or"}


def shown(term: Term, side: str = "") -> str:
    """A term as text, much as a program says it."""
    at = f"[{side}]" if side else ""
    op, args = term.op, term.args
    if op == "number":
        value = term.value
        return str(value) if value.denominator == 1 else f"{float(value):.6g}"
    if op == "symbol":
        return repr(term.value)
    if op == "field":
        return f"{term.value}{at}"
    if op == "position":
        return side or "i"
    if op == "length":
        return "n"
    if op in ("i", "j"):
        return shown(args[0], op)
    if op in _SIGNS:
        return f"({shown(args[0], side)} {_SIGNS[op]} {shown(args[1], side)})"
    if op == "neg":
        return f"-{shown(args[0], side)}"
    if op == "not":
        return f"(not {shown(args[0], side)})"
    if op == "at":
        inner = f"{shown(args[0])}[{shown(args[1])}]"
        return f"({inner}){at}" if at else inner
    if op in AGGREGATES:
        name = op.removesuffix("_of")
        value, condition = args
        when = "" if condition.op == "number" else f" for {shown(condition)}"
        if op == "sum" and value.op == "number" and value.value == 1:
            return f"count({shown(condition)}){at}"
        return f"{name}({shown(value)}{when}){at}"
    if op == "sort":
        return f"sorted({shown(args[0])}, by={shown(args[1])})[{side or 'i'}]"
    if op == "table":
        return f"table({shown(args[0], side)}, {len(args) - 2} values)"
    inside = ", ".join(shown(arg, side if term.plain else "") for arg in args)
    return f"{op.removeprefix('map:')}({inside}){'' if term.plain else at}"


def graph_of(outputs: list[Term]) -> tuple[list[list[Any]], list[int]]:
    """Terms that outputs need, ready for JSON, arguments first: [op, places of arguments, value]; and the outputs."""
    needed: dict[int, Term] = {}
    pending = list(outputs)
    while pending:
        term = pending.pop()
        if term.number not in needed:
            needed[term.number] = term
            pending += term.args
    place = {number: k for k, number in enumerate(sorted(needed))}
    rows: list[list[Any]] = []
    for number in sorted(needed):
        term = needed[number]
        value = term.value
        if isinstance(value, Fraction):
            value = f"{value.numerator}/{value.denominator}"
        rows.append([term.op, [place[arg.number] for arg in term.args], value])
    return rows, [place[term.number] for term in outputs]
