"""Upper bounds of |v|_2 and |W|_2.

|W|_2 <= |(W W^T)^n|_F^{1/(2n)}, n = 8 or another power of two, its products charged with their rounding; for wide
layers sqrt(|W|_1 |W|_inf).
"""

from __future__ import annotations

import numpy as np

from softwright.proof.arithmetic.directed import TINY, gamma

_WIDEST = 1024  # beyond it the powers of W W^T cost more than they are worth


def norm(vector: np.ndarray) -> float:
    """|v|_2, rounded up."""
    largest = float(np.abs(vector).max(initial=0.0))
    if largest == 0.0 or not np.isfinite(largest):
        return largest
    return largest * float(np.sqrt(((vector / largest) ** 2).sum())) * (1 + gamma(len(vector) + 4))


def spectral_norm(weight: np.ndarray, squared: int = 3) -> float:
    """An upper bound of |W|_2; `squared`: how often, which matters where many singular values are about as large."""
    size = np.abs(weight)
    rows, columns = float(size.sum(axis=1).max()), float(size.sum(axis=0).max())
    simple = np.sqrt(rows * columns) * (1 + gamma(2 * max(weight.shape) + 8))
    W = weight if weight.shape[0] <= weight.shape[1] else weight.T
    n = W.shape[0]
    largest = float(size.max())
    if n > _WIDEST or largest == 0.0 or not 1e-100 < largest < 1e100:
        return float(simple) + TINY
    W = W / largest
    A = W @ W.T
    A = 0.5 * (A + A.T)  # exactly symmetric, and no farther from W W^T than twice the rounding of the product
    first = 2.02 * gamma(W.shape[1] + 4) * float((W**2).sum())  # |W W^T|_2 <= |A|_2 + first
    scales, slips = [], []
    for _ in range(squared):  # |A|_2 <= scale (|fl(A' A')|_2 + slip)^(1/2) with A' = A / scale
        scales.append(float(np.abs(A).max()))
        A = A / scales[-1]
        slips.append(2.02 * gamma(n + 4) * float((A**2).sum()))
        A = A @ A
        A = 0.5 * (A + A.T)
    value = float(np.sqrt((A**2).sum())) * (1 + gamma(n * n + 8))
    for scale, slip in zip(reversed(scales), reversed(slips), strict=True):
        value = np.sqrt(value + slip) * scale * (1 + 1e-14)
    found = np.sqrt(value + first) * largest * (1 + 1e-14)
    return float(min(simple, found)) + TINY
