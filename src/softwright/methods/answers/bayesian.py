"""Bayesian linear regression in context: the posterior of the coefficients, as means and variances of predictions.

    y = w.x + b + noise of variance v,   w ~ N(0, v/(n penalty)),   b with a flat prior

The posterior mean is ridge regression (`normal_equations`). The variance of a new observation at x, with M the inverse
of cov(x) + penalty and x taken from the mean, is

    v (1 + 1/n + x.M x/n).

z = M x comes from the unit tokens, one layer; x.M x = z.(cov + penalty) z = mean_j (x_j.z)^2 + sum_p (g_p.z)^2. Those
are squares as in `squares`, with scores s x_j.z at both signs, and counting tokens for a sink, so that it is a mean.
1/n is the share of one null token among the observations, n the sum of their weights. The stack says mean, spread x.M x
and share 1/n; the last product is taken outside, as that of coefficients and their scales is.
"""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor, stack

from softwright.methods.answers.squares import ANGLE, ORDER, SINK, square_heads
from softwright.methods.bilinear import richardson
from softwright.methods.constants import Constants
from softwright.methods.frame import FitBlueprint, Frame, HeadWeights, head, layer
from softwright.methods.guards import Guard
from softwright.methods.solvers.matrices import fit_layer, times
from softwright.methods.solvers.normal_equations import REFINEMENTS, begin, refinement, refusals, slots


def bayesian_ridge(constants: Constants) -> FitBlueprint:
    c = constants
    frame = Frame(c.features, True, constant=False, extra={**slots(c.features), "square": 1, "share": 1}, counting=True)
    s = frame.slots
    start, first = begin(frame, c)
    program = [*start, *refinement(frame, c) * REFINEMENTS]
    guards = refusals(frame, c, len(start), len(program))
    inverse = layer(
        "posterior", ("query",), ("unit",), times(frame, c, "x", "z", s.select("z").T, c.feature_bound),
        s.residual(("z", "z", 0.0)),
    )  # fmt: skip
    heads, constant = _mean_squares(frame, c)
    more, other = square_heads(
        s, c.dtype, s.select("z"), s.select("g"), "square", reach=c.score_bound, also=[frame.only("pen", "null")]
    )
    share = head(
        [frame.only("data", "null"), frame.weighted, (s.vector(one=1.0), s.vector(null=-SINK[c.dtype]))],
        s.vector(null=1.0),
        math.exp(SINK[c.dtype]) * s.vector(share=1.0),
    )  # fmt: skip
    R = s.residual()
    R[s.places["one"][0], s.places["square"][0]] = -constant - 2.0 * c.features * other
    variance = layer("variance", ("query",), ("data", "count", "unit", "null"), [*heads, *more, share], R)
    far = "a query has more leverage than the stack was built for, |x_i M x_j| is beyond score_bound; raise score_bound"
    guards.append(Guard("scores", len(program) + 1, c.score_bound, far, "z", "x", ("query",), ("data",)))
    tail = [inverse, variance, fit_layer(frame, c, ("query",), "w")]
    read = np.stack([s.vector(f=1.0, offset=1.0), s.vector(square=1.0), s.vector(share=1.0)], axis=1)
    return FitBlueprint(
        s.places, frame.segments, [*program, *tail], read=read, coefficient=("unit", s.vector(w=1.0)), guards=guards,
        head=first, tail=len(tail),
    )  # fmt: skip


def _mean_squares(frame: Frame, c: Constants) -> tuple[list[HeadWeights], float]:
    """Heads that add mean_j (x_j.z)^2 to `square`, but for the constant that is returned."""
    s, delta = frame.slots, ANGLE[c.dtype] / c.score_bound
    sink = (s.vector(one=1.0), s.vector(count=SINK[c.dtype]))
    heads, constant = [], 0.0
    for h, c_h in enumerate(richardson(ORDER[c.dtype]), 1):
        weight = float(c_h) / (h * delta * delta)
        out = weight * math.exp(SINK[c.dtype]) * s.vector(square=1.0)
        for sign in (1.0, -1.0):
            scores = [
                frame.only("data", "count"),
                frame.weighted,
                sink,
                (sign * h * delta * s.select("z"), s.select("x")),
            ]
            heads.append(head(scores, s.vector(data=1.0), out))
        constant += 2.0 * weight
    return heads, constant


def finish(found: Tensor, constants: Constants) -> Tensor:
    """Mean and variance of what is to be observed at the queries."""
    mean, spread, share = found.unbind(dim=-1)
    return stack([mean, constants.option("noise") ** 2 * (1.0 + share * (1.0 + spread))], dim=-1)


def exact_bayesian_ridge(x: np.ndarray, y: np.ndarray, queries: np.ndarray, c: Constants) -> np.ndarray:
    n, mean = len(y), x.mean(axis=0)
    rows, asked = x - mean, queries - mean
    posterior = np.linalg.inv(rows.T @ rows / n + c.penalty * np.eye(x.shape[1]))
    w = posterior @ (rows.T @ (y - y.mean()) / n)
    spread = np.einsum("qi,ij,qj->q", asked, posterior, asked)
    return np.stack([asked @ w + y.mean(), c.option("noise") ** 2 * (1 + (1 + spread) / n)], axis=1)
