"""Families of keys and biases along one coordinate t in [-1, 1], in closed form.

Uniform centres c_j of spacing h with Gaussian width s = r h: the score -(t - c_j)^2 / (2 s^2) equals
(c_j / s^2) t - c_j^2 / (2 s^2) up to a term without j, so k_j = c_j / s^2 and b_j = -c_j^2 / (2 s^2).
`margin` centres lie beyond each end of [-1, 1] (a half-integer margin of -1/2 keeps all centres inside).

Measured rules (theory, section 4), with D = -log10(tolerance): constant values r = 1 + 0.06 D, margin 0.6 D; affine
values r = 0.5 + 0.065 D, margin 0.4 D.
"""

from __future__ import annotations

import math

import numpy as np

from softwright.attention.head import Axis


def chebyshev_points(count: int) -> np.ndarray:
    """Chebyshev points of the first kind, ascending, in (-1, 1)."""
    return -np.cos(np.pi * (np.arange(count) + 0.5) / count)


def uniform_axis(tokens: int, ratio: float, margin: float) -> Axis:
    """Uniform centres at finite temperature; needs tokens - 1 > 2 margin."""
    if tokens == 1:
        return Axis(np.zeros(1), np.zeros(1))
    h = 2.0 / (tokens - 1 - 2 * margin)
    centres = -1 + h * (np.arange(tokens) - margin)
    variance = (ratio * h) ** 2
    return Axis(centres / variance, -(centres**2) / (2 * variance))


def bernstein_axis(tokens: int, steepness: float) -> Axis:
    """Binomial biases: the head is a polynomial of degree tokens-1 in sigmoid(steepness t), in Bernstein form."""
    n = tokens - 1
    biases = [math.log(math.comb(n, j)) for j in range(tokens)]
    return Axis(steepness * (np.arange(tokens) - n / 2), np.array(biases))


def centred_axis(keys: np.ndarray, biases: np.ndarray) -> Axis:
    """Keys as small as the same number for all makes them, and no bias above 0."""
    return Axis(keys - 0.5 * (keys.max() + keys.min()), biases - biases.max())


def graded_axis(centres: np.ndarray, ratio: float) -> Axis:
    """Any increasing centres; between neighbours at distance h the key grows by 1 / (ratio^2 h) (local temperature)."""
    steps = 1.0 / (ratio**2 * np.diff(centres))
    middles = 0.5 * (centres[1:] + centres[:-1])
    keys = np.concatenate([[0.0], np.cumsum(steps)])
    biases = np.concatenate([[0.0], -np.cumsum(steps * middles)])
    return Axis(keys - 0.5 * (keys[0] + keys[-1]), biases - biases.max())


def equidistributed_centres(t: np.ndarray, density: np.ndarray, tokens: int, floor: float = 0.2) -> np.ndarray:
    """Centres that carry equal shares of `density` (sampled at t), lifted by `floor` times its mean."""
    lifted = density + floor * density.mean() + 1e-300
    mass = np.concatenate([[0.0], np.cumsum(0.5 * (lifted[1:] + lifted[:-1]) * np.diff(t))])
    return np.interp((np.arange(tokens) + 0.5) / tokens, mass / mass[-1], t)


def rule(tolerance: float, affine: bool) -> tuple[float, int]:
    """The measured (ratio, margin) for a relative tolerance; floats have no more than 16 digits."""
    digits = -np.log10(min(max(tolerance, 1e-16), 0.5))
    if affine:
        return 0.5 + 0.065 * digits, round(0.4 * digits)
    return 1.0 + 0.06 * digits, round(0.6 * digits)


def uniform_candidates(tokens: int, tolerance: float, affine: bool) -> list[Axis]:
    """A few uniform grids round the rule, most promising first; fewer for large grids, where the rule is reliable."""
    if tokens == 1:
        return [uniform_axis(1, 1.0, 0.0)]
    r, m = rule(tolerance, affine)
    settings: list[tuple[float, float]] = [(r, m), (1.15 * r, m), (0.88 * r, m), (r, m - 1), (1.15 * r, m - 1)]
    if tokens <= 60:
        settings += [(r, m + 1), (r, 0), (r, -0.5), (0.7 * r, 0), (0.7 * r, -0.5), (1.25 * r, 0)]
    axes: list[Axis] = []
    seen: set[tuple[float, float]] = set()
    for ratio, margin in settings:
        clipped = (ratio, max(margin, -0.5))
        if clipped in seen or tokens - 1 - 2 * clipped[1] < 0.99:
            continue
        seen.add(clipped)
        axes.append(uniform_axis(tokens, *clipped))
    return axes
