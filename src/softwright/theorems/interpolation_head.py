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
are in `interpolation`. In the paper the coordinate is a function G(k) of the point; a G that changes between two
neighbours cannot hold where both share the mass, so that G is constant here: kappa is one coordinate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from softwright.attention import AttentionNetwork
from softwright.domain import Box
from softwright.errors import Faults
from softwright.targets import Expression
from softwright.theorems.tools.construction import Construction, Rows
from softwright.theorems.tools.interpolation import (
    EXP_ASSUMPTION,
    MOST_SCORE_ERROR,
    Points,
    U,
    check_eps0,
    check_range,
    check_scores,
    evaluate_line,
    line_head,
    telling_places,
)
from softwright.theorems.tools.network import Attention, TheoremNetwork, Tokens
from softwright.theorems.tools.theorem import PAPER_A, Option, Theorem

RADIUS = 5.0  # the paper draws its data uniformly from [-5, 5]
LIMIT = 100.0  # entries of inputs for which the rounding of float64 is bounded


def weights_and_offsets(
    faults: Faults, weights: Any, offsets: Any, tokens: int, dim: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """w (n, d) and t (n,): those given, or standard normal as in the paper's experiment."""
    rng = np.random.default_rng(seed)
    drawn = rng.standard_normal((tokens, dim)), rng.standard_normal(tokens)
    w = drawn[0] if weights is None else np.asarray(weights, dtype=float)
    t = drawn[1] if offsets is None else np.asarray(offsets, dtype=float)
    if faults.check(w.shape == (tokens, dim), f"weights must be (tokens, dim) = ({tokens}, {dim}), got {w.shape}"):
        faults.check(bool(np.isfinite(w).all()), "weights hold NaN or infinite entries")
    if faults.check(t.shape == (tokens,), f"offsets must be ({tokens},), got {t.shape}"):
        faults.check(bool(np.isfinite(t).all()), "offsets hold NaN or infinite entries")
    return w, t


def clip_samples(w: np.ndarray, t: np.ndarray, points: Points, rng: np.random.Generator, count: int) -> np.ndarray:
    """Inputs (count, d, n): half uniform in [-5, 5], half moved along w_i so that s_i lies where the error is large."""
    n, d = w.shape
    X = rng.uniform(-RADIUS, RADIUS, (count, d, n))
    half = count // 2
    places = telling_places(points, rng, half * n).reshape(half, n)
    square = (w**2).sum(axis=1)
    good = square > 0
    missing = places - (np.einsum("nd,qdn->qn", w, X[:half]) + t)  # (half, n)
    X[:half] += np.where(good, missing / np.where(good, square, 1.0), 0.0)[:, None, :] * w.T[None]
    return np.clip(X, -LIMIT, LIMIT)


def clip_target(w: np.ndarray, t: np.ndarray, a: float, b: float, outputs: int, coordinate: int) -> Any:
    def target(X: Any) -> np.ndarray:
        s = np.einsum("nd,...dn->...n", w, np.asarray(X, dtype=float)) + t
        out = np.zeros((*s.shape[:-1], outputs, s.shape[-1]))
        out[..., coordinate, :] = np.clip(s, a, b)
        return out

    return target


def reach_of(w: np.ndarray, t: np.ndarray) -> float:
    """The largest sum_j |w_ij x_ij| + |t_i| for inputs with entries up to LIMIT."""
    return float((np.abs(w).sum(axis=1) * LIMIT + np.abs(t)).max())


def _rounding(grid: Points, dim: int, reach: float) -> float | None:
    """What float64 adds to the bound for |x| <= LIMIT; None where scores are too large for the derivation.

    With S = reach, M = max(|a|, |b|), B = beta p: the rows w x, t are off by 2.01 u S in sum; a key 2 beta k by u, a
    bias by 14.3 u B M, the product of d + 1 terms by (d + 2) u (2 B S + 2 B M), the shift by 4.1 u B (S + M), exp by
    8 u: h <= u B (S + M)(2.1 d + 24.2) + 8 u. Levels are off by 8 u M, the normalised sum by (2.1 p + 12) u M.
    """
    size = max(abs(grid.a), abs(grid.b))
    score = U * grid.beta * grid.count * (reach + size) * (2.1 * dim + 24.2) + 8 * U
    if not score <= MOST_SCORE_ERROR:
        return None
    return 1.01 * U * ((2.1 * grid.count + 20.0) * size + 2.01 * reach)


def check_shape(faults: Faults, tokens: int, dim: int, outputs: int, coordinate: int) -> bool:
    good = [
        faults.check(tokens >= 1, f"tokens n must be at least 1, got {tokens}"),
        faults.check(dim >= 1, f"dim d must be at least 1, got {dim}"),
        faults.check(outputs >= 1, f"outputs d_o must be at least 1, got {outputs}"),
        faults.check(0 <= coordinate < outputs, f"coordinate must be 0..{outputs - 1}, got {coordinate}"),
    ]
    return all(good)


def _construct(
    points: int,
    tokens: int,
    dim: int,
    a: float,
    b: float,
    eps0: float,
    outputs: int,
    coordinate: int,
    seed: int,
    weights: Any,
    offsets: Any,
) -> Construction:
    faults = Faults("theorem A1")
    n, d, p = tokens, dim, points
    check_shape(faults, n, d, outputs, coordinate)
    faults.check(p > n, f"the theorem needs p > n, more points than tokens; got p = {p}, n = {n}")
    faults.check(p >= 3, f"the theorem's bound needs at least 3 points, got {p}")
    check_range(faults, a, b)
    check_eps0(faults, eps0)
    faults.raise_if_any()
    w, t = weights_and_offsets(faults, weights, offsets, n, d, seed)
    grid = Points(a, b, p, eps0)
    if not faults.found:
        check_scores(faults, 2.0 * grid.beta * p * (reach_of(w, t) + abs(a) + abs(b)), grid.beta)
    faults.raise_if_any()

    rows = 2 * d + outputs + 2
    P, Q, R = np.zeros((n, rows, d)), np.zeros((n, n, p)), np.zeros((rows, p))
    for i in range(n):
        P[i, :d] = np.diag(w[i])
        Q[i, i, i] = 1.0
    R[0, :n] = t
    R[d : 2 * d] = grid.ramp
    R[2 * d] = 1.0
    R[2 * d + 1] = grid.bias
    R[2 * d + 2 + coordinate] = grid.levels
    eye = np.eye(rows)
    attention = Attention(
        W_K=eye[None, [*range(d, 2 * d), 2 * d + 1]],  # (1, d+1, rows)
        W_Q=eye[None, [*range(d), 2 * d]],  # (1, d+1, rows)
        W_V=eye[None, 2 * d + 2 :],  # (1, d_o, rows)
        T=np.eye(p, n)[None],  # (1, p, n)
    )
    network = TheoremNetwork("A1", [Tokens(P, Q, R), attention], (d, n))
    rounding = _rounding(grid, d, reach_of(w, t))
    box = Box(s=(a - (b - a), b + (b - a)))
    return Construction(
        label="A1",
        network=network,
        bound=grid.bound(),
        sizes={"points": p, "tokens": n, "dim": d, "a": a, "b": b, "eps0": eps0, "outputs": outputs, "seed": seed},
        layers=1,
        heads=1,
        tokens=p,
        parameters=network.parameter_count,
        statement=statement_of(rounding),
        target=clip_target(w, t, a, b, outputs, coordinate),
        sample=lambda rng, count: clip_samples(w, t, grid, rng, count),
        quantities={"beta": grid.beta, "eps0": eps0, "spacing": grid.step, "points": float(p)},
        rounding=rounding,
        assumptions=() if rounding is None else (EXP_ASSUMPTION,),
        softwright_rows=lambda: _same_tokens(grid),
        provable=(AttentionNetwork([line_head(grid, box)], box), Expression(clip_text(a, b), ["s"])),
        reasons=(
            f"{p} points spaced {grid.step:.4g}; the last is b - (b-a)/p, so that the error beyond b is the spacing",
            f"beta = log((p-2)/eps0)/spacing = {grid.beta:.4g} leaves {eps0:g} outside the two nearest points",
        ),
        extra={
            "approximate": {"target": clip_text(a, b), "box": (a - (b - a), b + (b - a)), "dtype": "float32"},
            "line": lambda s: (evaluate_line(grid.ramp, grid.bias, grid.levels, s), np.clip(s, a, b)),
            "range": (a, b),
        },
    )


def statement_of(rounding: float | None) -> str:
    inputs = "for every input X" if rounding is None else f"for every X with entries up to {LIMIT:g}"
    return f"every column i is within the bound of clip(w_i.x_i + t_i, a, b) e_kappa, {inputs}"


def clip_text(a: float, b: float) -> str:
    return f"max({a!r}, min({b!r}, s))"


def _same_tokens(grid: Points) -> Rows:
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

    rows: Rows = {}
    for name, where in (("all numbers", np.full(s.shape, True)), ("3 points from the ends", inside)):
        if not where.any():
            continue
        tried = np.linspace(np.log(0.02 / grid.step), np.log(grid.beta), 60)
        start = int(np.argmin([error(value, where) for value in tried]))
        low, high = tried[max(start - 1, 0)], tried[min(start + 1, len(tried) - 1)]
        found = minimize_scalar(lambda v, where=where: error(float(v), where), bounds=(low, high), method="bounded")
        best = min(float(np.asarray(found.fun)), error(tried[start], where))
        rows[f"same tokens, best temperature, {name}"] = (grid.count, best)
    return rows


A1 = Theorem(
    label="A1",
    title="one head, p > n interpolation tokens: clip(w_i.x_i + t_i, a, b) for every token",
    statement=(
        "One softmax head on p > n tokens computes, in column i, the number w_i.x_i + t_i clipped to [a, b], "
        "each token "
        "with its own w_i and t_i. The error is at most max(|a|, |b|) eps0 + (b - a)/p: it falls like 1/p."
    ),
    paper=f"{PAPER_A}, Theorem 3.1",
    conditions=("p > n and p >= 3", "a < b", "0 < eps0 <= 1/2", "beta = log((p-2)/eps0) p/(b-a) fits float64"),
    options=(
        Option("points", int, 60, "interpolation tokens p"),
        Option("tokens", int, 50, "tokens n of the input"),
        Option("dim", int, 10, "entries d of a token"),
        Option("a", float, -25.0, "lower end of the clip"),
        Option("b", float, 25.0, "upper end of the clip"),
        Option("eps0", float, 1e-6, "softmax mass allowed outside the two nearest points"),
        Option("outputs", int, 1, "output coordinates d_o"),
        Option("coordinate", int, 0, "the coordinate kappa that is written"),
        Option("seed", int, 0, "seed of the weights w_i, t_i"),
        Option("weights", object, None, "w (tokens, dim) instead of random ones"),
        Option("offsets", object, None, "t (tokens,) instead of random ones"),
    ),
    construct=_construct,
    sweep=("points", (60, 75, 90, 105, 120)),
)
