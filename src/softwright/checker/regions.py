"""The part of a box for which a branch is asked, and signs there that bounds alone do not show.

where(x >= 1, sqrt(x**2 - 1), 0) asks for the root at x >= 1 alone. On a box that reaches below 1 its argument is
negative somewhere, so the branch is looked at on the sub-box with x >= 1: a fact a x + b >= 0 on one variable cuts it
at -b/a, exactly.

There the argument touches 0, and balls cannot tell 0 from a little less. A function whose partial derivatives, in ball
arithmetic over the whole sub-box, have one sign each is smallest at one corner of it; its value there is computed from
rational numbers, exactly, or in balls.

    bounded     what functions on a closed interval are told of their arguments
    region      what the facts leave of the box, in rational numbers; None if nothing
    reaches     whether u >= c all over a region, by its slopes and a corner
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flint import arb, fmpq

from softwright.checker.functions import CURVES
from softwright.checker.guards import Fact
from softwright.checker.series import hull
from softwright.checker.trees import Tree, rational_value

if TYPE_CHECKING:
    from softwright.checker.taylor import Model

Region = list[tuple[fmpq, fmpq]]
ONE, MINUS = fmpq(1), fmpq(-1)
# Functions on a closed interval, and its ends: the argument (the first one) may touch them.
CLOSED: dict[str, tuple[fmpq | None, fmpq | None]] = {
    **dict.fromkeys(("sqrt", "pow", "xlogy"), (fmpq(0), None)),
    **dict.fromkeys(("asin", "acos"), (MINUS, ONE)),
    "acosh": (ONE, None),
}


def exactly(x: arb) -> fmpq:
    """An exact finite ball as a rational number."""
    mantissa, exponent = (int(part) for part in x.man_exp())
    return fmpq(mantissa * 2**exponent) if exponent >= 0 else fmpq(mantissa, 2**-exponent)


def region(variables: Sequence[Model], facts: Sequence[Fact]) -> Region | None:
    """The smallest box found that holds every point of the variables' box at which the facts hold."""
    sides = [[exactly(end) for end in variable.bounds()] for variable in variables]
    names = {repr(("variable", i)): i for i in range(len(sides))}
    for form, _ in facts:
        mentioned = [name for name in form if name]
        if len(mentioned) != 1 or mentioned[0] not in names:
            continue
        i, slope = names[mentioned[0]], form[mentioned[0]]
        end = -form.get("", fmpq(0)) / slope
        if slope > 0:
            sides[i][0] = max(sides[i][0], end)
        else:
            sides[i][1] = min(sides[i][1], end)
    return None if any(low > high for low, high in sides) else [(low, high) for low, high in sides]


def bounded(node: Tree, ends: tuple[fmpq | None, fmpq | None], sides: Region) -> Tree:
    """The tree, spelt as max or min with an end that it is known to reach and not to pass on the region."""
    least, most = ends
    if least is not None and reaches(node, least, sides):
        node = ("max", node, ("number", least))
    if most is not None and reaches(("sum", [(-1, node)]), -most, sides):
        node = ("min", node, ("number", most))
    return node


def reaches(node: Tree, least: fmpq, sides: Region) -> bool:
    """Whether node >= least at all points of the region; False says nothing."""
    found = slopes(node, [hull(arb(low), arb(high)) for low, high in sides])
    if found is None:
        return False
    corner = []
    for slope, (low, high) in zip(found[1], sides, strict=True):
        if not (slope >= 0 or slope <= 0 or low == high):
            return False
        corner.append(low if slope >= 0 else high)
    value = rational_value(at_point(node, corner))
    if value is not None:
        return bool(value >= least)
    there = slopes(node, [arb(c) for c in corner])
    return there is not None and bool(there[0] >= arb(least))


def at_point(node: Tree, point: Sequence[fmpq]) -> Tree:
    """The tree with numbers for its variables."""
    if isinstance(node, list):
        return [at_point(child, point) for child in node]
    if not isinstance(node, tuple):
        return node
    if node[:1] == ("variable",):
        return ("number", point[node[1]])
    return tuple(at_point(child, point) for child in node)


def slopes(node: Tree, balls: Sequence[arb]) -> tuple[arb, list[arb]] | None:
    """Balls for the values and the partial derivatives over a box; None where they are not known to exist."""
    kind, d = node[0], len(balls)
    if kind == "variable":
        return balls[node[1]], [arb(int(i == node[1])) for i in range(d)]
    if kind in ("number", "pi", "e"):
        value = arb(node[1]) if kind == "number" else arb.pi() if kind == "pi" else arb.const_e()
        return value, [arb(0)] * d
    if kind in ("sum", "product"):
        value, gradient = arb(0 if kind == "sum" else 1), [arb(0)] * d
        for sign, child in node[1]:
            found = slopes(child, balls)
            if found is None:
                return None
            one, own = found
            if kind == "sum":
                value, gradient = value + sign * one, [a + sign * b for a, b in zip(gradient, own, strict=True)]
                continue
            if sign < 0:
                if one.contains(0):
                    return None
                one, own = 1 / one, [-b / (one * one) for b in own]
            gradient = [a * one + value * b for a, b in zip(gradient, own, strict=True)]
            value = value * one
        return value, gradient
    inner = slopes(node[1], balls) if len(node) > 1 and isinstance(node[1], tuple) else None
    if inner is None:
        return None
    value, gradient = inner
    if kind == "pow":
        exponent = rational_value(node[2])
        if exponent is None or exponent.q != 1 or not 0 < exponent.p <= 64:
            return None
        k = int(exponent.p)
        outer = [whole_power(value, k), k * whole_power(value, k - 1)]
    elif kind in CURVES:
        outer = CURVES[kind].taylor(value, 2)
    else:
        return None
    gradient = [outer[1] * b for b in gradient]
    return (outer[0], gradient) if all(x.is_finite() for x in (outer[0], *gradient)) else None


def whole_power(x: arb, k: int) -> arb:
    """x**k over a ball, from its ends: a ball times itself forgets that both are the same number."""
    ends = hull(x.lower() ** k, x.upper() ** k)
    return ends.union(arb(0)) if k > 0 and k % 2 == 0 and x.contains(0) else ends
