"""A1, Theorem 3.1 of paper A: one head with p > n interpolation tokens clips n numbers, each with its own weights.

Input X = (x_1 .. x_n), d x n. Asked: column i is clip(w_i.x_i + t_i, a, b) e_kappa. A sum of linear maps makes p
tokens of 2d + d_o + 2 rows (columns k = 0..p-1, of which the first n also carry the input):

    rows 0..d-1       w_k * x_k entry by entry, with t_k added to the first        (0 from column n on)
    rows d..2d-1      2 beta k, d times
    row  2d           1
    row  2d+1         -beta k (L_k + L_0)
    last d_o rows     L_k e_kappa

W_Q reads the first d rows and the one, W_K the ramp and the bias, so key k and query i have the score beta (2 k s_i -
k (L_k + L_0)); W_V reads the values; the output matrix T (p x n) keeps the first n columns. The bound and its proof
are in `interpolation`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from softwright.errors import Faults
from softwright.theorems.tools.clipping import OPTIONS, Clipping, clip_rival, clip_statement
from softwright.theorems.tools.construction import Construction
from softwright.theorems.tools.drawing import Line, LineConstruction, draw_line
from softwright.theorems.tools.interpolation import (
    EXP_ASSUMPTION,
    MOST_SCORE_ERROR,
    TINY,
    Points,
    U,
    check_scores,
    evaluate_line,
)
from softwright.theorems.tools.network import Attention, TheoremNetwork, Tokens
from softwright.theorems.tools.rivals import Rival, Rivals
from softwright.theorems.tools.theorem import PAPER_A, Option, Theorem


def _rounding(grid: Points, dim: int, reach: float) -> float | None:
    """What float64 adds to the bound for |x| <= LIMIT; None where scores are too large for the derivation.

    With S = reach, M = max(|a|, |b|), B = beta p: the rows w x, t are off by 2.01 u S in sum; a key 2 beta k by u, a
    bias by 14.3 u B M, the product of d + 1 terms by (d + 2) u (2 B S + 2 B M), the shift by 4.1 u B (S + M), exp by
    8 u: h <= u B (S + M)(2.1 d + 24.2) + 8 u. Levels are off by 8 u M, the normalised sum by (2.1 p + 12) u M;
    what underflows costs less than TINY.
    """
    size = max(abs(grid.a), abs(grid.b))
    score = U * grid.beta * grid.count * (reach + size) * (2.1 * dim + 24.2) + 8 * U
    if not score <= MOST_SCORE_ERROR:
        return None
    tiny = TINY * (grid.count + dim) * (1.0 + size)
    return 1.01 * U * ((2.1 * grid.count + 20.0) * size + 2.01 * reach) + tiny


def _construct(points: int, **asked: Any) -> LineConstruction:
    """One softmax head on p > n tokens computes, in column i, the number w_i.x_i + t_i clipped to [a, b], each
    token with its own w_i and t_i. The error is at most max(|a|, |b|) eps0 + (b - a)/p: it falls like 1/p.
    """
    faults = Faults("theorem A1")
    task = Clipping.of(faults, **asked)
    n, d, p, a, b, eps0 = task.tokens, task.dim, points, task.a, task.b, task.eps0
    faults.check(p > n, f"the theorem needs p > n, more points than tokens; got p = {p}, n = {n}")
    faults.check(p >= 3, f"the theorem's bound needs at least 3 points, got {p}")
    faults.raise_if_any()
    grid = Points(a, b, p, eps0)
    check_scores(faults, 2.0 * grid.beta * p * (task.reach + abs(a) + abs(b)), grid.beta, grid.stored_error)
    faults.raise_if_any()

    rows = 2 * d + task.outputs + 2
    P, Q = task.token_maps(rows, p)
    R = np.zeros((rows, p))
    R[0, :n] = task.t
    R[d : 2 * d] = grid.ramp
    R[2 * d] = 1.0
    R[2 * d + 1] = grid.bias
    R[2 * d + 2 + task.coordinate] = grid.levels
    eye = np.eye(rows)
    attention = Attention(
        W_K=eye[None, [*range(d, 2 * d), 2 * d + 1]],  # (1, d+1, rows)
        W_Q=eye[None, [*range(d), 2 * d]],  # (1, d+1, rows)
        W_V=eye[None, 2 * d + 2 :],  # (1, d_o, rows)
        T=np.eye(p, n)[None],  # (1, p, n)
    )
    rounding = _rounding(grid, d, task.reach)
    line = (grid.ramp, grid.bias, grid.levels)
    return LineConstruction(
        network=TheoremNetwork("A1", [Tokens(P, Q, R), attention], (d, n)),
        bound=grid.bound(),
        sizes={"points": p, **task.sizes(rounding)},
        drawn=task.drawn,
        tokens=p,
        statement=clip_statement(rounding),
        target=task.target,
        sample=lambda rng, count: task.samples(grid, rng, count),
        quantities={"beta": grid.beta, "eps0": eps0, "spacing": grid.step, "points": float(p)},
        rounding=rounding,
        assumptions=() if rounding is None else (EXP_ASSUMPTION,),
        provable=task.question([line]),
        reasons=(
            f"{p} points spaced {grid.step:.4g}; the last is b - (b-a)/p, so that the error beyond b is the spacing",
            f"beta = log((p-2)/eps0)/spacing = {grid.beta:.4g} leaves {eps0:g} outside the two nearest points",
        ),
        line=Line(lambda s: (evaluate_line(*line, s), np.clip(s, a, b)), a, b, 0.15 * (b - a)),
    )


def _rival(made: Construction) -> Rivals:
    sizes = made.sizes
    return _same_tokens(Points(sizes["a"], sizes["b"], sizes["points"], sizes["eps0"])) | clip_rival(made)


def _same_tokens(grid: Points) -> Rivals:
    """The theorem's tokens at the finite temperature that suits them best: on all numbers, and between the ends.

    Observed on 20,001 numbers from a - (b-a) to b + (b-a); the last point is below b, so no temperature mends that end.
    """
    a, b = grid.a, grid.b
    s = np.linspace(a - (b - a), b + (b - a), 20_001)
    inside = (s >= a + 3 * grid.step) & (s <= b - 4 * grid.step)
    k = np.arange(grid.count)

    def error(log_beta: float, where: np.ndarray) -> float:
        beta = np.exp(log_beta)
        got = evaluate_line(2 * beta * k, -beta * k * (grid.levels + a), grid.levels, s[where])
        return float(np.abs(got - np.clip(s[where], a, b)).max())

    rows: Rivals = {}
    for name, where in (("all numbers", np.full(s.shape, True)), ("3 points from the ends", inside)):
        if not where.any():
            continue
        tried = np.linspace(np.log(0.02 / grid.step), np.log(grid.beta), 60)
        start = int(np.argmin([error(value, where) for value in tried]))
        low, high = tried[max(start - 1, 0)], tried[min(start + 1, len(tried) - 1)]
        found = minimize_scalar(lambda v, where=where: error(float(v), where), bounds=(low, high), method="bounded")
        best = min(float(np.asarray(found.fun)), error(tried[start], where))
        rows[f"same tokens, best temperature, {name}"] = Rival(grid.count, best)
    return rows


A1 = Theorem(
    label="A1",
    title="one head, p > n interpolation tokens: clip(w_i.x_i + t_i, a, b) for every token",
    paper=f"{PAPER_A}, Theorem 3.1",
    conditions=("p > n and p >= 3", "a < b", "0 < eps0 <= 1/2", "beta = log((p-2)/eps0) p/(b-a) fits float64"),
    options=(Option("points", int, 60, "interpolation tokens p"), *OPTIONS),
    construct=_construct,
    sweep=("points", (60, 75, 90, 105, 120)),
    details=draw_line,
    rival=_rival,
)
