"""The residual g - f on boxes: everything the search asks of a problem, in one picklable object.

For every box: an upper bound of |g - f| over it (largest over the outputs), a lower bound of |g - f| at its centre, a
bound of |fl(g) - g| over it, and hints where to split. Upper and lower bounds are rigorous; hints are not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from softwright.proof.arithmetic.directed import gamma, up
from softwright.proof.arithmetic.rounding import rounded_once, sum_error
from softwright.proof.arithmetic.series import basis
from softwright.proof.arithmetic.taylor_model import TaylorModel, constant
from softwright.proof.models.grid_head import by_axes, head_on_boxes
from softwright.proof.models.head_moments import ExactHead
from softwright.proof.models.targets import TargetModels
from softwright.proof.models.taylor_head import HeadOnBoxes
from softwright.work import count

_NOISY = 0.02  # share of the wanted accuracy that float64 noise may take before ball arithmetic is used
# Nominal nanoseconds (`work.py`): of one call; of two coefficients of a box multiplied; of a token at a coefficient,
# of each box and of each group; of a model in ball arithmetic.
_ROUND, _TERM, _SHARED, _OWN, _IN_BALLS = 5_000_000, 8.0, 2.0, 5.0, 3_000_000
_AXES, _CONTRACTED = 1_000_000, 8.0  # of a call for a grid head by its axes, and for each box and coefficient of it
_BATCH, _ENTRIES = 1024, 400_000  # boxes bounded at once, and coefficients of all of them: what a cache holds
ORDERS = {1: 12, 2: 10, 3: 8, 4: 6, 5: 5, 6: 4, 7: 4, 8: 4}
_GRID_ORDERS = {4: 8, 5: 8, 6: 6}  # where all heads are grids, whose models cost little


def order_for(heads: Sequence[ExactHead], dim: int) -> int:
    """The degree of the models unless one is asked for; beyond the variables of `ORDERS` there are no boxes."""
    grids = bool(heads) and all(by_axes(head, dim) for head in heads)
    usual = ORDERS.get(dim, 1)
    return _GRID_ORDERS.get(dim, usual) if grids else usual


LEAST_SHARE = 0.05  # of the rounding part: no exact part is stated below it, nor is one searched for


@dataclass
class BoxBounds:
    """Results for B boxes."""

    upper: np.ndarray  # (B,) sup |g - f| <= upper, over outputs too
    lower: np.ndarray  # (B,) |g - f| >= lower at the centre
    rounding: np.ndarray  # (B,) |fl(g) - g| <= rounding
    rounding_center: np.ndarray  # (B,) estimate at the centre
    split: np.ndarray  # (B, d) how much each variable contributes
    range_low: np.ndarray  # (m, B) g - f >= range_low
    range_high: np.ndarray  # (m, B)
    mean_square: np.ndarray  # (m, B) mean of (g - f)^2 over the box; infinite unless it was asked for

    def exact_goal(self) -> float:
        """Of bounds at points: the smallest exact part worth a search. Beside the rounding a smaller one is no gain,
        and below what the models leave open even at points there is none to find."""
        left_open = float(np.max(self.upper - self.lower))
        share = LEAST_SHARE * float(np.max(self.rounding))
        return max(share, 2.0 * left_open if math.isfinite(left_open) else 0.0, 1e-300)

    def take(self, chosen: np.ndarray) -> BoxBounds:
        return BoxBounds(
            self.upper[chosen],
            self.lower[chosen],
            self.rounding[chosen],
            self.rounding_center[chosen],
            self.split[chosen],
            self.range_low[:, chosen],
            self.range_high[:, chosen],
            self.mean_square[:, chosen],
        )


def concatenate(parts: Sequence[BoxBounds]) -> BoxBounds:
    if len(parts) == 1:
        return parts[0]

    def joined(name: str, axis: int = 0) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in parts], axis=axis)

    names = ("upper", "lower", "rounding", "rounding_center", "split")
    return BoxBounds(
        *(joined(name) for name in names), *(joined(n, 1) for n in ("range_low", "range_high", "mean_square"))
    )


@dataclass(frozen=True)
class Residual:
    """g - f with g a sum of heads (possibly none) and f the target; `constant` (m,) is taken off the difference."""

    heads: tuple[ExactHead, ...]
    target: TargetModels
    dim: int
    outputs: int
    order: int
    constant: np.ndarray
    escalate: bool = True
    with_mean_square: bool = False
    summed_heads: int = 0  # heads that the run network adds up, if more than `heads` (a part of an additive problem)

    def cost(self, boxes: int, groups: int) -> float:
        """Nominal nanoseconds of bounds on so many boxes in so many groups, which share moments."""
        size = basis(self.dim, self.order).size
        grids = [head for head in self.heads if by_axes(head, self.dim)]
        tokens = sum(len(head.keys) for head in self.heads if not by_axes(head, self.dim))
        axes = sum(_AXES + boxes * _CONTRACTED * size * max(head.grid.sizes) for head in grids if head.grid)
        return _ROUND + axes + boxes * size * (_TERM * size + _SHARED * tokens) + groups * _OWN * tokens * size

    @property
    def at_once(self) -> int:
        """How many boxes are best bounded together."""
        return min(_BATCH, max(128, _ENTRIES // basis(self.dim, self.order).size))

    def with_constant(self, constant: np.ndarray) -> Residual:
        return replace(self, constant=np.asarray(constant, dtype=float))

    def bounds(
        self, centers: np.ndarray, radii: np.ndarray, groups: Sequence[np.ndarray], accuracy: float
    ) -> BoxBounds:
        """Bounds on boxes centers (B, d) +- radii (B, d); the boxes of one group are neighbours of equal radius."""
        with np.errstate(all="ignore"):
            return self._bounds(centers, radii, groups, accuracy)

    def _bounds(
        self, centers: np.ndarray, radii: np.ndarray, groups: Sequence[np.ndarray], accuracy: float
    ) -> BoxBounds:
        shape = basis(self.dim, self.order)
        B, m = len(centers), self.outputs
        # Network and target must be expanded in the same s: boxes of a group get one radius, the largest of theirs.
        radii = radii.copy()
        for group in groups:
            radii[group] = radii[group].max(axis=0)
        targets = self.target(shape, centers, radii)
        share = accuracy / max(1, len(self.heads))
        per_head = [head_on_boxes(head, shape, centers, radii, groups, accuracy=share) for head in self.heads]
        noise = sum((np.max(h.noise, axis=0) for h in per_head), np.zeros(B))
        network = [self._network([h.models[o] for h in per_head], targets[o]) for o in range(m)]
        if self.escalate and self.heads:
            rough = [n.coefficients[0] - f.coefficients[0] for n, f in zip(network, targets, strict=True)]
            center = np.max(np.abs(rough), axis=0)
            open_sign = (center + noise > accuracy) & (center - noise <= accuracy) & (noise > 1e-4 * accuracy)
            for i in np.flatnonzero(((noise > _NOISY * accuracy) | open_sign) & np.isfinite(noise)):
                self._escalate(int(i), centers[i], radii[i], share, network)
        residuals = [self._difference(network[o], targets[o], o) for o in range(m)]
        return self._collect(residuals, per_head, radii, network)

    def _network(self, models: Sequence[TaylorModel], like: TaylorModel) -> TaylorModel:
        """The sum of the heads' models of one output."""
        total = constant(like.shape, np.zeros(like.boxes))
        for n, model in enumerate(models):
            total = total + model if n else model.copy()
        return total

    def _difference(self, network: TaylorModel, target: TaylorModel, output: int) -> TaylorModel:
        gap = network - target
        return gap if self.constant[output] == 0.0 else gap.plus(-self.constant[output])

    def _escalate(
        self, box: int, center: np.ndarray, radius: np.ndarray, share: float, network: list[TaylorModel]
    ) -> None:
        """Replace the network's models on one box by those of ball arithmetic where they are sharper."""
        from softwright.proof.models.flint_models import network_models_in_balls

        count(_IN_BALLS)
        found = network_models_in_balls(self.heads, basis(self.dim, self.order), center, radius, share)
        for model, (coefficients, remainder) in zip(network, found, strict=True):
            if remainder < model.remainder[box] or not np.isfinite(model.remainder[box]):
                model.coefficients[:, box] = coefficients
                model.remainder[box] = remainder

    def _collect(
        self, residuals: list[TaylorModel], per_head: list[HeadOnBoxes], radii: np.ndarray, network: list[TaylorModel]
    ) -> BoxBounds:
        B, d = radii.shape
        m = self.outputs
        lows, highs = np.empty((m, B)), np.empty((m, B))
        squares = np.full((m, B), np.inf)
        lower = np.zeros(B)
        split = np.zeros((B, d))
        unknown = np.zeros(B)
        uses = basis(d, self.order).uses
        for o, model in enumerate(residuals):
            lows[o], highs[o] = model.range()
            if self.with_mean_square:
                squares[o] = mean_square(model)
            # centre value: exact value lies within the remainder of the constant coefficient
            at_center = np.nextafter(np.abs(model.coefficients[0]) - model.remainder, -np.inf)
            lower = np.fmax(lower, np.nan_to_num(at_center, nan=0.0, posinf=0.0, neginf=0.0))
            sizes = np.nan_to_num(np.abs(model.coefficients), nan=0.0, posinf=1e300)
            split += np.stack([sizes[uses[:, i]].sum(axis=0) for i in range(d)], axis=1)
            unknown += np.nan_to_num(model.remainder, nan=1e300, posinf=1e300)
        pull = sum((h.pull for h in per_head), np.zeros((B, d))) + 1e-3 * radii / radii.max(axis=1, keepdims=True)
        pull = np.nan_to_num(pull, nan=1.0, posinf=1e300)
        split = split + unknown[:, None] * (pull / pull.sum(axis=1, keepdims=True))
        upper = np.max(np.maximum(np.abs(lows), np.abs(highs)), axis=0)
        rounding, rounding_center = np.zeros((m, B)), np.zeros((m, B))
        for h in per_head:
            rounding = rounding + h.rounding
            rounding_center = rounding_center + np.nan_to_num(h.rounding_center, nan=np.inf)
        if per_head:
            sizes = sum((h.size for h in per_head), np.zeros((m, B)))
            rounding = up(
                rounding + sum_error(self.heads[0].engine, max(self.summed_heads, len(per_head)), sizes + rounding),
                len(per_head) + 4,
            )
            rounding, rounding_center = self._rounded_once(rounding, rounding_center, network)
        worst = np.max(rounding, axis=0)
        return BoxBounds(
            np.where(np.isnan(upper), np.inf, upper),
            lower,
            np.where(np.isnan(worst), np.inf, worst),
            np.max(rounding_center, axis=0),
            split,
            lows,
            highs,
            squares,
        )

    def _rounded_once(
        self, rounding: np.ndarray, rounding_center: np.ndarray, network: list[TaylorModel]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Both with the rounding of the whole sum at the end, if the engine has one. Parts of an additive problem each
        round their own sums here: together that is no less."""
        engine = self.heads[0].engine
        if not engine.arithmetic.rounded:
            return rounding, rounding_center
        sizes = np.stack([up(np.max(np.abs(model.range()), axis=0)) for model in network])
        centers = np.stack([np.abs(model.coefficients[0]) for model in network])
        return rounded_once(engine, sizes, rounding), rounded_once(engine, centers, rounding_center)


@lru_cache(maxsize=16)
def _gram(dim: int, order: int) -> np.ndarray:
    """Means of s^(alpha + beta) over [-1, 1]^d: 1/(n + 1) for every even exponent n, zero if one is odd."""
    exponents = basis(dim, order).exponents
    total = exponents[:, None, :] + exponents[None, :, :]  # (M, M, d)
    return np.where(np.all(total % 2 == 0, axis=2), 1.0 / np.prod(total + 1.0, axis=2), 0.0)


def mean_square(model: TaylorModel) -> np.ndarray:
    """An upper bound (B,) of the mean of phi^2 over each box: (sqrt(mean of the polynomial's square) + R)^2."""
    shape = model.shape
    gram = _gram(shape.dim, shape.order)
    c, size = model.coefficients, np.abs(model.coefficients)
    mean = (c * (gram @ c)).sum(axis=0)
    slack = gamma(2 * shape.size + shape.dim + 8) * (size * (gram @ size)).sum(axis=0)
    root = np.sqrt(up(np.maximum(mean, 0.0) + slack, 2 * shape.size))
    total = up((root + model.remainder) ** 2)
    return np.where(np.isnan(total), np.inf, total)
