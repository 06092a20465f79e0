"""A closed form for piecewise-linear formulas behind hard gates, in any number of variables.

A wall between two pieces has d - 1 dimensions, so bisecting towards it costs beta^(d-1) boxes; this proof needs none.

*A head.* Scores s_j and affine values l_j, m_j = sign * l_j. If s_j = beta m_j + (something common) + e_j with |e_j|
<= eta on the domain, then for every point, with the softmax weights w of the scores s,

    0 <= max_j m_j - sum_j w_j m_j <= (W0((N-1)/e) + 2 eta) / beta.

Proof: let i be where m is largest; beta (m_i - m_j) <= (s_i - s_j) + 2 eta <= (max s - s_j) + 2 eta, and
sum_j w_j (max s - s_j) <= W0((N-1)/e) (Lambert's W; sharp). Rounding changes the logarithm of a computed weight by at
most Theta, which only adds to eta: the same inequality holds for the weights that the run network uses. Where few of
the tokens can be near one another at a point, `meeting` has a smaller constant.

*The sum.* So the network is sum_h sign_h max_j m_hj up to a one-sided error per head, and what is left to show is that
this piecewise-linear function is the formula. Both are differences of maxima, max P - max Q of affine pieces, in
exact rational arithmetic: |max L - max R| <= delta on the box if every l in L has a convex combination of R with l -
sum lambda r <= delta there, and the other way round. Combinations come from a linear program in floats and are then
checked exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from softwright.domain import Box
from softwright.proof.arithmetic.directed import up
from softwright.proof.arithmetic.rounding import rounded_once, sum_error
from softwright.proof.closed.meeting import MOST_SHIFT, gate_constant, most_that_meet
from softwright.proof.models.head_moments import ExactHead
from softwright.targets.formula import Node, Number, Operation, Variable

Affine = tuple[Fraction, ...]  # gradient, then constant
_MOST_PIECES = 600
_CLOSE_LOOKS = 4  # pieces compared in exact numbers, of those that are nearest in floats


class _Unsuited(Exception):
    pass


@dataclass(frozen=True)
class MaxAffineProof:
    exact: float
    rounding: float


def _add(a: Affine, b: Affine) -> Affine:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def _scale(a: Affine, factor: Fraction) -> Affine:
    return tuple(x * factor for x in a)


def _sums(left: list[Affine], right: list[Affine]) -> list[Affine]:
    if len(left) * len(right) > _MOST_PIECES:
        raise _Unsuited
    return list({_add(a, b) for a in left for b in right})


class _Region:
    """The domain as exact numbers: largest value and size of an affine function on it."""

    def __init__(self, domain: Box) -> None:
        self.low = [Fraction(x) for x in domain.lower.tolist()]
        self.high = [Fraction(x) for x in domain.upper.tolist()]

    def largest(self, a: Affine) -> Fraction:
        corners = (max(g * lo, g * hi) for g, lo, hi in zip(a[:-1], self.low, self.high, strict=True))
        return sum(corners, a[-1])

    def size(self, a: Affine) -> Fraction:
        return max(self.largest(a), self.largest(_scale(a, Fraction(-1))))


Difference = tuple[list[Affine], list[Affine]]  # max of the first minus max of the second


def _formula(node: Node, names: tuple[str, ...]) -> Difference:
    d = len(names)
    zero: Affine = (Fraction(0),) * (d + 1)
    if isinstance(node, Number):
        return [(*zero[:-1], Fraction(node.text))], [zero]
    if isinstance(node, Variable):
        i = names.index(node.name)
        return [tuple(Fraction(int(k == i)) for k in range(d + 1))], [zero]
    if not isinstance(node, Operation) or node.name not in ("neg", "add", "sub", "mul", "div", "abs", "max", "min"):
        raise _Unsuited
    parts = [_formula(argument, names) for argument in node.arguments]
    (P, Q) = parts[0]
    match node.name:
        case "neg":
            return Q, P
        case "abs":
            return _maximum((P, Q), (Q, P))
        case "add":
            return _sums(P, parts[1][0]), _sums(Q, parts[1][1])
        case "sub":
            return _sums(P, parts[1][1]), _sums(Q, parts[1][0])
        case "max":
            return _maximum(*parts)
        case "min":
            flipped = _maximum((Q, P), (parts[1][1], parts[1][0]))
            return flipped[1], flipped[0]
        case "mul":
            for one, other in ((parts[0], parts[1]), (parts[1], parts[0])):
                factor = _constant(one)
                if factor is not None:
                    return _times(other, factor)
            raise _Unsuited
        case _:
            divisor = _constant(parts[1])
            if not divisor:
                raise _Unsuited
            return _times(parts[0], 1 / divisor)


def _constant(difference: Difference) -> Fraction | None:
    P, Q = difference
    if len(P) == 1 and len(Q) == 1 and P[0][:-1] == Q[0][:-1]:
        return P[0][-1] - Q[0][-1]
    return None


def _times(difference: Difference, factor: Fraction) -> Difference:
    P, Q = difference
    if factor < 0:
        P, Q, factor = Q, P, -factor
    return [_scale(a, factor) for a in P], [_scale(a, factor) for a in Q]


def _maximum(one: Difference, other: Difference) -> Difference:
    """max(P1 - Q1, P2 - Q2) = max(P1 + Q2, P2 + Q1) - (Q1 + Q2)"""
    plus = list({*_sums(one[0], other[1]), *_sums(other[0], one[1])})
    return plus, _sums(one[1], other[1])


def _affine_of_token(head: ExactHead, gradient: np.ndarray, constant: list[float]) -> Affine:
    """gradient.t + constant as a function of x, t = (x - center) * scale, exactly."""
    steps = [Fraction(g) * Fraction(s) for g, s in zip(gradient.tolist(), head.scale.tolist(), strict=True)]
    offset = sum((Fraction(c) for c in constant), Fraction(0))
    return (
        *steps,
        offset - sum((g * Fraction(c) for g, c in zip(steps, head.center.tolist(), strict=True)), Fraction(0)),
    )


@dataclass(frozen=True)
class _HeadProof:
    sign: int
    pieces: list[Affine]  # m_j
    gap: float  # bound of max m - softmax mean of m, in real arithmetic
    rounding: float
    orderly: bool  # the scores are beta m_j to within what the gates cost anyway: not a head that happens to be bounded


def _head(head: ExactHead, output: int, region: _Region, domain: Box) -> _HeadProof:
    N, d = head.keys.shape
    slopes = np.zeros((N, d)) if head.slopes is None else head.slopes[:, output]
    values = [_affine_of_token(head, slopes[j], [head.values[j, output]]) for j in range(N)]
    scores = [_affine_of_token(head, head.keys[j], [head.bias[j], head.bias_low[j]]) for j in range(N)]
    center = [(lo + hi) / 2 for lo, hi in zip(region.low, region.high, strict=True)]
    half = [(hi - lo) / 2 for lo, hi in zip(region.low, region.high, strict=True)]

    def spread(a: Affine, b: Affine) -> np.ndarray:  # a - b in coordinates of the box, for choosing beta only
        c = _add(a, _scale(b, Fraction(-1)))
        at_center = c[-1] + sum((g * x for g, x in zip(c[:-1], center, strict=True)), Fraction(0))
        return np.array([float(g * h) for g, h in zip(c[:-1], half, strict=True)] + [float(at_center)])

    along_values = np.array([spread(v, values[0]) for v in values])
    along_scores = np.array([spread(s, scores[0]) for s in scores])
    square = float((along_values**2).sum())
    if N > 1 and square == 0.0:
        raise _Unsuited
    slope = float((along_values * along_scores).sum()) / square if N > 1 else 1.0
    if not np.isfinite(slope) or slope == 0.0:
        raise _Unsuited
    sign, beta = (1 if slope > 0 else -1), Fraction(abs(slope))
    pieces = [_scale(v, Fraction(sign)) for v in values]
    common = _add(scores[0], _scale(pieces[0], -beta))
    eta = max(
        region.size(_add(_add(s, _scale(m, -beta)), _scale(common, Fraction(-1))))
        for s, m in zip(scores, pieces, strict=True)
    )

    # Rounding: Theta by the bounds of `rounding.py`, taken over the whole domain at once.
    t_size = up(
        np.maximum(np.abs(domain.lower - head.center), np.abs(domain.upper - head.center)) * head.scale * (1 + 2**-40)
    )
    score_size = up(np.abs(head.keys) @ t_size, d + 2)
    score_range = float(up(np.asarray(2 * (score_size + head.bias_size).max())))
    theta = head.engine.log_error(
        score_size,
        head.bias_size,
        up(2 * np.abs(head.keys) @ (t_size * head.frame), d + 2),
        np.full(N, score_range),
        lost=head.lost_in_scores(t_size),
        tokens=N,
        dim=head.looked_at,
    )
    few = float(theta.max()) <= MOST_SHIFT
    lambert = gate_constant(N, most_that_meet(tuple(scores), tuple(region.low), tuple(region.high)) if few else N)
    gap = (lambert + 2 * _ball(eta)) / _ball(beta)
    value_size = up(np.abs(head.values[:, output]) + np.abs(slopes) @ t_size, d + 4)
    slope_size, framed = (up(np.abs(slopes) @ size, d + 4) for size in (t_size, t_size * head.frame))
    sloped = int(np.count_nonzero(np.any(slopes != 0, axis=0)))
    errors = float(head.engine.value_error(value_size, slope_size, framed, sloped).max())
    largest = float(value_size.max())
    n = float(head.engine.arithmetic.gammas(head.engine.roundings(np.array([float(N)]), N))[0])
    underflow = float(head.engine.underflow(N, value_size.max(), head.lost_in_values(t_size)[output]))
    summation = (errors + n * (largest + errors) + n * 2.0 * largest) / (1.0 - n) + underflow
    if not (n < 0.25 and np.isfinite(theta.max() + summation)):
        raise _Unsuited
    # A little more than was found, so that a checker with other enclosures agrees.
    rounding = 2 * _ball(Fraction(1.02 * float(theta.max()))) / _ball(beta) + arb(
        float(up(np.asarray(1.1 * summation)))
    )
    return _HeadProof(sign, pieces, _above(gap), _above(rounding), bool(2 * _ball(eta) <= lambert))


def _ball(value: Fraction) -> arb:
    return arb(value.numerator) / arb(value.denominator)


def _above(value: arb) -> float:
    """A float that is no smaller."""
    guess = float(value.upper())
    return float(np.nextafter(guess, np.inf)) if np.isfinite(guess) else float("inf")


def _excess(pieces: list[Affine], others: list[Affine], region: _Region) -> Fraction:
    """delta such that max(pieces) <= max(others) + delta on the domain."""
    worst = Fraction(0)
    for piece, near in zip(pieces, _nearest(pieces, others, region), strict=True):
        best = min(region.largest(_add(piece, _scale(other, Fraction(-1)))) for other in near)
        if best > 0 and len(others) > 1:
            best = min(best, _by_combination(piece, others, region))
        worst = max(worst, best)
    return worst


def _nearest(pieces: list[Affine], others: list[Affine], region: _Region) -> list[list[Affine]]:
    """For each piece those of the others, by floats, that it exceeds least; any choice bounds the excess exactly."""
    if len(others) <= _CLOSE_LOOKS:
        return [others] * len(pieces)
    try:
        mine, theirs, low, high = (
            np.array([[float(x) for x in row] for row in rows])
            for rows in (pieces, others, [region.low], [region.high])
        )
    except OverflowError:
        return [others] * len(pieces)
    chosen = []
    for piece in mine:
        off = piece - theirs  # (n, d + 1)
        excess = np.maximum(off[:, :-1] * low, off[:, :-1] * high).sum(axis=1) + off[:, -1]
        chosen.append([others[i] for i in np.argsort(excess, kind="stable")[:_CLOSE_LOOKS].tolist()])
    return chosen


def _by_combination(piece: Affine, others: list[Affine], region: _Region) -> Fraction:
    """The smallest max over the box of piece - sum lambda r that a linear program finds, evaluated exactly.

    max over the box of an affine function is linear in auxiliary variables z_i >= g_i lo_i, g_i hi_i. Of two others
    there is one parameter: the maximum is convex in it and bends only where a coordinate of the gradient vanishes.
    """
    if len(others) == 2:
        return _between_two(piece, others[0], others[1], region)
    d, n = len(region.low), len(others)
    low, high = np.array([float(x) for x in region.low]), np.array([float(x) for x in region.high])
    R = np.array([[float(x) for x in other] for other in others])  # (n, d + 1)
    p = np.array([float(x) for x in piece])
    from scipy.optimize import linprog

    A, b = [], []
    for i in range(d):
        for bound in (low[i], high[i]):
            row = np.zeros(n + d)
            row[:n], row[n + i] = -R[:, i] * bound, -1.0
            A.append(row)
            b.append(-p[i] * bound)
    cost = np.concatenate([-R[:, d], np.ones(d)])
    limits = [(0.0, None)] * n + [(None, None)] * d
    found = linprog(
        cost, A_ub=np.array(A), b_ub=b, A_eq=np.r_[np.ones(n), np.zeros(d)][None], b_eq=[1.0], bounds=limits
    )
    if not found.success:
        return region.largest(_add(piece, _scale(others[0], Fraction(-1))))
    weights = [Fraction(max(float(w), 0.0)).limit_denominator(10**6) for w in found.x[:n]]
    total = sum(weights, Fraction(0))
    mixed = piece
    for weight, other in zip(weights, others, strict=True):
        mixed = _add(mixed, _scale(other, -weight / total))
    return region.largest(mixed)


def _between_two(piece: Affine, one: Affine, other: Affine, region: _Region) -> Fraction:
    """The smallest max over the box of piece - s one - (1 - s) other, 0 <= s <= 1, exactly."""
    rest, turn = _add(piece, _scale(other, Fraction(-1))), _add(other, _scale(one, Fraction(-1)))
    bends = {-r / t for r, t in zip(rest[:-1], turn[:-1], strict=True) if t != 0}
    shares = {Fraction(0), Fraction(1)} | {share for share in bends if 0 < share < 1}
    return min(region.largest(_add(rest, _scale(turn, share))) for share in shares)


def prove_max_affine(
    heads: tuple[ExactHead, ...], nodes: tuple[Node, ...], domain: Box, summed: int
) -> MaxAffineProof | None:
    """Bounds of the exact and the rounding part over the whole domain, or None if the problem is not of this kind."""
    if sum(len(head.keys) for head in heads) > _MOST_PIECES:
        return None
    region = _Region(domain)
    exact = rounding = 0.0
    try:
        for output, node in enumerate(nodes):
            P, Q = _formula(node, domain.names)
            proofs = [_head(head, output, region, domain) for head in heads if _speaks(head, output)]
            above = sum((arb(proof.gap) for proof in proofs if proof.sign < 0), arb(0))
            below = sum((arb(proof.gap) for proof in proofs if proof.sign > 0), arb(0))
            left, right = P, Q  # formula - network = max(left) - max(right)
            for proof in proofs:
                if proof.sign > 0:
                    right = _sums(right, proof.pieces)
                else:
                    left = _sums(left, proof.pieces)
            delta = max(_excess(left, right, region), _excess(right, left, region))
            exact = max(exact, _above(_ball(delta) + above), _above(_ball(delta) + below))
            sizes = sum(float(region.size(piece)) for proof in proofs for piece in proof.pieces[:1])
            sizes += sum(proof.gap + proof.rounding for proof in proofs)
            largest = sum(max(float(region.size(piece)) for piece in proof.pieces) for proof in proofs) + sizes
            adding = float(sum_error(heads[0].engine, max(summed, len(heads)), np.array([2.0 * largest]))[0])
            whole = sum(
                proof.gap + max(_above(_ball(region.size(piece))) for piece in proof.pieces) for proof in proofs
            )
            run = np.array([_above(sum((arb(proof.rounding) for proof in proofs), arb(adding)))])
            run = rounded_once(heads[0].engine, up(np.array([whole]), len(proofs) + 4), run)
            rounding = max(rounding, float(run[0]))
    except (_Unsuited, ValueError, OverflowError):  # a fraction beyond float64 is no bound either
        return None
    return MaxAffineProof(exact, rounding)


def gate_gap(head: ExactHead, output: int, domain: Box) -> float | None:
    """How far the head may stay from the maximum of its own pieces; None if it is no head of gates."""
    if len(head.keys) < 2 or len(head.keys) > _MOST_PIECES or not _speaks(head, output):
        return None
    try:
        proof = _head(head, output, _Region(domain), domain)
    except (_Unsuited, ValueError, OverflowError):  # a fraction beyond float64 is no bound either
        return None
    return proof.gap if proof.orderly else None


def has_affine_pieces(node: Node, names: tuple[str, ...]) -> bool:
    """Whether the formula is piecewise linear with more than one piece."""
    try:
        P, Q = _formula(node, names)
    except (_Unsuited, ValueError, OverflowError):  # a fraction beyond float64 is no bound either
        return False
    return len(P) > 1 or len(Q) > 1


def _speaks(head: ExactHead, output: int) -> bool:
    return bool(np.any(head.values[:, output])) or (head.slopes is not None and bool(np.any(head.slopes[:, output])))
