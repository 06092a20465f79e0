"""Keys and biases by variable projection: Gauss-Newton on the reduced problem, values eliminated by least squares.

For given keys and biases the best values are a linear least-squares solution, so only (k, b) are unknown. With
w the softmax weights, g = sum_j w_j v_j(t) and v_j(t) = v_j + s_j t,

    dg/db_j = w_j (v_j(t) - g),        dg/dk_j = t dg/db_j,

and Kaufman's approximation projects these columns onto the orthogonal complement of the (regularised) design matrix.
Steps are damped by Levenberg and Marquardt's rule. Everything counts iterations, never seconds, so that the same
input gives the same network on every machine.

*Starts run side by side.* The matrices are small (about 60 x 10), so that a step from one start is mostly calls. All
starts of a search therefore take their steps together, as stacks of matrices. Most starts fail, and most of these can
be told after a few steps: `PRUNING` says how many, the cheapest first, go on after how many steps. Where two starts
come to the same misfit, one of them to rest, and none that still moves is below it, this is the minimum: the others
would come to rest there too. Steps are solved with the Gram matrix of the Jacobian, its columns scaled to length 1: the
damping, never below 1e-13, keeps it far enough from singular for a step. The values themselves come from a QR
factorisation and never from a Gram matrix.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from softwright.approximation.fitting.lapack import qr_stack, solve_stack
from softwright.attention.head import Axis
from softwright.work import count

PRUNING = {3: 6, 8: 4}  # after so many steps, so many starts go on
_SAME = 0.02  # misfits that differ by less, relatively, are of the same minimum
_LEAST_DAMPING, _MOST_DAMPING = 1e-13, 1e8
_CALL, _WEIGHT, _FLOP = 80_000, 15.0, 0.12  # nominal nanoseconds (`work.py`), as in `least_squares.py`


@lru_cache(maxsize=256)
def _identity(size: int) -> np.ndarray:
    return np.eye(size)


class _Asked:
    """What all axes of a search are asked for: samples F (n, q) at t (n,), and how values are kept small."""

    def __init__(
        self, t: np.ndarray, F: np.ndarray, affine: bool, strength: float, point_weights: np.ndarray | None = None
    ) -> None:
        self.t, self.affine, self.strength = t, affine, strength
        self.column = t[:, None]  # (n, 1)
        weights = np.ones(len(t)) if point_weights is None else point_weights
        self.scales = weights / np.sqrt(len(t))  # (n,)
        self.scaling = self.scales[:, None]  # (n, 1)
        self.wanted = F * self.scaling  # (n, q)


class _Reduced:
    """The reduced problem at S axes (k, b) of N tokens: values, residual and Kaufman Jacobian; regularised by
    strength |v|."""

    def __init__(self, keys: np.ndarray, biases: np.ndarray, asked: _Asked) -> None:
        (S, N), n = keys.shape, len(asked.t)
        self.keys, self.biases, self.asked = keys, biases, asked
        weights = keys[:, :, None] * asked.t  # (S, N, n): sums over few tokens are faster along whole rows
        weights += biases[:, :, None]
        weights -= np.maximum.reduce(weights, axis=1, keepdims=True)
        np.exp(weights, out=weights)
        weights *= asked.scales / np.add.reduce(weights, axis=1, keepdims=True)
        p = N * (1 + asked.affine)
        A = np.empty((S, n + p, p))
        A[:, :n, :N] = weights.transpose(0, 2, 1)
        if asked.affine:
            np.multiply(A[:, :n, :N], asked.column, out=A[:, :n, N:])
        A[:, n:] = asked.strength * _identity(p)
        count(_CALL + S * (n + p) * p * (_WEIGHT + 2 * p * _FLOP))
        self.Q, R = qr_stack(A)  # (S, n + p, p), (S, p, p)
        self.values = solve_stack(R, self.Q[:, :n].transpose(0, 2, 1) @ asked.wanted)  # (S, p, q)
        self.weighted = A[:, :n, :N]  # the weights, scaled
        self.residual = A @ self.values  # (S, n + p, q): misfit, then penalty
        self.fitted = self.residual[:, :n] / asked.scaling  # (S, n, q)
        self.residual[:, :n] -= asked.wanted
        self.cost = np.einsum("spq,spq->s", self.residual, self.residual)

    def jacobian(self, which: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Of some of the axes, by output: Jacobians (s, q, n + p, 2N) and residuals (s, q, n + p)."""
        n, N = self.weighted.shape[1:]
        Q, values, fitted, weighted, residual = self.Q, self.values, self.fitted, self.weighted, self.residual
        if len(which) < len(Q):
            Q, values, fitted, weighted, residual = (each[which] for each in (Q, values, fitted, weighted, residual))
        values = values.transpose(0, 2, 1)[:, :, None]  # (s, q, 1, p)
        deviation = values[..., :N] - fitted.transpose(0, 2, 1)[..., None]  # (s, q, n, N)
        if self.asked.affine:
            deviation += values[..., N:] * self.asked.column
        columns = np.empty((*deviation.shape[:3], 2 * N))  # (s, q, n, 2N)
        by_bias = np.multiply(weighted[:, None], deviation, out=columns[..., N:])
        np.multiply(by_bias, self.asked.column, out=columns[..., :N])
        count(_CALL + 6 * columns.size * Q.shape[2] * _FLOP)
        seen = Q[:, None, :n].transpose(0, 1, 3, 2) @ columns  # (s, q, p, 2N)
        block = Q[:, None] @ np.negative(seen, out=seen)  # (s, q, n + p, 2N)
        block[:, :, :n] += columns
        return block, residual.transpose(0, 2, 1)

    def axis(self, index: int) -> Axis:
        return Axis(self.keys[index].copy(), self.biases[index].copy())


