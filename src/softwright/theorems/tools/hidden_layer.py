"""A formula turned into a network with one hidden layer of relu units, with a bound of what that costs.

A formula that is a sum of *ridge terms* g(c.x) becomes exactly that: on the interval of r = c.x, g is interpolated
linearly between K + 1 equidistant knots, g(rho_0) + sum_k m_k relu(r - rho_k), m_k the jump of the slope at rho_k. On
a stretch of width h the interpolation errs by at most max |g''| h^2/8; on a stretch where g may have a kink, by at
most max |g'| h/2; and nowhere by more than the range of g on the stretch, where g' is not bounded. All are enclosed.

Which terms are ridge terms is read off the syntax tree: a term all of whose maximal affine parts share one direction is
one; the product of two affine parts A B is two, ((A + B)^2 - (A - B)^2)/4, and max(A, B) is (A + B)/2 + |A - B|/2. All
terms of an output that vary in several directions otherwise, sin(x)*y or exp(x*y), become one sum of ridge polynomials
(`ridge_sums.py`), whose distance from them is proved; products of two affine parts then go with them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softwright.domain import Box
from softwright.errors import Faults
from softwright.precision import FLOAT64
from softwright.targets.formula import Expression, Node, Number, Operation, Variable, additive_terms, is_affine
from softwright.theorems.tools.ridge_sums import RIDGE, curvature, ridge_sum

_NEARLY = 2.0**-36  # directions that differ by less are told apart by rounding alone


@dataclass(frozen=True)
class HiddenLayer:
    """C relu(W x + t) + c with W (N, m), t (N,), C (outputs, N), c (outputs,), and the error of each output.

    `ridges` are the sums that stand for terms of several directions, "" where an output has none.
    """

    W: np.ndarray
    t: np.ndarray
    C: np.ndarray
    c: np.ndarray
    errors: np.ndarray
    ridges: tuple[str, ...] = ()

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """(..., m) -> (..., outputs)"""
        return np.maximum(np.asarray(x) @ self.W.T + self.t, 0.0) @ self.C.T + self.c

    def to_json(self) -> dict[str, list]:
        return {name: getattr(self, name).tolist() for name in ("W", "t", "C", "c")}


@dataclass(frozen=True)
class _Part:
    """A ridge term of an output, on so many stretches; `smooth` if it is a polynomial that begins with slope 0."""

    output: int
    direction: np.ndarray
    profile: Expression
    stretches: int
    smooth: bool = False


def hidden_layer_of(
    formula: Expression, box: Box, knots: int, most_units: int = 160, unit_error: float = 0.0
) -> HiddenLayer:
    """The relu network of a formula on a box; `knots` stretches for every ridge term.

    Terms of several directions share the rest of `most_units`; `unit_error`, what a unit between 0 and 1 will be off,
    helps to choose their ridges.
    """
    faults = Faults("hidden layer")
    jumps = [kink.expression.text for kink in formula.kinks() if kink.jump]
    faults.check(not jumps, f"the formula jumps where {', '.join(jumps)} = 0; the theorem is for continuous functions")
    parts: list[_Part] = []
    mixed: dict[int, Expression] = {}
    for o, tree in enumerate(formula.nodes):
        terms = [each for sign, node in additive_terms(tree) for each in _opened(sign, node)]
        for text in [text for sign, node in terms for text in _too_near(node, formula.names)]:
            faults.add(f"the affine parts of {text} have directions that differ by rounding alone; write them alike")
        found = [_ridges(sign, node, formula.names) for sign, node in terms]
        single = [each is not None and len(each) == 1 for each in found]
        if any(each is None for each in found):
            rest = [term for term, alone in zip(terms, single, strict=True) if not alone]
            mixed[o] = Expression.from_nodes([_sum(rest)], formula.names)
            found = [each for each, alone in zip(found, single, strict=True) if alone]
        parts += [_Part(o, *ridge, knots) for each in found if each is not None for ridge in each]
    faults.raise_if_any()
    errors, c, written = np.zeros(formula.outputs), np.zeros(formula.outputs), [""] * formula.outputs
    left = most_units - sum(part.stretches for part in parts if np.any(part.direction))
    for o, rest in mixed.items():
        found = ridge_sum(rest, box, left // len(mixed), knots, unit_error)
        if found is None:
            faults.add(
                f"the term {rest.text} varies in several directions at once and {left // len(mixed)} hidden units are "
                "left for it; take fewer knots, or the map as a program: softwright theorem A3 --program"
            )
            continue
        parts += [_Part(o, part.direction, part.profile, part.stretches, smooth=True) for part in found.parts]
        errors[o], c[o], written[o] = found.distance, found.constant, found.text
    faults.raise_if_any()
    return _interpolated(parts, box, c, errors, tuple(written) if mixed else ())


def _interpolated(
    parts: list[_Part], box: Box, c: np.ndarray, errors: np.ndarray, ridges: tuple[str, ...]
) -> HiddenLayer:
    """All ridge terms on their stretches; c and errors (outputs,) hold what there is besides."""
    W, t, C = [], [], []
    for part in parts:
        direction, profile, o = part.direction, part.profile, part.output
        low, high = _interval(direction, box)
        if not np.any(direction):
            least, most, _ = profile.enclose(np.zeros((1, 1)), np.zeros((1, 1)))
            c[o] += 0.5 * (least[0, 0] + most[0, 0])
            errors[o] += most[0, 0] - least[0, 0] + 2 * FLOAT64.unit * abs(c[o])  # sin(1) is no float64
            continue
        rho = np.linspace(low, high, part.stretches + 1)
        values = profile(rho[:, None])[:, 0]
        slopes = np.diff(values) / np.diff(rho)
        jumps_of_slope = np.diff(slopes, prepend=0.0)
        c[o] += values[0]
        errors[o] += _interpolation_error(profile, rho, part.smooth) + _stored_error(profile, rho, values, slopes)
        errors[o] += 2 * FLOAT64.unit * abs(c[o])  # that was added up
        if part.smooth and part.stretches > 1:  # it begins with slope 0, but for rounding
            errors[o] += abs(slopes[0]) * (high - low) * (1.0 + 1e-12)
            jumps_of_slope[0] = 0.0
        for k in np.flatnonzero(jumps_of_slope):
            W.append(direction)
            t.append(-rho[k])
            column = np.zeros(len(c))
            column[o] = jumps_of_slope[k]
            C.append(column)
    if not W:  # a constant formula: one idle unit
        W, t, C = [np.zeros(box.dim)], [0.0], [np.zeros(len(c))]
    return HiddenLayer(np.array(W), np.array(t), np.array(C).T, c, errors, ridges)


def _interval(direction: np.ndarray, box: Box) -> tuple[float, float]:
    ends = np.stack([direction * box.lower, direction * box.upper])
    return float(ends.min(axis=0).sum()), float(ends.max(axis=0).sum())


def _interpolation_error(profile: Expression, rho: np.ndarray, smooth: bool) -> float:
    """The largest error of linear interpolation between the knots, enclosed; that of a polynomial by Taylor models."""
    low, high, h = rho[:-1, None], rho[1:, None], np.diff(rho)
    first = profile.derivative(RIDGE)
    second = first.derivative(RIDGE)
    low2, high2, defined2 = second.enclose(low, high)
    curve = np.maximum(np.abs(low2[:, 0]), np.abs(high2[:, 0]))
    if smooth:
        return float((np.minimum(curve, curvature(second, rho)) * h**2 / 8).max()) * (1.0 + 1e-12)
    low1, high1, defined1 = first.enclose(low, high)
    kinked = ~defined2
    for kink in profile.kinks():
        below, above, _ = kink.expression.enclose(low, high)
        kinked |= (below[:, 0] <= 0) & (above[:, 0] >= 0)
    steep = np.maximum(np.abs(low1[:, 0]), np.abs(high1[:, 0])) * h / 2
    bound = np.where(kinked, np.where(defined1, steep, np.inf), np.minimum(curve * h**2 / 8, steep))
    if not np.isfinite(bound).all():  # the slope is not bounded there: no value is farther off than the range is wide
        low0, high0, defined0 = profile.enclose(low, high)
        bound = np.where(np.isfinite(bound), bound, np.where(defined0, high0[:, 0] - low0[:, 0], np.inf))
    return float(bound.max()) * (1.0 + 1e-12)


def _stored_error(profile: Expression, rho: np.ndarray, values: np.ndarray, slopes: np.ndarray) -> float:
    """What float64 makes of the interpolation: values as they were computed, slopes and their jumps rounded."""
    low, high, _ = profile.enclose(rho[:, None], rho[:, None])
    computed = np.maximum(high[:, 0] - values, values - low[:, 0]).max()
    return float(computed + 16 * FLOAT64.unit * np.abs(slopes).sum() * (rho[-1] - rho[0]))


_Ridge = list[tuple[np.ndarray, Expression]]  # (direction, profile in r)


def _sum(terms: list[tuple[int, Node]]) -> Node:
    """Signed terms as one tree."""
    (sign, total), *others = terms
    total = total if sign > 0 else Operation("neg", (total,))
    for sign, node in others:
        total = Operation("add" if sign > 0 else "sub", (total, node))
    return total


def _opened(sign: int, node: Node) -> list[tuple[int, Node]]:
    """max(A, B) of affine parts with several directions, and min, as terms of one direction each."""
    if not (isinstance(node, Operation) and node.name in ("max", "min") and len(node.arguments) == 2):
        return [(sign, node)]
    left, right = node.arguments
    forms = [is_affine(left), is_affine(right)]
    if None in forms or not all(form[0] for form in forms if form is not None):
        return [(sign, node)]
    half = _number(0.5)
    mean = Operation("mul", (half, Operation("add", (left, right))))
    gap = Operation("mul", (half, Operation("abs", (Operation("sub", (left, right)),))))
    return [(sign, mean), (sign if node.name == "max" else -sign, gap)]


def _too_near(node: Node, names: tuple[str, ...]) -> list[str]:
    """The term's text if two directions in it differ by rounding alone."""
    vectors: list[np.ndarray] = []
    waiting = [node]
    while waiting:
        each = waiting.pop()
        form = is_affine(each)
        if form is None:
            waiting += each.arguments if isinstance(each, Operation) else ()
        elif form[0]:
            vectors.append(np.array([form[0].get(name, 0.0) for name in names]))
    base = vectors[0] if vectors else np.zeros(len(names))
    for vector in vectors[1:]:
        pivot = int(np.abs(base).argmax())
        off = np.abs(vector - vector[pivot] / base[pivot] * base) if base[pivot] else vector
        if (
            not np.array_equal(vector[pivot] / base[pivot] * base, vector)
            and off.sum() < _NEARLY * np.abs(vector).sum()
        ):
            return [Expression.from_nodes([node], names).text]
    return []


