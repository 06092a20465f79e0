"""Keys and biases by variable projection: Gauss-Newton on the reduced problem, values eliminated by least squares.

For given keys and biases the best values are a linear least-squares solution, so only (k, b) are unknown. With
w the softmax weights, g = sum_j w_j v_j(t) and v_j(t) = v_j + s_j t,

    dg/db_j = w_j (v_j(t) - g),        dg/dk_j = t dg/db_j,

and Kaufman's approximation projects these columns onto the orthogonal complement of the (regularised) design matrix.
Steps are damped by Levenberg and Marquardt's rule. Everything counts iterations, never seconds, so that the same
input gives the same network on every machine.
"""

from __future__ import annotations

import numpy as np

from softwright.approximation.fitting.least_squares import economic_qr, solve_upper, triangle_of
from softwright.attention.head import Axis, softmax_rows


class _Reduced:
    """The reduced problem at one (k, b): values, residual and Kaufman Jacobian; regularised by strength |v|."""

    def __init__(
        self, axis: Axis, t: np.ndarray, F: np.ndarray, affine: bool, strength: float, point_weights: np.ndarray
    ) -> None:
        self.axis, self.t, self.affine = axis, t, affine
        self.scaling = (point_weights / np.sqrt(len(t)))[:, None]  # (n, 1)
        self.weights = softmax_rows(np.multiply.outer(t, axis.keys) + axis.biases)  # (n, N)
        A = np.hstack([self.weights, self.weights * t[:, None]]) if affine else self.weights
        p = A.shape[1]
        augmented = np.vstack([A * self.scaling, strength * np.eye(p)])
        self.Q, R = economic_qr(augmented)
        self.top = self.Q[: len(t)]
        self.values = solve_upper(R, self.top.T @ (F * self.scaling))  # (p, q)
        self.fitted = A @ self.values  # (n, q)
        self.misfit = (self.fitted - F) * self.scaling
        self.penalty = strength * self.values
        self.cost = float((self.misfit**2).sum() + (self.penalty**2).sum())

    def jacobian(self) -> tuple[np.ndarray, np.ndarray]:
        """Stacked over outputs: Jacobian (q (n + p), 2N) and residual (q (n + p),)."""
        N, n = self.axis.tokens, len(self.t)
        q = self.values.shape[1]
        blocks, rows = [], []
        for o in range(q):
            token_values = self.values[:N, o] + (self.values[N:, o] * self.t[:, None] if self.affine else 0.0)  # (n, N)
            by_bias = self.weights * (token_values - self.fitted[:, o : o + 1]) * self.scaling
            columns = np.hstack([by_bias * self.t[:, None], by_bias])  # (n, 2N)
            block = -self.Q @ (self.top.T @ columns)  # (n + p, 2N)
            block[:n] += columns
            blocks.append(block)
            rows.append(np.concatenate([self.misfit[:, o], self.penalty[:, o]]))
        return np.vstack(blocks), np.concatenate(rows)


def optimise_axis(
    start: Axis,
    t: np.ndarray,
    F: np.ndarray,
    *,
    affine: bool,
    strength: float,
    goal: float,
    iterations: int = 40,
    point_weights: np.ndarray | None = None,
) -> Axis:
    """Improve keys and biases from `start` for samples F (n, q) at t (n,).

    Stops when the root mean square misfit is below `goal`, when progress stalls, or after `iterations` accepted or
    rejected steps.
    """
    weights = np.ones(len(t)) if point_weights is None else point_weights
    N = start.tokens
    current = _Reduced(start, t, F, affine, strength, weights)
    triangle, right, scale = _linearised(current)
    damping, stalled = 1e-3, 0
    costs = [current.cost]
    for iteration in range(iterations):
        if current.cost <= goal**2 or stalled >= 3 or _too_slow(costs, goal, iterations - iteration):
            break
        augmented = np.vstack([triangle, np.sqrt(damping) * np.eye(2 * N)])
        Q, R = economic_qr(augmented)
        step = solve_upper(R, -(Q[: len(triangle)].T @ right)) / scale
        if not np.all(np.isfinite(step)):
            damping *= 10
            stalled += 1
            continue
        candidate = Axis(current.axis.keys + step[:N], current.axis.biases + step[N:])
        trial = _Reduced(candidate, t, F, affine, strength, weights)
        if np.isfinite(trial.cost) and trial.cost < current.cost:
            stalled = stalled + 1 if trial.cost > 0.98 * current.cost else 0
            current = trial
            triangle, right, scale = _linearised(current)
            damping = max(damping / 5, 1e-13)
        else:
            damping *= 6
            if damping > 1e8:
                break
        costs.append(current.cost)
    return current.axis


def _linearised(reduced: _Reduced) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scaled Jacobian and residual, rotated to the top: (2N, 2N) triangle and (2N,) right side, and the column scales.

    One factorisation serves every damping that is tried from here.
    """
    J, residual = reduced.jacobian()
    columns = J.shape[1]
    scale = np.sqrt((J**2).sum(axis=0))
    scale = np.maximum(scale, 1e-8 * scale.max() + 1e-300)
    tall = np.column_stack([J / scale, residual])
    R = triangle_of(tall)
    return R[:columns, :columns], R[:columns, columns], scale


def _too_slow(costs: list[float], goal: float, remaining: int) -> bool:
    """Whether the recent rate of progress, kept up, would still end far from the goal."""
    if len(costs) < 10:
        return False
    rate = (costs[-1] / costs[-7]) ** (1 / 6)
    return costs[-1] * rate**remaining > (60 * goal) ** 2
