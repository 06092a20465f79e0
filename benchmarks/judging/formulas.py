"""Formulas by Python's own grammar (`ast`, nothing is executed), at points by NumPy and at points by balls."""

from __future__ import annotations

import ast
import keyword
import math
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from flint import arb
from scipy import special

from judging.claim import CannotJudge

FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    **{
        name: (getattr(np, name), lambda x, name=name: getattr(x, name)())
        for name in ("sin", "cos", "tan", "exp", "log", "sqrt", "sinh", "cosh", "tanh", "floor", "ceil")
    },
    "asin": (np.arcsin, lambda x: x.asin()),
    "acos": (np.arccos, lambda x: x.acos()),
    "acosh": (np.arccosh, lambda x: x.acosh()),
    "atan": (np.arctan, lambda x: x.atan()),
    "erf": (special.erf, lambda x: x.erf()),
    "abs": (np.abs, abs),
    "sign": (np.sign, lambda x: x.sgn()),
}
OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
}
COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
}


def safe(name: str) -> str:
    """A name that Python's grammar takes for a name."""
    return f"{name}_" if keyword.iskeyword(name) else name


class Formula:
    """A formula's outputs, at points or at balls."""

    def __init__(self, text: str, names: list[str]) -> None:
        self.text = re.sub(r"\b[A-Za-z_]\w*", lambda word: safe(word[0]), " ".join(text.split()))
        self.names = [safe(name) for name in names]
        try:
            body = ast.parse(self.text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise CannotJudge(f"no formula: {error}") from error
        self.outputs = body.elts if isinstance(body, ast.Tuple) else [body]

    @property
    def numbers(self) -> list[float]:
        """All numbers that are written in it: borders are among them, or near roots of them."""
        constants = (node for output in self.outputs for node in ast.walk(output) if isinstance(node, ast.Constant))
        return sorted({float(node.value) for node in constants if isinstance(node.value, (int, float))})

    def at_points(self, points: np.ndarray) -> np.ndarray:
        """(n, d) -> (n, m)"""
        variables = dict(zip(self.names, points.T, strict=True))
        with np.errstate(all="ignore"):
            columns = [np.broadcast_to(self._value(node, variables, 0), len(points)) for node in self.outputs]
        return np.stack(columns, axis=1)

    def at_ball(self, point: list[Any]) -> list[Any]:
        return [self._value(node, dict(zip(self.names, point, strict=True)), 1) for node in self.outputs]

    def _value(self, node: ast.expr, variables: dict[str, Any], way: int) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return arb(ast.get_source_segment(self.text, node) or "nan") if way else float(node.value)
        if isinstance(node, ast.Name):
            if node.id in variables:
                return variables[node.id]
            if node.id == "pi":
                return arb.pi() if way else math.pi
            if node.id == "e":
                return arb(1).exp() if way else math.e
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            value = self._value(node.operand, variables, way)
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return self._operation(node, variables, way)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self._call(node.func.id, node.args, variables, way)
        raise CannotJudge(f"{ast.unparse(node)} is not in this judge's grammar")

    def _call(self, name: str, arguments: list[ast.expr], variables: dict[str, Any], way: int) -> Any:
        if name == "where" and len(arguments) == 3:
            holds, one, other = self._holds(arguments[0], variables, way), *arguments[1:]
            if way:
                return self._value(one if holds else other, variables, way)
            return np.where(holds, self._value(one, variables, way), self._value(other, variables, way))
        values = [self._value(argument, variables, way) for argument in arguments]
        if name in FUNCTIONS and len(values) == 1:
            return FUNCTIONS[name][way](values[0])
        if name in ("max", "min") and values:
            largest, result = name == "max", values[0]
            for value in values[1:]:
                if way:
                    result = result.max(value) if largest else result.min(value)
                else:
                    result = (np.maximum if largest else np.minimum)(result, value)
            return result
        raise CannotJudge(f"{name} is not in this judge's grammar")

    def _holds(self, node: ast.expr, variables: dict[str, Any], way: int) -> Any:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self._holds(node.operand, variables, way)
            return not inner if way else ~inner
        if isinstance(node, ast.BoolOp):
            found = [self._holds(value, variables, way) for value in node.values]
            every = isinstance(node.op, ast.And)
            if way:
                return all(found) if every else any(found)
            return (np.logical_and if every else np.logical_or).reduce(np.broadcast_arrays(*found))
        if not isinstance(node, ast.Compare) or any(type(op) not in COMPARISONS for op in node.ops):
            raise CannotJudge(f"{ast.unparse(node)} is no condition of this judge's grammar")
        sides = [self._value(side, variables, way) for side in (node.left, *node.comparators)]
        steps = [self._compared(op, *pair, way) for op, pair in zip(node.ops, pairwise(sides), strict=True)]
        return all(steps) if way else np.logical_and.reduce(np.broadcast_arrays(*steps))

    @staticmethod
    def _compared(op: ast.cmpop, left: Any, right: Any, way: int) -> Any:
        holds = COMPARISONS[type(op)](left, right)
        other = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt}[type(op)]
        if way and not holds and not COMPARISONS[other](left, right):
            raise CannotJudge("a condition is not decided at a point")
        return holds

    def _operation(self, node: ast.BinOp, variables: dict[str, Any], way: int) -> Any:
        left, right = self._value(node.left, variables, way), self._value(node.right, variables, way)
        if way and isinstance(node.op, ast.Pow):
            whole = float(right.mid())
            if right.is_exact() and whole == int(whole):
                return left ** int(whole)
        return OPERATORS[type(node.op)](left, right)
