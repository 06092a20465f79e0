"""The lasso in context: FISTA with a fixed momentum, and ADMM on the inverse of Newton and Schulz; and least squares
with coefficients of 0 or more, by the same iteration with another proximal map.

    minimise  1/(2n) sum_j (w.x_j - y_j)^2 + penalty |w|_1      or      over w >= 0

The coefficient w_p lives at the unit tokens +e_p and, turned, at -e_p, in scaled features; the threshold of a feature
scaled by r_p is penalty * r_p, which the unit token holds as `tau`. One FISTA iteration is three layers:

    1. w <- v - eta cov_j(x_jp, f_j - y_j),  v = (1 + mu) w - mu w_before       at the unit tokens
    2. w <- prox(w)                                                            at the unit tokens, two gates each
    3. f_j <- sum_p x_jp v_p                                                   at the observations

ADMM, with A = cov(x), M = (A + rho I)^{-1} and z_p = M e_p from Newton and Schulz:

    1. f_j <- sum_p x_jp (v - u)_p                                             at the observations
    2. w <- (v - u) + cov_j(z_p.x_j, y_j - f_j)                                at the unit tokens
    3. v <- soft(w + u, penalty/rho),  u <- w + u - v                          at the unit tokens

A coefficient whose gate is closed is exactly 0, so the support is exact. The projection max(w, 0) is one gate at +e_p,
and min(w, 0) at -e_p, whose number is -w_p; scales are positive, so w >= 0 means the same before and after scaling.
"""

from __future__ import annotations

import math

import numpy as np

from softwright.attention.stack import HeadWeights, LayerWeights
from softwright.methods.bilinear import bilinear_heads
from softwright.methods.constants import Constants
from softwright.methods.frame import FitBlueprint, Frame, layer
from softwright.methods.guards import Guard
from softwright.methods.links import prox_heads
from softwright.methods.newton_schulz import inverse_depth, step_layer
from softwright.methods.standardise import prepare, scale_guards

GATE = 1e14  # slope of the gates: what lies within 1e-13 of a kink is blurred
_RHO = 0.1  # ADMM's rho in scaled features


def fit_heads(frame: Frame, constants: Constants, values: np.ndarray) -> list[HeadWeights]:
    """f_i += sum_p (x_i.e_p) values_p, read from the unit tokens."""
    s = frame.slots
    return bilinear_heads(
        s.select("x"), s.select("e"), values, s.vector(f=1.0),
        reach=constants.feature_bound, order=constants.order, angle=constants.angle,
        also=[frame.only("unit")], factor=float(constants.features),
    )  # fmt: skip


def read_layer(frame: Frame, constants: Constants, slot: str) -> LayerWeights:
    """The predictions of queries from the coefficients at the unit tokens."""
    return layer("read", ("query",), ("unit",), fit_heads(frame, constants, frame.slots.vector(**{slot: 1.0})))


def settled_guard(depth: int, reach: int, slot: str, limit: float) -> Guard:
    remedy = "the coefficients still move in the last iteration; raise steps, or condition if it is given"
    return Guard("settled", depth, limit, remedy, slot, slot, ("unit",), (), reach=reach)


def proximal_gradient(constants: Constants, nonnegative: bool) -> FitBlueprint:
    """FISTA with the momentum of strongly convex problems, for the lasso or for coefficients of 0 or more."""
    c = constants
    frame = Frame(c.features, c.intercept, constant=False, extra={"f": 1, "w": 1, "before": 1})
    s = frame.slots
    first = prepare(
        frame, targets=("offset",) if c.intercept else (), scaling=c.scaling, angles=c.angles,
        range_bound=c.range_bound, feature_bound=c.feature_bound,
    )  # fmt: skip
    eta = c.step_size or 1.0 / c.most
    root = math.sqrt(eta / c.condition)  # sqrt(smallest/largest eigenvalue)
    mu = (1 - root) / (1 + root)
    count = c.steps or math.ceil(math.log(1.0 / c.accuracy) / root)
    descend = bilinear_heads(
        s.select("e"), s.select("x"), s.vector(f=1.0, y=-1.0), -eta * s.vector(w=1.0),
        reach=c.feature_bound, order=c.order, angle=c.angle, also=[frame.only("data"), frame.weighted],
    )  # fmt: skip
    ahead = s.residual(("w", "w", 1 + mu), ("before", "w", -mu), ("w", "before", 1.0), ("before", "before", 0.0))
    threshold = None if nonnegative else eta * c.penalty * s.vector(tau=1.0)
    gates = prox_heads(frame, s.vector(w=1.0), threshold, s.vector(w=1.0), GATE)
    iteration = [
        layer("gradient", ("unit",), frame.data, descend, ahead),
        layer("prox", ("unit",), ("unit", "null"), gates, s.residual(("w", "w", 0.0))),
        layer(
            "fit",
            frame.data,
            ("unit",),
            fit_heads(frame, c, s.vector(w=1 + mu, before=-mu)),
            s.residual(("f", "f", 0.0)),
        ),
    ]
    program = [*first, *iteration * count, read_layer(frame, c, "w")]
    limit = max(10 * c.accuracy, 1e-9 if c.dtype == "float64" else 1e-4)
    guards = [settled_guard(len(first) + 3 * count, 3, "w", limit)]
    return _finished(frame, c, program, "w", guards, len(first))


