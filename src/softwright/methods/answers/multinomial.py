"""Multinomial logistic regression in context: softmax over classes is a head, so the slope of the loss is exact.

    minimise  mean_j log sum_k e^{s_jk} - s_j,y_j + penalty/2 sum_k |w_k|^2,   s_jk = w_k.x_j + b_k,   y_j in 0, .., K-1

Every class has a constant token e_k. A label becomes e_y by a hard head, score -B (y - k)^2; the probabilities are
softmax over the class tokens with scores s_jk. Coefficients stand at the unit tokens, one column a class.

Bohning's bound: the Hessian is at most 1/2 cov(x) + penalty for every class, so that with M the inverse of
cov(x) + 2 penalty the step w <- w - 2 M (mean_j x_j (P_j - e_{y_j}) + penalty w) always descends. M is found once
(`matrices`); Nesterov's momentum, for steps whose condition number is at most `condition`, makes the descent fast:

    fit     s_j = x_j.v at v = w + m (w - w_before)
    link    P_j
    slope   c = mean_j x_j (P_j - e_{y_j}) + penalty v,  w <- v                     at the unit tokens
    step    w <- w - 2 M c
"""

from __future__ import annotations

import math

import numpy as np

from softwright.methods.constants import Constants
from softwright.methods.frame import FitBlueprint, Frame, LayerWeights, head, layer
from softwright.methods.guards import Guard
from softwright.methods.newton_schulz import inverse_depth
from softwright.methods.solvers.matrices import inverse_layers, penalty_heads, plain_mean, times
from softwright.methods.standardise import prepare, scale_guards
from softwright.methods.step_bound import penalty_reach

_SHARP = 100.0  # of labels: whole numbers lie 1 apart
_LIMIT = {"float64": 1e-9, "float32": 1e-3}


