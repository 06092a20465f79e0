"""L_p norms, 1 <= p < infinity, by rigorous integration of the residual's enclosure.

On a box the residual is q + e with q a polynomial in s and |e| <= R. The mean square of q over the box is exact
algebra, a quadratic form in its coefficients, so with m2 = (sqrt(mean q^2) + R)^2 and sup the largest modulus

    mean |q + e|^p  <=  min(sup^p,  m2^{p/2})        for p <= 2   (Jensen)
    mean |q + e|^p  <=  min(sup^p,  sup^{p-2} m2)    for p >= 2.

The integral is the sum over the leaves of volume times that mean; boxes whose bound exceeds the likely value most are
halved until the sum meets the goal. Several outputs: the norm of max_o |g_o - f_o|, bounded by the sum over the
outputs. A jump of the target costs only the volume of the boxes that hold it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from softwright.proof.arithmetic.balls import ball_above, map_balls, precision
from softwright.proof.arithmetic.directed import U, up
from softwright.proof.search.residual import BoxBounds, Residual
from softwright.proof.search.search import BoxTree, Open, Run, SearchState, evaluate_boxes, start_levels


@dataclass
class IntegralResult:
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
    box: tuple[np.ndarray, np.ndarray],
    p: float,
    goal: float | None,
    run: Run,
    *,
    tightness: float = 0.05,
) -> IntegralResult:
    """Bound the L_p norm of the residual by `goal`, or without one to within `tightness` of its lower bound."""
    tree = BoxTree(*box)
    boxes = tree.grid(start_levels(residual))
    volume = float(np.prod(box[1] - box[0])) * (1.0 + 1e-14)
    evaluations = 0
    leaves: list[Leaves] = []
    total, lower = np.inf, 0.0
    finished = interrupted = False
    try:
        while True:
            found = evaluate_boxes(residual, tree, boxes, max(goal or 0.0, 1e-12), run.executor)
            evaluations += len(boxes)
            leaves.append(_contributions(boxes, found, p, volume))
            whole = _joined(leaves)
            total = math.fsum(whole.upper) * (1.0 + 4 * U)
            lower = math.fsum(whole.lower) ** (1 / p) * (1.0 - 1e-12)
            norm = root_up(total, p)
            if run.say is not None:
                run.say(str(SearchState(1.0, lower, norm, len(whole.upper), len(boxes), run.limits.elapsed)))
            finished = norm <= (goal if goal is not None else (1.0 + tightness) * lower)
            hopeless = goal is not None and lower > 1.02 * goal
            if finished or hopeless or run.limits.spent or evaluations > run.limits.boxes:
                leaves = [whole]
                break
            # Halve the boxes that together hold most of what the bound may be too large by.
            excess = np.where(np.isfinite(whole.upper), whole.upper - whole.lower, 0.0)
            order = np.argsort(-np.where(np.isfinite(whole.upper), excess, np.inf))
            gathered = np.cumsum(excess[order])
            enough = int(np.searchsorted(gathered, 0.6 * gathered[-1])) + 1
            count = max(1, enough, int(np.count_nonzero(~np.isfinite(whole.upper))))
            chosen, rest = order[:count], order[count:]
            if tree.is_exhausted(whole.boxes.take(chosen)):
                leaves = [whole]
                break
            leaves = [whole.take(rest)]
            boxes = tree.halve(whole.boxes.take(chosen), np.argmax(whole.split[chosen], axis=1))
    except KeyboardInterrupt:
        interrupted = True
    data, order = tree.preorder()
    if interrupted:
        return IntegralResult(False, data, len(order), evaluations, np.inf, np.inf, 0.0, True)
    rounding = float(leaves[0].rounding.max())
    return IntegralResult(finished, data, len(order), evaluations, root_up(total, p), rounding, lower)


@dataclass
class Leaves:
    """Boxes with their share of the integral: upper and lower bounds, rounding, and where to split."""

    boxes: Open
    upper: np.ndarray
    lower: np.ndarray
    rounding: np.ndarray
    split: np.ndarray

    def take(self, chosen: np.ndarray) -> Leaves:
        arrays = (getattr(self, name)[chosen] for name in ("upper", "lower", "rounding", "split"))
        return Leaves(self.boxes.take(chosen), *arrays)


def _joined(parts: list[Leaves]) -> Leaves:
    boxes = Open(
        *(np.concatenate([getattr(part.boxes, n) for part in parts]) for n in ("nodes", "index", "level", "known"))
    )
    names = ("upper", "lower", "rounding", "split")
    return Leaves(boxes, *(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _contributions(boxes: Open, found: BoxBounds, p: float, volume: float) -> Leaves:
    """Volume times the bounds of the mean of |residual|^p."""
    mean = np.fmin(_powers(found.upper, p), _mean_power(found.mean_square, found.upper, p))
    size = np.ldexp(volume, -boxes.level.sum(axis=1).astype(np.int32))
    away = np.maximum(np.maximum(found.range_low, -found.range_high), 0.0).max(axis=0)  # distance of the range from 0
    lowest = np.maximum(_powers(away, p) * size * (1.0 - 1e-12) - 1e-280, 0.0)
    return Leaves(boxes, up(mean * size), lowest, found.rounding, found.split)


def _mean_power(mean_square: np.ndarray, sup: np.ndarray, p: float) -> np.ndarray:
    """Bounds (B,) of the mean of max_o |r_o|^p from those of the mean squares (m, B)."""
    if p <= 2.0:
        return up(_powers(mean_square, p / 2.0).sum(axis=0))
    return up(_powers(sup, p - 2.0) * mean_square.sum(axis=0))
