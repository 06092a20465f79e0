"""Random heads of every structure, and how far two correct evaluations of the same head may differ."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from softwright.attention import Axis, Head

EPSILON = {"float64": 2.0**-53, "float32": 2.0**-24}


def scattered_head(
    rng: np.random.Generator, dim: int, outputs: int, tokens: int, *, affine: bool, sharpness: float
) -> Head:
    return Head(
        sharpness * rng.normal(size=(tokens, dim)),
        sharpness * rng.normal(size=tokens),
        rng.normal(size=(tokens, outputs)),
        rng.normal(size=(tokens, outputs, dim)) if affine else None,
        "gates" if affine and sharpness > 5 else "scattered",
    )


def grid_of(rng: np.random.Generator, sizes: list[int], outputs: int, affine: bool, sharpness: float) -> Head:
    axes = [Axis(sharpness * rng.normal(size=n), sharpness * rng.normal(size=n)) for n in sizes]
    tokens = int(np.prod(sizes))
    slopes = None
    if affine:
        # One axis carries slopes, as the builders make them; the others must then be seen to be idle.
        slopes = np.zeros((tokens, outputs, len(sizes)))
        slopes[:, :, int(rng.integers(len(sizes)))] = rng.normal(size=(tokens, outputs))
    return Head.on_grid(axes, rng.normal(size=(tokens, outputs)), slopes)


@st.composite
def heads(draw: st.DrawFn, dim: int | None = None, outputs: int | None = None, grid: bool | None = None) -> Head:
    d = draw(st.integers(1, 4)) if dim is None else dim
    m = draw(st.integers(1, 3)) if outputs is None else outputs
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    affine = draw(st.booleans())
    sharpness = draw(st.sampled_from([0.3, 1.0, 8.0, 200.0]))
    if draw(st.booleans()) if grid is None else grid:
        return grid_of(rng, [draw(st.integers(1, 5)) for _ in range(d)], m, affine, sharpness)
    return scattered_head(rng, d, m, draw(st.integers(1, 12)), affine=affine, sharpness=sharpness)


def unit_points(dim: int, count: int = 40, seed: int = 5) -> np.ndarray:
    """Points of [-1, 1]^d with some on its faces, representable in float32."""
    points = np.random.default_rng(seed).uniform(-1, 1, (count, dim))
    points[0], points[1] = -1.0, 1.0
    return points.astype(np.float32).astype(np.float64)


def rounding_slack(head: Head, dtype: str = "float64", shift: float = 0.0) -> float:
    """A few ulps, scaled by sizes: what the rounding of scores, exponentials and sums can change.

    A score of size S is rounded by about (d + 2) u S, which changes a weight by that factor and the output by that
    times the spread of the values; the sums add (N + d) u times the size of the values. `shift` is the size of what
    cancels.
    """
    slopes = 0.0 if head.slopes is None else float(np.abs(head.slopes).sum(axis=2).max())
    value = float(np.abs(head.values).max()) + slopes
    score = float((np.abs(head.keys).sum(axis=1) + np.abs(head.biases)).max()) + shift
    return 4 * EPSILON[dtype] * (value + shift) * ((head.dim + 3) * (score + 1) + head.tokens + head.dim)
