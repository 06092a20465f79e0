"""The Kalman filter in context, as a scan: every observation at once, in log T rounds that look into the past alone.

    state   s_t = phi s_{t-1} + noise of variance q,   s_0 with mean 0 and variance p
    seen    y_t = s_t + noise of variance r,           t = 0, 1, .., T - 1

x holds the time alone, whole numbers without a hole, in any order. The answer at time t is the mean and the variance
of y_t given all observations before it: one step ahead within the series, a forecast behind it. The variances
P_t of s_t before y_t is seen do not depend on data:

    P_0 = p,   K_t = P_t/(P_t + r),   P_{t+1} = phi^2 (1 - K_t) P_t + q,

so gains K_t and factors a_t = phi (1 - K_t) are constants of the stack, one row of a table for each time. The filtered
mean m_t = a_t m_{t-1} + K_t y_t is a recursion; doubling solves it in ceil(log2 T) rounds:

    c_t <- c_t + (a_t a_{t-1} .. a_{t-s+1}) c_{t-s},   s = 1, 2, 4, ..,   from c_t = K_t y_t.

A product with a number w in (0, 1) is a softmax over two tokens, the one that holds the other factor with score
logit(w) and the null token with score 0. Which token that is, times say in bits: the score

    B (bits(t - s).bits_j - number of bits)

is exactly 0 at the token of time t - s and at most -2 B at all others, so nothing is rounded, as it would be with
squares of times. Bits and logits are read from the table by a hard head. No head looks past the time that asks.
Behind the last time T - 1, with v = t - T steps between, the mean is phi^(v+1) m_{T-1} and the variance of the state
phi^(2v) P_T + q (1 + phi^2 + .. + phi^(2v-2)): the same products, with factors from the row v of the table.
"""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from softwright.errors import Faults
from softwright.methods.constants import Constants
from softwright.methods.frame import FitBlueprint, Frame, HeadWeights, LayerWeights, Pair, Segment, head, layer
from softwright.methods.guards import Guard

_SHARP = 64.0  # of times: they lie 1 apart
_HARD = 2.0**44
_LOST = 1e-9  # of a variance
_ALL = 40.0  # the logit of 1, as floats have it
_OTHERS = 64.0  # a power of 2 far above it, so that scores of bits are exact and round nothing else


def gains(c: Constants, count: int) -> tuple[np.ndarray, np.ndarray]:
    """P_t and log a_t for t = 0, .., count - 1; an a_t of 0 has the logarithm -inf."""
    phi, q, r, P = c.option("persistence"), c.option("process"), c.option("noise"), c.option("prior")
    variances, factors = np.empty(count), np.empty(count)
    for t in range(count):
        left = r / (P + r)  # 1 - K_t, without cancellation
        variances[t], factors[t] = P, phi * left
        P = phi * phi * left * P + q
    with np.errstate(divide="ignore"):
        return variances, np.log(factors)


def _logit(log: np.ndarray) -> np.ndarray:
    """logit of e^log, within what scores may be."""
    with np.errstate(divide="ignore"):
        return np.clip(log - np.log(-np.expm1(log)), -_ALL, _ALL)


def _table(frame: Frame, c: Constants, count: int, rounds: int) -> np.ndarray:
    """One token a time, and one before the first that stands for what is not there: no bits, no gains."""
    s, r = frame.slots, c.option("noise")
    phi, bits = c.option("persistence"), s.places["bits"][1] - s.places["bits"][0]
    variances, logs = gains(c, count)
    times = np.arange(-1, count)
    table = np.tile(s.vector(one=1.0), (count + 1, 1))

    def put(name: str, values: np.ndarray) -> None:
        table[:, s.places[name][0]] = values

    put("slope", 2.0 * _SHARP * times)
    put("bias", -_SHARP * times**2.0)
    table[1:, slice(*s.places["bits"])] = 2.0 * ((times[1:, None] >> np.arange(bits)) & 1) - 1.0
    put("state", np.concatenate([[0.0], variances]))
    with np.errstate(divide="ignore"):  # without noise of its own a state may be known exactly
        put("gate0_", np.concatenate([[-_ALL], np.clip(np.log(variances / r), -_ALL, _ALL)]))
    reached = logs
    for k in range(rounds):
        put(f"gate{k + 1}_", np.concatenate([[-_ALL], _logit(reached)]))
        earlier = np.full(count, -np.inf)
        earlier[2**k :] = reached[: max(0, count - 2**k)]
        reached = reached + earlier
    behind = np.maximum(times, 0)
    powers = phi ** (2.0 * np.arange(count))
    put("behind", behind)
    put("decay", _logit((behind + 1.0) * math.log(phi)))
    put("decay2", _logit(2.0 * behind * math.log(phi)))
    put("added", r + c.option("process") * np.concatenate([[0.0, 0.0], np.cumsum(powers)[: count - 1]]))
    return table


