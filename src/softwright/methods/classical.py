"""Exact solutions by classical numerics in float64, which stacks are measured against.

Least squares by LAPACK, the lasso by coordinate descent, coefficients of 0 or more by Lawson and Hanson's method,
smooth losses by Newton's method with halved steps. Columns come standardised, which keeps the factorisations accurate;
penalties follow their scales.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from softwright.methods.losses import Loss

Solution = tuple[np.ndarray, float]  # coefficients of the standardised columns, intercept


@dataclass(frozen=True)
class Standardised:
    """Columns A (n, d) of mean 0 (with an intercept) and mean square 1, which are the features over `scale` (d,), y
    (n,), weights (n,) that sum to 1, and the penalty on the coefficients of the features as given."""

    A: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    scale: np.ndarray
    penalty: float
    intercept: bool
    loss_scale: float

    @property
    def centre(self) -> float:
        return float(self.weights @ self.y) if self.intercept else 0.0

    @property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows (n, d) and values (n,) whose plain sum of squares is the weighted mean of centred ones."""
        root = np.sqrt(self.weights)
        return root[:, None] * self.A, root * (self.y - self.centre)


def least_squares(problem: Standardised, loss: Loss) -> Solution:
    rows, values = problem.rows
    if problem.penalty > 0:
        rows = np.concatenate([rows, np.diag(np.sqrt(problem.penalty) / problem.scale)])
        values = np.concatenate([values, np.zeros(len(problem.scale))])
    return np.linalg.lstsq(rows, values, rcond=None)[0], problem.centre


def nonnegative_least_squares(problem: Standardised, loss: Loss) -> Solution:
    return nnls(*problem.rows)[0], problem.centre


def coordinate_descent(problem: Standardised, loss: Loss, sweeps: int = 100_000) -> Solution:
    """Squares with penalty |w|_1."""
    rows, values = problem.rows
    gram, right, thresholds = rows.T @ rows, rows.T @ values, problem.penalty / problem.scale
    w = np.zeros(len(right))
    for _ in range(sweeps):
        largest = 0.0
        for k in range(len(w)):
            rest = right[k] - gram[k] @ w + gram[k, k] * w[k]
            new = np.sign(rest) * max(abs(rest) - thresholds[k], 0.0) / gram[k, k]
            largest = max(largest, abs(new - w[k]))
            w[k] = new
        if largest <= 1e-16 * (1.0 + np.abs(w).max()):
            break
    return w, problem.centre


def newton(problem: Standardised, loss: Loss, steps: int = 200) -> Solution:
    """Any smooth convex loss with penalty/2 |w|^2."""
    A, y, p, c = problem.A, problem.y, problem.weights, problem.loss_scale
    penalties = problem.penalty / problem.scale**2
    if problem.intercept:
        A, penalties = np.concatenate([A, np.ones((len(y), 1))], axis=1), np.append(penalties, 0.0)
    w = np.zeros(A.shape[1])
    if problem.intercept:
        w[-1] = loss.constant(float(p @ y)) if loss.start is None else loss.start(y, p)

    def value(w: np.ndarray) -> float:
        return float(p @ loss.value(A @ w, y, c) + 0.5 * penalties @ w**2)

    for _ in range(steps):
        s = A @ w
        slope, curvature = loss.slope(s, y, c), loss.curvature(s, y, c)
        step = np.linalg.solve((A.T * (p * curvature)) @ A + np.diag(penalties), A.T @ (p * slope) + penalties * w)
        size = 1.0
        while value(w - size * step) > value(w) + 1e-13 * abs(value(w)) and size > 1e-6:
            size /= 2
        w = w - size * step
        if np.abs(step).max() <= 1e-15 * (1 + np.abs(w).max()):
            break
    return (w[:-1], float(w[-1])) if problem.intercept else (w, 0.0)
