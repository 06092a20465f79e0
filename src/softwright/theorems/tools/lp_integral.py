"""Rigorous integrals of |r|^p over a box, r known only by ranges: adaptive, enclosed from both sides.

If r lies in [low, high] on a box B of volume |B|, then with a = max(low, -high, 0) and A = max(|low|, |high|)

    |B| a^p  <=  integral over B of |r|^p  <=  |B| A^p,

and both sums are kept over all boxes. The boxes with the largest difference are halved (across the side that is
longest in the unit frame) until the p-th roots agree to the tolerance asked for or the boxes run out. A jump of r
costs only the volume of the boxes that hold it.

*A singularity* |f| <= C x^{-alpha} at the lower end of one variable is integrated in closed form on the boxes [0, b]
that touch it: with |r| <= |f| + M there, Minkowski's inequality gives

    integral |r|^p <= ( C (b^{1 - alpha p}/(1 - alpha p))^{1/p} + M b^{1/p} )^p,    if alpha p < 1, i.e. f in L_p.

Powers are taken of r over a scale, the largest |r| of the first boxes, and volumes are shares of the whole one, so that
no exponent leaves the floats; what underflows counts as 1e-300. Every sum is rounded outward: the factors 1 +- 1e-12
below cover far more roundings than are made, those of a scale and of p-th powers after the p-th root.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_OUT = 1e-12

# boxes (n, d), (n, d) -> the least and the largest value of r on each: (n,), (n,); infinite if unknown
Ranges = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Singularity:
    """|f(x)| <= size * (x - at)^(-exponent) for x beside `at`, the lower end of the only variable."""

    at: float
    exponent: float
    size: float = 1.0

    def integrable(self, p: float) -> bool:
        return self.exponent * p < 1.0

    def most(self, upper: np.ndarray, others: float, p: float) -> np.ndarray:
        """Upper bounds of the norm of r over [at, upper], |r| <= |f| + others."""
        b = (upper - self.at) * (1.0 + _OUT)
        power = 1.0 - self.exponent * p
        with np.errstate(divide="ignore"):
            f_part = self.size * (b**power / power) ** (1.0 / p)
        return (f_part + others * b ** (1.0 / p)) * (1.0 + _OUT)


@dataclass(frozen=True)
class Enclosed:
    """lower <= L_p norm <= upper, with the boxes it took."""

    lower: float
    upper: float
    boxes: int

    @property
    def midpoint(self) -> float:
        return 0.5 * (self.lower + self.upper)


def enclose_norm(
    ranges: Ranges,
    lower: np.ndarray,
    upper: np.ndarray,
    p: float,
    *,
    singularity: Singularity | None = None,
    others: float = 0.0,
    tolerance: float = 0.02,
    absolute: float = 0.0,
    most_boxes: int = 150_000,
) -> Enclosed:
    """(integral of |r|^p)^(1/p) over the union of the boxes [lower, upper] (n, d), enclosed.

    `tolerance` is the relative width aimed at, `absolute` one that is narrow enough; `others` bounds |r - f| where f
    is singular.
    """
    low, high = np.array(lower, dtype=float), np.array(upper, dtype=float)
    sides = (high.max(axis=0) - low.min(axis=0)).clip(1e-300)
    whole = math.fsum(np.prod(high - low, axis=1))
    shares = _Shares(ranges, p, singularity, others, whole, _scale(ranges, low, high, p))
    least, most = shares(low, high)
    unit = shares.scale * whole ** (1.0 / p)
    while True:
        total_least = math.fsum(least) * (1.0 - _OUT)
        total_most = math.fsum(most) * (1.0 + _OUT)
        root_least = max(total_least, 0.0) ** (1.0 / p) * (1.0 - _OUT) * unit
        root_most = total_most ** (1.0 / p) * (1.0 + _OUT) * unit
        if root_most - root_least <= max(tolerance * root_most, absolute) or len(low) >= most_boxes:
            return Enclosed(root_least, root_most, len(low))
        excess = np.where(np.isfinite(most), most - least, np.inf)
        order = np.argsort(-excess, kind="stable")
        finite = np.where(np.isfinite(excess), excess, 0.0)[order]
        gathered = np.cumsum(finite)
        enough = int(np.searchsorted(gathered, 0.7 * gathered[-1])) + 1
        count = min(max(enough, int(np.isinf(excess).sum()), len(low) // 50 + 1), most_boxes - len(low) + 1, len(low))
        chosen, rest = order[:count], order[count:]
        axis = np.argmax((high[chosen] - low[chosen]) / sides, axis=1)
        rows = np.arange(count)
        middle = 0.5 * (low[chosen, axis] + high[chosen, axis])
        left_high, right_low = high[chosen].copy(), low[chosen].copy()
        left_high[rows, axis], right_low[rows, axis] = middle, middle
        new_low, new_high = np.concatenate([low[chosen], right_low]), np.concatenate([left_high, high[chosen]])
        new_least, new_most = shares(new_low, new_high)
        low, high = np.concatenate([low[rest], new_low]), np.concatenate([high[rest], new_high])
        least, most = np.concatenate([least[rest], new_least]), np.concatenate([most[rest], new_most])


def _scale(ranges: Ranges, low: np.ndarray, high: np.ndarray, p: float) -> float:
    """The largest |r| that is known of the boxes: a power of two above it while powers of 1/2 are floats."""
    r_low, r_high = ranges(low, high)
    sizes = np.maximum(np.abs(r_low), np.abs(r_high))
    largest = float(sizes[np.isfinite(sizes) & (sizes < 1e300)].max(initial=0.0))
    if largest < 1e-300:
        return 1.0
    return largest if p > 500 else 2.0 ** math.ceil(math.log2(largest))


@dataclass(frozen=True)
class _Shares:
    """What boxes contribute to the integral of |r/scale|^p, at least and at most, as shares of the whole volume."""

    ranges: Ranges
    p: float
    singularity: Singularity | None
    others: float
    whole: float
    scale: float

    def __call__(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p, singularity = self.p, self.singularity
        volume = np.prod(high - low, axis=1) / self.whole
        r_low, r_high = self.ranges(low, high)
        away = np.maximum(np.maximum(r_low, -r_high), 0.0)
        size = np.maximum(np.abs(r_low), np.abs(r_high))
        unknown = ~(np.isfinite(r_low) & np.isfinite(r_high))
        away = np.where(unknown, 0.0, away)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            least = volume * (away / self.scale) ** p * (1.0 - _OUT)
            power = volume * (size / self.scale) ** p * (1.0 + _OUT) + np.where(size > 0.0, 1e-300, 0.0)
            most = np.where(unknown, np.inf, power)
        if singularity is not None:
            touching = low[:, 0] <= singularity.at
            if touching.any():
                norm = singularity.most(high[touching, 0], self.others, p) / (self.scale * self.whole ** (1.0 / p))
                most[touching] = np.minimum(most[touching], norm**p * (1.0 + _OUT) + 1e-300)
        return least, most