def kalman(constants: Constants) -> FitBlueprint:
    c = constants
    count = math.ceil(c.x_bound) + 1
    rounds = max(1, math.ceil(math.log2(count)))
    names = ["time", "last", "slope", "bias", "gate", "gate2", "behind", "decay", "decay2", "state", "added", "c"]
    names += ["mean", "variance", *(f"gate{k}_" for k in range(rounds + 1))]
    several = dict.fromkeys(("bits", "seek", "seek2"), rounds + 1)
    frame = Frame(1, True, False, {**dict.fromkeys(names, 1), **several})
    s, one, null = frame.slots, frame.slots.vector(one=1.0), frame.slots.vector(null=1.0)
    frame.segments = [_timed(frame, segment) for segment in frame.segments]
    frame.add_fixed("table", _table(frame, c, count, rounds))
    people = ("data", "query")
    time = s.vector(time=1.0)

    def look_up(at: np.ndarray, values: np.ndarray, writes: np.ndarray) -> HeadWeights:
        """A head over the table that reads columns of the row `at`, a functional of the token that asks."""
        return head([(at, s.vector(slope=1.0)), (one, s.vector(bias=1.0))], values, writes)

    def product(
        values: np.ndarray, target: str, keys: np.ndarray, seek: str = "seek", gate: str = "gate"
    ) -> HeadWeights:
        """sigmoid(gate) times the value of the token whose bits are sought, 0 if there is none."""
        sought: list[Pair] = [
            (_OTHERS * s.select(seek), s.select("bits")),
            (-_OTHERS * (rounds + 1.0) * one, keys),
            (s.vector(**{gate: 1.0}), keys),
        ]
        return head(sought, values, s.vector(**{target: 1.0}))

    def scanned(shift: int, column: str, value: str) -> list[LayerWeights]:
        """c_t <- c_t + sigmoid(column) times the value at the time `shift` before."""
        there = look_up(time - shift * one, s.select("bits"), s.select("seek").T)
        here = look_up(time, s.vector(**{column: 1.0}), s.vector(gate=1.0))
        fresh = s.residual(("seek", "seek", 0.0), ("gate", "gate", 0.0))
        multiply = product(s.vector(**{value: 1.0}), "c", s.vector(data=1.0))
        return [
            layer("look up", ("data",), ("table",), [there, here], fresh),
            layer("product", ("data",), ("data", "null"), [multiply]),
        ]

    early = head([(one, -1e28 * null), (-_HARD * one, time)], time, -time - s.vector(last=1.0))
    late = head([(one, -1e28 * null), (_HARD * one, time)], time, s.vector(last=1.0))
    first = [
        layer("times", people, ("data", "null"), [early, late]),
        layer("bits", ("data",), ("table",), [look_up(time, s.select("bits"), s.select("bits").T)]),
    ]
    scan = scanned(0, "gate0_", "y")
    for k in range(rounds):
        scan += scanned(2**k, f"gate{k + 1}_", "c")
    behind, known = s.vector(behind=1.0), time - s.vector(behind=1.0)
    tail = [
        layer("behind", ("query",), ("table",), [look_up(time - s.vector(last=1.0) - one, behind, behind)]),
        layer(
            "look up", ("query",), ("table",),
            [
                look_up(known - one, s.select("bits"), s.select("seek").T),
                look_up(known, s.select("bits"), s.select("seek2").T),
                look_up(
                    behind, np.stack([s.vector(decay=1.0), s.vector(decay2=1.0), s.vector(added=1.0)], axis=1),
                    np.stack([s.vector(gate=1.0), s.vector(gate2=1.0), s.vector(variance=1.0)]),
                ),
            ],
        ),
        layer("mean", ("query",), ("data", "null"), [product(s.vector(c=1.0), "mean", s.vector(data=1.0))]),
        layer(
            "variance", ("query",), ("table", "null"),
            [product(s.vector(state=1.0), "variance", one - null, "seek2", "gate2")],
        ),
    ]  # fmt: skip
    many = "the times span more than x_bound; raise x_bound"
    return FitBlueprint(
        s.places, frame.segments, [*first, *scan, *tail],
        read=np.stack([s.vector(mean=1.0), s.vector(variance=1.0)], axis=1), coefficient=("", s.vector()),
        guards=[Guard("scores", 1, c.x_bound, many, "time", "null", people, ("null",))], head=len(first),
        tail=len(tail),
    )  # fmt: skip


