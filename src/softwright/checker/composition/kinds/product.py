"""Products: z u by H gates with scores a_q (u - c) and factors g_q; the feature is its column plus (c - sum g_q/2) z.

**Lemma.** For |u - c| <= V with a = max |a_q| V < pi,

    |z (u - c) - sum_q g_q (sigma(a_q (u - c)) - 1/2) z|  <=  |z| (|1 - sum_q g_q a_q/4| V + sum_k b_k V^(2k+1)),
    b_k = |t_k|/2 |sum_q g_q (a_q/2)^(2k+1)|,  |t_k| <= 2 (2/pi)^(2k+2) pi^4/96   for k >= 1,

since sigma(s) - 1/2 = tanh(s/2)/2 and tanh y = 8 y sum_{n odd} 1/(n^2 pi^2 + 4 y^2) = sum_k t_k y^(2k+1), t_0 = 1,
whose coefficients are alternating, (-1)^k t_k = 2 (2/pi)^(2k+2) sum_{n odd} n^(-2k-2). Terms from k = TERMS on are at
most those of a geometric series with ratio (a/pi)^2. The numbers a_q and c are read off the rows, and g_q is stored:
nothing is assumed of how they were chosen. A score that is off by rho moves sigma by at most rho/4; a value that is
off by s moves the column by at most s sum |g_q| sigma(a_q (u - c)), and sigma(s) <= 1/2 + |s|/4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from flint import arb, ctx, fmpq

from softwright.checker.composition.intervals import Interval, above
from softwright.checker.composition.kinds.gates import Charge, Run, charged
from softwright.checker.composition.kinds.kind import Array, Flow, Visit, upper_product, upper_sum
from softwright.checker.composition.program import BITS, Feature
from softwright.checker.composition.rows import Columns, Row, scale_of
from softwright.checker.composition.weights import Gate
from softwright.checker.refusal import require

TERMS = 40
WIDEST = 2.5  # of |a_q (u - c)|: below pi


class Product:
    """A product bound to its gates."""

    def __init__(self, feature: Feature, gates: Sequence[Gate], columns: Columns, run: Run) -> None:
        self.feature, precision = feature, run.precision
        score, value = columns.expanded(feature.score), columns.expanded(feature.value)
        slopes = [a for a in (scale_of(score, gate.score) for gate in gates) if a is not None]
        require(len(slopes) == len(gates), f"the gates of {feature.name} do not read its score")
        with ctx.workprec(BITS):
            near = score[0] - arb(float(gates[0].score[0])) / slopes[0]
            room = 4 * precision.unit * (abs(score[0]) + abs(near))
            self.center = arb(simplest(near - room, near + room))
            factors = [arb(gate.factor) for gate in gates]
            shift = self.center - sum(factors, arb(0)) / 2
            self.offset = {column: shift * c for column, c in value.items()}
            self.linear = above(abs(1 - sum((g * a for g, a in zip(factors, slopes, strict=True)), arb(0)) / 4))
            self.slopes = [above(abs(a)) for a in slopes]
            self.steepest = max([1e-300, *self.slopes])
            inner = [a / arb(self.steepest) for a in slopes]  # so that no power leaves the range of floats
            self.series = [self._term(k, factors, inner) for k in range(1, TERMS)]
            self.weight = above(sum(map(abs, factors), arb(0)))
        self.factors = [abs(gate.factor) for gate in gates]
        wanted = [columns.scaled(score, a, self.center) for a in slopes]
        self.scores = [Row.of(exact, gate.score, precision) for exact, gate in zip(wanted, gates, strict=True)]
        self.values = [Row.of(value, gate.value, precision) for gate in gates]
        self.underflow, self.error = run.underflow(gates), run.error(len(gates))

    @staticmethod
    def _term(k: int, factors: list[arb], slopes: list[arb]) -> float:
        size = (2 / arb.pi()) ** (2 * k + 2) * arb.pi() ** 4 / 96  # half of |t_k|, or more
        return above(
            size * abs(sum((g * (a / 2) ** (2 * k + 1) for g, a in zip(factors, slopes, strict=True)), arb(0)))
        )

    def truncation(self, reach: Array) -> Array:
        """The lemma, relative to |z|, for |u - c| <= reach; powers are those of max |a_q| reach."""
        angle = upper_product(reach, self.steepest)
        square, total = upper_product(angle, angle), np.zeros_like(reach)
        for b in reversed(self.series):
            total = upper_sum(upper_product(total, square), np.full_like(reach, b))
        total = upper_product(total, square, angle)
        with ctx.workprec(BITS):
            step = above(arb(self.steepest) / arb.pi())
        ratio = upper_product(reach, step)
        tail = upper_product(self.weight, ratio ** (2 * TERMS + 1), 1.001 / np.maximum(1 - ratio**2, 1e-3))
        return np.where(angle <= WIDEST, upper_sum(total, upper_product(self.linear, reach), tail), np.inf)

    @property
    def is_plain(self) -> bool:
        """Whether the value that is multiplied is a column as it is."""
        return all(row.roundings == 0 and not row.missed.any() for row in self.values)

    def relative(self, flow: Flow) -> tuple[Array, Array]:
        """For a square of one column z: its error relative to |z|, but for what underflows, and its column's size."""
        z = flow.range(self.feature.score).widened(flow.error(self.feature.score))
        reach = (z - Interval.ball(self.center, flow.count)).size
        eta, heavy = self.truncation(reach), np.zeros(flow.count)
        for row, a, g in zip(self.scores, self.slopes, self.factors, strict=True):
            rho = charged(row, flow.sizes).all
            share = np.nextafter(0.5 + np.minimum(upper_sum(upper_product(reach, a), rho), 2.0) / 4, np.inf)
            weight = upper_product(g, share)
            heavy = upper_sum(heavy, weight)
            eta = upper_sum(
                eta,
                upper_product(g / 4, rho),
                upper_product(self.error[0], weight),
                upper_product(self.error[1], share, weight),
            )
        return eta, upper_sum(heavy, eta)

    def flushed(self, flow: Flow) -> Array:
        """What underflows takes from a square of one column, at most."""
        z = flow.range(self.feature.score).widened(flow.error(self.feature.score))
        return upper_product(self.underflow, upper_sum(np.ones(flow.count), z.size))

    def visit(self, flow: Flow) -> Visit:
        feature, sizes = self.feature, flow.sizes
        u, z = flow.range(feature.score), flow.range(feature.value)
        moved, changed = flow.error(feature.score), flow.error(feature.value)
        u_run, z_run = u.widened(moved), z.widened(changed)
        reach, size = (u_run - Interval.ball(self.center, flow.count)).size, z_run.size
        scores = [charged(row, sizes) for row in self.scores]
        value = _largest([charged(row, sizes) for row in self.values])
        # No sigma and no 1 - sigma of head q is larger than its share.
        shares = [
            np.nextafter(0.5 + np.minimum(upper_sum(upper_product(reach, a), score.all), 2.0) / 4, np.inf)
            for a, score in zip(self.slopes, scores, strict=True)
        ]
        weights = [upper_product(g, share) for g, share in zip(self.factors, shares, strict=True)]
        heavy = upper_sum(*weights)
        rounded = upper_sum(
            upper_product(self.error[0], heavy),
            *(upper_product(self.error[1], share, weight) for share, weight in zip(shares, weights, strict=True)),
        )
        truncated = upper_product(self.truncation(reach), size)
        real, own = (
            upper_sum(
                truncated,
                *(upper_product(g / 4, rho, size) for g, rho in zip(self.factors, rhos, strict=True)),
                upper_product(heavy, off),
            )
            for rhos, off in (
                ([score.real for score in scores], value.real),
                ([score.all for score in scores], value.all),
            )
        )
        read = upper_sum(size, value.all)
        lost = upper_product(self.underflow, upper_sum(np.ones(flow.count), read))
        own = upper_sum(own, upper_product(rounded, read), lost)
        column = upper_sum(upper_product(upper_sum(heavy, rounded), read), lost)
        found = u.square() if feature.is_square else u * z
        partials = (
            [(feature.score, u_run.scaled(2.0))]
            if feature.is_square
            else [
                (feature.score, z_run),
                (feature.value, u_run),
            ]
        )
        return Visit(found, partials, own, real, column, ~np.isfinite(own))


def _largest(charges: list[Charge]) -> Charge:
    return Charge(np.max([charge.real for charge in charges], axis=0), np.max([c.all for c in charges], axis=0))


def simplest(low: arb, high: arb) -> fmpq:
    """The number m 2^-k of the smallest k between two numbers, and of these the one nearest to 0."""
    a, b = low.lower().fmpq(), high.upper().fmpq()
    if a <= 0 <= b:
        return fmpq(0)
    for k in range(-1100, 1100):
        step = fmpq(1, 2**k) if k >= 0 else fmpq(2**-k)
        m = (a / step).ceil() if a > 0 else (b / step).floor()
        if a <= m * step <= b:
            return fmpq(m) * step
    return (a + b) / 2
