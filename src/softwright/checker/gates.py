"""The checker's proof for piecewise-linear formulas behind hard gates: no boxes, exact rational arithmetic.

Let a head have scores s_j, affine values l_j, and m_j = l_j or -l_j. If s_j - beta m_j - (s_1 - beta m_1) is at most
eta in modulus on the domain, and computed weights are e^(s_j + theta_j) up to a common factor with |theta_j| <=
theta, then

    0 <= max m - mean of m under these weights <= (W + 2 (eta + theta)) / beta,        W e^W = (N - 1)/e.

(Where m is largest, beta (m_i - m_j) <= s_i - s_j + 2 eta; and the mean of max s - s_j is at most W: each
(y - W) e^(-y) is at most e^(-1-W), so sum over j of (y_j - W) e^(-y_j) <= -W + (N - 1) e^(-1-W) = 0.)

If no k + 1 tokens are within Y of the largest score at one point, N - k of them have y_j >= Y and add at most Y e^(-Y)
each: then W e^W = (k - 1)/e, and (N - k) Y e^(-Y) is added. That some never are is a matter of multipliers again: a
convex combination of the differences s_i - s_p, i one of them, is below -Y - 2 theta on the whole domain.

So the network is a sum of signed maxima of affine functions up to one-sided errors; the formula is a difference of
two such maxima by max(a - b, c - d) = max(a + d, c + b) - (b + d). A maximum exceeds another by at most delta on the
domain if each of its pieces exceeds some convex combination of the other's pieces by at most delta; multipliers of a
linear program name the combination, exact arithmetic checks it.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
from flint import arb, fmpq

from softwright.checker.head import KEY_BLOCK, Head
from softwright.checker.limits import check_time
from softwright.checker.parser import rational_value
from softwright.checker.statement import Part, Statement, rational

Piece = tuple[fmpq, ...]  # gradient, then constant
MOST_PIECES = 600
MOST_SETS, FAR = 300, 40  # groups of tokens that are looked at; Y + 2 theta, theta <= 1


class NotThisKindError(Exception):
    """The formula or the network is not made of affine pieces behind gates."""


def plus(a: Piece, b: Piece, factor: fmpq | int = 1) -> Piece:
    return tuple(x + factor * y for x, y in zip(a, b, strict=True))


def all_sums(a: set[Piece], b: set[Piece]) -> set[Piece]:
    if len(a) * len(b) > MOST_PIECES:
        raise NotThisKindError
    return {plus(x, y) for x in a for y in b}


Maxima = tuple[set[Piece], set[Piece]]  # max of the first minus max of the second


def maximum(one: Maxima, other: Maxima) -> Maxima:
    return all_sums(one[0], other[1]) | all_sums(other[0], one[1]), all_sums(one[1], other[1])


def scaled(one: Maxima, factor: fmpq) -> Maxima:
    up, down = one if factor >= 0 else (one[1], one[0])
    size = abs(factor)
    return {tuple(size * x for x in p) for p in up}, {tuple(size * x for x in p) for p in down}


def maxima_of(node: Any, dim: int) -> Maxima:
    """A formula tree of `checker_parser.py` as a difference of maxima."""
    zero = (fmpq(0),) * (dim + 1)
    value = rational_value(node)
    if value is not None:
        return {(*zero[:-1], value)}, {zero}
    kind = node[0]
    if kind == "variable":
        return {tuple(fmpq(int(i == node[1])) for i in range(dim + 1))}, {zero}
    if kind == "sum":
        total: Maxima = ({zero}, {zero})
        for sign, child in node[1]:
            part = scaled(maxima_of(child, dim), fmpq(sign))
            total = all_sums(total[0], part[0]), all_sums(total[1], part[1])
        return total
    if kind == "product":
        factor, rest = fmpq(1), []
        for sign, child in node[1]:
            number = rational_value(child)
            if number is None:
                rest.append((sign, child))
            elif sign > 0 or number != 0:
                factor = factor * number if sign > 0 else factor / number
            else:
                raise NotThisKindError
        if len(rest) != 1 or rest[0][0] < 0:
            raise NotThisKindError
        return scaled(maxima_of(rest[0][1], dim), factor)
    if kind == "abs":
        inner = maxima_of(node[1], dim)
        return maximum(inner, (inner[1], inner[0]))
    if kind in ("max", "min"):
        sign = fmpq(1 if kind == "max" else -1)
        found = [scaled(maxima_of(child, dim), sign) for child in node[1:]]
        result = found[0]
        for other in found[1:]:
            result = maximum(result, other)
        return scaled(result, sign)
    raise NotThisKindError


def largest(piece: Piece, part: Part) -> fmpq:
    """The maximum of an affine function on the domain."""
    total = piece[-1]
    for slope, low, high in zip(piece, *part.domain, strict=False):
        total += max(slope * low, slope * high)
    return total


def size(piece: Piece, part: Part) -> fmpq:
    return max(largest(piece, part), largest(tuple(-x for x in piece), part))


def excess(pieces: set[Piece], others: set[Piece], part: Part) -> fmpq:
    """max(pieces) - max(others) is at most this on the domain."""
    rest = list(others)
    worst = fmpq(0)
    for piece in pieces:
        check_time()
        best = min(largest(plus(piece, other, -1), part) for other in rest)
        if best > 0 and len(rest) > 1:
            best = min(best, mixed_excess(piece, rest, part))
        worst = max(worst, best)
    return worst


def mixed_excess(piece: Piece, others: list[Piece], part: Part) -> fmpq:
    """The same with a convex combination: the multipliers of  max z: z <= piece(x) - other_i(x), x in the domain."""
    from scipy.optimize import linprog

    bounds = [(float(arb(a)), float(arb(b))) for a, b in zip(*part.domain, strict=True)]
    rows = np.array([[float(arb(x)) for x in plus(other, piece, -1)] for other in others])
    A = np.hstack([rows[:, :-1], np.ones((len(others), 1))])
    found = linprog(np.r_[np.zeros(len(bounds)), -1.0], A_ub=A, b_ub=-rows[:, -1], bounds=[*bounds, (None, None)])
    mixed = mixture(found, others)
    if mixed is None:
        raise NotThisKindError
    return largest(plus(piece, mixed, -1), part)


def mixture(found: Any, pieces: list[Piece]) -> Piece | None:
    """The convex combination of pieces that the multipliers of a solved linear program name; None if they name none."""
    if not found.success:
        return None
    weights = [fmpq(round(max(-w, 0.0) * 10**6), 10**6) for w in found.ineqlin.marginals]
    total = sum(weights, fmpq(0))
    if total == 0:
        return None
    mixed: Piece = tuple(fmpq(0) for _ in pieces[0])
    for weight, piece in zip(weights, pieces, strict=True):
        mixed = plus(mixed, piece, weight / total)
    return mixed


def affine_in_x(gradient: list[float], constant: float, part: Part) -> Piece:
    """gradient.t + constant with t = (x - center) * scale."""
    slopes = [rational(g) * s for g, s in zip(gradient, part.scale, strict=True)]
    offset = sum((g * c for g, c in zip(slopes, part.center, strict=True)), fmpq(0))
    return (*slopes, rational(constant) - offset)


def lambert(tokens: int) -> arb:
    """W with W e^W >= (tokens - 1)/e, hence an upper bound of Lambert's W, checked in balls."""
    if tokens == 1:
        return arb(0)
    guess, wanted = 1.0, arb(tokens - 1) / arb(1).exp()
    for _ in range(60):
        guess -= (guess * math.exp(guess) - float(wanted)) / (math.exp(guess) * (1.0 + guess))
    w = arb(guess * (1.0 + 1e-12))
    if not w * w.exp() >= wanted:
        raise NotThisKindError
    return w