def multinomial(constants: Constants) -> FitBlueprint:
    c, classes = constants, int(constants.option("classes"))
    d = c.features + int(c.intercept)
    wide = dict.fromkeys(("z", "a", "t", "penalty"), d)
    several = dict.fromkeys(("s", "P", "label", "w", "before", "c", "klass"), classes)
    frame = Frame(c.features, c.intercept, c.intercept, {**wide, **several, "slope": 1, "bias": 1}, counting=True)
    s, unit = frame.slots, ("unit",)
    one = s.vector(one=1.0)
    tokens = np.tile(one, (classes, 1))
    tokens[:, slice(*s.places["klass"])] = np.eye(classes)
    tokens[:, s.places["slope"][0]] = 2.0 * _SHARP * np.arange(classes)
    tokens[:, s.places["bias"][0]] = -_SHARP * np.arange(classes) ** 2.0
    frame.add_fixed("classes", tokens)
    largest = 2.0 * math.sqrt(2.0) * d
    units = frame.fixed("unit")
    frame.change_fixed("unit", units + 1.9 / largest * (units @ s.select("e")) @ s.select("z").T)
    first = prepare(
        frame, targets=(), scaling=c.scaling, angles=c.angles, centre_y=False, penalty=c.penalty,
        range_bound=c.range_bound, feature_bound=c.feature_bound,
    )  # fmt: skip
    named = head(
        [(s.vector(y=1.0), s.vector(slope=1.0)), (one, s.vector(bias=1.0))], s.select("klass"), s.select("label").T
    )
    keys = ("data", "count", *(unit if c.penalty > 0 else ()))
    matrix = plain_mean(frame, c, s.select("x"), s.select("a").T)
    matrix += penalty_heads(frame, c, 2.0 * s.select("a").T + s.select("penalty").T)
    first += [layer("label", ("data",), ("classes",), [named]), layer("matrix", unit, keys, matrix)]
    root = 1.0 / math.sqrt(c.condition)
    momentum = (1.0 - root) / (1.0 + root)
    ahead = (1.0 + momentum) * s.select("w") - momentum * s.select("before")

    def fits(rows: tuple[str, ...], values: np.ndarray) -> LayerWeights:
        heads = times(frame, c, "x", values, s.select("s").T, c.feature_bound)
        return layer("fit", rows, unit, heads, s.residual(("s", "s", 0.0)))

    def shares(rows: tuple[str, ...]) -> LayerWeights:
        link = head([(s.select("s"), s.select("klass"))], s.select("klass"), s.select("P").T)
        return layer("link", rows, ("classes",), [link], s.residual(("P", "P", 0.0)))

    slope = plain_mean(frame, c, s.select("P") - s.select("label"), s.select("c").T)
    if c.penalty > 0:
        slope += times(frame, c, "penalty", ahead, s.select("c").T, penalty_reach(c) ** 2)
    moves = s.residual(
        ("c", "c", 0.0), ("w", "w", 1.0 + momentum), ("before", "w", -momentum), ("w", "before", 1.0),
        ("before", "before", 0.0),
    )  # fmt: skip
    iteration = [
        fits(("data",), ahead),
        shares(("data",)),
        layer("slope", unit, keys, slope, moves),
        layer("step", unit, unit, times(frame, c, "z", s.select("c"), -2.0 * s.select("w").T, c.condition)),
    ]
    count = c.steps or math.ceil(math.log(1e3 / c.accuracy) / root)
    depth = inverse_depth(largest, 1.0 / c.condition, c.accuracy)
    program = [*first, *inverse_layers(frame, c, c.condition) * depth, *iteration * count]
    moving = "the predictions still move in the last iteration: raise the penalty, steps or condition"
    guards = [
        *(scale_guards(c.range_bound, c.feature_bound) if c.scaling else []),
        Guard("settled", len(program), _LIMIT[c.dtype], moving, "s", "s", ("data",), (), reach=len(iteration)),
    ]
    tail = [fits(("query",), s.select("w")), shares(("query",))]
    return FitBlueprint(
        s.places, frame.segments, [*program, *tail], read=s.select("P"), coefficient=("", s.vector()), guards=guards,
        head=len(first), tail=len(tail),
    )  # fmt: skip


def exact_multinomial(x: np.ndarray, y: np.ndarray, queries: np.ndarray, c: Constants) -> np.ndarray:
    """Newton's method on standardised columns."""
    classes, n = int(c.option("classes")), len(y)
    mean = x.mean(axis=0) if c.intercept else np.zeros(x.shape[1])
    scale = np.sqrt(((x - mean) ** 2).mean(axis=0))
    columns = [np.ones((n, 1))] if c.intercept else []
    A = np.concatenate([(x - mean) / scale, *columns], axis=1)
    d = A.shape[1]
    penalties = np.concatenate([c.penalty / scale**2, np.zeros(len(columns))])
    labels, w = np.eye(classes)[y.astype(int)], np.zeros((d, classes))
    for _ in range(100):
        p = _softmax(A @ w)
        slope = A.T @ (p - labels) / n + penalties[:, None] * w
        hessian = np.zeros((d * classes, d * classes))
        for k in range(classes):
            for other in range(classes):
                weights = p[:, k] * (float(k == other) - p[:, other]) / n
                block = (A.T * weights) @ A + float(k == other) * np.diag(penalties)
                hessian[k * d : (k + 1) * d, other * d : (other + 1) * d] = block
        step = np.linalg.lstsq(hessian, slope.T.ravel(), rcond=1e-13)[0].reshape(classes, d).T
        size = min(1.0, 5.0 / max(float(np.abs(A @ step).max()), 1e-300))
        w -= size * step
        if np.abs(step).max() < 1e-14:
            break
    asked = np.concatenate([(queries - mean) / scale, *[np.ones((len(queries), 1))] * len(columns)], axis=1)
    return _softmax(asked @ w)


def _softmax(s: np.ndarray) -> np.ndarray:
    weights = np.exp(s - s.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)
