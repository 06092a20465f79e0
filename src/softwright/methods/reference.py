"""The same models fitted by classical numerics in float64, to measure stacks against; and that measurement.

Least squares by LAPACK, the lasso by coordinate descent, coefficients of 0 or more by Lawson and Hanson's method,
generalised linear models by Newton's method with halved steps. Objectives are those of `pipelines.in_context`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.optimize import nnls

from softwright.methods.network import InContextStack
from softwright.result.observed import Observed

_LARGE = 1000  # layers times features beyond which one design must do


def reference(
    x: np.ndarray, y: np.ndarray, settings: Mapping[str, Any], sample_weight: np.ndarray | None = None
) -> tuple[np.ndarray, float]:
    """Coefficients (d,) and intercept of the exact solution."""
    method, penalty = settings["method"], float(settings["penalty"])
    p = np.full(len(y), 1.0 / len(y)) if sample_weight is None else sample_weight / sample_weight.sum()
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    mean = p @ x if settings["intercept"] else np.zeros(x.shape[1])
    scale = np.sqrt(p @ (x - mean) ** 2)
    A = (x - mean) / scale  # standardised columns keep the factorisations accurate; the penalty follows
    if method in ("logistic", "poisson", "robust"):
        w, b = _newton(A, y, p, penalty / scale**2, settings)
    else:
        centre = float(p @ y) if settings["intercept"] else 0.0
        w, b = _squares(method, A, y - centre, p, penalty, scale), centre
    coefficients = w / scale
    return coefficients, float(b - coefficients @ mean) if settings["intercept"] else 0.0


def _squares(method: str, A: np.ndarray, y: np.ndarray, p: np.ndarray, penalty: float, scale: np.ndarray) -> np.ndarray:
    root = np.sqrt(p)
    rows, values = root[:, None] * A, root * y
    if method == "lasso":
        return _coordinate_descent(rows, values, penalty / scale)
    if method == "nonnegative_least_squares":
        return nnls(rows, values)[0]
    if penalty > 0:
        rows = np.concatenate([rows, np.diag(np.sqrt(penalty) / scale)])
        values = np.concatenate([values, np.zeros(len(scale))])
    return np.linalg.lstsq(rows, values, rcond=None)[0]


def _coordinate_descent(
    rows: np.ndarray, values: np.ndarray, thresholds: np.ndarray, sweeps: int = 100_000
) -> np.ndarray:
    gram, right = rows.T @ rows, rows.T @ values
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
    return w


def _newton(
    A: np.ndarray, y: np.ndarray, p: np.ndarray, penalties: np.ndarray, settings: Mapping[str, Any]
) -> tuple[np.ndarray, float]:
    method, c = settings["method"], float(settings.get("loss_scale", 1.0))
    if settings["intercept"]:
        A, penalties = np.concatenate([A, np.ones((len(y), 1))], axis=1), np.append(penalties, 0.0)
    w = np.zeros(A.shape[1])
    if settings["intercept"]:
        w[-1] = {"logistic": 0.0, "poisson": float(np.log(p @ y)) if method == "poisson" else 0.0}.get(
            method, float(np.median(y))
        )

    def value(w: np.ndarray) -> float:
        s = A @ w
        if method == "logistic":
            loss = np.logaddexp(0, s) - y * s
        elif method == "poisson":
            loss = np.exp(np.minimum(s, 500)) - y * s
        else:
            loss = c * c * np.logaddexp((s - y) / c, (y - s) / c)
        return float(p @ loss + 0.5 * penalties @ w**2)

    for _ in range(200):
        s = A @ w
        if method == "logistic":
            G = 1 / (1 + np.exp(-s))
            slope, a = G - y, G * (1 - G)
        elif method == "poisson":
            a = np.exp(s)
            slope = a - y
        else:
            slope, a = c * np.tanh((s - y) / c), 1 / np.cosh((s - y) / c) ** 2
        step = np.linalg.solve((A.T * (p * a)) @ A + np.diag(penalties), A.T @ (p * slope) + penalties * w)
        size = 1.0
        while value(w - size * step) > value(w) + 1e-13 * abs(value(w)) and size > 1e-6:
            size /= 2
        w = w - size * step
        if np.abs(step).max() <= 1e-15 * (1 + np.abs(w).max()):
            break
    return (w[:-1], float(w[-1])) if settings["intercept"] else (w, 0.0)


def random_design(
    method: str, features: int, rows: int, seed: int, *, size: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """x (rows, d) with mildly correlated columns and y that fits the method."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(rows, 1))
    x = size * (np.sqrt(0.8) * rng.normal(size=(rows, features)) + np.sqrt(0.2) * shared)
    s = x @ rng.normal(size=features) / (size * np.sqrt(features))
    if method == "logistic":
        return x, (rng.random(rows) < 1 / (1 + np.exp(-s))).astype(float)
    if method == "poisson":
        return x, rng.poisson(np.exp(0.7 * s + 1.0)).astype(float)
    return x, s + 0.3 * rng.normal(size=rows) + (0.5 if method != "nonnegative_least_squares" else 0.0)


def observe(stack: InContextStack, *, seed: int = 4242, queries: int = 20) -> Observed:
    """The largest distance between the stack's predictions and those of the exact solution, on fresh designs."""
    settings = stack.settings
    method, d = settings["method"], stack.features
    rows = 60 + 4 * d
    worst, count = 0.0, 0
    for design in range(1 if stack.depth * d > _LARGE else 3):
        x, y = random_design(method, d, rows + queries, seed + design)
        given = stack.evaluate(x=x[:rows], y=y[:rows], queries=x[rows:], check=False)
        w, b = reference(x[:rows], y[:rows], settings)
        exact = x[rows:] @ w + b
        if settings["response"] and method == "logistic":
            exact = 1 / (1 + np.exp(-exact))
        elif settings["response"] and method == "poisson":
            exact = np.exp(exact)
        error = float(np.abs(given - exact).max())
        worst, count = max(worst, error if np.isfinite(error) else float("inf")), count + queries
    return Observed(worst, (), count)
