"""Enclosures of formulas over boxes hold every value and every slope, and nothing is claimed where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb, ctx

from softwright.checker.composition.enclosing import enclosed, enclosed_slopes
from softwright.checker.composition.intervals import Interval
from softwright.checker.parser import Parser
from softwright.checker.taylor import Model, Space, evaluate

NAMES = ["x", "y"]
FORMULAS = [
    "x*y-x/(2+y)+3",
    "(x+y)**3-x**-2*y+(1+x)**1.5",
    "exp(sin(x)*y)+log(1+x)*sqrt(x)",
    "max(x, y)-min(x*y, 1)+abs(x-y)",
    "where(x < y, x**2, y*sin(x))",
    "hypot(x, y)+atan2(y, x)+atan2(x-3, y-3)",
    "xlogy(x, 1+y)+xlogy(y, y)",
    "tanh(x-y)*cosh(y)+sinh(x)*sigmoid(y)",
    "floor(x)+sign(y-1)+step(x-1)+ceil(y)+round(3*x)+mod(x, 1+y)",
    "erf(x)+normcdf(y)+gamma(1+x)+j0(x*y)+cbrt(y)+sinc(x)",
    "x**y+2**x+(1+x)**sqrt(2)+e**y/pi",
    "where(x > 1 and y < 1 or not x < y, 1, x)",
    "log2(1+x)+log10(2+y)+exp2(x)+log1p(y)+expm1(x)+softplus(x)+acosh(1+x)",
    "floor(2.5)+hypot(3, 4)*x+atan2(1, -1)+sign(-2)*y",
]


def boxes(count: int, seed: int) -> list[Interval]:
    rng = np.random.default_rng(seed)
    low = rng.uniform(0.05, 2.0, (2, count))
    high = low + rng.choice([0.0, 1e-3, 0.1, 1.0], (2, count))
    return [Interval(low[i], high[i]) for i in range(2)]


def exact(tree, point: list[float]) -> arb | None:
    """The value at a point by the checker's Taylor models, in balls."""
    space = Space(1, 2)
    with ctx.workprec(200):
        model = evaluate(tree, [Model(space, space.linear(arb(value))) for value in point])
        return model.parts[0][0] + arb(0, model.error)


@pytest.mark.parametrize("text", FORMULAS)
def test_values_lie_in_their_enclosures(text: str) -> None:
    tree = Parser(text, NAMES).outputs()[0]
    sides = boxes(60, 3)
    found, defined = enclosed(tree, sides)
    assert defined.all() or "atan2(x-3" in text
    rng = np.random.default_rng(4)
    for k in np.flatnonzero(defined):
        for share in (0.0, 1.0, rng.random()):
            point = [float(np.clip(s.lower[k] + share * (s.upper - s.lower)[k], s.lower[k], s.upper[k])) for s in sides]
            value = exact(tree, point)
            assert value is not None and not value < found.lower[k] and not value > found.upper[k]


@pytest.mark.parametrize("text", FORMULAS)
def test_differences_are_within_the_slopes(text: str) -> None:
    """By the mean value theorem f(b) - f(a) lies in the sum of slopes times steps, kinks and jumps included."""
    tree = Parser(text, NAMES).outputs()[0]
    sides = boxes(60, 5)
    slopes, (values, defined) = enclosed_slopes(tree, sides), enclosed(tree, sides)
    del values
    for k in np.flatnonzero(defined):
        low, high = [float(s.lower[k]) for s in sides], [float(s.upper[k]) for s in sides]
        first, last = exact(tree, low), exact(tree, high)
        assert first is not None and last is not None
        bound_low = bound_high = 0.0
        for slope, a, b in zip(slopes, low, high, strict=True):
            if a < b:
                bound_low += slope.lower[k] * (b - a)
                bound_high += slope.upper[k] * (b - a)
        slack = 1e-9 * (1 + abs(float(first.mid())) + abs(float(last.mid())))
        assert float((last - first).upper()) >= bound_low - slack
        assert float((last - first).lower()) <= bound_high + slack


@pytest.mark.parametrize(
    "text",
    ["1/x", "log(x)", "sqrt(x)", "x**0.5", "x**-1", "x**y", "atan2(x, x)", "xlogy(y+3, x)", "mod(1, x)", "tan(2*x)"],
)
def test_where_a_value_may_be_missing_nothing_is_claimed(text: str) -> None:
    tree = Parser(text, NAMES).outputs()[0]
    sides = [Interval.of([-1.0], [1.0]), Interval.of([-1.0], [1.0])]
    found, defined = enclosed(tree, sides)
    assert not defined[0] and found.lower[0] == -np.inf and found.upper[0] == np.inf


def test_a_branch_that_is_not_taken_need_not_be_defined() -> None:
    tree = Parser("where(x > 0, log(x), 0)", NAMES).outputs()[0]
    sides = [Interval.of([-2.0, 0.5, -1.0], [-1.0, 1.0, 1.0]), Interval.of([0.0] * 3, [1.0] * 3)]
    assert enclosed(tree, sides)[1].tolist() == [True, True, False]


def test_no_slope_is_told_across_a_jump() -> None:
    sides = [Interval.of([-1.0], [1.0]), Interval.of([0.0], [1.0])]
    for text in ("floor(x)", "sign(x)", "where(x < 0, 1, 2)", "step(x)*y", "mod(x, 0.5)", "atan2(x, y-3)"):
        slope = enclosed_slopes(Parser(text, NAMES).outputs()[0], sides)[0]
        assert slope.lower[0] == -np.inf and slope.upper[0] == np.inf, text
    assert enclosed_slopes(Parser("abs(x)", NAMES).outputs()[0], sides)[0].size[0] == 1.0
