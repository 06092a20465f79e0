"""Generalised linear models in context: logistic, Poisson and robust (log-cosh) regression.

    minimise  1/n sum_j loss(s_j, y_j) + penalty/2 |w|^2,   s_j = w.x_j + b

    logistic   log(1 + e^s) - y s           mean G = sigmoid(s)        weight a = sigmoid(s) sigmoid(-s), the curvature
    poisson    e^s - y s                    mean G = e^s               weight a = e^s, the curvature
    robust     c^2 log cosh((s - y)/c)      slope  G = c tanh((s-y)/c) weight a = tanh(r)/r, r = (s-y)/c

Every token carries its own s_i = w.x_i, and z_i = M x_i with M near the inverse of the Hessian. The constant is the
last coordinate of x. Iteratively reweighted least squares, two layers per iteration:

    link    G_j by an exact two-token link, log a_j by soft cells (for Poisson it is s_j itself)
    step    s_i <- s_i - [ mean_j (x_j.z_i)(G_j - y_j) + sum_p (g_p.z_i) s_p ]          Newton's step
            z_i <- 2 z_i - [ mean_j a_j (x_j.z_i) z_j + sum_p (g_p.z_i) z_p ]           Newton and Schulz's, alongside

Plain means, not covariances, come from counting tokens: one per observation, score m, value 0. A head with scores
log a_j + s t_j on the observations then gives sum_j a_j e^{s t_j} v_j / (n e^m) up to a factor 1 + e^{-m} mean(a), and
the output weight carries e^m: a mean over n that no weight of the stack depends on.

M starts at the largest curvature there is (logistic 1/4, robust 1, Poisson at a rate above the mean count), so that it
only grows later: too small an M makes short steps, too large a one diverges. Poisson halves its first four steps.

For the robust loss Newton's own weight, 1/cosh^2(r), vanishes at outliers and diverges; tanh(r)/r majorises the loss,
so that every step descends, and its fixed point is the same. As weights may rise while residuals fall, the first half
of the steps keeps M at the curvature 1, which majorises too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from softwright.attention.stack import HeadWeights, LayerWeights
from softwright.methods.bilinear import bilinear_heads
from softwright.methods.constants import Constants
from softwright.methods.frame import FitBlueprint, Frame, Pair, layer
from softwright.methods.gradient import DEFAULT_STEPS
from softwright.methods.guards import Guard, response_guard, step_guards
from softwright.methods.links import Link, cell_edges, cell_scores, link_head, link_tokens, soft_cell_rows
from softwright.methods.newton_schulz import inverse_depth
from softwright.methods.standardise import SCALED_MOST, prepare, scale_guards

SINK = {"float64": 32.0, "float32": 14.0}  # m: e^-m is truncation, m times the unit roundoff is rounding
_EXP_CEILING = {"float64": 48.0, "float32": 24.0}
_RESPONSE = {"float64": 18.0, "float32": 7.0}  # below the ceiling e^s has its digits
_RATES = (-12, 24)  # octaves of mean counts
Combination = Callable[[Fraction], dict[str, Fraction]]  # of loss_scale: the weight of each slot


@dataclass(frozen=True)
class Family:
    """A generalised linear model, as its two layers see it.

    The link layer writes G = link(argument), the argument linear in s and y; the step layer takes steps against the
    mean of slope times x, the slope of the loss linear in G, y and data, which is 1 at observations alone. `curvature`
    is the largest of the loss, None if it is `rate_bound`. `log_weight` is the logarithm of the weight of an
    observation in Newton's matrix, a function of the argument; None if the argument itself. Newton's method takes
    `steps` steps, of which the first `careful` are halved, or with `majorised` keep the first inverse. `unsettled` and
    `leverage` end the sentences of the guards.
    """

    link: Link
    argument: Combination
    slope: Combination
    curvature: float | None
    log_weight: Callable[[np.ndarray], np.ndarray] | None
    start: Literal["zero", "mean", "log mean"]
    steps: int
    careful: Callable[[int], int] = lambda steps: 0
    majorised: bool = False
    unsettled: str = "raise steps or condition"
    leverage: str = ""

    def largest_curvature(self, constants: Constants) -> float:
        return constants.rate_bound if self.curvature is None else self.curvature


def _weights(combination: Combination, constants: Constants) -> dict[str, float]:
    return {slot: float(weight) for slot, weight in combination(Fraction(constants.loss_scale)).items()}


def _frame(constants: Constants, family: Family) -> Frame:
    d = constants.features + int(constants.intercept)
    extra = {"z": d, "s": 1, "G": 1, "log_a": 1, "slope": 1, "bias": 1, "value": 1, "link": 1, "weights": 1, "rates": 1}
    start = {} if family.curvature is None else {"log_a": math.log(family.curvature)}
    frame = Frame(constants.features, constants.intercept, constants.intercept, extra, counting=True, start=start)
    ceiling = _EXP_CEILING[constants.dtype]
    rows = family.link.tokens(ceiling, float(np.exp(ceiling)))
    frame.add_fixed("link", link_tokens(frame.slots, "link", rows))
    if family.log_weight is not None:
        frame.add_fixed("weights", link_tokens(frame.slots, "weights", soft_cell_rows(family.log_weight)))
    return frame


def mean_heads(
    frame: Frame,
    constants: Constants,
    Q: np.ndarray,
    V: np.ndarray,
    O: np.ndarray,  # noqa: E741
    also: list[Pair],
) -> list[HeadWeights]:
    """mean_j a_j (x_j.q_i) v_j by counting tokens."""
    s = frame.slots
    sink = SINK[constants.dtype]
    count = (s.vector(one=1.0), s.vector(count=sink))
    return bilinear_heads(
        Q, s.select("x"), V, O, reach=constants.score_bound, order=constants.order, angle=constants.angle,
        also=[frame.only("data", "count"), frame.weighted, count, *also], factor=math.exp(sink),
    )  # fmt: skip


def _penalty_heads(
    frame: Frame,
    constants: Constants,
    Q: np.ndarray,
    V: np.ndarray,
    O: np.ndarray,  # noqa: E741
) -> list[HeadWeights]:
    """sum_p (g_p.q_i) v_p over the unit tokens."""
    if constants.penalty == 0:
        return []
    return bilinear_heads(
        Q, frame.slots.select("g"), V, O, reach=constants.score_bound, order=constants.order, angle=constants.angle,
        also=[frame.only("pen")], factor=float(constants.features),
    )  # fmt: skip


def _newton_heads(frame: Frame, constants: Constants, family: Family) -> list[HeadWeights]:
    s = frame.slots
    log_a = s.vector(**_weights(family.argument, constants)) if family.log_weight is None else s.vector(log_a=1.0)
    z = s.select("z")
    heads = mean_heads(frame, constants, z, z, -z.T, [(s.vector(one=1.0), log_a)])
    return heads + _penalty_heads(frame, constants, z, z, -z.T)


def _step_heads(frame: Frame, constants: Constants, family: Family, Q: np.ndarray, eta: float) -> list[HeadWeights]:
    s = frame.slots
    slope = s.vector(**_weights(family.slope, constants))
    heads = mean_heads(frame, constants, Q, slope, -eta * s.vector(s=1.0), [])
    return heads + _penalty_heads(frame, constants, Q, s.vector(s=1.0), -eta * s.vector(s=1.0))


def _link_layer(
    frame: Frame, constants: Constants, family: Family, rows: tuple[str, ...], weights: bool
) -> LayerWeights:
    s = frame.slots
    argument = s.vector(**_weights(family.argument, constants))
    heads, keys, changes = [link_head(s, "link", argument, "G")], ["link"], [("G", "G", 0.0)]
    if weights and family.log_weight is not None:
        heads.append(link_head(s, "weights", argument, "log_a"))
        keys.append("weights")
        changes.append(("log_a", "log_a", 0.0))
    return layer("link", rows, keys, heads, s.residual(*changes))


def _start(frame: Frame, constants: Constants, family: Family, start: float) -> list[LayerWeights]:
    """Preparation, and where s begins: 0, the mean of y, or just above the log of the mean count."""
    c, s = constants, frame.slots
    targets: dict[str, tuple[str, ...]] = {"zero": (), "mean": ("s",), "log mean": ("offset",)}
    first = prepare(
        frame, targets=targets[family.start] if c.intercept else (), scaling=c.scaling, angles=c.angles,
        centre_y=False, curvature=family.largest_curvature(c), penalty=c.penalty, range_bound=c.range_bound,
        feature_bound=c.feature_bound, start=start,
    )  # fmt: skip
    if family.start == "log mean" and c.intercept:
        edges = cell_edges(*_RATES, 2)
        slopes, offsets = cell_scores(edges)
        rows = zip(slopes.tolist(), offsets.tolist(), np.log(edges[1:]).tolist(), strict=True)
        frame.add_fixed("rates", link_tokens(s, "rates", list(rows)))
        first.append(layer("start", ("data", "query"), ("rates",), [link_head(s, "rates", s.vector(offset=1.0), "s")]))
    return first


def reweighted(constants: Constants, family: Family) -> FitBlueprint:
    """IRLS with Newton and Schulz's iteration alongside."""
    c = constants
    frame = _frame(c, family)
    s = frame.slots
    coordinates = frame.coordinates
    curvature = family.largest_curvature(c)
    largest = coordinates * SCALED_MOST if c.scaling else coordinates * (curvature + c.penalty)
    first = _start(frame, c, family, 1.9 / largest)
    smallest = 1.0 / c.condition / (c.rate_bound if family.curvature is None else 1.0)
    depth = inverse_depth(largest, smallest, 1e-3)  # Newton's method puts right what is left
    rows = ("data", *frame.queries, *(("unit",) if c.penalty > 0 else ()))
    keys = ("data", "count", *(("unit",) if c.penalty > 0 else ()))
    doubled = s.residual(("z", "z", 2.0))
    newton = _newton_heads(frame, c, family)
    inverse = layer("newton-schulz", rows, keys, newton, doubled)
    link = _link_layer(frame, c, family, ("data",), True)
    count = c.steps or family.steps
    full = layer("step", rows, keys, newton + _step_heads(frame, c, family, s.select("z"), 1.0), doubled)
    half = layer("step", rows, keys, newton + _step_heads(frame, c, family, s.select("z"), 0.5), doubled)
    calm = layer("step", rows, keys, _step_heads(frame, c, family, s.select("z"), 1.0))
    early = family.careful(count)
    careful = calm if family.majorised else half
    program = [*first, *[inverse] * depth, *[link, careful] * early, *[link, full] * (count - early)]
    end = len(program)
    guards = [
        *(scale_guards(c.range_bound, c.feature_bound, curvature) if c.scaling else []),
        Guard(
            "scores", end, 2.0 * c.score_bound,
            "a row or query has more leverage than the stack was built for, |x_i M x_j| is beyond score_bound; "
            "raise score_bound or the penalty" + family.leverage,
            "z", "x", ("data", "query"), ("data",),
        ),
        _settled(family, end, c),
    ]  # fmt: skip
    return _read(frame, c, family, program, guards, len(first) + depth)


