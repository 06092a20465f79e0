"""Strategy `graded`: one variable, tokens that lie ever closer towards a singular point.

A formula of one variable with a root, a power or a logarithm that is singular at an end of its box becomes one head
whose keys are graded towards that end (`compiler/graded.py`), in a coordinate measured from there, so that scores stay
exact where they are large. If the point lies inside, there are two heads, one for each side:

    f(p + s) = f_right(max(s, 0)) + f_left(max(-s, 0)),

since a graded head goes on as a constant beyond its singular point. If it lies outside but near, as for 1/x on
[0.1, 10], cells are even in the logarithm of the distance to it (`compiler/tables.py`).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from softwright.approximation.formula import Formula
from softwright.approximation.problem import Fit, Problem
from softwright.attention.head import Head
from softwright.compiler.tables import TableSearch, fit_towards, in_one_variable, singular_points

_SAFETY = 0.85
_NEAR = 0.5  # singular points farther outside than this share of the width do not matter


def singular_places(formula: Formula) -> list[float]:
    """Singular points of the formula inside its interval or next to it."""
    (low,), (high,) = formula.box.lower, formula.box.upper
    (name,) = formula.expression.names
    nodes = in_one_variable(formula.expression.nodes, name)
    found = {p for node in nodes for p in singular_points(node, float(low), float(high))}
    return sorted(p for p in found if low - _NEAR * (high - low) <= p <= high + _NEAR * (high - low))


def fit_graded_line(problem: Problem, formula: Formula | None) -> Fit | None:
    """Graded keys for a formula of one variable with one singular point inside its interval, or some outside of it."""
    if formula is None or problem.dim != 1:
        return None
    (low,), (high,) = formula.box.lower, formula.box.upper
    places = singular_places(formula)
    inside = [p for p in places if low <= p <= high]
    if len(inside) == 1:
        return _towards(problem, formula, inside[0])
    return _beside(problem, formula, places) if places and not inside else None


def _towards(problem: Problem, formula: Formula, point: float) -> Fit | None:
    (low,), (high,) = formula.box.lower, formula.box.upper
    (half,) = formula.box.halfwidth
    origin = formula.box.to_unit(np.array([[point]]))[0]
    if float(formula.box.from_unit(origin)[0]) != point:
        return None  # coordinates could not be measured from the point itself
    sides = [(side, reach) for side, reach in ((1, high - point), (-1, point - low)) if reach > 0]
    allowed = np.full(problem.outputs, _SAFETY * problem.tolerance / len(sides))
    base = problem.function(origin[None])[0]  # (m,)
    nodes = in_one_variable(formula.expression.nodes, *formula.expression.names)
    heads: list[Head] = []
    errors = 0.0
    for side, reach in sides:
        axis = fit_towards(
            nodes,
            (Fraction(point), side),
            float(reach),
            allowed,
            problem.dtype,
            base * (1 - 1 / len(sides)),
            problem.budget.check,
        )
        if axis is None:
            return None
        heads.append(Head((side * axis.keys * half)[:, None], axis.biases, axis.values))
        errors += float(axis.errors.max())
    where = "an end" if len(sides) == 1 else "a point inside"
    size = " + ".join(str(head.tokens) for head in heads)
    reason = f"a target that is singular at {where}, {point:g}: {size} tokens graded towards it"
    return Fit(heads, errors, "graded", (reason,), tuple(origin.tolist()))


def _beside(problem: Problem, formula: Formula, places: list[float]) -> Fit | None:
    """Cells even in the logarithm of the distance to a point outside."""
    in_frame = formula.box.to_unit(np.array(places)[:, None])[:, 0]
    allowed = np.full(problem.outputs, _SAFETY * problem.tolerance)
    with np.errstate(all="ignore"):
        search = TableSearch(lambda t: problem.function(t[:, None]), allowed, problem.dtype, in_frame.tolist())
        table = search.best()
    if table is None:
        return None
    head = Head(table.keys[:, None], table.biases, table.values)
    reason = f"a smooth target near a singular point: {table.tokens} tokens, closer towards it"
    return Fit([head], float(table.errors.max()), "graded", (reason,))
