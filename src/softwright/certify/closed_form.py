"""Bounds in closed form for hard gates: instant, and for gates in several variables the only cheap ones.

Gates. Let weights w_j be proportional to a_j e^{-y_j} with y_j >= 0, y_* = 0, a_* = 1 and a_j <= a. Then

    sum_j w_j y_j <= lambda = W0((N - 1) a / e)            (Lambert's W; sharp for a = 1),

because the claim is sum_{j != *} a_j (y_j - lambda) e^{-y_j} <= lambda, every summand is at most a e^{-1-lambda} (at
y = 1 + lambda), and (N - 1) a e^{-1-lambda} = lambda. So if scores are beta l_j up to a common function and up to
errors whose differences stay below 2 eta (a = e^{2 eta}), the head g = sum_j w_j l_j obeys

    max_j l_j - lambda / beta <= g <= max_j l_j.

A head of gated affine pieces whose differences are steepness times those of the scores errs by at most
steepness * lambda / beta. Cells (paper B: values f(c_j), scores beta (c_j.x - |c_j|^2 / 2), covering radius R, concave
modulus of continuity omega):  |g - f| <= omega(sqrt(R^2 + 2 lambda / beta))  for every beta.  Memory with margin m: the
mass elsewhere is at most (N - 1) e^{-beta m}.

`prove_max_affine` applies the first bound to a network and a formula that is a maximum (or minimum) of affine
functions, in exact rational arithmetic: it finds beta, eta and the distance of the formula's pieces from the network's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from softwright.certify.ball_expression import ball_above, exact_ball, precision
from softwright.certify.directed import up
from softwright.certify.head_moments import ExactHead
from softwright.domain import Box
from softwright.targets.nodes import Node, Number, Operation, Variable

_MOST_PIECES = 256


def gate_constant(tokens: int, disorder: float = 0.0) -> float:
    """W0((N - 1) e^(2 eta) / e), rounded up; 0.2785 for two gates."""
    with precision(100):
        return ball_above((arb(tokens - 1) * (2 * arb(disorder) - 1).exp()).lambertw())


def gated_linear_bound(tokens: int, beta: float, steepness: float = 1.0) -> float:
    """|g - f| for gated affine pieces with |l_j - l_*| <= steepness (s_* - s_j)."""
    return math.nextafter(steepness * gate_constant(tokens) / beta * (1.0 + 1e-15), math.inf)


def cells_bound(modulus: Callable[[float], float], radius: float, tokens: int, beta: float) -> float:
    """Paper B for every beta; `modulus` is a concave modulus of continuity, rounded up by the caller."""
    with precision(100):
        reach = ball_above((arb(radius) ** 2 + 2 * arb(gate_constant(tokens)) / arb(beta)).sqrt())
    return modulus(reach)


def memory_leak(tokens: int, beta: float, margin: float) -> float:
    """Softmax mass outside the right memory when its score leads by beta * margin."""
    with precision(100):
        return ball_above((tokens - 1) * (-arb(beta) * arb(margin)).exp())


@dataclass(frozen=True)
class Affine:
    """A rational affine function of the variables."""

    slopes: tuple[Fraction, ...]
    offset: Fraction

    def __add__(self, other: Affine) -> Affine:
        return Affine(tuple(a + b for a, b in zip(self.slopes, other.slopes, strict=True)), self.offset + other.offset)

    def scaled(self, factor: Fraction) -> Affine:
        return Affine(tuple(factor * a for a in self.slopes), factor * self.offset)

    def __sub__(self, other: Affine) -> Affine:
        return self + other.scaled(Fraction(-1))

    def largest(self, box: Box) -> Fraction:
        """The largest modulus over the box."""
        ends = [(Fraction(low), Fraction(high)) for _, low, high in box]
        top = self.offset + sum((max(a * x, a * y) for a, (x, y) in zip(self.slopes, ends, strict=True)), Fraction(0))
        bottom = self.offset + sum(
            (min(a * x, a * y) for a, (x, y) in zip(self.slopes, ends, strict=True)), Fraction(0)
        )
        return max(abs(top), abs(bottom))


@dataclass(frozen=True)
class Envelope:
    """sign * max of the pieces: a maximum (sign 1), a minimum (sign -1), or one affine function (sign 0)."""

    sign: int
    pieces: tuple[Affine, ...]  # of sign * f, or of f itself for sign 0

    def scaled(self, factor: Fraction) -> Envelope:
        sign = self.sign if factor > 0 else -self.sign
        return Envelope(sign, tuple(p.scaled(abs(factor) if self.sign else factor) for p in self.pieces))

    def faced(self, sign: int) -> tuple[Affine, ...] | None:
        """The pieces of sign * f if f is affine or of that kind."""
        if self.sign == sign:
            return self.pieces
        return tuple(p.scaled(Fraction(sign)) for p in self.pieces) if self.sign == 0 else None


def envelope(node: Node, names: Sequence[str]) -> Envelope | None:
    """The formula as a maximum or minimum of affine functions with rational coefficients; None if it is not one."""
    zero = (Fraction(0),) * len(names)
    if isinstance(node, Number):
        return Envelope(0, (Affine(zero, Fraction(node.text)),))
    if isinstance(node, Variable):
        return Envelope(0, (Affine(tuple(Fraction(int(name == node.name)) for name in names), Fraction(0)),))
    if not isinstance(node, Operation) or node.name not in ("neg", "add", "sub", "mul", "div", "abs", "max", "min"):
        return None
    found = [envelope(argument, names) for argument in node.arguments]
    if any(part is None for part in found):
        return None
    parts = [part for part in found if part is not None]
    match node.name:
        case "neg":
            return parts[0].scaled(Fraction(-1))
        case "add" | "sub":
            right = parts[1] if node.name == "add" else parts[1].scaled(Fraction(-1))
            sign = parts[0].sign or right.sign
            left_pieces, right_pieces = parts[0].faced(sign), right.faced(sign)
            if left_pieces is None or right_pieces is None or len(left_pieces) * len(right_pieces) > _MOST_PIECES:
                return None
            return Envelope(sign, tuple(a + b for a in left_pieces for b in right_pieces))
        case "mul" | "div":
            return _times(parts, node.name == "div")
        case "abs":
            if parts[0].sign:
                return None
            piece = parts[0].pieces[0]
            return Envelope(1, (piece, piece.scaled(Fraction(-1))))
    sign = 1 if node.name == "max" else -1
    faced = [part.faced(sign) for part in parts]
    if any(pieces is None for pieces in faced):
        return None
    return Envelope(sign, tuple(piece for pieces in faced if pieces is not None for piece in pieces))


def _times(parts: list[Envelope], divide: bool) -> Envelope | None:
    """A product or quotient by a number."""
    for one, other in ((parts[1], parts[0]), (parts[0], parts[1])):
        piece = one.pieces[0]
        if one.sign == 0 and not any(piece.slopes) and (piece.offset != 0 or not divide):
            factor = 1 / piece.offset if divide else piece.offset
            if factor == 0:
                return Envelope(0, (other.pieces[0].scaled(Fraction(0)),))
            return other.scaled(factor)
        if divide:
            return None
    return None


@dataclass(frozen=True)
class ClosedForm:
    exact: float
    rounding: float
    method: str


def prove_max_affine(heads: Sequence[ExactHead], node: Node, names: Sequence[str], box: Box) -> ClosedForm | None:
    """The gate bound for one head and a formula that is a maximum or minimum of affine functions, else None."""
    if len(heads) != 1 or heads[0].values.shape[1] != 1 or len(heads[0].keys) < 2:
        return None
    target = envelope(node, names)
    if target is None or target.sign == 0:
        return None
    head = heads[0]
    N, d = head.keys.shape
    sign = Fraction(target.sign)
    scale, center = [Fraction(s) for s in head.scale.tolist()], [Fraction(c) for c in head.center.tolist()]

    def in_x(slopes: list[float], offset: Fraction) -> Affine:
        a = tuple(Fraction(g) * s for g, s in zip(slopes, scale, strict=True))
        return Affine(a, offset - sum((g * c for g, c in zip(a, center, strict=True)), Fraction(0)))

    slopes = np.zeros((N, d)) if head.slopes is None else head.slopes[:, 0, :]
    pieces = [in_x(slopes[j].tolist(), Fraction(float(head.values[j, 0]))).scaled(sign) for j in range(N)]
    bias = [Fraction(float(a)) + Fraction(float(b)) for a, b in zip(head.bias, head.bias_low, strict=True)]
    scores = [in_x(head.keys[j].tolist(), bias[j]) for j in range(N)]
    beta = _ratio(pieces, scores)
    if beta is None:
        return None
    disorder = max(
        ((s - scores[0]) - (p - pieces[0]).scaled(beta)).largest(box) for p, s in zip(pieces, scores, strict=True)
    )
    distances = [[(p - q).largest(box) for q in target.pieces] for p in pieces]
    nearest = [min(row) for row in distances] + [min(column) for column in zip(*distances, strict=True)]
    apart = max(nearest)  # every piece has a partner within this, so both maxima differ by no more
    if disorder > 20:
        return None
    eta = _above(disorder)
    reach = np.abs((np.stack([box.lower, box.upper]) - head.center) * head.scale).max(axis=0) * (1 + 1e-14)
    exact = _bound(N, eta, beta, apart)
    middle = head.keys.mean(axis=0)
    spread = up(np.abs(head.keys - middle) @ reach + np.abs(head.bias - head.bias.mean()))
    sizes, shifts = up(np.abs(head.keys) @ reach), up(np.abs(head.keys - middle) @ reach)
    below = np.full(N, 2 * spread.max())
    log_error = head.engine.log_error(sizes, head.bias_size, shifts, below, tokens=N, dim=d)
    if not float(log_error.max()) < 300.0:
        return None
    # The run's weights are those of scores off by log_error; then come values, sums and the division.
    disturbed = _bound(N, up(np.array(eta + float(log_error.max()))).item(), beta, apart)
    size = float(up(np.abs(head.values[:, 0]) + np.abs(slopes) @ reach).max())
    run = head.engine
    n = float(run.arithmetic.gammas(run.roundings(np.array([float(N)]), N))[0])
    wrong = float(run.value_error(np.array([size]), np.array([size]), d)[0])
    underflow = 1e3 * N * N * (size + 1) * run.arithmetic.smallest
    sums = (wrong + n * (size + wrong) + n * (size + disturbed)) / (1.0 - n) + underflow
    rounding = float(up(np.array(disturbed - exact + sums)).item())
    method = f"closed form: gates of a maximum of affine functions, W0((N-1)/e)/beta with N={N}, beta={float(beta):.6g}"
    return ClosedForm(exact, max(rounding, 0.0), method) if math.isfinite(rounding) else None


def _ratio(pieces: list[Affine], scores: list[Affine]) -> Fraction | None:
    """beta such that differences of scores are beta times those of the pieces, from the largest difference."""
    gap = (Fraction(0), Fraction(0))
    for p, s in zip(pieces[1:], scores[1:], strict=True):
        for a, b in zip((*(p - pieces[0]).slopes, 0), (*(s - scores[0]).slopes, 0), strict=True):
            if abs(a) > abs(gap[0]):
                gap = (Fraction(a), Fraction(b))
    if gap[0] == 0 or gap[1] / gap[0] <= 0:
        return None
    return gap[1] / gap[0]


def _above(value: Fraction) -> float:
    with precision(100):
        return ball_above(exact_ball(value))


def _bound(tokens: int, disorder: float, beta: Fraction, apart: Fraction) -> float:
    with precision(100):
        return ball_above(arb(gate_constant(tokens, disorder)) / exact_ball(beta) + exact_ball(apart))
