"""k nearest neighbours in context: the mean of y over the k observations nearest to the query, exactly.

Every query is asked in a prompt of its own, so that the observations can hold their distance to it:

    distance   D_j = |x_j|^2 + |x|^2 - 2 x_j.x: squares of own numbers (`squares`), the product by bilinear heads over
               the query and its mirror image

and then k rounds of four layers:

    nearest    the query finds the smallest D_j among those not taken (a hard head), and how many are taken: a sum
               against a sink
    full       a gate: 1 once k are taken
    tell       the observations read both
    take       taken_j = 1 where it was, or where D_j is that smallest distance and there is still room: a gate

The last layer takes the mean over what is taken. Equal distances are taken together, so that ties for the last place
share it: then there are more than k, where scikit-learn picks some of them.
"""

from __future__ import annotations

import math

import numpy as np

from softwright.methods.answers.kernel import NO_COEFFICIENT, begin
from softwright.methods.bilinear import bilinear_heads
from softwright.methods.constants import Constants
from softwright.methods.frame import FitBlueprint, Frame, LayerWeights, Segment, head, layer
from softwright.methods.links import link_head, link_tokens

_HARD = 2.0**46
_SINK = 40.0
_SHARP = {"float64": 1e12, "float32": 1e5}  # of the gate that compares distances, over the square of x_bound
_SURE = 60.0  # score of an equality
_AWAY = 1e6  # times x_bound^2: a distance beyond all others


def nearest_neighbours(constants: Constants) -> FitBlueprint:
    c, d, k = constants, constants.features, int(constants.option("neighbours"))
    names = ("square", "distance", "nearest", "taken", "full", "many", "f", "slope", "bias", "value", "gate", "sign")
    frame = Frame(d, True, constant=False, extra=dict.fromkeys(names, 1))
    s, size = frame.slots, d * c.x_bound**2
    one, null = s.vector(one=1.0), s.vector(null=1.0)
    image = next(segment for segment in frame.segments if segment.name == "query")
    embed = None if image.embed is None else -image.embed
    frame.segments.append(Segment("image", "query", image.base + s.vector(sign=-1.0)[None], embed))
    place = frame.segments.index(image)
    frame.segments[place] = Segment("query", "query", image.base + s.vector(sign=1.0)[None], image.embed)
    frame.add_fixed("gate", link_tokens(s, "gate", [(1.0, 0.0, 1.0), (0.0, 0.0, 0.0)]))
    first, guard = begin(frame, c, ("data", "query", "image"))
    first[0] = _centred_with_image(frame, first[0])
    product = bilinear_heads(
        s.select("x"), s.select("x"), s.vector(sign=1.0), -2.0 * s.vector(distance=1.0),
        reach=size, order=c.order, angle=c.angle,
    )  # fmt: skip
    own = head([(one, 0.0 * one)], s.vector(square=1.0), s.vector(distance=1.0))
    measure = layer(
        "distance", ("data",), ("query", "image"), [*product, own], s.residual(("square", "distance", 1.0))
    )  # fmt: skip
    beyond = _AWAY * size
    away = s.vector(distance=-_HARD / size, taken=-_HARD * _AWAY)
    nearest = head([(one, away), (one, -1e30 * null)], s.vector(distance=1.0), s.vector(nearest=1.0))
    many = head([(one, s.vector(null=_SINK))], s.vector(taken=1.0), math.exp(_SINK) * s.vector(many=1.0))
    sharp = _SHARP[c.dtype] / size
    told = head([(one, 0.0 * one)], s.select("nearest"), s.select("nearest").T)
    room = head([(one, 0.0 * one)], s.select("full"), s.select("full").T)
    argument = s.vector(nearest=sharp, distance=-sharp, one=_SURE, full=-sharp * beyond, taken=2 * sharp * beyond)
    rounds = [
        layer(
            "nearest", ("query",), ("data", "null"), [nearest, many],
            s.residual(("nearest", "nearest", 0.0), ("many", "many", 0.0)),
        ),
        layer(
            "full", ("query",), ("gate",), [link_head(s, "gate", s.vector(many=100.0, one=-100.0 * (k - 0.5)), "full")],
            s.residual(("full", "full", 0.0)),
        ),
        layer(
            "tell", ("data",), ("query",), [told, room],
            s.residual(("nearest", "nearest", 0.0), ("full", "full", 0.0)),
        ),
        layer(
            "take", ("data",), ("gate",), [link_head(s, "gate", argument, "taken")], s.residual(("taken", "taken", 0.0))
        ),
    ]  # fmt: skip
    mean = head([frame.weighted, (one, s.vector(taken=2.0**20))], s.vector(y=1.0), s.vector(f=1.0))
    read = layer("read", ("query",), ("data",), [mean])
    first = [*first, measure]
    return FitBlueprint(
        s.places, frame.segments, [*first, *rounds * k, read], read=s.vector(f=1.0, offset=1.0),
        coefficient=(NO_COEFFICIENT, s.vector()), guards=[guard], head=len(first), tail=1, alone=True,
    )  # fmt: skip


def _centred_with_image(frame: Frame, centre: LayerWeights) -> LayerWeights:
    """The centring, for the mirror image of the query as well: what is taken off there must be added, so that one more
    head, which sends all other rows to the null token, adds the mean of x twice."""
    s = frame.slots
    x, one, null = s.select("x"), s.vector(one=1.0), s.vector(null=1.0)
    pairs = [frame.weighted, (one, -(2.0**20) * null), (2.0**21 * s.vector(data=1.0, sign=1.0), null)]
    heads = [*centre.heads, head(pairs, x, 2.0 * x.T)]
    return layer(centre.label, (*centre.rows, "image"), centre.keys, heads, centre.R)


def exact_neighbours(x: np.ndarray, y: np.ndarray, queries: np.ndarray, c: Constants) -> np.ndarray:
    k = int(c.option("neighbours"))
    distances = ((queries[:, None] - x[None]) ** 2).sum(axis=2)
    edge = np.sort(distances, axis=1)[:, min(k, len(x)) - 1][:, None]
    inside = distances <= edge * (1 + 1e-12)
    return (inside * y).sum(axis=1) / inside.sum(axis=1)
