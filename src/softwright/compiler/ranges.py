"""`Ranges`: rigorous ranges of sub-expressions over the whole box, tight enough to decide signs and domains.

Interval enclosures of a formula over a box are wide; four things make them narrow, all of them rigorous:

- *bisection*: boxes whose enclosure exceeds what samples show are halved, up to a number of boxes;
- *monotone ends*: where the enclosed partial derivative has a sign, the variable is replaced by one end of its side
  for the lower bound and by the other for the upper one;
- *mean values*: f(m) + sum_i [f_i] (x_i - m_i);
- *fresh variables*: a sub-expression that occurs several times is replaced by a variable with its own range, which
  removes the dependency inside it (sqrt(A^2 + B) - A is positive for the ranges of A and B, whatever these are made
  of).

The second and third rest on derivatives, which say nothing across a jump: they are left out for what may jump, and at
kinks the derivative of the language is an interval that holds both slopes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from softwright.compiler.nodes import (
    RULES,
    Expression,
    Interval,
    Node,
    Numbering,
    Operation,
    Tape,
    Variable,
    constant_interval,
    differentiate,
    has_jump,
    is_constant,
    variables_of,
)
from softwright.domain import Box
from softwright.work import count

_BOXES, _MOST_BOXES = 600, 6000
_SAMPLES = 2000
_NESTED = 3  # how deep fresh variables may stand for sub-expressions that hold fresh variables


class Range(NamedTuple):
    low: float
    high: float

    @property
    def positive(self) -> bool:
        """Whether it keeps so clear of zero that a logarithm can be taken."""
        return self.low > 0.0 and self.low > 1e-7 * self.high

    @property
    def size(self) -> float:
        return max(abs(self.low), abs(self.high))


class Ranges:
    """Ranges of trees over one box; each is found once."""

    def __init__(self, box: Box, depth: int = 0) -> None:
        self.box, self._depth = box, depth
        self._number = Numbering()
        self._known: dict[int, Range] = {}
        self._refined: set[int] = set()

    def of(self, node: Node) -> Range:
        """A range of the tree."""
        key = self._number(node)
        if key not in self._known:
            self._known[key] = self._found(node, _BOXES, 0.05)
        return self._known[key]

    def refined(self, node: Node, low: float | None = None, high: float | None = None) -> Range:
        """A range that is refined further as long as it reaches the ends that matter, `low` and `high`."""
        found = self.of(node)
        key = self._number(node)
        reaches = (low is not None and found.low <= low) or (high is not None and found.high >= high)
        if reaches and key not in self._refined and not is_constant(node):
            self._refined.add(key)
            sample = _sampled(Expression.from_nodes([node], self.box.names), self.box)
            width = float(sample.max() - sample.min()) + 1e-300 if len(sample) else 1.0
            share = 0.02
            if low is not None and found.low <= low and len(sample):
                share = min(share, max(1e-5, 0.3 * (float(sample.min()) - low) / width))
            if high is not None and found.high >= high and len(sample):
                share = min(share, max(1e-5, 0.3 * (high - float(sample.max())) / width))
            better = self._found(node, _MOST_BOXES, share)
            self._known[key] = Range(max(found.low, better.low), min(found.high, better.high))
        return self._known[key]

    def positive(self, node: Node) -> Range | None:
        """A range that keeps clear of zero; None if there is none, at once if a point of the box shows it."""
        if not is_constant(node):
            sample = _sampled(Expression.from_nodes([node], self.box.names), self.box)
            if len(sample) and float(sample.min()) <= 0.0:
                return None
        found = self.refined(node, low=0.0)
        return found if found.positive else None

    def _found(self, node: Node, most: int, share: float) -> Range:
        if is_constant(node):
            exact = constant_interval(node)
            return Range(float(exact.lower), float(exact.upper))
        if isinstance(node, Variable):
            i = self.box.names.index(node.name)
            return Range(float(self.box.lower[i]), float(self.box.upper[i]))
        whole = self._bisected(node, most, share)
        parts = self._by_parts(node)
        return whole if parts is None else Range(max(whole.low, parts.low), min(whole.high, parts.high))

    def _bisected(self, node: Node, most: int, share: float) -> Range:
        names = variables_of((node,))
        used = np.array([self.box.names.index(name) for name in names])
        value = Expression.from_nodes([node], self.box.names)
        slopes = None
        if not has_jump(node):
            slopes = Expression.from_nodes([differentiate(node, name) for name in names], self.box.names)
        sample = _sampled(value, self.box)
        least, most_seen = (float(sample.min()), float(sample.max())) if len(sample) else (np.inf, -np.inf)
        slack = share * max(most_seen - least, 0.0) if len(sample) else np.inf
        lower, upper = self.box.lower[None].copy(), self.box.upper[None].copy()
        low, high = np.inf, -np.inf  # of the boxes that are done
        spent = 0
        while True:
            floor, ceiling, weight = _enclosed(value, slopes, used, lower, upper)
            wide = (floor < least - slack) | (ceiling > most_seen + slack) | ~np.isfinite(floor) | ~np.isfinite(ceiling)
            if least > 0.0:
                wide |= floor < 0.7 * least
            spent += len(lower)
            if not wide.any() or spent + 2 * int(wide.sum()) > most:
                return Range(float(min(low, floor.min())), float(max(high, ceiling.max())))
            done = ~wide
            if done.any():
                low, high = min(low, float(floor[done].min())), max(high, float(ceiling[done].max()))
            rows = np.arange(int(wide.sum()))
            first, second = lower[wide], upper[wide]
            axis = used[weight[wide].argmax(axis=1)]
            middle = 0.5 * (first[rows, axis] + second[rows, axis])
            under, over = second.copy(), first.copy()
            under[rows, axis], over[rows, axis] = middle, middle
            lower, upper = np.vstack([first, over]), np.vstack([under, second])

    def _by_parts(self, node: Node) -> Range | None:
        """The range with fresh variables for sub-expressions that occur several times; None if there are none."""
        if self._depth >= _NESTED:
            return None
        tape = Tape((node,))
        uses = np.zeros(len(tape), dtype=int)
        for step in tape.steps:
            for argument in step.arguments:
                uses[argument] += 1
        repeated = [
            i
            for i, step in enumerate(tape.steps[:-1])
            if uses[i] > 1 and isinstance(step.node, Operation) and not tape.constant[i]
        ]
        if not repeated:
            return None
        chosen = repeated[-1]  # the outermost
        inner = tape.steps[chosen].node
        found = self.of(inner)
        if not (np.isfinite(found.low) and np.isfinite(found.high) and found.low < found.high):
            return None
        fresh = f"part{self._depth}"
        replaced = _replaced(tape, chosen, Variable(fresh))
        sides = {name: (low, high) for name, low, high in self.box if name in variables_of((replaced,))}
        return Ranges(Box({**sides, fresh: found}), self._depth + 1).of(replaced)


def _replaced(tape: Tape, chosen: int, variable: Node) -> Node:
    built: list[Node] = []
    for i, (part, positions) in enumerate(tape.steps):
        if i == chosen:
            built.append(variable)
        elif isinstance(part, Operation):
            built.append(Operation(part.name, tuple(built[p] for p in positions)))
        else:
            built.append(part)
    return built[-1]


def _sampled(value: Expression, box: Box) -> np.ndarray:
    """Finite values at random points and corners: where enclosures should end, not what they are."""
    corners = box.corners(512)
    found = value(np.vstack([box.sample(_SAMPLES, seed=1), corners]))[:, 0]
    return found[np.isfinite(found)]


def _enclosed(
    value: Expression, slopes: Expression | None, used: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bounds (n,) over boxes (n, d), and how much (n, used) each variable seems to matter."""
    count((400_000 + 30.0 * len(lower) * 4) * len(value.tape))
    floor, ceiling, _ = value.enclose(lower, upper)
    floor, ceiling = floor[:, 0], ceiling[:, 0]
    width = (upper - lower)[:, used]
    if slopes is None:
        return floor, ceiling, width / np.maximum(width.max(axis=0, keepdims=True), 1e-300)
    count((100_000 + 30.0 * len(lower)) * len(slopes.tape))
    sl, sh, defined = slopes.enclose(lower, upper)
    known = defined[:, None] & np.isfinite(sl) & np.isfinite(sh)
    rising, falling = known & (sl >= 0.0), known & (sh <= 0.0)
    # The lower bound takes rising variables at their lower end and falling ones at their upper end.
    ends = []
    for up, down in ((rising, falling & ~rising), (falling & ~rising, rising)):
        a, b = lower.copy(), upper.copy()
        b[:, used] = np.where(up, lower[:, used], b[:, used])
        a[:, used] = np.where(down, upper[:, used], a[:, used])
        ends.append((a, b))
    floor = np.maximum(floor, value.enclose(*ends[0])[0][:, 0])
    ceiling = np.minimum(ceiling, value.enclose(*ends[1])[1][:, 0])
    middle = lower + 0.5 * (upper - lower)
    total = Interval(*(end[:, 0] for end in value.enclose(middle, middle)[:2]))
    with np.errstate(all="ignore"):
        for q, i in enumerate(used):
            offset, _ = RULES["sub"](Interval(lower[:, i], upper[:, i]), Interval(middle[:, i], middle[:, i]))
            step, _ = RULES["mul"](Interval(sl[:, q], sh[:, q]), offset)
            total, _ = RULES["add"](total, step)
    usable = known.all(axis=1)
    floor = np.where(usable, np.fmax(floor, total.lower), floor)
    ceiling = np.where(usable, np.fmin(ceiling, total.upper), ceiling)
    with np.errstate(all="ignore"):
        weight = np.maximum(np.abs(sl), np.abs(sh)) * width * np.where(rising | falling, 1e-3, 1.0)
    weight = np.where(np.isfinite(weight).all(axis=1, keepdims=True), weight, width)
    return floor, ceiling, weight
