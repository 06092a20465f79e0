"""A2, Theorem 3.2 of paper A: H heads on n tokens, no extra tokens, clip n numbers with H (n - 2) points.

P = H (n-2) points L_k = a + k D, D = (b - a)/P. Head h = 0..H-1 owns the points k = h(n-2) .. (h+1)(n-2) - 1; its n
tokens stand for k = o_h + j, o_h = h(n-2) - 1, j = 0..n-1, so the first and the last are *sentinels* on its
neighbours' points, with value 0. The two outermost sentinels, at a - D and b, hold a and b. The heads add up: far from
a head's points its mass sits on a sentinel and it gives 0; across a seam one head gives lambda L_last, the next (1 -
lambda) L_first, with the same lambda, so that the sum interpolates.

Keys are affine and biases quadratic in j, so the token rows 1, j, j^2 serve all heads, and each W_K^h forms its own:
2 beta k = 2 beta (o_h + j) and -beta k (L_k + L_0) = -beta (2 a k + D k^2). Rows of a token, d + 7 in all:

    rows 0..d-1   w_j * x_j entry by entry, t_j added to the first
    then          1, j, j^2, [j inner], j [j inner], [j = 0], [j = n-1]

*Bound.* q = e^{-beta D}, M = max(|a|, |b|). A head that owns one of the two points nearest to s (one head, two at a
seam) has at most q + q^2 + q^4 + ... on other tokens; each of its two terms then misses at most 2 M times that, at a
seam 3 M in all. A head beyond whose sentinel s lies, t D away, has at most q^{1+2t}(1 + 2 q^3) on its points: q for
each of the two next heads, q^3 and less beyond. With q <= 1/12 that is 3.3 q M + 2.1 q M < 6 q M. What is interpolated
lies within D/2 of clip(s, a, b). So beta = log(6/eps0)/D gives D/2 + M eps0, which is below the theorem's

    max(|a|, |b|) eps0 + (b - a)/((n-2) H).

*Stored numbers.* Rounding what is stored moves differences of scores by e = 100 u beta P M at most, which multiplies
leaks by e^{2e} and moves the two lambdas of a seam apart by e/4, values by 12 u M. Sizes with e > 0.02 are refused;
with D/2 grown to 0.55 D and 0.3 e M + 30 u M added the bound above remains. Where rounding is bounded, it holds this.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from softwright.errors import Faults
from softwright.theorems.tools.clipping import OPTIONS, Clipping, clip_rival, clip_statement
from softwright.theorems.tools.construction import float_above
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
from softwright.theorems.tools.theorem import PAPER_A, Option, Theorem

LEAK = 6.0  # beta = log(LEAK/eps0)/D
FIXED_ROWS = 7  # 1, j, j^2, inner, j inner, first, last


def multi_head_bound(a: float, b: float, tokens: int, heads: int, eps0: float, *, stored: bool) -> float:
    """max(|a|, |b|) eps0 + (b - a)/((n-2) H), rounded up; `stored`: and at least what stored numbers leave of D/2."""
    low, high = Fraction(a), Fraction(b)
    size, step = max(abs(low), abs(high)), (high - low) / ((tokens - 2) * heads)
    off = Fraction(0.3 * stored_error(a, b, tokens, heads, eps0) + 30.0 * U) if stored else 0
    return float_above(size * Fraction(eps0) + max(step, Fraction(11, 20) * step + size * off))


def multi_head_beta(a: float, b: float, tokens: int, heads: int, eps0: float) -> float:
    with np.errstate(all="ignore"):  # an overflow is a fault of the sizes, reported by `check_scores`
        return float(np.log(LEAK / eps0) * (tokens - 2) * heads / np.float64(b - a)) * (1.0 + 1e-12)  # rounded up


def stored_error(a: float, b: float, tokens: int, heads: int, eps0: float) -> float:
    """What rounding the stored numbers adds to the difference of two scores."""
    return 100.0 * U * multi_head_beta(a, b, tokens, heads, eps0) * (heads * (tokens - 2) + 2) * max(abs(a), abs(b))


def token_rows(tokens: int) -> np.ndarray:
    """The constant rows (7, n): 1, j, j^2, inner, j inner, first, last."""
    j = np.arange(tokens, dtype=float)
    inner = ((j > 0) & (j < tokens - 1)).astype(float)
    return np.stack([np.ones(tokens), j, j**2, inner, j * inner, (j == 0) * 1.0, (j == tokens - 1) * 1.0])


def clip_heads(
    a: float, b: float, tokens: int, heads: int, eps0: float, score_rows: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """W_K (H, score_rows + 1, rows), W_Q of the same shape and the value rows (H, rows) of the heads.

    Tokens have `score_rows` rows whose sum is s, then the seven fixed rows.
    """
    d, rows = score_rows, score_rows + FIXED_ROWS
    one, j1, j2, inner, j_inner, first, last = range(d, d + FIXED_ROWS)
    step = (b - a) / ((tokens - 2) * heads)
    beta = multi_head_beta(a, b, tokens, heads, eps0)
    W_K, W_Q, values = np.zeros((heads, d + 1, rows)), np.zeros((heads, d + 1, rows)), np.zeros((heads, rows))
    for h in range(heads):
        o = h * (tokens - 2) - 1
        W_K[h, :d, one], W_K[h, :d, j1] = 2 * beta * o, 2 * beta  # 2 beta k
        W_K[h, d, one] = -beta * (2 * a * o + step * o**2)
        W_K[h, d, j1] = -beta * (2 * a + 2 * step * o)
        W_K[h, d, j2] = -beta * step
        W_Q[h, :d, :d] = np.eye(d)
        W_Q[h, d, one] = 1.0
        values[h, inner], values[h, j_inner] = a + step * o, step
    values[0, first] = a
    values[-1, last] = b
    return W_K, W_Q, values


def _rounding(a: float, b: float, tokens: int, heads: int, eps0: float, dim: int, reach: float) -> float | None:
    """What float64 adds to the bound for |x| <= LIMIT; None where scores are too large for the derivation.

    As in A1, with B = beta (P + 2): keys and biases are formed by the layer, from terms whose sizes add up to 2 B and
    12 B M, stored to 8 u and summed to 4 u; h <= u B (S + M)(13 d + 240) + 8 u. The leaks of the docstring grow by
    1.106, to 5.9 q M. At a seam the two heads' lambdas differ by at most h, which costs h M. A value is off by 60 u M,
    the sum of a head by (2.1 n + 20) u M, that of the heads by 1.1 H u M each; what underflows costs less than TINY.
    """
    size = max(abs(a), abs(b))
    terms = multi_head_beta(a, b, tokens, heads, eps0) * (heads * (tokens - 2) + 2)
    score = U * terms * (reach + size) * (13.0 * dim + 240.0) + 8 * U
    if not score <= MOST_SCORE_ERROR:
        return None
    sums = heads * (2.1 * tokens + 80.0 + 1.1 * heads) * U * size + TINY * (heads * tokens + dim) * (1.0 + size)
    return 1.01 * (sums + 2.01 * U * reach + (score * size if heads > 1 else 0.0))


def largest_score(a: float, b: float, tokens: int, heads: int, eps0: float, reach: float) -> float:
    return 2.0 * multi_head_beta(a, b, tokens, heads, eps0) * tokens * heads * (reach + abs(a) + abs(b))


def _construct(heads: int, **asked: Any) -> LineConstruction:
    """H softmax heads on the n input tokens alone compute, summed, the number w_i.x_i + t_i clipped to [a, b] in
    column i. The error is at most max(|a|, |b|) eps0 + (b - a)/((n-2) H): it falls like 1/H.
    """
    faults = Faults("theorem A2")
    task = Clipping.of(faults, **asked)
    n, d, H, a, b, eps0 = task.tokens, task.dim, heads, task.a, task.b, task.eps0
    faults.check(n >= 3, f"the theorem needs n >= 3, two sentinels and a point in each head; got n = {n}")
    faults.check(H >= 1, f"the theorem needs at least one head, got {H}")
    faults.raise_if_any()
    beta = multi_head_beta(a, b, n, H, eps0)
    check_scores(faults, largest_score(a, b, n, H, eps0, task.reach), beta, stored_error(a, b, n, H, eps0))
    faults.raise_if_any()

    rows = d + FIXED_ROWS
    P, Q = task.token_maps(rows, n)
    R = np.zeros((rows, n))
    R[0] = task.t
    R[d:] = token_rows(n)
    W_K, W_Q, values = clip_heads(a, b, n, H, eps0, d)
    W_V = np.zeros((H, task.outputs, rows))
    W_V[:, task.coordinate] = values
    rounding = _rounding(a, b, n, H, eps0, d, task.reach)
    grid = Points(a, b, H * (n - 2), min(eps0, 0.5)) if H * (n - 2) >= 3 else Points(a, b, 3, eps0)
    lines = line_heads(a, b, n, H, eps0)
    return LineConstruction(
        network=TheoremNetwork("A2", [Tokens(P, Q, R), Attention(W_K, W_Q, W_V)], (d, n)),
        bound=multi_head_bound(a, b, n, H, eps0, stored=rounding is None),
        sizes={"heads": H, **task.sizes(rounding)},
        drawn=task.drawn,
        tokens=n,
        statement=clip_statement(rounding),
        target=task.target,
        sample=lambda rng, count: task.samples(grid, rng, count),
        quantities={"beta": beta, "eps0": eps0, "spacing": (b - a) / (H * (n - 2)), "points": float(H * (n - 2))},
        rounding=rounding,
        assumptions=() if rounding is None else (EXP_ASSUMPTION,),
        provable=task.question(lines),
        reasons=(
            f"{H} head(s) share {H * (n - 2)} points; every head has a sentinel of value 0 on each side",
            f"beta = log({LEAK:g}/eps0)/spacing = {beta:.4g}",
        ),
        line=Line(
            lambda s: (np.sum([evaluate_line(k, c, v, s) for k, c, v in lines], axis=0), np.clip(s, a, b)),
            a,
            b,
            0.15 * (b - a),
        ),
    )


def line_heads(
    a: float, b: float, tokens: int, heads: int, eps0: float
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Every head as a function of s alone: ramp, bias and values, (n,) each."""
    W_K, _, values = clip_heads(a, b, tokens, heads, eps0, 1)
    Z = np.concatenate([np.zeros((1, tokens)), token_rows(tokens)])  # (8, n)
    return [(K[0] @ Z, K[1] @ Z, v @ Z) for K, v in zip(W_K, values, strict=True)]


A2 = Theorem(
    label="A2",
    title="H heads, no extra tokens: the same clip with H(n-2) points, sentinels between heads",
    paper=f"{PAPER_A}, Theorem 3.2",
    conditions=("n >= 3 and H >= 1", "a < b", "0 < eps0 <= 1/2", "beta = log(6/eps0) H(n-2)/(b-a) fits float64"),
    options=(Option("heads", int, 4, "heads H"), *OPTIONS),
    construct=_construct,
    sweep=("heads", (1, 2, 4, 8, 16)),
    details=draw_line,
    rival=clip_rival,
)
