"""Sums of ridge functions: f(t) = sum_h g_h(w_h.t), each head spectral in one variable.

All values come from one linear least-squares problem; the directions are chosen greedily (the candidate whose 1-D fit
removes most of the residual) and then improved together by Gauss-Newton with the values projected out, as in
`variable_projection`: d/dw_h of A(w_h.t) v_h is g_h'(w_h.t) t. Samples include faces, edges and corners, without
which a fit looks good inside and fails at the corners. This is the strategy for moderate dimension when no sparse
structure was found.
"""

from __future__ import annotations

import numpy as np

from softwright.approximation.fitting.families import uniform_axis
from softwright.approximation.fitting.least_squares import economic_qr, ridge_solve, solve_upper
from softwright.approximation.formula import Formula
from softwright.approximation.problem import Fit, Problem, probe_points, scaling_of
from softwright.approximation.strategies.direction import fit_direction
from softwright.attention.head import Axis, Head
from softwright.work import count

_HEAD_COUNTS = (2, 4, 8, 16, 24, 36, 54)
_MOST_UNKNOWNS = 1300


def _basis(points: np.ndarray, directions: np.ndarray, axis: Axis) -> np.ndarray:
    """Softmax weights of all heads side by side (n, H p); directions have |w|_1 = 1."""
    return np.hstack([axis.weights(points @ w) for w in directions])


def _normalised(directions: np.ndarray) -> np.ndarray:
    return directions / np.maximum(np.abs(directions).sum(axis=1, keepdims=True), 1e-9)


def _candidates(dim: int, number: int, rng: np.random.Generator) -> np.ndarray:
    """Axes, sums and differences of two axes, then random directions, sparse and dense."""
    eye = np.eye(dim)
    pairs = [eye[i] + sign * eye[j] for i in range(dim) for j in range(i) for sign in (1, -1)]
    random = rng.normal(size=(number, dim)) * (
        rng.uniform(size=(number, dim)) < rng.choice([0.4, 0.7, 1.0], size=(number, 1))
    )
    everything = np.vstack([eye, *([np.array(pairs)] if pairs else []), random])
    return everything[np.abs(everything).sum(axis=1) > 0]


def _add_directions(
    directions: np.ndarray,
    wanted: int,
    points: np.ndarray,
    F: np.ndarray,
    axis: Axis,
    strength: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Greedy: repeatedly add the half of the missing directions that explain most of what is left."""
    while len(directions) < wanted:
        residual = F
        if len(directions):
            A = _basis(points, directions, axis)
            residual = F - A @ ridge_solve(A, F, strength)
        some = rng.choice(len(points), min(len(points), 1200), replace=False)
        pool = _normalised(_candidates(points.shape[1], 100, rng))
        left = []
        for w in pool:
            A = axis.weights(points[some] @ w)
            left.append(((residual[some] - A @ ridge_solve(A, residual[some], 1e-8)) ** 2).sum())
        take = max(1, (wanted - len(directions) + 1) // 2)
        directions = np.vstack([directions, pool[np.argsort(left)[:take]]])
    return directions


def _improve(
    directions: np.ndarray, points: np.ndarray, F: np.ndarray, axis: Axis, strength: float, steps: int
) -> np.ndarray:
    """Gauss-Newton with Levenberg-Marquardt damping over all directions, values projected out."""
    n, d = points.shape
    p, q = axis.tokens, F.shape[1]

    def reduced(W: np.ndarray) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, np.ndarray, float]:
        weights = [axis.weights(points @ w) for w in W]
        A = np.hstack(weights)
        Q, R = economic_qr(np.vstack([A, strength * np.sqrt(n) * np.eye(A.shape[1])]))
        v = solve_upper(R, Q[:n].T @ F)
        residual = A @ v - F
        return weights, v, Q[:n], residual, float((residual**2).sum() + strength**2 * n * (v**2).sum())

    weights, v, Q, residual, cost = reduced(directions)
    damping = 1e-2
    for _ in range(steps):
        H = len(directions)
        count(0.4 * q * n * H * d * (2 * H * p + H * d))
        normal, right = np.zeros((H * d, H * d)), np.zeros(H * d)
        for o in range(q):
            J = np.empty((n, H * d))
            for h, w in enumerate(weights):
                vh = v[h * p : (h + 1) * p, o]
                slope = w @ (axis.keys * vh) - (w @ vh) * (w @ axis.keys)  # g_h'(w_h.t)
                J[:, h * d : (h + 1) * d] = slope[:, None] * points
            J -= Q @ (Q.T @ J)
            normal += J.T @ J
            right += J.T @ residual[:, o]
        scale = np.diag(normal) + 1e-12 * np.trace(normal) / len(normal) + 1e-300
        for _ in range(6):
            step = -np.linalg.solve(normal + damping * np.diag(scale), right).reshape(H, d)
            trial = _normalised(directions + step)
            outcome = reduced(trial)
            if outcome[4] < cost:
                break
            damping *= 8
        else:
            return directions
        gain = (cost - outcome[4]) / cost
        directions, (weights, v, Q, residual, cost) = trial, outcome
        damping = max(damping / 5, 1e-9)
        if gain < 1e-3:
            break
    return directions


def fit_ridge(problem: Problem, formula: Formula | None = None) -> Fit | None:
    """One direction if there is one, else a sum of ridge functions."""
    return fit_direction(problem) or fit_ridge_sum(problem)


def fit_ridge_sum(problem: Problem, formula: Formula | None = None, *, seed: int = 0) -> Fit | None:
    """Ridge heads for a target of several variables; the best found, or None if the budget ends before the first."""
    d, budget = problem.dim, problem.budget
    rng = np.random.default_rng(seed)
    test = probe_points(d, 12_000, seed=101)
    values = problem.function(test)
    scaling = scaling_of(values)
    relative = min(0.9 * problem.tolerance / scaling.scale, 0.5)
    wanted = (values - scaling.middle) / scaling.scale
    p = int(np.ceil(8 + 2.5 * -np.log10(relative)))
    axis = uniform_axis(p, 1.3, 1.0)
    strength = max(1e-9, 0.3 * relative / problem.value_cap(scaling.scale))
    directions = np.zeros((0, d))
    best: Fit | None = None
    for number in _HEAD_COUNTS:
        if number * p > min(_MOST_UNKNOWNS, budget.max_tokens):
            break
        if best is not None and budget.exhausted:
            break
        budget.check()
        budget.say(f"sum of {number} ridge functions")
        points = probe_points(d, max(3000, 4 * number * p), seed=seed + 1)
        F = (problem.function(points) - scaling.middle) / scaling.scale
        directions = _add_directions(directions, number, points, F, axis, strength, rng)
        directions = _improve(directions, points, F, axis, strength, steps=20)
        v = ridge_solve(_basis(points, directions, axis), F, strength)
        error = float(np.abs(_basis(test, directions, axis) @ v - wanted).max())
        if best is None or error * scaling.scale < best.error:
            heads = [
                Head.on_grid([axis], v[h * p : (h + 1) * p] * scaling.scale).along(w[None]).centred()
                for h, w in enumerate(directions)
            ]
            heads[0] = heads[0].plus_affine(scaling.middle)
            reason = f"no sparse structure: a sum of {number} ridge functions of {p} tokens each"
            best = Fit(heads, error * scaling.scale, "ridge", (reason,))
        if error <= relative:
            break
    return best
