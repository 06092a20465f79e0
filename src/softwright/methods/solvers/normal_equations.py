"""Least squares and ridge regression by the normal equations: the matrix once, its inverse among the unit tokens.

    a_p = cov_j(x_jp, x_j) + penalty,  c_p = cov_j(x_jp, y_j)       one layer, all rows
    M -> A^{-1}                                                     `matrices`, two layers over 2d tokens a step
    w <- w + M r,   r_p = cov_j(x_jp, y_j - x_j.w) - penalty w      refinement, three layers each, the first from w = 0

It takes time proportional to the rows, and no leverage is too large for it: the only products of data are x_jp with
x_jq. The first refinement solves, the others put right what forming A has lost; how much the last one moves says how
many digits there are.
"""

from __future__ import annotations

from softwright.methods.constants import Constants
from softwright.methods.frame import FitBlueprint, Frame, LayerWeights, layer
from softwright.methods.guards import Guard
from softwright.methods.newton_schulz import inverse_depth
from softwright.methods.solvers.matrices import fit_layer, inverse_layers, moments, penalty_heads, times
from softwright.methods.standardise import SCALED_MOST, prepare, scale_guards
from softwright.methods.step_bound import penalty_reach

REFINEMENTS = 4
DIGITS = {"float64": 1e-9, "float32": 1e-3}  # what the last refinement may still move, relative to the largest weight
SLOTS = {"z": True, "a": True, "t": True, "penalty": True, "c": False, "w": False, "step": False, "f": False}


def slots(coordinates: int) -> dict[str, int]:
    return {name: coordinates if wide else 1 for name, wide in SLOTS.items()}


def begin(frame: Frame, c: Constants) -> tuple[list[LayerWeights], int]:
    """Preparation, the matrix and its inverse; and how many layers prepare the prompt."""
    s = frame.slots
    largest = c.features * SCALED_MOST if c.scaling else c.largest_eigenvalue + c.penalty
    units = frame.fixed("unit")
    frame.change_fixed("unit", units + 1.9 / largest * (units @ s.select("e")) @ s.select("z").T)
    first = prepare(
        frame, targets=("offset",) if c.intercept else (), scaling=c.scaling, angles=c.angles, penalty=c.penalty,
        range_bound=c.range_bound, feature_bound=c.feature_bound,
    )  # fmt: skip
    matrix = moments(frame, c, s.select("x"), s.select("a").T)
    matrix += penalty_heads(frame, c, s.select("a").T + s.select("penalty").T)
    keys = (*frame.data, "unit") if c.penalty > 0 else frame.data
    depth = inverse_depth(largest, 1.0 / c.condition, c.accuracy) if c.steps is None else c.steps
    inverse = inverse_layers(frame, c, c.condition)
    return [*first, layer("matrix", ("unit",), keys, matrix), *inverse * depth], len(first)


def refinement(frame: Frame, c: Constants) -> list[LayerWeights]:
    """r from the rows, w <- w + M r, and the predictions that belong to w."""
    s = frame.slots
    heads = moments(frame, c, s.vector(y=1.0, f=-1.0), s.vector(c=1.0))
    if c.penalty > 0:
        heads += times(frame, c, "penalty", s.vector(w=1.0), -s.vector(c=1.0), penalty_reach(c) ** 2)
    keys = (*frame.data, "unit") if c.penalty > 0 else frame.data
    solve = times(frame, c, "z", s.vector(c=1.0), s.vector(step=1.0, w=1.0), c.condition)
    return [
        layer("residual", ("unit",), keys, heads, s.residual(("c", "c", 0.0))),
        layer("solve", ("unit",), ("unit",), solve, s.residual(("step", "step", 0.0))),
        fit_layer(frame, c, frame.data, "w"),
    ]


def refusals(frame: Frame, c: Constants, inverted: int, end: int) -> list[Guard]:
    """Whether M is an inverse, and whether the last refinement still moved anything."""
    units = ("unit",)
    singular = (
        "the features are worse conditioned than the stack was built for, or linearly dependent; "
        "raise condition, add a penalty (ridge), or remove redundant columns"
    )
    lost = (
        "the features are so nearly dependent that digits are lost: the last refinement still moves the coefficients; "
        "raise condition, add a penalty (ridge), remove redundant columns, or use float64"
    )
    limit = max(1e3 * c.accuracy, 1e-6 if c.dtype == "float64" else 1e-2)
    return [
        *(scale_guards(c.range_bound, c.feature_bound) if c.scaling else []),
        Guard(
            "inverse", inverted, limit, singular, "t", "e", (), units, penalty_slot="t",
            wanted=float(frame.coordinates),
        ),
        Guard("refined", end, DIGITS[c.dtype], lost, "step", "w", units, ()),
    ]  # fmt: skip


def normal_equations(constants: Constants) -> FitBlueprint:
    """Least squares, or ridge with constants.penalty > 0."""
    c = constants
    frame = Frame(c.features, c.intercept, constant=False, extra=slots(c.features))
    s = frame.slots
    start, head = begin(frame, c)
    program = [*start, *refinement(frame, c) * REFINEMENTS]
    guards = refusals(frame, c, len(start), len(program))
    return FitBlueprint(
        s.places, frame.segments, [*program, fit_layer(frame, c, ("query",), "w")], read=s.vector(f=1.0, offset=1.0),
        coefficient=("unit", s.vector(w=1.0)), guards=guards, head=head, tail=1,
    )  # fmt: skip
