"""Values of states in context: LSTD, and TD(0), from one trajectory.

    value(s) = w.phi(s),   w solves  sum_t phi_t (phi_t - gamma phi_{t+1}).w = sum_t phi_t r_t

The first column of x is the time, whole numbers without a hole, in any order; the others are phi; y is the reward. The
features of the next state are read by a hard head at t + 1 (as lags in `autoregression`); the last observation has none
and weighs nothing. Three groups of heads form, at the unit tokens,

    A_p = mean_t phi_tp (phi_t - gamma phi_{t+1}),   A^T the same with both sides exchanged,   b_p = mean_t phi_tp r_t.

LSTD solves A^T A w = A^T b, as A is not symmetric: Newton and Schulz among the unit tokens, refined with b - A w.
TD(0), in expectation over the trajectory, is w <- w + eta (b - A w), one layer over 2d tokens a step.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from softwright.errors import Faults
from softwright.methods.answers.autoregression import lag_score, long_series, time_layers
from softwright.methods.bilinear import bilinear_heads
from softwright.methods.constants import Constants
from softwright.methods.frame import FitBlueprint, Frame, HeadWeights, LayerWeights, Segment, head, layer
from softwright.methods.guards import Guard
from softwright.methods.newton_schulz import inverse_depth
from softwright.methods.solvers.matrices import SINK, inverse_layers, times
from softwright.methods.solvers.newton import diagonal_cells

_REFINEMENTS = 4
STEPS = 2000


def _frame(c: Constants) -> Frame:
    d = c.features - 1
    wide = dict.fromkeys(("z", "a", "t", "A", "A2", "next"), d)
    names = ("time", "square", "last", "kept", "slope", "bias", "value", "gate", "b", "c", "rest", "step", "w", "f")
    frame = Frame(d, True, False, {**wide, **dict.fromkeys(names, 1)}, counting=True)
    s, place = frame.slots, frame.slots.places["x"][0]
    for i, segment in enumerate(frame.segments):
        if segment.embed is None or segment.name == "count":
            if segment.embed is not None:
                embed = np.concatenate([segment.embed[:1] * 0.0, segment.embed])
                frame.segments[i] = Segment(segment.name, segment.source, segment.base, embed)
            continue
        embed = np.zeros((c.features + 2, s.width))
        embed[0] = s.vector(time=1.0)
        embed[1 : c.features, place : place + d] = np.eye(d)
        if segment.name == "data":
            embed[c.features], embed[c.features + 1] = s.vector(y=1.0), s.vector(log_weight=1.0)
        frame.segments[i] = Segment(segment.name, segment.source, segment.base, embed)
    return frame


def _means(frame: Frame, c: Constants, K: np.ndarray, V: np.ndarray, writes: np.ndarray) -> list[HeadWeights]:
    """Heads that add mean_t (K_t)_p V_t at the unit token of p."""
    s, sink = frame.slots, SINK[c.dtype]
    also = [frame.only("data", "count"), frame.weighted, (s.vector(one=1.0), s.vector(count=sink))]
    return bilinear_heads(
        s.select("e"), K, V, writes, reach=2.0 * c.feature_bound, order=c.order, angle=c.angle, also=also,
        factor=float(np.exp(sink)),
    )  # fmt: skip


def _equations(frame: Frame, c: Constants) -> list[LayerWeights]:
    s, gamma = frame.slots, c.option("discount")
    change = s.select("x") - gamma * s.select("next")
    following = head(lag_score(s, -1), s.select("x"), s.select("next").T)
    heads = _means(frame, c, s.select("x"), np.concatenate([change, s.vector(y=1.0)[:, None]], axis=1),
                   np.concatenate([s.select("A").T, s.vector(b=1.0)[None]]))  # fmt: skip
    heads += _means(frame, c, change, s.select("x"), s.select("A2").T)
    gate = s.vector(last=100.0, time=-100.0, one=-50.0)
    return [
        *time_layers(frame, c, ("data",), gate),
        layer("next", ("data",), ("data",), [following]),
        layer("matrix", ("unit",), ("data", "count"), heads),
    ]


def _finished(frame: Frame, c: Constants, program: list[LayerWeights], head_: int, guards: list[Guard]) -> FitBlueprint:
    s = frame.slots
    read = times(frame, c, "x", s.vector(w=1.0), s.vector(f=1.0), c.feature_bound)
    far = "a feature is larger than feature_bound; raise feature_bound, or give it in other units"
    bound = Guard("scores", 1, c.feature_bound, far, "x", "own", ("data", "query"), ("unit",))
    return FitBlueprint(
        s.places, frame.segments, [*program, layer("read", ("query",), ("unit",), read)], read=s.vector(f=1.0),
        coefficient=("", s.vector()), guards=[long_series(c), bound, *guards], head=head_, tail=1,
    )  # fmt: skip


def lstd(constants: Constants) -> FitBlueprint:
    c, unit = constants, ("unit",)
    frame = _frame(c)
    s, d = frame.slots, frame.coordinates
    most = 4.0 * d * c.feature_bound**2
    first = _equations(frame, c)
    square = times(frame, c, "A2", "A", s.select("a").T, most)
    first += [layer("square", unit, unit, square), diagonal_cells(frame, d)]
    depth = inverse_depth(4.0 * d, 1.0 / c.condition, c.accuracy)
    solve = times(frame, c, "z", s.vector(c=1.0), s.vector(step=1.0, w=1.0), c.condition)
    rest = times(frame, c, "A", s.vector(w=1.0), -s.vector(rest=1.0), most)
    refine = [
        layer("rest", unit, unit, rest, s.residual(("rest", "rest", 0.0), ("b", "rest", 1.0))),
        layer(
            "right", unit, unit, times(frame, c, "A2", s.vector(rest=1.0), s.vector(c=1.0), most),
            s.residual(("c", "c", 0.0)),
        ),
        layer("solve", unit, unit, solve, s.residual(("step", "step", 0.0))),
    ]  # fmt: skip
    start = [*first, *inverse_layers(frame, c, c.condition) * depth]
    program = [*start, *refine * _REFINEMENTS]
    singular = "the equations are worse conditioned than the stack was built for, or singular; raise condition"
    lost = "the last refinement still moves the weights; raise condition, or remove redundant features"
    guards = [
        Guard("inverse", len(start), 1e-3, singular, "t", "e", (), unit, penalty_slot="t", wanted=float(d)),
        Guard("refined", len(program), 1e-9 if c.dtype == "float64" else 1e-3, lost, "step", "w", unit, ()),
    ]
    return _finished(frame, c, program, len(first), guards)


def td(constants: Constants) -> FitBlueprint:
    """TD(0); the step is 1/(2d) unless given, for features of size 1."""
    c = constants
    frame = _frame(c)
    s, eta = frame.slots, c.step_size or 0.5 / frame.coordinates
    most = 4.0 * frame.coordinates * c.feature_bound**2
    first = _equations(frame, c)
    move = times(frame, c, "A", s.vector(w=1.0), -eta * s.vector(w=1.0), most)
    step = layer("td", ("unit",), ("unit",), move, s.residual(("b", "w", eta)))
    program = [*first, *[step] * (c.steps or STEPS)]
    still = "the weights still move in the last step; raise steps or step_size"
    guard = Guard("settled", len(program), 1e-7, still, "w", "w", ("unit",), (), reach=2, wanted=2.0)
    return _finished(frame, c, program, len(first), [guard])


def check_trajectory(x: Tensor, queries: Tensor, constants: Constants, faults: Faults) -> None:
    """Times are whole and without holes, and there are features besides."""
    times_ = x[..., 0]
    faults.check(constants.features >= 2, "state_values needs the time and at least one feature")
    faults.check(bool((times_ == times_.round()).all()), "the first column of x is the time: give whole numbers")
    for some in times_.flatten(0, -2) if times_.ndim > 1 else times_[None]:
        hole = "the times of the observations have a hole; give the whole trajectory"
        faults.check(bool((some.unique().diff() == 1).all()), hole)


def exact_values(x: np.ndarray, y: np.ndarray, queries: np.ndarray, c: Constants) -> np.ndarray:
    times_ = x[:, 0]
    phi = {t: x[times_ == t, 1:].mean(axis=0) for t in np.unique(times_)}
    there = times_ < times_.max()
    own, rewards = x[there, 1:], y[there]
    change = own - c.option("discount") * np.stack([phi[t + 1] for t in times_[there]])
    return queries[:, 1:] @ np.linalg.solve(own.T @ change, own.T @ rewards)
