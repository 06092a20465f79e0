"""Upper bounds of |v|_2 and |W|_2, and of bilinear forms.

|W|_2 <= |(W W^T)^n|_F^{1/(2n)}, n = 8 or another power of two, its products charged with their rounding; for wide
layers sqrt(|W|_1 |W|_inf).

*Forms*: what sum_j w_j D_j (G xi)_j is at most, for all slopes D_j and all causes xi_k at once. Between two linear maps
stands an activation, whose slopes D_j = m_j + r_j delta_j, |delta_j| <= 1, are chosen by the input, and |xi_k| <= 1.
With every product at its worst the sum is |w| |D| |G|, which signs of delta and xi do not allow: it is the largest
value of a bilinear form in (1, delta) and xi with the matrix

    A_0k = sum_j w_j m_j G_jk,     A_jk = w_j r_j G_jk.

For all p > 0, q > 0, by Cauchy and Schwarz,

    |(1, delta) A xi| <= |diag(1/p) A diag(1/q)|_2 (sum p_j^2)^(1/2) (sum q_k^2 xi_k^2)^(1/2),

the last sum being what `joint.py` knows of squares of causes at one input. Good p and q are near the dual of the
semidefinite relaxation (within 1.79 of the truth, by Grothendieck's inequality; a tenth or so in practice): their
squares are moved towards the squares of the largest singular vectors of the scaled matrix, whose norm falls with it.
"""

from __future__ import annotations

import numpy as np

from softwright.proof.arithmetic.directed import TINY, U, gamma, up

_WIDEST = 1024  # beyond it the powers of W W^T cost more than they are worth
_MOVES, _SQUARINGS = 32, 5
_LARGEST_FORMS = 1 << 23  # outputs times entries times rows that bounds of forms are worth
_ROOM = 1.01  # a second proof chooses otherwise, and may lie a little higher


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


def is_worth(outputs: int, rows: int, columns: int) -> bool:
    return columns > 0 and outputs * (rows + 1) * columns * min(rows + 1, columns) <= _LARGEST_FORMS


def balanced(forms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """p (m, rows) and q (m, columns) for each of `forms` (m, rows, columns)."""
    size = np.abs(forms) + TINY
    square = [size.sum(axis=2), size.sum(axis=1)]
    best = np.full(len(forms), np.inf)
    found = [np.ones_like(x) for x in square]
    for move in range(_MOVES):
        square = [x / x.sum(axis=1, keepdims=True) for x in square]
        p, q = (np.sqrt(x) for x in square)
        K = forms / p[:, :, None] / q[:, None, :]
        power = K @ K.transpose(0, 2, 1)
        norm = np.sqrt(np.maximum(np.trace(power, axis1=1, axis2=2), TINY))
        power /= norm[:, None, None] ** 2
        slip = np.zeros(len(forms))  # the logarithm of what powers were divided by
        for _ in range(_SQUARINGS):
            power = power @ power
            trace = np.maximum(np.trace(power, axis1=1, axis2=2), TINY)
            power, slip = power / trace[:, None, None], 2 * slip + np.log(trace)
        value = norm * np.exp(slip / 2.0 ** (_SQUARINGS + 1))  # about |K|_2
        better = value < best
        best = np.where(better, value, best)
        found = [np.where(better[:, None], new, old) for new, old in zip((p, q), found, strict=True)]
        steep = [np.einsum("mjj->mj", power), np.einsum("mjk,mji,mik->mk", K, power, K, optimize=True)]
        square = [_moved(old, wanted, 1 / (move + 3)) for old, wanted in zip(square, steep, strict=True)]
    return found[0], found[1]


def _moved(square: np.ndarray, wanted: np.ndarray, step: float) -> np.ndarray:
    there = np.maximum(wanted / (wanted.sum(axis=1, keepdims=True) + TINY), 1e-9)
    return square * np.exp(np.clip(step * np.log(there / np.maximum(square, 1e-12)), -1, 1))


def largest_value(form: np.ndarray, p: np.ndarray, q: np.ndarray, squares: float) -> float:
    """The bound above for one form, its entries right but for 8 roundings; `squares` bounds the sum of q^2 xi^2."""
    K = form / p[:, None] / q
    norm = spectral_norm(K, 6) * (1 + 16 * U * np.sqrt(min(form.shape)))
    return float(up(norm * np.sqrt((p**2).sum()) * np.sqrt(squares), len(p) + 16) * _ROOM) * (1 + gamma(16))
