"""The checker's own parser: text -> trees (see `trees.py`). It shares nothing with targets/, and executes nothing.

    formula    = value {"," value}                                several outputs
    value      = sum ["if" condition "else" value]                a if c else b is where(c, a, b)
    condition  = both {"or" both}
    both       = one {"and" one}
    one        = {"not"} comparison
    comparison = sum ("<" | "<=" | ">" | ">=") sum {...}          0 < x <= 1 is 0 < x and x <= 1; or "(" condition ")"
    sum        = product {("+" | "-") product}
    product    = signed {("*" | "/") signed}
    signed     = {"-" | "+"} power                                -x**2 is -(x**2)
    power      = atom ["**" signed]                               right associative
    atom       = number | variable | "pi" | "e" | "(" value ")" | function "(" value {"," value} ")"
               | "where(" condition "," value "," value ")"

A name before "(" is a function, any other is a variable or a constant: files may call a variable `gamma`. Reading is by
precedence; each pending operator and each open parenthesis is one call of `expression`, and their number is limited.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from flint import fmpq

from softwright.checker.functions import FUNCTIONS
from softwright.checker.refusal import NotProvedError, UndefinedError, printable, require
from softwright.checker.trees import Tree, additive_terms, depth, rational_value, renamed

__all__ = [
    "NotProvedError",
    "Parser",
    "UndefinedError",
    "additive_terms",
    "exact_decimal",
    "printable",
    "rational_value",
    "renamed",
    "require",
]

LONGEST_TEXT, LONGEST_NUMBER = 10_000, 400
MOST_PENDING = 450  # calls of `expression` within each other
DEEPEST = 200  # levels of the tree: what walks it recursively takes two frames a level

TOKEN = re.compile(
    r"[ \t\r\n]*(?:((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"  # number
    r"|([A-Za-z_][A-Za-z_0-9]*)"
    r"|(\*\*|<=|>=|[-+*/(),<>]))"
)
NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
WORDS = ("and", "or", "not", "if", "else")
CONSTANTS = ("pi", "e")
COMPARISONS = ("<", "<=", ">", ">=")
CHOICE, OR, AND, NOT, COMPARISON, SUM, PRODUCT, NEGATION, POWER = range(9)
BINDING = {
    "if": CHOICE,
    "or": OR,
    "and": AND,
    **dict.fromkeys(COMPARISONS, COMPARISON),
    "+": SUM,
    "-": SUM,
    "*": PRODUCT,
    "/": PRODUCT,
    "**": POWER,
}
CONDITIONS = ("compare", "and", "or", "not")


class Parser:
    """Operator precedence over the tokens of one text."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        require(len(text) <= LONGEST_TEXT, f"the formula has {len(text)} characters, more than {LONGEST_TEXT}")
        for name in names:
            usable = NAME.fullmatch(name) and name not in WORDS + CONSTANTS
            require(usable, f"a variable cannot be called {printable(name, 80)!r}")
        self.names, self.tokens, position = list(names), [], 0
        text = text.rstrip(" \t\r\n")
        while position < len(text):
            match = TOKEN.match(text, position)
            if match is None:
                raise NotProvedError(f"the formula cannot be read at '{printable(text[position : position + 20])}'")
            number, name, symbol = match.groups()
            self.tokens.append((number, None, name) if name in WORDS else (number, name, symbol))
            position = match.end()
        self.tokens.append((None, None, "end"))
        self.tokens.reverse()  # the next token is the last
        self.pending = 0

    def ahead(self) -> str:
        return self.tokens[-1][2] or ""

    def take(self, *symbols: str) -> str:
        return self.tokens.pop()[2] if self.ahead() in symbols else ""

    def need(self, *symbols: str) -> str:
        require(self.ahead() in symbols, f"the formula cannot be read: {' or '.join(symbols)} expected")
        return self.take(*symbols)

    def outputs(self) -> list[Tree]:
        found = [value(self.expression(CHOICE))]
        while self.take(","):
            found.append(value(self.expression(CHOICE)))
        require(self.ahead() == "end", "the formula goes on after its end")
        for tree in found:
            require(depth(tree) <= DEEPEST, f"the formula nests more than {DEEPEST} operations")
        return found

    def expression(self, binding: int) -> Tree:
        """What follows, as far as operators bind at least as tightly as `binding`."""
        self.pending += 1
        require(self.pending <= MOST_PENDING, f"the formula nests more than {MOST_PENDING} levels")
        if sign := self.take("-", "+"):
            left = value(self.expression(NEGATION))
            left = ("sum", [(-1, left)]) if sign == "-" else left
        elif binding <= NOT and self.take("not"):
            left = ("not", condition(self.expression(NOT)))
        else:
            left = self.leaf()
            if left is None:
                name = self.tokens.pop()[1]  # of a function, or None for a parenthesis
                if name:
                    self.need("(")
                arguments = [self.expression(CHOICE)]
                while name and self.take(","):
                    arguments.append(self.expression(CHOICE))
                self.need(")")
                left = call(name, arguments) if name else arguments[0]
        while BINDING.get(self.ahead(), -1) >= binding:
            symbol = self.need(*BINDING)
            if symbol == "if":
                test = condition(self.expression(OR))
                self.need("else")
                left = ("where", test, value(left), value(self.expression(CHOICE)))
            elif symbol in ("and", "or"):
                right = condition(self.expression(BINDING[symbol] + 1))
                left = (symbol, [*(left[1] if left[0] == symbol else [condition(left)]), right])
            elif symbol in COMPARISONS:
                left = self.comparison(value(left), symbol)
            else:
                right = self.expression(NEGATION if symbol == "**" else BINDING[symbol] + 1)
                left = joined(value(left), symbol, value(right))
        self.pending -= 1
        return left

    def comparison(self, first: Tree, symbol: str) -> Tree:
        """a < b, or a chain a < b <= c, in which every operand stands once."""
        operands, symbols = [first, value(self.expression(SUM))], [symbol]
        while further := self.take(*COMPARISONS):
            symbols.append(further)
            operands.append(value(self.expression(SUM)))
        return ("compare", operands, symbols)

    def leaf(self) -> Tree | None:
        """A number, variable or constant; None if a function or a parenthesis opens here."""
        number, name, symbol = self.tokens[-1]
        if symbol == "(":
            return None
        if name and self.tokens[-2][2] == "(":  # the end mark follows every name
            require(name in FUNCTIONS, f"the formula uses {printable(name, 80)!r}, which is not a function")
            return None
        self.tokens.pop()
        if number:
            return ("number", exact_decimal(number))
        if name in self.names:
            return ("variable", self.names.index(name))
        require(name in CONSTANTS, f"the formula cannot be read at {printable(name or symbol or '', 80)!r}")
        return (name,)


