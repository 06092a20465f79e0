"""A5, Theorem 4.1 of paper A: attention-only layers take a step of gradient descent on the data in the prompt.

Tokens (x_i, y_i, w, 1), i = 1..n, all with the same w. L(w) = mean_i l(w.x_i, y_i) has the gradient mean_i g_i x_i with

    squares    g_i = w.x_i - y_i             l = (u - y)^2/2
    logistic   g_i = sigmoid(w.x_i) - y_i    l = log(1 + e^u) - y u

One step is three attention layers, each with residual, on p > n tokens of which the first n carry the data:

    layer 1    the interpolation head of A1. Its score 2 beta k s_i is bilinear: the query reads x_i (and y_i), key k
               holds 2 beta k w, which a linear map takes from the first token. Values L_k (squares, s_i = w.x_i -
               y_i) or sigmoid(L_k) (s_i = w.x_i): a fresh row of token i becomes g_i
    layer 2    2d interpolation heads: g x = ((g + x)/2)^2 - ((g - x)/2)^2, values +-L_k^2: fresh rows become g_i x_i
    linear     the p - n tokens without data are dropped
    layer 3    uniform attention averages over the n tokens; W_V = -eta writes w - eta grad L into the rows of w

*Bound.* |x| <= X, |y| <= Y entrywise, w of Euclidean norm at most W (sqrt(d) times the largest entry, to begin with).
With S = sqrt(d) W X + Y (squares) or sqrt(d) W X (logistic), the points of layer 1 fill [-S, S] and g errs by at most
e = Lip (2S/p)(1 + 3.1 q), Lip = 1 or 1/4 (`interpolation`, any values). |g| <= G, G = S or 1, and with V = (G + X)/2
each square errs by at most 2 V (2V/p)(1 + 3.1 q). So the gradient errs by at most

    eps = e X + 8 V^2 (1 + 3.1 q)/p,          |w_new - (w - eta grad L)| <= eta eps,          eps = O(1/p).

*Several steps.* A step of exact gradient descent moves two points apart by at most kappa = max(1, eta c d X^2 - 1), c
= 1 or 1/4 (the Hessian's eigenvalues lie in [0, c d X^2]), so the Euclidean error obeys E <- kappa E + eta eps
sqrt(d), and bounds every entry; in the same way W <- kappa W + eta sqrt(d) (Z X + eps), where Z bounds |g| at w = 0: Y
for squares, 1 for logistic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softwright.errors import Faults
from softwright.theorems.tools.construction import Construction
from softwright.theorems.tools.interpolation import EPS0, Points, check_eps0, check_scores
from softwright.theorems.tools.network import Attention, Stage, TheoremNetwork, Tokens
from softwright.theorems.tools.rivals import Rivals, by_in_context
from softwright.theorems.tools.theorem import PAPER_A, Theorem, options

_SAFE = 1.0 + 1e-12


def sigmoid(u: np.ndarray) -> np.ndarray:
    return 0.5 * (1.0 + np.tanh(0.5 * u))


@dataclass(frozen=True)
class _Sizes:
    """Bounds of one step: of the score, of g, of half of g + x, and the error of the gradient."""

    score: float
    gradient: float
    half: float
    eps: float


def _sizes(loss: str, d: int, W: float, X: float, Y: float, p: int, eps0: float) -> _Sizes:
    score = (np.sqrt(d) * W * X + (Y if loss == "squares" else 0.0)) * _SAFE
    gradient = score if loss == "squares" else 1.0
    half = 0.5 * (gradient + X) * _SAFE
    first = Points(-score, score, p, eps0).distance() * (1.0 if loss == "squares" else 0.25)
    second = Points(-half, half, p, eps0).distance() * 2.0 * half
    return _Sizes(float(score), float(gradient), float(half), (first * X + 2.0 * second) * _SAFE)


def gradient_step(loss: str, d: int, n: int, p: int, eta: float, eps0: float, size: _Sizes) -> list[Stage]:
    """The stages of one step: tokens, two interpolation layers, the cut to n tokens, the average, the 2d+2 rows."""
    x, y, w, one = slice(0, d), d, slice(d + 1, 2 * d + 1), 2 * d + 1
    base = 2 * d + 2
    key_w, ramp, bias, value = slice(base, base + d), base + d, base + d + 1, base + d + 2
    g, ramp2, bias2, value2 = base + d + 3, base + d + 4, base + d + 5, base + d + 6
    product = slice(base + d + 7, base + 2 * d + 7)
    rows = base + 2 * d + 7
    grid, squares = Points(-size.score, size.score, p, eps0), Points(-size.half, size.half, p, eps0)

    P, Q, R = np.zeros((2, rows, base)), np.zeros((2, n, p)), np.zeros((rows, p))
    P[0, :base] = np.eye(base)  # the data stays in the first n columns
    Q[0, :, :n] = np.eye(n)
    P[1, key_w, w] = np.eye(d)  # key k holds 2 beta k w, from the first token
    Q[1, 0] = grid.ramp
    R[ramp], R[bias] = grid.ramp, grid.bias
    R[value] = grid.levels if loss == "squares" else sigmoid(grid.levels)
    R[ramp2], R[bias2], R[value2] = squares.ramp, squares.bias, squares.levels**2

    W_K, W_Q, W_V, W_O = np.zeros((1, d + 2, rows)), np.zeros((1, d + 2, rows)), np.zeros((1, 1, rows)), None
    W_K[0, :d, key_w], W_K[0, d, ramp], W_K[0, d + 1, bias] = np.eye(d), 1.0, 1.0
    W_Q[0, :d, x], W_Q[0, d + 1, one] = np.eye(d), 1.0
    if loss == "squares":
        W_Q[0, d, y] = -1.0
    W_V[0, 0, value] = 1.0
    W_O = np.zeros((1, rows, 1))
    W_O[0, g, 0] = 1.0
    first = Attention(W_K, W_Q, W_V, W_O, residual=True)

    K2, Q2, V2 = np.zeros((2 * d, 2, rows)), np.zeros((2 * d, 2, rows)), np.zeros((2 * d, 1, rows))
    O2 = np.zeros((2 * d, rows, 1))
    K2[:, 0, ramp2], K2[:, 1, bias2] = 1.0, 1.0
    Q2[:, 0, g], Q2[:, 1, one] = 0.5, 1.0
    if loss == "logistic":
        Q2[:, 0, y] = -0.5
    for c in range(d):
        for h, sign in ((2 * c, 1.0), (2 * c + 1, -1.0)):
            Q2[h, 0, c] = 0.5 * sign
            V2[h, 0, value2] = sign
            O2[h, product.start + c, 0] = 1.0
    second = Attention(K2, Q2, V2, O2, residual=True)

    cut = Tokens(np.eye(rows)[None], np.eye(p, n)[None], np.zeros((rows, n)))
    V3 = np.zeros((1, rows, rows))
    V3[0, w, product] = -eta * np.eye(d)
    zero = np.zeros((1, 1, rows))
    third = Attention(zero, zero, V3, residual=True)
    keep = Tokens(np.eye(base, rows)[None], np.eye(n)[None], np.zeros((base, n)))
    return [Tokens(P, Q, R), first, second, cut, third, keep]


def descend(loss: str, tokens: np.ndarray, dim: int, eta: float, steps: int) -> np.ndarray:
    """Exact gradient descent on token matrices (..., 2d+2, n)."""
    Z = np.array(tokens, dtype=float)
    x, y, w = Z[..., :dim, :], Z[..., dim, :], Z[..., dim + 1 : 2 * dim + 1, 0]
    for _ in range(steps):
        u = np.einsum("...d,...dn->...n", w, x)
        g = (u if loss == "squares" else sigmoid(u)) - y
        w = w - eta * np.einsum("...n,...dn->...d", g, x) / x.shape[-1]
    Z[..., dim + 1 : 2 * dim + 1, :] = w[..., None]
    return Z


def _construct(
    loss: str, points: int, tokens: int, dim: int, steps: int, eta: float, x_max: float, y_max: float, w_max: float,
    eps0: float,
) -> Construction:  # fmt: skip
    """Attention-only layers map tokens (x_i, y_i, w, 1) to (x_i, y_i, w - eta grad L(w) + err, 1) with |err| <= eta
    eps, L the mean loss over the tokens; eps falls like 1/p. Stacked, they run gradient descent on the prompt.
    """
    faults = Faults("theorem A5")
    n, d, p = tokens, dim, points
    for name, number in (("tokens", n), ("dim", d), ("steps", steps)):
        faults.check(number >= 1, f"{name} must be at least 1, got {number}")
    for name, number in (("eta", eta), ("x_max", x_max), ("y_max", y_max), ("w_max", w_max)):
        faults.check(number > 0, f"{name} must be positive: the theorem is for data in a compact set, got {number:g}")
    faults.check(p > n, f"the theorem needs p > n, more points than tokens; got p = {p}, n = {n}")
    faults.check(p >= 6, f"the bound needs at least 6 points, got {p}")
    check_eps0(faults, eps0)
    faults.raise_if_any()

    X, Y, W = x_max, y_max if loss == "squares" else 1.0, float(np.sqrt(d)) * w_max * _SAFE
    curvature = (1.0 if loss == "squares" else 0.25) * d * X * X
    kappa = max(1.0, eta * curvature - 1.0) * _SAFE
    stages: list[Stage] = []
    error, bound, size = 0.0, 0.0, _sizes(loss, d, W, X, Y, p, eps0)
    first_eps = size.eps
    for step in range(steps):
        size = _sizes(loss, d, W, X, Y, p, eps0)
        grid = Points(-min(size.score, size.half), min(size.score, size.half), p, eps0)
        check_scores(faults, 4.0 * grid.beta * p * (size.score + size.half), grid.beta, grid.stored_error)
        faults.raise_if_any()
        stages += gradient_step(loss, d, n, p, eta, eps0, size)
        error = (kappa * error + eta * size.eps * np.sqrt(d)) * _SAFE
        bound = eta * size.eps * _SAFE if step == 0 else float(error)
        W = float((kappa * W + eta * np.sqrt(d) * (Y * X + size.eps)) * _SAFE)
        # The error of a step grows with the square of the range of w, and the range with the error.
        faults.check(
            step == steps - 1 or W < 1e60,
            f"the theorem is for data in a compact set: with p = {p} points w is not known to stay in any after "
            f"{step + 1} step(s); take more points, fewer steps or a smaller eta",
        )
        faults.raise_if_any()
    network = TheoremNetwork("A5", stages, (2 * d + 2, n))

    def sample(rng: np.random.Generator, count: int) -> np.ndarray:
        Z = np.ones((count, 2 * d + 2, n))
        Z[:, :d] = rng.uniform(-X, X, (count, d, n))
        Z[: count // 4, :d] = rng.choice([-X, X], (count // 4, d, n))
        Z[:, d] = rng.uniform(-Y, Y, (count, n)) if loss == "squares" else rng.integers(0, 2, (count, n))
        w = rng.uniform(-w_max, w_max, (count, d))
        w[::3] = w_max * rng.choice([-1.0, 1.0], w[::3].shape)
        Z[:, d + 1 : 2 * d + 1] = w[:, :, None]
        return Z

    return Construction(
        network=network,
        bound=bound,
        sizes={
            "loss": loss, "points": p, "tokens": n, "dim": d, "steps": steps, "eta": eta, "x_max": x_max,
            "y_max": y_max, "w_max": w_max, "eps0": eps0,
        },
        tokens=p,
        statement=f"w after {steps} step(s) is within the bound of gradient descent's, entrywise; x, y and 1 are kept",
        target=lambda Z: descend(loss, Z, d, eta, steps),
        sample=sample,
        quantities={
            "eps0": eps0, "eta": eta, "eps of the first gradient": first_eps, "kappa": kappa,
            "largest |w.x - y|": size.score,
        },
        reasons=("layer 1 reads g off interpolation points, layer 2 multiplies by squares, layer 3 averages",),
    )  # fmt: skip


def _rival(made: Construction) -> Rivals:
    loss, d, n, eta, x, y, w = (
        made.sizes[name] for name in ("loss", "dim", "tokens", "eta", "x_max", "y_max", "w_max")
    )
    return by_in_context(d, n, eta, x, y, w) if loss == "squares" else {}


A5 = Theorem(
    label="A5",
    title="in-context gradient descent by interpolation heads, least squares and logistic loss",
    paper=f"{PAPER_A}, Theorem 4.1",
    conditions=("p > n", "data and w in a compact set", "0 < eps0 <= 1/2", "a continuously differentiable loss"),
    options=(
        *options(
            """
            loss    squares  the loss
            points  200      interpolation tokens p
            tokens  12       data tokens n
            dim     3        features d
            steps   1        steps of gradient descent, three layers each
            eta     0.2      step size
            x_max   1.0      |x| at most this, entrywise
            y_max   1.0      |y| at most this (squares)
            w_max   1.0      |w| at most this, entrywise
            """,
            loss=("squares", "logistic"),
        ),
        EPS0,
    ),
    construct=_construct,
    sweep=("points", (50, 100, 200, 400)),
    rival=_rival,
)
