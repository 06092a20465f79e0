"""Autoregression in context: y at time t from y at t-1, .., t-p, and from what else is known at t.

    y_t = b + sum_k w_k y_{t-k} + v.u_t + noise,   by least squares over all t whose lags are there

The first column of x is the time, whole numbers without a hole, in any order; the others are u. The lag k of a token is
read by a hard head: scores -B (t_j - (t_i - k))^2 = 2B (t_i - k) t_j - B t_j^2 but for a constant, so it takes the
square of a token's own time (`squares`). Every head looks into the past alone, t_j = t_i - k: a causal mask made of
scores. Observations before the p-th have no lags: a gate finds them, and a weight of 0 takes them out. What follows
is least squares by normal equations, with the lags for features.

A query is a time, and its u; its lags are observed ones, so that it is at most one step after the last observation.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from torch import Tensor

from softwright.errors import Faults
from softwright.methods.answers.squares import square_heads
from softwright.methods.constants import Constants
from softwright.methods.frame import FitBlueprint, Frame, LayerWeights, Pair, Segment, Slots, head, layer
from softwright.methods.guards import Guard
from softwright.methods.links import link_head, link_tokens
from softwright.methods.solvers.matrices import fit_layer
from softwright.methods.solvers.normal_equations import REFINEMENTS, begin, refinement, refusals, slots

_HARD = 2.0**44
_SHARP = 64.0  # of lags: times lie 1 apart
_OUT = 2.0**20  # below the others' scores


def lag_score(s: Slots, lag: int) -> list[Pair]:
    """Scores that are largest at the token whose time is `lag` before that of the token that asks."""
    own = (2.0 * _SHARP * s.vector(time=1.0, one=-float(lag)), s.vector(time=1.0))
    return [own, (s.vector(one=1.0), s.vector(square=-_SHARP))]


def time_layers(frame: Frame, c: Constants, people: tuple[str, ...], gate: np.ndarray) -> list[LayerWeights]:
    """Times from the first observation on, their squares, and a weight of 0 where the number `gate` is negative."""
    s, one, null = frame.slots, frame.slots.vector(one=1.0), frame.slots.vector(null=1.0)
    frame.add_fixed("gate", link_tokens(s, "gate", [(1.0, 0.0, 1.0), (0.0, 0.0, 0.0)]))
    time = s.vector(time=1.0)
    early = head([(one, -1e28 * null), (-_HARD * one, time)], time, -time - s.vector(last=1.0))
    late = head([(one, -1e28 * null), (_HARD * one, time)], time, s.vector(last=1.0))
    both = (time[:, None], (s.vector(pos=1.0) - s.vector(neg=1.0))[:, None])
    heads, constant = square_heads(frame.slots, c.dtype, *both, "square", reach=c.x_bound, also=[])
    heads = [head([(h.Wq, h.Wk)], h.Wv, h.Wo / frame.coordinates) for h in heads]
    R = s.residual()
    R[s.places["one"][0], s.places["square"][0]] = -2.0 * constant
    kept = link_head(s, "gate", gate, "kept")
    left_out = s.residual(("kept", "log_weight", _OUT), ("one", "log_weight", -_OUT))
    nothing = head([(one, 0.0 * one)], 0.0 * null, 0.0 * null)
    return [
        layer("times", (*people, "query"), ("data", "null"), [early, late]),
        layer("square", people, ("unit", "null"), heads, R),
        layer("kept", people, ("gate",), [kept]),
        layer("weights", people, ("null",), [nothing], left_out),
    ]


def long_series(c: Constants) -> Guard:
    many = "the times span more than x_bound; raise x_bound"
    return Guard("scores", 1, c.x_bound, many, "time", "null", ("data", "query"), ("null",))


def autoregression(constants: Constants) -> FitBlueprint:
    given, lags = constants.features, int(constants.option("lags"))
    c = replace(constants, features=lags + given - 1, largest_eigenvalue=float(lags + given - 1))
    names = ("time", "square", "last", "kept", "slope", "bias", "value", "gate")
    frame = Frame(c.features, c.intercept, False, {**slots(c.features), **dict.fromkeys(names, 1)})
    s = frame.slots
    people = frame.data
    place = s.places["x"][0]
    for i, segment in enumerate(frame.segments):
        if segment.embed is None:
            continue
        sign = -1.0 if segment.name == "mirror" else 1.0
        embed = np.zeros((given + 2, s.width))
        embed[0] = s.vector(time=1.0)
        embed[1:given, place + lags : place + c.features] = sign * np.eye(given - 1)
        if segment.name != "query":
            embed[given], embed[given + 1] = s.vector(y=sign), s.vector(log_weight=1.0)
        frame.segments[i] = Segment(segment.name, segment.source, segment.base, embed)
    frame.add_fixed("gate", link_tokens(s, "gate", [(1.0, 0.0, 1.0), (0.0, 0.0, 0.0)]))
    before = time_layers(frame, c, people, s.vector(time=100.0, one=-100.0 * (lags - 0.5)))
    earlier = [head(lag_score(s, k), s.vector(y=1.0), np.eye(s.width)[place + k - 1]) for k in range(1, lags + 1)]
    before.append(layer("lags", ("data", "query"), ("data",), earlier))
    if not c.intercept:
        turned = head(lag_score(s, 0), s.select("x")[:, :lags], -s.select("x")[:, :lags].T)
        before.append(layer("mirror", ("mirror",), ("data",), [turned]))
    start, first = begin(frame, c)
    program = [*before, *start, *refinement(frame, c) * REFINEMENTS]
    guards = refusals(frame, c, len(start), len(program) - len(before))
    guards = [long_series(c), *(replace(guard, position=guard.position + len(before)) for guard in guards)]
    return FitBlueprint(
        s.places, frame.segments, [*program, fit_layer(frame, c, ("query",), "w")], read=s.vector(f=1.0, offset=1.0),
        coefficient=("", s.vector()), guards=guards, head=len(before) + first, tail=1,
    )  # fmt: skip


def check_times(x: Tensor, queries: Tensor, constants: Constants, faults: Faults) -> None:
    """Times are whole, without holes, and queries ask for what the observations are there for."""
    lags = int(constants.option("lags"))
    times, asked = x[..., 0], queries[..., 0]
    whole = bool((times == times.round()).all()) and bool((asked == asked.round()).all())
    faults.check(whole, "the first column of x is the time: give whole numbers")
    for some, wanted in zip(
        times.flatten(0, -2) if times.ndim > 1 else times[None],
        asked.flatten(0, -2) if asked.ndim > 1 else asked[None],
        strict=True,
    ):
        known = some.unique()
        faults.check(
            bool((known.diff() == 1).all()), "the times of the observations have a hole; fill it, or cut it off"
        )
        inside = bool(((wanted >= known[0] + lags) & (wanted <= known[-1] + 1)).all())
        faults.check(inside, f"a query needs {lags} observation(s) just before it; ask for times where they are")


def timed(x: np.ndarray) -> np.ndarray:
    """Random rows with times in the first column: most follow each other, the last ask anew within them."""
    x, n = x.copy(), (7 * len(x)) // 10
    x[:n, 0] = np.arange(n)
    x[n:, 0] = 6 + (7 * np.arange(len(x) - n)) % (n - 6)
    return x


def exact_autoregression(x: np.ndarray, y: np.ndarray, queries: np.ndarray, c: Constants) -> np.ndarray:
    lags = int(c.option("lags"))
    mean = {t: float(y[x[:, 0] == t].mean()) for t in np.unique(x[:, 0])}

    def rows(of: np.ndarray) -> np.ndarray:
        lagged = np.array([[mean[t - k] for k in range(1, lags + 1)] for t in of[:, 0]]).reshape(len(of), lags)
        return np.concatenate([lagged, of[:, 1:]], axis=1)

    there = x[:, 0] >= x[:, 0].min() + lags
    given, wanted = rows(x[there]), y[there]
    middle, level = (given.mean(axis=0), wanted.mean()) if c.intercept else (np.zeros(given.shape[1]), 0.0)
    unit = np.abs(given - middle).max(axis=0)  # the digits of the solution do not depend on units and origins
    solution = np.linalg.lstsq((given - middle) / unit, wanted - level, rcond=None)[0]
    return (rows(queries) - middle) / unit @ solution + level