def _timed(frame: Frame, segment: Segment) -> Segment:
    """The segment with its one feature as the time."""
    if segment.embed is None:
        return segment
    embed = segment.embed.copy()
    embed[0] = frame.slots.vector(time=1.0)
    return Segment(segment.name, segment.source, segment.base, embed)


def check_series(x: Tensor, queries: Tensor, constants: Constants, faults: Faults) -> None:
    """Times are whole, each there once, and no query lies before them; variances have their digits."""
    _check_variances(constants, faults)
    times, asked = x[..., 0], queries[..., 0]
    whole = bool((times == times.round()).all()) and bool((asked == asked.round()).all())
    faults.check(whole, "x is the time: give whole numbers")
    for some, wanted in zip(
        times.flatten(0, -2) if times.ndim > 1 else times[None],
        asked.flatten(0, -2) if asked.ndim > 1 else asked[None],
        strict=True,
    ):
        once = bool((some.sort().values.diff() == 1).all())
        faults.check(once, "the times of the observations have a hole, or one is there twice; give every time once")
        faults.check(bool((wanted >= some.min()).all()), "a query lies before the series; ask from its first time on")


def _check_variances(c: Constants, faults: Faults) -> None:
    """A head that looks a time up leaves e^-64 of the row beside it, and so of its variance."""
    with np.errstate(all="ignore"):
        variances, _ = gains(c, math.ceil(c.x_bound) + 1)
        lost = 0.0
        for apart in range(1, min(5, len(variances))):
            low, high = variances[:-apart], variances[apart:]
            most = max(((high / (low + c.option("noise"))).max(), (low / (high + c.option("noise"))).max()))
            lost = max(lost, float(most) * math.exp(-_SHARP * apart**2))
    faults.check(
        lost <= _LOST and bool(np.isfinite(variances).all()),
        "prior, process and noise differ so much that variances of times beside each other lose their digits; "
        "give a smaller prior, or a larger noise",
    )


def in_order(x: np.ndarray) -> np.ndarray:
    """Random rows as a series; the last ones ask behind it."""
    x = x.copy()
    x[:, 0] = np.arange(len(x)) - 5
    return x


def exact_kalman(x: np.ndarray, y: np.ndarray, queries: np.ndarray, c: Constants) -> np.ndarray:
    seen = dict(zip(x[:, 0].tolist(), y.tolist(), strict=True))
    phi, q, r = (c.option(name) for name in ("persistence", "process", "noise"))
    P, mean, time, found = c.option("prior"), 0.0, float(x[:, 0].min()), {}
    while time <= queries[:, 0].max():
        found[time] = (mean, P + r)
        K = P / (P + r) if time in seen else 0.0
        mean, P = phi * (mean + K * (seen.get(time, 0.0) - mean)), phi * phi * (1.0 - K) * P + q
        time += 1.0
    return np.array([found[t] for t in queries[:, 0].tolist()])
