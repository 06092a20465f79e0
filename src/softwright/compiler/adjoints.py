"""How errors of features reach the outputs: interval adjoints on many boxes.

What runs computes  y^_j = phi_j(s_j(y^) + rho_j, z_j(y^) + sigma_j) + delta_j  for the features y_j = phi_j(s_j(y),
z_j(y)), with forms s_j, z_j, their roundings rho, sigma, and the heads' own errors delta. Put a factor theta in [0, 1]
before all of these numbers: the output moves from the exact one to the one that runs, and by the mean value theorem

    |out^ - out|  <=  sum_j  |a_j| |delta_j| + |a_j d phi_j/d s| |rho_j| + |a_j d phi_j/d z| |sigma_j|,

a_j the adjoint d out/d y_j somewhere on the way. On a box of inputs every form stays within its range there, widened by
its *slack*, as long as the errors that have built up do not exceed the slack, which `prove.py` checks going forward. So
adjoints are enclosed by interval arithmetic over the widened ranges, from the outputs back. max(d, 0) has slope in
[0, 1] where its argument may change sign, both slopes of Clarke's derivative; a step t z has slope t by z and none by
its condition. Many small boxes keep dependencies small.

A table whose slope is unbounded (`Feature.end`) is taken not to depend on its argument at all: what the argument's
error does to it, by its modulus of continuity at the slack, is part of its own error (`graded.py`). One exception, the
norm: if the argument is p + sum c_i z_i^2 and p the singular point, the table is a function of s = sqrt(sum c_i z_i^2)
with a bounded slope, and the slope of s by z_i lies in [-sqrt(c_i), sqrt(c_i)]; the squares are left out on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from softwright.compiler.features import COPY, EXPONENTIAL, INPUT, MAXIMUM, PRODUCT, STEP, TABLE, Feature, Program
from softwright.compiler.forms import Form
from softwright.compiler.forward import Forward, Functions, intersected, interval_add, interval_mul, step_slope, widened
from softwright.compiler.graded import Moduli
from softwright.compiler.nodes import RULES, ZERO, CannotCompile, Interval, Node, constant_interval, differentiate
from softwright.compiler.tables import shifted, unclamped
from softwright.domain import Box

_RATIO = 3.0  # sides that span a larger ratio are divided evenly in their logarithm


def box_grid(box: Box, count: int) -> tuple[np.ndarray, np.ndarray]:
    """At most `count` boxes (n, d) that cover the box, sides of large ratio divided first."""
    splits = np.ones(box.dim, dtype=int)
    with np.errstate(all="ignore"):
        importance = np.where(box.lower > 0, np.log(box.upper / np.maximum(box.lower, 1e-300)), 1.5)
        importance = np.where(box.upper < 0, np.log(box.lower / np.minimum(box.upper, -1e-300)), importance)
    importance = np.clip(importance, 0.1, 20.0)
    while True:
        i = int((importance / splits).argmax())
        if np.prod(splits.astype(float)) * (splits[i] + 1) / splits[i] > count:
            break
        splits[i] += 1
    edges = []
    for low, high, n in zip(box.lower, box.upper, splits, strict=True):
        geometric = low > 0 and high / low > _RATIO
        edge = np.geomspace(low, high, n + 1) if geometric else np.linspace(low, high, n + 1)
        edge[0], edge[-1] = low, high
        edges.append(np.maximum.accumulate(np.clip(edge, low, high)))
    index = np.indices(tuple(splits.tolist())).reshape(box.dim, -1)
    lower = np.stack([edges[i][index[i]] for i in range(box.dim)], axis=1)
    upper = np.stack([edges[i][index[i] + 1] for i in range(box.dim)], axis=1)
    return lower, upper


@dataclass(frozen=True)
class Partial:
    """Enclosures (n,) of the derivatives of a feature by its score and by its value, over the widened ranges."""

    score: Interval
    value: Interval | None = None
    roots: tuple[tuple[int, Interval], ...] = ()  # by the features whose squares its argument is a sum of


@dataclass(frozen=True)
class Sensitivity:
    """For one output: |a_j| (n,) by feature, and |a_j d phi/d form| by feature for its score and its value."""

    feature: dict[int, np.ndarray]
    score: dict[int, np.ndarray]
    value: dict[int, np.ndarray]


def magnitude(a: Interval) -> np.ndarray:
    return np.maximum(np.abs(a.lower), np.abs(a.upper))


class Analysis:
    """Ranges, partial derivatives and adjoints of a program over boxes [lower, upper] (n, d)."""

    def __init__(self, program: Program, lower: np.ndarray, upper: np.ndarray, functions: Functions) -> None:
        self.program, self.functions = program, functions
        self.forward = Forward(program.features, program.known, lower, upper, functions)
        self.slopes: dict[int, Node] = {
            f.number: differentiate(f.function, "u") for f in program.features if f.function is not None
        }
        self.moduli: dict[int, Moduli] = {}
        with np.errstate(all="ignore"):
            for feature in program.features:
                self.forward.feature(feature.number)
                if feature.end is not None and feature.function is not None:
                    self.moduli[feature.number] = self._moduli(feature)

    def _moduli(self, feature: Feature) -> Moduli:
        point, side = feature.end or (Fraction(0), 1)
        low, high = self.range_of(feature.score)
        reach = (high - float(point)) if side > 0 else (float(point) - low)
        return Moduli(shifted(unclamped(feature.function or ZERO, point, side), point, side), 1.5 * reach)

    @property
    def boxes(self) -> int:
        return len(self.forward.lower)

    def range_of(self, form: Form) -> tuple[float, float]:
        """Over all boxes."""
        found = self.forward.form(form)
        return float(found.lower.min()), float(found.upper.max())

    def size_of(self, form: Form) -> float:
        return max(map(abs, self.range_of(form)))

    def partials(self, slacks: Mapping[tuple[int, str], float]) -> dict[int, Partial]:
        """Derivatives of all features; `slacks` by (feature, "score" or "value")."""
        found: dict[int, Partial] = {}
        with np.errstate(all="ignore"):
            for feature in self.program.features:
                if feature.kind != INPUT:
                    found[feature.number] = self._partial(feature, slacks)
        return found

    def _partial(self, feature: Feature, slacks: Mapping[tuple[int, str], float]) -> Partial:
        score = widened(self.forward.form(feature.score), slacks[feature.number, "score"])
        if feature.kind == COPY:
            one = np.ones(self.boxes)
            return Partial(Interval(one, one))
        if feature.end is not None:
            return self._singular(feature)
        if feature.kind == TABLE:
            slope, defined = self.functions.enclose(self.slopes[feature.number], score)
            if not defined.all() or not np.isfinite(magnitude(slope)).all():
                raise CannotCompile(feature.meaning, "its slope is not bounded on its range")
            return Partial(slope)
        if feature.kind == MAXIMUM:
            one, zero = np.ones(self.boxes), np.zeros(self.boxes)
            return Partial(Interval(np.where(score.lower > 0, one, zero), np.where(score.upper > 0, one, zero)))
        if feature.kind == STEP:  # t z with the same t before and after: what moves t is the gate's own error
            zero = np.zeros(self.boxes)
            return Partial(Interval(zero, zero), step_slope(self.forward.form(feature.score), feature.gap))
        value = widened(self.forward.form(feature.value), slacks[feature.number, "value"])
        if feature.kind == PRODUCT:
            if feature.is_square:
                return Partial(Interval(2.0 * score.lower, 2.0 * score.upper))
            return Partial(value, score)
        if feature.kind != EXPONENTIAL:
            raise RuntimeError(f"features of kind {feature.kind!r} have no derivative")
        grown = RULES["exp"](score)[0]
        return Partial(interval_mul(grown, value), grown)

    def _singular(self, feature: Feature) -> Partial:
        """No slope: what its argument's error does is part of its own. Of a norm, slopes by what is squared."""
        zero = np.zeros(self.boxes)
        roots = self.program.roots_of(feature)
        if roots is None:
            return Partial(Interval(zero, zero))
        found = []
        for c, k in roots:
            slope = self.moduli[feature.number].by_root * np.sqrt(magnitude(constant_interval(c))) * (1.0 + 1e-12)
            found.append((k, Interval(zero - slope, zero + slope)))
        return Partial(Interval(zero, zero), None, tuple(found))

    def sensitivity(
        self, output: int, partials: Mapping[int, Partial], demands: Mapping[int, float] | None = None
    ) -> Sensitivity:
        """The adjoints of one output. `demands` are added to what flows to scores, by feature: for sharing a tolerance
        with features that feed a condition, whose errors must stay below a slack and reach the output in no other way.
        """
        zero = np.zeros(self.boxes)
        adjoint = {f.number: Interval(zero, zero) for f in self.program.features}
        score: dict[int, np.ndarray] = {}
        value: dict[int, np.ndarray] = {}

        def send(form: Form, flow: Interval) -> None:
            for k, c in form:
                adjoint[k] = interval_add(adjoint[k], interval_mul(flow, constant_interval(c)))

        one = np.ones(self.boxes)
        with np.errstate(all="ignore"):
            send(self.program.outputs[output], Interval(one, one))
            for feature in reversed(self.program.features):
                if feature.kind == INPUT:
                    continue
                own, partial = adjoint[feature.number], partials[feature.number]
                flow = interval_mul(own, partial.score)
                if demands is not None and feature.number in demands:
                    flow = Interval(flow.lower - demands[feature.number], flow.upper + demands[feature.number])
                score[feature.number] = magnitude(flow)
                send(feature.score, flow)
                for k, slope in partial.roots:
                    adjoint[k] = interval_add(adjoint[k], interval_mul(own, slope))
                if partial.value is not None:
                    through = interval_mul(own, partial.value)
                    value[feature.number] = magnitude(through)
                    send(feature.value, through)
                if feature.kind == MAXIMUM:
                    send(feature.base, own)
        return Sensitivity({k: magnitude(a) for k, a in adjoint.items()}, score, value)


__all__ = ["Analysis", "Partial", "Sensitivity", "box_grid", "intersected", "magnitude"]
