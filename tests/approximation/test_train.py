"""Tensor trains of callables: ranks, queries, and the stack of gates that runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softwright as sw
from softwright.approximation.problem import OutOfBudget
from softwright.approximation.train.axes import Axis, axis_for, leja_points
from softwright.approximation.train.build import train_of
from softwright.approximation.train.gates import gate_stack, rounded
from softwright.approximation.train.order import arranged, interactions

BOX = sw.Box({f"x{i}": (0.0, 1.0 + i) for i in range(5)})


class Counted:
    """A callable of points that counts them."""

    def __init__(self, outputs: int = 1) -> None:
        self.points, self.outputs = 0, outputs

    def __call__(self, points: np.ndarray) -> np.ndarray:
        self.points += len(points)
        first = np.exp(-points[:, 0] * points[:, 3]) + np.sin(points[:, 1]) * points[:, 4]
        return np.stack([first, first**2 + points[:, 2]], axis=1)[:, : self.outputs]


def chain(t: np.ndarray) -> np.ndarray:
    """Rank 2 at every bond: a sum of products of neighbours."""
    return (t[:, :-1] * t[:, 1:]).sum(axis=1, keepdims=True)


def test_ranks_are_those_of_the_function_and_few_points_are_asked() -> None:
    asked = Counted()

    def ask(t: np.ndarray) -> np.ndarray:
        asked.points += len(t)
        return chain(t)

    found = train_of(ask, 6, 1, 1e-8)
    assert found is not None and found.error <= 1e-8
    points = np.random.default_rng(3).uniform(-1, 1, (2000, 6))
    assert np.abs(found.train(points) - chain(points)).max() <= 1e-8
    assert max(rounded(found.train, 1e-9, points).ranks) == 3  # 1, x and the sum so far
    assert asked.points < 1500


def test_a_train_ends_where_queries_end() -> None:
    left = 250

    def ask(t: np.ndarray) -> np.ndarray:
        nonlocal left
        left -= len(t)
        if left < 0:
            raise OutOfBudget
        return chain(t)

    assert train_of(ask, 6, 1, 1e-8) is None


@pytest.mark.parametrize("strength", [0.0, 3.0, -6.0])
def test_maps_of_axes_are_inverse_to_each_other(strength: float) -> None:
    axis = Axis(12, strength)
    u = np.linspace(-1, 1, 41)
    assert np.abs(axis.to_map(axis.from_map(u)) - u).max() <= 1e-12
    step = 1e-6
    inner = u[1:-1]
    slope = (axis.from_map(inner + step) - axis.from_map(inner - step)) / (2 * step)
    assert np.abs(slope / axis.slope(inner) - 1).max() <= 1e-6


def test_a_logarithm_gets_a_map_and_a_polynomial_none() -> None:
    log = axis_for(lambda t: np.log(t + 1.001)[:, None], 1e-4)
    assert log.strength > 0 and log.nodes <= 16
    assert axis_for(lambda t: (t**3)[:, None], 1e-9) == Axis(5, 0.0)
    assert len(np.unique(leja_points())) == len(leja_points())


def test_variables_that_interact_become_neighbours() -> None:
    def ask(t: np.ndarray) -> np.ndarray:
        return (t[:, 0] * t[:, 5] + t[:, 5] * t[:, 2] + t[:, 2] * t[:, 4] + t[:, 1] + t[:, 3])[:, None]

    order = arranged(interactions(ask, 6, 2, np.random.default_rng(0)), np.random.default_rng(0))
    places = {variable: place for place, variable in enumerate(order)}
    assert all(abs(places[i] - places[j]) == 1 for i, j in ((0, 5), (5, 2), (2, 4)))


def test_a_stack_of_gates_is_the_train() -> None:
    found = train_of(lambda t: np.exp(chain(t)), 3, 1, 1e-7)
    assert found is not None
    points = np.random.default_rng(1).uniform(-1, 1, (500, 3))
    stack, off = gate_stack(found.train, 1e-6, 1.2e-16, points)
    assert off <= 1e-6
    assert np.abs(stack(points) - np.exp(chain(points))).max() <= 2e-6


@pytest.mark.parametrize("outputs", [1, 2])
def test_queries_are_counted_and_bounded(outputs: int, tmp_path: Path) -> None:
    asked = Counted(outputs)
    built = sw.approximate(asked, BOX, tol=1e-4, max_queries=3000, strategy="train", progress=False)
    assert built.plan.queries == asked.points <= 3000
    assert built.certificate is None and "fresh queries" in built.unproved
    points = BOX.sample(3000, seed=8)
    assert np.abs(built(points) - Counted(outputs)(points)).max() <= 1e-4
    assert built.kind == "composition" and built.network.depth == 5
    path = tmp_path / "train.safetensors"
    built.save(path)
    assert not sw.verify(path)
    assert sw.load(path).plan.queries == built.plan.queries
    built.page(tmp_path / "train.html")
    assert "state 1" in (tmp_path / "train.html").read_text(encoding="utf-8")


def test_few_queries_of_few_variables_still_make_one_layer() -> None:
    built = sw.approximate(lambda x: np.sin(3 * x), {"x": (0, 2)}, tol=1e-5, max_queries=400, progress=False)
    assert built.plan.queries is not None and built.plan.queries <= 400
    assert built.kind == "approximation"
    x = np.linspace(0, 2, 999)
    assert np.abs(built(x[:, None])[:, 0] - np.sin(3 * x)).max() <= 1e-5


def test_too_few_queries_are_said() -> None:
    with pytest.raises(sw.ToleranceNotReached, match="max_queries") as missed:
        sw.approximate(lambda p: np.abs(p.sum(axis=1) - 7), BOX, tol=1e-3, max_queries=2000, progress=False)
    assert missed.value.best is None or missed.value.best.plan.queries <= 2000


@pytest.mark.parametrize("given", [0, 99, 1.5, True, "many"])
def test_a_limit_of_queries_is_a_whole_number(given: Any) -> None:
    with pytest.raises(sw.InvalidInput, match="max_queries"):
        sw.approximate(lambda x: x, {"x": (0, 1)}, max_queries=given)


def test_formulas_are_not_asked() -> None:
    with pytest.raises(sw.InvalidInput, match="max_queries is for callables"):
        sw.approximate("x", {"x": (0, 1)}, max_queries=1000)
