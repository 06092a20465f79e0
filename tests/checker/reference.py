"""A second opinion on formulas: Python's own grammar reads the text, mpmath computes it, in 60 digits.

Every function here is computed by other means than the checker's rule for it. `Undefined` where there is no value.
"""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import mpmath as mp
from flint import arb, fmpq

DIGITS = 60


class Undefined(Exception):
    """The formula has no real value at the point."""


def need(condition: Any, value: Callable[[], Any]) -> Any:
    if not condition:
        raise Undefined
    return value()


def power(a: Any, b: Any) -> Any:
    if mp.isint(b):
        return need(a != 0 or b >= 0, lambda: a ** int(b))
    return need(a > 0 or (a == 0 and b > 0), lambda: mp.power(a, b) if a > 0 else mp.mpf(0))


def ratio(a: Any, b: Any) -> Any:
    return need(b != 0, lambda: a / b)


ONE_ARGUMENT: dict[str, Callable[[Any], Any]] = {
    "sin": mp.sin,
    "cos": mp.cos,
    "tan": lambda x: ratio(mp.sin(x), mp.cos(x)),
    "sec": lambda x: ratio(1, mp.cos(x)),
    "csc": lambda x: ratio(1, mp.sin(x)),
    "cot": lambda x: ratio(mp.cos(x), mp.sin(x)),
    "asin": lambda x: need(abs(x) <= 1, lambda: mp.asin(x)),
    "acos": lambda x: need(abs(x) <= 1, lambda: mp.acos(x)),
    "atan": mp.atan,
    "sinh": mp.sinh,
    "cosh": mp.cosh,
    "tanh": mp.tanh,
    "coth": lambda x: need(x != 0, lambda: mp.coth(x)),
    "asinh": mp.asinh,
    "acosh": lambda x: need(x >= 1, lambda: mp.acosh(x)),
    "atanh": lambda x: need(abs(x) < 1, lambda: mp.atanh(x)),
    "exp": mp.exp,
    "exp2": lambda x: mp.power(2, x),
    "expm1": mp.expm1,
    "log": lambda x: need(x > 0, lambda: mp.log(x)),
    "ln": lambda x: need(x > 0, lambda: mp.log(x)),
    "log10": lambda x: need(x > 0, lambda: mp.log(x, 10)),
    "log2": lambda x: need(x > 0, lambda: mp.log(x, 2)),
    "log1p": lambda x: need(x > -1, lambda: mp.log1p(x)),
    "sqrt": lambda x: need(x >= 0, lambda: mp.sqrt(x)),
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "abs": abs,
    "sign": mp.sign,
    "sinc": mp.sinc,
    "erf": mp.erf,
    "erfc": mp.erfc,
    "normcdf": mp.ncdf,
    "normpdf": mp.npdf,
    "gamma": lambda x: need(x > 0, lambda: mp.gamma(x)),
    "lgamma": lambda x: need(x > 0, lambda: mp.loggamma(x)),
    "j0": lambda x: mp.besselj(0, x),
    "j1": lambda x: mp.besselj(1, x),
    "sigmoid": lambda x: (1 + mp.tanh(x / 2)) / 2 if x > 0 else mp.exp(x) / (1 + mp.exp(x)),
    "softplus": lambda x: x + mp.log1p(mp.exp(-x)) if x > 0 else mp.log1p(mp.exp(x)),
    "silu": lambda x: x / (1 + mp.exp(-x)),
    "gelu": lambda x: x * mp.ncdf(x),
    "relu": lambda x: x if x > 0 else mp.mpf(0),
    "floor": mp.floor,
    "ceil": mp.ceil,
    "round": mp.nint,
    "step": lambda x: mp.mpf(1 if x >= 0 else 0),
}
SEVERAL: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "clip": lambda x, low, high: min(max(x, low), high),
    "pow": power,
    "hypot": mp.hypot,
    "atan2": lambda y, x: need(x != 0 or y != 0, lambda: mp.atan2(y, x)),
    "mod": lambda a, b: need(b != 0, lambda: a - b * mp.floor(a / b)),
    "xlogy": lambda x, y: mp.mpf(0) if x == 0 else need(y > 0, lambda: x * mp.log(y)),
}
FUNCTIONS = ONE_ARGUMENT | SEVERAL
OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: ratio,
    ast.Pow: power,
}
COMPARISONS = {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge}


def evaluate(node: ast.AST, point: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return mp.mpf(repr(node.value))
    if isinstance(node, ast.Name):
        return point[node.id] if node.id in point else {"pi": mp.pi, "e": mp.e}[node.id] + mp.mpf(0)
    if isinstance(node, ast.UnaryOp):
        inner = evaluate(node.operand, point)
        return not inner if isinstance(node.op, ast.Not) else -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](evaluate(node.left, point), evaluate(node.right, point))
    if isinstance(node, ast.BoolOp):  # from left to right, as far as needed
        return (all if isinstance(node.op, ast.And) else any)(evaluate(child, point) for child in node.values)
    if isinstance(node, ast.Compare):
        left = evaluate(node.left, point)
        for op, child in zip(node.ops, node.comparators, strict=True):
            right = evaluate(child, point)
            if not COMPARISONS[type(op)](left, right):
                return False
            left = right
        return True
    if isinstance(node, ast.IfExp):
        return evaluate(node.body if evaluate(node.test, point) else node.orelse, point)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "where":
            test, one, other = node.args
            return evaluate(one if evaluate(test, point) else other, point)
        arguments = [evaluate(child, point) for child in node.args]
        return FUNCTIONS[node.func.id](*arguments)
    raise TypeError(ast.dump(node))


def value_of(text: str, point: Mapping[str, Any]) -> Any:
    """The formula's value at a point, as an mpmath number."""
    with mp.workdps(DIGITS):
        numbers = {name: mp.mpf(x) for name, x in point.items()}
        return evaluate(_parsed(text), numbers)


@functools.lru_cache(256)
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def ball(x: Any) -> arb:
    """An mpmath number as a ball that allows for mpmath's own rounding."""
    sign, mantissa, exponent, _ = x._mpf_
    exact = arb(fmpq(-mantissa if sign else mantissa)) * arb(2) ** exponent
    return exact + arb(0, 1) * abs(exact) * arb(10) ** -(DIGITS - 12)
