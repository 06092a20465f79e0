"""How far apart two softmax means are, without cancellation.

For finite sets A, B of pairs (value v, weight e > 0) let Z_S be the sum of the weights of S, M_S that of v e. The means
M_A/Z_A and M_B/Z_B of sets that share most of their weight agree to thousands of digits, and yet

    M_A/Z_A - M_B/Z_B = (M_A Z_B - M_B Z_A)/(Z_A Z_B),

and with C what they share, A = C + A', B = C + B', the terms of C with C drop out exactly:

    M_A Z_B - M_B Z_A = (M_C Z_B' - M_B' Z_C) - (M_C Z_A' - M_A' Z_C) + (M_A' Z_B' - M_B' Z_A').                     (1)

Each bracket is a sum of (v - w) e f over pairs of different members, of which one outweighs the others where weights
are far apart. So balls of a few hundred bits tell means apart that differ by 10^-10000: exponents of balls are as large
as one likes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flint import arb

ZERO = arb(0)


@dataclass(frozen=True)
class Weighed:
    """Values and positive weights of the members of a whole that sets are taken from."""

    values: Sequence[arb]
    weights: Sequence[arb]

    def sums(self, members: Iterable[int]) -> tuple[arb, arb]:
        """Z and M."""
        mass = moment = ZERO
        for i in members:
            mass += self.weights[i]
            moment += self.weights[i] * self.values[i]
        return mass, moment

    def difference(self, one: frozenset[int], other: frozenset[int]) -> arb:
        """The mean of the first set less that of the second, by (1)."""
        (z, m), (z_one, m_one), (z_other, m_other) = map(self.sums, (one & other, one - other, other - one))
        first, second = m * z_other - m_other * z, m * z_one - m_one * z
        return (first - second + (m_one * z_other - m_other * z_one)) / ((z + z_one) * (z + z_other))


def weighed(values: Sequence[arb], scores: Sequence[arb]) -> Weighed:
    """Weights e^score; common shifts of the scores and of the values change no difference, and keep numbers small."""
    top = max(scores, key=lambda score: score.mid())
    middle = values[0].mid()
    return Weighed([value - middle for value in values], [(score - top.mid()).exp() for score in scores])


def digits(gap: arb) -> arb:
    """-log10 of a positive number."""
    return -(gap.log() / arb.const_log10())
