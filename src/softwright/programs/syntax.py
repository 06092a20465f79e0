"""`read_program`: the text of a program as a tree of what stands where; nothing is executed.

    program    = {name "=" value (";" | newline)} value {"," value}       local names, then the outputs
    value      = any ["if" any "else" value]
    any        = all {"or" all}        all = not {"and" not}        not = {"not"} comparison
    comparison = sum {("<" | "<=" | ">" | ">=" | "==" | "!=") sum}          a < b < c is a < b and b < c
    sum        = product {("+" | "-") product}
    product    = signed {("*" | "/" | "//" | "%") signed}
    signed     = {"-" | "+"} power                                        power = item ["**" signed]
    item       = atom {"[" value "]"}                                     x[j], x[i], x[n-1-i], count(...)[j]
    atom       = number | 'symbol' | name | "(" value ")" | "[" value {"," value} "]" | name "(" arguments ")"
    arguments  = value ["for" any] {"," (value | name "=" value)}

The tokens are those of formulas and five more: brackets, '=', '==', '!=', '//', '%', ';' and symbols in quotes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from softwright.targets.formula.tokens import LONGEST_TEXT, FormulaFaults, Token

DEEPEST = 60
_TOKEN = re.compile(
    r"(?P<space>[ \t\r]+)|(?P<end>[;\n]+)"
    r"|(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<text>'[^'\n]+'|\"[^\"\n]+\")"
    r"|(?P<symbol>\*\*|//|<=|>=|==|!=|[-+*/%(),<>=\[\]])"
)
_CHAIN = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
_SUM = {"+": "add", "-": "sub"}
_PRODUCT = {"*": "mul", "/": "div", "//": "floordiv", "%": "mod"}
_WORDS = ("for", "if", "else", "and", "or", "not")


@dataclass(frozen=True, eq=False)
class Syntax:
    """A node: `op` is an operation, "number", "text", "name", "call", "subscript" or "list"."""

    op: str
    args: tuple[Syntax, ...] = ()
    value: str = ""
    position: int = 0
    condition: Syntax | None = None  # what stands after "for"
    options: dict[str, Syntax] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """Local names in order, and the outputs."""

    text: str
    locals: tuple[tuple[str, Syntax], ...]
    outputs: tuple[Syntax, ...]


class _BrokenError(Exception):
    """The structure is broken at one place; what follows cannot be read."""


def read_program(text: str) -> Program:
    """The tree of a program; `InvalidInput` with a caret under the place of what cannot be read."""
    faults = FormulaFaults(text if isinstance(text, str) else repr(text)[:80])
    if not isinstance(text, str) or not text.strip():
        faults.add("a program is a text such as 'sum(x[j] for j <= i)'; give one in quotes")
    elif len(text) > LONGEST_TEXT:
        faults.add(f"{len(text)} characters exceed the limit of {LONGEST_TEXT}; split the program")
    faults.raise_if_any()
    tokens = _tokens(text, faults)
    faults.raise_if_any()
    reader = _Reader(tokens, faults)
    try:
        program = reader.program(text)
    except _BrokenError:
        program = None
    faults.raise_if_any()
    if program is None:
        raise AssertionError("a broken structure leaves a fault")
    return program


def _tokens(text: str, faults: FormulaFaults) -> list[Token]:
    tokens, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            faults.at(position, f"{text[position]!a} has no meaning here; remove it, or put a symbol in quotes")
            position += 1
            continue
        kind = str(match.lastgroup)
        if kind != "space":
            tokens.append(Token(kind, match.group(), position))
        position = match.end()
    tokens.append(Token("stop", "", len(text)))
    return tokens


class _Reader:
    def __init__(self, tokens: list[Token], faults: FormulaFaults) -> None:
        self.tokens, self.faults, self.at, self.depth = tokens, faults, 0, 0

    @property
    def now(self) -> Token:
        return self.tokens[self.at]

    def take(self, *texts: str) -> Token | None:
        token = self.now
        if token.kind in ("symbol", "name") and token.text in texts:
            self.at += 1
            return token
        return None

    def stop(self, fault: str) -> _BrokenError:
        found = f"found {self.now.text!r}" if self.now.text.strip() else "the program ends here"
        self.faults.at(self.now.position, f"{fault}; {found}")
        return _BrokenError()

    def program(self, text: str) -> Program:
        names: list[tuple[str, Syntax]] = []
        while True:
            while self.now.kind == "end":
                self.at += 1
            after = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
            if self.now.kind == "name" and after.kind == "symbol" and after.text == "=":
                name = self.now.text
                self.at += 2
                names.append((name, self.value()))
                if self.now.kind != "end":
                    raise self.stop(f"after the value of {name!r} a ';' or a new line must follow, then the output")
                continue
            outputs = [self.value()]
            while self.take(","):
                outputs.append(self.value())
            while self.now.kind == "end":
                self.at += 1
            if self.now.kind != "stop":
                raise self.stop("the program should end here; put ',' between outputs")
            return Program(text, tuple(names), tuple(outputs))

    def value(self) -> Syntax:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.stop(f"more than {DEEPEST} values inside each other; give parts a name, b = ...")
        found = self.any()
        if token := self.take("if"):
            condition = self.any()
            if not self.take("else"):
                raise self.stop("'else' must follow: a if condition else b")
            found = Syntax("where", (condition, found, self.value()), position=token.position)
        self.depth -= 1
        return found

    def any(self) -> Syntax:
        found = self.all()
        while token := self.take("or"):
            found = Syntax("or", (found, self.all()), position=token.position)
        return found

    def all(self) -> Syntax:
        found = self.negation()
        while token := self.take("and"):
            found = Syntax("and", (found, self.negation()), position=token.position)
        return found

    def negation(self) -> Syntax:
        if token := self.take("not"):
            self.depth += 1
            if self.depth > DEEPEST:
                raise self.stop(f"more than {DEEPEST} values inside each other")
            found = Syntax("not", (self.negation(),), position=token.position)
            self.depth -= 1
            return found
        return self.comparison()

    def comparison(self) -> Syntax:
        left, found = self.sum(), None
        first = left
        while token := self.take(*_CHAIN):
            right = self.sum()
            link = Syntax(_CHAIN[token.text], (left, right), position=token.position)
            found = link if found is None else Syntax("and", (found, link), position=token.position)
            left = right
        return first if found is None else found

    def sum(self) -> Syntax:
        found = self.product()
        while token := self.take(*_SUM):
            found = Syntax(_SUM[token.text], (found, self.product()), position=token.position)
        return found

    def product(self) -> Syntax:
        found = self.signed()
        while token := self.take(*_PRODUCT):
            found = Syntax(_PRODUCT[token.text], (found, self.signed()), position=token.position)
        return found

    def signed(self) -> Syntax:
        if token := self.take("-", "+"):
            self.depth += 1
            if self.depth > DEEPEST:
                raise self.stop(f"more than {DEEPEST} values inside each other")
            inner = self.signed()
            self.depth -= 1
            return Syntax("neg", (inner,), position=token.position) if token.text == "-" else inner
        base = self.item()
        if token := self.take("**"):
            return Syntax("pow", (base, self.signed()), position=token.position)
        return base

    def item(self) -> Syntax:
        found = self.atom()
        while token := self.take("["):
            index = self.value()
            if not self.take("]"):
                raise self.stop("']' must close the bracket")
            found = Syntax("subscript", (found, index), position=token.position)
        return found

    def atom(self) -> Syntax:
        token = self.now
        if token.kind in ("number", "text"):
            self.at += 1
            value = token.text if token.kind == "number" else token.text[1:-1]
            return Syntax(token.kind, value=value, position=token.position)
        if token.kind == "name" and token.text not in _WORDS:
            self.at += 1
            return self.call(token) if self.take("(") else Syntax("name", value=token.text, position=token.position)
        if self.take("("):
            found = self.value()
            if not self.take(")"):
                raise self.stop("')' must close the parenthesis")
            return found
        if self.take("["):
            items = [self.value()]
            while self.take(","):
                items.append(self.value())
            if not self.take("]"):
                raise self.stop("']' must close the list")
            return Syntax("list", tuple(items), position=token.position)
        raise self.stop("a number, a field, a symbol in quotes or '(' must stand here")

    def call(self, name: Token) -> Syntax:
        args: list[Syntax] = []
        options: dict[str, Syntax] = {}
        condition = None
        while not self.take(")"):
            if (args or options) and not self.take(","):
                raise self.stop("',' or ')' must stand here")
            after = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
            if self.now.kind == "name" and after.kind == "symbol" and after.text == "=":
                key = self.now.text
                if key in options:
                    raise self.stop(f"{key!r} is given twice")
                self.at += 2
                options[key] = self.value()
                continue
            if options:
                raise self.stop("values must stand before what is given by name")
            args.append(self.value())
            if self.take("for"):
                if condition is not None:
                    raise self.stop("one 'for' is enough; join conditions by 'and'")
                condition = self.any()
        return Syntax("call", tuple(args), name.text, name.position, condition, options)
