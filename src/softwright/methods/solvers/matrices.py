"""Matrices at the unit tokens: products, inverses and systems of equations among 2d tokens, whatever the prompt holds.

The unit token +e_p holds row p of a matrix in a slot, -e_p the same with its sign turned. Bilinear heads over the unit
tokens then multiply a vector of any token with the matrix,

    sum_q (v.e_q) row_q = v^T A,        v a slot of the token that asks,

so that Newton and Schulz's iteration M <- M (2 - A M) is two layers over 2d tokens, t_p = A z_p and z_p <- 2 z_p -
sum_q t_pq z_q, where z_p = M e_p. What takes all rows of the prompt is the matrix itself, one layer at the unit tokens,

    a_p = cov_j(x_jp, x_j),   c_p = cov_j(x_jp, y_j),

and predictions sum_p x_ip w_p. Refinement, w <- w + M (c - A w) with A w taken from the rows, leaves of the errors of A
and M what the residual's own are: the digits do not depend on how well A was formed, only on whether M is near its
inverse.
"""

from __future__ import annotations

import math

import numpy as np

from softwright.methods.bilinear import bilinear_heads
from softwright.methods.constants import Constants
from softwright.methods.frame import Frame, HeadWeights, LayerWeights, Pair, layer
from softwright.methods.step_bound import penalty_reach

SINK = {"float64": 32.0, "float32": 14.0}  # the score of counting tokens: see `glm`
FALLING_SINK = {"float64": 64.0, "float32": 14.0}  # where weights e^-s reach 1 over the smallest y: see `curves`
SETTLED = 4.0  # bound of |A M| entry by entry while M grows from below


def times(
    frame: Frame, c: Constants, vector: str | np.ndarray, matrix: str | np.ndarray, writes: np.ndarray, reach: float
) -> list[HeadWeights]:
    """Heads that add sum_q (vector.e_q) matrix_q, times `writes`, to the stream; `reach` bounds |vector_q|."""
    s = frame.slots
    Q = s.select(vector) if isinstance(vector, str) else vector
    V = s.select(matrix) if isinstance(matrix, str) else matrix
    return bilinear_heads(
        Q, s.select("e"), V, writes, reach=reach, order=c.order, angle=c.angle,
        also=[frame.only("unit")], factor=float(frame.coordinates),
    )  # fmt: skip


def moments(
    frame: Frame, c: Constants, V: np.ndarray, writes: np.ndarray, also: list[Pair] | None = None
) -> list[HeadWeights]:
    """Heads that add cov_j(x_jp, V_j) `writes` at the unit token of p; columns of x are within feature_bound."""
    s = frame.slots
    return bilinear_heads(
        s.select("e"), s.select("x"), V, writes, reach=c.feature_bound, order=c.order, angle=c.angle,
        also=[frame.only("data"), frame.weighted] if also is None else also,
    )  # fmt: skip


def plain_mean(
    frame: Frame,
    c: Constants,
    V: np.ndarray,
    O: np.ndarray,  # noqa: E741
    log_weight: np.ndarray | None = None,
    sink: float | None = None,
) -> list[HeadWeights]:
    """Heads that add mean_j e^{log_weight_j} x_jp V_j, times O, at the unit token of p, by counting tokens (`glm`)."""
    s, sink = frame.slots, SINK[c.dtype] if sink is None else sink
    also: list[Pair] = [frame.only("data", "count"), frame.weighted, (s.vector(one=1.0), s.vector(count=sink))]
    if log_weight is not None:
        also.append((s.vector(one=1.0), log_weight))
    return bilinear_heads(
        s.select("e"), s.select("x"), V, O, reach=c.feature_bound, order=c.order, angle=c.angle, also=also,
        factor=math.exp(sink),
    )  # fmt: skip


def penalty_heads(frame: Frame, c: Constants, writes: np.ndarray) -> list[HeadWeights]:
    """Heads that add row p of the penalty's matrix, sum_q (g_p.e_q) g_q."""
    if c.penalty == 0:
        return []
    s = frame.slots
    return bilinear_heads(
        s.select("g"), s.select("e"), s.select("g"), writes, reach=penalty_reach(c), order=c.order,
        angle=c.angle, also=[frame.only("pen")], factor=float(frame.features),
    )  # fmt: skip


def inverse_layers(frame: Frame, c: Constants, largest: float) -> list[LayerWeights]:
    """One step of Newton and Schulz: t = A z, then z <- 2 z - t z; `largest` bounds the entries of the inverse."""
    s = frame.slots
    unit = ("unit",)
    return [
        layer("product", unit, unit, times(frame, c, "z", "a", s.select("t").T, largest), s.residual(("t", "t", 0.0))),
        layer(
            "newton-schulz", unit, unit, times(frame, c, "t", "z", -s.select("z").T, SETTLED),
            s.residual(("z", "z", 2.0)),
        ),
    ]  # fmt: skip


def fit_layer(frame: Frame, c: Constants, rows: tuple[str, ...], slot: str, target: str = "f") -> LayerWeights:
    """target_i <- sum_p x_ip slot_p at the tokens `rows`."""
    s = frame.slots
    heads = times(frame, c, "x", s.vector(**{slot: 1.0}), s.vector(**{target: 1.0}), c.feature_bound)
    return layer("fit", rows, ("unit",), heads, s.residual((target, target, 0.0)))