class _Linearised:
    """The scaled Gauss-Newton equations (S, 2N, 2N), (S, 2N) of every start, and the scales of their columns."""

    def __init__(self, starts: int, columns: int) -> None:
        self.gram = np.zeros((starts, columns, columns))
        self.gradient = np.zeros((starts, columns))
        self.scale = np.ones((starts, columns))

    def renew(self, places: list[int], reduced: _Reduced, which: list[int]) -> None:
        J, residual = reduced.jacobian(which)
        J = J.reshape(len(J), -1, J.shape[-1])  # (s, q (n + p), 2N)
        turned = J.transpose(0, 2, 1)
        with np.errstate(all="ignore"):  # what overflows here gives a step that is no number, and is not taken
            gram = turned @ J
            gradient = (turned @ residual.reshape(len(J), -1, 1))[..., 0]
            scale = np.sqrt(np.diagonal(gram, axis1=1, axis2=2))
            scale = np.maximum(scale, 1e-8 * scale.max(axis=1, keepdims=True) + 1e-150)
            self.gram[places] = gram / (scale[:, :, None] * scale[:, None, :])
            self.gradient[places] = gradient / scale
        self.scale[places] = scale

    def steps(self, places: list[int], damping: np.ndarray) -> np.ndarray:
        """(s, 2N)"""
        damped = self.gram[places]
        diagonal = np.arange(damped.shape[1])
        damped[:, diagonal, diagonal] += damping[:, None]
        return -solve_stack(damped, self.gradient[places][..., None])[..., 0] / self.scale[places]


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
    kept: int = 0,
) -> Iterator[tuple[int, Axis, float]]:
    """Improved keys and biases from `starts`, all of as many tokens, for samples F (n, q) at t (n,): the number of the
    start, the axis, and the root mean square misfit left.

    An axis comes as soon as its misfit is below `goal`; those that stall, or have taken `iterations` accepted or
    rejected steps, come then; those that are pruned do not come. Whoever has an axis that will do asks for no other.
    With `pruning`, all end where two have come to one minimum; the first `kept` are not pruned.
    """
    asked = _Asked(t, F, affine, strength, point_weights)
    N, S = starts[0].tokens, len(starts)
    keys, biases = np.stack([axis.keys for axis in starts]), np.stack([axis.biases for axis in starts])
    # Numbers of a handful of starts: Python's own are faster than arrays of so few.
    current = _Reduced(keys, biases, asked)
    costs = [[cost if math.isfinite(cost) else math.inf] for cost in current.cost.tolist()]
    damping, stalled, resting = [1e-3] * S, [0] * S, []
    equations = _Linearised(S, 2 * N)
    alive = [place for place in range(S) if costs[place][0] < math.inf]
    equations.renew(alive, current, alive)
    for iteration in range(iterations + 1):
        ended = [
            place
            for place in alive
            if costs[place][-1] <= goal**2
            or stalled[place] >= 3
            or damping[place] > _MOST_DAMPING
            or iteration == iterations
            or _too_slow(costs[place], iterations, goal)
        ]
        for place in ended:
            axis = Axis(keys[place], biases[place]) if costs[place][-1] < costs[place][0] else starts[place]
            yield place, axis, math.sqrt(costs[place][-1])
        resting += [costs[place][-1] for place in ended if stalled[place] >= 3]
        alive = [place for place in alive if place not in ended]
        if not alive or (pruning and _agree(resting, [costs[place][-1] for place in alive])):
            return
        if pruning and iteration in pruning:
            others = sorted((place for place in alive if place >= kept), key=lambda place: costs[place][-1])
            alive = sorted([*(place for place in alive if place < kept), *others[: pruning[iteration]]])
        step = equations.steps(alive, np.array([damping[place] for place in alive]))
        usable = np.isfinite(step).all(axis=1).tolist()
        tried = [place for place, good in zip(alive, usable, strict=True) if good]
        for place, good in zip(alive, usable, strict=True):
            costs[place].append(costs[place][-1])
            if not good:
                damping[place] *= 10
                stalled[place] += 1
        if not tried:
            continue
        if len(tried) < len(alive):
            step = step[usable]
        trial = _Reduced(keys[tried] + step[:, :N], biases[tried] + step[:, N:], asked)
        which, taken = [], []
        for number, (place, cost) in enumerate(zip(tried, trial.cost.tolist(), strict=True)):
            if cost < costs[place][-1]:  # no NaN is
                which.append(number)
                taken.append(place)
                stalled[place] = stalled[place] + 1 if cost > 0.98 * costs[place][-1] else 0
                costs[place][-1] = cost
                damping[place] = max(damping[place] / 5, _LEAST_DAMPING)
            else:
                damping[place] *= 6
        if taken:
            keys[taken], biases[taken] = trial.keys[which], trial.biases[which]
            equations.renew(taken, trial, which)


