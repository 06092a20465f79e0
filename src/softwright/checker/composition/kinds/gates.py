"""Gates: heads of two tokens, the data token with score a and value z, the null token with score 0 and value 0.

What runs is g w z with a weight w near sigma(a) = 1/(1 + e^-a).

**Rounding.** The larger of the scores a and 0 is one of them, so the differences are exact. Each exponential errs
relatively by at most e; where the tokens stand in several blocks of keys, R rescalings multiply it by as many more
exponentials: (1 + e)^(R+1) (1 + u)^R = 1 + eta. The ratio r = w_null/w_data becomes r (1 + d_0)/(1 + d_1) with moduli
at most eta, so the weight is sigma(a)(1 + theta), |theta| <= 2 eta (1 + eta)/(1 - eta)^2 (1 - sigma(a)). Adding up the
weights, the weighted value, a quotient or a reciprocal and a product, the factor g and the sum over H heads of a
column round 4 + H times, once more at each rescaling. Tokens that are hidden have value 0 and weights below exp_floor,
T of them: they add to the denominator. What underflows: exp_floor in an exponential, the smallest normal number in
each product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import arb, ctx

from softwright.checker.composition.intervals import above
from softwright.checker.composition.program import BITS
from softwright.checker.composition.rows import Row
from softwright.checker.composition.weights import Gate
from softwright.checker.head import KEY_BLOCK
from softwright.checker.precision import Precision


def sigma(x: arb) -> arb:
    return 1 / (1 + (-x).exp())


@dataclass(frozen=True)
class Run:
    """The type that runs, how many fixed tokens there are, and the gap round jumps that the claim leaves out."""

    precision: Precision
    fixed: int
    gap: float = 0.0

    @property
    def rescalings(self) -> int:
        return self.fixed // KEY_BLOCK

    def error(self, heads: int) -> tuple[float, float]:
        """(a, b): g w z errs by at most a + b (1 - sigma) relative to |g| sigma |z|, for weights of at least sigma."""
        R = self.rescalings
        with ctx.workprec(BITS):
            e, u, hidden = arb(self.precision.exp_error), arb(self.precision.unit), arb(self.precision.exp_floor)
            eta = (1 + e) ** (R + 1) * (1 + u) ** R - 1
            theta, rest = 2 * eta * (1 + eta) / (1 - eta) ** 2, (1 + u) ** (4 + heads + R)
            return above((1 + 2 * self.fixed * hidden) * rest - 1), above(theta * rest)

    def underflow(self, gates: Sequence[Gate]) -> float:
        """Times 1 + |z|: what all heads of a column may lose to it."""
        with ctx.workprec(BITS):
            factors = sum((1 + abs(arb(gate.factor)) for gate in gates), arb(0))
            return above(16 * (1 + self.rescalings) * arb(self.precision.exp_floor) * factors)


@dataclass(frozen=True)
class Charge:
    """What a row costs on each box: in real arithmetic, and in all."""

    real: np.ndarray
    all: np.ndarray


def charged(row: Row, sizes: np.ndarray) -> Charge:
    lost = row.lost(sizes)
    return Charge(lost, np.nextafter(lost + row.rounded(sizes), np.inf))
