"""Centring and scaling in context, so that the constants of a stack fit data of any size.

    1. centre    a uniform head takes the (weighted) means of x and y: observations and queries lose them, the mean of y
                 is kept as the offset of predictions. In the same layer two hard heads at the unit token of feature p,
                 scores +-beta x_jp, find max_j x_jp - min_j x_jp.
    2. cells     the unit token picks r_p = 1/B of the cell that holds the range: within a factor 2
    3. scale     x_i <- sum_p (x_i . r_p e_p) e_p, bilinear heads over the unit tokens; now all ranges are in (1/2, 1]
    4. spread    bilinear heads at the unit tokens: curvature * variance + penalty of the scaled feature
    5. cells     r'_p = 1/sqrt(B): within a factor 2^(1/4)
    6. scale     as 3; now curvature * variance + penalty is in (1, sqrt 2] for every feature, and the largest
                 eigenvalue of the matrix to invert is at most sqrt 2 times the number of coordinates

Scales need not be exact: predictions do not depend on them. A unit token ends up with its total scale tau = +-r_p r'_p,
which thresholds and coefficients are multiplied with, and with g = +-sqrt(penalty) r_p r'_p e_p, which stands for a
ridge penalty on the coefficients of the features as they were given: sum_p g_p g_p^T is its matrix after scaling. All
numbers that enter scores are free of units. With `scaling` off only the centring is left.
"""

from __future__ import annotations

import math

import numpy as np

from softwright.attention.stack import HeadWeights, LayerWeights
from softwright.methods.bilinear import bilinear_heads
from softwright.methods.frame import OMEGA, Frame, head, layer
from softwright.methods.guards import Guard
from softwright.methods.links import cell_edges, cell_scores

_HARD = 2.0**44  # sharpness of the heads that find the largest and smallest value
_RANGE = (-30, 30)  # octaves of ranges: features from 1e-9 to 1e9
_SPREAD = (-24, 20)  # octaves of curvature * variance + penalty after the first scaling
SCALED_MOST = math.sqrt(2.0)
SCALE_ORDER = 6  # few tokens are read, so the best order is cheap here


def centre_layer(frame: Frame, targets: tuple[str, ...], ranges: bool, centre_y: bool = True) -> LayerWeights:
    """Layer 1; the mean of y is added to the slots `targets` of observations and queries."""
    s = frame.slots
    xs, y = s.select("x"), s.vector(y=1.0)
    if frame.constant:
        xs = xs[:, : frame.features]
    V = np.concatenate([xs, y[:, None]], axis=1)
    O = np.concatenate([-xs.T, (-y if centre_y else 0.0 * y)[None]])  # noqa: E741
    for target in targets:
        O[-1] += s.vector(**{target: 1.0})
    one, null = s.vector(one=1.0), s.vector(null=1.0)
    pairs = [frame.weighted, (one, -OMEGA * null), (2 * OMEGA * s.vector(unit=1.0), null)]
    heads = [head(pairs, V, O)]
    rows = (*frame.spread_over, "query")
    if ranges:
        for sign in (1.0, -1.0):
            hard = [frame.weighted, (one, -1e28 * null), (sign * _HARD * s.select("e"), s.select("x"))]
            heads.append(head(hard, s.select("x"), sign * s.select("range").T))
        rows = (*rows, "unit")
    return layer("centre", rows, (*frame.spread_over, "null"), heads)


def _cell_layer(
    frame: Frame, name: str, source: str, target: str, edges: np.ndarray, values: np.ndarray
) -> LayerWeights:
    """Unit tokens read their entry of `source` and write the value of its cell, times +-e_p, to `target` and `tau1`."""
    s = frame.slots
    slopes, offsets = cell_scores(edges)
    count = len(slopes)
    tokens = []
    for p in range(frame.features):
        for sign in (1.0, -1.0):
            block = np.tile(s.vector(one=1.0, **({"pos": 1.0} if sign > 0 else {"neg": 1.0})), (count, 1))
            block[:, slice(*s.places["other"])] = 1.0
            block[:, s.places["other"][0] + p] = 0.0
            block[:, s.places[source][0] + p] = sign * slopes
            block[:, s.places["tau"][0]] = offsets  # any free slot: constant tokens are read-only
            block[:, s.places[target][0] + p] = sign * values
            block[:, s.places["tau1"][0]] = sign * values
            tokens.append(block)
    frame.add_fixed(name, np.concatenate(tokens))
    one, null = s.vector(one=1.0), s.vector(null=1.0)
    pairs = [
        *frame.itself,
        (one, -1e20 * null),  # the null token answers the constant, which has no cell of its own
        (s.select(source), s.select(source)),
        (one, s.vector(tau=1.0)),
    ]
    what = s.select(target)
    if target == "scale1":
        what = np.concatenate([what, s.vector(tau1=1.0)[:, None]], axis=1)
    return layer("cells", ("unit",), (name, "null"), [head(pairs, what, what.T)])


