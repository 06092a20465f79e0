"""A formula turned into a network with one hidden layer of relu units, with a bound of what that costs.

A formula that is a sum of *ridge terms* g(c.x) becomes exactly that: on the interval of r = c.x, g is interpolated
linearly between K + 1 equidistant knots, g(rho_0) + sum_k m_k relu(r - rho_k), m_k the jump of the slope at rho_k. On
a stretch of width h the interpolation errs by at most max |g''| h^2/8; on a stretch where g may have a kink, by at
most max |g'| h/2. Both maxima are enclosed by interval arithmetic.

Which terms are ridge terms is read off the syntax tree: a term all of whose maximal affine parts share one direction is
one; the product of two affine parts A B is two, ((A + B)^2 - (A - B)^2)/4. A formula with other terms is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softwright.domain import Box
from softwright.errors import Faults
from softwright.precision import FLOAT64
from softwright.targets.formula import Expression, Node, Number, Operation, Variable, additive_terms, is_affine

_RIDGE = "r"


@dataclass(frozen=True)
class HiddenLayer:
    """C relu(W x + t) + c with W (N, m), t (N,), C (outputs, N), c (outputs,), and the error of each output."""

    W: np.ndarray
    t: np.ndarray
    C: np.ndarray
    c: np.ndarray
    errors: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """(..., m) -> (..., outputs)"""
        return np.maximum(np.asarray(x) @ self.W.T + self.t, 0.0) @ self.C.T + self.c

    def to_json(self) -> dict[str, list]:
        return {name: getattr(self, name).tolist() for name in ("W", "t", "C", "c")}


def hidden_layer_of(formula: Expression, box: Box, knots: int) -> HiddenLayer:
    """The relu network of a formula on a box; `knots` stretches for every ridge term."""
    faults = Faults("hidden layer")
    terms = [[_ridges(sign, node, formula.names) for sign, node in additive_terms(tree)] for tree in formula.nodes]
    for output in terms:
        for found in output:
            if isinstance(found, str):
                faults.add(
                    f"the term {found} varies in several directions at once, so that one hidden layer is not read off "
                    "it; write the formula as a sum of functions of one affine argument each, give a network, or "
                    "take the map as a program: softwright theorem A3 --program"
                )
    jumps = [kink.expression.text for kink in formula.kinks() if kink.jump]
    faults.check(not jumps, f"the formula jumps where {', '.join(jumps)} = 0; the theorem is for continuous functions")
    faults.raise_if_any()
    W, t, C, c, errors = [], [], [], np.zeros(formula.outputs), np.zeros(formula.outputs)
    for o, output in enumerate(terms):
        for found in output:
            for direction, profile in found if not isinstance(found, str) else ():
                low, high = _interval(direction, box)
                if not np.any(direction):
                    least, most, _ = profile.enclose(np.zeros((1, 1)), np.zeros((1, 1)))
                    c[o] += 0.5 * (least[0, 0] + most[0, 0])
                    errors[o] += most[0, 0] - least[0, 0] + 2 * FLOAT64.unit * abs(c[o])  # sin(1) is no float64
                    continue
                rho = np.linspace(low, high, knots + 1)
                values = profile(rho[:, None])[:, 0]
                slopes = np.diff(values) / np.diff(rho)
                jumps_of_slope = np.diff(slopes, prepend=0.0)
                c[o] += values[0]
                errors[o] += _interpolation_error(profile, rho) + _stored_error(profile, rho, values, slopes)
                errors[o] += 2 * FLOAT64.unit * abs(c[o])  # that was added up
                for k in np.flatnonzero(jumps_of_slope):
                    W.append(direction)
                    t.append(-rho[k])
                    column = np.zeros(formula.outputs)
                    column[o] = jumps_of_slope[k]
                    C.append(column)
    if not W:  # a constant formula: one idle unit
        W, t, C = [np.zeros(len(formula.names))], [0.0], [np.zeros(formula.outputs)]
    return HiddenLayer(np.array(W), np.array(t), np.array(C).T, c, errors)


def _interval(direction: np.ndarray, box: Box) -> tuple[float, float]:
    ends = np.stack([direction * box.lower, direction * box.upper])
    return float(ends.min(axis=0).sum()), float(ends.max(axis=0).sum())


def _interpolation_error(profile: Expression, rho: np.ndarray) -> float:
    """The largest error of linear interpolation between the knots, enclosed."""
    low, high, h = rho[:-1, None], rho[1:, None], np.diff(rho)
    first = profile.derivative(_RIDGE)
    low1, high1, defined1 = first.enclose(low, high)
    low2, high2, defined2 = first.derivative(_RIDGE).enclose(low, high)
    kinked = ~defined2
    for kink in profile.kinks():
        below, above, _ = kink.expression.enclose(low, high)
        kinked |= (below[:, 0] <= 0) & (above[:, 0] >= 0)
    steep = np.maximum(np.abs(low1[:, 0]), np.abs(high1[:, 0])) * h / 2
    curved = np.maximum(np.abs(low2[:, 0]), np.abs(high2[:, 0])) * h**2 / 8
    bound = np.where(kinked, np.where(defined1, steep, np.inf), np.minimum(curved, steep))
    return float(bound.max()) * (1.0 + 1e-12)


def _stored_error(profile: Expression, rho: np.ndarray, values: np.ndarray, slopes: np.ndarray) -> float:
    """What float64 makes of the interpolation: values as they were computed, slopes and their jumps rounded."""
    low, high, _ = profile.enclose(rho[:, None], rho[:, None])
    computed = np.maximum(high[:, 0] - values, values - low[:, 0]).max()
    return float(computed + 16 * FLOAT64.unit * np.abs(slopes).sum() * (rho[-1] - rho[0]))


_Ridge = list[tuple[np.ndarray, Expression]]  # (direction, profile in r)


def _ridges(sign: int, node: Node, names: tuple[str, ...]) -> _Ridge | str:
    """A term as ridge functions, or its text if it is none."""
    signed = node if sign > 0 else Operation("neg", (node,))
    direction: list[np.ndarray] = []
    rewritten = _along(signed, names, direction)
    if rewritten is not None:
        vector = direction[0] if direction else np.zeros(len(names))
        return [(vector, Expression.from_nodes([rewritten], [_RIDGE]))]
    product = _product(signed)
    if product is not None:
        factor, left, right = product
        parts: _Ridge = []
        for joined, weight in ((Operation("add", (left, right)), 0.25), (Operation("sub", (left, right)), -0.25)):
            square = Operation("mul", (_number(abs(factor * weight)), Operation("pow", (joined, _number(2.0)))))
            found = _ridges(1 if factor * weight > 0 else -1, square, names)
            if isinstance(found, str):
                return found
            parts += found
        return parts
    return Expression.from_nodes([node], names).text


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
        scaled = Operation("mul", (_number(float(factor)), Variable(_RIDGE)))
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
