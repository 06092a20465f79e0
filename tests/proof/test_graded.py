"""Heads whose keys span many powers of ten: proved, proved again, and never exceeded next to the singular point."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import softwright as sw

NEAR = np.concatenate([[0.0], 10.0 ** np.random.default_rng(3).uniform(-300, 0, 4000)])


@pytest.mark.parametrize(
    ("formula", "tol", "dtype", "most"),
    [
        ("sqrt(x)", 1e-9, "float64", 120),
        ("x**0.3", 1e-6, "float64", 90),
        ("xlogy(x, x)", 1e-6, "float64", 90),
        ("sqrt(x)", 1e-4, "float32", 30),
    ],
)
def test_singular_ends_are_proved_and_verified(formula: str, tol: float, dtype: str, most: int, tmp_path: Path) -> None:
    box = sw.Box(x=(0, 1))
    built = sw.approximate(formula, box, tol=tol, relative=True, strategy="graded", dtype=dtype, progress=False)
    assert built.certificate is not None and built.network.tokens <= most
    points = NEAR.astype(dtype).astype(float)[:, None]
    seen = np.abs(built(points) - sw.Expression(formula, box)(points)).max()
    assert seen <= built.certificate.bound
    built.save(path := tmp_path / "graded.safetensors")
    assert sw.verify(path).verified


def test_a_bound_below_the_error_is_not_proved_next_to_a_singular_end() -> None:
    """The head of a loose fit: what it errs by is seen at a point, and no smaller bound is ever proved."""
    box = sw.Box(x=(0, 1))
    built = sw.approximate("sqrt(x)", box, tol=1e-3, strategy="graded", certify=False, progress=False)
    seen = float(np.abs(built(NEAR[:, None])[:, 0] - np.sqrt(NEAR)).max())
    assert sw.certify(built.network, "sqrt(x)", bound=0.9 * seen, max_seconds=5, progress=False).status != "proved"