def meeting(scores: list[Piece], part: Part, far: int) -> int:
    """At most so many scores are less than `far` below the largest one at a point of the domain."""
    count = len(scores)
    for k in range(2, count):
        if math.comb(count, k + 1) > MOST_SETS:
            return count
        if all(never_meet(scores, group, part, far) for group in combinations(range(count), k + 1)):
            return k
    return count


def never_meet(scores: list[Piece], group: tuple[int, ...], part: Part, far: int) -> bool:
    """Whether everywhere on the domain one of the group is at least `far` below some score."""
    from scipy.optimize import linprog

    check_time()
    below = [plus(scores[p], scores[i], -1) for i in group for p in range(len(scores)) if p != i]
    rows = np.array([[float(arb(x)) for x in piece] for piece in below])
    scale = float(np.abs(rows).max())
    if not 0 < scale < math.inf:
        return False
    bounds = [(float(arb(a)), float(arb(b))) for a, b in zip(*part.domain, strict=True)]
    # the least height z with all of these differences below it at some point; the rows that hold it up weigh
    A = np.hstack([rows[:, :-1] / scale, -np.ones((len(rows), 1))])
    found = linprog(
        np.r_[np.zeros(len(bounds)), 1.0], A_ub=A, b_ub=-rows[:, -1] / scale, bounds=[*bounds, (None, None)]
    )
    mixed = mixture(found, below)
    return mixed is not None and largest(tuple(-x for x in mixed), part) <= -far


