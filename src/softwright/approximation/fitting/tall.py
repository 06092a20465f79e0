"""Least squares with a matrix that is too tall to hold: its rows are made some at a time, and none is kept.

A table of 10^5 rows and 1,600 unknowns has a matrix of 1.3 GB, and a factorisation needs it several times. All that
least squares asks of A and F is the triangle R of A = Q R and c = Q^T F, and these need only some rows at a time:

    [R, c]  <-  triangle of [R, c; A_part, F_part],        at first [s I, 0],   s = strength sqrt(n).

Then v = R^{-1} c solves the regularised problem of `least_squares`, and its step of iterated Tikhonov needs no second
pass: with G = A^T A + s^2 I = R^T R and G v = A^T F,

    G^{-1} A^T (F - A v)  =  s^2 G^{-1} v  =  (s R^{-1}) (s R^{-T}) v,

where neither factor is longer than 1. A matrix that is small enough is held and solved as ever, to the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from softwright.approximation.fitting.lapack import dtrtrs
from softwright.approximation.fitting.least_squares import ridge_solve, solve_upper, triangle_of
from softwright.chunks import rows_within

Design = Callable[[np.ndarray], np.ndarray]  # points (n, ...) -> rows of the matrix (n, p)


def is_held(rows: int, unknowns: int) -> bool:
    """Whether a matrix of that shape is small enough to be held, with the copies that a factorisation makes."""
    return rows <= rows_within(8 * unknowns)


def parts(rows: int, columns: int) -> Iterator[slice]:
    """The rows of a matrix with so many columns, by as many as are held at a time; at least one part."""
    step = rows_within(8 * columns)
    for start in range(0, max(rows, 1), step):
        yield slice(start, min(start + step, rows))


def shortened(
    design: Design, points: np.ndarray, F: np.ndarray, unknowns: int, s: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """R (p, p) and c (p, q) with |A v - F|^2 + s^2 |v|^2 = |R v - c|^2 + what no v changes."""
    top = np.hstack([s * np.eye(unknowns), np.zeros((unknowns, F.shape[1]))])
    for part in parts(len(points), unknowns + F.shape[1]):
        top = triangle_of(np.vstack([top, np.hstack([design(points[part]), F[part]])]))[:unknowns]
    return top[:, :unknowns], top[:, unknowns:]


def tall_ridge_solve(design: Design, points: np.ndarray, F: np.ndarray, unknowns: int, strength: float) -> np.ndarray:
    """What `ridge_solve` finds, (p, q), up to rounding."""
    s = strength * np.sqrt(len(points))
    R, c = shortened(design, points, F, unknowns, s)
    v = solve_upper(R, c)
    y, info = dtrtrs(R, s * v, trans=1)
    return v + solve_upper(R, s * y) if info == 0 else v


def solved(design: Design, points: np.ndarray, F: np.ndarray, unknowns: int, strength: float) -> np.ndarray:
    """Values (p, q) by regularised least squares, whether the matrix is held or not."""
    if is_held(len(points), unknowns):
        return ridge_solve(design(points), F, strength)
    return tall_ridge_solve(design, points, F, unknowns, strength)


def misses(design: Design, points: np.ndarray, F: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The largest |A v - F| of every row (n,), some rows at a time."""
    found = np.empty(len(points))
    for part in parts(len(points), len(values) + F.shape[1]):
        found[part] = np.abs(design(points[part]) @ values - F[part]).max(axis=1)
    return found


def largest_miss(design: Design, points: np.ndarray, F: np.ndarray, values: np.ndarray) -> float:
    """The largest |A v - F|, some rows at a time."""
    some = parts(len(points), len(values) + F.shape[1])
    return float(np.max([np.abs(design(points[part]) @ values - F[part]).max() for part in some]))
