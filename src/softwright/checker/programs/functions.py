"""Elementary functions of programs: their names, trees of functions of one value, ranges, and values in balls.

`tree` writes a value that depends on one other alone as a tree of checker/trees.py in variable 0; functions that are
written out as others are in DEFINED, a second time.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, ctx, fmpq

from softwright.checker.composition.curves import power, values
from softwright.checker.composition.intervals import Interval, above, below
from softwright.checker.functions import CURVES
from softwright.checker.programs.graph_core import Graph
from softwright.checker.refusal import require
from softwright.checker.trees import Tree

MAPS = frozenset(CURVES) | {"sqrt", "ln"}
SAME = {"ln": "log"}
BITS = 240
STEEPEST = 64  # of exponents


def is_map(op: str) -> bool:
    return op.startswith("map:") and op[4:] in MAPS


def exact(x: Fraction) -> fmpq:
    return fmpq(x.numerator, x.denominator)


def _mean(graph: Graph, a: int) -> int:
    return graph.make("mean", graph.make("j", a), graph.number(1))


def _logsumexp(graph: Graph, a: int) -> int:
    inner = graph.make("map:log", _mean(graph, graph.make("map:exp", a)))
    return graph.make("add", inner, graph.make("map:log", graph.make("length")))


def _softmax(graph: Graph, a: int) -> int:
    return graph.make("map:exp", graph.make("sub", a, _logsumexp(graph, a)))


def _variance(graph: Graph, a: int) -> int:
    off = graph.make("sub", a, _mean(graph, a))
    return _mean(graph, graph.make("mul", off, off))


DEFINED: dict[str, Callable[[Graph, int], int]] = {
    "relu": lambda graph, a: graph.make("max", a, graph.number(0)),
    "logsumexp": _logsumexp,
    "softmax": _softmax,
    "var": _variance,
}


def tree(graph: Graph, value: int, leaf: int) -> Tree:
    """A value as a function of a leaf; refused if it depends on anything else, or is not smooth."""
    if value == leaf:
        return ("variable", 0)
    op, args = graph.op[value], graph.args[value]
    if op == "number":
        return ("number", exact(graph.constant[value]))
    if op == "pow":
        exponent = graph.folded(args[1])
        require(exponent is not None and abs(exponent) <= STEEPEST, "a power that is not known")
        return ("pow", tree(graph, args[0], leaf), ("number", exact(exponent or Fraction(0))))
    require(op in ("add", "sub", "neg", "mul", "div") or is_map(op), "a curve depends on more than its leaf")
    parts = [tree(graph, arg, leaf) for arg in args]
    if op in ("add", "sub"):
        return ("sum", [(1, parts[0]), (1 if op == "add" else -1, parts[1])])
    if op == "neg":
        return ("sum", [(-1, parts[0])])
    if op in ("mul", "div"):
        return ("product", [(1, parts[0]), (1 if op == "mul" else -1, parts[1])])
    return (SAME.get(op[4:], op[4:]), parts[0])


def interval(low: Fraction, high: Fraction) -> Interval:
    """A range as floats, rounded outwards."""
    with ctx.workprec(BITS):
        return Interval(np.array([below(arb(exact(low)))]), np.array([above(arb(exact(high)))]))


def fractions(found: Interval, defined: np.ndarray) -> tuple[Fraction, Fraction] | None:
    """The ends of an interval; None where nothing is known."""
    ends = float(found.lower[0]), float(found.upper[0])
    known = bool(defined.all()) and np.isfinite(ends[0]) and np.isfinite(ends[1])
    return (Fraction(ends[0]), Fraction(ends[1])) if known else None


def map_range(op: str, low: Fraction, high: Fraction) -> tuple[Fraction, Fraction] | None:
    """The range of map:f over an interval; None where f may be undefined."""
    return fractions(*values(SAME.get(op[4:], op[4:]), interval(low, high)))


def power_range(low: Fraction, high: Fraction, exponent: Fraction) -> tuple[Fraction, Fraction] | None:
    return fractions(*power(interval(low, high), exact(exponent)))


def ball_value(graph: Graph, value: int, given: dict[int, Fraction], plain: Callable[[int], Fraction]) -> arb:
    """A value of elementary functions where some values are given; `plain` gives those without any."""
    op, args = graph.op[value], graph.args[value]
    if value in given or not has_map(graph, value):
        return arb(exact(plain(value)))
    parts = [ball_value(graph, arg, given, plain) for arg in args]
    if op == "pow":
        exponent = graph.folded(args[1])
        require(exponent is not None, "a power that is not known")
        return _power(parts[0], exponent or Fraction(0))
    rules: dict[str, Callable[[], Any]] = {
        "add": lambda: parts[0] + parts[1],
        "sub": lambda: parts[0] - parts[1],
        "neg": lambda: -parts[0],
        "mul": lambda: parts[0] * parts[1],
        "div": lambda: parts[0] / parts[1],
        "max": lambda: parts[0].max(parts[1]),
        "min": lambda: parts[0].min(parts[1]),
        "abs": lambda: abs(parts[0]),
    }
    if op in rules:
        return rules[op]()
    require(is_map(op), "a table's value depends on what it does not look up")
    name = SAME.get(op[4:], op[4:])
    return parts[0].sqrt() if name == "sqrt" else CURVES[name].point(parts[0])


def _power(base: arb, exponent: Fraction) -> arb:
    if exponent.denominator == 1:
        whole = base ** abs(int(exponent))
        return whole if exponent >= 0 else 1 / whole
    require(base > 0, "a power of what is not positive")
    return (arb(exact(exponent)) * base.log()).exp()


def has_map(graph: Graph, value: int) -> bool:
    """Whether a value takes irrational values at rational arguments, as far as its operations say."""
    op, args = graph.op[value], graph.args[value]
    if is_map(op):
        return True
    if op == "pow":
        exponent = graph.folded(args[1])
        if exponent is not None and (exponent.denominator != 1 or exponent < 0):
            return True
    plain = op in ("add", "sub", "neg", "mul", "div", "pow", "max", "min", "abs")
    return plain and any(has_map(graph, arg) for arg in args)
