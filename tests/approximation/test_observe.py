"""The independent check looks where errors hide."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from softwright.approximation.fitting.families import uniform_axis
from softwright.approximation.observe import check_points, crossing_points, sampled_error
from softwright.approximation.problem import probe_points
from softwright.attention import AttentionNetwork, Head
from softwright.domain import Box


def leading_gap(head: Head, t: np.ndarray) -> np.ndarray:
    scores = np.sort(t @ head.keys.T + head.biases, axis=1)
    return scores[:, -1] - scores[:, -2]


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("sharpness", [1e2, 1e6])
def test_crossing_points_lie_at_crossings(dim: int, sharpness: float) -> None:
    rng = np.random.default_rng(dim)
    keys = sharpness * rng.normal(size=(6, dim))
    head = Head(keys, -0.2 * sharpness * rng.uniform(size=6), rng.normal(size=(6, 1)))
    points = crossing_points(head, 2000, seed=1)
    assert len(points) > 20
    assert np.all(np.abs(points) <= 1)
    gaps = leading_gap(head, points)
    # Scores of two neighbours differ by 60 at most on a line of points through a crossing; near a third token a
    # point may fall into its cell, so a part of them is enough, and some must lie on a wall itself.
    near = gaps <= 61
    assert near.mean() >= 0.2 * min(dim, 2)
    assert gaps.min() <= 1e-6 * max(1.0, 1e-9 * sharpness)
    # Uniform points hardly ever come so close to a sharp wall.
    if sharpness == 1e6:
        assert (leading_gap(head, rng.uniform(-1, 1, (2000, dim))) <= 61).mean() < 0.01


def test_crossings_of_a_line_are_exact() -> None:
    knots, beta = np.array([-0.4, 0.25]), 1e5
    keys = np.array([0.0, beta, 2 * beta])[:, None]
    biases = np.concatenate([[0.0], -np.cumsum(beta * knots)])
    points = crossing_points(Head(keys, biases, np.zeros((3, 1))), 100, seed=0)[:, 0]
    for knot in knots:
        assert np.abs(points - knot).min() <= 1e-12
        assert ((points > knot) & (points < knot + 1e-3)).sum() >= 10
        assert ((points < knot) & (points > knot - 1e-3)).sum() >= 10


def test_a_narrow_gate_error_is_found() -> None:
    """A bump of width 1e-7 with height 1: no uniform sample of 20,000 points sees it."""
    head = Head(
        np.array([[-1e8], [1e8]]), np.array([0.0, -0.2e8]), np.zeros((2, 1)), np.array([[[-1.0]], [[1.0]]]), "gates"
    )
    place = 0.1
    head = head.plus_affine(np.zeros(1))
    network = AttentionNetwork([head], Box(x=(-1, 1)))

    def target(x: np.ndarray) -> np.ndarray:
        exact = np.where(x < place, -x, x)
        return exact - np.where(np.abs(x - place) < 1e-7, 1.0, 0.0)

    assert sampled_error(network, target).error >= 0.8


def test_the_worst_point_is_reported() -> None:
    axis = uniform_axis(6, 1.2, 1)
    network = AttentionNetwork([Head.on_grid([axis], np.zeros((6, 1)))], Box(x=(0, 4)))
    observed = sampled_error(network, lambda x: np.exp(-30 * (x - 1.7) ** 2))
    assert observed.error == pytest.approx(1.0, abs=1e-6)
    assert observed.point[0] == pytest.approx(1.7, abs=1e-3)
    assert observed.points > 20_000
    assert observed.as_dict() == {"error": observed.error, "point": [observed.point[0]], "points": observed.points}


def test_corners_are_looked_at() -> None:
    dim = 4
    network = AttentionNetwork(
        [Head(np.zeros((1, dim)), np.zeros(1), np.zeros((1, 1)))], Box.from_bounds(-np.ones(4), np.ones(4))
    )
    spike = sampled_error(network, lambda x: np.exp(-1e4 * ((x - 1) ** 2).sum(axis=1, keepdims=True)))
    assert spike.error == 1.0
    assert spike.point == (1.0, 1.0, 1.0, 1.0)


def test_float32_networks_and_targets_see_the_same_points() -> None:
    # Far from the origin the rounding of x alone would otherwise look like an error of the network.
    box = Box(x=(1000, 1001))
    head = Head(np.zeros((1, 1)), np.zeros(1), np.full((1, 1), 0.5), np.full((1, 1, 1), 0.5))  # x - 1000
    network = AttentionNetwork([head], box, torch.float32)
    assert sampled_error(network, lambda x: x - 1000).error <= 1e-6


def test_checks_are_repeatable() -> None:
    rng = np.random.default_rng(0)
    network = AttentionNetwork(
        [Head(rng.normal(size=(5, 2)), rng.normal(size=5), rng.normal(size=(5, 1)))], Box(x=(0, 1), y=(0, 1))
    )
    first, second = (sampled_error(network, lambda x: x[:, :1] * x[:, 1:]) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_probe_points(dim: int) -> None:
    points = probe_points(dim, 900, seed=3)
    assert points.shape == (900, dim)
    assert np.all(np.abs(points) <= 1)
    assert (np.abs(points) == 1).all(axis=1).sum() >= min(2**dim, 90)
    box = Box.from_bounds(np.zeros(dim), np.full(dim, 3.0))
    head = Head(np.zeros((1, dim)), np.zeros(1), np.zeros((1, 1)))
    assert box.contains(check_points([head], box, 500, seed=1)).all()
