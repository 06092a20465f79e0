"""Values by least squares: the fast forms equal the textbook forms."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwright.approximation.fitting.families import chebyshev_points, uniform_axis
from softwright.approximation.fitting.least_squares import (
    apply_along,
    design,
    kron_evaluate,
    kron_ridge_solve,
    lawson_solve,
    regularisation,
    ridge_solve,
)
from softwright.attention import Axis


def normal_equations(A: np.ndarray, F: np.ndarray, strength: float) -> np.ndarray:
    """min |A v - F|^2 / n + strength^2 |v|^2 and one iterated step, by the normal equations in extended precision."""
    n, p = A.shape
    normal = A.T @ A + strength**2 * n * np.eye(p)
    v = np.linalg.solve(normal, A.T @ F)
    return v + np.linalg.solve(normal, A.T @ (F - A @ v))


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 3), st.sampled_from([1e-4, 1e-2, 1.0]))
def test_qr_ridge_equals_normal_equations(seed: int, unknowns: int, columns: int, strength: float) -> None:
    rng = np.random.default_rng(seed)
    A, F = rng.normal(size=(unknowns + 5, unknowns)), rng.normal(size=(unknowns + 5, columns))
    wanted = normal_equations(A, F, strength)
    assert np.abs(ridge_solve(A, F, strength) - wanted).max() <= 1e-8 * (1 + np.abs(wanted).max())


def test_point_weights_multiply_rows() -> None:
    rng = np.random.default_rng(0)
    A, F, weights = rng.normal(size=(20, 4)), rng.normal(size=(20, 2)), rng.uniform(0.1, 2, 20)
    weighted = ridge_solve(A, F, 1e-3, weights)
    assert np.allclose(weighted, ridge_solve(A * weights[:, None], F * weights[:, None], 1e-3), rtol=0, atol=1e-12)


def test_regularisation_keeps_values_near_the_cap() -> None:
    # Two tokens that are nearly the same column: without regularisation the values would be about 1e8.
    t = chebyshev_points(200)
    A = np.stack([np.ones_like(t), 1 + 1e-8 * t], axis=1)
    tolerance, cap = 1e-3, 10.0
    values = ridge_solve(A, t[:, None], regularisation(tolerance, cap))
    assert np.abs(values).max() <= 100 * cap


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 4), min_size=1, max_size=3), st.sampled_from([1e-5, 1e-2]))
def test_kronecker_solve_equals_dense_solve(seed: int, sizes: list[int], strength: float) -> None:
    rng = np.random.default_rng(seed)
    matrices = [rng.normal(size=(n + 3, n)) for n in sizes]
    F = rng.normal(size=(*[n + 3 for n in sizes], 2))
    dense = reduce(np.kron, matrices)
    wanted = ridge_solve(dense, F.reshape(-1, 2), strength)
    found = kron_ridge_solve(matrices, F, strength)
    assert found.shape == (*sizes, 2)
    assert np.abs(found.reshape(-1, 2) - wanted).max() <= 1e-7 * (1 + np.abs(wanted).max())
    fitted = kron_evaluate(matrices, found)
    assert np.abs(fitted.reshape(-1, 2) - dense @ found.reshape(-1, 2)).max() <= 1e-10 * (1 + np.abs(fitted).max())


def test_kronecker_solve_on_softmax_axes() -> None:
    t = chebyshev_points(40)
    axes = [uniform_axis(6, 1.3, 1), uniform_axis(5, 1.2, 1)]
    matrices = [design(axis, t, affine) for axis, affine in zip(axes, (True, False), strict=True)]
    F = np.sin(2 * t)[:, None, None] * np.exp(t)[None, :, None]
    found = kron_ridge_solve(matrices, F, 1e-6)
    wanted = ridge_solve(np.kron(matrices[0], matrices[1]), F.reshape(-1, 1), 1e-6)
    misfit = kron_evaluate(matrices, found) - kron_evaluate(matrices, wanted.reshape(found.shape))
    assert np.abs(misfit).max() <= 1e-9


def test_apply_along_each_axis() -> None:
    rng = np.random.default_rng(0)
    tensor = rng.normal(size=(2, 3, 4))
    for axis, letters in enumerate(("ax,xyz->ayz", "ax,yxz->yaz", "ax,yzx->yza")):
        matrix = rng.normal(size=(5, tensor.shape[axis]))
        assert np.allclose(apply_along(tensor, matrix, axis), np.einsum(letters, matrix, tensor), rtol=0, atol=1e-13)


def test_design_columns() -> None:
    axis, t = Axis(np.array([-1.0, 2.0]), np.array([0.5, 0.0])), np.linspace(-1, 1, 7)
    constant, affine = design(axis, t, False), design(axis, t, True)
    assert np.array_equal(affine[:, :2], constant)
    assert np.array_equal(affine[:, 2:], constant * t[:, None])


@pytest.mark.parametrize("degree", [1, 3])
def test_reweighting_approaches_the_best_sup_error(degree: int) -> None:
    # The best sup error of polynomials of degree n for t^(n+1) on [-1, 1] is 2^-n, at Chebyshev's points.
    t = np.linspace(-1, 1, 401)
    A, F = t[:, None] ** np.arange(degree + 1), t[:, None] ** (degree + 1)
    best = 2.0**-degree
    plain = np.abs(A @ ridge_solve(A, F, 1e-9) - F).max()
    values, weights = lawson_solve(A, F, 1e-9, goal=0.0, iterations=80)
    reweighted = np.abs(A @ values - F).max()
    assert plain > 1.2 * best
    assert best * (1 - 1e-6) <= reweighted <= 1.03 * best
    assert weights.shape == (401,)


def test_reweighting_stops_at_the_goal() -> None:
    t = np.linspace(-1, 1, 101)
    A, F = t[:, None] ** np.arange(2), t[:, None] ** 2
    values, weights = lawson_solve(A, F, 1e-9, goal=10.0)
    assert np.array_equal(values, ridge_solve(A, F, 1e-9, np.ones(101)))
    assert np.array_equal(weights, np.ones(101))
