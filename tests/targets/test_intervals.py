"""Enclosures: every one holds the true value in ball arithmetic, exact cases stay exact, doubts are flagged."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from softwright.targets import Expression
from softwright.targets.formula.functions import OPERATIONS, RULES
from softwright.targets.formula.intervals import Interval, literal
from softwright.targets.formula.nodes import Constant, Node
from tests.targets.trees import UnknownValueError, number, reference, trees

ends = st.one_of(
    st.floats(-3, 3),
    st.sampled_from([-1.0, 0.0, 1.0, 0.5, math.pi / 2, math.pi]),
    st.floats(-1e5, 1e5),
    st.floats(-1e-6, 1e-6),
)
sides = st.tuples(ends, ends).map(sorted)


def test_every_operation_has_a_rule() -> None:
    assert set(RULES) == set(OPERATIONS)


@given(trees, sides, sides, st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=4))
@settings(max_examples=400, deadline=None)
def test_enclosure_holds_the_value_at_every_point(
    tree: Node, side_x: list[float], side_y: list[float], places: list[tuple[float, float]]
) -> None:
    expression = Expression.from_nodes([tree], ["x", "y"])
    lower, upper = np.array([[side_x[0], side_y[0]]]), np.array([[side_x[1], side_y[1]]])
    low, high, defined = expression.enclose(lower, upper)
    assert low.shape == high.shape == (1, 1)
    assert defined.shape == (1,)
    assert not np.isnan(low).any()
    assert not np.isnan(high).any()
    if not defined[0]:
        return
    for place in [(0.0, 0.0), (1.0, 1.0), *places]:
        point = np.clip(lower[0] + np.array(place) * (upper[0] - lower[0]), lower[0], upper[0])
        try:
            value = reference(tree, {"x": float(point[0]), "y": float(point[1])})
        except UnknownValueError:
            continue
        assert not value < arb(float(low[0, 0]))
        assert not value > arb(float(high[0, 0]))


FUNCTIONS = {
    "sin": (-300, 300),
    "cos": (-300, 300),
    "tan": (-300, 300),
    "asin": (-1, 1),
    "acos": (-1, 1),
    "atan": (-50, 50),
    "sinh": (-20, 20),
    "cosh": (-20, 20),
    "tanh": (-20, 20),
    "exp": (-50, 50),
    "log": (1e-9, 100),
    "sqrt": (0, 100),
    "erf": (-6, 6),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_assumed_accuracy_of_the_library_functions(name: str) -> None:
    generator = np.random.default_rng(0)
    low, high = FUNCTIONS[name]
    points = np.concatenate(
        [
            generator.uniform(low, high, 1500),
            np.clip(generator.normal(0, 1e-3, 300), low, high),
            np.clip(generator.integers(-180, 180, 600) * (np.pi / 2) + generator.normal(0, 1e-9, 600), low, high),
            np.clip(np.arange(-180, 180) * (np.pi / 2), low, high),
        ]
    )
    with np.errstate(all="ignore"):
        (lower, upper), undefined = RULES[name](Interval(points, points))
    bad = 0
    for point, below, above, doubt in zip(
        points, lower, upper, np.zeros(len(points), bool) if undefined is None else undefined, strict=True
    ):
        if not doubt:
            value = getattr(arb(float(point)), name)()
            bad += bool(value < arb(float(below)) or value > arb(float(above)))
    assert bad == 0
    assert np.median(upper - lower) < 1e-5 * (1 + np.median(np.abs(lower)))


def enclose(text: str, *sides: tuple[float, float]) -> tuple[float, float, bool]:
    expression = Expression(text, ["x", "y"][: len(sides)])
    lower, upper = np.array([[a for a, _ in sides]]), np.array([[b for _, b in sides]])
    low, high, defined = expression.enclose(lower, upper)
    return float(low[0, 0]), float(high[0, 0]), bool(defined[0])


@pytest.mark.parametrize(
    ("text", "side", "low", "high"),
    [
        ("x**2", (-1, 2), 0, 4),
        ("x**3", (-2, 1), -8, 1),
        ("x**0", (-2, 1), 1, 1),
        ("x**-2", (0.5, 2), 0.25, 4),
        ("1 - x**2", (-1, 1), 0, 1),
        ("sqrt(1 - x**2)", (-1, 1), 0, 1),
        ("x/2 + 1", (-1, 1), 0.5, 1.5),
        ("abs(x)", (-2, 1), 0, 2),
        ("sin(x)", (0, 2), None, 1),
        ("sin(x)", (0, 10), -1, 1),
        ("cos(x)", (-0.1, 0.1), None, 1),
        ("cos(x)", (3, 3.2), -1, None),
        ("cos(x)", (1e12, 1e12 + 1), -1, 1),
        ("cosh(x)", (-1, 1), 1, None),
        ("sign(x)", (-1, 1), -1, 1),
        ("max(x, 0)", (-1, 1), 0, 1),
        ("min(x, 0)", (-1, 1), -1, 0),
        ("where(x < 0, 5, 7)", (-1, 1), 5, 7),
        ("where(x < 0, 5, 7)", (-2, -1), 5, 5),
        ("where(x < 2, 1, log(x))", (-1, 1), 1, 1),
        ("tanh(1000*x)", (-1, 1), -1, 1),
        ("exp(x)", (-1000, 0), 0, None),
    ],
)
def test_exact_where_it_can_be(text: str, side: tuple[float, float], low: float | None, high: float | None) -> None:
    below, above, defined = enclose(text, side)
    assert defined
    if low is not None:
        assert below == low
    if high is not None:
        assert above == high


@pytest.mark.parametrize(
    ("text", "side"),
    [
        ("log(x)", (0, 1)),
        ("sqrt(x)", (-1e-300, 1)),
        ("1/x", (-1, 1)),
        ("1/x", (0, 1)),
        ("tan(x)", (1.5, 1.6)),
        ("asin(x)", (0, 1.0000001)),
        ("acos(x)", (-2, 0)),
        ("x**0.5", (-1, 1)),
        ("x**-1", (-1, 1)),
        ("x**-0.5", (0, 1)),
        ("where(x < 0.5, 1, log(x - 0.6))", (0, 1)),
        ("atan(1/x)", (-1, 1)),
    ],
)
def test_doubts_are_flagged(text: str, side: tuple[float, float]) -> None:
    assert not enclose(text, side)[2]


@pytest.mark.parametrize(
    ("text", "side"),
    [
        ("log(x)", (1e-300, 1)),
        ("1/x", (1e-9, 1)),
        ("tan(x)", (1.58, 4.7)),
        ("x**0.5", (0, 1)),
        ("abs(x)**1.5", (-1, 1)),
    ],
)
def test_no_false_doubt(text: str, side: tuple[float, float]) -> None:
    assert enclose(text, side)[2]


def test_suspects_name_the_part_and_the_boxes() -> None:
    expression = Expression("x + log(x)/y", ["x", "y"])
    lower, upper = np.array([[1.0, 1.0], [0.0, 1.0], [1.0, -1.0]]), np.array([[2.0, 2.0], [1.0, 2.0], [2.0, 1.0]])
    found = {suspect.reason: suspect.boxes.tolist() for suspect in expression.suspects(lower, upper)}
    assert found == {
        "logarithm of a number that is not positive": [False, True, False],
        "division by zero": [False, False, True],
    }
    assert expression.enclose(lower, upper)[2].tolist() == [True, False, False]


def test_literals_enclose_the_decimal_and_not_its_float() -> None:
    for text in ("0.1", "0.3", "1e23", "0.5", "3"):
        low, high = literal(number(text))
        assert arb(float(low)) <= arb(text).upper()
        assert arb(float(high)) >= arb(text).lower()
        assert (low == high) == (text in ("0.5", "3"))
    for name, value in (("pi", arb.pi()), ("e", arb(1).exp())):
        low, high = literal(Constant(name))
        assert arb(float(low)) < value < arb(float(high))


def test_bounds_stay_valid_when_float64_overflows() -> None:
    low, high, defined = enclose("exp(x)*exp(x)", (700, 800))
    assert defined
    assert math.isfinite(low)
    assert high == math.inf
    low, high, _ = enclose("x*x*x", (1e-200, 1e-150))
    assert low == 0
    assert high > 0
