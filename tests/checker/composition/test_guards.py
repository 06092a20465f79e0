"""Branches of choices on boxes that hold the place where the condition changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from flint import arb, ctx

import softwright as sw
from softwright.checker.guards import facts_of, is_known
from softwright.checker.parser import Parser
from softwright.checker.refusal import UndefinedError
from softwright.checker.taylor import Model, Space, evaluate
from softwright.targets import Expression

GUARDED = [
    "where(x < 0, -sqrt(-x), sqrt(x))",
    "where(x <= 0.25, 0, sqrt(4*x - 1))",
    "where(x > 0, x*log(x), 0)",
    "where(x > 0, 2*x**2.5*log(x)/3, -x)",
    "where(x > 0, -x*log(x), 0) + where(x < 1, -(1 - x)*log(1 - x)/2, 0)",
    "where(x > 0, (x/3)*log(2*x)*y, 0)",
    "where((x > 0) and (x < 0.5), sqrt(x)*(0.5 - x)**1.5, 0)",
    "where(not (x <= 0.125), (x - 0.125)**0.3, 0)",
    "where(x + y > 0, sqrt(x + y), 0)",
    "where(x**2 + y**2 < 1, sqrt(1 - x**2 - y**2), 0)",
    "where(x >= 0.25, sqrt(x**2 - 0.0625), 0)",
    "where(x >= 0.1, sqrt(x**3 - 0.001)*y, 0)",  # 1/10 has no end in binary
    "where(abs(x) <= 0.125, acos(8*x), 0)",
    "where(x >= 0.5, acosh(2*x), where(x > 0, sqrt(x*(0.5 - x)), 0))",
    "where((x > 0) and (x < 0.5), sqrt(x*(0.5 - x)), 0)",
    "where(x > 0, sqrt(x)*log(x), x)",
    "where(x >= 0, sqrt(expm1(x)), y)",
    "where((x > 0) and (x < -1), sqrt(-1 - y**2), x)",  # asked for nowhere
]
UNGUARDED = [
    "where(x < 0, -sqrt(x), sqrt(-x))",
    "where(x < 0.1, sqrt(x), sqrt(x))",
    "where(x >= 0, x*log(x), 0)",  # asked for at 0
    "where(x > 0, log(x), 0)",
    "where((x > 0) or (y > 0), sqrt(x), 0)",
    "where(x > 0, 1/x, 0)",
    "where(0 <= x, y, sqrt(x))",
    "where(x >= -0.001, sqrt(x**2 + x), 0)",
    "where(x > -0.01, sqrt(x)*log(x), 0)",
    "where(abs(x) <= 0.1, acos(10.1*x), 0)",
    "where(abs(x) >= 0.1, sqrt(x), 0)",
    "where(x >= 0, sqrt(x*(x - 0.001)), 0)",  # not monotone
    "where(x >= 0, sqrt(x - y), 0)",
]


@pytest.fixture(autouse=True)
def precision() -> Iterator[None]:
    before = ctx.prec, ctx.cap
    ctx.prec, ctx.cap = 96, 32
    yield
    ctx.prec, ctx.cap = before


def on_box(text: str, center: tuple[float, float], radius: float) -> Model:
    space = Space(2, 4)
    slopes = [[arb(radius), arb(0)], [arb(0), arb(radius)]]
    models = [Model(space, space.linear(arb(c), s)) for c, s in zip(center, slopes, strict=True)]
    return evaluate(Parser(text, ["x", "y"]).outputs()[0], models)


@pytest.mark.parametrize("text", GUARDED)
def test_a_branch_is_enclosed_where_it_is_asked_for(text: str) -> None:
    """On boxes of all sizes about the place, values at points of the box lie in the bounds."""
    formula = Expression(text, ("x", "y"))
    generator = np.random.default_rng(5)
    for place in ((0.0, 0.0), (0.25, -0.25), (0.125, -0.125), (0.5, 0.0), (1.0, 0.0)):
        for radius in (0.25, 2.0**-10, 2.0**-40):
            center = tuple(np.array(place) + radius * generator.choice([-1.0, 0.0, 0.5, 1.0], 2))
            low, high = on_box(text, center, radius).bounds()
            points = np.array(center) + radius * generator.uniform(-1, 1, (200, 2))
            points = np.concatenate([points, [place]]) if np.abs(np.array(place) - center).max() <= radius else points
            values = formula(points)[:, 0]
            slack = 1e-13
            assert float(low) - slack <= values.min() and values.max() <= float(high) + slack


@pytest.mark.parametrize("text", UNGUARDED)
def test_what_a_condition_does_not_say_stays_undefined(text: str) -> None:
    with pytest.raises(UndefinedError):
        on_box(text, (0.0, 0.0), 0.25)


def test_facts_follow_the_condition() -> None:
    def condition(text: str) -> object:
        return Parser(f"where({text}, 1, 0)", ["x", "y"]).outputs()[0][1]

    def known(text: str, holds: bool, of: str, strict: bool = False) -> bool:
        tree = Parser(of, ["x", "y"]).outputs()[0]
        return is_known(tree, tuple(facts_of(condition(text), holds)), strict)

    assert known("x < 2*y", True, "4*y - 2*x", strict=True)
    assert known("x < 2*y", False, "x - 2*y") and not known("x < 2*y", False, "x - 2*y", strict=True)
    assert not known("x < 2*y", True, "x - 2*y") and not known("x < 2*y", True, "y - x")
    assert known("0 < x < y", True, "y - x") and not known("0 < x < y", False, "-x")
    assert known("(x < 0) or (y < 0)", False, "y") and not known("(x < 0) or (y < 0)", True, "-y")


@pytest.mark.parametrize("text", ["where(x < 0, -sqrt(-x), sqrt(x))", "where(x > 0, x*log(x), 0)"])
def test_guarded_formulas_are_proved_and_verified(text: str, tmp_path: Path) -> None:
    built = sw.approximate(text, sw.Box(x=(-1, 1)), tol=1e-2, strategy="layer", progress=False)
    assert built.certificate is not None
    built.save(tmp_path / "f.safetensors")
    assert sw.verify(tmp_path / "f.safetensors").verified


def test_values_at_a_border_are_not_lost_to_rounding() -> None:
    """The float 0.3 is below 3/10: floats take the branch of the root, and the root of a little less than 0."""
    formula = Expression("where(x >= 0.3, sqrt(x**3 - 0.027), y)", ("x", "y"))
    assert formula(np.array([[0.3, 7.0]])).tolist() == [[7.0]]
    assert np.isnan(Expression("where(x >= 0.1, sqrt(x - 1), 0)", ("x",))(np.array([[0.5]]))).all()
