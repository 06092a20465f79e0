"""Causes that reach an output through slopes which the input chooses: sum_j w_j d_j (C t)_j for all d and t there are.

d_j = m_j + h_j e_j with |e_j| <= 1, and t_k are roundings, |t_k| <= 1. With e_0 = 1 this is sum_jk e_j M_jk t_k,

    M_0k = sum_j w_j m_j C_jk,    M_jk = w_j h_j C_jk  (j > 0),

which is less than the sum of all |M_jk|, as e_j serves a whole row and t_k a whole column. Give row j the share a_j and
column k the share b_k, positive numbers; e_j = a_j (e_j/a_j), t_k = b_k (t_k/b_k), and with S_jk = M_jk/(a_j b_k)

    |sum| <= |S|_2 |(a_j e_j)|_2 |(b_k t_k)|_2 <= |S|_2 (sum_j a_j^2)^(1/2) (max sum_k b_k^2 t_k^2)^(1/2), over inputs.

`together.py` bounds the last sum, of squares of what rounding is at one input. Any shares do. Where |S|_2 is least,
with sums of squares kept, its largest singular vectors average to these shares: squares of shares go there, in steps
that get smaller, by the singular vectors whose values are about the largest.
"""

from __future__ import annotations

import math

import numpy as np

from softwright.checker.limits import check_time
from softwright.checker.transpiled.outward import LOST, UNIT, gamma, spectral_norm

Array = np.ndarray
TURNS, SHARP = 28, 60.0
WORK = 1 << 24  # outputs times entries times rows up to which this is done
DOUBLED = 6


def fits(outputs: int, rows: int, columns: int) -> bool:
    """Whether matrices of this size are worth it."""
    return columns > 0 and outputs * rows * columns * min(rows, columns) <= WORK


def shares(matrix: Array) -> tuple[Array, Array]:
    """a and b for M."""
    check_time()
    size = np.abs(matrix)
    a, b = (x / x.sum() for x in (size.sum(axis=1) + LOST, size.sum(axis=0) + LOST))
    least, found = math.inf, (np.sqrt(a), np.sqrt(b))
    for turn in range(TURNS):
        scaled = matrix / np.sqrt(a)[:, None] / np.sqrt(b)
        values, vectors = np.linalg.eigh(scaled @ scaled.T)
        if values[-1] <= least:
            least, found = float(values[-1]), (np.sqrt(a), np.sqrt(b))
        weight = np.exp(SHARP * (values / max(values[-1], LOST) - 1.0))
        rows = (vectors**2 * weight).sum(axis=1)
        through = scaled.T @ vectors
        columns = (through**2 * (weight / np.maximum(values, 1e-12 * max(values[-1], LOST)))).sum(axis=1)
        step = 1.0 / (turn + 3)
        a = _moved(a, rows, step)
        b = _moved(b, columns, step)
    return found


def _moved(share: Array, towards: Array, step: float) -> Array:
    there = np.maximum(towards / (towards.sum() + LOST), 1e-10)
    share = np.maximum(share, 1e-12)
    share = share * np.clip(there / share, 0.2, 5.0) ** step
    return share / share.sum()


def crossed(matrix: Array, a: Array, b: Array, squares: float) -> float:
    """The bound; entries of M are off by 8 roundings each at most, and sum_k b_k^2 t_k^2 is at most `squares`."""
    scaled = matrix / a[:, None] / b
    wrong = 1 + 12 * UNIT * math.sqrt(min(matrix.shape))  # entries wrong by 10 u move the norm by 10 u |S|_F
    whole = math.sqrt(float((a**2).sum())) * math.sqrt(squares) * (1 + gamma(len(a) + 12))
    found = spectral_norm(scaled, DOUBLED) * wrong * whole * (1 + gamma(8)) + LOST
    return found if math.isfinite(found) else math.inf
