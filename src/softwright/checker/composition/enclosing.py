"""`Enclosing`: what formulas are worth over many boxes at once, where they are certainly defined, and their slopes.

Values are computed node by node in outward-rounded intervals; where a node may be undefined its value is the whole
line. Known ranges of nodes over the whole domain, proved elsewhere, are met with what the box shows.

Slopes are interval adjoints: from the target down, the adjoint of an argument is the sum over its readers of their
adjoint times their partial derivative. At a kink the partial derivative is the hull of both slopes (Clarke), so a mean
value with it is right; at a jump (where, floor, sign, mod, atan2 across its cut) it is the whole line for everything
that decides where the jump is, so nothing is ever concluded across one.

*Coordinates* are the nodes that the boxes are made of: variables, or any other nodes, which then stand for themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from flint import arb, ctx

from softwright.checker.composition import curves
from softwright.checker.composition.dag import CONDITIONS, Dag, Node
from softwright.checker.composition.intervals import BITS, Array, Interval, above, below
from softwright.checker.composition.partials import partials
from softwright.checker.limits import check_time
from softwright.checker.refusal import NotProvedError
from softwright.checker.trees import Tree

CALL = 100  # boxes that could be worked on while an operation is looked up
Values = dict[int, Interval]
Masks = dict[int, Array]  # of a node: where it is certainly defined
Found = tuple[Interval, Array]


class Enclosing:
    """Enclosures of the nodes of a dag; `known` holds ranges over the whole domain by number."""

    def __init__(self, dag: Dag, known: Mapping[int, tuple[float, float]] | None = None) -> None:
        self.dag = dag
        self.known = {} if known is None else known
        self.work = 0  # arguments of nodes times boxes
        self._constants: dict[int, tuple[float, float] | None] = {}
        self._orders: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}

    def order(self, targets: Sequence[int], cut: Sequence[int]) -> list[int]:
        key = tuple(targets), tuple(cut)
        if key not in self._orders:
            self._orders[key] = self.dag.needed(targets, cut)
        return self._orders[key]

    def values(self, targets: Sequence[int], given: Mapping[int, Interval], count: int) -> tuple[Values, Masks]:
        """All nodes below the targets over boxes: intervals, and where they are defined."""
        values, masks = dict(given), dict.fromkeys(given, np.ones(count, dtype=bool))
        self._run(self.order(targets, tuple(given)), values, masks, count)
        return values, masks

    def extend(self, targets: Sequence[int], values: Values, masks: Masks, count: int) -> None:
        """The same with what is known already, which is added to."""
        missing = [n for n in targets if n not in values]
        if missing:
            self._run(self.dag.needed(missing), values, masks, count)

    def _run(self, order: Sequence[int], values: Values, masks: Masks, count: int) -> None:
        for number in order:
            if number in values:
                continue
            check_time()
            node = self.dag[number]
            self.work += (count + CALL) * max(len(node.arguments), 1)
            if node.kind in CONDITIONS:
                (sure, maybe), masks[number] = self._condition(node, values, masks)
                values[number] = Interval(sure.astype(float), maybe.astype(float))
                continue
            if self._is_constant(number):
                found, mask = self._constant(number, count)
            elif node.kind == "variable":
                raise NotProvedError("a variable has no range")
            elif node.kind == "where":
                found, mask = _choice(node, values, masks)
            else:
                found, mask = _value(self.dag, node, [values[a] for a in node.arguments])
                for argument in node.arguments:
                    mask = mask & masks[argument]
                found = found.known(mask)
            if number in self.known:
                low, high = self.known[number]
                inner = Interval(np.maximum(found.lower, low), np.minimum(found.upper, high))
                # A box of coordinates that no point of the domain has may contradict what is known: anything is true.
                found = inner.where(inner.lower <= inner.upper, Interval.of(low, np.full(count, high)))
            values[number], masks[number] = found, mask

    def slopes(self, target: int, given: Mapping[int, Interval], values: Values) -> dict[int, Interval]:
        """The partial derivatives of the target by the coordinates, over the boxes of `values`."""
        order = self.order((target,), tuple(given))
        count = len(values[target])
        adjoints: dict[int, Interval] = {target: Interval(np.ones(count), np.ones(count))}
        for number in reversed(order):
            adjoint = adjoints.pop(number, None) if number not in given else None
            if adjoint is None or not self.dag.varies[number]:
                continue
            check_time()
            self.work += (count + CALL) * len(self.dag[number].arguments)
            for argument, partial in partials(self.dag, number, values):
                if self.dag.varies[argument] or argument in given:
                    step = adjoint * partial
                    adjoints[argument] = adjoints[argument] + step if argument in adjoints else step
        zero = Interval(np.zeros(count), np.zeros(count))
        return {number: adjoints.get(number, zero) for number in given}

    def _is_constant(self, number: int) -> bool:
        """Whether balls know its value; constants that they do not know are computed like everything else."""
        if self.dag.varies[number]:
            return False
        if number not in self._constants:
            with ctx.workprec(BITS):
                ball = constant_ball(self.dag, number)
                self._constants[number] = (below(ball), above(ball)) if ball.is_finite() else None
        return self._constants[number] is not None

    def _constant(self, number: int, count: int) -> Found:
        low, high = self._constants[number] or (-np.inf, np.inf)
        return Interval(np.full(count, low), np.full(count, high)), np.ones(count, dtype=bool)

    def _condition(self, node: Node, values: Values, masks: Masks) -> tuple[tuple[Array, Array], Array]:
        """(where it certainly holds, where it may hold), and where all that it asks for is defined."""
        mask = masks[node.arguments[0]]
        for argument in node.arguments[1:]:
            mask = mask & masks[argument]
        if node.kind == "compare":
            sure, maybe = np.ones(len(mask), dtype=bool), np.ones(len(mask), dtype=bool)
            for symbol, a, b in zip(node.payload, node.arguments, node.arguments[1:], strict=False):
                one, other = (values[a], values[b]) if symbol[0] == "<" else (values[b], values[a])
                strict = symbol in ("<", ">")
                sure &= one.upper < other.lower if strict else one.upper <= other.lower
                maybe &= one.lower < other.upper if strict else one.lower <= other.upper
            return (sure & mask, maybe | ~mask), mask
        parts = [_truth(values[a]) for a in node.arguments]
        if node.kind == "not":
            return (~parts[0][1] & mask, ~parts[0][0] | ~mask), mask
        joined = np.logical_and if node.kind == "and" else np.logical_or
        sure, maybe = parts[0]
        for s, m in parts[1:]:
            sure, maybe = joined(sure, s), joined(maybe, m)
        return (sure & mask, maybe | ~mask), mask


def _truth(found: Interval) -> tuple[Array, Array]:
    """(where a condition certainly holds, where it may hold); its value is an interval of 0 and 1."""
    return found.lower == 1.0, found.upper == 1.0


def _choice(node: Node, values: Values, masks: Masks) -> Found:
    """One branch where the condition is certain, else the hull; the other branch then need not be defined."""
    condition, first, second = node.arguments
    sure, maybe = _truth(values[condition])
    both = values[first].hull(values[second])
    found = values[first].where(sure, values[second].where(~maybe, both))
    mask = np.where(sure, masks[first], np.where(~maybe, masks[second], masks[first] & masks[second]))
    return found.known(mask & masks[condition]), mask & masks[condition]


def _value(dag: Dag, node: Node, x: Sequence[Interval]) -> Found:
    """A node that is neither leaf nor condition nor choice, from its arguments' intervals."""
    kind, everywhere = node.kind, np.ones(len(x[0]), dtype=bool)
    if kind == "sum":
        total = x[0] if node.payload[0] > 0 else -x[0]
        for sign, term in zip(node.payload[1:], x[1:], strict=True):
            total = total + term if sign > 0 else total - term
        return total, everywhere
    if kind == "product":
        result, mask = None, everywhere
        for sign, factor in zip(node.payload, x, strict=True):
            if sign < 0:
                mask = mask & ((factor.lower > 0) | (factor.upper < 0))
            own = factor if sign > 0 else factor.reciprocal()
            result = own if result is None else result * own
        return result if result is not None else x[0], mask
    if kind == "pow":
        exponent = dag.rational(node.arguments[1])
        if exponent is not None and (exponent.q != 1 or abs(exponent.p) <= 10_000):
            return curves.power(x[0], exponent)
        positive = x[0].lower > 0
        found = (x[0].log() * x[1]).exp()
        return found.known(positive), positive
    if kind in ("max", "min"):
        result = x[0]
        for other in x[1:]:
            result = result.maximum(other) if kind == "max" else result.minimum(other)
        return result, everywhere
    if kind == "abs":
        return x[0].absolute(), everywhere
    if kind in curves.ROUNDED:
        return Interval(curves.ROUNDED[kind](x[0].lower), curves.ROUNDED[kind](x[0].upper)), everywhere
    if kind == "hypot":
        return (x[0].square() + x[1].square()).sqrt(), everywhere
    if kind == "atan2":
        return _angle(x[0], x[1])
    if kind == "xlogy":
        return _x_log_y(x[0], x[1], node.arguments[0] == node.arguments[1])
    if kind == "mod":
        whole = curves.turns(x[0], x[1])
        sure = whole.lower == whole.upper
        between = x[1].hull(curves.constant(0.0, x[1]))
        defined = (x[1].lower > 0) | (x[1].upper < 0)
        return (x[0] - x[1] * whole).where(sure, between).known(defined), defined
    if curves.is_curve(kind):
        return curves.values(kind, x[0])
    raise NotProvedError(f"{kind} has no rule over boxes")


