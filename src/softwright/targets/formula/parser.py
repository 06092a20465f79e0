"""`parse`: the text of a formula to syntax trees, by operator precedence; nothing is ever executed.

    formula    = value {"," value}                                several outputs
    value      = sum ["if" condition "else" value]                a if c else b is where(c, a, b)
    sum        = product {("+" | "-") product}                    left associative
    product    = signed {("*" | "/") signed}                      left associative
    signed     = {"-" | "+"} power                                -x**2 is -(x**2)
    power      = atom ["**" signed]                               right associative, 2**-1 is allowed
    atom       = number | variable | "pi" | "e" | "(" value ")" | function "(" value {"," value} ")"
    condition  = both {"or" both}                                 after "if", and as the first argument of where
    both       = negated {"and" negated}
    negated    = {"not"} (comparison | "(" condition ")")
    comparison = sum {("<" | "<=" | ">" | ">=") sum}              0 < x <= 1 is 0 < x and x <= 1

The parser keeps its own stack of pending operators and open parentheses instead of calling itself: its depth is then a
number that is checked and not the depth of Python's stack. Sums, products and min/max of very many terms are grouped in
halves (the value is the same real number), so that a sum of a thousand terms is a tree of depth forty. `not` is carried
inward at once (not a < b is b <= a), so trees hold only `and` and `or`; defined functions are replaced by their
definitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from softwright.targets.formula.balance import balance_chains, fold_halves
from softwright.targets.formula.checks import (
    DEEPEST,
    FUNCTIONS,
    check_constants,
    check_depth,
    check_names,
    check_variables,
)
from softwright.targets.formula.definitions import DEFINED, expanded
from softwright.targets.formula.formatting import (
    AND,
    CHOICE,
    COMPARISON,
    NEGATION,
    NOT,
    OR,
    POWER,
    PRODUCT,
    SUM,
    format_node,
)
from softwright.targets.formula.functions import OPERATIONS
from softwright.targets.formula.nodes import CONSTANTS, Constant, Node, Number, Operation, Variable
from softwright.targets.formula.tape import Tape, postorder
from softwright.targets.formula.tokens import LONGEST_TEXT, FormulaFaults, Token, tokenize

__all__ = ["DEEPEST", "FUNCTIONS", "format_node", "parse", "read"]

_BINARY = {"+": "add", "-": "sub", "*": "mul", "/": "div", "**": "pow"}
_COMPARISONS = {"<": "less", "<=": "less_equal", ">": "less", ">=": "less_equal"}
_SYMBOL_BINDING = {
    "or": OR,
    "and": AND,
    **dict.fromkeys(_COMPARISONS, COMPARISON),
    "+": SUM,
    "-": SUM,
    "*": PRODUCT,
    "/": PRODUCT,
    "**": POWER,
}
_OPPOSITE = {"less": "less_equal", "less_equal": "less", "and": "or", "or": "and"}
_ZERO = Number(0.0, "0")  # in place of what was already reported, so that the reading can go on


class Reading(NamedTuple):
    """The trees of a formula and their tape; `rewritten` says that the text has forms which the trees do not have:
    defined functions, `not`, `a if c else b`, chained comparisons."""

    trees: tuple[Node, ...]
    tape: Tape
    rewritten: bool


def parse(text: str, names: Sequence[str] | None = None) -> tuple[Node, ...]:
    """The trees of a formula, one for each output; `names`, if given, are the only variables allowed.

    Raises `InvalidInput` that lists every fault found, each with a caret under its place in the text.
    """
    return read(text, names).trees


def read(text: str, names: Sequence[str] | None = None) -> Reading:
    """The same, with a word on what the trees do not show."""
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
    check_variables(names or (), faults)
    faults.raise_if_any()

    tokens = tokenize(text, faults)
    well_spelled = not faults.found
    check_names(tokens, names, faults)
    parser = _Parser(faults)
    # With foreign characters dropped, faults of structure would be guesses.
    trees = parser.run(tokens) if well_spelled else ()
    faults.raise_if_any()
    trees = balance_chains(trees)
    tape = Tape(trees)
    check_depth(tape, faults)
    faults.raise_if_any()
    check_constants(tape, parser.places, faults)
    faults.raise_if_any()
    return Reading(trees, tape, parser.rewritten)


@cache
def _definition(name: str) -> Node:
    return parse(DEFINED[name].text, DEFINED[name].parameters)[0]


@dataclass(slots=True)
class _Operand:
    node: Node
    condition_at: int | None = None  # where the sign or word stands that makes the node a condition, if it is one
    last: Node | None = None  # the right side of a comparison without parentheses, which another one may go on from


@dataclass(slots=True)
class _Pending:
    """An operator that waits for its right operand; of a choice, "if" waits for its "else"."""

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
        self.rewritten = False
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
            elif token.text == "not":
                self._wait("not", NOT, token.position)
            elif token.kind == "name" and tokens[index + 1].text == "(" and token.text not in _SYMBOL_BINDING:
                self._open(_Open(token.text, token.position, len(self.operands)))  # the end mark always follows a name
                index += 1
            else:
                operand_expected = self._operand(token)
            index += 1

    def _operand(self, token: Token) -> bool:
        """Take a token where a value must start; returns whether a value is still expected."""
        if token.kind == "number":
            self._push(Number(float(token.text), token.text), token.position)
            return False
        if token.kind == "name" and token.text not in (*_SYMBOL_BINDING, "if", "else"):
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
        if token.text in ("if", "else"):
            self._reduce(OR)
            top = self.stack[-1] if self.stack else None
            waiting = isinstance(top, _Pending) and top.symbol == "if"
            if waiting == (token.text == "if"):
                more = "put the inner choice in parentheses" if waiting else "write a if condition else b"
                raise self._stop(token.position, f"{token.text!r} cannot stand here; {more}")
            if waiting:
                self.stack.pop()
            self._wait(token.text, CHOICE, token.position)
            return True
        if token.text == ",":
            self._reduce(CHOICE)
            top = self.stack[-1] if self.stack else None
            if isinstance(top, _Open) and top.function is None:
                raise self._stop(
                    token.position, "',' stands only between outputs and arguments; remove the parentheses"
                )
            return True
        if token.text == ")":
            self._reduce(CHOICE)
            self._close(token)
            return False
        if token.kind == "end":
            self._reduce(CHOICE)
            if self.stack:
                raise self._stop(self.stack[-1].position, "this '(' is never closed; add ')'")
            return False
        before = "numbers are written without _, " if token.text.startswith("_") else ""
        raise self._stop(
            token.position, f"an operator is missing before {token.text!r}; {before}for a product write '*'"
        )

    def _push(self, node: Node, position: int, condition_at: int | None = None, last: Node | None = None) -> None:
        self.places[id(node)] = position
        self.operands.append(_Operand(node, condition_at, last))

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
            if top.symbol == "if":
                raise self._stop(top.position, "this 'if' has no 'else'; write a if condition else b")
            self.stack.pop()
            self._apply(top)

    def _apply(self, operator: _Pending) -> None:
        """Put an operator and its operands in place of the operands."""
        position, right = operator.position, self.operands.pop()
        if operator.symbol == "neg":
            self._push(Operation("neg", (self._value(right),)), position)
            return
        if operator.symbol == "not":
            self.rewritten = True
            self._push(_negated(self._condition(right, position)), position, condition_at=position)
            return
        left = self.operands.pop()
        if operator.symbol == "else":
            self.rewritten = True
            value = self.operands.pop()
            condition = self._condition(left, position)
            self._push(Operation("where", (condition, self._value(value), self._value(right))), position)
        elif operator.symbol in ("and", "or"):
            sides = (self._condition(left, position), self._condition(right, position))
            self._push(Operation(operator.symbol, sides), position, condition_at=position)
        elif operator.symbol in _COMPARISONS:
            first = left.last if left.last is not None else self._value(left)
            second = self._value(right)
            sides = (second, first) if operator.symbol.startswith(">") else (first, second)
            node = Operation(_COMPARISONS[operator.symbol], sides)
            if left.last is not None:  # 0 < x < 1: both, the middle once
                self.rewritten = True
                node = Operation("and", (left.node, node))
            self._push(node, position, condition_at=position, last=second)
        else:
            self._push(Operation(_BINARY[operator.symbol], (self._value(left), self._value(right))), position)

    def _close(self, token: Token) -> None:
        if not self.stack:
            raise self._stop(token.position, "this ')' closes nothing; remove it or add '('")
        group = self.stack.pop()
        if not isinstance(group, _Open):
            raise self._stop(token.position, "this ')' closes nothing; remove it or add '('")
        self.opened -= 1
        if group.function is None:
            self.operands[-1] = replace(self.operands[-1], last=None)
            return
        arguments = self.operands[group.base :]
        del self.operands[group.base :]
        self._push(self._call(group, arguments), group.position)

    def _call(self, group: _Open, arguments: list[_Operand]) -> Node:
        name = group.function or ""
        if name not in FUNCTIONS:  # already reported
            return _ZERO
        given = len(arguments)
        if name in ("min", "max"):
            if given < 2:
                self.faults.at(group.position, f"{name} needs 2 or more arguments, not {given}; separate them with ','")
                return _ZERO
            return fold_halves(name, [self._value(argument) for argument in arguments])
        wanted = len(DEFINED[name].parameters) if name in DEFINED else OPERATIONS[name]
        if given != wanted:
            form = _FORMS.get(name, f"{name}({'x' if wanted == 1 else 'x, y'})")
            self.faults.at(group.position, f"{name} takes {wanted} arguments, not {given}; write {form}")
            return _ZERO
        if name == "where":
            condition, one, other = arguments
            if condition.condition_at is None:
                fault = "the first argument of where must be a comparison; write for example where(x < 0, -x, x)"
                self.faults.at(group.position, fault)
            return Operation("where", (condition.node, self._value(one), self._value(other)))
        values = tuple(self._value(argument) for argument in arguments)
        if name not in DEFINED:
            return Operation(name, values)
        self.rewritten = True
        node = expanded(_definition(name), DEFINED[name].parameters, values)
        for part in postorder((node,)):
            self.places.setdefault(id(part), group.position)
        return node

    def _condition(self, operand: _Operand, position: int) -> Node:
        """The operand's node, which must be a condition."""
        if operand.condition_at is None:
            raise self._stop(position, "'and', 'or', 'not' and 'if' take conditions; write a comparison such as x < 0")
        return operand.node

    def _value(self, operand: _Operand) -> Node:
        """The operand's node; a condition is a fault wherever a number is meant."""
        if operand.condition_at is not None:
            fault = (
                "a comparison stands only as the first argument of where, or after 'if'; write where(condition, a, b)"
            )
            self.faults.at(operand.condition_at, fault)
            return _ZERO
        return operand.node


_FORMS = {"where": "where(condition, a, b)", "clip": "clip(x, low, high)"}


def _negated(condition: Node) -> Node:
    """The opposite condition: not a < b is b <= a, not (c and d) is (not c) or (not d)."""
    negated: dict[int, Node] = {}
    for node in postorder((condition,)):
        if isinstance(node, Operation) and node.name in ("and", "or"):
            negated[id(node)] = Operation(_OPPOSITE[node.name], tuple(negated[id(a)] for a in node.arguments))
        elif isinstance(node, Operation) and node.name in _OPPOSITE:
            negated[id(node)] = Operation(_OPPOSITE[node.name], node.arguments[::-1])
    return negated[id(condition)]
