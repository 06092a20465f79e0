"""The curves of `newton`: what the loss of each generalised linear model is made of.

    logistic            log(1 + e^s) - y s        slope sigmoid(s) - y                    a = sigmoid(s) sigmoid(-s)
    poisson             e^s - y s                 slope e^s - y, e^s a weight             a = e^s
    gamma               y e^-s + s                slope 1 - y e^-s, e^-s a weight         a = y e^-s, log y by cells
    negative_binomial   (y + 1/k) log(1 + k e^s) - y s
                                                  slope p/k - y (1 - p), p = sigmoid(s + log k)
                                                  a = (y + 1/k) p (1 - p), log(y + 1/k) by cells
    probit              -log Phi(+-s)             slope -+phi(s)/Phi(+-s)                 a = phi^2/(Phi(s) Phi(-s))

e^s and e^-s need no link: they are the weights of a softmax over the observations, exactly. y (1 - p) is a link times
the number y of the same token (`newton`).

A mean of weights e^-s is right up to a factor 1 + e^-m mean(e^-s), m the score of the counting tokens. Where gamma's
slope vanishes, mean y e^-s = 1 and so mean e^-s <= 1/min y; y comes with a largest value of about 1, and over sixteen
decades of responses an m of 32 would leave nothing of that. So m is 64 there, which costs a bit of rounding, and a
guard looks at mean(e^-s). Poisson's mean e^s is that of y, about 1.

For a that is the curvature itself Newton's method converges quadratically but for what the cells miss; with the mean
of it, p/k, a count a hundred times its rate makes it diverge. Phi has no exact link; soft cells meet phi/Phi to 3e-13
on [-10, 10], and predictions of the data beyond that are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import log_ndtr

from softwright.methods.constants import Constants
from softwright.methods.links import Row, cell_scores, log_logistic_curvature, soft_cell_rows
from softwright.methods.losses import mills
from softwright.methods.solvers.newton import Combination, Curve, CurveLink

REACH = 10.0  # of the links of probit
_APART = (
    "rows of a group of their own may have counts of 0 alone, where no finite rate fits them without a penalty; "
    "raise penalty, steps or condition; if none helps, rates of the rows differ by more than the digits hold: fit rows "
    "of far smaller counts for themselves"
)
_LOGS = 0.7390851332151607 * 2.0 ** (np.arange(-160, 161) / 2)  # cells of y, for its logarithm


def _slots(**weights: float) -> Combination:
    return lambda c: weights


def _sigmoid(c: Constants) -> list[Row]:
    return [(1.0, 0.0, 1.0), (0.0, 0.0, 0.0)]


_CEILING = {"float64": 340.0, "float32": 24.0}  # of e^s as a response, which has the relative error e^(s - ceiling)


def largest_exponent(c: Constants) -> float:
    """The largest s whose e^s keeps its digits."""
    return _CEILING[c.dtype] - (20.0 if c.dtype == "float64" else 7.0)


def _exp(c: Constants) -> list[Row]:
    ceiling = _CEILING[c.dtype]
    return [(1.0, 0.0, float(np.exp(ceiling))), (0.0, ceiling, 0.0)]


def _log_y(c: Constants) -> list[Row]:
    slopes, offsets = cell_scores(_LOGS)
    return list(zip(slopes.tolist(), offsets.tolist(), np.log(_LOGS[1:]).tolist(), strict=True))


def _log_shifted(c: Constants) -> list[Row]:
    """log(y + 1/k) for 0 <= y <= rate_bound, in cells a factor 2^(1/8) wide."""
    least = 1.0 / c.loss_scale
    octaves = math.ceil(8 * math.log2(1.0 + c.loss_scale * c.rate_bound)) + 8
    edges = 2.0 ** (-1 / 16) * least * 2.0 ** (np.arange(octaves + 1) / 8)
    slopes, offsets = cell_scores(edges)
    return list(zip(slopes.tolist(), offsets.tolist(), np.log(edges[1:]).tolist(), strict=True))


def log_probit_weight(s: np.ndarray) -> np.ndarray:
    return -s * s - math.log(2 * math.pi) - log_ndtr(s) - log_ndtr(-s)


def _soft(function: Callable[[np.ndarray], np.ndarray]) -> list[Row]:
    return soft_cell_rows(function, REACH, 128, 2.2, 6)


LOGISTIC = Curve(
    links=(
        CurveLink("G", _slots(s=1.0), _sigmoid),
        CurveLink("log_a", _slots(s=1.0), lambda c: soft_cell_rows(log_logistic_curvature)),
    ),
    slope=((_slots(), _slots(G=1.0, y=-1.0)),),
    log_weight=_slots(log_a=1.0),
    response=_sigmoid,
    unsettled="the classes may be separable, which has no finite solution without a penalty; "
    "raise penalty, steps or condition",
)
POISSON = Curve(
    links=(),
    slope=((_slots(s=1.0), _slots(data=1.0)), (_slots(), _slots(y=-1.0))),
    log_weight=_slots(s=1.0),
    response=_exp,
    largest_response=largest_exponent,
    counted="rising",
    unsettled=_APART,
)
GAMMA = Curve(
    links=(CurveLink("log_y", _slots(y=1.0), _log_y),),
    slope=((_slots(), _slots(data=1.0)), (_slots(s=-1.0), _slots(y=-1.0))),
    log_weight=_slots(s=-1.0, log_y=1.0),
    response=_exp,
    largest_response=largest_exponent,
    steps=30,
    counted="falling",
)
NEGATIVE_BINOMIAL = Curve(
    links=(
        CurveLink("G", lambda c: {"s": 1.0, "one": math.log(c.loss_scale)}, _sigmoid),
        CurveLink(
            "kept",
            lambda c: {"s": 1.0, "one": math.log(c.loss_scale)},
            lambda c: [(0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.0, 0.0, -1.0), (1.0, 0.0, 0.0)],
            times_y=True,
        ),
        CurveLink(
            "log_a",
            lambda c: {"s": 1.0, "one": math.log(c.loss_scale)},
            lambda c: soft_cell_rows(log_logistic_curvature),
        ),
        CurveLink("log_y", lambda c: {"y": 1.0, "one": 1.0 / c.loss_scale}, _log_shifted),
    ),
    slope=((_slots(), lambda c: {"G": 1.0 / c.loss_scale, "kept": -1.0}),),
    log_weight=_slots(log_a=1.0, log_y=1.0),
    response=_exp,
    largest_response=largest_exponent,
    largest_y=True,
    unsettled=_APART,
)
PROBIT = Curve(
    links=(
        CurveLink(
            "G",
            _slots(s=1.0),
            lambda c: [*_soft(lambda s: -mills(s)), *_soft(lambda s: mills(-s))],
            gated=True,
        ),
        CurveLink("log_a", _slots(s=1.0), lambda c: _soft(log_probit_weight)),
    ),
    slope=((_slots(), _slots(G=1.0)),),
    log_weight=_slots(log_a=1.0),
    response=lambda c: _soft(lambda s: np.exp(log_ndtr(s))),
    largest_s=REACH,
    unsettled="the classes may be separable, which has no finite solution without a penalty; "
    "raise penalty, steps or condition",
)
