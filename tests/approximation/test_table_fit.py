"""Tables are met at their points, on grids and scattered, in float64 and float32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.interpolate import RegularGridInterpolator

import softwright as sw


def plane_values(points: np.ndarray) -> np.ndarray:
    return np.sin(2 * points[:, 0]) * np.exp(-(points[:, 1] ** 2))


def grid_points(*sizes: int) -> np.ndarray:
    mesh = np.meshgrid(*[np.linspace(-1, 2, n) for n in sizes], indexing="ij")
    return np.stack([g.ravel() for g in mesh], axis=1)


def worst(built: sw.Built, points: np.ndarray, values: np.ndarray) -> float:
    return float(np.abs(built(points) - values).max())


@pytest.mark.parametrize(("dtype", "tol"), [("float64", 1e-6), ("float32", 1e-4)])
def test_grid_table(dtype: str, tol: float) -> None:
    points = grid_points(25, 21)
    values = plane_values(points)[:, None]
    order = np.random.default_rng(0).permutation(len(points))  # rows may come in any order
    table = sw.Table(points[order], values[order], names=["x", "y"])
    assert table.axes is not None
    built = sw.approximate(table, tol=tol, dtype=dtype)
    assert built.plan.dtype == dtype
    assert built.observed_error <= tol
    assert worst(built, points, values) <= tol
    assert built.network.tokens < 0.5 * len(points)
    between = grid_points(40, 33)
    assert worst(built, between, plane_values(between)[:, None]) <= 100 * tol  # smooth between the points


@pytest.mark.parametrize(("dtype", "tol"), [("float64", 1e-5), ("float32", 1e-3)])
def test_scattered_table(dtype: str, tol: float) -> None:
    points = np.random.default_rng(1).uniform(-1, 2, (300, 2))
    values = plane_values(points)[:, None]
    built = sw.approximate((points, values), sw.Box(x=(-1, 2), y=(-1, 2)), tol=tol, dtype=dtype)
    assert built.observed_error <= tol
    assert worst(built, points.astype(np.float32 if dtype == "float32" else float), values) <= 1.1 * tol


def test_line_table_of_two_outputs() -> None:
    x = np.sort(np.random.default_rng(0).uniform(0, 5, 60))
    values = np.stack([np.sin(x), np.cos(x)], axis=1)
    built = sw.approximate(sw.Table(x, values), tol=1e-6)
    assert worst(built, x[:, None], values) <= 1e-6
    assert built.network.outputs == 2


def test_affine_table_is_one_token() -> None:
    points = grid_points(4, 5)
    built = sw.approximate(sw.Table(points, 2 * points[:, 0] - points[:, 1] + 1), tol=1e-9)
    assert built.network.tokens == 1


def test_a_larger_box_is_allowed_a_smaller_one_is_not() -> None:
    points = grid_points(12)
    table = sw.Table(points, np.sin(points), names=["x"])
    wide = sw.approximate(table, sw.Box(x=(-2, 3)), tol=1e-5)
    assert worst(wide, points, np.sin(points)) <= 1e-5
    with pytest.raises(sw.InvalidInput, match="lie outside the box; widen the box"):
        sw.approximate(table, sw.Box(x=(0, 1)), tol=1e-5)


def test_noise_is_met_or_missed_honestly() -> None:
    points = np.linspace(-1, 1, 20)
    values = np.random.default_rng(0).normal(size=20)
    try:
        built = sw.approximate(sw.Table(points, values), tol=1e-6, max_seconds=20)
    except sw.ToleranceNotReached as missed:
        assert missed.best is not None
        built = missed.best
        assert built.observed_error > 1e-6
    assert worst(built, points[:, None], values[:, None]) == pytest.approx(built.observed_error, rel=1e-6, abs=1e-12)


def test_tokens_do_not_grow_with_the_rows_of_one_function() -> None:
    tokens = []
    for rows in (2_000, 30_000):
        x = np.linspace(0, 1, rows)
        built = sw.approximate(sw.Table(x, np.sin(20 * x)), tol=1e-3, certify=False)
        assert built.observed_error <= 1e-3  # at all of them
        tokens.append(built.plan.tokens)
    assert tokens[1] <= tokens[0] + 1


def kinked(points: np.ndarray) -> np.ndarray:
    x, y = points.T
    return (np.maximum(x - 0.31 * y, 0.2) * (1 + 0.3 * y) + 0.1 * np.sin(3 * x))[:, None]


def test_between_the_rows_of_a_kinked_grid_no_worse_than_interpolation() -> None:
    nodes = [np.linspace(-1, 1, 11), np.linspace(-1, 1, 9)]
    mesh = np.stack([g.ravel() for g in np.meshgrid(*nodes, indexing="ij")], axis=1)
    table, tol = sw.Table(mesh, kinked(mesh), names=["x", "y"]), 2e-3
    places = np.random.default_rng(1).uniform(-1, 1, (4000, 2))
    straight = RegularGridInterpolator(nodes, kinked(mesh).reshape(11, 9))(places)[:, None]
    linear = np.abs(straight - kinked(places)).max()
    built = sw.approximate(table, tol=tol, progress=False)
    assert worst(built, mesh, kinked(mesh)) <= tol
    assert worst(built, places, kinked(places)) <= linear + tol
    assert any("left out" in reason for reason in built.plan.reasons)


def kinks(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0) * np.abs(y - 0.03)


def over_decades(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.log10(x + 2) * y


@pytest.mark.parametrize("function", [kinks, over_decades])
def test_what_nothing_smooth_follows_is_interpolated_linearly(function: Callable[..., np.ndarray]) -> None:
    uneven = np.geomspace(1e-3, 30, 12) - 1 if function is over_decades else np.linspace(-1, 1, 12)
    nodes = [uneven, np.linspace(-1, 1, 7)]
    rows = function(*np.meshgrid(*nodes, indexing="ij"))
    built = sw.approximate(sw.Table.grid(nodes, rows), tol=1e-3, relative=True, progress=False, certify=False)
    rng, half = np.random.default_rng(1), 0.5 * float(np.ptp(rows))
    places = np.stack([np.interp(rng.uniform(0, len(t) - 1, 3000), np.arange(len(t)), t) for t in nodes], axis=1)
    straight = RegularGridInterpolator(nodes, rows)(places)
    truth = function(*places.T)
    assert worst(built, places, truth[:, None]) <= np.abs(straight - truth).max() + 1e-3 * half


def test_few_tokens_do_not_swing_between_the_rows_either() -> None:
    x, y = nodes = [np.linspace(0, 1, 25), np.linspace(0, 1, 25)]
    mesh = np.meshgrid(x, y, indexing="ij")
    places = np.random.default_rng(2).uniform(0, 1, (4000, 2))

    def steam(p: np.ndarray, t: np.ndarray) -> np.ndarray:  # an enthalpy, about, next to saturation
        return t - 0.3 * p / (0.3 + t) ** 2 - 0.05 * p**2 / (0.3 + t) ** 6

    rows, truth = steam(*mesh), steam(*places.T)
    half = 0.5 * float(np.ptp(rows))
    linear = np.abs(RegularGridInterpolator(nodes, rows)(places) - truth).max() / half
    for tol in (1e-4, 1e-5):
        built = sw.approximate(sw.Table.grid(nodes, rows), tol=tol, relative=True, progress=False, certify=False)
        assert worst(built, places, truth[:, None]) / half <= linear / 20


def test_linear_between_the_rows_of_a_line_is_a_token_a_cell() -> None:
    x = np.array([0.0, 0.1, 0.4, 0.5, 0.9, 1.5, 2.0])
    y = np.array([0.0, 1.0, 1.0, -2.0, 3.0, 3.5, 3.0])
    built = sw.approximate(sw.Table(x[:, None], y[:, None], names=["x"]), tol=1e-3, between="linear", progress=False)
    places = np.linspace(0, 2, 2001)
    assert built.plan.tokens == 6
    assert worst(built, places[:, None], np.interp(places, x, y)[:, None]) <= 1e-3


def test_between_is_asked_of_tables_alone() -> None:
    with pytest.raises(sw.InvalidInput, match="between= is for tables"):
        sw.approximate("x", sw.Box(x=(0, 1)), between="linear")
    with pytest.raises(sw.InvalidInput, match="between must be one of"):
        sw.approximate("x", sw.Box(x=(0, 1)), between=0.1)  # type: ignore[arg-type]
