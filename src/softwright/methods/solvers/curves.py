"""The curves of `newton`: what the loss of each generalised linear model is made of.

    logistic            log(1 + e^s) - y s        slope sigmoid(s) - y                    a = sigmoid(s) sigmoid(-s)
    poisson             e^s - y s                 slope e^s - y, e^s a weight             a = e^s
    gamma               y e^-s + s                slope 1 - y e^-s, e^-s a weight         a = y e^-s, log y by cells
    negative_binomial   (y + 1/k) log(1 + k e^s) - y s
                                                  slope p/k - y (1 - p), p = sigmoid(s + log k)     a = p/k
    probit              -log Phi(+-s)             slope -+phi(s)/Phi(+-s)                 a = phi^2/(Phi(s) Phi(-s))

e^s and e^-s need no link: they are the weights of a softmax over the observations, exactly. y (1 - p) is a link times
the number y of the same token (`newton`). Phi has no exact link; soft cells meet phi/Phi to 3e-13 on [-10, 10], and
predictions of the data beyond that are refused.
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
_LOGS = 0.7390851332151607 * 2.0 ** (np.arange(-160, 161) / 2)  # cells of y, for its logarithm


def _slots(**weights: float) -> Combination:
    return lambda c: weights


def _sigmoid(c: Constants) -> list[Row]:
    return [(1.0, 0.0, 1.0), (0.0, 0.0, 0.0)]


def _exp(c: Constants) -> list[Row]:
    ceiling = 48.0 if c.dtype == "float64" else 24.0
    return [(1.0, 0.0, float(np.exp(ceiling))), (0.0, ceiling, 0.0)]


def _log_y(c: Constants) -> list[Row]:
    slopes, offsets = cell_scores(_LOGS)
    return list(zip(slopes.tolist(), offsets.tolist(), np.log(_LOGS[1:]).tolist(), strict=True))


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
)
GAMMA = Curve(
    links=(CurveLink("log_y", _slots(y=1.0), _log_y),),
    slope=((_slots(), _slots(data=1.0)), (_slots(s=-1.0), _slots(y=-1.0))),
    log_weight=_slots(s=-1.0, log_y=1.0),
    response=_exp,
    steps=30,
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
            lambda c: soft_cell_rows(lambda s: -np.logaddexp(0, -s)),
        ),
    ),
    slope=((_slots(), lambda c: {"G": 1.0 / c.loss_scale, "kept": -1.0}),),
    log_weight=lambda c: {"log_a": 1.0, "data": -math.log(c.loss_scale)},
    response=_exp,
    largest_y=True,
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
