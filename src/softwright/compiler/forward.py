"""`Forward`: rigorous ranges of all features over many boxes at once, from the inputs onwards.

Ranges of forms are sums of ranges, with one exception: a x^2 + b x, where x^2 is a feature of its own, is enclosed as
a (x + b/(2a))^2 - b^2/(4a), which is its exact range. Ranges of functions of one variable are hulls over pieces of the
argument's range. Where a tighter range of a form over the whole box is known from the inputs, it is taken in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from softwright.compiler.features import COPY, EXPONENTIAL, INPUT, MAXIMUM, PRODUCT, STEP, TABLE, Feature
from softwright.compiler.forms import Form, quotient
from softwright.compiler.nodes import (
    RULES,
    CannotCompile,
    Expression,
    Interval,
    Node,
    constant_interval,
    mul,
    number,
    power,
)
from softwright.work import count

_PIECES, _MOST_PIECES = 96, 6000


def interval_add(a: Interval, b: Interval) -> Interval:
    return RULES["add"](a, b)[0]


def interval_mul(a: Interval, b: Interval) -> Interval:
    return RULES["mul"](a, b)[0]


def interval_square(a: Interval) -> Interval:
    two = np.asarray(2.0)
    return RULES["pow"](a, Interval(two, two))[0]


def intersected(a: Interval, low: float | np.ndarray, high: float | np.ndarray) -> Interval:
    """The part of an interval within [low, high]; what is empty by rounding becomes a point of it."""
    lower, upper = np.maximum(a.lower, low), np.minimum(a.upper, high)
    return Interval(np.minimum(lower, upper), np.maximum(lower, upper))


def widened(a: Interval, by: float | np.ndarray) -> Interval:
    return Interval(np.nextafter(a.lower - by, -np.inf), np.nextafter(a.upper + by, np.inf))


def step_slope(score: Interval, gap: float) -> Interval:
    """[c > 0] outside the band, any number of [0, 1] within."""
    return Interval(np.where(score.lower >= gap, 1.0, 0.0), np.where(score.upper <= -gap, 0.0, 1.0))


class Functions:
    """Functions of one variable with their enclosures; each tree is prepared once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Node, Expression]] = {}

    def expression(self, node: Node) -> Expression:
        if id(node) not in self._known:
            self._known[id(node)] = (node, Expression.from_nodes([node], ("u",)))
        return self._known[id(node)][1]

    def enclose(self, node: Node, u: Interval) -> tuple[Interval, np.ndarray]:
        """The range over intervals (n,), each cut into pieces, and where it is certainly defined (n,)."""
        pieces = int(np.clip(_MOST_PIECES // len(u.lower), 1, _PIECES))
        found, defined = self._enclosed(node, u, pieces)
        if not defined.all() and pieces < _PIECES and np.isfinite(u.lower).all() and np.isfinite(u.upper).all():
            open_ = np.flatnonzero(~defined)  # wide pieces hide that it is defined
            better, defined[open_] = self._enclosed(node, Interval(u.lower[open_], u.upper[open_]), _PIECES)
            found.lower[open_], found.upper[open_] = better.lower, better.upper
        return found, defined

    def _enclosed(self, node: Node, u: Interval, pieces: int) -> tuple[Interval, np.ndarray]:
        boxes = len(u.lower)
        shares = np.arange(pieces + 1) / pieces
        edges = u.lower[:, None] + shares * (u.upper - u.lower)[:, None]  # (n, pieces + 1)
        edges = np.clip(edges, u.lower[:, None], u.upper[:, None])
        edges[:, 0], edges[:, -1] = u.lower, u.upper
        if not np.isfinite(edges).all():
            whole = np.full(boxes, np.inf)
            return Interval(-whole, whole), np.zeros(boxes, dtype=bool)
        count(200_000 + 30.0 * edges.size * len(self.expression(node).tape))
        low, high, defined = self.expression(node).enclose(edges[:, :-1].reshape(-1, 1), edges[:, 1:].reshape(-1, 1))
        low, high, defined = (array.reshape(boxes, pieces) for array in (low[:, 0], high[:, 0], defined))
        return Interval(low.min(axis=1), high.max(axis=1)), np.asarray(defined.all(axis=1))


class Forward:
    """Ranges (n,) of features and forms over boxes [lower, upper] (n, d)."""

    def __init__(
        self,
        features: Sequence[Feature] | Mapping[int, Feature],
        known: Mapping[tuple[str, tuple[tuple[int, str], ...]], tuple[float, float]],
        lower: np.ndarray,
        upper: np.ndarray,
        functions: Functions,
    ) -> None:
        self.features, self.known = features, known
        self.lower, self.upper = lower, upper
        self.functions = functions
        self.limits: dict[int, tuple[float, float]] = {}  # ranges of features over the whole box, where known
        self._features: dict[int, Interval] = {}

    def forget(self) -> None:
        self._features.clear()

    def feature(self, number_: int) -> Interval:
        if number_ not in self._features:
            found = self._range(self.features[number_])
            if number_ in self.limits:
                found = intersected(found, *self.limits[number_])
            self._features[number_] = found
        return self._features[number_]

    def form(self, form: Form) -> Interval:
        constant = constant_interval(form.constant)
        total = Interval(*(np.full(len(self.lower), float(end)) for end in constant))
        coefficients = dict(form.terms)
        for k, c in form.terms:
            root = self._root_of_square(k)
            if k not in coefficients or root is None or root not in coefficients:
                continue
            slope = coefficients.pop(root)
            del coefficients[k]
            # a x^2 + b x = a (x + b/(2a))^2 - b^2/(4a)
            shift = quotient(slope, mul(number(2), c))
            less = quotient(power(slope, number(2)), mul(number(-4), c))
            moved = interval_add(self.feature(root), constant_interval(shift))
            square = interval_mul(interval_square(moved), constant_interval(c))
            total = interval_add(total, interval_add(square, constant_interval(less)))
        for k, c in coefficients.items():
            total = interval_add(total, interval_mul(self.feature(k), constant_interval(c)))
        known = self.known.get(form.key)
        return total if known is None else intersected(total, *known)

    def _root_of_square(self, k: int) -> int | None:
        """j if feature k is the square of feature j itself."""
        feature = self.features[k]
        if not feature.is_square or len(feature.score.terms) != 1:
            return None
        ((j, c),) = feature.score.terms
        plain = c == number(1) and feature.score.constant == number(0)
        return j if plain else None

    def _range(self, feature: Feature) -> Interval:
        if feature.kind == INPUT:
            return Interval(self.lower[:, feature.number], self.upper[:, feature.number])
        score = self.form(feature.score)
        if feature.kind == COPY:
            return score
        with np.errstate(all="ignore"):
            if feature.kind == TABLE and feature.function is not None:
                found, defined = self.functions.enclose(feature.function, score)
                if not defined.all():
                    raise CannotCompile(feature.meaning, "may be undefined on its range")
                return found
            if feature.kind == PRODUCT:
                return interval_square(score) if feature.is_square else interval_mul(score, self.form(feature.value))
            if feature.kind == EXPONENTIAL:
                return interval_mul(RULES["exp"](score)[0], self.form(feature.value))
        if feature.kind == STEP:
            lower, upper = step_slope(score, feature.gap)
            return interval_mul(Interval(lower, upper), self.form(feature.value))
        if feature.kind != MAXIMUM:
            raise RuntimeError(f"features of kind {feature.kind!r} have no range")
        first, second = self.form(feature.score.plus(feature.base)), self.form(feature.base)
        mean = self.form(feature.score.times(number(0.5)).plus(feature.base))  # max(a, b) >= (a + b)/2: 0 for abs
        lower = np.maximum(np.maximum(first.lower, second.lower), mean.lower)
        return Interval(lower, np.maximum(lower, np.maximum(first.upper, second.upper)))
