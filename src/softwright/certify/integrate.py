"""L_p norms, 1 <= p < infinity, by rigorous integration of the residual's enclosure.

On a box the residual is q + e with q a polynomial in s and |e| <= R. The mean square of q over the box is exact algebra, a
quadratic form in its coefficients, so with m2 = (sqrt(mean q^2) + R)^2 and sup the largest modulus

    mean |q + e|^p  <=  min(sup^p,  m2^{p/2})        for p <= 2   (Jensen)
    mean |q + e|^p  <=  min(sup^p,  sup^{p-2} m2)    for p >= 2.

The integral is the sum over the leaves of volume times that mean; boxes whose bound exceeds the likely value most are halved
until the sum meets the goal. Several outputs: the norm of max_o |g_o - f_o|, bounded by the sum over the outputs.
A jump of the target costs only the volume of the boxes that hold it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from softwright.certify.ball_expression import ball_above, map_balls, precision
from softwright.certify.directed import U, up
from softwright.certify.residual import Residual
from softwright.certify.search import BoxTree, Budget, Progress, evaluate_boxes, start_levels


@dataclass
class IntegralOutcome:
    finished: bool
    tree: bytes
    leaves: int
    evaluations: int
    exact: float  # the L_p norm of g - f is at most this
    rounding: float  # largest rounding bound over the leaves (not yet an L_p norm)
    lower: float  # the L_p norm is at least this
    interrupted: bool = False


def root_up(value: float, p: float) -> float:
    """value^(1/p) rounded up."""
    from flint import arb

    if not np.isfinite(value):
        return np.inf
    with precision(80):
        return ball_above(arb(value) ** (1 / arb(p))) if value > 0 else 0.0


def _powers(base: np.ndarray, p: float) -> np.ndarray:
    """base^p for base >= 0, rounded up; halves and integers by IEEE operations, other exponents by ball arithmetic."""
    whole, half = int(p), p - int(p) == 0.5
    if whole <= 64 and (p == whole or half):
        out = np.sqrt(base) if half else np.ones_like(base)
        for _ in range(whole):
            out = out * base
        return up(out, whole + 2)
    from flint import arb

    value, error = map_balls(lambda x: x ** arb(p) if x > 0 else arb(0), base)
    return up(value + error)


def integrate(
    residual: Residual,
    low: np.ndarray,
    high: np.ndarray,
    p: float,
    goal: float | None,
    tightness: float | None,
    budget: Budget,
    executor: Executor | None,
    progress: Callable[[Progress], None] | None,
) -> IntegralOutcome:
    """Bound the L_p norm of the residual by `goal`, or (`tightness`) within a factor of its lower bound."""
    tree = BoxTree(low, high)
    nodes, index, level = tree.grid(start_levels(residual))
    volume = float(np.prod(high - low)) * (1.0 + 1e-14)
    evaluations = 0
    upper = likely = rounding = np.empty(0)
    kept_nodes, kept_index, kept_level = nodes[:0], index[:0], level[:0]
    splits = np.empty((0, residual.dim))
    total = lower_total = np.inf
    finished = interrupted = False
    while True:
        try:
            found = evaluate_boxes(residual, tree, index, level, max(goal or 0.0, 1e-12), executor)
        except KeyboardInterrupt:
            interrupted = True
            break
        evaluations += len(nodes)
        mean = np.fmin(_powers(found.upper, p), _mean_power(found.mean_square, found.upper, p))
        size = np.ldexp(volume, -level.sum(axis=1).astype(np.int32))
        floor = np.maximum(np.where(found.range_low > 0, found.range_low, 0.0), np.where(found.range_high < 0, -found.range_high, 0.0))
        lowest = np.maximum(_powers(np.max(floor, axis=0), p) * size * (1.0 - 1e-12) - 1e-280, 0.0)
        kept_nodes, kept_index = np.concatenate([kept_nodes, nodes]), np.concatenate([kept_index, index])
        kept_level, splits = np.concatenate([kept_level, level]), np.concatenate([splits, found.split])
        upper, likely = np.concatenate([upper, up(mean * size)]), np.concatenate([likely, lowest])
        rounding = np.concatenate([rounding, found.rounding])
        total = math.fsum(upper) * (1.0 + 4 * U)
        lower_total = math.fsum(likely) * (1.0 - 4 * U)
        if progress is not None:
            worst = root_up(total, p)
            progress(Progress(1.0, lower_total ** (1 / p), worst, len(upper), len(nodes), budget.elapsed))
        norm = root_up(total, p)
        if goal is not None:
            finished = norm <= goal
        else:
            finished = norm <= (1.0 + (tightness or 0.05)) * lower_total ** (1 / p)
        hopeless = goal is not None and lower_total ** (1 / p) > 1.02 * goal
        if finished or hopeless or budget.spent or evaluations > budget.boxes:
            break
        excess = np.where(np.isfinite(upper), upper - likely, np.inf)
        order = np.argsort(-excess)
        finite_total = np.cumsum(np.where(np.isfinite(excess[order]), excess[order], 0.0))
        count = max(1, int(np.searchsorted(finite_total, 0.6 * finite_total[-1])) + 1, int(np.count_nonzero(~np.isfinite(excess))))
        chosen, rest = order[:count], order[count:]
        nodes, index, level = tree.halve(
            kept_nodes[chosen], kept_index[chosen], kept_level[chosen], np.argmax(splits[chosen], axis=1)
        )
        kept_nodes, kept_index, kept_level, splits = kept_nodes[rest], kept_index[rest], kept_level[rest], splits[rest]
        upper, likely, rounding = upper[rest], likely[rest], rounding[rest]
    data, order = tree.preorder()
    exact = np.inf if interrupted else root_up(total, p)
    largest = float(rounding.max()) if len(rounding) and not interrupted else np.inf
    lower = 0.0 if interrupted else lower_total ** (1 / p) * (1.0 - 1e-12)
    return IntegralOutcome(finished, data, len(order), evaluations, exact, largest, lower, interrupted)


def _mean_power(mean_square: np.ndarray, sup: np.ndarray, p: float) -> np.ndarray:
    """Bounds (B,) of the mean of max_o |r_o|^p from those of the mean squares (m, B)."""
    if p <= 2.0:
        return up(_powers(mean_square, p / 2.0).sum(axis=0))
    return up(_powers(sup, p - 2.0) * mean_square.sum(axis=0))
