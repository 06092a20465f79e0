"""The exact solution of the problem that a stack is given, and the distance of the stack's answers from it."""

from __future__ import annotations

import numpy as np
import torch

from softwright.errors import InvalidInput
from softwright.methods.classical import Standardised
from softwright.methods.constants import Constants
from softwright.methods.methods import METHODS
from softwright.methods.network import InContextStack
from softwright.result.observed import Observed

_LARGE = 1000  # layers times features beyond which one design must do


def reference(
    x: np.ndarray, y: np.ndarray, constants: Constants, sample_weight: np.ndarray | None = None
) -> tuple[np.ndarray, float]:
    """Coefficients (d,) and intercept of the exact solution."""
    row = METHODS[constants.method]
    if row.exact is None or row.loss is None:
        raise InvalidInput("reference", [f"{row.name} fits no coefficients; ask for predictions"])
    p = np.full(len(y), 1.0 / len(y)) if sample_weight is None else sample_weight / sample_weight.sum()
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    first = x[0] if constants.intercept else np.zeros(x.shape[1])
    near = x - first  # a mean far from 0 is rounded in its own size
    middle = p @ near if constants.intercept else first
    mean = first + middle
    scale = np.sqrt(p @ (near - middle) ** 2)
    columns = (near - middle) / scale
    problem = Standardised(columns, y, p, scale, constants.penalty, constants.intercept, constants.loss_scale)
    w, b = row.exact(problem, row.loss)
    coefficients = w / scale
    return coefficients, float(b - coefficients @ mean) if constants.intercept else 0.0


def exact_predictions(x: np.ndarray, y: np.ndarray, queries: np.ndarray, constants: Constants) -> np.ndarray:
    """What a stack with these constants should answer: w.x + b, or the response if it was asked for."""
    row = METHODS[constants.method]
    if row.answers is not None:
        return row.answers(np.asarray(x, dtype=float), np.asarray(y, dtype=float), queries, constants)
    w, b = reference(x, y, constants)
    s = queries @ w + b
    response = None if row.loss is None else row.loss.response
    return response(s) if constants.response and response is not None else s


def random_design(
    method: str, features: int, rows: int, seed: int, *, size: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """x (rows, d) with mildly correlated columns and y that fits the method."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(rows, 1))
    x = size * (np.sqrt(0.8) * rng.normal(size=(rows, features)) + np.sqrt(0.2) * shared)
    s = x @ rng.normal(size=features) / (size * np.sqrt(features))
    return METHODS[method].arranged(x), METHODS[method].design(rng, s)


def prompts(stack: InContextStack, count: int, seed: int = 0, queries: int = 3) -> tuple[np.ndarray, ...]:
    """x (count, n, d), y (count, n) and queries (count, m, d), in the stack's dtype: rows and labels that the method
    takes (times without a hole, marks, counts), more rows than unknowns, and none that the stack refuses where others
    are found: twelve rows may be separable, or be too few for the steps that it has."""
    d, method = stack.features, stack.constants.method
    n = max(12, 3 * d)
    drawn = [random_design(method, d, n + queries, seed * count + i) for i in range(count)]
    x, y = np.empty((count, n + queries, d)), np.empty((count, n + queries))
    for i, (rows, values) in enumerate(drawn):
        x[i], y[i] = rows, values
    given = [np.ascontiguousarray(part, stack.constants.dtype) for part in (x[:, :n], y[:, :n], x[:, n:])]
    taken = _taken(stack, [torch.from_numpy(part) for part in given], np.arange(count))
    return tuple(part[np.resize(taken, count)] for part in given) if len(taken) else tuple(given)


def _taken(stack: InContextStack, given: list[torch.Tensor], which: np.ndarray) -> np.ndarray:
    """Those prompts of a batch that the stack answers; a batch with one that it refuses is halved."""
    try:
        with torch.no_grad():
            stack(*(part[which] for part in given))
    except InvalidInput:
        if len(which) == 1:
            return which[:0]
        return np.concatenate([_taken(stack, given, half) for half in np.array_split(which, 2)])
    return which


def observe(stack: InContextStack, *, seed: int = 4242, queries: int = 20) -> Observed:
    """The largest distance between the stack's predictions and those of the exact solution, on fresh designs."""
    d = stack.features
    rows = 60 + 4 * d
    worst, count = 0.0, 0
    for design in range(1 if stack.depth * d > _LARGE else 3):
        x, y = random_design(stack.constants.method, d, rows + queries, seed + design)
        given = stack.evaluate(x=x[:rows], y=y[:rows], queries=x[rows:], check=False)
        exact = exact_predictions(x[:rows], y[:rows], x[rows:], stack.constants)
        error = float(np.abs(given - exact).max())
        worst, count = max(worst, error if np.isfinite(error) else float("inf")), count + queries
    return Observed(worst, (), count)
