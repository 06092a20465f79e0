"""Derivatives against torch's automatic ones, and their size."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from softwright.errors import InvalidInput
from softwright.targets import Expression, parse
from softwright.targets.formula.derivative import differentiate
from softwright.targets.formula.formatting import format_node
from softwright.targets.formula.nodes import Node, Operation
from softwright.targets.formula.tape import Tape
from tests.targets.trees import trees

POINT = torch.tensor([[0.7, 0.4], [1.3, -0.6], [-0.35, 0.8]], dtype=torch.float64)


def automatic(expression: Expression, points: torch.Tensor, variable: int) -> np.ndarray:
    x = points.clone().requires_grad_(True)
    total = expression.torch(x).sum()
    if not total.requires_grad:
        return np.zeros(len(points))
    (gradient,) = torch.autograd.grad(total, x, allow_unused=True)
    return np.zeros(len(points)) if gradient is None else gradient[:, variable].numpy()


def largest_part(node: Node, points: np.ndarray) -> np.ndarray:
    """The largest size of any sub-expression at each point: cancellation beyond it makes comparisons meaningless."""
    parts = [
        s.node for s in Tape((node,)).steps if not (isinstance(s.node, Operation) and s.node.name.startswith("less"))
    ]
    return np.abs(Expression.from_nodes(parts, ["x", "y"])(points)).max(axis=1)


@given(trees)
@settings(max_examples=300, deadline=None)
def test_agrees_with_automatic_differentiation(tree: Node) -> None:
    expression = Expression.from_nodes([tree], ["x", "y"])
    for variable, name in enumerate(["x", "y"]):
        derivative = differentiate(tree, name)
        points = POINT.numpy()
        ours = Expression.from_nodes([derivative], ["x", "y"])(points)[:, 0]
        theirs = automatic(expression, POINT, variable)
        with np.errstate(invalid="ignore"):
            tame = np.maximum(largest_part(tree, points), largest_part(derivative, points)) < 1e3
        fair = tame & np.isfinite(ours) & np.isfinite(theirs) & ~_at_kink(expression, points)
        assert np.allclose(ours[fair], theirs[fair], rtol=1e-6, atol=1e-6)


def _at_kink(expression: Expression, points: np.ndarray) -> np.ndarray:
    """Where a kink is so near that the two may rightly choose different sides, or share the slope at a tie."""
    near = np.zeros(len(points), dtype=bool)
    for kink in expression.kinks():
        near |= ~(np.abs(kink.expression(points)[:, 0]) > 1e-9)
    constant_ties = any(
        isinstance(s.node, Operation) and s.node.name in ("min", "max") and s.arguments[0] == s.arguments[1]
        for s in Tape(expression.nodes).steps
    )
    return near | constant_ties


@pytest.mark.parametrize(
    ("text", "derivative"),
    [
        ("5", "0"),
        ("y", "0"),
        ("3*x**2", "6*x"),
        ("x**3", "3*x**2"),
        ("x**0.5", "0.5*x**-0.5"),
        ("x**(1/3)", "1/3*x**-(2/3)"),
        ("x**-2", "-(2*x**-3)"),
        ("x**0", "0"),
        ("x**y", "y*x**(y - 1)"),
        ("y**x", "y**x*log(y)"),
        ("e**x", "e**x"),
        ("x**x", "x*x**(x - 1) + x**x*log(x)"),
        ("abs(x)", "sign(x)"),
        ("sign(x)", "0"),
        ("min(x, y)", "where(x < y, 1, 0)"),
        ("max(x, 2*x)", "where(2*x < x, 1, 2)"),
        ("max(x, x + y)", "1"),
        ("where(x < y, x, x**2)", "where(x < y, 1, 2*x)"),
        ("sin(2*x)", "2*cos(2*x)"),
        ("y/x", "-(y/x/x)"),
        ("x - x", "0"),
        ("0.1*x + 0.2*x", "0.3"),
        ("3*(2*x)", "6"),
    ],
)
def test_results_are_small(text: str, derivative: str) -> None:
    assert format_node(differentiate(parse(text)[0], "x")) == derivative


def test_derivative_of_an_expression() -> None:
    expression = Expression("x**2*y, y").derivative("x")
    assert expression.names == ("x", "y")
    assert expression.text == "2*x*y, 0"
    with pytest.raises(InvalidInput, match="derive by one of x, y"):
        Expression("x*y").derivative("z")


def test_deep_formulas_have_higher_derivatives() -> None:
    expression = Expression("sin(" * 180 + "x" + ")" * 180)
    second = expression.derivative("x").derivative("x")
    assert np.isfinite(second(np.array([[0.3]]))).all()
    quotient = Expression("1/(1+" * 90 + "x" + ")" * 90)
    assert np.isfinite(quotient.derivative("x").derivative("x")(np.array([[0.3]]))).all()
