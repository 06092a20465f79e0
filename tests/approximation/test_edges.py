"""Known kinks and jumps are found where they are, and smooth functions have none."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwright.approximation.fitting.edges import find_edges, merged, steep_places, zeros_of

Line = Callable[[np.ndarray], np.ndarray]


@given(st.lists(st.integers(-980_000, 980_000), min_size=1, max_size=4, unique=True))
def test_zeros_of_polynomials(millionths: list[int]) -> None:
    roots = sorted(n / 1e6 for n in millionths)
    if any(b - a < 2e-3 for a, b in pairwise(roots)):
        return  # closer than the samples: a double zero changes no sign
    found = zeros_of(lambda t: np.prod([t - r for r in roots], axis=0))
    assert len(found) == len(roots)
    assert np.abs(np.array(found) - roots).max() <= 1e-12


def test_zeros_at_samples_and_of_transcendental_functions() -> None:
    assert zeros_of(lambda t: t) == [0.0]
    assert zeros_of(lambda t: 0.0 * t) == []
    ends = zeros_of(lambda t: np.maximum(np.abs(t) - 0.5, 0.0) * np.sign(t))
    assert np.allclose(ends, [-0.5, 0.5], atol=1e-3)
    found = zeros_of(lambda t: np.sin(5 * t))
    assert np.abs(np.array(found) - np.array([-np.pi / 5, 0, np.pi / 5])).max() <= 1e-15
    assert zeros_of(lambda t: t**2 + 1) == []


def test_undefined_values_are_not_zeros_that_raise() -> None:
    assert np.abs(np.array(zeros_of(lambda t: np.sqrt(t) - 0.5)) - 0.25).min() <= 1e-12


def test_merging() -> None:
    assert merged([0.5, -0.2, 0.5 + 1e-12, 1.0, -1.0, 0.9999999999]) == [-0.2, 0.5]


KINKS: dict[str, tuple[Line, list[float]]] = {
    "absolute value": (lambda t: np.abs(t - 0.3), [0.3]),
    "on a slope": (lambda t: np.abs(t + 0.123456789) + np.sin(3 * t), [-0.123456789]),
    "two": (lambda t: np.abs(t - 0.61) - 0.5 * np.abs(t + 0.37) + np.exp(t), [-0.37, 0.61]),
    "clipped": (lambda t: np.clip(t, -0.3, 0.4), [-0.3, 0.4]),
    "rectified wave": (lambda t: np.abs(np.sin(5 * t)), [-np.pi / 5, 0.0, np.pi / 5]),
    "maximum of curves": (lambda t: np.maximum(t**2, 0.5 - t), [(np.sqrt(3) - 1) / 2]),
}


@pytest.mark.parametrize("name", KINKS)
def test_kinks_of_a_black_box_are_located(name: str) -> None:
    function, places = KINKS[name]
    found = find_edges(function)
    assert len(found) == len(places)
    assert np.abs(np.array(found) - places).max() <= 1e-9


@given(st.floats(-0.9, 0.9), st.floats(0.1, 3.0), st.integers(0, 2**32 - 1))
def test_a_random_kink_on_a_random_smooth_function(place: float, strength: float, seed: int) -> None:
    a, b, c = np.random.default_rng(seed).normal(size=3)
    found = find_edges(lambda t: strength * np.abs(t - place) + a * np.sin(2 * t + b) + c * t**2)
    assert len(found) == 1
    assert abs(found[0] - place) <= 1e-9


@pytest.mark.parametrize("place", [-0.77, 0.0, 0.2, 1 / 3])
def test_jumps_are_located(place: float) -> None:
    (found,) = find_edges(lambda t: np.where(t < place, np.sin(t), 1 + t**2))
    assert abs(found - place) <= 1e-9


@pytest.mark.parametrize(
    "function",
    [
        np.sin,
        np.exp,
        lambda t: np.sin(20 * t),
        lambda t: 1 / (1 + 25 * t**2),
        lambda t: np.tanh(30 * t),
        lambda t: np.exp(-400 * (t - 0.2) ** 2),
        np.zeros_like,
        lambda t: 1e6 + t**7,
    ],
)
def test_smooth_functions_have_no_edges(function: Line) -> None:
    assert find_edges(function) == []


def test_the_number_of_edges_is_limited() -> None:
    assert len(find_edges(lambda t: np.abs(np.sin(40 * t)), most=5)) <= 5


@pytest.mark.parametrize(
    ("function", "place"),
    [(lambda t: np.tanh(1e6 * (t - 0.3)), 0.3), (lambda t: np.exp(-((1e4 * (t + 0.1)) ** 2)), -0.1)],
)
def test_steep_places_are_found_between_the_points_of_a_sample(
    function: Callable[[np.ndarray], np.ndarray], place: float
) -> None:
    (found,) = steep_places(lambda t: function(t)[:, None], 1e-3)
    assert abs(found - place) < 1e-5


@pytest.mark.parametrize("function", [lambda t: np.sin(2000 * t), np.exp, lambda t: np.tanh(20 * t)])
def test_what_a_sample_sees_or_what_oscillates_has_no_steep_place(
    function: Callable[[np.ndarray], np.ndarray],
) -> None:
    assert steep_places(lambda t: function(t)[:, None], 1e-3) == []