def _angle(y: Interval, x: Interval) -> Found:
    """atan2 by its half planes: the arctangent of y/x, or of x/y where that may be infinite."""
    with ctx.workprec(BITS):
        half = Interval.ball(arb.pi() / 2, len(x))
    flat, _ = curves.values("atan", y * x.reciprocal().known((x.lower > 0) | (x.upper < 0)))
    steep, _ = curves.values("atan", x * y.reciprocal().known((y.lower > 0) | (y.upper < 0)))
    any_angle = (-half).hull(half).scaled(2.0)
    found = any_angle
    found = (flat + half.scaled(2.0)).where((x.upper < 0) & (y.lower >= 0), found)
    found = (flat - half.scaled(2.0)).where((x.upper < 0) & (y.upper < 0), found)
    found = (-half - steep).where(y.upper < 0, found)
    found = (half - steep).where(y.lower > 0, found)
    found = flat.where(x.lower > 0, found)
    defined = (x.lower > 0) | (x.upper < 0) | (y.lower > 0) | (y.upper < 0)
    return found.meet(any_angle).known(defined), defined


def _x_log_y(x: Interval, y: Interval, same: bool) -> Found:
    """x log y; x log x from its least value -1/e on, 0 at 0; and 0 where x is 0, whatever y is."""
    if same:
        size = Interval(np.maximum(x.lower, 0.0), np.maximum(x.upper, 0.0))
        ends = [
            (end * end.log()).where(end.lower > 0, curves.constant(0.0, end))
            for end in (Interval(size.lower, size.lower), Interval(size.upper, size.upper))
        ]
        found = ends[0].hull(ends[1])
        with ctx.workprec(BITS):
            least, place = Interval.ball(-(arb(-1).exp()), len(x)), arb(-1).exp()
            turning = (size.lower <= above(place)) & (size.upper >= below(place))
        found = found.hull(least).where(turning, found)
        return found.known(x.lower >= 0), x.lower >= 0
    nothing = (x.lower == 0) & (x.upper == 0)
    defined = (y.lower > 0) | nothing
    found = curves.constant(0.0, x).where(nothing, x * y.log())
    return found.known(defined), defined