def cheapest(axes: Sequence[Axis], t: np.ndarray, F: np.ndarray, *, affine: bool, strength: float) -> list[int]:
    """The numbers of the axes, all of as many tokens, by the cost at which they would start; ties as they come."""
    keys, biases = np.stack([axis.keys for axis in axes]), np.stack([axis.biases for axis in axes])
    cost = _Reduced(keys, biases, _Asked(t, F, affine, strength)).cost
    return np.argsort(cost, kind="stable").tolist()  # what is no number comes last


def optimise_axis(start: Axis, t: np.ndarray, F: np.ndarray, *, goal: float, **options: Any) -> Axis:
    """The axis that is found from one start."""
    return next(optimised_axes([start], t, F, goal=goal, **options), (0, start, 0.0))[1]


def _agree(resting: list[float], moving: list[float]) -> bool:
    """Whether a start came to rest at the lowest misfit there is, and another came there too."""
    if not resting:
        return False
    lowest, room = min(resting), (1 + _SAME) ** 2
    alike = sum(cost <= room * lowest for cost in (*resting, *moving))
    return alike > 1 and min(moving) * room >= lowest


def _too_slow(costs: list[float], iterations: int, goal: float) -> bool:
    """Whether the recent rate of progress, kept up, would still end far from the goal."""
    taken = len(costs) - 1
    if taken < 9:
        return False
    rate = (costs[-1] / costs[-7]) ** (1 / 6)
    return costs[-1] * rate ** (iterations - taken) > (33 * goal) ** 2
