"""Keys and biases by variable projection: Gauss-Newton on the reduced problem, values eliminated by least squares.

For given keys and biases the best values are a linear least-squares solution, so only (k, b) are unknown. With
w the softmax weights, g = sum_j w_j v_j(t) and v_j(t) = v_j + s_j t,

    dg/db_j = w_j (v_j(t) - g),        dg/dk_j = t dg/db_j,

and Kaufman's approximation projects these columns onto the orthogonal complement of the (regularised) design matrix.
Steps are damped by Levenberg and Marquardt's rule. Everything counts iterations, never seconds, so that the same
input gives the same network on every machine.

*Starts run side by side.* The matrices are small (about 120 x 10), so that a step from one start is mostly calls. All
starts of a search therefore take their steps together, as stacks of matrices. Most starts fail, and most of these can
be told after a few steps: `PRUNING` says how many, the cheapest first, go on after how many steps. Steps are solved
with the Gram matrix of the Jacobian, its columns scaled to length 1: the damping, never below 1e-13, keeps it far
enough from singular for a step. The values themselves come from a QR factorisation and never from a Gram matrix.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from softwright.attention.head import Axis, softmax_rows
from softwright.work import count

PRUNING = {8: 4}  # after so many steps, so many starts go on
_LEAST_DAMPING, _MOST_DAMPING = 1e-13, 1e8
_CALL, _WEIGHT, _FLOP = 80_000, 15.0, 0.12  # nominal nanoseconds (`work.py`), as in `least_squares.py`


class _Reduced:
    """The reduced problem at S axes (k, b) of N tokens: values, residual and Kaufman Jacobian; regularised by
    strength |v|."""

    def __init__(
        self,
        keys: np.ndarray,
        biases: np.ndarray,
        t: np.ndarray,
        F: np.ndarray,
        affine: bool,
        strength: float,
        point_weights: np.ndarray,
    ) -> None:
        (S, N), n = keys.shape, len(t)
        self.keys, self.biases, self.t, self.affine = keys, biases, t, affine
        self.scaling = (point_weights / np.sqrt(n))[:, None]  # (n, 1)
        self.weights = softmax_rows(keys[:, None, :] * t[:, None] + biases[:, None, :])  # (S, n, N)
        p = N * (1 + affine)
        A = np.empty((S, n + p, p))
        np.multiply(self.weights, self.scaling, out=A[:, :n, :N])
        if affine:
            np.multiply(A[:, :n, :N], t[:, None], out=A[:, :n, N:])
        A[:, n:] = strength * np.eye(p)
        count(_CALL + S * len(A[0]) * p * (_WEIGHT + 2 * p * _FLOP))
        self.Q, R = np.linalg.qr(A)  # (S, n + p, p), (S, p, p)
        self.values = _solve(R, np.swapaxes(self.Q[:, :n], 1, 2) @ (F * self.scaling))  # (S, p, q)
        self.fitted = A[:, :n] @ self.values / self.scaling  # (S, n, q)
        self.residual = np.empty((S, n + p, F.shape[1]))  # misfit, then penalty
        self.residual[:, :n] = (self.fitted - F) * self.scaling
        self.residual[:, n:] = strength * self.values
        self.cost = np.einsum("spq,spq->s", self.residual, self.residual)

    def jacobian(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of some of the axes, by output: Jacobians (s, q, n + p, 2N) and residuals (s, q, n + p)."""
        n, N = self.weights.shape[1:]
        Q, values = self.Q[which], np.swapaxes(self.values[which], 1, 2)[:, :, None]  # (s, q, 1, p)
        deviation = values[..., :N] - np.swapaxes(self.fitted[which], 1, 2)[..., None]  # (s, q, n, N)
        if self.affine:
            deviation = deviation + values[..., N:] * self.t[:, None]
        by_bias = (self.weights[which] * self.scaling)[:, None] * deviation
        columns = np.concatenate([by_bias * self.t[:, None], by_bias], axis=3)  # (s, q, n, 2N)
        count(_CALL + 6 * columns.size * Q.shape[2] * _FLOP)
        block = Q[:, None] @ (np.swapaxes(Q[:, :n], 1, 2)[:, None] @ -columns)  # (s, q, n + p, 2N)
        block[:, :, :n] += columns
        return block, np.swapaxes(self.residual[which], 1, 2)

    def axis(self, index: int) -> Axis:
        return Axis(self.keys[index].copy(), self.biases[index].copy())


