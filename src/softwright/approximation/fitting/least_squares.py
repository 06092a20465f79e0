"""Values by linear least squares: the part of every construction that replaces training.

With A the softmax weights at n sample points, values solve  min |A v - F|^2 / n + lambda^2 |v|^2  and one step of
iterated Tikhonov removes most of the bias. With lambda = 0.3 tol / V, any good solution with |v| up to about V is
found and |v| stays near V (frame bound |F - A v| <= min_w |F - A w| + lambda |w|).

Over a tensor grid A is a Kronecker product and the solution is exact axis by axis (one small SVD per axis).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from softwright.approximation.fitting.lapack import dgeqrf, dorgqr, dtrtrs, svd
from softwright.attention.head import Axis
from softwright.work import count

# Nominal nanoseconds (`work.py`): of a factorisation, of one weight of its matrix, which was made for it, and of two
# operations of it.
_CALL, _WEIGHT, _FLOP = 80_000, 15.0, 0.12


def economic_qr(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Q (n, p) and R (p, p) with A = Q R, n >= p; only the upper triangle of R is meant, for `solve_upper`.

    LAPACK is called directly: the searches factorise thousands of small matrices, where checks would cost more than the
    work.
    """
    p = A.shape[1]
    count(_CALL + len(A) * p * (_WEIGHT + 2 * p * _FLOP))
    packed, tau, _, info = dgeqrf(np.asfortranarray(A), lwork=32 * p, overwrite_a=1)
    R = packed[:p].copy()
    Q, _, info_q = dorgqr(packed, tau, lwork=32 * p, overwrite_a=1)
    if info != 0 or info_q != 0:
        raise np.linalg.LinAlgError("QR factorisation failed")
    return Q, R


def triangle_of(A: np.ndarray) -> np.ndarray:
    """The triangle R (p, p) of A = Q R alone, zero below the diagonal."""
    p = A.shape[1]
    count(_CALL + len(A) * p * (_WEIGHT + p * _FLOP))
    packed, _, _, info = dgeqrf(np.asfortranarray(A), lwork=32 * p, overwrite_a=1)
    if info != 0:
        raise np.linalg.LinAlgError("QR factorisation failed")
    return np.triu(packed[:p])


def solve_upper(R: np.ndarray, b: np.ndarray) -> np.ndarray:
    """R^{-1} b with the upper triangle of R; infinite where R is singular."""
    x, info = dtrtrs(R, b)
    return x if info == 0 else np.full_like(x, np.inf)


def design(axis: Axis, t: np.ndarray, affine: bool) -> np.ndarray:
    """Columns of the linear problem along one axis: weights (n, N) or, with affine values, (w, w t) (n, 2N)."""
    weights = axis.weights(t)
    return np.hstack([weights, weights * t[:, None]]) if affine else weights


def regularisation(tolerance: float, value_cap: float) -> float:
    return 0.3 * tolerance / value_cap


def ridge_solve(A: np.ndarray, F: np.ndarray, strength: float, weights: np.ndarray | None = None) -> np.ndarray:
    """min |W (A v - F)|^2 / n + strength^2 |v|^2 with one iterated-Tikhonov step; A (n, p), F (n, q) -> (p, q).

    A QR factorisation of the augmented matrix [A; strength sqrt(n) I]: never forms A^T A, and costs a fifth of an SVD.
    """
    n, p = A.shape
    if weights is not None:
        A, F = A * weights[:, None], F * weights[:, None]
    augmented = np.vstack([A, strength * np.sqrt(n) * np.eye(p)])
    Q, R = economic_qr(augmented)
    top = Q[:n]
    v = solve_upper(R, top.T @ F)
    return v + solve_upper(R, top.T @ (F - A @ v))


def lawson_solve(
    A: np.ndarray, F: np.ndarray, strength: float, goal: float, iterations: int = 12
) -> tuple[np.ndarray, np.ndarray]:
    """Least squares reweighted towards the sup norm (Lawson); returns values and the last point weights (n,)."""
    weights = np.ones(len(A))
    best, best_values = np.inf, np.zeros((A.shape[1], F.shape[1]))
    for _ in range(iterations):
        values = ridge_solve(A, F, strength, np.sqrt(weights))
        residual = np.abs(A @ values - F).max(axis=1)
        worst = residual.max()
        if worst < best:
            best, best_values = worst, values
        if best <= goal:
            break
        weights = weights * (residual / worst + 1e-3)
        weights *= len(weights) / weights.sum()
    return best_values, np.sqrt(weights)


def apply_along(tensor: np.ndarray, matrix: np.ndarray, axis: int) -> np.ndarray:
    """Multiply `matrix` (a, b) into the given axis (of length b) of the tensor."""
    return np.moveaxis(np.tensordot(matrix, tensor, axes=(1, axis)), 0, axis)


def kron_evaluate(matrices: Sequence[np.ndarray], values: np.ndarray) -> np.ndarray:
    for i, matrix in enumerate(matrices):
        values = apply_along(values, matrix, i)
    return values


def kron_ridge_solve(
    matrices: Sequence[np.ndarray], F: np.ndarray, strength: float, points: float | None = None
) -> np.ndarray:
    """Exact Tikhonov solution of (A_1 x ... x A_d) v = F with F (n_1, ..., n_d, q); one iterated step.

    `points` says how many samples there are where a triangle stands for a matrix with more rows.
    """
    d = len(matrices)
    count(sum(_CALL + A.size * (_WEIGHT + 8 * A.shape[1] * _FLOP) for A in matrices))
    count(6 * F.size * sum(A.shape[1] for A in matrices) * _FLOP)
    factors = [svd(A) for A in matrices]
    singular = factors[0][1]
    for _, s, _ in factors[1:]:
        singular = np.multiply.outer(singular, s)
    points = float(np.prod(F.shape[:d])) if points is None else points
    gain = (singular / (singular**2 + strength**2 * points))[..., None]

    def solve(right: np.ndarray) -> np.ndarray:
        for i, (U, _, _) in enumerate(factors):
            right = apply_along(right, U.T, i)
        right = right * gain
        for i, (_, _, Vt) in enumerate(factors):
            right = apply_along(right, Vt.T, i)
        return right

    v = solve(F)
    return v + solve(F - kron_evaluate(matrices, v))
