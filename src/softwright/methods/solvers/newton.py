"""Newton's method for generalised linear models, damped: steps that never leave the region where they can be trusted.

    minimise  mean_j loss(s_j, y_j) + penalty/2 |w|^2,   s_j = w.x_j,  the constant the last coordinate of x

The coefficients w stand at the unit tokens. One iteration:

    link      G_j and log a_j from s_j at the observations (`Curve` says how), where they are not s_j itself
    matrix    A = mean_j a_j x_j x_j^T + penalty,   c = mean_j slope_j x_j + penalty w            at the unit tokens
    start     z_p = 1.9/(d B) e_p, B above A_pp by cells: with this M the eigenvalues of M A are below 1.9
    inverse   Newton and Schulz among the unit tokens (`matrices`), anew in every iteration: weights may change
    step      v = -M c
    size      v.x_j at the observations; two hard heads find max_j (v.x_j)^+ + max_j (v.x_j)^-, the size of the step
    gate      logit of the damping tau = min(1, TRUST/size), by cells
    move      w <- w + tau v: a softmax over the unit token itself, score logit(tau), and the null token
    fit       s_j = w.x_j

No prediction moves by more than TRUST in a step, so that exp of it cannot run away from a poor start: counts such as
37, 1, 0, .. make an undamped step of 20 and more. Where all steps are full this is Newton's method. M and log a only
steer; the solution is where c vanishes, and c is a mean over the rows with exact links.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from softwright.methods.bilinear import richardson
from softwright.methods.constants import Constants
from softwright.methods.frame import FitBlueprint, Frame, HeadWeights, LayerWeights, Pair, head, layer
from softwright.methods.guards import Guard, response_guard
from softwright.methods.links import Row, cell_scores, link_head, link_tokens
from softwright.methods.newton_schulz import inverse_depth
from softwright.methods.solvers.matrices import (
    FALLING_SINK,
    SINK,
    fit_layer,
    inverse_layers,
    penalty_heads,
    plain_mean,
    times,
)
from softwright.methods.standardise import prepare, scale_guards
from softwright.methods.step_bound import penalty_reach

TRUST = 2.0  # a prediction moves at most so far in a step
_HARD = 2.0**44
_OPEN = {"float64": 40.0, "float32": 17.0}  # logit of a damping of 1
_CELLS = 0.7390851332151607 * 4.0 ** np.arange(-20, 21)  # of the diagonal of A
_SIZES = 0.7390851332151607 * 2.0 ** (np.arange(0, 121) / 2)  # of steps
_FINER, _CELLS_OF_Y = 8.0, 12  # cells of y, down to the 7e10th part of rate_bound
_LIMIT = {"float64": 1e-8, "float32": 1e-2}
_SHORT = {"float64": 1e-8, "float32": 1e-3}  # what means with weights may fall short by
Combination = Callable[[Constants], Mapping[str, float]]


@dataclass(frozen=True)
class CurveLink:
    """A number that the observations take from constant tokens: `rows` by the argument, written to a slot. With
    `gated` the tokens of y = 1 come first, then those of y = 0, and each observation sees its own alone; with `times_y`
    the result is multiplied with y, by heads over four tokens in place of two."""

    target: str
    argument: Combination
    rows: Callable[[Constants], list[Row]]
    gated: bool = False
    times_y: bool = False


@dataclass(frozen=True)
class Curve:
    """A loss as the iteration sees it: what links compute, the slope as a sum of means (log weight, value), both linear
    in the slots of an observation, and log a. `response` turns s into what is expected of y."""

    links: tuple[CurveLink, ...]
    slope: tuple[tuple[Combination, Combination], ...]
    log_weight: Combination
    response: Callable[[Constants], list[Row]] | None = None
    largest_response: Callable[[Constants], float] | None = None  # the s at which `response` ends
    steps: int = 24
    largest_y: bool = False  # whether |y| is bounded by rate_bound
    counted: Literal["", "rising", "falling"] = ""  # whether weights of the slope are e^s, or e^-s
    largest_s: float = math.inf  # where links end
    unsettled: str = "raise steps or condition"


def diagonal_cells(frame: Frame, largest: int) -> LayerWeights:
    """Unit tokens read their own entry of `a` and begin z as 1.9/(d B) e_p."""
    s, (slopes, offsets) = frame.slots, cell_scores(_CELLS)
    blocks = []
    for p in range(frame.coordinates):
        for sign in (1.0, -1.0):
            block = np.tile(s.vector(one=1.0, **({"pos": 1.0} if sign > 0 else {"neg": 1.0})), (len(slopes), 1))
            block[:, slice(*s.places["other"])] = 1.0
            block[:, s.places["other"][0] + p] = 0.0
            block[:, s.places["a"][0] + p] = sign * slopes
            block[:, s.places["bias"][0]] = offsets
            block[:, s.places["z"][0] + p] = sign * 1.9 / (largest * _CELLS[1:])
            blocks.append(block)
    frame.add_fixed("diagonal", np.concatenate(blocks))
    pairs = [*frame.itself, (s.select("a"), s.select("a")), (s.vector(one=1.0), s.vector(bias=1.0))]
    return layer(
        "start", ("unit",), ("diagonal",), [head(pairs, s.select("z"), s.select("z").T)], s.residual(("z", "z", 0.0))
    )


def _gate_rows(c: Constants) -> list[Row]:
    """Cells of sizes of steps: the logit of TRUST over the upper edge of the cell, open where no damping is needed."""
    slopes, offsets = cell_scores(_SIZES)
    factor = np.minimum(TRUST / _SIZES[1:], 1.0)
    logits = np.where(factor >= 1.0, _OPEN[c.dtype], np.log(factor) - np.log1p(-np.minimum(factor, 0.999)))
    return list(zip(slopes.tolist(), offsets.tolist(), logits.tolist(), strict=True))


def _link_layers(frame: Frame, c: Constants, curve: Curve) -> list[LayerWeights]:
    """One layer that fills the slots of all links."""
    s = frame.slots
    heads, keys, changes = [], [], []
    one = s.vector(one=1.0)
    for place, link in enumerate(curve.links):
        rows, own = link.rows(c), f"own{place}"
        tokens = link_tokens(s, own, rows)
        # A head of one link sees the tokens of the others 2^60 below, so that they weigh nothing: their slopes, up to
        # 40, meet an argument that may be a count of 10^9.
        pairs: list[Pair] = [
            (s.vector(**link.argument(c)), s.vector(slope=1.0)),
            (one, s.vector(bias=1.0)),
            (one, 2.0**60 * (s.vector(**{own: 1.0}) - one)),
        ]
        if link.gated:
            half = len(rows) // 2
            tokens[:half, s.places["gate"][0]] = 1.0
            tokens[half:, s.places["gate"][0]] = -1.0
            # y = 1: +2^19 for the first half, -2^19 for the second; y = 0 the other way round.
            pairs.append((2.0**20 * s.vector(y=1.0) - 2.0**19 * one, s.vector(gate=1.0)))
        if link.times_y:
            tokens, several = _times_y(frame, c, tokens, pairs, link.target)
            heads += several
        else:
            heads.append(head(pairs, s.vector(value=1.0), s.vector(**{link.target: 1.0})))
        frame.add_fixed(f"link{place}", tokens)
        keys.append(f"link{place}")
        changes.append((link.target, link.target, 0.0))
    return [layer("link", ("data",), keys, heads, s.residual(*changes))] if heads else []


def _times_y(
    frame: Frame, c: Constants, tokens: np.ndarray, pairs: list[Pair], target: str
) -> tuple[np.ndarray, list[HeadWeights]]:
    """Tokens, and heads whose sum is link times y: the second half of the tokens is the first with values turned, and
    scores +u y and -u y beside their own make link * tanh(u y); Richardson's weights over u = h delta leave y itself.

    The tokens are there once for each cell of y, up to the edge B with delta = angle/B and values over delta, so that
    what is lost is in the size of this y and not of the largest. Where two cells blend, either is right.
    """
    s, count = frame.slots, len(tokens) // 2
    edges = c.rate_bound * _FINER ** -np.arange(_CELLS_OF_Y, -1.0, -1.0)
    slopes, offsets = cell_scores(edges)
    blocks = []
    for slope, offset, edge in zip(slopes, offsets, edges[1:], strict=True):
        block = tokens.copy()
        block[:, s.places["gate"][0]] = np.where(np.arange(2 * count) < count, 1.0, -1.0) * c.angle / edge
        block[:, s.places["value"][0]] *= edge / c.angle
        block[:, s.places["cell"][0]], block[:, s.places["edge"][0]] = slope, offset
        blocks.append(block)
    of_cell: list[Pair] = [(s.vector(y=1.0), s.vector(cell=1.0)), (s.vector(one=1.0), s.vector(edge=1.0))]
    heads = []
    for h, weight in enumerate(richardson(c.order), 1):
        more = [*pairs, *of_cell, (h * s.vector(y=1.0), s.vector(gate=1.0))]
        heads.append(head(more, s.vector(value=1.0), float(weight) * s.vector(**{target: 1.0})))
    return np.concatenate(blocks), heads


def _frame(c: Constants, curve: Curve) -> Frame:
    d = c.features + int(c.intercept)
    wide = dict.fromkeys(("z", "a", "t", "penalty"), d)
    single = ("c", "w", "step", "s", "move", "size", "gate", "slope", "bias", "value", "trust", "answer")
    single += ("cell", "edge") * any(link.times_y for link in curve.links)
    extra = {**wide, **dict.fromkeys(single, 1), **{link.target: 1 for link in curve.links}}
    extra |= {f"own{place}": 1 for place in range(len(curve.links))}
    return Frame(c.features, c.intercept, c.intercept, extra, counting=True)


def _sink(c: Constants, curve: Curve) -> float:
    return (FALLING_SINK if curve.counted == "falling" else SINK)[c.dtype]


def damped_newton(constants: Constants, curve: Curve) -> FitBlueprint:
    c = constants
    frame = _frame(c, curve)
    s, unit, d = frame.slots, ("unit",), frame.coordinates
    first = prepare(
        frame, targets=(), scaling=c.scaling, angles=c.angles, centre_y=False, penalty=c.penalty,
        range_bound=c.range_bound, feature_bound=c.feature_bound,
    )  # fmt: skip
    links = _link_layers(frame, c, curve)
    begin = diagonal_cells(frame, d)
    frame.add_fixed("trust", link_tokens(s, "trust", _gate_rows(c)))
    sink = _sink(c, curve)
    matrix = plain_mean(frame, c, s.select("x"), s.select("a").T, s.vector(**curve.log_weight(c)), sink)
    matrix += penalty_heads(frame, c, s.select("a").T + s.select("penalty").T)
    slope = []
    for log_weight, value in curve.slope:
        slope += plain_mean(frame, c, s.vector(**value(c)), s.vector(c=1.0), s.vector(**log_weight(c)), sink)
    if c.penalty > 0:
        slope += times(frame, c, "penalty", s.vector(w=1.0), s.vector(c=1.0), penalty_reach(c) ** 2)
    keys = ("data", "count", *(unit if c.penalty > 0 else ()))
    fresh = s.residual(("a", "a", 0.0), ("penalty", "penalty", 0.0))
    depth = inverse_depth(4.0 * d, 1.0 / c.condition, 1e-3)
    sizes = [
        head([(sign * _HARD * s.vector(one=1.0), s.vector(move=1.0))], sign * s.vector(move=1.0), s.vector(size=1.0))
        for sign in (1.0, -1.0)
    ]
    moved = head(
        [*frame.itself, (s.vector(gate=1.0), s.vector(unit=1.0))], s.vector(step=1.0), s.vector(w=1.0)
    )  # fmt: skip
    largest = c.condition * 4.0
    iteration = [
        *links,
        layer("matrix", unit, keys, matrix, fresh),
        layer("slope", unit, keys, slope, s.residual(("c", "c", 0.0))),
        begin,
        *inverse_layers(frame, c, largest) * depth,
        layer(
            "step", unit, unit, times(frame, c, "z", s.vector(c=1.0), -s.vector(step=1.0), largest),
            s.residual(("step", "step", 0.0)),
        ),
        fit_layer(frame, c, ("data",), "step", "move"),
        layer("size", unit, ("data", "null"), sizes, s.residual(("size", "size", 0.0))),
        layer(
            "gate", unit, ("trust",), [link_head(s, "trust", s.vector(size=1.0), "gate")],
            s.residual(("gate", "gate", 0.0)),
        ),
        layer("move", unit, ("unit", "null"), [moved]),
        fit_layer(frame, c, ("data",), "w", "s"),
    ]  # fmt: skip
    count = c.steps or curve.steps
    program = [*first, *iteration * count]
    guards = _guards(c, curve, len(program), len(iteration))
    tail = [fit_layer(frame, c, ("query",), "w", "s")]
    read = s.vector(s=1.0)
    if c.response and curve.response is not None:
        frame.add_fixed("answer", link_tokens(s, "answer", curve.response(c)))
        answer = link_head(s, "answer", s.vector(s=1.0), "answer")
        tail.append(layer("answer", ("query",), ("answer",), [answer]))
        read = s.vector(answer=1.0)
        if curve.largest_response is not None:
            guards.append(response_guard(len(program) + len(tail), curve.largest_response(c)))
    return FitBlueprint(
        s.places, frame.segments, [*program, *tail], read=read, coefficient=("unit", s.vector(w=1.0)), guards=guards,
        head=len(first), tail=len(tail),
    )  # fmt: skip


def _guards(c: Constants, curve: Curve, end: int, reach: int) -> list[Guard]:
    moves = f"the predictions still move in the last iteration: {curve.unsettled}"
    found = scale_guards(c.range_bound, c.feature_bound) if c.scaling else []
    if curve.largest_y:
        many = "a number of y is beyond rate_bound; raise rate_bound"
        found.append(Guard("scores", 0, c.rate_bound, many, "y", "one", ("data",), ("null",)))
    if curve.largest_s < math.inf:
        far = f"a prediction of the data is beyond {curve.largest_s:g}, where its link ends: are the classes separable?"
        found.append(
            Guard("scores", end, curve.largest_s, f"{far} raise the penalty", "s", "one", ("data",), ("null",))
        )
    counted: list[Guard] = []
    if curve.counted:
        end_of = "largest" if curve.counted == "rising" else "smallest"
        sizes = (
            f"the {end_of} rates are so far from 1 that digits are lost; give y in a unit in which they are nearer, or "
            "ask built(...) with an intercept, which finds one"
        )
        most = _SHORT[c.dtype] * math.exp(_sink(c, curve))
        counted.append(Guard(curve.counted, end, most, sizes, "s", "", ("data",), (), weight_slot="log_weight"))
    singular = "the weighted features are worse conditioned than the stack was built for, or linearly dependent"
    remedy = "raise condition, add a penalty, or remove redundant columns"
    inverse = Guard(
        "inverse", end, 0.1, f"{singular}; {remedy}", "t", "e", (), ("unit",), penalty_slot="t",
        wanted=float(c.features + int(c.intercept)),
    )  # fmt: skip
    found.append(Guard("settled", end, _LIMIT[c.dtype], moves, "s", "s", ("data",), (), reach=reach))
    return [*found, inverse, *counted]