def head_gap(head: Head, output: int, part: Part) -> tuple[int, set[Piece], arb, arb]:
    """Sign, pieces m_j, the gap in real arithmetic, and what rounding adds to it and to the sums."""
    N, dim = head.keys.shape
    slopes = np.zeros((N, dim))
    slopes[:, head.sloped] = head.slopes[:, output]
    values = [affine_in_x(slopes[j].tolist(), head.values[j, output], part) for j in range(N)]
    scores = [affine_in_x(head.keys[j].tolist(), head.float_bias[j], part) for j in range(N)]
    steps = [plus(v, values[0], -1) for v in values]
    far = max(range(N), key=lambda j: size(steps[j], part))
    sign, beta = 1, fmpq(1)
    if N > 1:
        place = max(range(dim), key=lambda i: abs(steps[far][i]))
        if steps[far][place] == 0:
            raise NotThisKindError
        ratio = plus(scores[far], scores[0], -1)[place] / steps[far][place]
        sign, beta = (1, ratio) if ratio > 0 else (-1, -ratio)
        if beta == 0:
            raise NotThisKindError
    m = [tuple(sign * x for x in v) for v in values]
    first = plus(scores[0], m[0], -beta)
    eta = max(size(plus(plus(s, p, -beta), first, -1), part) for s, p in zip(scores, m, strict=True))
    u, rescalings = head.precision.unit, (N - 1) // KEY_BLOCK
    reach = np.array(
        [
            float(arb(max(abs((a - c) * s), abs((b - c) * s))).upper()) * (1 + 2.0**-50)
            for a, b, c, s in zip(*part.domain, part.center, part.scale, strict=True)
        ]
    )
    score = float(np.max(np.abs(head.keys) @ reach + np.abs(head.float_bias))) * (1 + 2.0**-40)
    # a sum of dim + 1 products, the roundings of t, one subtraction of at most 2 |score|; the exps of every block
    frame = part.frame
    roundings = head.terms + 1 + max(frame) + 2
    exps = head.precision.exp_error + rescalings * (head.precision.exp_error + 2 * u)
    theta = (roundings * u * score + exps) * (1 + 2 * exps + 64 * (dim + 8) * u) + head.lost
    value = float(np.max(np.abs(head.values[:, output]) + np.abs(slopes) @ reach)) * (1 + 2.0**-40)
    n = (N + 1 + 2 * rescalings) * u * 1.01
    overflows = not 4 * score < head.precision.largest / 16
    if not (theta < 0.5 or beta > 1) or n > 0.1 or overflows:
        raise NotThisKindError
    lift = float(np.max(np.abs(slopes) @ reach)) * (1 + 2.0**-40)
    sloped = int(np.count_nonzero(slopes.any(axis=0)))
    error = (u * (lift + max(sloped - 1, 0) * value) + max(frame) * u * lift) * 1.01
    weights = (head.precision.exp_floor + head.precision.smallest) * (value + 1)
    underflow = 2.5 * N * (rescalings + 1) * (weights + head.value_lost)
    sums = (error + n * (3 * value + error)) * (1 + 2 * n) + underflow
    ball, near = arb(beta), meeting(scores, part, FAR) if theta <= 1 else N
    lost = lambert(near) + (N - near) * arb(FAR - 2) * arb(2 - FAR).exp()
    return sign, set(m), (lost + 2 * arb(eta)) / ball, 2 * arb(theta) / ball + arb(sums)


def proved_by_gates(part: Part, statement: Statement) -> bool:
    """Whether the part's bounds follow in closed form; False if it is not of this kind or the bounds do not suffice."""
    dim = len(part.columns)
    if any(head.sizes is not None for head in part.heads) or statement.exponent is not None:
        return False
    try:
        for output, terms in enumerate(part.outputs):
            left, right = maxima_of(("sum", list(terms)), dim) if terms else ({(fmpq(0),) * (dim + 1)},) * 2
            high, low, rounding, sizes = arb(0), arb(0), arb(0), arb(0)
            for head in part.heads:
                if not head.values[:, output].any() and not head.slopes[:, output].any():
                    continue
                sign, pieces, gap, rounded = head_gap(head, output, part)
                rounding += rounded
                sizes += arb(max(size(piece, part) for piece in pieces)) + gap + rounded
                if sign > 0:
                    right, low = all_sums(right, pieces), low + gap
                else:
                    left, high = all_sums(left, pieces), high + gap
            delta = arb(max(excess(left, right, part), excess(right, left, part))) + abs(part.constant[output])
            rounding += statement.heads * statement.precision.unit * sizes
            if statement.precision.rounded:
                rounding += statement.precision.rounded * (sizes + rounding) + arb(statement.precision.smallest)
            if not (delta + high <= part.exact and delta + low <= part.exact and rounding <= part.rounding):
                return False
    except NotThisKindError:
        return False
    return True
