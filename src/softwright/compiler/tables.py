"""Tables: heads of fixed tokens alone, for functions of one form.

    F(u)  ~  sum_j v_j softmax_j(k_j t + b_j),      t = (u - c)/h in [-1, 1],

with constant values v_j, a vector if several functions of the same u are wanted. Keys are tangents to a convex
potential phi with phi'' = (tau'/r)^2: soft cells of width r that lie evenly in a coordinate tau(t). Two coordinates:
tau = t/spacing, and tau = log(t - p)/spacing where F is singular at a point p outside of [-1, 1] (a logarithm, a root,
a pole): cells that shrink towards p. Values by Tikhonov regularised least squares with one iterated step, their size
capped because rounding grows with it. The search takes the smallest number of tokens that meets all tolerances on a
dense sample; the proof is that of any head of one variable (`proof/`), in the unit frame of t.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb

import numpy as np

from softwright.compiler.forms import polynomial
from softwright.compiler.graded import GradedAxis, fit_graded
from softwright.compiler.nodes import (
    Expression,
    Node,
    Operation,
    Variable,
    add,
    is_constant,
    mul,
    number,
    of,
    power,
    rational,
    substitute,
    value,
)
from softwright.work import count as count_work

_MOST_TOKENS = 110
_CAPS = {"float64": (100.0, 10.0, 1e4), "float32": (4.0, 10.0, 30.0)}
_TOUCHES = 1e-7  # of the width of a range: singular points so near count as lying at its end
_FIT_POINTS, _CHECK_POINTS = 400, 2001
T = Variable("t")


@dataclass(frozen=True)
class Frame:
    """u = center + halfwidth t; both are short decimals, so that F(center + halfwidth t) is a short text."""

    center: Fraction
    halfwidth: Fraction

    @property
    def low(self) -> float:
        return float(self.center - self.halfwidth)

    @property
    def high(self) -> float:
        return float(self.center + self.halfwidth)

    def inside(self, function: Node) -> Node:
        """F as a tree in t."""
        return substitute(function, {"u": add(mul(number(self.halfwidth), T), number(self.center))})

    def slack(self, low: float, high: float) -> float:
        """How far the argument may leave [low, high] within the frame."""
        room = min(Fraction(low) - (self.center - self.halfwidth), self.center + self.halfwidth - Fraction(high))
        return max(0.0, float(room) * (1 - 1e-12))


def frame_of(low: float, high: float, least: float, most: float) -> Frame:
    """A frame of few digits that covers [low, high] and stays within [least, most]."""
    for digits in range(2, 17):
        middle = 0.5 * (least + most)
        half = 0.5 * (most - least)
        step = Fraction(10) ** (int(np.floor(np.log10(half))) - digits)
        center = round(Fraction(middle) / step) * step
        halfwidth = (min(Fraction(most) - center, center - Fraction(least)) // step) * step
        if center - halfwidth < Fraction(low) and Fraction(high) < center + halfwidth:
            room = min(Fraction(low) - center + halfwidth, center + halfwidth - Fraction(high))
            if room >= (Fraction(low) - Fraction(least)) / 2 or room >= (Fraction(most) - Fraction(high)) / 2:
                return Frame(center, halfwidth)
    return Frame((Fraction(least) + Fraction(most)) / 2, (Fraction(most) - Fraction(least)) / 2)


@dataclass(frozen=True)
class Table:
    """One head: keys and biases (N,), values (N, m); `errors` (m,) are what a sample showed."""

    keys: np.ndarray
    biases: np.ndarray
    values: np.ndarray
    errors: np.ndarray

    @property
    def tokens(self) -> int:
        return len(self.keys)


def singular_points(function: Node, low: float, high: float) -> list[float]:
    """Points near [low, high] at which a logarithm, a root, a quotient or an arc of something in `u` is singular."""
    found: list[float] = []
    pending = [function]
    while pending:
        node = pending.pop()
        if not isinstance(node, Operation):
            continue
        pending += node.arguments
        inner, ends = None, (0.0,)
        if node.name in ("log", "sqrt", "cbrt"):
            inner = node.arguments[0]
        elif node.name in ("div", "xlogy"):
            inner = node.arguments[1]
        elif node.name == "pow" and is_constant(node.arguments[1]):
            exponent = rational(node.arguments[1])
            if exponent is None or exponent < 0 or exponent.denominator != 1:
                inner = node.arguments[0]
        elif node.name in ("asin", "acos", "atanh"):
            inner, ends = node.arguments[0], (-1.0, 1.0)
        elif node.name == "log1p":
            inner, ends = node.arguments[0], (-1.0,)
        if inner is None or is_constant(inner):
            continue
        if isinstance(inner, Operation) and inner.name == "abs":
            inner = inner.arguments[0]
        coefficients = polynomial(inner)
        if coefficients is not None and len(coefficients) == 2:
            offset, slope = map(value, coefficients)
            found += [(end - offset) / slope for end in ends] if slope else []
        else:
            found += [zero for end in ends for zero in _crossings(inner, end, low, high)]
    return sorted(set(found))


def shifted(node: Node, point: Fraction, side: int) -> Node:
    """The tree with point + side * u in place of u, polynomials in u expanded about the point exactly.

    So sqrt(1 - u) becomes sqrt(u) for the point 1 and the side -1, which a float next to 0 does not spoil.
    """
    coefficients = polynomial(node)
    if coefficients is not None and not is_constant(node):
        exact = [rational(c) for c in coefficients]
        if all(c is not None for c in exact):
            moved = [Fraction(0)] * len(exact)
            for n, c in enumerate(exact):
                for k in range(n + 1):
                    moved[k] += (c or Fraction(0)) * comb(n, k) * point ** (n - k) * side**k
            total: Node = number(moved[0])
            for k, c in enumerate(moved[1:], 1):
                total = add(total, mul(number(c), power(Variable("u"), number(k)))) if c else total
            return total
    if isinstance(node, Variable):
        return add(number(point), mul(number(side), node))
    if not isinstance(node, Operation) or is_constant(node):
        return node
    return of(node.name, *(shifted(argument, point, side) for argument in node.arguments))


def singular_end(function: Node, low: float, high: float) -> tuple[Fraction, int] | None:
    """(p, side) if the function's slope may be unbounded at an end of [low, high], which lies on that side of p.

    Of a logarithm or a quotient that has no value at 0, on a range over many decades, p is a power of two between 0 and
    the range: from there distances are differences of few digits, so that the smallest arguments lose none of theirs.
    """
    pending, found, poles = [function], set(), set()
    while pending:
        node = pending.pop()
        if not isinstance(node, Operation):
            continue
        pending += node.arguments
        inner, ends, kept = None, (0,), found
        if node.name == "sqrt":
            inner = node.arguments[0]
        elif node.name == "xlogy":
            inner = node.arguments[1]
        elif node.name in ("log", "div"):
            inner, kept = node.arguments[-1], poles
        elif node.name == "pow" and is_constant(node.arguments[1]):
            exponent = rational(node.arguments[1])
            kept = poles if exponent is not None and exponent < 0 else found
            inner = node.arguments[0] if exponent is None or exponent < 0 or exponent.denominator != 1 else None
        elif node.name in ("asin", "acos"):
            inner, ends = node.arguments[0], (-1, 1)
        elif node.name == "acosh":
            inner, ends = node.arguments[0], (1,)
        coefficients = None if inner is None else polynomial(inner)
        if coefficients is None or len(coefficients) != 2:
            continue
        offset, slope = map(rational, coefficients)
        if offset is not None and slope:
            kept |= {(end - offset) / slope for end in ends}
    near = _TOUCHES * (high - low)
    nearest = min(abs(low), abs(high))
    if 0 in poles and low * high > 0 and nearest <= near:
        side = 1 if low > 0 else -1
        return side * Fraction(2) ** (math.frexp(nearest)[1] - 2), side
    for point in found:
        if abs(low - float(point)) <= near:
            return point, 1
        if abs(high - float(point)) <= near:
            return point, -1
    return None


def clamped(function: Node, point: Fraction, side: int) -> Node:
    """F(max(u, p)) or F(min(u, p)): F on its side of p, and constant beyond."""
    return substitute(function, {"u": of("max" if side > 0 else "min", Variable("u"), number(point))})


def unclamped(function: Node, point: Fraction, side: int) -> Node:
    """F again from F(max(u, p))."""
    name, end = ("max" if side > 0 else "min"), number(point)

    def plain(node: Node) -> Node:
        if not isinstance(node, Operation):
            return node
        if node.name == name and node.arguments == (Variable("u"), end):
            return Variable("u")
        return Operation(node.name, tuple(map(plain, node.arguments)))

    return plain(function)


def fit_singular(
    functions: Sequence[Node], end: tuple[Fraction, int], frame: Frame, tolerances: np.ndarray, dtype: str
) -> Table | None:
    """One head for clamped functions of the same form that are singular at the same end, the centre of the frame."""
    point, side = end
    half = float(frame.halfwidth)
    found = fit_towards([unclamped(function, point, side) for function in functions], end, half, tolerances, dtype)
    if found is None:
        return None
    return Table(side * found.keys * half, found.biases, found.values, found.errors)


def fit_towards(
    functions: Sequence[Node],
    end: tuple[Fraction, int],
    reach: float,
    tolerances: np.ndarray,
    dtype: str,
    less: np.ndarray | float = 0.0,
    check: Callable[[], None] = lambda: None,
) -> GradedAxis | None:
    """Keys graded towards a singular point, for functions of `u` on one side of it, less a constant (m,) each."""
    expression = Expression.from_nodes([shifted(function, *end) for function in functions], ("u",))
    with np.errstate(all="ignore"):
        return fit_graded(
            lambda s: expression(s[:, None]) - less, reach, tolerances, _CAPS[dtype][0], np.dtype(dtype), check
        )


def in_one_variable(nodes: Sequence[Node], name: str) -> list[Node]:
    """Trees in a variable as trees in `u`."""
    return [substitute(node, {name: Variable("u")}) for node in nodes]


def _crossings(inner: Node, level: float, low: float, high: float) -> list[float]:
    """Where something that is not linear passes a level next to [low, high], on either side."""
    at = Expression.from_nodes([inner], ("u",))
    found = []
    for end, away in ((low, -1.0), (high, 1.0)):
        steps = end + away * (high - low) * np.concatenate([[0.0], np.geomspace(1e-4, 2.0, 60)])
        above = at(steps[:, None])[:, 0] > level
        changes = np.flatnonzero(above[1:] != above[:-1])
        if not len(changes):
            continue
        near, far = steps[changes[0]], steps[changes[0] + 1]
        for _ in range(60):
            middle = 0.5 * (near + far)
            if (at(np.array([[middle]]))[0, 0] > level) == above[changes[0]]:
                near = middle
            else:
                far = middle
        found.append(float(near))
    return found


def _uniform(count: int, width: float, beyond: int) -> tuple[np.ndarray, np.ndarray] | None:
    cells = count - 1 - 2 * beyond
    if cells < 1:
        return None
    spacing = 2.0 / cells
    centres = -1.0 + spacing * (np.arange(count) - beyond)
    sharpness = 1.0 / (width * spacing) ** 2
    return centres * sharpness, -0.5 * centres**2 * sharpness


def _graded(count: int, width: float, beyond: int, point: float) -> tuple[np.ndarray, np.ndarray] | None:
    """Cells even in log|t - point|; for a point on the right the mirror image."""
    cells = count - 1 - 2 * beyond
    if cells < 1:
        return None
    side = -1.0 if point > 0 else 1.0
    low, high = np.log(abs(point) - 1.0), np.log(abs(point) + 1.0)
    spacing = (high - low) / cells
    centres = np.exp(low + spacing * (np.arange(count) - beyond))  # distances from the point
    sharpness = 1.0 / (width * spacing) ** 2
    keys = -sharpness / centres * side
    biases = -sharpness * np.log(centres) - sharpness * abs(point) / centres
    return keys, biases


def _centred(keys: np.ndarray, biases: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """The same softmax with smaller numbers, rounded to the type that will run."""
    keys = keys - 0.5 * (keys.max() + keys.min())
    biases = biases - biases.max()
    return keys.astype(dtype).astype(float), biases.astype(dtype).astype(float)


def weights_at(t: np.ndarray, keys: np.ndarray, biases: np.ndarray) -> np.ndarray:
    scores = t[:, None] * keys + biases
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    return scores / scores.sum(axis=1, keepdims=True)


def _hopeless(weights: np.ndarray, wanted: np.ndarray, tolerances: np.ndarray) -> bool:
    """Whether no values at all meet the tolerances: no error is everywhere below its root of mean squares, and that of
    least squares is the smallest. It stands below the weights in a triangle, for a tenth of the time of the values."""
    n = weights.shape[1]
    rest = np.asarray(np.linalg.qr(np.hstack([weights, wanted]), mode="r"))[n:, n:]  # (m, m)
    least = np.sqrt((rest * rest).sum(axis=0) / len(weights))
    return bool((least > 1.001 * tolerances + 1e-10 * np.abs(wanted).max(axis=0)).any())


def _values(weights: np.ndarray, wanted: np.ndarray, penalties: np.ndarray) -> np.ndarray:
    """Regularised least squares for every output, with one iterated step."""
    left, sizes, right = np.linalg.svd(weights, full_matrices=False)
    found = np.zeros((weights.shape[1], wanted.shape[1]))
    damped = sizes[:, None] / (sizes[:, None] ** 2 + (penalties**2 * len(weights))[None])
    for _ in range(2):
        found = found + right.T @ (damped * (left.T @ (wanted - weights @ found)))
    return found


def _points(count: int, point: float | None) -> np.ndarray:
    points = -np.cos(np.pi * np.arange(count) / (count - 1))
    if point is None:
        return points
    side = -1.0 if point > 0 else 1.0
    distances = np.exp(np.linspace(np.log(abs(point) - 1.0), np.log(abs(point) + 1.0), count))
    return np.unique(np.clip(np.concatenate([points, point + side * distances]), -1.0, 1.0))


class TableSearch:
    """The smallest table for functions on [-1, 1] within tolerances (m,)."""

    def __init__(
        self, function: Callable[[np.ndarray], np.ndarray], tolerances: np.ndarray, dtype: str, points: Sequence[float]
    ) -> None:
        self.function, self.tolerances = function, tolerances
        self.type = np.dtype(dtype)
        self.caps = _CAPS[dtype]
        self.points = [p for p in points if abs(p) > 1.0 + 1e-12 and (abs(p) + 1.0) / (abs(p) - 1.0) > 2.5]

    def best(self) -> Table | None:
        found: Table | None = None
        for cap in self.caps:
            table = self._with_cap(cap)
            if table is None:
                continue
            if found is None or self._rounding(table) < self._rounding(found):
                found = table
            if self._rounding(found) < 0.2:
                break
        return found

    def _rounding(self, table: Table) -> float:
        """What rounding may do, relative to the tolerances."""
        unit = float(np.finfo(self.type).eps) / 2
        scores = np.abs(table.keys).max() + table.tokens
        return float((2 * unit * scores * np.abs(table.values).max(axis=0) / self.tolerances).max())

    def _with_cap(self, cap: float) -> Table | None:
        best: Table | None = None
        for point in (None, *self.points):
            most = _MOST_TOKENS if best is None else best.tokens - 1
            found = self._smallest(cap, point, most)
            best = found or best
            if best is not None and best.tokens <= 6:
                break
        return best

    def _smallest(self, cap: float, point: float | None, most: int) -> Table | None:
        fit, check = _points(_FIT_POINTS, point), _points(_CHECK_POINTS, point)
        wanted, at_check = self.function(fit), self.function(check)
        if not (np.isfinite(wanted).all() and np.isfinite(at_check).all()):
            return None
        size = np.abs(wanted).max(axis=0) + 1e-300
        digits = max(1.0, float(-np.log10((self.tolerances / size).min())))
        penalties = 0.3 * self.tolerances / (cap * size)

        def attempt(count: int) -> Table | None:
            wide, far = 1 + 0.06 * digits, max(0, round(0.6 * digits))
            for beyond in sorted({max(0, far - k) for k in (3, 2, 1, 0, -1)}):
                for width in (0.8 * wide, wide, 1.25 * wide, 1.6 * wide):
                    made = _uniform(count, width, beyond) if point is None else _graded(count, width, beyond, point)
                    if made is None:
                        continue
                    keys, biases = _centred(*made, self.type)
                    weights = weights_at(fit, keys, biases)
                    count_work(150_000 + weights.size * (20.0 + 2.0 * weights.shape[1]))
                    if _hopeless(weights, wanted, self.tolerances):
                        continue
                    values = _values(weights, wanted, penalties).astype(self.type).astype(float)
                    if not (np.abs(weights @ values - wanted).max(axis=0) <= self.tolerances).all():
                        continue
                    errors = np.abs(weights_at(check, keys, biases) @ values - at_check).max(axis=0)
                    if (errors <= self.tolerances).all():
                        return Table(keys, biases, values, errors)
            return None

        count, last, found = 2, 1, None
        while count <= most:
            found = attempt(count)
            if found is not None:
                break
            last, count = count, max(count + 1, int(count * 1.2))
        if found is None:
            return None
        while found.tokens - last > 1:
            middle = (found.tokens + last) // 2
            smaller = attempt(middle)
            if smaller is None:
                last = middle
            else:
                found = smaller
        return found


def fit_table(functions: Sequence[Node], frame: Frame, tolerances: np.ndarray, dtype: str) -> Table | None:
    """One head for functions of the same form, trees in `u`, within the tolerances on the frame, or None."""
    expression = Expression.from_nodes([frame.inside(function) for function in functions], ("t",))
    points = sorted({p for function in functions for p in singular_points(function, frame.low, frame.high)})
    in_frame = [(p - float(frame.center)) / float(frame.halfwidth) for p in points]
    with np.errstate(all="ignore"):
        return TableSearch(lambda t: expression(t[:, None]), tolerances, dtype, in_frame).best()
