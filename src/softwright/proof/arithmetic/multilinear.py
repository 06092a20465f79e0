"""Multilinear interpolation between the corners of boxes, as Taylor models.

With t_i = (x_i - left_i) / (right_i - left_i) the interpolant is sum over corners e in {0, 1}^d of
f(corner e) prod_i (t_i if e_i else 1 - t_i): a polynomial, exact as a model up to rounding if the order is at least d.
It is continued as this polynomial where centers +- radii reaches beyond [left, right].
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from softwright.proof.arithmetic.directed import U, up
from softwright.proof.arithmetic.series import Basis
from softwright.proof.arithmetic.taylor_model import TaylorModel, constant


def multilinear(
    shape: Basis,
    centers: np.ndarray,
    radii: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    *,
    values: Callable[[np.ndarray], np.ndarray],
) -> list[TaylorModel]:
    """The multilinear interpolant of the corners of [left, right] (B, d) as models on centers +- radii.

    `values` gives the function at corners: it is called with a mask (d,), true for the variables whose right end is
    meant, and returns (B, m).
    """
    d = shape.dim
    width = np.maximum(right - left, np.nextafter(0.0, 1.0))
    weights: list[tuple[TaylorModel, TaylorModel]] = []
    for i in range(d):
        start = (centers[:, i] - left[:, i]) / width[:, i]
        step = radii[:, i] / width[:, i]
        rising = constant(shape, start, up(4 * U * (np.abs(start) + step)))
        rising.coefficients[shape.linear[i]] = step
        rising.live[shape.linear[i]] = True
        weights.append(((-rising).plus(1.0), rising))
    corners = list(itertools.product((0, 1), repeat=d))
    total: list[TaylorModel] | None = None
    for corner in corners:
        at = values(np.array(corner, dtype=bool))  # (B, m)
        weight = weights[0][corner[0]]
        for i in range(1, d):
            weight = weight * weights[i][corner[i]]
        terms = [weight.times(column) for column in at.T]
        total = terms if total is None else [a + b for a, b in zip(total, terms, strict=True)]
    return total or []
