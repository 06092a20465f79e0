"""Partial derivatives of single operations over boxes: hulls at kinks, and the whole line across jumps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from softwright.checker.composition import curves
from softwright.checker.composition.dag import CONDITIONS, Dag, Node
from softwright.checker.composition.intervals import Interval


def partials(dag: Dag, number: int, values: dict[int, Interval]) -> list[tuple[int, Interval]]:
    """(argument, partial derivative by it); an argument that stands there twice is named twice."""
    node, value = dag[number], values[number]
    kind, arguments = node.kind, node.arguments
    count = len(value)
    x = [values[a] for a in arguments]
    one = Interval(np.ones(count), np.ones(count))
    if kind == "sum":
        return [(a, one if sign > 0 else -one) for sign, a in zip(node.payload, arguments, strict=True)]
    if kind == "product":
        return _product_partials(node, x)
    if kind == "pow":
        exponent = dag.rational(arguments[1])
        if exponent is not None and (exponent.q != 1 or abs(exponent.p) <= 10_000):
            return [(arguments[0], curves.power_slope(x[0], exponent))]
        by_base = value * x[1] * x[0].reciprocal()
        return [(arguments[0], by_base.known(x[0].lower > 0)), (arguments[1], value * x[0].log())]
    if kind in ("max", "min"):
        return _extreme_partials(node, x)
    if kind == "abs":
        return [(arguments[0], Interval(np.where(x[0].lower >= 0, 1.0, -1.0), np.where(x[0].upper <= 0, -1.0, 1.0)))]
    if kind == "hypot":
        unit = (-one).hull(one)
        ratios = [(a * value.reciprocal()).meet(unit).where(value.lower > 0, unit) for a in x]
        return list(zip(arguments, ratios, strict=True))
    if kind == "atan2":
        y, z = x
        smooth = (z.lower > 0) | (y.lower > 0) | (y.upper < 0) | ((z.upper < 0) & (y.lower >= 0))
        size = (y.square() + z.square()).reciprocal()
        return [(arguments[0], (z * size).known(smooth)), (arguments[1], (-y * size).known(smooth))]
    if kind == "xlogy":
        if arguments[0] == arguments[1]:
            return [(arguments[0], x[0].log().shifted(1.0).known(x[0].lower > 0))]
        positive = x[1].lower > 0
        return [(arguments[0], x[1].log().known(positive)), (arguments[1], (x[0] * x[1].reciprocal()).known(positive))]
    if kind == "where" or kind in CONDITIONS or kind in curves.ROUNDED or kind == "mod":
        return _jump_partials(dag, node, x, values)
    return [(arguments[0], curves.slopes(kind, x[0]))]


def _product_partials(node: Node, x: Sequence[Interval]) -> list[tuple[int, Interval]]:
    """The product of the others, times 1 or -1/f^2, by products from the left and from the right."""
    factors = [f if sign > 0 else f.reciprocal() for sign, f in zip(node.payload, x, strict=True)]
    one = Interval(np.ones(len(x[0])), np.ones(len(x[0])))
    left, right = [one], [one]
    for f, g in zip(factors[:-1], factors[:0:-1], strict=True):
        left.append(left[-1] * f)
        right.append(right[-1] * g)
    found = []
    for i, (sign, argument) in enumerate(zip(node.payload, node.arguments, strict=True)):
        partial = left[i] * right[len(x) - 1 - i]
        found.append((argument, partial if sign > 0 else -(partial * factors[i].square())))
    return found


def _extreme_partials(node: Node, x: Sequence[Interval]) -> list[tuple[int, Interval]]:
    sides = x if node.kind == "max" else [-a for a in x]
    found = []
    for i, (a, argument) in enumerate(zip(sides, node.arguments, strict=True)):
        others = [b for j, b in enumerate(sides) if j != i]
        sure = np.all([a.lower > b.upper for b in others], axis=0)
        never = np.any([a.upper < b.lower for b in others], axis=0)
        found.append((argument, Interval(np.where(sure, 1.0, 0.0), np.where(never, 0.0, 1.0))))
    return found


def _jump_partials(
    dag: Dag, node: Node, x: Sequence[Interval], values: dict[int, Interval]
) -> list[tuple[int, Interval]]:
    count = len(x[0])
    whole, zero = Interval.whole(count), Interval(np.zeros(count), np.zeros(count))
    one = Interval(np.ones(count), np.ones(count))
    if node.kind in CONDITIONS:  # reached only from a choice that is not certain
        return [(a, whole) for a in node.arguments]
    if node.kind == "where":
        truth = values[node.arguments[0]]
        sure, never = truth.lower == 1.0, truth.upper == 0.0
        jump = whole.where(~(sure | never), zero)
        first = one.where(sure, zero.where(never, whole))
        second = one.where(never, zero.where(sure, whole))
        return [(node.arguments[0], jump), (node.arguments[1], first), (node.arguments[2], second)]
    if node.kind == "mod":
        turns = curves.turns(x[0], x[1])
        sure = turns.lower == turns.upper
        return [(node.arguments[0], one.known(sure)), (node.arguments[1], (-turns).known(sure))]
    same = curves.ROUNDED[node.kind](x[0].lower) == curves.ROUNDED[node.kind](x[0].upper)
    return [(node.arguments[0], zero.known(same))]
