"""Ranges over a whole box hold what is sampled, decide signs, and say nothing of what is undefined."""

from __future__ import annotations

import time

import numpy as np
import pytest

from softwright.checker.composition.ranges import Ranges
from softwright.checker.composition.same import limited, prove_same
from softwright.checker.parser import Parser
from softwright.checker.refusal import NotProvedError, UndefinedError
from softwright.domain import Box
from softwright.targets.formula import Expression

BOX = {"x": (-1.0, 2.0), "y": (0.5, 3.0), "z": (-2.0, -0.1)}


def ranges() -> Ranges:
    lower, upper = np.array(list(BOX.values())).T
    return Ranges(list(BOX), lower, upper)


def tree(text: str):
    return Parser(text, list(BOX)).outputs()[0]


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("x*y+z", 1.2),
        ("x**2-x", 1.2),
        ("exp(-x**2)*cos(y)", 1.3),
        ("sqrt((x*y)**2+1)-x*y", 1.2),
        ("(x-y)*(x+y)/(y**2+z**2)", 1.4),
        ("max(x, y*z)-abs(x)", 1.3),
        ("x**2+y**2-2*x*y*cos(z)", 1.2),
        ("where(x < 0, -x, y)", 1.2),
        ("y/(1+y)+log(y)", 1.1),
    ],
)
def test_a_range_holds_all_samples_and_is_not_much_wider(text: str, width: float) -> None:
    low, high = ranges().of(tree(text))
    sample = Expression(text, list(BOX))(Box(BOX).sample(20_000, seed=1))[:, 0]
    assert low <= sample.min() and sample.max() <= high
    assert high - low <= width * (sample.max() - sample.min())


def test_signs() -> None:
    found = ranges()
    signs = {"y-0.4": 1, "z": -1, "x": 0, "sqrt(y**2+x**2+1)-y*0.9": 1, "y*z": -1, "x**2": 0, "x-2": 0, "x-2.001": -1}
    for text, sign in signs.items():
        assert found.sign(found.dag.tree(tree(text), found.inputs)) == sign, text
    for text, sign in {"x**2": 1, "x-2": -1, "x": 0, "-abs(x)": -1}.items():
        assert found.sign(found.dag.tree(tree(text), found.inputs), strict=False) == sign, text


def test_terms_without_common_variables_are_enclosed_one_by_one() -> None:
    """In six variables at once the boxes would be far too many."""
    names = list("abcdfg")
    found = Ranges(names, np.full(6, -1.0), np.full(6, 1.0))
    text = "sin(3*a)*exp(b) + sinh(2*sin(c - d)) - f**3*cos(2*g)"
    node = found.dag.tree(Parser(text, names).outputs()[0], found.inputs)
    top = np.exp(1.0) + np.sinh(2.0) + 1.0
    assert found.within(node, -top - 0.01, top + 0.01)
    assert not found.within(node, -top, top - 0.01)
    low, high = found.known[node]
    assert low <= -top and top <= high


@pytest.mark.parametrize(
    ("formula", "program", "ends"),
    [
        ("(x + y - 1)**2", "(x + y)**2 - 2*x - 2*y", (-1.0, 15.0)),
        ("exp(-(1 + (x*y - z)**2))", "x**2*y**2 - 2*x*y*z + z**2", (0.0, 64.0)),
        ("1.1 + (x - 0.5)**4", "-3*(x**4 - 2*x**3 + 1.5*x**2 - 0.5*x)", (-15.0, 0.1875)),
    ],
)
def test_ranges_of_a_program_follow_from_the_formula_s_own_words(
    formula: str, program: str, ends: tuple[float, float]
) -> None:
    """The program is a times a part of the formula plus b, and its own words show less."""
    found = ranges()
    prove_same([tree(formula)], [], [tree(f"0 + {formula}")], found)
    node = found.dag.tree(tree(program), found.inputs)
    assert limited(found, node, ends[0] - 1e-9, ends[1] + 1e-6)
    low, high = found.known[node]
    sample = Expression(program, list(BOX))(Box(BOX).sample(20_000, seed=1))[:, 0]
    assert low <= sample.min() and sample.max() <= high
    assert not limited(found, node, ends[0] + 1e-3, ends[1])


def test_a_repeated_part_stands_for_itself() -> None:
    """Here the boxes of six variables would be far too many."""
    names = list("abcdfg")
    inner = "(a*b-c*d+f*g)"
    found = Ranges(names, np.full(6, -3.0), np.full(6, 3.0))
    number = found.dag.tree(Parser(f"sqrt({inner}**2+1)-{inner}", names).outputs()[0], found.inputs)
    assert found.is_positive(number)


def test_within_is_proved_or_not() -> None:
    found = ranges()
    number = found.dag.tree(tree("x*y/(1+x**2*y**2)"), found.inputs)
    assert found.within(number, -0.51, 0.51)
    assert not found.within(number, -0.49, 0.51)


@pytest.mark.parametrize(
    "text",
    [
        "log(y)+1/z",
        "sqrt(x+1)",
        "1/(x**2+y)",
        "acos(x/2)",
        "log(x*y+2.1+x**2)",
        "where(x > 0.5, log(x), 1)",
        "sqrt(x**2+y**2-2*x*y*cos(z))",
    ],
)
def test_definedness(text: str) -> None:
    ranges().prove_defined([tree(text)])


@pytest.mark.parametrize(
    "text",
    [
        "x**y*0+1",
        "1/x",
        "log(x)",
        "sqrt(x)",
        "1/(y-1)",
        "acos(y)",
        "(x*z)**0.5",
        "log(sin(x)+0.8)",
        "1/(x-x)",
        "sqrt(x**2+y**2-3*x*y*cos(z))",
        "sqrt(x**2+y**2-2*x*y*exp(x))",
        "sqrt(x**2-y**2-2*x*y*cos(z))",
    ],
)
def test_what_is_undefined_somewhere_is_refused(text: str) -> None:
    with pytest.raises(UndefinedError):
        ranges().prove_defined([tree(text)])


def test_a_box_must_be_one() -> None:
    for low, high in ((1.0, 0.0), (0.0, np.inf), (np.nan, 1.0)):
        with pytest.raises(NotProvedError):
            Ranges(["x"], np.array([low]), np.array([high]))


def test_work_is_bounded() -> None:
    names = [f"x{i}" for i in range(7)]
    text = "+".join(f"sin({a}*{b}*7)**2*cos({a}-{b})" for a in names for b in names)
    started = time.process_time()
    found = Ranges(names, np.full(7, -9.0), np.full(7, 9.0))
    low, high = found.of(Parser(text, names).outputs()[0])
    assert low < high and time.process_time() - started < 20
