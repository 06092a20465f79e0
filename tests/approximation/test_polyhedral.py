"""Random formulas of max, min and abs become gates, exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwright.approximation.observe import crossing_points
from softwright.approximation.strategies.polyhedral import _walk, fit_polyhedral
from softwright.attention import evaluate
from softwright.domain import Box
from softwright.targets import Expression
from tests.approximation.problems import formula_problem, unit_box

COEFFICIENTS = st.sampled_from(["-2", "-1.5", "-1", "-0.3", "0.25", "0.5", "1", "2"])


@st.composite
def affine_terms(draw: st.DrawFn, names: tuple[str, ...]) -> str:
    parts = [f"{draw(COEFFICIENTS)}*{name}" for name in names if draw(st.booleans())]
    return "(" + " + ".join([*parts, draw(COEFFICIENTS)]) + ")"


@st.composite
def piecewise_linear(draw: st.DrawFn, names: tuple[str, ...], depth: int = 2) -> str:
    if depth == 0:
        return draw(affine_terms(names))
    kind = draw(st.sampled_from(["max", "min", "abs", "add", "sub", "times", "over", "neg"]))
    first = draw(piecewise_linear(names, depth - 1))
    if kind == "abs":
        return f"abs({first})"
    if kind == "times":
        return f"({draw(COEFFICIENTS)}*{first})"
    if kind == "over":
        return f"({first}/{draw(COEFFICIENTS)})"
    if kind == "neg":
        return f"(-{first})"
    second = draw(piecewise_linear(names, depth - 1))
    if kind in ("max", "min"):
        return f"{kind}({first}, {second})"
    return f"({first} {'+' if kind == 'add' else '-'} {second})"


def check(text: str, box: Box, tolerance: float) -> None:
    problem, formula = formula_problem(text, box, tolerance)
    fit = fit_polyhedral(problem, formula)
    assert fit is not None
    assert fit.strategy == "pieces"
    points = [np.random.default_rng(1).uniform(-1, 1, (2000, box.dim))]
    points += [crossing_points(head, 2000, seed=2) for head in fit.in_unit_frame()]
    t = np.concatenate(points)
    assert np.abs(evaluate(fit.in_unit_frame(), t) - problem.function(t)).max() <= tolerance


@given(piecewise_linear(("x", "y")))
@settings(max_examples=60)
def test_random_formulas_of_two_variables(text: str) -> None:
    check(text, unit_box("x", "y"), 1e-6)


@given(piecewise_linear(("a", "b", "c")))
@settings(max_examples=30)
def test_random_formulas_of_three_variables(text: str) -> None:
    check(text, Box(a=(0, 2), b=(-3, 1), c=(-1, 1)), 1e-5)


@given(piecewise_linear(("x", "y")))
def test_the_difference_of_maxima_is_the_formula(text: str) -> None:
    """f = max p - max q before any softmax."""
    box = Box(x=(-1, 2), y=(0, 3))
    expression = Expression(text, box)
    difference = _walk(expression.nodes[0], box)
    t = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    lifted = np.hstack([t, np.ones((300, 1))])
    value = (lifted @ difference.plus.T).max(axis=1) - (lifted @ difference.minus.T).max(axis=1)
    assert np.abs(value - expression(box.from_unit(t))[:, 0]).max() <= 1e-9


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("max(abs(x-y), 0.2)", 3),
        ("abs(x)", 2),
        ("max(max(x, y), max(-x, -y))", 4),
        ("max(x, x - 1)", 1),
        ("2*x - y + 3", 1),
    ],
)
def test_only_pieces_that_ever_win_take_a_token(text: str, tokens: int) -> None:
    problem, formula = formula_problem(text, unit_box("x", "y"), 1e-6)
    fit = fit_polyhedral(problem, formula)
    assert fit is not None
    assert fit.tokens == tokens


def test_several_outputs() -> None:
    check("abs(x - y), max(x, 0.5*y) - 1, 2*y", unit_box("x", "y"), 1e-7)


@pytest.mark.parametrize("text", ["x*y", "sin(x)", "abs(x)*y", "x**2", "1/y", "max(x, y**2)"])
def test_other_formulas_are_left_to_other_strategies(text: str) -> None:
    problem, formula = formula_problem(text, unit_box("x", "y"), 1e-6)
    assert fit_polyhedral(problem, formula) is None
