"""`parse`: the text of a formula to syntax trees, by operator precedence; nothing is ever executed.

    formula    = sum {"," sum}                                    several outputs
    sum        = product {("+" | "-") product}                    left associative
    product    = signed {("*" | "/") signed}                      left associative
    signed     = {"-" | "+"} power                                -x**2 is -(x**2)
    power      = atom ["**" signed]                               right associative, 2**-1 is allowed
    atom       = number | variable | "pi" | "e" | "(" sum ")" | function "(" sum {"," sum} ")"
    condition  = sum ("<" | "<=" | ">" | ">=") sum                only as the first argument of where(condition, a, b)

The parser keeps its own stack of pending operators and open parentheses instead of calling itself: its depth is then a
number that is checked and not the depth of Python's stack. Sums, products and min/max of very many terms are grouped in
halves (the value is the same real number), so that a sum of a thousand terms is a tree of depth forty.
"""

from __future__ import annotations

import difflib
import itertools
import keyword
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from softwright.targets.formula.balance import balance_chains, fold_halves
from softwright.targets.formula.enclosure import constant_intervals
from softwright.targets.formula.formatting import BINDING, COMPARISON, NEGATION, POWER, PRODUCT, SUM, format_node
from softwright.targets.formula.functions import OPERATIONS
from softwright.targets.formula.nodes import CONSTANTS, Constant, Node, Number, Operation, Variable
from softwright.targets.formula.tape import Tape
from softwright.targets.formula.tokens import LONGEST_TEXT, FormulaFaults, Token, tokenize
from softwright.targets.formula.values import fold_constants

__all__ = ["DEEPEST", "FUNCTIONS", "format_node", "parse"]

DEEPEST = 200  # levels of nesting, in the text and in the tree
FUNCTIONS: tuple[str, ...] = tuple(sorted(name for name in OPERATIONS if name not in BINDING))

_BINARY = {"+": "add", "-": "sub", "*": "mul", "/": "div", "**": "pow"}
_COMPARISONS = {"<": "less", "<=": "less_equal", ">": "less", ">=": "less_equal"}
_SYMBOL_BINDING = {
    **dict.fromkeys(_COMPARISONS, COMPARISON),
    "+": SUM,
    "-": SUM,
    "*": PRODUCT,
    "/": PRODUCT,
    "**": POWER,
}


def parse(text: str, names: Sequence[str] | None = None) -> tuple[Node, ...]:
    """The trees of a formula, one for each output; `names`, if given, are the only variables allowed.

    Raises `InvalidInput` that lists every fault found, each with a caret under its place in the text.
    """
    shown = text if isinstance(text, str) else repr(text)[:80]
    faults = FormulaFaults(shown)
    if not isinstance(text, str):
        faults.add(f"a formula is a string such as 'sin(x)*y', not {type(text).__name__}; put it in quotes")
    elif len(text) > LONGEST_TEXT:
        faults.add(
            f"{len(text)} characters exceed the limit of {LONGEST_TEXT}; use a Python callable for long formulas"
        )
    elif not text.strip():
        faults.add("the formula is empty; write for example 'sin(x)*y'")
    for name in names or ():
        if name in OPERATIONS or name in CONSTANTS:
            faults.add(f"the variable name {name!r} is the name of a function or constant; rename the variable")
    faults.raise_if_any()

    tokens = tokenize(text, faults)
    well_spelled = not faults.found
    _check_names(tokens, names, faults)
    trees: tuple[Node, ...] = ()
    if well_spelled:  # with foreign characters dropped, faults of structure would be guesses
        parser = _Parser(faults)
        trees = parser.run(tokens)
        faults.raise_if_any()
        trees = balance_chains(trees)
        _check_depth(trees, faults)
        faults.raise_if_any()
        _check_constants(trees, parser.places, faults)
    faults.raise_if_any()
    return trees


def _check_names(tokens: list[Token], names: Sequence[str] | None, faults: FormulaFaults) -> None:
    for token, following in itertools.pairwise(tokens):
        if token.kind != "name":
            continue
        name = token.text
        if following.text == "(":
            if name not in FUNCTIONS:
                product = f"; for a product write {name}*(...)" if names is not None and name in names else ""
                faults.at(
                    token.position,
                    f"unknown function {name!r}{_close_match(name, FUNCTIONS)}{product}; known: {', '.join(FUNCTIONS)}",
                )
        elif name in FUNCTIONS:
            faults.at(token.position, f"{name!r} is a function; give its argument in parentheses, {name}(...)")
        elif name.startswith("__"):
            faults.at(
                token.position, f"{name!r} cannot be a variable; names do not start with two underscores, rename it"
            )
        elif name in CONSTANTS:
            continue
        elif names is None and keyword.iskeyword(name):
            faults.at(token.position, f"{name!r} is a word of Python and not a variable; a formula has no statements")
        elif names is not None and name not in names:
            faults.at(
                token.position,
                f"unknown variable {name!r}{_close_match(name, names)}; the variables are {', '.join(names)}",
            )


