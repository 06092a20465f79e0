"""Piecewise-linear formulas in any number of variables: gates, exactly.

Every formula made of affine terms by + - max min abs and constant factors is a difference of two max-affine functions,

    f = max_i (p_i.t + c_i) - max_j (q_j.t + d_j),

by the rules  f + g,  -f (swap),  max(f1 - f2, g1 - g2) = max(f1 + g2, g1 + f2) - (f2 + g2). A max-affine function of
N pieces is one head: scores beta times the pieces, values the pieces themselves, and its error is at most W0((N-1)/e)
/ beta, from one side. So f is at most two heads, with as many tokens as there are pieces that ever win.
"""

from __future__ import annotations

import numpy as np

from softwright.approximation.formula import Formula
from softwright.approximation.problem import Fit, Problem, probe_points
from softwright.approximation.strategies.direction import fit_along
from softwright.approximation.strategies.line import fit_pieces_line
from softwright.attention.head import Head
from softwright.domain import Box
from softwright.targets.formula import Constant, Node, Number, Operation, Variable

_MOST_PIECES = 256


class _NotPiecewiseLinear(Exception):
    pass


Pieces = np.ndarray  # (N, d + 1): gradient and constant of each affine piece, in the unit frame


def _sums(a: Pieces, b: Pieces) -> Pieces:
    if len(a) * len(b) > _MOST_PIECES * 8:
        raise _NotPiecewiseLinear
    return np.unique((a[:, None] + b[None]).reshape(-1, a.shape[1]), axis=0)


def _winners(pieces: Pieces) -> Pieces:
    """The pieces that are the maximum somewhere in [-1, 1]^d (each by one small linear program)."""
    if len(pieces) == 1:
        return pieces
    d = pieces.shape[1] - 1
    if len(pieces) == 2:  # one beats the other somewhere: the difference is affine
        off = pieces - pieces[::-1]
        kept = np.flatnonzero(np.abs(off[:, :d]).sum(axis=1) + off[:, d] > 1e-12)
        return pieces[kept] if len(kept) else pieces[:1]
    from scipy.optimize import linprog

    kept, seen = [], _seen_to_win(pieces)
    for i in range(len(pieces)):
        if seen[i]:
            kept.append(i)
            continue
        others = np.delete(pieces, i, axis=0)
        # maximise s subject to (p_i - p_j).t + c_i - c_j >= s, t in the box
        A = np.hstack([others[:, :d] - pieces[i, :d], np.ones((len(others), 1))])
        b = pieces[i, d] - others[:, d]
        bounds = [(-1.0, 1.0)] * d + [(None, None)]
        result = linprog(np.r_[np.zeros(d), -1.0], A_ub=A, b_ub=b, bounds=bounds, method="highs")
        if not result.success or -result.fun > 1e-12:
            kept.append(i)
    return pieces[kept] if kept else pieces[:1]


def _seen_to_win(pieces: Pieces) -> np.ndarray:
    """Which pieces are the maximum, clearly, at one of some points: of these no program has to be asked."""
    d = pieces.shape[1] - 1
    values = pieces[:, :d] @ probe_points(d, 200, 7).T + pieces[:, d:]  # (N, n)
    first, second = np.sort(values, axis=0)[[-1, -2]]
    clear = first - second > 1e-6 * (1.0 + np.abs(pieces).max())
    won = np.zeros(len(pieces), dtype=bool)
    won[values.argmax(axis=0)[clear]] = True
    return won


def _pruned(pieces: Pieces) -> Pieces:
    pieces = np.unique(pieces, axis=0)
    if len(pieces) > 8:
        pieces = _winners(pieces)
    if len(pieces) > _MOST_PIECES:
        raise _NotPiecewiseLinear
    return pieces


class _Difference:
    """max(plus) - max(minus)"""

    def __init__(self, plus: Pieces, minus: Pieces) -> None:
        self.plus, self.minus = plus, minus

    def __neg__(self) -> _Difference:
        return _Difference(self.minus, self.plus)

    def __add__(self, other: _Difference) -> _Difference:
        return _Difference(_pruned(_sums(self.plus, other.plus)), _pruned(_sums(self.minus, other.minus)))

    def times(self, factor: float) -> _Difference:
        if factor < 0:
            return -self.times(-factor)
        return _Difference(self.plus * factor, self.minus * factor)

    def maximum(self, other: _Difference) -> _Difference:
        plus = np.concatenate([_sums(self.plus, other.minus), _sums(other.plus, self.minus)])
        return _Difference(_pruned(plus), _pruned(_sums(self.minus, other.minus)))

    @property
    def constant(self) -> float | None:
        """Its value if it is a constant."""
        if len(self.plus) == 1 and len(self.minus) == 1 and not np.any(self.plus[0, :-1] - self.minus[0, :-1]):
            return float(self.plus[0, -1] - self.minus[0, -1])
        return None


