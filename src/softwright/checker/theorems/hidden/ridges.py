"""A formula as a sum of functions of one affine argument each, and how far piecewise linear functions are from them.

The terms of a formula on a box become *ridge terms* p(rho.x). Which they are is read off the tree: a term whose maximal
affine parts alpha.x + c all are multiples of one direction rho is one; the product A B of two affine parts is two,
((A + B)^2 - (A - B)^2)/4, and max(A, B) is (A + B)/2 + |A - B|/2. A file may give a sum of ridge terms that stands for
all terms of an output with several directions, products included: how far it is from them is for `distance`. Constants
may be balls (pi, sin(1)), and rho is the middle of such, so that an affine part is lambda rho.x + c + (alpha - lambda
rho).x: the last term, no larger than a blur, goes into the ball of c. Parts whose blur is more than 2^-40 of their size
have another direction. Terms of one direction are added up.

Against a ridge term stand the units v clip(a.x + b, 0, 1) whose a is a multiple of rho but for such a blur, which costs
|v| times it. In r = rho.x, on its exact interval, they add up to a function that is affine between its breakpoints, in
exact rationals. On every stretch the difference is a Taylor model, bounded by Bernstein coefficients, and stretches are
bisected until the range of the difference is known to 2^-12 of itself. All ranges and the constants add up.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from flint import arb, arb_mat, fmpq

from softwright.checker.limits import check_time
from softwright.checker.refusal import NotProvedError, UndefinedError, require
from softwright.checker.taylor import Model, Space, evaluate
from softwright.checker.trees import Tree, additive_terms, children

ZERO, QUARTER, HALF, TWO = arb(0), ("number", fmpq(1, 4)), ("number", fmpq(1, 2)), ("number", fmpq(2))
ARGUMENT = ("variable", 0)  # r
DEGREE = 10
NEARLY = arb(2) ** -40  # directions that differ by less, relatively, are one
SHARP, NOTHING = arb(2) ** -12, arb(2) ** -60
LARGEST_EXPONENT = 4_000
MOST_STRETCHES = 20_000  # for one direction
Vector = list[fmpq]
Affine = tuple[list[arb], arb]  # coefficients, constant


class OtherDirectionError(Exception):
    """A part of a term is affine in another direction than the rest."""


@dataclass
class Ridge:
    """Everything that varies in one direction: the terms of the formula, and the units (v, slope, offset) in r."""

    direction: Vector
    terms: list[Tree] = field(default_factory=list)
    units: list[tuple[fmpq, fmpq, fmpq]] = field(default_factory=list)


def ridge_terms(tree: Tree, reach: Vector, given: Tree | None = None) -> tuple[list[Ridge], arb, Tree | None]:
    """The ridge terms of an output on a box with |x_k| <= reach_k, and the sum of the terms that are constant.

    `given` is a sum of ridge terms that stands for all terms with several directions: then it is among the ridges
    instead of them, and the third is what they are more than it.
    """
    ridges: list[Ridge] = []
    rest, mixed = ZERO, []
    terms: list[tuple[int, Tree]] = [
        each for sign, term in additive_terms(tree) for each in opened(sign, term, len(reach))
    ]
    own = len(terms)
    terms += [] if given is None else additive_terms(given)
    for n, (sign, term) in enumerate(terms):
        signed = ("sum", [(sign, term)])
        form = affine(signed, len(reach))
        if form is not None and all(a.is_zero() for a in form[0]):
            rest += form[1]
        elif placed(signed, ridges, reach):
            continue
        elif given is not None:
            require(n < own, "what stands for terms of the formula varies in several directions at once itself")
            mixed.append((sign, term))
        else:
            pair = product_of_two(term)
            if pair is None:
                raise NotProvedError("a term of the formula varies in several directions at once")
            factors, A, B = pair
            for way in (1, -1):
                square = ("pow", ("sum", [(1, A), (way, B)]), TWO)
                part = ("sum", [(sign * way, ("product", [*factors, (1, QUARTER), (1, square)]))])
                require(placed(part, ridges, reach), "a product of the formula varies in several directions at once")
    return ridges, rest, None if given is None else ("sum", [*mixed, (-1, given)])


def opened(sign: int, term: Tree, count: int) -> list[tuple[int, Tree]]:
    """max(A, B) = (A + B)/2 + |A - B|/2 of two affine parts, min likewise, where neither is constant."""
    if term[0] not in ("max", "min") or len(term) != 3 or not all(varies(part) for part in term[1:]):
        return [(sign, term)]
    if any(affine(part, count) is None for part in term[1:]):
        return [(sign, term)]
    _, A, B = term
    mean, gap = ("sum", [(1, A), (1, B)]), ("abs", ("sum", [(1, A), (-1, B)]))
    other = sign if term[0] == "max" else -sign
    return [(s, ("product", [(1, HALF), (1, part)])) for s, part in ((sign, mean), (other, gap))]


def placed(term: Tree, ridges: list[Ridge], reach: Vector) -> bool:
    """Add a term to the ridge of its direction, which may be a new one; False if it has several."""
    new = Ridge([])
    for ridge in [*ridges, new]:
        check_time()
        try:
            rewritten = along(term, ridge.direction, reach)
        except OtherDirectionError:
            continue
        require(any(ridge.direction), "a term of the formula has no direction")
        ridge.terms.append(rewritten)
        ridges += [new] if ridge is new else []
        return True
    return False


def varies(node: Tree) -> bool:
    waiting = [node]
    while waiting:
        item = waiting.pop()
        if item[0] == "variable":
            return True
        waiting += children(item)
    return False


def constant(node: Tree) -> arb:
    """The value of a tree without variables."""
    space = Space(1, 2)
    found = evaluate(node, [Model(space, space.linear(ZERO))])
    return found.parts[0][0] + arb(0, found.error.upper())


def affine(node: Tree, count: int) -> Affine | None:
    """Coefficients of `count` variables and the constant of an affine tree; None for any other."""
    check_time()
    if not varies(node):
        return [ZERO] * count, constant(node)
    if node[0] == "variable":
        return [arb(int(k == node[1])) for k in range(count)], ZERO
    if node[0] not in ("sum", "product"):
        return None
    result: Affine = ([ZERO] * count, ZERO)
    if node[0] == "sum":
        for sign, child in node[1]:
            part = affine(child, count)
            if part is None:
                return None
            result = [a + sign * b for a, b in zip(result[0], part[0], strict=True)], result[1] + sign * part[1]
        return result
    factor = arb(1)
    varying = [(sign, child) for sign, child in node[1] if varies(child)]
    inner = affine(varying[0][1], count) if len(varying) == 1 and varying[0][0] > 0 else None
    if inner is None:
        return None
    for sign, child in node[1]:
        if not varies(child):
            value = constant(child)
            factor = factor * value if sign > 0 else factor / value
    return ([factor * a for a in inner[0]], factor * inner[1]) if factor.is_finite() else None


def middle(ball: arb) -> fmpq:
    """The exact number in the middle of a ball."""
    mantissa, exponent = ball.mid().man_exp()
    require(abs(int(exponent)) < LARGEST_EXPONENT, "a coefficient of the formula is out of range")
    return fmpq(mantissa) * fmpq(2) ** int(exponent)


def multiple(vector: Sequence[arb], direction: Vector, reach: Vector) -> tuple[arb, arb] | None:
    """lambda and the blur of a vector that is nearly lambda times the direction; None for another direction."""
    pivot = max(range(len(direction)), key=lambda k: abs(direction[k]))
    factor = vector[pivot] / arb(direction[pivot])
    gaps = (abs(a - factor * arb(r)) * arb(x) for a, r, x in zip(vector, direction, reach, strict=True))
    blur, size = sum(gaps, ZERO), sum((abs(a) * arb(x) for a, x in zip(vector, reach, strict=True)), ZERO)
    return (factor, blur.upper()) if blur <= NEARLY * size else None


def along(node: Tree, direction: Vector, reach: Vector) -> Tree:
    """The tree with every maximal affine part written in r; an empty direction becomes that of the first part."""
    if not varies(node):
        return node
    form = affine(node, len(reach))
    if form is not None:
        if all(a.is_zero() for a in form[0]):  # 0*x
            return ("number", form[1])
        if not direction:
            direction += map(middle, form[0])
        found = multiple(form[0], direction, reach)
        if found is None:
            raise OtherDirectionError
        shift = form[1] + arb(0, found[1])
        scaled = ARGUMENT if found[0] == 1 else ("product", [(1, ("number", found[0])), (1, ARGUMENT)])
        return scaled if shift.is_zero() else ("sum", [(1, scaled), (1, ("number", shift))])
    if node[0] == "sum":  # its affine terms together are one affine part
        flat = [(sign, child, affine(child, len(reach)) is not None) for sign, child in node[1]]
        straight = [(sign, child) for sign, child, is_affine in flat if is_affine]
        if len(straight) > 1:
            rest = [(sign, child) for sign, child, is_affine in flat if not is_affine]
            node = ("sum", [*rest, (1, ("sum", straight))])
    parts = []
    for item in node[1:]:
        if isinstance(item, tuple):
            parts.append(along(item, direction, reach))
        elif isinstance(item, list):
            parts.append([entry_along(entry, direction, reach) for entry in item])
        else:
            parts.append(item)
    return (node[0], *parts)


def entry_along(entry: Tree, direction: Vector, reach: Vector) -> Tree:
    """An entry of a list in a tree: a signed child, a child, or the sign of a comparison."""
    if not isinstance(entry, tuple):
        return entry
    signed = isinstance(entry[0], int)
    return (entry[0], along(entry[1], direction, reach)) if signed else along(entry, direction, reach)


def product_of_two(node: Tree) -> tuple[list[tuple[int, Tree]], Tree, Tree] | None:
    """Constant factors, A and B of a term factors * A * B; None if it is none.

    A holds all factors before the second that varies, as who reads 0.1*x*y from the left would have it: the directions
    of A + B and A - B depend on it.
    """
    before: list[tuple[int, Tree]] = []
    while node[0] in ("product", "sum") and len(node[1]) == 1:  # a sign, or a factor alone
        before.append((1, ("number", fmpq(node[1][0][0] if node[0] == "sum" else 1))))
        node = node[1][0][1]
    if node[0] != "product":
        return None
    varying = [i for i, (_, child) in enumerate(node[1]) if varies(child)]
    if len(varying) == 1:  # 2*(x*y)
        inner = product_of_two(node[1][varying[0]][1])
        others = [factor for i, factor in enumerate(node[1]) if i != varying[0]]
        return None if inner is None or node[1][varying[0]][0] < 0 else ([*before, *others, *inner[0]], *inner[1:])
    if len(varying) != 2 or any(node[1][i][0] < 0 for i in varying):
        return None
    first, second = node[1][: varying[1]], node[1][varying[1]][1]
    return [*before, *node[1][varying[1] + 1 :]], ("product", first), second


def add_unit(ridges: list[Ridge], v: fmpq, a: Vector, b: fmpq, reach: Vector) -> arb:
    """Add v clip(a.x + b, 0, 1) to the ridge of its direction; what the blur costs."""
    vector = [arb(x) for x in a]
    for ridge in ridges:
        found = multiple(vector, ridge.direction, reach)
        if found is not None:
            pivot = max(range(len(a)), key=lambda k: abs(ridge.direction[k]))
            ridge.units.append((v, a[pivot] / ridge.direction[pivot], b))
            return abs(arb(v)) * found[1]
    raise NotProvedError("a hidden unit looks in a direction that no term of the formula has")


# ------------------------------------------------------------------------------------------------- along one direction


@dataclass(frozen=True)
class Stretch:
    """A piece of the interval, the line that the units are on it, and the range of the difference there."""

    ends: tuple[fmpq, fmpq]
    heights: tuple[fmpq, fmpq]  # of the units, at both ends
    low: arb
    high: arb
    seen: arb  # the difference in the middle
    fuzz: arb  # how uncertain it is there, whatever the width


def difference_range(ridge: Ridge, low: list[fmpq], high: list[fmpq]) -> tuple[arb, arb]:
    """The range of the units less the terms of a ridge over a box."""
    sides = [(min(r * a, r * b), max(r * a, r * b)) for r, a, b in zip(ridge.direction, low, high, strict=True)]
    ends = sum((a for a, _ in sides), fmpq(0)), sum((b for _, b in sides), fmpq(0))
    bends = {(level - b) / slope for _, slope, b in ridge.units for level in (0, 1)}
    places = sorted({*ends, *(r for r in bends if ends[0] < r < ends[1])})
    heights = [height(ridge, r) for r in places]
    space, tree = Space(1, DEGREE), ("sum", [(1, term) for term in ridge.terms])
    lines = zip(itertools.pairwise(places), itertools.pairwise(heights), strict=True)
    stretches = [stretch(space, tree, *line) for line in lines]
    require(stretches, "a direction of the formula has no extent on the box")
    top, bottom = max(piece.seen.lower() for piece in stretches), min(piece.seen.upper() for piece in stretches)
    heap = [(-urgency(piece, top, bottom), n, piece) for n, piece in enumerate(stretches)]
    heapq.heapify(heap)
    count = len(heap)
    while count < MOST_STRETCHES:
        _, _, worst = heap[0]
        least = (SHARP * (top - bottom)).max(NOTHING * (abs(top) + abs(bottom))) + 4 * worst.fuzz
        if urgency(worst, top, bottom) <= float(least):
            break
        heapq.heappop(heap)
        halfway, height_there = (sum(pair, fmpq(0)) / 2 for pair in (worst.ends, worst.heights))
        for ends_of_half, heights_of_half in (
            ((worst.ends[0], halfway), (worst.heights[0], height_there)),
            ((halfway, worst.ends[1]), (height_there, worst.heights[1])),
        ):
            half = stretch(space, tree, ends_of_half, heights_of_half)
            count += 1
            top, bottom = top.max(half.seen.lower()), bottom.min(half.seen.upper())
            heapq.heappush(heap, (-urgency(half, top, bottom), count, half))
    pieces = [piece for _, _, piece in heap]
    found = lowest([piece.low for piece in pieces]), greatest([piece.high for piece in pieces])
    require(all(end.is_finite() for end in found), "the formula may be undefined somewhere in the box")
    return found


def urgency(piece: Stretch, top: arb, bottom: arb) -> float:
    """How much of the range only this piece's enclosure asks for; steers, nothing rests on it."""
    over = (piece.high - top).max(bottom - piece.low)
    return float(over) if over.is_finite() else float("inf")


