"""What the soft walls between cells add to an L_p error (theorems B3 and B4).

Unit frame, spacing h, N cells with the numbers c_j, scores beta (v_j.t - |v_j|^2/2), S = c_j on cell j, g the head. On
an axis a centre k cells away is behind the centre of the cell by beta k h (k h/2 - u), u the offset in the cell. At
distance >= s from the walls all others are behind by beta h s; anywhere, centres that are not neighbours (2 or more
cells away on some axis) are behind by beta h^2. For s <= h and e = (N - 1) e^{-beta h s}, C = max c - min c, J_j = max
|c_i - c_j| over the 3^m - 1 neighbours of cell j:

    off the band (distance >= s from every wall)    |g - S| <= C e
    in the band, a share of at most 2 m s/h of a cell       |g - S| <= J_j + C e

    |g - S|_p^p <= |box| (C e)^p + sum_j |cell| min(1, 2 m s/h) (J_j + C e)^p.                                 (2)

Stored scores are off from these by at most delta, and the cells' walls from the scores' by eta in the unit frame
(`cell_attention.score_error`), so that e^{2 delta} e and s + eta stand there.

beta = log((N - 1)/e)/(h s) with e = eps0/(4 C |box|^{1/p}) and the s that makes the second term (eps0/2)^p or less (s
<= h/4) makes (2) at most eps0, but for delta and eta. The bound is (2) for that beta and the best s of a list.

*eps0.* s is a p-th power, so beta grows like (2 J/eps0)^p, which no float holds for large p. Unless it is given, eps0
is a 40th of C |box|^{1/p}, the norm of the range of the numbers, or the least number above it whose scores float64
resolves: every p >= 1 is built, with the bound that belongs to it. As p grows (2) tends to max J, the least that is
known of the sup norm of g - S.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.ndimage import maximum_filter, minimum_filter

UP = 1.0 + 1e-12
_SHARE = 0.025  # of the range of the numbers: what the walls may add by default
_STEP = 1.02  # between the eps0 that are tried
_LEAST = 1e-300  # stands for powers that underflow


@dataclass(frozen=True)
class Walls:
    """The numbers (N,) of `cells` cells on each of `variables` axes of a box, and the exponent."""

    values: np.ndarray
    cells: int
    variables: int
    volume: float  # of the box, rounded up
    p: float

    @property
    def h(self) -> float:
        return 2.0 / self.cells

    @cached_property
    def range(self) -> float:
        """C."""
        return float(self.values.max() - self.values.min())

    @cached_property
    def jumps(self) -> np.ndarray:
        """J_j (N,): the largest difference to one of the 3^m - 1 neighbours."""
        grid = self.values.reshape((self.cells,) * self.variables)
        top = maximum_filter(grid, size=3, mode="nearest")
        bottom = minimum_filter(grid, size=3, mode="nearest")
        return np.maximum(top - grid, grid - bottom).ravel()

    def _powers(self, added: float) -> tuple[float, float]:
        """(scale, total): sum (J_j + added)^p = scale^p total at most, so that no power leaves the floats.

        The scale is a power of two, which costs no rounding, while powers of 1/2 are floats, and the largest number
        beyond. What underflows counts as 1e-300.
        """
        numbers = self.jumps + added
        largest = float(numbers.max())
        scale = largest if self.p > 500 else 2.0 ** math.ceil(math.log2(largest))
        with np.errstate(under="ignore"):
            return scale, float(((numbers / scale) ** self.p).sum()) + _LEAST * len(numbers)

    def error(self, beta: float, s: float, delta: float, eta: float) -> float:
        """(2), rounded up."""
        N, C = len(self.values), self.range
        if C == 0.0:
            return 0.0
        e = min((N - 1) * math.exp(2.0 * delta - beta * self.h * s), 1.0) if s > 0 else 1.0
        band = min(1.0, 2.0 * self.variables * (s + eta) / self.h)
        scale, total = self._powers(C * e)
        total = total / N * band + (C * e / scale) ** self.p + _LEAST
        return scale * (self.volume * total) ** (1.0 / self.p) * UP

    def band(self, beta: float, delta: float, eta: float) -> float:
        """The s <= h/4 with the least bound (2), of a list."""
        tried = np.append(np.geomspace(1.0, 2000.0, 40) / (beta * self.h), 0.25 * self.h)
        return min(map(float, tried[tried <= 0.25 * self.h]), key=lambda s: self.error(beta, s, delta, eta))

    def beta(self, eps0: float) -> float:
        """What makes (2) at most eps0, infinite beyond floats; 8/(3 m h^2) if all numbers are equal."""
        h, N, C, p = self.h, len(self.values), self.range, self.p
        if C == 0.0 or N == 1:
            return 8.0 / (3.0 * self.variables * h * h)
        e = min(eps0 / (4.0 * C * self.volume ** (1.0 / p)), 0.5)
        scale, total = self._powers(C * e)
        weight = self.volume / N * total * 2.0 * self.variables / h  # the second term of (2) is scale^p weight s
        # Above e^700 the power leaves the floats, and s is h/4 all the same.
        power = (0.5 * eps0 / scale) ** p if p * math.log(0.5 * eps0 / scale) < 700.0 else math.inf
        s = min(0.25 * h, power / weight)
        return math.log((N - 1) / e) / (h * s) * UP if s > 1e-290 else math.inf

    def eps0(self, most_beta: float) -> tuple[float, float]:
        """(eps0, wanted): wanted is a 40th of C |box|^(1/p), eps0 the least from there with beta <= `most_beta`."""
        if self.range == 0.0:
            return 0.05, 0.05
        wanted = float(f"{_SHARE * self.range * self.volume ** (1.0 / self.p):.3g}")
        few, enough = -1, 0
        while not self.beta(wanted * _STEP**enough) <= most_beta and enough < 2000:
            few, enough = enough, 2 * enough + 1
        while enough - few > 1:
            middle = (few + enough) // 2
            few, enough = (few, middle) if self.beta(wanted * _STEP**middle) <= most_beta else (middle, enough)
        found = wanted * _STEP**enough
        digits = float(f"{found:.3g}")
        return (digits if digits >= found else float(f"{found * 1.005:.3g}")), wanted