def constant_ball(dag: Dag, number: int) -> arb:
    """A narrow ball around a constant; not finite where it has no value."""
    balls: dict[int, arb] = {}
    for n in dag.needed([number]):
        node = dag[n]
        x = [balls[a] for a in node.arguments if a in balls]
        if node.kind in CONDITIONS:
            continue
        balls[n] = _constant_value(dag, node, x)
    return balls[number]


def _constant_value(dag: Dag, node: Node, x: list[arb]) -> arb:
    kind = node.kind
    if kind == "number":
        return arb(node.payload)
    if kind in ("pi", "e"):
        return arb.pi() if kind == "pi" else arb.const_e()
    if kind == "sum":
        return sum((s * a for s, a in zip(node.payload, x, strict=True)), arb(0))
    if kind == "product":
        result = arb(1)
        for s, a in zip(node.payload, x, strict=True):
            result = result * a if s > 0 else arb.nan() if a.contains(0) else result / a
        return result
    if kind == "pow":
        exponent = dag.rational(node.arguments[1])
        if exponent is not None and exponent.q == 1 and abs(exponent.p) <= 10_000:
            usable = exponent >= 0 or not x[0].contains(0)
            return x[0] ** int(exponent.p) if usable else arb.nan()
        if x[0].is_zero():
            return arb(0) if x[1] > 0 else arb.nan()
        return (x[1] * x[0].log()).exp() if x[0] > 0 else arb.nan()
    if kind == "abs":
        return abs(x[0])
    if curves.is_curve(kind):
        return curves.row(kind).at(x[0])
    if kind in ("max", "min"):
        result = x[0]
        for other in x[1:]:
            result = result.max(other) if kind == "max" else result.min(other)
        return result
    return arb.nan()


# ------------------------------------------------------------------------------------------------- for single formulas


def enclosed(tree: Tree, boxes: Sequence[Interval]) -> Found:
    """A tree over boxes, variable i over boxes[i]: an interval, and where it is certainly defined."""
    dag = Dag()
    given = {dag.variable(i): box for i, box in enumerate(boxes)}
    target = dag.tree(tree, list(given))
    count = len(boxes[0])
    values, masks = Enclosing(dag).values([target], given, count)
    return values[target], masks[target]


def enclosed_slopes(tree: Tree, boxes: Sequence[Interval]) -> list[Interval]:
    """The partial derivatives of a tree over boxes, one for each variable."""
    dag = Dag()
    given = {dag.variable(i): box for i, box in enumerate(boxes)}
    target = dag.tree(tree, list(given))
    enclosing, count = Enclosing(dag), len(boxes[0])
    values, _ = enclosing.values([target], given, count)
    found = enclosing.slopes(target, given, values)
    return [found[number] for number in given]