def _settled(family: Family, end: int, constants: Constants) -> Guard:
    limit = 1e-7 if constants.dtype == "float64" else 1e-2
    remedy = f"the predictions still move in the last iteration: {family.unsettled}"
    return Guard("settled", end, limit, remedy, "s", "s", ("data",), (), reach=4, wanted=2.0)


def _read(
    frame: Frame, c: Constants, family: Family, program: list[LayerWeights], guards: list[Guard], head: int
) -> FitBlueprint:
    s = frame.slots
    tail = 0
    read = s.vector(s=1.0)
    if c.response and family.argument(Fraction(1)) == {"s": 1}:  # the link is that of predictions, not of residuals
        program = [*program, _link_layer(frame, c, family, ("query",), False)]
        if not family.link.bounded:
            guards = [*guards, response_guard(len(program), _EXP_CEILING[c.dtype] - _RESPONSE[c.dtype])]
        read, tail = s.vector(G=1.0), 1
    return FitBlueprint(
        s.places, frame.segments, program, read=read, coefficient=("basis", s.vector(s=1.0)), guards=guards,
        head=head, tail=tail,
    )  # fmt: skip


def descent(constants: Constants, family: Family) -> FitBlueprint:
    """Plain gradient descent of the same loss, two layers per step (link, step), on features as they are given."""
    c = constants
    frame = _frame(c, family)
    s = frame.slots
    first = _start(frame, c, family, 0.0)
    link = _link_layer(frame, c, family, ("data",), False)
    rows = ("data", *frame.queries, *(("unit",) if c.penalty > 0 else ()))
    keys = ("data", "count", *(("unit",) if c.penalty > 0 else ()))
    own = s.select("x") + s.select("g")
    step = layer("step", rows, keys, _step_heads(frame, c, family, own, c.eta))
    remedy = "two rows have a larger product |x_i.x_j| than score_bound; raise score_bound, or scale the features"
    guards = [Guard("scores", len(first), 2.0 * c.score_bound, remedy, "x", "x", ("data", "query"), ("data",))]
    count = c.steps or DEFAULT_STEPS
    end = len(first) + 2 * count
    if not family.link.bounded:
        remedy = "a prediction of the data is so large that its e^s has no digits left; lower step_size"
        most = _EXP_CEILING[c.dtype] - _RESPONSE[c.dtype]
        guards.append(Guard("above", end - 2, most, remedy, "s", "", ("data",), ()))
    guards += step_guards(count, 2, len(first), "s")
    return _read(frame, c, family, [*first, *[link, step] * count], guards, len(first))


def default_step(constants: Constants, family: Family) -> float:
    """1 over the largest curvature there is, the constant's column included; rates are taken to be about 1."""
    curvature = 1.0 if family.curvature is None else family.curvature
    return 1.0 / (curvature * (constants.most + 1.0) + constants.penalty)
