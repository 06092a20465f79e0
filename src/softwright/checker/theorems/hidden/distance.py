"""How large a formula of several variables is on a box: the largest |f - S| of a function and what stands for it.

On a box the formula is a Taylor model; Bernstein coefficients bound its polynomial up to the degree that the space
keeps them for, moduli the rest. The boxes with the largest bounds are halved across their longest side, until no bound
is more than a few per cent above the largest value that was seen in the middle of a box, or more than who asks minds.
That steers only: the answer is the largest of the bounds of all boxes that are left, which cover the whole box.
"""

from __future__ import annotations

import heapq
import itertools

from flint import arb, arb_mat, fmpq

from softwright.checker.refusal import UndefinedError, require
from softwright.checker.taylor import Model, Space, evaluate
from softwright.checker.trees import Tree, children, renamed

DEGREES = {1: 10, 2: 8, 3: 6, 4: 4}  # of the Taylor models; 3 for more variables
MOST_BOXES = 6_000
NEAR, NOTHING = 1.03, 1e-14
NARROWEST = fmpq(1, 2**40)  # a share of the box on which a bound ought to be known
UNBOUNDED = "the formula may be undefined or unbounded somewhere in the box"
Sides = list[tuple[fmpq, fmpq]]


def largest_size(tree: Tree, low: list[fmpq], high: list[fmpq], enough: arb) -> arb:
    """An upper bound of |tree| over the box; nothing is gained by one below `enough`."""
    used = variables_of(tree) or [0]
    least = float(enough)
    own = renamed(tree, used)
    whole: Sides = [(low[i], high[i]) for i in used]
    space = Space(len(used), DEGREES.get(len(used), 3))
    order = itertools.count()
    bound, seen = size_on(space, own, whole)
    heap = [(-float(bound), next(order), bound, whole)]
    for _ in range(MOST_BOXES):
        if -heap[0][0] <= max(NEAR * seen + NOTHING, least):
            break
        worst = heapq.heappop(heap)[3]
        require(widest(worst, whole)[0] > NARROWEST, UNBOUNDED)
        for half in halves(worst, whole):
            bound, there = size_on(space, own, half)
            seen = max(seen, there)
            heapq.heappush(heap, (-float(bound), -next(order), bound, half))  # of equal bounds the newest is next
    found = [bound for _, _, bound, _ in heap]
    require(all(bound.is_finite() for bound in found), UNBOUNDED)
    return max(bound.upper() for bound in found)


def variables_of(tree: Tree) -> list[int]:
    found, waiting = set(), [tree]
    while waiting:
        node = waiting.pop()
        if node[0] == "variable":
            found.add(node[1])
        else:
            waiting += children(node)
    return sorted(found)


def widest(sides: Sides, whole: Sides) -> tuple[fmpq, int]:
    """The largest share that a side has of the whole, and which it is."""
    shares = [(b - a) / (top - bottom) for (a, b), (bottom, top) in zip(sides, whole, strict=True)]
    return max(shares), shares.index(max(shares))


def halves(sides: Sides, whole: Sides) -> list[Sides]:
    """A box cut across the side that is longest relative to the whole."""
    i = widest(sides, whole)[1]
    middle = sum(sides[i], fmpq(0)) / 2
    return [[*sides[:i], side, *sides[i + 1 :]] for side in ((sides[i][0], middle), (middle, sides[i][1]))]


def size_on(space: Space, tree: Tree, sides: Sides) -> tuple[arb, float]:
    """A bound of |tree| on a box, infinite where it may be undefined, and about what it is in the middle."""
    arguments = []
    for i, (low, high) in enumerate(sides):
        slopes = [arb((high - low) / 2) if i == k else arb(0) for k in range(space.dim)]
        arguments.append(Model(space, space.linear(arb((low + high) / 2), slopes)))
    try:
        model = evaluate(tree, arguments)
    except UndefinedError:
        return arb.pos_inf(), 0.0
    coefficients = space.coefficients(model.parts)
    corners = (arb_mat([coefficients[: space.low_count]]) * space.bernstein).tolist()[0]
    rest = sum((abs(c) for c in coefficients[space.low_count :]), model.error)
    bounds = [(abs(corner) + rest).upper() for corner in corners]
    if not all(bound.is_finite() for bound in bounds):
        return arb.pos_inf(), 0.0
    return max(bounds), max(float(abs(coefficients[0]).lower()) - float(model.error.upper()), 0.0)
