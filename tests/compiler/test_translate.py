"""Formulas become programs that mean the same, and what is rewritten rests on what is proved."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

import softwright as sw
from softwright.compiler.features import EXPONENTIAL, MAXIMUM, PRODUCT, TABLE, Program
from softwright.compiler.look import check_rewriting, exact_outputs
from softwright.compiler.nodes import CannotCompile, evaluate, precision
from softwright.compiler.ranges import Ranges
from softwright.compiler.translate import translate

PLANE = {"x": (-1.0, 1.0), "y": (1.0, 2.0)}
NEGATIVE = {"x": (-2.0, -1.0), "y": (-3.0, -1.5)}
# Rewritings that are wrong without their side condition: roots of squares, powers of signed things, logs of products.
WIDE = {"x": (1e-3, 10.0), "y": (1.0, 4.0)}
TRAPS = [
    ("sqrt(x**2*y)", PLANE),
    ("(x**2)**1.5*y", PLANE),
    ("sqrt(x**2*y**2 + 1)", PLANE),
    ("(x**2*y)**0.5*x", PLANE),
    ("log(x**2*y**2 + 1)", PLANE),
    ("log(x**2*y)", {"x": (-2.0, -1.0), "y": (1.0, 2.0)}),
    ("sqrt(x*y)", NEGATIVE),
    ("log(x*y)", NEGATIVE),
    ("(x*y)**0.3", NEGATIVE),
    ("x**3/y", NEGATIVE),
    ("(x**3*y)**-0.5", NEGATIVE),
    ("abs(x)*y", NEGATIVE),
    ("abs(x*y)/x", NEGATIVE),
    ("sqrt((x*y)**2)", PLANE),
    ("((x - y)**2)**0.5", PLANE),
    ("max(x, y)", PLANE),
    ("min(x, y)*abs(x)", PLANE),
    ("where(x < y, x*y, x)", {"x": (-1.0, 0.5), "y": (1.0, 2.0)}),
    ("where(y < x, x, x*y)", {"x": (-1.0, 0.5), "y": (1.0, 2.0)}),
    ("hypot(x, y)", PLANE),
    ("y**x", PLANE),
    ("exp(log(y)*x)/exp(x)", PLANE),
    ("x**2/y**2*x**-2*y", {"x": (0.5, 1.0), "y": (1.0, 2.0)}),
    ("(exp(y) - 1)*log(exp(y) - 1)", PLANE),
    ("1/(x - 3)**2", PLANE),
    ("-1/(x - y - 1)", PLANE),
    ("x**y/(x**y + 1e-9)", WIDE),  # sums that span decades: one term is taken out
    ("x**y/(2**y + x**(2*y))", WIDE),
    ("log(x**y + exp(-20*y))", WIDE),
]


@pytest.mark.parametrize(("text", "sides"), TRAPS, ids=[text for text, _ in TRAPS])
def test_a_program_is_its_formula(text: str, sides: dict[str, tuple[float, float]]) -> None:
    box = sw.Box(sides)
    expression = sw.Expression(text, box)
    check_rewriting(translate(expression, box), expression, box)
    check_rewriting(translate(expression, box, cut=True), expression, box)


ATOMS = st.sampled_from(["x", "y", "(x + 2*y)", "(x - y)", "1.5", "pi"])


@st.composite
def formulas(draw: st.DrawFn) -> str:
    """Formulas that are defined everywhere, of the operations that rules rewrite."""
    text = draw(ATOMS)
    for _ in range(draw(st.integers(1, 4))):
        other = draw(ATOMS)
        shape = draw(
            st.sampled_from(
                ["{a}*{b}", "{a} + {b}", "{a}/(2 + {b}**2)", "exp({a}/4)", "sin({a})*{b}", "abs({a})", "max({a}, {b})",
                 "sqrt(1 + ({a})**2)", "({a})**2", "log(2 + abs({a}))", "({a})**3", "min({a}, -({b}))", "tanh({a})"]
            )
        )  # fmt: skip
        text = f"({shape.format(a=text, b=other)})"
    return text


@settings(max_examples=40, deadline=None)
@given(formulas())
def test_random_formulas_mean_the_same(text: str) -> None:
    box = sw.Box(x=(-1.0, 1.5), y=(-0.5, 1.0))
    expression = sw.Expression(text, box)
    try:
        program = translate(expression, box)
    except CannotCompile:
        return  # a refusal is honest
    check_rewriting(program, expression, box)


def test_the_net_catches_a_wrong_rewriting() -> None:
    box = sw.Box(x=(-1.0, 1.0), y=(1.0, 2.0))
    program = translate(sw.Expression("x*sqrt(y)", box), box)
    with pytest.raises(sw.SoftwrightError, match="differs"):
        check_rewriting(program, sw.Expression("sqrt(x**2*y)", box), box)


def _kinds(program: Program) -> list[str]:
    return sorted(feature.kind for feature in program.features[len(program.names) :])


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("sin(3*x)*exp(x)/(1 + x**2)", [TABLE]),
        ("x**2 + y**2 - 0.5", [PRODUCT, PRODUCT]),
        ("sin(2*x + 2*y) + exp(cos(x + y))", [TABLE]),
        ("exp(x - y)", [EXPONENTIAL]),
        ("abs(x - y/2)", [MAXIMUM]),
        ("x*y", [PRODUCT]),
        ("max(y, 3)", []),
        ("x/y**2*sqrt(y)", [EXPONENTIAL, TABLE]),
    ],
)
def test_what_is_cut_and_what_is_not(text: str, kinds: list[str]) -> None:
    box = sw.Box(PLANE)
    expression = sw.Expression(text, box)
    try:
        assert _kinds(translate(expression, box)) in (kinds, sorted([PRODUCT, *kinds[1:]]))
    except CannotCompile:
        assert kinds == []


@pytest.mark.parametrize(
    "text", ["1/x", "sqrt(x)*y", "log(x + 1)", "where(x < 0.5, x, y)", "floor(x)", "acos(2*x)", "x**0.3", "(x*y)**-1"]
)
def test_what_may_be_undefined_or_jump_is_refused_by_name(text: str) -> None:
    box = sw.Box(PLANE)
    with pytest.raises(CannotCompile):
        translate(sw.Expression(text, box), box)


def test_conditions_are_recorded_with_the_sub_expression() -> None:
    box = sw.Box(x=(-1.0, 1.0), y=(1.0, 2.0))
    program = translate(sw.Expression("x/sqrt(y*(2 + y))*exp(x)", box), box)
    assert "y > 0" in {condition.text for condition in program.conditions}


@settings(max_examples=40, deadline=None)
@given(formulas(), st.integers(0, 10**6))
def test_ranges_contain_all_values(text: str, seed: int) -> None:
    box = sw.Box(x=(-1.0, 1.5), y=(-0.5, 1.0))
    expression = sw.Expression(text, box)
    found = Ranges(box).of(expression.nodes[0])
    values = expression(box.sample(500, seed=seed))
    assert found.low <= values.min() + 1e-12 * abs(values.min())
    assert values.max() - 1e-12 * abs(values.max()) <= found.high


def test_derivatives_decide_nothing_across_a_jump() -> None:
    box = sw.Box(x=(-1.0, 1.0), y=(-1.0, 1.0), z=(0.0, 1.0))
    text = "where((x - 0.3)**2 + (y - 0.2)**2 + (z - 0.5)**2 < 0.0001, x - 5, x)"
    expression = sw.Expression(text, box)
    found = Ranges(box).of(expression.nodes[0])
    assert found.low <= float(expression(np.array([[0.3, 0.2, 0.5]]))[0, 0])


def test_exact_outputs_are_those_of_the_formula_in_balls() -> None:
    box = sw.Box(PLANE)
    expression = sw.Expression("x*exp(y) + max(x, y/3), x/y", box)
    program = translate(expression, box)
    point = np.array([0.3, 1.7])
    with precision(200):
        wanted = [evaluate(node, {"x": arb(0.3), "y": arb(1.7)}) for node in expression.nodes]
        for mine, theirs in zip(exact_outputs(program, point), wanted, strict=True):
            assert abs(mine - theirs) < 1e-50
