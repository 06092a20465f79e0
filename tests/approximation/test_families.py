"""Keys in closed form are what their formulas say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from softwright.approximation.fitting import families

T = np.linspace(-1, 1, 41)


def gaussian_weights(t: np.ndarray, centres: np.ndarray, width: float) -> np.ndarray:
    bells = np.exp(-((t[:, None] - centres) ** 2) / (2 * width**2))
    return bells / bells.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("count", [1, 2, 7, 50])
def test_chebyshev_points(count: int) -> None:
    points = families.chebyshev_points(count)
    assert np.all(np.diff(points) > 0)
    assert np.abs(np.cos(count * np.arccos(points))).max() <= 1e-12  # zeros of T_count


@pytest.mark.parametrize(("tokens", "ratio", "margin"), [(5, 1.0, 0.0), (9, 1.3, 2.0), (6, 0.8, -0.5)])
def test_uniform_axis_is_normalised_gaussians(tokens: int, ratio: float, margin: float) -> None:
    h = 2 / (tokens - 1 - 2 * margin)
    centres = -1 + h * (np.arange(tokens) - margin)
    wanted = gaussian_weights(T, centres, ratio * h)
    assert np.abs(families.uniform_axis(tokens, ratio, margin).weights(T) - wanted).max() <= 1e-12


def test_one_token_is_constant() -> None:
    assert np.array_equal(families.uniform_axis(1, 1.0, 0.0).weights(T), np.ones((41, 1)))
    assert len(families.uniform_candidates(1, 1e-6, True)) == 1


def test_bernstein_axis_is_binomial_in_a_sigmoid() -> None:
    tokens, steepness = 6, 1.7
    p = 1 / (1 + np.exp(-steepness * T))
    wanted = binom.pmf(np.arange(tokens), tokens - 1, p[:, None])
    assert np.abs(families.bernstein_axis(tokens, steepness).weights(T) - wanted).max() <= 1e-13


def test_graded_axis_on_uniform_centres_is_the_uniform_axis() -> None:
    centres = np.linspace(-1, 1, 7)
    wanted = families.uniform_axis(7, 1.2, 0.0).weights(T)
    assert np.abs(families.graded_axis(centres, 1.2).weights(T) - wanted).max() <= 1e-12


def test_graded_axis_hands_over_in_the_middle() -> None:
    centres = np.array([-1.0, -0.9, -0.5, 0.7])
    axis = families.graded_axis(centres, 0.3)
    for i in range(3):
        place = 0.5 * (centres[i] + centres[i + 1])
        scores = axis.keys * place + axis.biases
        assert abs(scores[i] - scores[i + 1]) <= 1e-10 * (1 + np.abs(scores).max())
        assert np.all(axis.weights(centres).argmax(axis=1) == np.arange(4))
    assert axis.biases.max() == 0
    assert abs(axis.keys[0] + axis.keys[-1]) <= 1e-9


def test_centres_follow_the_density() -> None:
    t = np.linspace(-1, 1, 1001)
    even = families.equidistributed_centres(t, np.ones_like(t), 10)
    assert np.abs(np.diff(even) - 0.2).max() <= 1e-9
    crowded = families.equidistributed_centres(t, np.where(t > 0, 50.0, 0.0), 20, floor=0.01)
    assert (crowded > 0).sum() >= 19
    assert np.all(np.diff(crowded) > 0)


def test_the_rule_grows_with_the_digits() -> None:
    for affine in (False, True):
        ratios, margins = zip(*[families.rule(10.0**-digits, affine) for digits in range(1, 13)], strict=True)
        assert list(ratios) == sorted(ratios)
        assert list(margins) == sorted(margins)
    assert families.rule(1e-10, False) == (pytest.approx(1.6), 6)
    assert families.rule(1e-10, True) == (pytest.approx(1.15), 4)


@pytest.mark.parametrize("tokens", [2, 3, 5, 30, 200])
@pytest.mark.parametrize("affine", [False, True])
def test_candidates_have_the_tokens_asked_for(tokens: int, affine: bool) -> None:
    axes = families.uniform_candidates(tokens, 1e-8, affine)
    assert axes
    for axis in axes:
        assert axis.tokens == tokens
        assert np.all(np.isfinite(axis.keys))
        assert np.all(np.diff(axis.keys) > 0)