def fista(constants: Constants) -> FitBlueprint:
    return proximal_gradient(constants, nonnegative=False)


def projected_gradient(constants: Constants) -> FitBlueprint:
    return proximal_gradient(constants, nonnegative=True)


def admm(constants: Constants) -> FitBlueprint:
    """ADMM; `step_size` is rho, in scaled features."""
    c = constants
    frame = Frame(c.features, c.intercept, constant=False, extra={"z": c.features, "f": 1, "w": 1, "u": 1, "v": 1})
    s = frame.slots
    rho = c.step_size or _RHO
    largest = c.most + rho
    # rho acts on scaled features: the unit tokens keep g = sqrt(rho) e_p, which the scaling leaves alone.
    units = frame.fixed("unit")
    frame.change_fixed(
        "unit", units + math.sqrt(rho) * (units @ s.select("e")) @ (s.select("g") + 1.9 / largest * s.select("z")).T
    )
    first = prepare(
        frame, targets=("offset",) if c.intercept else (), scaling=c.scaling, angles=c.angles,
        range_bound=c.range_bound, feature_bound=c.feature_bound, start=1.9 / largest,
    )  # fmt: skip
    depth = inverse_depth(largest, rho, c.accuracy)
    inverse = step_layer(frame, c, True, frame.data)
    solve = bilinear_heads(
        s.select("z"), s.select("x"), s.vector(y=1.0, f=-1.0), s.vector(w=1.0 / math.sqrt(rho)),
        reach=c.score_bound, order=c.order, angle=c.angle, also=[frame.only("data"), frame.weighted],
    )  # fmt: skip
    gates = prox_heads(
        frame, s.vector(w=1.0, u=1.0), (c.penalty / rho) * s.vector(tau=1.0), s.vector(v=1.0, u=-1.0), GATE
    )
    iteration = [
        layer("fit", frame.data, ("unit",), fit_heads(frame, c, s.vector(v=1.0, u=-1.0)), s.residual(("f", "f", 0.0))),
        layer("solve", ("unit",), frame.data, solve, s.residual(("w", "w", 0.0), ("v", "w", 1.0), ("u", "w", -1.0))),
        layer("prox", ("unit",), ("unit", "null"), gates, s.residual(("v", "v", 0.0), ("w", "u", 1.0))),
    ]
    count = c.steps or 400
    program = [*first, *[inverse] * depth, *iteration * count, read_layer(frame, c, "v")]
    limit = max(10 * c.accuracy, 1e-7 if c.dtype == "float64" else 1e-4)
    return _finished(frame, c, program, "v", [settled_guard(len(program) - 1, 3, "v", limit)], len(first) + depth)


def _finished(
    frame: Frame, c: Constants, program: list[LayerWeights], slot: str, guards: list[Guard], head: int
) -> FitBlueprint:
    s = frame.slots
    guards = [*(scale_guards(c.range_bound, c.feature_bound) if c.scaling else []), *guards]
    return FitBlueprint(
        s.places, frame.segments, program, read=s.vector(f=1.0, offset=1.0),
        coefficient=("unit", s.vector(**{slot: 1.0})), guards=guards, head=head, tail=1,
    )  # fmt: skip
