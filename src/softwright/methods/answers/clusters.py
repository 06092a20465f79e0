"""k-means in context: Lloyd's iteration, exactly, from a start that the prompt gives.

y holds the start: rows labelled 0, 1, .., K-1 begin the clusters, -1 (or anything else) belongs to none. K tokens hold
the centres. One iteration is three layers:

    square   |m_k|^2 at the centres (`squares`)
    assign   an observation finds its centre: hard scores x.m_k - |m_k|^2/2, and holds e_k
    mean     centre k is the mean of the observations that hold e_k: all others are excluded

The answer to a query is its centre: K-means' prediction, as the point it stands for. A cluster that loses all
observations takes the mean of all. Lloyd's iteration ends where nothing moves; it does so in finitely many steps.
"""

from __future__ import annotations

import numpy as np

from softwright.methods.answers.squares import own_squares
from softwright.methods.constants import Constants
from softwright.methods.frame import FitBlueprint, Frame, LayerWeights, head, layer
from softwright.methods.guards import Guard
from softwright.methods.standardise import centre_layer

STEPS = 30
_HARD = 2.0**46
_SHARP = 100.0


def k_means(constants: Constants) -> FitBlueprint:
    c, d, K = constants, constants.features, int(constants.option("clusters"))
    extra = {"centre": d, "label": K, "klass": K, "square": 1, "slope": 1, "bias": 1, "shown": d, "mean": d}
    frame = Frame(d, True, False, extra)
    s, one = frame.slots, frame.slots.vector(one=1.0)
    labels = np.arange(-1, K)
    tokens = np.tile(one, (K + 1, 1))
    tokens[1:, slice(*s.places["klass"])] = np.eye(K)
    tokens[:, s.places["slope"][0]], tokens[:, s.places["bias"][0]] = 2.0 * _SHARP * labels, -_SHARP * labels**2.0
    frame.add_fixed("labels", tokens)
    centres = np.tile(one, (K, 1))
    centres[:, slice(*s.places["klass"])] = np.eye(K)
    frame.add_fixed("centres", centres)
    named = head(
        [(s.vector(y=1.0), s.vector(slope=1.0)), (one, s.vector(bias=1.0))], s.select("klass"), s.select("label").T
    )
    holds = head(
        [frame.weighted, (2.0**20 * s.select("klass"), s.select("label"))], s.select("x"), s.select("centre").T
    )
    means = layer("mean", ("centres",), ("data",), [holds], s.residual(("centre", "centre", 0.0)))
    heads, R = own_squares(frame, c.dtype, "centre", "square", c.x_bound)
    square = layer("square", ("centres",), ("unit", "null"), heads, R)
    sharp = _HARD / (d * c.x_bound**2)
    near = [(sharp * s.select("x"), s.select("centre")), (one, s.vector(square=-0.5 * sharp))]

    def assigned(rows: tuple[str, ...], V: str, O: str) -> LayerWeights:  # noqa: E741
        return layer("assign", rows, ("centres",), [head(near, s.select(V), s.select(O).T)], s.residual((O, O, 0.0)))

    centre = centre_layer(frame, (), False, False)
    kept = [head([(h.Wq, h.Wk)], h.Wv, h.Wo - h.Wo @ s.select("x") @ s.select("mean").T) for h in centre.heads]
    first = [
        layer("centre", centre.rows, centre.keys, kept),
        layer("label", ("data",), ("labels",), [named]),
        means,
    ]
    count = c.steps or STEPS
    program = [*first, *[square, assigned(("data",), "klass", "label"), means] * count]
    tail = [square, assigned(("query",), "centre", "shown")]
    far = "a row or query lies further from the mean, in some coordinate, than x_bound; raise x_bound"
    still = "the centres still move in the last iteration; raise steps"
    limit = 1e-12 if c.dtype == "float64" else 1e-5
    same = (4e-12 if c.dtype == "float64" else 1e-5) * d * c.x_bound**2
    tied = (
        "a row or query is as near to one centre as to another, by what floats resolve over the range of the rows; "
        "start elsewhere, ask for another number of clusters, or remove what lies far off"
    )
    guards = [
        Guard("scores", 1, c.x_bound, far, "x", "e", ("data", "query"), ("unit",)),
        *(
            Guard("nearest", len(first) + 3 * k, 1.0 / same, tied, "x", "centre", ("data",), ("centres",))
            for k in range(count)
        ),
        Guard("nearest", len(program), 1.0 / same, tied, "x", "centre", ("data", "query"), ("centres",)),
        Guard("settled", len(program), limit, still, "centre", "centre", ("centres",), (), 3),
    ]  # fmt: skip
    return FitBlueprint(
        s.places, frame.segments, [*program, *tail], read=s.select("shown") + s.select("mean"),
        coefficient=("", s.vector()), guards=guards, head=len(first), tail=len(tail),
    )  # fmt: skip


def exact_k_means(x: np.ndarray, y: np.ndarray, queries: np.ndarray, c: Constants) -> np.ndarray:
    K = int(c.option("clusters"))
    centres = np.stack([x[y == k].mean(axis=0) for k in range(K)])
    for _ in range(c.steps or 10_000):
        own = ((x[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
        found = np.stack([x[own == k].mean(axis=0) if (own == k).any() else x.mean(axis=0) for k in range(K)])
        if np.array_equal(found, centres):
            break
        centres = found
    return centres[((queries[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)]