def greatest(balls: list[arb]) -> arb:
    """An upper bound of all of them; infinite if one is not a number."""
    return max(ball.upper() if ball.is_finite() else arb.pos_inf() for ball in balls)


def lowest(balls: list[arb]) -> arb:
    return -greatest([-ball for ball in balls])


def height(ridge: Ridge, r: fmpq) -> fmpq:
    """What the units of a ridge add up to."""
    check_time()
    return sum((v * min(max(slope * r + b, fmpq(0)), fmpq(1)) for v, slope, b in ridge.units), fmpq(0))


def stretch(space: Space, tree: Tree, ends: tuple[fmpq, fmpq], heights: tuple[fmpq, fmpq]) -> Stretch:
    """The units are the line through both heights here; the terms are a Taylor model."""
    r, units = (
        Model(space, space.linear(arb((one + other) / 2), [arb((other - one) / 2)])) for one, other in (ends, heights)
    )
    try:
        gap = units - evaluate(tree, [r])
    except UndefinedError:
        return Stretch(ends, heights, arb.neg_inf(), arb.pos_inf(), arb(0, "inf"), ZERO)
    coefficients = space.coefficients(gap.parts)
    corners = (arb_mat([coefficients]) * space.bernstein).tolist()[0]
    return Stretch(
        ends,
        heights,
        lowest([corner - gap.error for corner in corners]),
        greatest([corner + gap.error for corner in corners]),
        coefficients[0] + arb(0, gap.error.upper()),
        coefficients[0].rad(),
    )
