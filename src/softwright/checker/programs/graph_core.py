"""`Graph`: values by number, equal ones once; arguments have smaller numbers than what is made of them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from softwright.checker.refusal import require

MOST = 20_000  # values
PLAIN = frozenset(
    [
        "add",
        "sub",
        "neg",
        "mul",
        "div",
        "floordiv",
        "mod",
        "pow",
        "abs",
        "min",
        "max",
        "where",
        "table",
        "eq",
        "lt",
        "le",
        "not",
        "and",
        "or",
    ]
)


class Graph:
    """Values by number; arguments have smaller numbers."""

    def __init__(self) -> None:
        self.op: list[str] = []
        self.args: list[tuple[int, ...]] = []
        self.constant: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def make(self, op: str, *args: int, constant: Any = None) -> int:
        key = (op, args, constant)
        number = self._numbers.get(key)
        if number is None:
            require(len(self.op) < MOST, "the program is too large")
            number = len(self.op)
            self._numbers[key] = number
            self.op.append(op)
            self.args.append(args)
            self.constant.append(constant)
        return number

    def number(self, value: Fraction | int) -> int:
        return self.make("number", constant=Fraction(value))

    def is_number(self, value: int) -> bool:
        return self.op[value] == "number"

    def folded(self, value: int) -> Fraction | None:
        """The number that a value is, signs included; None if it is none."""
        if self.is_number(value):
            return self.constant[value]
        if self.op[value] == "neg":
            inner = self.folded(self.args[value][0])
            return None if inner is None else -inner
        return None

    def quotient(self, value: int) -> Fraction | None:
        """The number that a value is, fractions such as -1/3 included."""
        if self.op[value] in ("neg", "div"):
            first, *others = (self.quotient(arg) for arg in self.args[value])
            below = others[0] if others else Fraction(-1)
            return None if first is None or not below else first / below
        return self.constant[value] if self.is_number(value) else None
