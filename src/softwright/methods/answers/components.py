"""Principal components in context: the projection of a query on the leading components of the observations.

The projector onto the k leading eigenvectors of A = cov(x) needs no eigenvector, no square root and no sign. With X = A
scaled so that its eigenvalues are in [0, 1],

    X <- X^2  if its trace is above k,   X <- 2X - X^2  otherwise

(Niklasson's purification) moves eigenvalues to 0 and 1, and the trace to k: X becomes the projector, at the end
quadratically; three steps X <- 3X^2 - 2X^3 polish it whatever the trace is. Rounding may take an eigenvalue
below 0, where 2X - X^2 doubles it for good and the trace no longer tells; so every step also maps [0, 1] into itself, a
little within both ends, X <- (1 - 2 eta) X + eta, which polishing undoes. X stands at the unit tokens (`matrices`);
one step is four layers over 2d tokens,

    product   t = X X
    trace     one head a coordinate reads the entry X_qq of the unit token q
    gate      score of a gate: which of the two
    purify    X <- 2X - t + gate (2t - 2X), a softmax over the token itself and the null token

and the answer is mean + X (x - mean), what scikit-learn calls inverse_transform(transform(x)). Features as they are
given. How near the k-th and the next eigenvalue may be is set by `condition`: their distance over the largest.
"""

from __future__ import annotations

import math

import numpy as np

from softwright.methods.bilinear import bilinear_heads
from softwright.methods.constants import Constants
from softwright.methods.frame import FitBlueprint, Frame, Segment, head, layer
from softwright.methods.guards import Guard
from softwright.methods.links import link_head, link_tokens
from softwright.methods.solvers.matrices import times
from softwright.methods.standardise import centre_layer

_INSIDE = {"float64": 2.0**-40, "float32": 2.0**-13}  # how far eigenvalues are kept from 0 and 1, above rounding
_GATE = 1e14  # the slope of the gate that compares the trace with k


def principal_components(constants: Constants) -> FitBlueprint:
    c, d, k = constants, constants.features, int(constants.option("components"))
    wide = dict.fromkeys(("a", "t", "given", "shown"), d)
    frame = Frame(d, True, False, {**wide, **dict.fromkeys(("trace", "gate", "slope", "bias", "value", "side"), 1)})
    s, unit, inside = frame.slots, ("unit",), _INSIDE[c.dtype]
    query = next(segment for segment in frame.segments if segment.name == "query")
    if query.embed is not None:
        embed = query.embed + query.embed @ s.select("x") @ s.select("given").T
        frame.segments[frame.segments.index(query)] = Segment("query", "query", query.base, embed)
    frame.add_fixed("side", link_tokens(s, "side", [(1.0, 0.0, 40.0), (0.0, 0.0, -800.0)]))
    matrix = bilinear_heads(
        s.select("e"), s.select("x"), s.select("x"), s.select("a").T / (d * c.x_bound**2), reach=c.x_bound,
        order=c.order, angle=c.angle, also=[frame.only("data"), frame.weighted],
    )  # fmt: skip
    first = [
        centre_layer(frame, (), False, False),
        layer("matrix", unit, ("data",), matrix),
    ]
    trace = []
    for q in range(d):
        there = np.zeros(d)
        there[q] = 1.0
        at = (s.vector(one=1.0), 2.0**20 * (s.select("e") @ there - s.vector(one=1.0)))
        trace.append(head([at], s.select("a") @ there, s.vector(trace=1.0)))
    chosen = head(
        [*frame.itself, (s.vector(gate=1.0), s.vector(unit=1.0))], 2.0 * s.select("t") - 2.0 * s.select("a"),
        (1.0 - 2.0 * inside) * s.select("a").T,
    )  # fmt: skip
    purify = s.residual(("a", "a", 2.0 - 4.0 * inside), ("t", "a", 2.0 * inside - 1.0), ("e", "a", inside))
    step = [
        layer("product", unit, unit, times(frame, c, "a", "a", s.select("t").T, 1.0), s.residual(("t", "t", 0.0))),
        layer("trace", unit, unit, trace, s.residual(("trace", "trace", 0.0))),
        layer(
            "gate", unit, ("side",), [link_head(s, "side", s.vector(trace=_GATE, one=-_GATE * k), "gate")],
            s.residual(("gate", "gate", 0.0)),
        ),
        layer("purify", unit, ("unit", "null"), [chosen], purify),
    ]  # fmt: skip
    count = c.steps or 30 + math.ceil(3.0 * math.log2(d * c.condition))
    cube = times(frame, c, "a", "t", -2.0 * s.select("a").T, 1.0)
    last = [step[0], layer("polish", unit, unit, cube, s.residual(("a", "a", 0.0), ("t", "a", 3.0)))]
    program = [*first, *step * count, *last * 3]
    read = [layer("project", ("query",), unit, times(frame, c, "x", "a", s.select("shown").T, c.x_bound))]
    far = "a row or query lies further from the mean, in some coordinate, than x_bound; raise x_bound"
    near = (
        "the projector still moves: the last component that counts and the next have nearly the same variance; "
        "raise condition, or ask for more or fewer components"
    )
    guards = [
        Guard("scores", 1, c.x_bound, far, "x", "e", ("data", "query"), unit),
        Guard("settled", len(program), 1e-9 if c.dtype == "float64" else 1e-3, near, "a", "a", unit, (), reach=2),
    ]
    return FitBlueprint(
        s.places, frame.segments, [*program, *read], read=s.select("shown") + s.select("given") - s.select("x"),
        coefficient=("", s.vector()), guards=guards, head=len(first), tail=1,
    )  # fmt: skip


def exact_components(x: np.ndarray, y: np.ndarray, queries: np.ndarray, c: Constants) -> np.ndarray:
    mean = x.mean(axis=0)
    leading = np.linalg.svd(x - mean, full_matrices=False)[2][: int(c.option("components"))]
    return mean + (queries - mean) @ leading.T @ leading