def _walk(node: Node, box: Box) -> _Difference:
    d = box.dim
    zero = np.zeros((1, d + 1))
    if isinstance(node, Number | Constant):
        value = node.value if isinstance(node, Number) else {"pi": np.pi, "e": np.e}[node.name]
        return _Difference(np.r_[np.zeros(d), value][None], zero)
    if isinstance(node, Variable):
        i = box.names.index(node.name)
        piece = zero.copy()
        piece[0, i], piece[0, d] = box.halfwidth[i], box.center[i]
        return _Difference(piece, zero)
    return _operation(node, box)


def _operation(node: Operation, box: Box) -> _Difference:
    if node.name not in ("neg", "add", "sub", "mul", "div", "max", "min", "abs"):
        raise _NotPiecewiseLinear
    first, *rest = (_walk(argument, box) for argument in node.arguments)
    if node.name == "neg":
        return -first
    if node.name == "abs":
        return first.maximum(-first)
    (second,) = rest
    match node.name:
        case "add":
            return first + second
        case "sub":
            return first + (-second)
        case "max":
            return first.maximum(second)
        case "min":
            return -((-first).maximum(-second))
        case "div" if second.constant:
            return first.times(1.0 / second.constant)
        case "mul" if second.constant is not None:
            return first.times(second.constant)
        case "mul" if first.constant is not None:
            return second.times(first.constant)
    raise _NotPiecewiseLinear


def _max_affine_head(pieces: Pieces, beta: float, output: int, outputs: int, sign: float) -> Head:
    N, d = len(pieces), pieces.shape[1] - 1
    values, slopes = np.zeros((N, outputs)), np.zeros((N, outputs, d))
    values[:, output] = sign * pieces[:, d]
    slopes[:, output] = sign * pieces[:, :d]
    return Head(beta * pieces[:, :d], beta * pieces[:, d], values, slopes, "gates").centred()


def fit_gated(problem: Problem, formula: Formula | None = None) -> Fit | None:
    """Pieces behind gates: of one variable, of a piecewise-linear formula, or along one direction."""
    if problem.dim == 1:
        return fit_pieces_line(problem)
    return fit_polyhedral(problem, formula) or fit_along(problem, fit_pieces_line)


def fit_polyhedral(problem: Problem, formula: Formula | None) -> Fit | None:
    """Gated affine pieces for a piecewise-linear formula; None if the target is not of that kind."""
    if formula is None:
        return None
    try:
        parts = [_walk(node, formula.box) for node in formula.expression.nodes]
    except _NotPiecewiseLinear:
        return None
    from scipy.special import lambertw

    heads: list[Head] = []
    m, d = problem.outputs, problem.dim
    constant, gradient = np.zeros(m), np.zeros((m, d))
    for output, part in enumerate(parts):
        for pieces, sign in ((_winners(part.plus), 1.0), (_winners(part.minus), -1.0)):
            if len(pieces) == 1:
                constant[output] += sign * pieces[0, d]
                gradient[output] += sign * pieces[0, :d]
                continue
            beta = 1.05 * float(lambertw((len(pieces) - 1) / np.e).real) / (0.4 * problem.tolerance)
            heads.append(_max_affine_head(pieces, beta, output, m, sign))
    if not heads:
        heads = [Head(np.zeros((1, d)), np.zeros(1), np.zeros((1, m)))]
    heads[0] = heads[0].plus_affine(constant, gradient)
    points = probe_points(d, 20_000, seed=21)
    error = float(np.abs(sum(head(points) for head in heads) - problem.function(points)).max())
    tokens = sum(head.tokens for head in heads)
    reason = f"a piecewise-linear formula: {tokens} affine pieces behind hard gates in {len(heads)} head(s)"
    return Fit(heads, error, "pieces", (reason,))
