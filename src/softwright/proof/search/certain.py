"""The largest error that is certain at some points: where a search begins, and what refutes a claim."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from softwright.domain import Box
from softwright.proof.search.residual import BoxBounds, Residual
from softwright.proof.search.search import lower_at

_IN_BALLS, _OPEN = 3, 0.02  # points, and the share of the accuracy that float64 may leave open at them


def certain_at(
    residual: Residual, domain: Box, points: np.ndarray, accuracy: float
) -> tuple[float, np.ndarray | None, BoxBounds]:
    """The largest error that is certain at the points or at 32 others, which show rounding, where it is, and the bounds
    at all of them. Ball arithmetic is used at the most promising few alone, where float64 leaves too much open.

    A point is a box of radius 0, where all terms of a model but the first are 0: models of degree 1 say all of it."""
    places = np.concatenate([points, domain.sample(32)])
    residual = replace(residual, order=1)
    lower, witness, found = lower_at(replace(residual, escalate=False), places, accuracy)
    best = np.argsort(-found.upper, kind="stable")[:_IN_BALLS]
    if np.any(~(found.upper[best] - found.lower[best] <= _OPEN * accuracy)):
        sharper, where, _ = lower_at(residual, places[best], accuracy)
        if sharper > lower:
            return sharper, where, found
    return lower, witness, found