def _close_match(name: str, known: Sequence[str]) -> str:
    # difflib takes quadratic time; nobody means `sin` by a name of a thousand letters.
    close = difflib.get_close_matches(name.lower(), known, n=1) if len(name) <= 30 else []
    return f" (did you mean {close[0]!r}?)" if close else ""


@dataclass(slots=True)
class _Operand:
    node: Node
    condition_at: int | None = None  # where the comparison sign stands, if the node is a condition


@dataclass(slots=True)
class _Pending:
    """An operator that waits for its right operand."""

    symbol: str
    binding: int
    position: int


@dataclass(slots=True)
class _Open:
    """An open parenthesis; `function` is None if it only groups. Operands from `base` on are its arguments."""

    function: str | None
    position: int
    base: int


class _StructureError(Exception):
    """The structure is broken at one place; what follows cannot be read."""


class _Parser:
    def __init__(self, faults: FormulaFaults) -> None:
        self.faults = faults
        self.operands: list[_Operand] = []
        self.stack: list[_Pending | _Open] = []
        self.opened = 0
        self.places: dict[int, int] = {}  # id of a node -> position in the text of its operator or name

    def run(self, tokens: list[Token]) -> tuple[Node, ...]:
        try:
            self._read(tokens)
        except _StructureError:
            return ()
        return tuple(self._value(operand) for operand in self.operands)

    def _stop(self, position: int, fault: str) -> _StructureError:
        self.faults.at(position, fault)
        return _StructureError()

    def _read(self, tokens: list[Token]) -> None:
        operand_expected = True
        index = 0
        while index < len(tokens):
            token = tokens[index]
            if not operand_expected:
                operand_expected = self._operator(token)
            elif token.kind == "name" and tokens[index + 1].text == "(":  # the end mark always follows a name
                self._open(_Open(token.text, token.position, len(self.operands)))
                index += 1
            else:
                operand_expected = self._operand(token)
            index += 1

    def _operand(self, token: Token) -> bool:
        """Take a token where a value must start; returns whether a value is still expected."""
        if token.kind == "number":
            self._push(Number(float(token.text), token.text), token.position)
            return False
        if token.kind == "name":
            self._push(Constant(token.text) if token.text in CONSTANTS else Variable(token.text), token.position)
            return False
        if token.text == "(":
            self._open(_Open(None, token.position, len(self.operands)))
        elif token.text == "-":
            self._wait("neg", NEGATION, token.position)
        elif token.text != "+":
            found = f"found {token.text!r}" if token.text else "the formula ends here"
            raise self._stop(token.position, f"a number, a variable or '(' must stand here; {found}")
        return True

    def _operator(self, token: Token) -> bool:
        """Take a token where a value has just ended; returns whether a value is expected next."""
        if token.text in _SYMBOL_BINDING:
            binding = _SYMBOL_BINDING[token.text]
            self._reduce(binding, right_associative=token.text == "**")
            self._wait(token.text, binding, token.position)
            return True
        if token.text == ",":
            self._reduce(COMPARISON)
            top = self.stack[-1] if self.stack else None
            if isinstance(top, _Open) and top.function is None:
                raise self._stop(
                    token.position, "',' stands only between outputs and arguments; remove the parentheses"
                )
            return True
        if token.text == ")":
            self._reduce(COMPARISON)
            self._close(token)
            return False
        if token.kind == "end":
            self._reduce(COMPARISON)
            if self.stack:
                raise self._stop(self.stack[-1].position, "this '(' is never closed; add ')'")
            return False
        before = "numbers are written without _, " if token.text.startswith("_") else ""
        raise self._stop(
            token.position, f"an operator is missing before {token.text!r}; {before}for a product write '*'"
        )

    def _push(self, node: Node, position: int, condition_at: int | None = None) -> None:
        self.places[id(node)] = position
        self.operands.append(_Operand(node, condition_at))

    def _wait(self, symbol: str, binding: int, position: int) -> None:
        # Every operator that waits will be an ancestor of what is read next: their number bounds the depth below.
        if len(self.stack) - self.opened >= DEEPEST:
            raise self._stop(position, f"nested more than {DEEPEST} levels deep; simplify the formula")
        self.stack.append(_Pending(symbol, binding, position))

    def _open(self, group: _Open) -> None:
        self.opened += 1
        if self.opened > DEEPEST:
            raise self._stop(group.position, f"nested more than {DEEPEST} levels deep; simplify the formula")
        self.stack.append(group)

    def _reduce(self, binding: int, right_associative: bool = False) -> None:
        """Apply the pending operators that bind at least as tightly as `binding`."""
        while self.stack:
            top = self.stack[-1]
            if isinstance(top, _Open) or top.binding < binding or (right_associative and top.binding == binding):
                return
            self.stack.pop()
            right = self.operands.pop()
            if top.symbol == "neg":
                self._push(Operation("neg", (self._value(right),)), top.position)
                continue
            left = self.operands.pop()
            if top.symbol in _COMPARISONS:
                if left.condition_at is not None:
                    fault = "comparisons cannot be chained; nest where(condition, a, b)"
                    raise self._stop(top.position, fault)
                sides = (self._value(left), self._value(right))
                if top.symbol.startswith(">"):
                    sides = (sides[1], sides[0])
                self._push(Operation(_COMPARISONS[top.symbol], sides), top.position, condition_at=top.position)
            else:
                node = Operation(_BINARY[top.symbol], (self._value(left), self._value(right)))
                self._push(node, top.position)

    def _close(self, token: Token) -> None:
        if not self.stack:
            raise self._stop(token.position, "this ')' closes nothing; remove it or add '('")
        group = self.stack.pop()
        if not isinstance(group, _Open):
            raise self._stop(token.position, "this ')' closes nothing; remove it or add '('")
        self.opened -= 1
        if group.function is None:
            return
        arguments = self.operands[group.base :]
        del self.operands[group.base :]
        self._push(self._call(group, arguments), group.position)

    def _call(self, group: _Open, arguments: list[_Operand]) -> Node:
        name = group.function or ""
        if name not in OPERATIONS:  # already reported; any value lets the reading go on
            return Number(0.0, "0")
        given = len(arguments)
        if name in ("min", "max"):
            if given < 2:
                self.faults.at(group.position, f"{name} needs 2 or more arguments, not {given}; separate them with ','")
                return Number(0.0, "0")
            return fold_halves(name, [self._value(argument) for argument in arguments])
        if given != OPERATIONS[name]:
            form = "where(condition, a, b)" if name == "where" else f"{name}(x)"
            self.faults.at(group.position, f"{name} takes {OPERATIONS[name]} arguments, not {given}; write {form}")
            return Number(0.0, "0")
        if name == "where":
            condition, one, other = arguments
            if condition.condition_at is None:
                fault = "the first argument of where must be a comparison; write for example where(x < 0, -x, x)"
                self.faults.at(group.position, fault)
            return Operation("where", (condition.node, self._value(one), self._value(other)))
        return Operation(name, (self._value(arguments[0]),))

    def _value(self, operand: _Operand) -> Node:
        """The operand's node; a condition is a fault wherever a number is meant."""
        if operand.condition_at is not None:
            fault = "a comparison stands only as the first argument of where; write where(condition, a, b)"
            self.faults.at(operand.condition_at, fault)
            return Number(0.0, "0")
        return operand.node


