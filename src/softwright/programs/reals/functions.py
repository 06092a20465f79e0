"""Elementary functions of programs: which there are, a term as a formula in one variable, and its range.

Every smooth function of one variable that formulas have is a function of programs: `map:sin` and its like. A plain term
that depends on one other term alone, its leaf, is a function of one variable: `node_of` writes it as a tree of the
language of formulas in `u`, which tables are fitted to and proved against.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb, fmpq

from softwright.compiler.nodes import (
    ELEMENTARY,
    Expression,
    Interval,
    Node,
    Operation,
    Variable,
    differentiate,
    evaluate,
    number,
    of,
    precision,
)
from softwright.programs.terms import Term
from softwright.targets.formula.definitions import DEFINED

_SMOOTH_DEFINED = ("ln", "log2", "log10", "exp2", "sec", "csc", "coth", "normpdf", "normcdf")
MAPS: tuple[str, ...] = tuple(
    sorted(
        {
            *(row.name for row in ELEMENTARY.values() if len(row.slopes) == 1 and row.kink is None and not row.jump),
            *(name for name in _SMOOTH_DEFINED if name in DEFINED),
        }
    )
)
U = Variable("u")
_BITS = 240


def is_map(op: str) -> bool:
    return op.startswith("map:")


def node_of(term: Term, given: Mapping[int, Node]) -> Node:
    """A plain term as a tree, where the terms of these numbers are these trees."""
    if term.number in given:
        return given[term.number]
    if term.op == "number":
        return number(term.value)
    arguments = [node_of(arg, given) for arg in term.args]
    if is_map(term.op):
        return called(term.op.removeprefix("map:"), arguments[0])
    return of(term.op, *arguments)


def called(name: str, argument: Node) -> Node:
    if name not in DEFINED:
        return of(name, argument)
    return put(_definition(name), argument)


@lru_cache(maxsize=64)
def _definition(name: str) -> Node:
    return Expression(DEFINED[name].text, names=list(DEFINED[name].parameters)).nodes[0]


def put(node: Node, argument: Node) -> Node:
    """A tree of one variable at an argument."""
    if isinstance(node, Variable):
        return argument
    if isinstance(node, Operation):
        return Operation(node.name, tuple(put(part, argument) for part in node.arguments))
    return node


def in_numpy(name: str, x: np.ndarray) -> np.ndarray:
    """A function of an array, in its own precision where NumPy has it."""
    if name in ELEMENTARY:
        return _numpy(name, x)
    return np.asarray(_by_numpy(_definition(name), x))


def _by_numpy(node: Node, x: np.ndarray) -> np.ndarray:
    if isinstance(node, Variable):
        return x
    if not isinstance(node, Operation):
        middle = value_between(node, Fraction(0)) or (Fraction(0), Fraction(0))
        top = np.longdouble(float(middle[0]))
        return np.asarray(top + np.longdouble(float(middle[0] - Fraction(float(middle[0])))))
    a = [_by_numpy(part, x) for part in node.arguments]
    plain = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power}
    if node.name in plain:
        return np.asarray(plain[node.name](a[0], a[1]))
    return -a[0] if node.name == "neg" else _numpy(node.name, a[0])


def _numpy(name: str, x: np.ndarray) -> np.ndarray:
    try:
        return np.asarray(ELEMENTARY[name].numpy(x))
    except TypeError:  # a function of SciPy, which has no more than float64
        return np.asarray(ELEMENTARY[name].numpy(x.astype(float)))


def range_of(name: str, low: Fraction, high: Fraction) -> tuple[Fraction, Fraction] | None:
    """The range of a function over an interval, rounded outwards; None if it may be undefined there."""
    expression = _expression(name)
    ends = np.array([[below(low)]]), np.array([[above(high)]])
    lower, upper, defined = expression.enclose(*ends)
    good = bool(defined.all()) and np.isfinite(lower).all() and np.isfinite(upper).all()
    return (Fraction(float(lower[0, 0])), Fraction(float(upper[0, 0]))) if good else None


def power_range(low: Fraction, high: Fraction, exponent: Fraction) -> tuple[Fraction, Fraction] | None:
    """The same of u^q."""
    expression = Expression.from_nodes([of("pow", U, number(exponent))], ("u",))
    lower, upper, defined = expression.enclose(np.array([[below(low)]]), np.array([[above(high)]]))
    good = bool(defined.all()) and np.isfinite(lower).all() and np.isfinite(upper).all()
    return (Fraction(float(lower[0, 0])), Fraction(float(upper[0, 0]))) if good else None


@lru_cache(maxsize=64)
def _expression(name: str) -> Expression:
    return Expression.from_nodes([called(name, U)], ("u",))


def enclosed(node: Node, low: float, high: float, pieces: int = 256) -> tuple[float, float] | None:
    """A range of a tree in `u`, over pieces of [low, high]; None if it may be undefined."""
    edges = np.clip(np.linspace(low, high, pieces + 1), low, high)
    edges[0], edges[-1] = low, high
    lower, upper, defined = Expression.from_nodes([node], ("u",)).enclose(edges[:-1, None], edges[1:, None])
    if not defined.all() or not (np.isfinite(lower).all() and np.isfinite(upper).all()):
        return None
    found = Interval(lower[:, 0], upper[:, 0])
    return float(found.lower.min()), float(found.upper.max())


def steepest(node: Node, low: float, high: float) -> Fraction | None:
    """A bound of |dF/du| over [low, high]; None if none is found."""
    found = enclosed(differentiate(node, "u"), low, high)
    return None if found is None else Fraction(max(abs(found[0]), abs(found[1])))


def value_at_number(op: str, at: Fraction, exponent: Fraction) -> Fraction | None:
    """map:f or a power at an exact argument, to 240 bits; None if there is no such value."""
    found = value_between(of("pow", U, number(exponent)) if op == "pow" else called(op.removeprefix("map:"), U), at)
    return None if found is None else found[0]


def value_between(node: Node, at: Fraction) -> tuple[Fraction, Fraction] | None:
    """A rational number near a tree's value at an exact argument, and how near; None if there is no such value."""
    with precision(_BITS):
        ball = evaluate(node, {"u": arb(fmpq(at.numerator, at.denominator))})
        if not ball.is_finite():
            return None
        mantissa, exponent = ball.mid().man_exp()
        radius, by = ball.rad().man_exp()
    middle = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    return middle, Fraction(int(radius)) * Fraction(2) ** int(by)


def below(x: Fraction) -> float:
    """A float that is no larger."""
    near = float(x)
    return near if Fraction(near) <= x else math.nextafter(near, -math.inf)


def above(x: Fraction) -> float:
    """A float that is no smaller."""
    near = float(x)
    return near if Fraction(near) >= x else math.nextafter(near, math.inf)
