"""Chebyshev's method: gradient steps whose sizes are the inverse roots of the Chebyshev polynomial on the spectrum.

With eigenvalues in [a, b] and L steps, eta_k = 1/((b+a)/2 + (b-a)/2 cos(pi (2k-1)/(2L))); after the L-th step the error
has shrunk by 1/T_L((b+a)/(b-a)) ~ 2 e^{-2L sqrt(a/b)}. No momentum slot is needed. The order matters in floating point:
Leja's takes the next root where the product of distances to those taken is largest, and keeps partial products small.
"""

from __future__ import annotations

import math

import numpy as np

from softwright.methods.constants import Constants
from softwright.methods.frame import FitBlueprint
from softwright.methods.gradient import descent


def leja(points: np.ndarray) -> np.ndarray:
    """The points in Leja's order."""
    order = [int(np.abs(points).argmax())]
    logs = np.zeros(len(points))
    for _ in range(len(points) - 1):
        with np.errstate(divide="ignore"):
            logs += np.log(np.abs(points - points[order[-1]]))
        logs[order[-1]] = -np.inf
        order.append(int(logs.argmax()))
    return points[order]


def chebyshev_steps(smallest: float, largest: float, count: int) -> list[float]:
    angles = math.pi * (2 * np.arange(1, count + 1) - 1) / (2 * count)
    roots = 0.5 * (largest + smallest) + 0.5 * (largest - smallest) * np.cos(angles)
    return (1.0 / leja(roots)).tolist()


def chebyshev(constants: Constants) -> FitBlueprint:
    """Least squares or ridge; `steps` unless given from the condition and the accuracy."""
    c = constants
    largest = c.most + (0.0 if c.scaling else c.penalty)
    smallest = 1.0 / c.condition
    count = c.steps or math.ceil(0.5 * math.sqrt(largest / smallest) * math.log(2.0 / c.accuracy))
    return descent(c, chebyshev_steps(smallest, largest, count), smallest if c.steps is None else None)
