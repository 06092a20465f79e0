"""Boxes: what is accepted, what is refused with which words, and the map to the unit frame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from softwright.domain import Box, as_box
from softwright.errors import InvalidInput

FINITE = st.floats(-1e100, 1e100, allow_nan=False, allow_infinity=False)


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    dim = draw(st.integers(1, 4))
    sides = {}
    for i in range(dim):
        low, high = sorted((draw(FINITE), draw(FINITE)))
        assume(high - low > 1e-9 * max(abs(low), abs(high), 1e-200))
        sides[f"v{i}"] = (low, high)
    return Box(sides)


def test_three_ways_to_write_the_same_box() -> None:
    named = Box(x=(-1, 1), y=(-2, 3))
    assert Box({"x": (-1, 1), "y": (-2, 3)}) == named
    assert Box.from_bounds([-1, -2], [1, 3], ["x", "y"]) == named
    assert Box({"x": (-1, 1)}, y=[-2, 3]) == named
    assert hash(Box({"x": (-1, 1), "y": (-2, 3)})) == hash(named)
    assert named.names == ("x", "y")
    assert named.dim == 2
    assert named.as_dict() == {"x": [-1.0, 1.0], "y": [-2.0, 3.0]}
    assert list(named) == [("x", -1.0, 1.0), ("y", -2.0, 3.0)]
    assert repr(named) == "Box(x=(-1, 1), y=(-2, 3))"


def test_order_of_the_sides_matters() -> None:
    assert Box(x=(-1, 1), y=(-1, 1)) != Box(y=(-1, 1), x=(-1, 1))
    assert Box(x=(-1, 1)) != {"x": [-1.0, 1.0]}


def test_default_names() -> None:
    assert Box.from_bounds([0], [1]).names == ("x",)
    assert Box.from_bounds(np.zeros(3), np.ones(3)).names == ("x1", "x2", "x3")


@pytest.mark.parametrize(
    ("sides", "words"),
    [
        ({}, "at least one side"),
        ({"x": (1, -1)}, "swap them"),
        ({"x": (1, 1)}, "is empty; substitute the constant"),
        ({"x": (0, float("nan"))}, "not finite"),
        ({"x": (0, float("inf"))}, "not finite"),
        ({"x": (0, 1e-300)}, "rescale the variable"),
        ({"x": (-1.7e308, 1.7e308)}, "rescale the variable"),
        ({"x": 3.0}, r"write x=\(low, high\)"),
        ({"x": (0, 1, 2)}, r"write x=\(low, high\)"),
        ({"x": ("a", "b")}, r"write x=\(low, high\)"),
        ({"pi": (0, 1)}, "not a usable variable name"),
        ({"e": (0, 1)}, "not a usable variable name"),
        ({"2x": (0, 1)}, "not a usable variable name"),
        ({"x.y": (0, 1)}, "not a usable variable name"),
        ({"x\n": (0, 1)}, "not a usable variable name"),
        ({"": (0, 1)}, "not a usable variable name"),
        ({1: (0, 1)}, "not a usable variable name"),
    ],
)
def test_refused_boxes_name_the_remedy(sides: dict[Any, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Box(sides)


def test_all_faults_are_listed_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        Box({"pi": (0, 1), "x": (2, 1), "y": (0, float("inf")), "z": (0, 1, 2)})
    assert len(caught.value.faults) == 4


@pytest.mark.parametrize(
    ("lower", "upper", "names", "words"),
    [
        ([0, 0], [1], None, "must be equal"),
        ([0, 0], [1, 1], ["x"], "one name per side"),
        ([0, 0], [1, 1], ["x", "x"], "repeat"),
        ([[0]], [[1]], None, "1-D"),
    ],
)
def test_refused_bounds(lower: Any, upper: Any, names: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Box.from_bounds(lower, upper, names)


def test_bounds_cannot_be_changed_afterwards() -> None:
    box = Box(x=(0, 1))
    with pytest.raises(ValueError, match="read-only"):
        box.lower[0] = 5


@given(boxes())
def test_unit_frame(box: Box) -> None:
    d = box.dim
    assert np.array_equal(box.from_unit(-np.ones((1, d)))[0], box.lower)
    assert np.array_equal(box.from_unit(np.ones((1, d)))[0], box.upper)
    t = np.random.default_rng(0).uniform(-1, 1, (50, d))
    x = box.from_unit(t)
    assert box.contains(x).all()
    # The round trip loses what the box's offset makes it lose: ulps of the bounds over the halfwidth.
    slack = 8 * np.finfo(float).eps * (1 + np.maximum(np.abs(box.lower), np.abs(box.upper)) / box.halfwidth)
    assert np.all(np.abs(box.to_unit(x) - t) <= slack)


@given(boxes(), st.integers(0, 2**31))
def test_samples_lie_inside_and_are_repeatable(box: Box, seed: int) -> None:
    points = box.sample(20, seed)
    assert points.shape == (20, box.dim)
    assert box.contains(points).all()
    assert np.array_equal(points, box.sample(20, seed))


def test_contains_is_closed() -> None:
    box = Box(x=(0, 1), y=(0, 2))
    inside = box.contains(np.array([[0, 0], [1, 2], [1 + 1e-15, 0], [0.5, -1e-300], [np.nan, 1]]))
    assert inside.tolist() == [True, True, False, False, False]


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_corners(dim: int) -> None:
    box = Box.from_bounds(np.arange(dim), np.arange(dim) + 1.0)
    corners = box.corners()
    assert corners.shape == (2**dim, dim)
    assert len(np.unique(corners, axis=0)) == 2**dim
    assert np.all((corners == box.lower) | (corners == box.upper))


def test_corners_of_a_large_box_are_limited() -> None:
    box = Box.from_bounds(np.zeros(50), np.ones(50))
    assert box.corners(most=16).shape == (16, 50)


@pytest.mark.parametrize(
    ("given", "names", "wanted"),
    [
        (Box(u=(0, 1)), ["x"], Box(u=(0, 1))),
        ({"x": (-1, 1), "y": [0, 2]}, None, Box(x=(-1, 1), y=(0, 2))),
        ((-1, 1), None, Box(x=(-1, 1))),
        ([-1, 1], ["u"], Box(u=(-1, 1))),
        ((-1, 1), ["x", "y"], Box(x=(-1, 1), y=(-1, 1))),
        ([(-1, 1), (0, 2)], ["x", "y"], Box(x=(-1, 1), y=(0, 2))),
        (((0, 1), (2, 3)), None, Box(x1=(0, 1), x2=(2, 3))),
        (np.array([-1.0, 1.0]), None, Box(x=(-1, 1))),
        ((np.array([-1.0, 0.0]), np.array([1.0, 2.0])), ["x", "y"], Box(x=(-1, 1), y=(0, 2))),
        (([-1, 0, 5], [1, 2, 6]), None, Box(x1=(-1, 1), x2=(0, 2), x3=(5, 6))),
        ([(-1, 1)], ["x"], Box(x=(-1, 1))),
        ([(-1, 1), (0, 2), (5, 6)], None, Box(x1=(-1, 1), x2=(0, 2), x3=(5, 6))),
    ],
)
def test_boxes_are_taken_in_every_form(given: Any, names: list[str] | None, wanted: Box) -> None:
    assert as_box(given, names) == wanted


@pytest.mark.parametrize(
    ("given", "names", "words"),
    [
        (None, None, "Box\\(x=\\(-1, 1\\)\\)"),
        ("x in [-1, 1]", None, "is not a box"),
        (3.0, None, "is not a box"),
        ((1, 2, 3), None, "is not a box"),
        ([(1, 2, 3), (4, 5)], None, "is not a box"),
        ((0, "one"), None, "is not a box"),
        ([], None, "is not a box"),
        ((1, -1), None, "swap"),
        ({"x": 3}, None, "pair of numbers"),
        ([(0, 1), (0, 1)], ["x"], "one pair"),
        ([(0, 1), (3, 2), (4, 4)], None, "2 faults"),
    ],
)
def test_what_is_no_box_is_refused_with_the_remedy(given: Any, names: list[str] | None, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        as_box(given, names)
