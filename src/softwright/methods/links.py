"""Link heads: scalar functions of a token's own number, from a few constant tokens.

Exact, two tokens each (score: value):

    sigmoid   {s: 1, 0: 0}           1/(1 + e^{-s})
    tanh      {s: 1, -s: -1}         tanh(s)
    exp       {s: e^m, m: 0}         e^s / (1 + e^{s-m}), relative error e^{s-m}

Gates. relu: {s beta: s, 0: 0}, error 0.2785/beta; proximal maps are made of it. Cells: E tokens whose scores

    S_e(v) = sum_{i > e} kappa (1 - v/B_i),   B_0 < B_1 < ..,

are largest for the e with B_e < v <= B_{e+1}: of what it adds up every term is positive there, so nothing cancels
over sixty binades. It picks a scale, or a starting point; between two cells it blends, which is as good.

Logarithms of weights have no exact link; soft cells fitted by least squares give them to 2e-3 or better on [-40, 40],
which is enough because they only steer the iteration, not its fixed point. Beyond, the last value holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from softwright.attention.stack import HeadWeights, Slots
from softwright.methods.frame import OMEGA, Frame, head

Row = tuple[float, float, float]  # slope, offset and value of a token
CELL_SHARPNESS = 64.0
_OFFSET = 0.7390851332151607  # keeps the edges of cells away from 1, 1/4 and other numbers that data like to have


def cell_edges(lowest: int, highest: int, per_octave: int) -> np.ndarray:
    """Edges B_0 < .. < B_E, a factor 2^(1/per_octave) apart."""
    return _OFFSET * 2.0 ** (np.arange(lowest * per_octave, highest * per_octave + 1) / per_octave)


def cell_scores(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slopes and offsets (E,) of S_e for e = 0..E-1; the cell e is (B_e, B_{e+1}]."""
    slopes = -CELL_SHARPNESS * np.cumsum(1.0 / edges[:0:-1])[::-1]  # sum over i = e+1..E
    offsets = CELL_SHARPNESS * np.arange(len(edges) - 1, 0, -1.0)
    return slopes, offsets


def link_tokens(slots: Slots, group: str, rows: list[Row]) -> np.ndarray:
    """Constant tokens (slope, offset, value) of one group, flagged by the slot `group`."""
    return np.stack([slots.vector(one=1.0, **{group: 1.0, "slope": a, "bias": b, "value": v}) for a, b, v in rows])


def link_head(slots: Slots, group: str, argument: np.ndarray, target: str, factor: float = 1.0) -> HeadWeights:
    """The head over the tokens of `group` with the scalar `argument` (D,) of the token that asks, into a slot."""
    one = slots.vector(one=1.0)
    exclude = OMEGA * (slots.vector(**{group: 1.0}) - one)
    pairs = [(one, exclude), (argument, slots.vector(slope=1.0)), (one, slots.vector(bias=1.0))]
    return head(pairs, slots.vector(value=1.0), factor * slots.vector(**{target: 1.0}))


@dataclass(frozen=True)
class Link:
    """An exact link: its two tokens, which only exp makes from a ceiling m and a top value, and its largest slopes: by
    the difference of the two scores, and by the argument. `bounded`: |G| <= 1; exp has relative errors instead."""

    tokens: Callable[[float, float], list[Row]]
    score_slope: float
    slope: float
    bounded: bool = True


SIGMOID = Link(lambda ceiling, top: [(1.0, 0.0, 1.0), (0.0, 0.0, 0.0)], score_slope=0.25, slope=0.25)
TANH = Link(lambda ceiling, top: [(1.0, 0.0, 1.0), (-1.0, 0.0, -1.0)], score_slope=0.5, slope=1.0)
EXP = Link(lambda ceiling, top: [(1.0, 0.0, top), (0.0, ceiling, 0.0)], score_slope=1.0, slope=1.0, bounded=False)


def soft_cell_rows(
    function: Callable[[np.ndarray], np.ndarray],
    reach: float = 40.0,
    count: int = 96,
    width: float = 1.6,
    margin: int = 3,
) -> list[Row]:
    """Soft cells of a smooth function on [-reach, reach]: Gaussian weights of `width` spacings, values by least
    squares."""
    spacing = 2 * reach / (count - 1 - 2 * margin)
    centres = -reach + spacing * (np.arange(count) - margin)
    square = (width * spacing) ** 2
    s = reach * np.cos(np.pi * (np.arange(4000) + 0.5) / 4000)
    scores = (s[:, None] * centres - centres**2 / 2) / square  # (4000, count)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    values = np.linalg.lstsq(weights, function(s), rcond=1e-13)[0]
    return list(zip((centres / square).tolist(), (-(centres**2) / (2 * square)).tolist(), values.tolist(), strict=True))


def log_logistic_curvature(s: np.ndarray) -> np.ndarray:
    """log of sigmoid(s) sigmoid(-s)"""
    return -2 * np.logaddexp(s / 2, -s / 2)


def log_tanh_ratio(r: np.ndarray) -> np.ndarray:
    """log of tanh(r)/r"""
    small = np.maximum(np.abs(r), 1e-8)
    return np.log(np.tanh(small) / small)


def prox_heads(
    frame: Frame, argument: np.ndarray, threshold: np.ndarray | None, target: np.ndarray, gate: float
) -> list[HeadWeights]:
    """Heads at the unit tokens that add the proximal map of the scalar `argument` (D,) to `target` (D,).

    With a `threshold` functional (positive at +e_p, turned at -e_p): soft thresholding, relu(w - t) - relu(-w - t).
    Without: max(w, 0) at +e_p and min(w, 0) at -e_p, whose coefficient is the negative one.
    The gate sits in the query, so that excluded tokens never meet it.
    """
    s = frame.slots
    huge = 1e30  # sends the tokens of the other sign to the null token, whatever their gate says
    heads = []
    for other, sign in (("neg", 1.0), ("pos", -1.0)):
        away = (huge * s.vector(**{other: 1.0}), s.vector(null=1.0))
        for way in (1.0, -1.0) if threshold is not None else (sign,):
            inside = way * argument - (0.0 if threshold is None else sign * threshold)
            heads.append(head([*frame.itself, away, (gate * inside, s.vector(unit=1.0))], inside, way * target))
    return heads