def _scale_heads(
    frame: Frame, source: str, scale: str, V: np.ndarray, writes: np.ndarray, *, reach: float, angle: float
) -> list[HeadWeights]:
    """Heads that add sum_p (source . r_p e_p) V_p to the stream, r_p e_p the slot `scale` of the unit tokens."""
    s = frame.slots
    return bilinear_heads(
        s.select(source), s.select(scale), V, writes,
        reach=reach, order=SCALE_ORDER, angle=angle, factor=float(frame.coordinates),
    )  # fmt: skip


def _spread_layer(frame: Frame, angles: dict[int, float], curvature: float, penalty: float) -> LayerWeights:
    """Layer 4: the column of the matrix to invert that belongs to a unit token; its own entry is what counts."""
    s = frame.slots
    heads = bilinear_heads(
        s.select("e"), s.select("x"), s.select("x"), s.select("spread").T,
        reach=1.0, order=2, angle=angles[2], also=[frame.only("data"), frame.weighted], factor=curvature,
    )  # fmt: skip
    if penalty > 0:
        root = math.sqrt(penalty)
        heads += bilinear_heads(
            root * s.select("scale1"), s.select("e"), root * s.select("scale1"), s.select("spread").T,
            reach=1e3, order=1, angle=angles[1], also=[frame.only("pen")], factor=float(frame.features),
        )  # fmt: skip
    return layer("spread", ("unit",), (*frame.spread_over, "unit"), heads)


def prepare(
    frame: Frame,
    *,
    targets: tuple[str, ...],
    scaling: bool,
    angles: dict[int, float],
    centre_y: bool = True,
    curvature: float = 1.0,
    penalty: float = 0.0,
    range_bound: float = 4.0,
    feature_bound: float = 30.0,
    start: float = 0.0,
) -> list[LayerWeights]:
    """The first layers of a stack. `start` > 0 also sets z = start * x, and start * g at the unit tokens, where Newton
    and Schulz's iteration begins."""
    s = frame.slots
    root = math.sqrt(penalty)
    x, e, g = s.select("x"), s.select("e"), s.select("g")
    z = s.select("z") if start > 0 else None
    if z is not None:
        frame.change_fixed("basis", frame.fixed("basis") @ s.residual(("x", "z", start)))
    if not scaling:
        first = centre_layer(frame, targets, False, centre_y)
        units = frame.fixed("unit")
        units = units + root * (units @ e) @ g.T + np.outer(units @ s.vector(pos=1.0, neg=-1.0), s.vector(tau=1.0))
        if z is not None:
            heads = [head([(h.Wq, h.Wk)], h.Wv, h.Wo + start * h.Wo @ x @ z.T) for h in first.heads]
            first = layer("centre", first.rows, first.keys, heads, s.residual(("x", "z", start)))
            units = units @ s.residual(("g", "z", start))
        frame.change_fixed("unit", units)
        return [first]
    if frame.constant:
        units = frame.fixed("unit").copy()
        units[-2:, slice(*s.places["scale2"])] /= math.sqrt(curvature)
        frame.change_fixed("unit", units)
    fresh = s.residual(("x", "x", 0.0))
    feature_bound = feature_bound / math.sqrt(curvature)  # scaled features have the variance 1/curvature
    ranges, spreads = cell_edges(*_RANGE, 1), cell_edges(*_SPREAD, 2)
    angle = angles[SCALE_ORDER]
    people = (*frame.spread_over, "query")
    writes, total = x.T, np.concatenate([root * g.T, s.vector(tau=1.0)[None]])
    if z is not None:
        writes = writes + start * z.T
        total[:-1] += root * start * z.T
    both = np.concatenate([s.select("scale1"), s.vector(tau1=1.0)[:, None]], axis=1)
    last = _scale_heads(frame, "x", "scale2", e, writes, reach=feature_bound, angle=angle)
    last += _scale_heads(frame, "e", "scale2", both, total, reach=feature_bound, angle=angle)
    return [
        centre_layer(frame, targets, True, centre_y),
        _cell_layer(frame, "ranges", "range", "scale1", ranges, 1.0 / ranges[1:]),
        layer(
            "scale",
            people,
            ("unit",),
            _scale_heads(frame, "x", "scale1", e, x.T, reach=range_bound, angle=angle),
            fresh,
        ),
        _spread_layer(frame, angles, curvature, penalty),
        _cell_layer(frame, "spreads", "spread", "scale2", spreads, 1.0 / np.sqrt(spreads[:-1])),
        layer("scale", (*people, "unit"), ("unit",), last, fresh),
    ]


def scale_guards(range_bound: float, feature_bound: float, curvature: float = 1.0) -> list[Guard]:
    """What the two scalings take: queries not too far from the data, no row too many standard deviations out."""
    far = "a query lies further from the mean, in ranges of that feature, than range_bound; raise range_bound"
    out = "a row or query lies further from the mean, in standard deviations, than feature_bound; raise feature_bound"
    return [
        Guard("scores", 2, range_bound, far, "x", "scale1", ("query",), ("unit",)),
        Guard("scores", 5, feature_bound / math.sqrt(curvature), out, "x", "scale2", ("data", "query"), ("unit",)),
    ]
