"""Values rounded to float32 one after another: closer than each by itself, in one variable and in two."""

from __future__ import annotations

import numpy as np
import pytest

import softwright as sw
from softwright.approximation.fitting.rounded import settled
from softwright.attention.head import Head


def _head(dim: int, affine: bool) -> tuple[Head, np.ndarray, np.ndarray]:
    """Values that cancel: a smooth function by few tokens of small keys."""
    rng = np.random.default_rng(dim + 2 * affine)
    keys, biases = rng.normal(size=(7, dim)), rng.normal(size=7)
    t = np.sin(np.pi * rng.uniform(-0.5, 0.5, (400, dim)))
    weights = Head(keys, biases, np.zeros((7, 1))).weights(t)
    A = np.concatenate([weights, *([weights * t[:, [i]] for i in range(dim)] if affine else [])], axis=1)
    values = 300 * rng.normal(size=(A.shape[1], 1))
    parts = values.reshape(-1, 7, 1)
    slopes = np.moveaxis(parts[1:], 0, 2) if affine else None
    return Head(keys, biases, parts[0], slopes), t, A @ values


def _single(head: Head) -> Head:
    def cast(numbers: np.ndarray) -> np.ndarray:
        return numbers.astype(np.float32).astype(float)

    slopes = None if head.slopes is None else cast(head.slopes)
    return Head(cast(head.keys), cast(head.biases), cast(head.values), slopes)


@pytest.mark.parametrize(("dim", "affine"), [(1, True), (1, False), (2, True)])
def test_values_settled_for_rounded_keys_are_closer(dim: int, affine: bool) -> None:
    head, t, wanted = _head(dim, affine)
    alone = np.abs(_single(head)(t) - wanted).max()
    found = settled(head, t, wanted, 1e-7)
    assert found is not None
    assert np.array_equal(found.values, found.values.astype(np.float32)) and np.array_equal(found.keys, head.keys)
    assert np.abs(_single(found)(t) - wanted).max() < 0.4 * alone


def test_tolerances_near_the_floor_of_float32_are_met() -> None:
    for formula, tol in (("exp(x)", 2e-7), ("cos(10*x)", 5e-7)):
        built = sw.approximate(formula, sw.Box(x=(-1, 1)), tol=tol, dtype="float32", strategy="layer", certify=False)
        assert built.observed is not None and built.observed.error <= tol
