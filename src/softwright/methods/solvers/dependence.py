"""Whether columns of x depend on each other, and which: what is behind a refusal that only sees an iteration fail.

Columns about their means (with an intercept) and of length 1; where the smallest singular value is next to nothing
beside the largest, its vector says which columns add up to nothing, or to a constant: dummies of all categories, a sum
beside its parts, the same column in two units. The matrix to invert has the square of that ratio, so below about 1e-7
nothing is left of it in float64.
"""

from __future__ import annotations

import torch
from torch import Tensor

from softwright.methods.constants import Constants

HOPELESS = {"float64": 1e-7, "float32": 1e-3}  # smallest over largest singular value
_EXACT = {"float64": 1e-12, "float32": 1e-5}
_PART = 1e-6  # of the largest entry of a singular vector: columns below have no part in it


def dependence(x: Tensor, log_weights: Tensor | None, constants: Constants, limit: dict[str, float]) -> str:
    """What is wrong with the columns of x (B, n, d), or nothing."""
    if not x.numel():
        return ""
    rows = x.double()
    weights = torch.ones_like(rows[..., :1]) if log_weights is None else log_weights.double().exp()[..., None]
    rows = rows - rows[:, :1] if constants.intercept else rows  # far from 0 a mean is rounded in its own size
    rows = rows / rows.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(rows.dtype).tiny)
    if constants.intercept:
        rows = rows - (weights * rows).sum(dim=1, keepdim=True) / weights.sum(dim=1, keepdim=True)
    rows = rows * weights.sqrt()
    rows = rows / rows.norm(dim=1, keepdim=True).clamp_min(torch.finfo(rows.dtype).tiny)
    _, values, vectors = torch.linalg.svd(rows, full_matrices=False)
    ratios = values[:, -1] / values[:, 0].clamp_min(torch.finfo(rows.dtype).tiny)
    worst = int(ratios.argmin())
    ratio = float(ratios[worst])
    if ratio > limit[constants.dtype]:
        return ""
    vector = vectors[worst, -1].abs()
    columns = (vector > _PART * vector.max()).nonzero()[:8, 0].tolist()
    beside = ", up to a constant" if constants.intercept else ""
    exactly = ratio <= _EXACT[constants.dtype]
    how = "linearly dependent" if exactly else f"nearly linearly dependent (to {ratio:.1g})"
    return f"column(s) {', '.join(map(str, columns))} of x are {how}{beside}; remove one of them, or add a penalty"