def _solve(matrices: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solutions (S, p, q); NaN for matrices that are singular."""
    try:
        return np.linalg.solve(matrices, right)
    except np.linalg.LinAlgError:
        if len(matrices) == 1:
            return np.full_like(right, np.nan)
        return np.concatenate([_solve(matrices[i : i + 1], right[i : i + 1]) for i in range(len(matrices))])


class _Linearised:
    """The scaled Gauss-Newton equations (S, 2N, 2N), (S, 2N) of every start, and the scales of their columns."""

    def __init__(self, starts: int, columns: int) -> None:
        self.gram = np.zeros((starts, columns, columns))
        self.gradient = np.zeros((starts, columns))
        self.scale = np.ones((starts, columns))

    def renew(self, places: np.ndarray, reduced: _Reduced, which: np.ndarray) -> None:
        J, residual = reduced.jacobian(which)
        J = J.reshape(len(J), -1, J.shape[-1])  # (s, q (n + p), 2N)
        turned = np.swapaxes(J, 1, 2)
        with np.errstate(all="ignore"):  # what overflows here gives a step that is no number, and is not taken
            gram = turned @ J
            gradient = (turned @ residual.reshape(len(J), -1, 1))[..., 0]
            scale = np.sqrt(np.diagonal(gram, axis1=1, axis2=2))
            scale = np.maximum(scale, 1e-8 * scale.max(axis=1, keepdims=True) + 1e-150)
            self.gram[places] = gram / (scale[:, :, None] * scale[:, None, :])
            self.gradient[places] = gradient / scale
        self.scale[places] = scale

    def steps(self, places: np.ndarray, damping: np.ndarray) -> np.ndarray:
        """(s, 2N)"""
        damped = self.gram[places]
        diagonal = np.arange(damped.shape[1])
        damped[:, diagonal, diagonal] += damping[:, None]
        return -_solve(damped, self.gradient[places][..., None])[..., 0] / self.scale[places]


def optimised_axes(
    starts: Sequence[Axis],
    t: np.ndarray,
    F: np.ndarray,
    *,
    affine: bool,
    strength: float,
    goal: float,
    iterations: int = 40,
    point_weights: np.ndarray | None = None,
    pruning: dict[int, int] | None = None,
) -> Generator[tuple[int, Axis, float], int | None, None]:
    """Improved keys and biases from `starts`, all of as many tokens, for samples F (n, q) at t (n,): the number of the
    start, the axis, and the root mean square misfit left.

    An axis comes as soon as its misfit is below `goal`; those that stall, or have taken `iterations` accepted or
    rejected steps, come then; those that are pruned do not come. Whoever has an axis that will do sends its number:
    starts that come earlier in the list, and so are preferred, still go on, others end.
    """
    weights = np.ones(len(t)) if point_weights is None else point_weights
    N, S = starts[0].tokens, len(starts)
    keys, biases = np.stack([axis.keys for axis in starts]), np.stack([axis.biases for axis in starts])

    def reduced(keys: np.ndarray, biases: np.ndarray) -> _Reduced:
        return _Reduced(keys, biases, t, F, affine, strength, weights)

    current = reduced(keys, biases)
    costs = np.full((S, iterations + 1), np.nan)
    costs[:, 0] = np.where(np.isfinite(current.cost), current.cost, np.inf)
    damping, stalled = np.full(S, 1e-3), np.zeros(S, dtype=int)
    equations = _Linearised(S, 2 * N)
    alive = np.flatnonzero(np.isfinite(costs[:, 0]))
    equations.renew(alive, current, alive)
    for iteration in range(iterations + 1):
        cost = costs[alive, iteration]
        over = (stalled[alive] >= 3) | (damping[alive] > _MOST_DAMPING) | _too_slow(costs[alive], iteration, goal)
        ended = (cost <= goal**2) | over | (iteration == iterations)
        last = S
        for place in alive[ended]:
            axis = Axis(keys[place], biases[place]) if costs[place, iteration] < costs[place, 0] else starts[place]
            does = yield int(place), axis, float(np.sqrt(costs[place, iteration]))
            last = last if does is None else min(last, does)
        alive = alive[~ended & (alive < last)]
        if pruning and len(alive) > pruning.get(iteration, S):
            alive = np.sort(alive[np.argsort(costs[alive, iteration], kind="stable")[: pruning[iteration]]])
        if not len(alive):
            return
        costs[alive, iteration + 1] = costs[alive, iteration]
        step = equations.steps(alive, damping[alive])
        usable = np.isfinite(step).all(axis=1)
        damping[alive[~usable]] *= 10
        stalled[alive[~usable]] += 1
        tried, step = alive[usable], step[usable]
        if not len(tried):
            continue
        trial = reduced(keys[tried] + step[:, :N], biases[tried] + step[:, N:])
        better = np.isfinite(trial.cost) & (trial.cost < costs[tried, iteration])
        which, taken = np.flatnonzero(better), tried[better]
        slow = trial.cost[which] > 0.98 * costs[taken, iteration]
        stalled[taken] = np.where(slow, stalled[taken] + 1, 0)
        keys[taken], biases[taken] = trial.keys[which], trial.biases[which]
        costs[taken, iteration + 1] = trial.cost[which]
        damping[taken] = np.maximum(damping[taken] / 5, _LEAST_DAMPING)
        damping[tried[~better]] *= 6
        if len(taken):
            equations.renew(taken, trial, which)


def optimise_axis(start: Axis, t: np.ndarray, F: np.ndarray, *, goal: float, **options: Any) -> Axis:
    """The axis that is found from one start."""
    return next(optimised_axes([start], t, F, goal=goal, **options), (0, start, 0.0))[1]


def _too_slow(costs: np.ndarray, iteration: int, goal: float) -> np.ndarray:
    """Whether the recent rate of progress (s,), kept up, would still end far from the goal."""
    if iteration < 9:
        return np.zeros(len(costs), dtype=bool)
    rate = (costs[:, iteration] / costs[:, iteration - 6]) ** (1 / 6)
    return costs[:, iteration] * rate ** (costs.shape[1] - 1 - iteration) > (60 * goal) ** 2
