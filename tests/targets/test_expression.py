"""Formulas as targets: values, torch values, undefined places, kinks, affine forms."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from softwright.domain import Box
from softwright.errors import InvalidInput
from softwright.targets import Expression, parse
from softwright.targets.formula.affine import is_affine
from softwright.targets.formula.definedness import UndefinedSearch
from softwright.targets.formula.nodes import Node
from softwright.targets.formula.tape import Tape
from tests.targets.trees import UnknownValueError, reference, trees

POINTS = np.random.default_rng(0).uniform(-2, 2, (50, 2))


def _sign(x: float) -> float:
    return math.copysign(1.0, x) if x else 0.0


FORMULAS: list[tuple[str, Callable[[float, float], float]]] = [
    ("sin(3*x)*exp(-y**2)", lambda x, y: math.sin(3 * x) * math.exp(-(y**2))),
    ("x**3 - 2*x/y + pi", lambda x, y: x**3 - 2 * x / y + math.pi),
    ("abs(x)**1.5 + sqrt(abs(y))", lambda x, y: abs(x) ** 1.5 + math.sqrt(abs(y))),
    ("min(x, y, 0.5) + max(x, y)", lambda x, y: min(x, y, 0.5) + max(x, y)),
    ("where(x <= y, x, -y)*sign(x)", lambda x, y: (x if x <= y else -y) * _sign(x)),
    ("where(x > y, 1, 2)", lambda x, y: 1 if x > y else 2),
    ("erf(x) + atan(y) + e", lambda x, y: math.erf(x) + math.atan(y) + math.e),
    ("cosh(x) - sinh(y)*tanh(x)", lambda x, y: math.cosh(x) - math.sinh(y) * math.tanh(x)),
    ("asin(x/3) + acos(y/3)", lambda x, y: math.asin(x / 3) + math.acos(y / 3)),
    ("log(x**2 + 1) + tan(x/2) + cos(y)", lambda x, y: math.log(x**2 + 1) + math.tan(x / 2) + math.cos(y)),
    ("2**-x + (-x)**2 - x**-2", lambda x, y: 2**-x + x**2 - x**-2),
]


@pytest.mark.parametrize(("text", "meaning"), FORMULAS)
def test_values(text: str, meaning: Callable[[float, float], float]) -> None:
    expression = Expression(text, ["x", "y"])
    expected = np.array([[meaning(x, y)] for x, y in POINTS.tolist()])
    assert np.allclose(expression(POINTS), expected, rtol=1e-13, atol=1e-13)
    tensors = expression.torch(torch.tensor(POINTS))
    assert np.allclose(tensors.numpy(), expected, rtol=1e-12, atol=1e-12)


@given(trees)
@settings(max_examples=200, deadline=None)
def test_numpy_and_torch_agree_with_the_enclosure(tree: Node) -> None:
    expression = Expression.from_nodes([tree], ["x", "y"])
    point = np.array([[0.7, -0.4]])
    low, high, defined = expression.enclose(point, point)
    try:
        reference(tree, {"x": 0.7, "y": -0.4})
    except UnknownValueError:
        return
    if not defined[0] or not np.isfinite(high - low).all() or float((high - low)[0, 0]) > 1e-9:
        return
    margin = 1e-6 * (1 + abs(float(low[0, 0])))
    value, tensor = float(expression(point)[0, 0]), float(expression.torch(torch.tensor(point))[0, 0])
    assert low[0, 0] - margin <= value <= high[0, 0] + margin
    assert low[0, 0] - margin <= tensor <= high[0, 0] + margin


def test_several_outputs_and_constants() -> None:
    expression = Expression("x, 4, where(1 < 2, x, y), min(x, 0)", ["x", "y"])
    points = np.array([[1.0, 2.0], [-3.0, 4.0]])
    expected = [[1, 4, 1, 0], [-3, 4, -3, -3]]
    assert expression.outputs == 4
    assert expression(points).tolist() == expected
    assert expression.torch(torch.tensor(points)).tolist() == expected
    assert expression(np.empty((0, 2))).shape == (0, 4)


def test_undefined_values_are_nan_or_inf_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = Expression("log(x), 1/x, x**0.5, x**-2")(np.array([[-1.0], [0.0]]))
    assert np.isnan(values[0, [0, 2]]).all()
    assert np.isinf(values[1, [0, 1, 3]]).all()


def test_torch_keeps_dtype_shape_and_gradient() -> None:
    expression = Expression("sin(x)*y + x**2, 3")
    x = torch.randn(4, 5, 2, dtype=torch.float32, requires_grad=True)
    y = expression.torch(x)
    assert y.shape == (4, 5, 2)
    assert y.dtype == torch.float32
    y.sum().backward()
    assert x.grad is not None
    assert torch.allclose(x.grad[..., 0], torch.cos(x[..., 0]) * x[..., 1] + 2 * x[..., 0])
    with pytest.raises(InvalidInput, match="floating-point"):
        expression.torch(torch.zeros(3, 2, dtype=torch.int64))


def test_names_and_faults() -> None:
    assert Expression("y + x").names == ("y", "x")
    assert Expression("y + x", Box(x=(0, 1), y=(0, 1))).names == ("x", "y")
    assert Expression("1", ["x"])(np.zeros((3, 1))).tolist() == [[1.0]] * 3
    with pytest.raises(InvalidInput, match="no variables"):
        Expression("1")
    with pytest.raises(InvalidInput, match="unknown variable 'z'"):
        Expression("z", ["x"])
    with pytest.raises(InvalidInput, match="repeat"):
        Expression("x", ["x", "x"])
    with pytest.raises(InvalidInput, match=r"\(n, 1\)"):
        Expression("x")(np.zeros(3))
    with pytest.raises(InvalidInput, match="lower <= upper"):
        Expression("x").enclose(np.ones((1, 1)), np.zeros((1, 1)))


def test_text_is_canonical_and_described() -> None:
    expression = Expression("((x))+( y*2 )")
    assert expression.text == "x + y*2"
    assert expression.describe() == {"kind": "expression", "text": "x + y*2", "variables": ["x", "y"]}
    assert Expression(expression.text).nodes == expression.nodes
    long = Expression("+".join(["x"] * 4900))
    assert Expression(long.text).nodes == long.nodes


def test_equal_parts_are_computed_once() -> None:
    assert len(Tape(parse("sin(x) + sin(x)*sin(x)"))) == 4
    assert len(Tape(parse("exp(-x**2), x*exp(-x**2)"))) == 6


def test_a_million_points_are_quick() -> None:
    expression = Expression("sin(3*x)*exp(-y**2) + x**2")
    points = np.random.default_rng(0).uniform(-1, 1, (1_000_000, 2))
    start = time.process_time()
    assert expression(points).shape == (1_000_000, 1)
    assert time.process_time() - start < 3.0


UNIT, POSITIVE, WIDE, SQUARE = Box(x=(-1, 1)), Box(x=(0, 1)), Box(x=(0, 2)), Box(x=(-1, 1), y=(-1, 1))


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ("sqrt(1 + x)", UNIT),
        ("sqrt(1 - x**2)", UNIT),
        ("x**0.5", POSITIVE),
        ("abs(x)**1.5", UNIT),
        ("sqrt(x**2)", UNIT),
        ("sqrt(sin(x)**2)", UNIT),
        ("acos(x)", UNIT),
        ("where(x > 0, x*log(x), 0)", UNIT),
        ("where(abs(x) < 1e-8, 1, sin(x)/x)", UNIT),
        ("1/(x**2 + 1e-12)", UNIT),
        ("1/cosh(1000*x)", UNIT),
        ("(x + 1)/(x**2 + x + 1)", UNIT),
        ("1/(x**2 + y**2 - x*y + 0.01)", SQUARE),
        ("tan(x)", UNIT),
    ],
)
def test_defined_formulas_are_not_refused(text: str, box: Box) -> None:
    assert Expression(text, box).find_undefined(box) == []


@pytest.mark.parametrize(
    ("text", "box", "report"),
    [
        ("log(x)", POSITIVE, "log(x) is undefined at x=0 (logarithm of a number that is not positive); shrink the box"),
        ("sin(3*x)/x", UNIT, "sin(3*x) is (3*x)*sinc(3*x): write that"),
        ("x**2*log(x)", POSITIVE, "xlogy(x**2, x) is (x**2)*log(x) with its limit 0 there: write that"),
        ("(1 - cos(x))/x**2", UNIT, "1 - cos(x) is 0.5*(x)**2*sinc(0.5*(x))**2"),
        ("cos(x)/x", UNIT, "cos(x)/x is undefined at x=0 (division by zero); shrink the box"),
        ("sin(x)/x", UNIT, "sin(x)/x is undefined at x=0 (division by zero)"),
        ("1/(x - 0.3)", UNIT, "is undefined at x=0.3"),
        ("1/(x**2 - 2)", WIDE, "is undefined near x=1.41421"),
        ("1/(x**2 - 2)**2", WIDE, "may be undefined near x=1.41421"),
        ("tan(x)", WIDE, "is undefined near x=1.5708 (pole of the tangent)"),
        ("atan(1/x)", UNIT, "1/x is undefined at x=0"),
        ("x*log(x)", POSITIVE, "log(x) is undefined at x=0"),
        ("sqrt(0.99999 + x)", UNIT, "is undefined at x=-1 (square root"),
        ("x**-0.5", POSITIVE, "zero to a negative power"),
        ("x**0.5", UNIT, "negative number to a power that is no integer"),
        ("x**-2", UNIT, "is undefined at x=0"),
        ("exp(1000*x)", UNIT, "exceeds float64"),
        ("1/(x - y)", SQUARE, "is undefined at x=0, y=0"),
        ("1/(x + y*0.7 - 0.1234567)", SQUARE, "undefined"),
        ("where(x < 0, 1, 1/(x - 0.25))", UNIT, "is undefined at x=0.25"),
    ],
)
def test_undefined_places_are_found(text: str, box: Box, report: str) -> None:
    start = time.process_time()
    reports = Expression(text, box).find_undefined(box)
    assert time.process_time() - start < 0.5
    assert len(reports) == 1
    assert report in reports[0]


def test_all_undefined_parts_are_listed() -> None:
    reports = Expression("log(x) + 1/y + asin(2*x)", SQUARE).find_undefined(SQUARE)
    assert sorted(report.split(" is ")[0] for report in reports) == ["1/y", "asin(2*x)", "log(x)"]


def test_many_poles_and_many_variables_stay_within_the_budget() -> None:
    start = time.process_time()
    poles = Expression("+".join(f"1/(x - {i}/97)" for i in range(40)))
    assert len(poles.find_undefined(Box(x=(-1, 1)))) == 40
    cube = Box({f"x{i}": (0, 1) for i in range(12)})
    wide = Expression("1/(" + "+".join(cube.names) + " - 0.54321)", cube)
    assert "undefined" in wide.find_undefined(cube)[0]
    assert time.process_time() - start < 2.0


def test_a_box_without_the_variables_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="no side for y"):
        Expression("x + y").find_undefined(UNIT)


def test_kinks() -> None:
    text = "abs(x - 1) + min(x, y) + max(x, 2) + sign(x*y)*where(x >= y, 1, 2) + abs(x - 1) + abs(3)"
    found = [(kink.kind, kink.expression.text, kink.jump) for kink in Expression(text).kinks()]
    assert found == [
        ("abs", "x - 1", False),
        ("min", "x - y", False),
        ("max", "x - 2", False),
        ("sign", "x*y", True),
        ("where", "y - x", True),
    ]
    assert Expression("sin(x)*sqrt(y)").kinks() == []
    assert Expression(text).kinks()[0].expression.names == ("x", "y")


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("0.1*x + 0.2*x - y/4 + 1", ({"x": 0.3, "y": -0.25}, 1.0)),
        ("2*(x + 1)/4 - x/2", ({}, 0.5)),
        ("x**1 + x**0 + 2**3", ({"x": 1.0}, 9.0)),
        ("sqrt(2)*x - pi", ({"x": math.sqrt(2)}, -math.pi)),
        ("-(x - y)*(1 - 3)", ({"x": 2.0, "y": -2.0}, 0.0)),
        ("x*y", None),
        ("1/x", None),
        ("x**2", None),
        ("abs(x)", None),
        ("x*1e308*10", None),
    ],
)
def test_affine_forms(text: str, form: tuple[dict[str, float], float] | None) -> None:
    assert is_affine(parse(text)[0]) == form


def test_a_report_says_whether_it_is_certain_and_a_box_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box(x=(-2, 2))
    (touching,) = Expression("1/(x**2 - 2)**2", box).undefined(box)
    (crossing,) = Expression("1/(x**2 - 2)", box).undefined(box)
    assert not touching.certain and crossing.certain
    assert "may be" in touching.text and "may be" not in crossing.text
    formula = Expression("1/x", box)
    found = formula.undefined(box)
    monkeypatch.setattr(UndefinedSearch, "run", lambda self: pytest.fail("the same box was searched again"))
    assert formula.undefined(Box(x=(-2, 2))) == found and found[0].certain
