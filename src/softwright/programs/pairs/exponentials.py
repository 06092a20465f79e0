"""Exponential sums: F(u) on [low, high] as sum_r c_r e^(-|b_r| d_r(u)), d_r = u - low for b_r >= 0, else high - u.

*Fit.* The rates b_r are geometric (for kernels that fall off, and for roots) or equally spaced on both sides (for
others). Factors are a least-squares solution, reweighted towards the smallest largest error; what errors of u and of
weights will cost, |c_r| (|b_r| off + unit), is part of what is minimised, so factors stay small.

*Proof.* The difference of sum and function is a formula of v = u - low; Taylor models enclose it on boxes that shrink
towards low, where roots and the fastest rates are. Boxes that do not show it are halved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from softwright.programs.reals.functions import Expression, Node, Variable, above, number, of, put
from softwright.proof.models.formula import ExpressionModels

_STEPS = (1.0, 0.8, 0.7, 0.6, 0.5, 0.4, 0.35, 0.3, 0.25)  # of log b
_MOST_BOXES, _DEGREE = 40_000, 6
_ROOM = 1.25  # what is proved over what a sample shows


@dataclass(frozen=True)
class ExponentialSum:
    """`exact` bounds |F(u) - sum| on [low, high], once it is proved; `seen` is a sample's largest error."""

    low: Fraction
    high: Fraction
    rates: tuple[float, ...]
    factors: tuple[float, ...]
    seen: float
    exact: float = 0.0


def _short(x: np.ndarray) -> np.ndarray:
    """The nearest floats of 16 binary digits: their small multiples are exact."""
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.round(mantissa * 2**16) / 2**16, exponent)


def _families(width: float, steepest: float) -> Iterator[np.ndarray]:
    """Rates to be tried, few of them first."""
    for step in _STEPS:
        rates = np.exp(np.arange(np.log(0.1 / width), np.log(steepest) + step, step))
        yield np.concatenate([[0.0], _short(rates)])
        if step == _STEPS[2]:
            for by in (0.5, 1.0, 2.0):
                for count in (4, 6, 8, 10):
                    side = _short(by / width * np.arange(1, count + 1))
                    yield np.concatenate([[0.0], side, -side])


def _basis(rates: np.ndarray, u: np.ndarray, width: float) -> np.ndarray:
    return np.exp(-np.abs(rates) * np.where(rates >= 0, u[:, None], width - u[:, None]))


def _solved(
    values: Expression, low: float, width: float, rates: np.ndarray, off: float, unit: float, rounds: int
) -> tuple[float, float, np.ndarray]:
    """What it will cost for each unit of value, the sample's largest error, and the factors."""
    fastest = max(float(np.abs(rates).max()), 1.0 / width)
    t = np.concatenate([[0.0], np.geomspace(0.02 / np.sqrt(fastest), np.sqrt(width), 30 * len(rates) + 200)])
    u = np.minimum(t * t, width)
    basis, wanted = _basis(rates, u, width), np.asarray(values((low + u)[:, None])).reshape(-1)
    weights, cost = np.ones(len(u)), np.abs(rates) * off + unit
    best: tuple[float, float, np.ndarray] | None = None
    for _ in range(rounds):
        ridge = np.diag(cost) * np.sqrt(0.1 * (weights @ weights))
        left = np.vstack([basis * weights[:, None], ridge])
        right = np.concatenate([wanted * weights, np.zeros(len(rates))])
        factors = np.linalg.lstsq(left, right, rcond=1e-15)[0]
        errors = np.abs(basis @ factors - wanted)
        largest = float(errors.max())
        total = largest + float(np.abs(factors) @ cost)
        if best is None or total < best[0]:
            best = total, largest, factors
        weights = weights * np.sqrt(0.3 + errors / max(largest, 1e-300))
        weights /= weights.max()
    if best is None:
        raise AssertionError("at least one round was run")
    return best


def _steepest(values: Expression, low: float, width: float, off: float, unit: float, wanted: float) -> float:
    """The largest rate worth having: beyond it the error falls no more."""
    rate, best, found = 3.0 / width, np.inf, 3.0 / width
    for _ in range(28):
        rates = np.concatenate([[0.0], np.exp(np.arange(np.log(0.1 / width), np.log(rate) + 0.5, 0.5))])
        total, _, _ = _solved(values, low, width, rates, off, unit, 2)
        if total < 0.8 * best:
            best, found = total, rate
        elif rate > 1e3 * found or best <= 0.5 * wanted:
            break
        rate *= 3.0
    return found


def fit_sum(node: Node, low: Fraction, high: Fraction, off: float, unit: float, wanted: float) -> ExponentialSum | None:
    """A sum that errs by at most `wanted`, errors of u (`off`) and weights (`unit`) included; else the best found."""
    values = Expression.from_nodes([node], ("u",))
    start, width = float(low), float(high - low)
    if width <= 0:
        return None
    best: tuple[float, float, np.ndarray, np.ndarray] | None = None
    with np.errstate(all="ignore"):
        for rates in _families(width, _steepest(values, start, width, off, unit, wanted)):
            total, seen, factors = _solved(values, start, width, rates, off, unit, 20)
            if np.isfinite(total) and (best is None or total < best[0]):
                best = total, seen, rates, factors
            if total * _ROOM <= wanted:
                break
    if best is None:
        return None
    _, seen, rates, factors = best
    kept = np.abs(factors) > 0
    return ExponentialSum(low, high, tuple(rates[kept].tolist()), tuple(factors[kept].tolist()), seen)


def proved(node: Node, found: ExponentialSum, wanted: float) -> ExponentialSum | None:
    """The same with a proved `exact`; None if it is not proved at moderate cost."""
    for room in (_ROOM, 2.0, 4.0):
        target = max(room * found.seen, 0.25 * wanted)
        if sum_is_within(node, found, target):
            return replace(found, exact=target)
    return None


def sum_is_within(node: Node, found: ExponentialSum, target: float) -> bool:
    """Whether |F - sum| <= target is shown on all boxes."""
    width = above(found.high - found.low)
    models = ExpressionModels(Expression.from_nodes([_difference(node, found)], ("v",)))
    edges = np.concatenate([[0.0], np.geomspace(1e-16 * width, width, 200)])
    edges[-1] = width
    left, right, seen = edges[:-1], edges[1:], 0
    with np.errstate(all="ignore"):
        while left.size:
            seen += left.size
            if seen > _MOST_BOXES:
                return False
            lower, upper = models.over(left, right, _DEGREE)
            open_ = ~((lower >= -target) & (upper <= target))
            left, right = left[open_], right[open_]
            middle = np.where(left > 0, np.sqrt(left) * np.sqrt(right), 0.25 * right)
            if not bool(((middle > left) & (middle < right)).all()):
                return False
            left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
    return True


def _difference(node: Node, found: ExponentialSum) -> Node:
    """The sum less the function, by v = u - low."""
    v, width = Variable("v"), found.high - found.low
    total = of("neg", put(node, of("add", v, number(found.low))))
    for rate, factor in zip(found.rates, found.factors, strict=True):
        away = v if rate >= 0 else of("sub", number(width), v)
        power = of("mul", number(-abs(Fraction(rate))), away)
        total = of("add", total, of("mul", number(Fraction(factor)), of("exp", power)))
    return total