def _check_depth(trees: tuple[Node, ...], faults: FormulaFaults) -> None:
    depth: list[int] = []
    for _, arguments in Tape(trees).steps:
        depth.append(1 + max((depth[a] for a in arguments), default=0))
    if max(depth) > DEEPEST:
        faults.add(
            f"the formula nests {max(depth)} operations, more than {DEEPEST}; simplify it or use a Python callable"
        )


def _check_constants(trees: tuple[Node, ...], places: dict[int, int], faults: FormulaFaults) -> None:
    """Sub-expressions without variables must have a finite value: 1/0, log(-1) and 9**9**9**9 have none.

    float64 finds a finite tan(pi/2) and 1/sin(pi), since its pi is not pi; their enclosures are unbounded.
    """
    tape = Tape(trees)
    folded, ranges = fold_constants(tape), constant_intervals(tape)
    finite = {i: bool(np.isfinite(folded[i]) & np.isfinite(ranges[i]).all()) for i in folded}
    for index, value in folded.items():
        step = tape.steps[index]
        if finite[index] or not all(finite[a] for a in step.arguments):
            continue  # fine, or a consequence of a fault already listed
        pole = isinstance(step.node, Operation) and _is_pole(step.node.name, [folded[a] for a in step.arguments])
        what = "exceeds float64" if np.isinf(value) and not pole else "is undefined"
        part = textwrap.shorten(format_node(step.node), 60)
        faults.at(places.get(id(step.node), 0), f"{part} {what}; every constant part must be a finite number")


def _is_pole(name: str, arguments: list[float]) -> bool:
    return (name in ("div", "log") and arguments[-1] == 0.0) or (name == "pow" and arguments[0] == 0.0)
