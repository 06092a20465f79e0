"""The sequence of a stack in context: `Frame` lays it out, `FitBlueprint` is a whole stack in its terms.

Per observation there is one token (x, y, log weight); per query one token (x). Besides:

    mirror    without an intercept: the observation once more with both signs turned, so that covariances are means
    count     for generalised linear models: a token per observation that only weighs, value 0 (see `glm`)
    basis     the queries e_1, .., e_d in scaled features: their predictions are the coefficients of those
    unit      +e_p and -e_p: they hold the scales, the coefficients of proximal methods, and stand for ridge penalties
    null      the token of a head that has nothing to say: score 0, value 0

A score of -OMEGA on excluded tokens, and on them alone, makes their weight exactly 0 and rounds nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from softwright.attention.stack import FIXED, Blueprint, HeadWeights, LayerWeights, Segment, Slots
from softwright.methods.guards import Guard

__all__ = [
    "FIXED",
    "FitBlueprint",
    "Frame",
    "Guard",
    "HeadWeights",
    "LayerWeights",
    "Pair",
    "Segment",
    "Slots",
    "head",
    "layer",
]
OMEGA = 2.0**20
Pair = tuple[np.ndarray, np.ndarray]  # query map and key map, (D,) or (D, k)


def head(pairs: Sequence[Pair], V: np.ndarray, O: np.ndarray) -> HeadWeights:  # noqa: E741
    """A head whose score is the sum over `pairs` of (x_i Q).(x_j K)."""
    Wq = np.concatenate([q.reshape(len(q), -1) for q, _ in pairs], axis=1)
    Wk = np.concatenate([k.reshape(len(k), -1) for _, k in pairs], axis=1)
    return HeadWeights(Wq, Wk, V.reshape(len(V), -1), O.reshape(-1, O.shape[-1]))


@dataclass
class Frame:
    """The sequence of one stack: its slots, its segments and who is read as data.

    coordinates = features, plus one for the constant if `constant` (generalised linear models carry their intercept as
    a coefficient; the others get it from centring).
    """

    features: int
    intercept: bool
    constant: bool
    extra: dict[str, int]
    counting: bool = False
    start: dict[str, float] = field(default_factory=dict)  # initial slots of observations

    def __post_init__(self) -> None:
        self.coordinates = self.features + int(self.constant)
        d, dx = self.features, self.coordinates
        self.slots = Slots(
            x=dx, y=1, log_weight=1, offset=1, one=1, data=1, unit=1, pen=1, null=1, count=1, pos=1, neg=1,
            e=dx, own=dx, other=dx, range=dx, scale1=dx, spread=dx, scale2=dx, g=dx, tau1=1, tau=1, **self.extra,
        )  # fmt: skip
        s = self.slots
        self.segments: list[Segment] = []
        people = ["data"]
        self._add_rows("data", 1.0, data=1.0, **self.start)
        if not self.intercept:
            self._add_rows("mirror", -1.0, data=1.0)
            people.append("mirror")
        # A generalised linear model takes plain means by counting; its mirrored tokens only serve the scaling.
        self.spread_over = tuple(people)
        self.data = ("data",) if self.counting else tuple(people)
        if self.counting:
            base, embed = s.vector(one=1.0, count=1.0)[None], np.zeros((d + 2, s.width))
            embed[d + 1] = s.vector(log_weight=1.0)
            self.segments.append(Segment("count", "data", base, embed))
        embed = np.zeros((d + 2, s.width))
        x = s.places["x"][0]
        embed[:d, x : x + d] = np.eye(d)
        base = s.vector(one=1.0)
        if self.constant:
            base[x + d] = 1.0
        self.segments.append(Segment("query", "query", base[None], embed))
        basis = np.tile(s.vector(one=1.0), (d, 1))
        basis[:, x : x + d] += np.eye(d)
        self.segments.append(Segment("basis", FIXED, basis))
        self.segments.append(
            Segment("unit", FIXED, np.stack([self._unit(p, sign) for p in range(dx) for sign in (1.0, -1.0)]))
        )
        self.add_fixed("null", s.vector(one=1.0, null=1.0)[None])
        self.queries = ("query", "basis")

    def _add_rows(self, name: str, sign: float, **values: float) -> None:
        s, d = self.slots, self.features
        embed = np.zeros((d + 2, s.width))
        x = s.places["x"][0]
        embed[:d, x : x + d] = sign * np.eye(d)
        embed[d] = s.vector(y=sign)
        embed[d + 1] = s.vector(log_weight=1.0)
        base = s.vector(one=1.0, **values)
        if self.constant:
            base[x + d] = sign
        self.segments.append(Segment(name, "data", base[None], embed))

    def _unit(self, p: int, sign: float) -> np.ndarray:
        s = self.slots
        token = s.vector(one=1.0, unit=1.0, **({"pos": 1.0} if sign > 0 else {"neg": 1.0}))
        token[s.places["e"][0] + p] = sign
        token[s.places["own"][0] + p] = 1.0
        token[slice(*s.places["other"])] = 1.0
        token[s.places["other"][0] + p] = 0.0
        if p == self.features:  # the constant needs no scale and pays no penalty
            token[s.places["scale1"][0] + p] = sign
            token[s.places["scale2"][0] + p] = sign
        else:
            token[slice(*s.places["pen"])] = 1.0
        return token

    def add_fixed(self, name: str, tokens: np.ndarray) -> None:
        self.segments.append(Segment(name, FIXED, tokens))

    def change_fixed(self, name: str, tokens: np.ndarray) -> None:
        place = next(i for i, segment in enumerate(self.segments) if segment.name == name)
        self.segments[place] = Segment(name, FIXED, tokens)

    def fixed(self, name: str) -> np.ndarray:
        return next(segment.base for segment in self.segments if segment.name == name)

    def only(self, *flags: str) -> Pair:
        """The score term that excludes all tokens without one of these flags."""
        return self.slots.vector(one=1.0), OMEGA * (
            self.slots.vector(**dict.fromkeys(flags, 1.0)) - self.slots.vector(one=1.0)
        )

    @property
    def weighted(self) -> Pair:
        """The score term by which observations weigh as much as their sample weight."""
        return self.slots.vector(one=1.0), self.slots.vector(log_weight=1.0)

    @property
    def itself(self) -> list[Pair]:
        """Score terms of unit tokens, in two blocks so that nothing cancels: exclude other coordinates, other signs."""
        s = self.slots
        huge = 1e25  # above any gate's score, and far below what overflows float32
        return [
            (-huge * s.select("own"), s.select("other")),
            (-huge * s.vector(pos=1.0), s.vector(neg=1.0)),
            (-huge * s.vector(neg=1.0), s.vector(pos=1.0)),
        ]


@dataclass(frozen=True)
class FitBlueprint(Blueprint):
    """What the builders of this room return.

    `read` (D,) is the prediction as a functional of a query token, (D, k) if there are k numbers. `coefficient` names a
    segment (none where there are no coefficients) and a functional (D,) that reads the coefficients of the scaled
    features at it; the scales are at the unit tokens. `tail` counts the last layers of the program, which read a state
    out and can be run after any layer before them, and `head` the first, which prepare the prompt.
    """

    read: np.ndarray
    coefficient: tuple[str, np.ndarray]
    guards: list[Guard] = field(default_factory=list)
    head: int = 0
    tail: int = 0
    alone: bool = False  # every query in a prompt of its own: tokens of the data hold what belongs to it


def layer(
    label: str, rows: Sequence[str], keys: Sequence[str], heads: Sequence[HeadWeights], R: np.ndarray | None = None
) -> LayerWeights:
    return LayerWeights(list(heads), tuple(rows), tuple(keys), R, label)
