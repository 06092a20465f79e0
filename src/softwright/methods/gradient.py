"""Gradient descent in context, one layer per step (theorem A5, with bilinear heads instead of interpolation).

The theorem's tokens carry w. Here every token carries its own prediction f_i = w.x_i instead, which obeys a recursion
of its own, so that no token needs to read another's w:

    w <- w - eta grad L(w),  L = 1/(2n) sum_j (w.x_j - y_j)^2 (+ penalty/2 |w|^2)
    f_i <- f_i - eta cov_j(x_i.x_j, f_j - y_j)  (- eta sum_p (x_i.g_p) f_p,  f_p = w.g_p, g_p = sqrt(penalty) e_p).

Basis tokens carry f = w_p, the coefficients themselves. With x and y centred, or mirrored, the covariance is the mean.
The loss is that of the features as given: nothing is scaled unless asked for. Step sizes may differ from layer to
layer, which is all that Chebyshev's method needs (`chebyshev`).
"""

from __future__ import annotations

from collections.abc import Sequence

from softwright.attention.stack import LayerWeights
from softwright.methods.bilinear import bilinear_heads
from softwright.methods.constants import Constants
from softwright.methods.frame import FitBlueprint, Frame, layer
from softwright.methods.guards import Guard, step_guards
from softwright.methods.standardise import prepare, scale_guards

DEFAULT_STEPS = 100


def gradient_layer(frame: Frame, constants: Constants, eta: float) -> LayerWeights:
    """One step; `score_bound` is the bound of |x_i.x_j|."""
    c, s = constants, frame.slots
    own = s.select("x") + s.select("g")  # observations, queries and basis have the one, unit tokens the other
    heads = bilinear_heads(
        own, s.select("x"), s.vector(f=1.0, y=-1.0), -eta * s.vector(f=1.0),
        reach=c.score_bound, order=c.order, angle=c.angle, also=[frame.only("data"), frame.weighted],
    )  # fmt: skip
    keys, rows = frame.data, (*frame.data, *frame.queries)
    if c.penalty > 0:
        keys, rows = (*keys, "unit"), (*rows, "unit")
        heads += bilinear_heads(
            own, s.select("g"), s.vector(f=1.0), -eta * s.vector(f=1.0),
            reach=c.score_bound, order=c.order, angle=c.angle, also=[frame.only("pen")], factor=float(c.features),
        )  # fmt: skip
    return layer("gradient", rows, keys, heads)


def descent(constants: Constants, etas: Sequence[float], smallest: float | None = None) -> FitBlueprint:
    """Least squares or ridge with the given step sizes, which may be chosen for eigenvalues of `smallest` and more."""
    c = constants
    frame = Frame(c.features, c.intercept, constant=False, extra={"f": 1})
    first = prepare(
        frame, targets=("offset",) if c.intercept else (), scaling=c.scaling, angles=c.angles, penalty=c.penalty,
        range_bound=c.range_bound, feature_bound=c.feature_bound,
    )  # fmt: skip
    steps = {eta: gradient_layer(frame, c, eta) for eta in etas}
    remedy = "two rows have a larger product |x_i.x_j| than score_bound; raise score_bound, or scale the features"
    guards = [Guard("scores", len(first), 2.0 * c.score_bound, remedy, "x", "x", (*frame.data, "query"), frame.data)]
    if c.scaling:
        guards += scale_guards(c.range_bound, c.feature_bound)
    if smallest is not None:
        worse = (
            "the features are worse conditioned than the steps were chosen for, or linearly dependent; raise condition"
        )
        guards.append(
            Guard("spectrum", len(first), 1.0 / smallest, worse, "x", "x", frame.data, ("unit",), 0, "log_weight", "g")
        )
    elif len(steps) == 1:
        guards += step_guards(len(etas), 1, len(first), "f")
    s = frame.slots
    return FitBlueprint(
        s.places, frame.segments, [*first, *[steps[eta] for eta in etas]], read=s.vector(f=1.0, offset=1.0),
        coefficient=("basis", s.vector(f=1.0)), guards=guards, head=len(first),
    )  # fmt: skip


def gradient(constants: Constants) -> FitBlueprint:
    """Plain gradient descent: `steps` steps of one size."""
    return descent(constants, [constants.eta] * (constants.steps or DEFAULT_STEPS))
