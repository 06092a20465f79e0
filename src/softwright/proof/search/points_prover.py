"""Tables: a proved error at every point of the table. What lies between the points is not part of the statement.

At a point x_i a Taylor model of radius zero encloses the exact network, and the rounding bound holds as on any box. For
a float32 network the table's points are rounded to float32 first, as they are when the network is run on them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softwright.proof.arithmetic.directed import up
from softwright.proof.arithmetic.rounding import rounded_once, sum_error
from softwright.proof.arithmetic.series import basis
from softwright.proof.models.grid_head import head_on_boxes
from softwright.proof.models.head_moments import ExactHead

_BATCH = 2048
_GROUP = 32


@dataclass
class PointErrors:
    upper: np.ndarray  # (n,) |g - y| <= upper
    lower: np.ndarray  # (n,) |g - y| >= lower
    rounding: np.ndarray  # (n,)


def point_errors(heads: tuple[ExactHead, ...], points: np.ndarray, values: np.ndarray, accuracy: float) -> PointErrors:
    """Bounds of the error at points (n, d) with values (n, m)."""
    n, d = points.shape
    shape = basis(d, 1)
    upper, lower, rounding = np.zeros(n), np.zeros(n), np.zeros(n)
    order = np.lexsort(np.round(points.T * 8)[::-1])  # neighbours share their moments
    with np.errstate(all="ignore"):
        for start in range(0, n, _BATCH):
            chosen = order[start : start + _BATCH]
            groups = [np.arange(a, min(a + _GROUP, len(chosen))) for a in range(0, len(chosen), _GROUP)]
            found = [
                head_on_boxes(
                    head, shape, points[chosen], np.zeros((len(chosen), d)), groups, accuracy=accuracy / len(heads)
                )
                for head in heads
            ]
            for o in range(values.shape[1]):
                total = found[0].models[o]
                for other in found[1:]:
                    total = total + other.models[o]
                size = up(np.abs(total.coefficients[0]) + total.remainder)
                total = total.plus(-values[chosen, o])
                center, slack = np.abs(total.coefficients[0]), total.remainder
                upper[chosen] = np.maximum(upper[chosen], np.nan_to_num(up(center + slack), nan=np.inf))
                lower[chosen] = np.maximum(lower[chosen], np.nan_to_num(np.nextafter(center - slack, -np.inf), nan=0.0))
                run = sum((h.rounding[o] for h in found), np.zeros(len(chosen)))
                sizes = sum((h.size[o] for h in found), np.zeros(len(chosen)))
                run = up(run + sum_error(heads[0].engine, len(heads), sizes + run), len(heads) + 4)
                run = rounded_once(heads[0].engine, size, run)
                rounding[chosen] = np.maximum(rounding[chosen], np.nan_to_num(run, nan=np.inf))
    return PointErrors(upper, lower, rounding)
