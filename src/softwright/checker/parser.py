"""The checker's own parser: text -> trees of ("name", argument, ...) tuples. It shares nothing with targets/.

    formula    = sum {"," sum}                                    several outputs
    sum        = product {("+" | "-") product}
    product    = signed {("*" | "/") signed}
    signed     = {"-" | "+"} power                                -x**2 is -(x**2)
    power      = atom ["**" signed]                               right associative
    atom       = number | variable | "pi" | "e" | "(" sum ")" | function "(" sum {"," sum} ")"
               | "where(" sum ("<" | "<=" | ">" | ">=") sum "," sum "," sum ")"

Sums and products are kept flat, ("sum", [(sign, term), ...]) and ("product", [(1 or -1 for inverse, factor), ...]), so
that a long formula is not a deep tree. where is ("where", a, b, strict, then, else): a > b if strict, else a >= b.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from flint import fmpq

LONGEST_TEXT, LONGEST_NUMBER, DEEPEST = 10_000, 400, 220


class NotProvedError(Exception):
    """The first thing found that keeps a certificate from being verified."""


class UndefinedError(NotProvedError):
    """The formula may be undefined somewhere in a box; smaller boxes may show that it is not."""


def require(condition: Any, reason: str) -> None:
    if not condition:
        raise NotProvedError(reason)


TOKEN = re.compile(r"\s*(?:((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*)|(\*\*|<=|>=|[-+*/(),<>]))", re.ASCII)
BINDING = {"+": 1, "-": 1, "*": 2, "/": 2, "**": 4}
NEGATION = 3  # between products and powers: -x**2 is -(x**2), -x*y is (-x)*y
ARGUMENTS = {
    "min": range(2, 1000),
    "max": range(2, 1000),
    "where": range(5, 6),
}  # where: left, right, strict, then, else
ONE_ARGUMENT = [
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "exp",
    "log",
    "sqrt",
    "abs",
    "sign",
    "erf",
]
ARGUMENTS |= {name: range(1, 2) for name in ONE_ARGUMENT}


class Parser:
    """Operator precedence; the tree is made of ("name", argument, ...) tuples, sums and products are kept flat."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        require(len(text) <= LONGEST_TEXT, f"the formula has {len(text)} characters, more than {LONGEST_TEXT}")
        self.names, self.tokens, position = list(names), [], 0
        text = text.rstrip()
        while position < len(text):
            match = TOKEN.match(text, position)
            if match is None:
                raise NotProvedError(f"the formula cannot be read at {text[position : position + 20]!r}")
            self.tokens.append(match.groups())
            position = match.end()
        self.tokens.append((None, None, "end"))
        self.tokens.reverse()  # the next token is the last
        self.depth = 0

    def ahead(self) -> str:
        return self.tokens[-1][2] or ""

    def take(self, *symbols: str) -> str:
        return self.tokens.pop()[2] if self.ahead() in symbols else ""

    def need(self, *symbols: str) -> str:
        require(self.ahead() in symbols, f"the formula cannot be read: {' or '.join(symbols)} expected")
        return self.take(*symbols)

    def outputs(self) -> list[Any]:
        found = [self.expression(1)]
        while self.take(","):
            found.append(self.expression(1))
        require(self.ahead() == "end", "the formula goes on after its end")
        return found

    def expression(self, binding: int) -> Any:
        self.depth += 1
        require(self.depth <= DEEPEST, f"the formula nests more than {DEEPEST} levels")
        sign = self.take("-", "+")
        left = self.expression(NEGATION) if sign else self.atom()
        left = ("sum", [(-1, left)]) if sign == "-" else left
        while BINDING.get(self.ahead(), 0) >= binding:
            symbol = self.need(*BINDING)
            right = self.expression(NEGATION if symbol == "**" else BINDING[symbol] + 1)
            if symbol == "**":
                left = ("pow", left, right)
                continue
            name, inverse = ("sum", "-") if symbol in "+-" else ("product", "/")
            chain = left[1] if left[0] == name else [(1, left)]
            left = (name, [*chain, (-1 if symbol == inverse else 1, right)])
        self.depth -= 1
        return left

    def atom(self) -> Any:
        number, name, symbol = self.tokens.pop()
        if number:
            return ("number", exact_decimal(number))
        if name in self.names:
            return ("variable", self.names.index(name))
        if name in ("pi", "e"):
            return (name,)
        require(name in ARGUMENTS or symbol == "(", f"the formula cannot be read at {name or symbol!r}")
        if name:
            self.need("(")
        arguments = [self.expression(1)]
        if name == "where":
            comparison = self.need("<", "<=", ">", ">=")
            arguments.append(self.expression(1))
            if comparison[0] == "<":  # first > second, or first >= second if not strict
                arguments.reverse()
            arguments.append(len(comparison) == 1)
        while name and self.take(","):
            arguments.append(self.expression(1))
        self.need(")")
        require(not name or len(arguments) in ARGUMENTS[name], f"wrong number of arguments of {name}")
        return (name, *arguments) if name else arguments[0]


def exact_decimal(text: str) -> fmpq:
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, decimals = mantissa.partition(".")
    require(len(text) <= LONGEST_NUMBER and abs(int(exponent or 0)) <= LONGEST_NUMBER, "a number is too long")
    return fmpq(int(whole + decimals)) * fmpq(10) ** (int(exponent or 0) - len(decimals))


def additive_terms(node: Any, sign: int = 1) -> list[tuple[int, Any]]:
    """The signed terms that remain when sums and negations are taken apart at the top."""
    if node[0] != "sum":
        return [(sign, node)]
    return [term for s, child in node[1] for term in additive_terms(child, s * sign)]


def rational_value(node: Any) -> fmpq | None:
    """The value of a constant subtree that uses only numbers, + - * /; None for anything else."""
    if node[0] == "number":
        return node[1]
    if node[0] not in ("sum", "product"):
        return None
    result = fmpq(0) if node[0] == "sum" else fmpq(1)
    for sign, child in node[1]:
        value = rational_value(child)
        if value is None or (node[0] == "product" and sign < 0 and value == 0):
            return None
        result = result + sign * value if node[0] == "sum" else result * value if sign > 0 else result / value
    return result


def renamed(term: Any, columns: list[int]) -> Any:
    """The term with its variables numbered as the part numbers them."""
    if isinstance(term, tuple) and term[0] == "variable":
        require(term[1] in columns, "a part leaves out a variable that its terms need")
        return ("variable", columns.index(term[1]))
    return type(term)(renamed(child, columns) for child in term) if isinstance(term, tuple | list) else term
