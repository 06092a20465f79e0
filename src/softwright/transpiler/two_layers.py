"""Errors through slopes that are not known: sum_j w_j D_j (G xi)_j at most, for all slopes and all causes at once.

Between two linear maps stands an activation, whose slopes D_j = m_j + r_j delta_j, |delta_j| <= 1, are chosen by the
input, and causes xi_k, |xi_k| <= 1. With every product at its worst the sum is |w| |D| |G|, which signs of delta and xi
do not allow: it is the largest value of a bilinear form in (1, delta) and xi with the matrix

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
from softwright.transpiler.norms import spectral_norm

_MOVES, _SQUARINGS = 32, 5
_LARGEST = 1 << 23  # outputs times entries times rows that such a bound is worth
_ROOM = 1.01  # a second proof chooses otherwise, and may lie a little higher


def is_worth(outputs: int, rows: int, columns: int) -> bool:
    return columns > 0 and outputs * (rows + 1) * columns * min(rows + 1, columns) <= _LARGEST


def scaled(forms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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


def largest(form: np.ndarray, p: np.ndarray, q: np.ndarray, squares: float) -> float:
    """The bound above for one form, its entries right but for 8 roundings; `squares` bounds the sum of q^2 xi^2."""
    K = form / p[:, None] / q
    norm = spectral_norm(K, 6) * (1 + 16 * U * np.sqrt(min(form.shape)))
    return float(up(norm * np.sqrt((p**2).sum()) * np.sqrt(squares), len(p) + 16) * _ROOM) * (1 + gamma(16))
