"""Callables as targets: every call style, and every way a callable can disappoint."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from softwright.domain import Box
from softwright.errors import InvalidInput
from softwright.targets import Function

LINE, PLANE = Box(x=(0.1, 1)), Box(x=(-1, 1), y=(0, 2))
POINTS = PLANE.sample(9, seed=1)
X, Y = POINTS.T


def scalar_only(x: float, y: float) -> list[float]:
    return [math.sin(x), y] if x < 0 else [0.0, -y]


STYLES: list[tuple[Callable[..., Any], str, np.ndarray]] = [
    (lambda x, y: x + y, "columns", np.stack([X + Y], 1)),
    (lambda x, y: (x, 1.0), "columns", np.stack([X, np.ones(9)], 1)),
    (lambda x, y: np.stack([x, y, x * y], axis=1), "columns", np.stack([X, Y, X * Y], 1)),
    (lambda x, y: [math.sin(a) + b for a, b in zip(x, y, strict=True)], "columns", np.stack([np.sin(X) + Y], 1)),
    (lambda x, y: np.array([x, y, x * y]), "stacked columns", np.stack([X, Y, X * Y], 1)),
    (lambda x, y: np.array([x, y, x, y, x]), "stacked columns", np.stack([X, Y, X, Y, X], 1)),
    (lambda p: p.sum(axis=1), "points", np.stack([X + Y], 1)),
    (lambda p: p @ np.ones((2, 3)), "points", np.stack([X + Y] * 3, 1)),
    (lambda p: torch.sin(torch.as_tensor(p))[:, 0], "points", np.stack([np.sin(X)], 1)),
    (lambda x, y: torch.sin(x) + y, "tensor columns", np.stack([np.sin(X) + Y], 1)),
    (lambda p: torch.sin(p).sum(-1), "tensor points", np.stack([np.sin(X) + np.sin(Y)], 1)),
    (scalar_only, "scalars", np.stack([np.where(X < 0, np.sin(X), 0), np.where(X < 0, Y, -Y)], 1)),
    (lambda x, y: 3, "scalars", np.full((9, 1), 3.0)),
    (lambda x, y: x > y, "columns", np.stack([X > Y], 1).astype(float)),
]


@pytest.mark.parametrize(("fn", "style", "expected"), STYLES, ids=range(len(STYLES)))
def test_call_styles_are_found(fn: Callable[..., Any], style: str, expected: np.ndarray) -> None:
    for variables in (PLANE, ["x", "y"], 2):
        function = Function(fn, variables)
        values = function(POINTS)
        assert function.style == style
        assert values.dtype == np.float64
        assert np.allclose(values, expected)
        assert np.allclose(function(POINTS[:1]), expected[:1])
        assert function.outputs == expected.shape[1]


@pytest.mark.parametrize(
    ("fn", "style"),
    [(np.sin, "columns"), (math.sin, "scalars"), (torch.sin, "tensor columns"), (lambda p: np.sin(p[:, 0]), "points")],
)
def test_one_variable(fn: Callable[..., Any], style: str) -> None:
    function = Function(fn, LINE)
    points = LINE.sample(7)
    assert function.style == style
    assert np.allclose(function(points), np.sin(points))


def test_torch_modules_get_their_own_dtype() -> None:
    module = torch.nn.Linear(2, 3)
    function = Function(module, PLANE)
    assert function.outputs == 3
    assert np.allclose(function(POINTS), module(torch.tensor(POINTS, dtype=torch.float32)).detach().numpy(), atol=1e-6)


def test_chunks_and_the_points_stay_as_they_are() -> None:
    sizes: list[int] = []

    def fn(points: np.ndarray) -> np.ndarray:
        sizes.append(len(points))
        points *= 2
        return points.sum(axis=1)

    function = Function(fn, PLANE, chunk=4)
    sizes.clear()
    before = POINTS.copy()
    assert np.allclose(function(POINTS)[:, 0], 2 * (X + Y))
    assert sizes == [4, 4, 1]
    assert np.array_equal(POINTS, before)


def test_vectorized_can_be_fixed() -> None:
    assert Function(lambda x, y: x + y, PLANE, vectorized=False).style == "scalars"
    with pytest.raises(InvalidInput, match="no way of calling"):
        Function(scalar_only, PLANE, vectorized=True)


FAILURES: list[tuple[Callable[..., Any], str]] = [
    (lambda x, y: x + 1j, "complex"),
    (lambda x, y: "text", "return real numbers"),
    (lambda x, y: None, "return real numbers"),
    (lambda x, y, z: x, "TypeError"),
    (lambda p: p @ p.T, "number of outputs depends"),
    (lambda p: p.mean(axis=0), "it returns shape"),
    (lambda x, y: x / x.max(), "depends on the others given with it"),
    (lambda p: p[:, 0] - p[:, 1].mean(), "depends on the others given with it"),
    (lambda a, b=0.0: a + b, "both work but differ"),
    (lambda x, y: {"a": 1}, "return real numbers"),
]


@pytest.mark.parametrize(("fn", "message"), FAILURES, ids=range(len(FAILURES)))
def test_misfits_are_refused(fn: Callable[..., Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Function(fn, PLANE)


def test_a_function_that_mixes_points_is_only_called_point_by_point() -> None:
    assert Function(lambda x, y: np.asarray(x) / np.max(np.abs(x)), PLANE).style == "scalars"


def test_an_exception_is_reported_with_its_point() -> None:
    def fn(x: np.ndarray) -> np.ndarray:
        if np.any(np.abs(x - 0.62) < 1e-6):
            raise RuntimeError("boom")
        return x

    function = Function(fn, ["x"])
    function(np.linspace(0, 1, 11)[:, None])
    with pytest.raises(InvalidInput, match=r"at x=0\.62 it raises RuntimeError: boom"):
        function(np.linspace(0, 1, 101)[:, None])
    with pytest.raises(InvalidInput, match=r"at x=0\.5 it raises ZeroDivisionError"):
        Function(lambda x: 1 / (x - 0.5) if x < 2 else 0.0, ["x"])(np.linspace(0, 1, 5)[:, None])


def test_values_that_are_not_finite_are_reported_with_their_point() -> None:
    with pytest.raises(InvalidInput, match=r"the value at x=0 is \[-inf\] \(1 of 11 points\)"):
        Function(np.log, ["x"])(np.linspace(0, 1, 11)[:, None])


def test_a_changing_number_of_outputs_is_refused() -> None:
    function = Function(lambda x, y: [x, y] if x < 5 else [x], ["x", "y"])
    function(POINTS)
    with pytest.raises(InvalidInput, match="1 outputs, not 2"):
        function(np.full((2, 2), 6.0))
    with pytest.raises(InvalidInput, match="2 outputs but 3 were stated"):
        Function(scalar_only, PLANE, outputs=3)


def test_promises_are_checked() -> None:
    function = Function(np.sin, ["x"], lipschitz=1, second_derivative=[1.0])
    assert function.lipschitz == 1.0
    assert function.second_derivative == (1.0,)
    assert function.describe()["lipschitz"] == 1.0
    with pytest.raises(InvalidInput) as caught:
        Function(3, 0, chunk=0, lipschitz=-1, second_derivative=[1, 2, math.inf])  # type: ignore[arg-type]
    assert len(caught.value.faults) == 6


def test_outputs_are_unknown_before_the_first_call() -> None:
    function = Function(np.sin, ["x"], name="wave")
    with pytest.raises(InvalidInput, match="Function wave: the number of outputs is not known yet"):
        _ = function.outputs
    assert Function(np.sin, ["x"], outputs=1).outputs == 1
    function(np.zeros((1, 1)))
    assert function.outputs == 1
    assert function.describe()["kind"] == "function"


@pytest.mark.parametrize(
    "fn",
    [
        lambda *x: sum(a * a for a in x),
        lambda *x: math.hypot(*x) ** 2,
        lambda *x: np.sum(np.square(x), axis=0),
        lambda first, *rest: first**2 + sum(a**2 for a in rest),
    ],
)
def test_variables_in_args_are_taken_one_by_one(fn: Any) -> None:
    box = Box(x=(0, 1), y=(0, 2), z=(1, 2))
    function = Function(fn, box)
    points = box.sample(6)
    assert function.outputs == 1
    assert np.allclose(function(points)[:, 0], (points**2).sum(axis=1))


def test_args_that_hold_the_points_are_the_last_resort() -> None:
    box = Box(x=(0, 1), y=(0, 2))
    function = Function(lambda *given: given[0].reshape(-1, 2).sum(axis=1) if len(given) == 1 else None, box)
    assert function.style == "points"


def test_every_point_asked_for_is_counted() -> None:
    seen = []

    def fn(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        seen.append(np.size(x))
        return x + y

    function = Function(fn, Box(x=(0, 1), y=(0, 2)))
    function(np.zeros((11, 2)))
    assert function.asked == sum(seen)