def _ridges(sign: int, node: Node, names: tuple[str, ...]) -> _Ridge | None:
    """A term as ridge functions; None if it is none."""
    signed = node if sign > 0 else Operation("neg", (node,))
    direction: list[np.ndarray] = []
    rewritten = _along(signed, names, direction)
    if rewritten is not None:
        vector = direction[0] if direction else np.zeros(len(names))
        return [(vector, Expression.from_nodes([rewritten], [RIDGE]))]
    product = _product(signed)
    if product is None:
        return None
    factor, left, right = product
    parts: _Ridge = []
    for joined, weight in ((Operation("add", (left, right)), 0.25), (Operation("sub", (left, right)), -0.25)):
        square = Operation("mul", (_number(abs(factor * weight)), Operation("pow", (joined, _number(2.0)))))
        parts += _ridges(1 if factor * weight > 0 else -1, square, names) or []
    return parts


def _along(node: Node, names: tuple[str, ...], direction: list[np.ndarray]) -> Node | None:
    """The tree with every maximal affine part written in r = direction.x; None if two directions meet."""
    form = is_affine(node)
    if form is not None:
        vector = np.array([form[0].get(name, 0.0) for name in names])
        if not np.any(vector):
            return _number(form[1])
        if not direction:
            direction.append(vector)
        base = direction[0]
        pivot = int(np.abs(base).argmax())
        factor = vector[pivot] / base[pivot]
        if not np.array_equal(factor * base, vector):
            return None
        scaled = Operation("mul", (_number(float(factor)), Variable(RIDGE)))
        return Operation("add", (scaled, _number(form[1])))
    if not isinstance(node, Operation):
        return node
    arguments = [_along(argument, names, direction) for argument in node.arguments]
    found = [argument for argument in arguments if argument is not None]
    return Operation(node.name, tuple(found)) if len(found) == len(arguments) else None


def _number(value: float) -> Node:
    literal = Number(abs(value), repr(abs(value)))
    return Operation("neg", (literal,)) if value < 0 else literal


def _product(node: Node) -> tuple[float, Node, Node] | None:
    """factor * A * B with A and B affine."""
    factor = 1.0
    parts: list[Node] = []
    waiting = [node]
    while waiting:
        each = waiting.pop()
        form = is_affine(each)
        if form is not None and not form[0]:
            factor *= form[1]
        elif form is not None:
            parts.append(each)
        elif isinstance(each, Operation) and each.name == "neg":
            factor = -factor
            waiting.append(each.arguments[0])
        elif isinstance(each, Operation) and each.name == "mul":
            waiting += each.arguments
        else:
            return None
    return (factor, parts[0], parts[1]) if len(parts) == 2 and factor else None
