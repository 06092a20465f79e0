"""The losses of generalised linear models that the checker knows, one row per method, written apart from the builder's.

The slope of a loss in s is a sum of weights times G, y and data (1 at observations), G the link of an argument that is
a sum of weights times s and y; the weights are functions of the loss scale c.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from flint import fmpq

Weights = Callable[[fmpq], dict[str, fmpq]]


@dataclass(frozen=True)
class Loss:
    """`curvature` is the largest of the loss, whose logarithm observations start with, None where rates begin at their
    mean; `starts` is the slot that takes the mean of y; `log_weight` the function that soft cells stand for."""

    objective: str
    link: Literal["sigmoid", "tanh", "exp"]
    argument: Weights
    slope: Weights
    curvature: float | None
    starts: tuple[str, ...]
    log_weight: Callable[[np.ndarray], np.ndarray] | None


LOSSES = {
    "logistic": Loss(
        "mean log(1 + e^s) - y s + penalty/2 |w|^2, s = w.x + b",
        "sigmoid",
        argument=lambda c: {"s": fmpq(1)},
        slope=lambda c: {"G": fmpq(1), "y": fmpq(-1)},
        curvature=0.25,
        starts=(),
        log_weight=lambda a: -2 * np.logaddexp(a / 2, -a / 2),
    ),
    "poisson": Loss(
        "mean e^s - y s + penalty/2 |w|^2, s = w.x + b",
        "exp",
        argument=lambda c: {"s": fmpq(1)},
        slope=lambda c: {"G": fmpq(1), "y": fmpq(-1)},
        curvature=None,
        starts=("offset",),
        log_weight=None,
    ),
    "robust": Loss(
        "mean c^2 log cosh((y - w.x - b)/c) + penalty/2 |w|^2",
        "tanh",
        argument=lambda c: {"s": 1 / c, "y": -1 / c},
        slope=lambda c: {"G": c},
        curvature=1.0,
        starts=("s",),
        log_weight=lambda a: np.log(np.tanh(np.abs(a) + 1e-9) / (np.abs(a) + 1e-9)),
    ),
}