def joined(left: Tree, symbol: str, right: Tree) -> Tree:
    if symbol == "**":
        return ("pow", left, right)
    name, inverse = ("sum", "-") if symbol in "+-" else ("product", "/")
    chain = left[1] if left[0] == name else [(1, left)]
    return (name, [*chain, (-1 if symbol == inverse else 1, right)])


def call(name: str, arguments: list[Tree]) -> Tree:
    row = FUNCTIONS[name]
    require(len(arguments) in row.arity, f"wrong number of arguments of {name}: {len(arguments)}")
    checked = [condition(a) if i < row.conditions else value(a) for i, a in enumerate(arguments)]
    return row.means(*checked) if row.means else (name, *checked)


def value(tree: Tree) -> Tree:
    require(tree[0] not in CONDITIONS, "the formula has a condition where a number is meant")
    return tree


def condition(tree: Tree) -> Tree:
    require(tree[0] in CONDITIONS, "the formula has a number where a condition is meant")
    return tree


def exact_decimal(text: str) -> Any:
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, decimals = mantissa.partition(".")
    require(len(text) <= LONGEST_NUMBER and abs(int(exponent or 0)) <= LONGEST_NUMBER, "a number is too long")
    return fmpq(int(whole + decimals)) * fmpq(10) ** (int(exponent or 0) - len(decimals))
