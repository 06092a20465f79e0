"""Whether everything that a network computes on a domain stays a number: the demand that every bound makes first.

An infinity on the way makes the result infinite, or NaN where it meets a zero or another infinity; no bound speaks of
that. What the engines compute, with |x - center| <= a and |t| <= r = a * scale on the domain:

    the frame     x, x - center, t, in variables that no head looks at too (0 * inf is NaN)
    scores        |k|.|t| + |b|, differences of two of them (|b| counts the grid's corner for the factorised engine)
    sums          of values with weights of at most 1, before they are divided: sum_j |v_j| + |G_j| (1 + |t|)
    the outputs   of all heads together

Rounding adds less than a factor 2 to each (a computed weight is the exp of a computed score minus the largest computed
one, so it is at most 1 + exp_error, whatever the scores' errors). A factor 16 is left free. The proof itself computes
in float64: where t, scores or sums pass 1e200 its products could leave it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from softwright.domain import Box
from softwright.proof.models.head_moments import ExactHead

_ROOM = 16.0
_PROVABLE = 1e200


def largest_numbers(heads: Sequence[ExactHead], domain: Box) -> tuple[float, float]:
    """The largest modulus of an input (measured from its centre, too), and of any other number that running these heads
    on the domain can need, but for a factor of 2."""
    ends = np.maximum(np.abs(domain.lower), np.abs(domain.upper))  # (d,)
    inputs, others, outputs = [ends.max()], [0.0], 0.0
    with np.errstate(all="ignore"):  # what leaves float64 here is infinite or NaN, and neither is small enough
        for head in heads:
            away = np.maximum(np.abs(domain.lower - head.center), np.abs(domain.upper - head.center))  # (d,)
            reach = away * head.scale
            scores = np.abs(head.keys) @ reach + head.bias_size
            sizes = np.abs(head.values)  # (N, m)
            if head.slopes is not None:
                sizes = sizes + np.abs(head.slopes) @ (1.0 + reach)
            outputs += float(sizes.sum(axis=0).max())
            inputs += [np.abs(head.center).max(), away.max()]
            others += [reach.max(), 2.0 * scores.max(), outputs]
    return float(np.max(inputs)), float(np.max(others))


def stays_finite(heads: Sequence[ExactHead], domain: Box) -> bool:
    """Whether no number of the run overflows, nor any of its proof."""
    limit = min(head.engine.arithmetic.largest for head in heads) / _ROOM
    inputs, others = largest_numbers(heads, domain)
    return inputs < limit and others < min(limit, _PROVABLE)
