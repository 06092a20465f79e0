"""Values of a head whose numbers are rounded to a short dtype: solved again, and rounded one after another.

Values of one head nearly cancel, so that rounding each by itself (a relative 6e-8 in float32) costs far more than the
rounding of their sum. The keys are therefore rounded first; with A the weights that the rounded keys give at sample
points, the values solve the least-squares problem anew. Then, with A = Q R, they are rounded from the last to the
first, each after the ones before it have been chosen (Babai's nearest plane):

    v_j = round((y_j - sum_{i > j} R_ji v_i) / R_jj),        y = Q^T F.

What one value loses, those that follow make up for. The largest values have the coarsest numbers and come first.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from softwright.approximation.fitting.least_squares import economic_qr
from softwright.attention.head import Head

MOST_UNKNOWNS = 200
_FREEDOM = 0.03  # of the tolerance: how much values may cost, together, by being far from those that were found


def settled(head: Head, t: np.ndarray, wanted: np.ndarray, tolerance: float) -> Head | None:
    """The head with values in float32 that are solved again, its keys being rounded, for `wanted` (n, m) at t (n, d);
    None if that fails."""

    def rounded(numbers: np.ndarray) -> np.ndarray:
        return numbers.astype(np.float32).astype(float)

    keys, biases = rounded(head.keys), rounded(head.biases)
    weights = replace(head, keys=keys, biases=biases).weights(t)  # (n, N)
    columns = [weights] + ([weights * t[:, [i]] for i in range(head.dim)] if head.slopes is not None else [])
    A = np.concatenate(columns, axis=1)  # (n, p)
    start = head.values if head.slopes is None else np.concatenate([head.values, *np.moveaxis(head.slopes, 2, 0)])
    order = np.argsort(np.abs(start).max(axis=1), kind="stable")
    (n, p), start = A.shape, start[order]
    room = _FREEDOM * tolerance / max(float(np.abs(start).max()), 1e-300) * np.sqrt(n / p)
    Q, R = economic_qr(np.concatenate([A[:, order], room * np.eye(p)]))
    if not np.all(np.isfinite(R)) or np.any(np.diagonal(R) == 0.0):
        return None
    y = Q.T @ np.concatenate([wanted, room * start])  # (p, m)
    values = np.zeros_like(start)
    for j in range(p - 1, -1, -1):
        values[j] = rounded((y[j] - R[j, j + 1 :] @ values[j + 1 :]) / R[j, j])
    if not np.all(np.isfinite(values)):
        return None
    found = np.empty_like(values)
    found[order] = values
    parts = found.reshape(-1, head.tokens, head.outputs)  # values, then slopes by variable
    slopes = None if head.slopes is None else np.moveaxis(parts[1:], 0, 2)
    return replace(head, values=parts[0], slopes=slopes)
