"""Least squares and ridge regression by Newton and Schulz's iteration, z_i = M x_i for every token at once:

    M <- 2M - M A M,   A = cov(x) + sum_p g_p g_p^T    i.e.    z_i <- 2 z_i - cov_j(x_j.z_i, z_j) - ...

one layer per step, and M -> A^{-1}: the error of an eigenvalue squares in each, so that about
log2(ln(1/eps) * largest/smallest eigenvalue) layers suffice. Then f_i = cov_j(x_j.z_i, y_j) is the prediction.

Unit tokens, with their slot g, stand for the ridge penalty of the coefficients as the user knows them. The iteration
starts at M = 1.9/(bound of the trace of A), so that all eigenvalues of M A are below 2.
"""

from __future__ import annotations

import math

from softwright.attention.stack import HeadWeights, LayerWeights
from softwright.methods.bilinear import bilinear_heads
from softwright.methods.constants import Constants
from softwright.methods.frame import FitBlueprint, Frame, layer
from softwright.methods.guards import Guard
from softwright.methods.standardise import SCALED_MOST, prepare, scale_guards


def inverse_depth(largest: float, smallest: float, accuracy: float) -> int:
    """Layers until (1 - c smallest)^(2^L) <= accuracy for the start c = 1.9/largest."""
    return max(1, math.ceil(math.log2(math.log(1.0 / accuracy) * largest / (1.9 * smallest))))


def step_heads(frame: Frame, constants: Constants, penalised: bool) -> list[HeadWeights]:
    """The heads of one Newton-Schulz step; the unit tokens stand for a penalty."""
    s = frame.slots
    shared = {"reach": constants.score_bound, "order": constants.order, "angle": constants.angle}
    heads = bilinear_heads(
        s.select("z"), s.select("x"), s.select("z"), -s.select("z").T,
        also=[frame.only("data"), frame.weighted], **shared,
    )  # fmt: skip
    if penalised:
        heads += bilinear_heads(
            s.select("z"), s.select("g"), s.select("z"), -s.select("z").T,
            also=[frame.only("pen")], factor=float(frame.features), **shared,
        )  # fmt: skip
    return heads


def step_layer(frame: Frame, constants: Constants, penalised: bool, rows: tuple[str, ...]) -> LayerWeights:
    rows, keys = (*rows, "unit") if penalised else rows, (*frame.data, "unit") if penalised else frame.data
    doubled = frame.slots.residual(("z", "z", 2.0))
    return layer("newton-schulz", rows, keys, step_heads(frame, constants, penalised), doubled)


def score_guard(position: int, constants: Constants, rows: tuple[str, ...], keys: tuple[str, ...]) -> Guard:
    remedy = (
        "a row or query has more leverage than the stack was built for, |x_i M x_j| is beyond score_bound; "
        "raise score_bound, or remove the outlier"
    )
    return Guard("scores", position, 2.0 * constants.score_bound, remedy, "z", "x", rows, keys)


def inverse_guard(position: int, constants: Constants, frame: Frame, penalised: bool) -> Guard:
    remedy = (
        "the features are worse conditioned than the stack was built for, or linearly dependent; "
        "raise condition, add a penalty (ridge), or remove redundant columns"
    )
    limit = max(1e3 * constants.accuracy, 1e-6 if constants.dtype == "float64" else 1e-2)
    return Guard(
        "inverse", position, limit, remedy, "x", "z", frame.data, ("unit",) if penalised else (),
        weight_slot="log_weight", penalty_slot="g", wanted=float(frame.coordinates),
    )  # fmt: skip


def newton_schulz(constants: Constants) -> FitBlueprint:
    """Least squares, or ridge with constants.penalty > 0."""
    c = constants
    frame = Frame(c.features, c.intercept, constant=False, extra={"z": c.features, "f": 1})
    s = frame.slots
    largest = c.features * SCALED_MOST if c.scaling else c.largest_eigenvalue + c.penalty
    first = prepare(
        frame, targets=("offset",) if c.intercept else (), scaling=c.scaling, angles=c.angles, penalty=c.penalty,
        range_bound=c.range_bound, feature_bound=c.feature_bound, start=1.9 / largest,
    )  # fmt: skip
    depth = inverse_depth(largest, 1.0 / c.condition, c.accuracy) if c.steps is None else c.steps
    step = step_layer(frame, c, c.penalty > 0, (*frame.data, *frame.queries))
    read = bilinear_heads(
        s.select("z"), s.select("x"), s.vector(y=1.0), s.vector(f=1.0),
        reach=c.score_bound, order=c.order, angle=c.angle, also=[frame.only("data"), frame.weighted],
    )  # fmt: skip
    before = len(first) + depth
    lost = (
        "the features are so nearly dependent that digits are lost: a refinement would still move the coefficients; "
        "use the solver normal_equations, which refines, add a penalty (ridge), or remove redundant columns"
    )
    refined = Guard(
        "corrected", before + 1, 1e-8 if c.dtype == "float64" else 1e-2, lost, "f", "z", frame.data, ("basis",),
        weight_slot="log_weight", penalty_slot="g",
    )  # fmt: skip
    guards = [
        *(scale_guards(c.range_bound, c.feature_bound) if c.scaling else []),
        inverse_guard(before, c, frame, c.penalty > 0),
        score_guard(before, c, (*frame.data, "query"), frame.data),
        refined,
    ]
    program = [*first, *[step] * depth, layer("read", frame.queries, frame.data, read)]
    return FitBlueprint(
        s.places, frame.segments, program, read=s.vector(f=1.0, offset=1.0), coefficient=("basis", s.vector(f=1.0)),
        guards=guards, head=len(first), tail=1,
    )  # fmt: skip
