"""The text of a program as trees, by binding powers. A second reading: nothing is shared with the one that built it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from softwright.checker.refusal import require

LONGEST, DEEPEST = 10_000, 80
PIECE = re.compile(
    r"[ \t\r]*(?:([;\n])|((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)|([A-Za-z_][A-Za-z_0-9]*)"
    r"|'([^'\n]+)'|\"([^\"\n]+)\"|(\*\*|//|<=|>=|==|!=|[-+*/%(),<>=\[\]]))"
)
COMPARE = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
BINARY = {"+": ("add", 5), "-": ("sub", 5), "*": ("mul", 6), "/": ("div", 6), "//": ("floordiv", 6), "%": ("mod", 6)}
WORDS = ("or", "and", "not", "if", "else", "for")


@dataclass
class Tree:
    """op: an operation, "number", "text", "name", "call", "item" (a[b]) or "list"."""

    op: str
    parts: list[Tree] = field(default_factory=list)
    word: str = ""
    condition: Tree | None = None
    options: dict[str, Tree] = field(default_factory=dict)


def pieces(text: str) -> list[tuple[str, str]]:
    """(kind, text) of every token."""
    require(len(text) <= LONGEST, "the program's text is too long")
    found, at = [], 0
    text = text.rstrip(" \t\r")
    while at < len(text):
        match = PIECE.match(text, at)
        require(match is not None, f"the program has a character that is none of its language at {at}")
        if match is None:
            break
        kind = ("end", "number", "name", "text", "text", "sign")[(match.lastindex or 1) - 1]
        found.append((kind, match.group(match.lastindex or 1)))
        at = match.end()
    return [*found, ("stop", "")]


class Reader:
    """Trees of a program's local names and outputs."""

    def __init__(self, text: str) -> None:
        self.pieces, self.at, self.depth = pieces(text), 0, 0
        self.names: list[tuple[str, Tree]] = []
        self.outputs: list[Tree] = []
        self._program()

    def _is(self, text: str, ahead: int = 0) -> bool:
        kind, found = self.pieces[min(self.at + ahead, len(self.pieces) - 1)]
        return found == text and kind in ("sign", "name")

    def _eat(self, text: str) -> bool:
        if self._is(text):
            self.at += 1
            return True
        return False

    def _must(self, text: str) -> None:
        require(self._eat(text), f"the program cannot be read: {text!r} is missing")

    def _skip(self) -> None:
        while self.pieces[self.at][0] == "end":
            self.at += 1

    def _program(self) -> None:
        self._skip()
        while self.pieces[self.at][0] == "name" and self._is("=", 1):
            name = self.pieces[self.at][1]
            self.at += 2
            self.names.append((name, self.value()))
            require(self.pieces[self.at][0] == "end", "the program cannot be read: a name's value has no end")
            self._skip()
        self.outputs.append(self.value())
        while self._eat(","):
            self.outputs.append(self.value())
        self._skip()
        require(self.pieces[self.at][0] == "stop", "the program cannot be read to its end")

    def value(self) -> Tree:
        found = self.expression(1)
        if self._eat("if"):
            condition = self.expression(1)
            self._must("else")
            found = Tree("where", [condition, found, self.value()])
        return found

    def expression(self, least: int) -> Tree:
        """Everything that binds at least so strongly: or 1, and 2, not 3, comparisons 4, sums 5, products 6."""
        self.depth += 1
        require(self.depth <= 6 * DEEPEST, "the program is nested too deeply")
        left = self._first(least)
        while True:
            kind, text = self.pieces[self.at]
            if kind == "name" and text in ("or", "and") and least <= (power := 1 if text == "or" else 2):
                self.at += 1
                left = Tree(text, [left, self.expression(power + 1)])
            elif kind == "sign" and text in COMPARE and least <= 4:
                left = self._chain(left)
            elif kind == "sign" and text in BINARY and least <= BINARY[text][1]:
                self.at += 1
                op, power = BINARY[text]
                left = Tree(op, [left, self.expression(power + 1)])
            else:
                self.depth -= 1
                return left

    def _first(self, least: int) -> Tree:
        if least <= 3 and self._eat("not"):
            return Tree("not", [self.expression(3)])
        if self._eat("-"):
            return Tree("neg", [self.expression(7)])
        if self._eat("+"):
            return self.expression(7)
        base = self._item()
        return Tree("pow", [base, self.expression(7)]) if self._eat("**") else base

    def _chain(self, left: Tree) -> Tree:
        found: Tree | None = None
        while self.pieces[self.at][0] == "sign" and self.pieces[self.at][1] in COMPARE:
            op = COMPARE[self.pieces[self.at][1]]
            self.at += 1
            right = self.expression(5)
            link = Tree(op, [left, right])
            found, left = (link if found is None else Tree("and", [found, link])), right
        return found or left

    def _item(self) -> Tree:
        found = self._atom()
        while self._eat("["):
            found = Tree("item", [found, self.value()])
            self._must("]")
        return found

    def _atom(self) -> Tree:
        kind, text = self.pieces[self.at]
        require(kind != "stop", "the program ends too early")
        self.at += 1
        if kind in ("number", "text"):
            return Tree(kind, word=text)
        if kind == "name" and text not in WORDS:
            return self._call(text) if self._eat("(") else Tree("name", word=text)
        if kind == "sign" and text == "(":
            found = self.value()
            self._must(")")
            return found
        require(kind == "sign" and text == "[", "the program cannot be read: a value is missing")
        parts = [self.value()]
        while self._eat(","):
            parts.append(self.value())
        self._must("]")
        return Tree("list", parts)

    def _call(self, name: str) -> Tree:
        found = Tree("call", word=name)
        while not self._eat(")"):
            if found.parts or found.options:
                self._must(",")
            if self.pieces[self.at][0] == "name" and self._is("=", 1):
                key = self.pieces[self.at][1]
                require(key not in found.options, "an option is given twice")
                self.at += 2
                found.options[key] = self.value()
                continue
            require(not found.options, "a value stands after an option")
            found.parts.append(self.value())
            if self._eat("for"):
                require(found.condition is None, "two conditions in one call")
                found.condition = self.expression(1)
        return found
