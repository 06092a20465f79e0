"""A3, Theorem 3.3 of paper A: two multi-head attention layers, and nothing else that is not linear, for a continuous
map of sequences f: R^{d x n} -> R^{d x n} on a compact set.

f is given as a network with one hidden layer, f(X) = C relu(W vec(X) + t) + c (vec takes the tokens one after
another), or as a formula that `hidden_layer` turns into one, with its own error term. On the box of inputs u_j =
w_j.vec(X) + t_j is at most U_j, so relu(u_j) = U_j clip(u_j/U_j, 0, 1).

    linear map 1    N tokens, column j carries u_j/U_j and the seven fixed rows of A2 (N hidden units, at least 3)
    attention 1     H heads of A2, a = 0, b = 1: column j becomes clip(u_j/U_j, 0, 1)
    linear map 2    the row of hidden units becomes the diagonal of an N x N matrix, with a row of 1 below it
    attention 2     one head per output token i. W_K = W_Q = 0: every token weighs 1/N; W_V = [N C_i diag(U) | c_i]
                    carries the output weights times the count; T^i puts the result into column i

The average is exact, so the error is that of the hidden units: with E = eps0 + 1/((N-2) H), A2's bound for [0, 1],

    |f - network| <= E max over outputs of sum_j |C_j| U_j  +  the formula's own error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from softwright.domain import Box
from softwright.errors import Faults, InvalidInput
from softwright.targets import Expression
from softwright.theorems.multi_head import (
    FIXED_ROWS,
    clip_heads,
    largest_score,
    multi_head_beta,
    multi_head_bound,
    stored_error,
    token_rows,
)
from softwright.theorems.tools.construction import Construction, in_full
from softwright.theorems.tools.hidden_layer import HiddenLayer, hidden_layer_of
from softwright.theorems.tools.interpolation import EPS0, check_eps0, check_scores
from softwright.theorems.tools.network import Attention, TheoremNetwork, Tokens
from softwright.theorems.tools.practical import Practical, by_compile
from softwright.theorems.tools.rivals import Rivals, by_approximate, by_transpile
from softwright.theorems.tools.theorem import PAPER_A, Theorem, options

_MOST_UNITS = 160  # the second linear map holds N^3 numbers
_SAFE = 1.0 + 1e-12
_ROOM = 0.02


@dataclass(frozen=True, kw_only=True)
class SequenceConstruction(Construction):
    """The hidden layer that was built, the formula that it stands for, if it does, and what that costs."""

    layer: HiddenLayer
    expression: Expression | None
    formula_error: float


def random_relu_network(tokens: int, dim: int, hidden: int, seed: int) -> HiddenLayer:
    """The paper's experiment: standard normal weights and offsets in both layers."""
    rng = np.random.default_rng(seed)
    m = tokens * dim
    W, t = rng.standard_normal((hidden, m)), rng.standard_normal(hidden)
    return HiddenLayer(W, t, rng.standard_normal((m, hidden)), rng.standard_normal(m), np.zeros(m))


def _layer(
    faults: Faults, formula: str, network: Any, tokens: int, dim: int, hidden: int, knots: int, box: tuple, seed: int,
    heads: int,
) -> tuple[HiddenLayer | None, Expression | None, int, int, int]:  # fmt: skip
    """The hidden layer, the formula if there is one, d, n and the number of output tokens."""
    low, high = box
    if formula:
        try:
            expression = Expression(formula)
            sides = Box(dict.fromkeys(expression.names, (low, high)))
            faults.found += expression.find_undefined(sides)
            if not faults.found:
                layer = hidden_layer_of(expression, sides, knots, _MOST_UNITS, 1 / ((_MOST_UNITS - 2) * heads))
                bounded = bool(np.isfinite(layer.errors).all())
                faults.check(bounded, "the formula may be unbounded on the box, so its error is not known here")
                return layer, expression, 1, len(expression.names), expression.outputs
        except InvalidInput as error:
            faults.found += error.faults
        return None, None, 1, 1, 1
    if network is not None:
        W, t, C, c = (np.asarray(part, dtype=float) for part in network)
        fits = W.ndim == 2 and W.shape[1] == tokens * dim and t.shape == W.shape[:1]
        fits = fits and C.shape == (tokens * dim, len(W)) and c.shape == (tokens * dim,)
        wanted = "W (hidden, tokens*dim), t (hidden,), C (tokens*dim, hidden), c (tokens*dim,)"
        if not faults.check(fits, f"network must be {wanted}; got {W.shape}, {t.shape}, {C.shape}, {c.shape}"):
            return None, None, dim, tokens, tokens
        return HiddenLayer(W, t, C, c, np.zeros(len(c))), None, dim, tokens, tokens
    return random_relu_network(tokens, dim, hidden, seed), None, dim, tokens, tokens


def _drawn(layer: HiddenLayer, expression: Expression | None) -> dict[str, Any]:
    """What the file says of f: the network, or the formula's variables and the ridges that stand for its terms."""
    if expression is None:
        return {"network": layer.to_json()}
    return {"variables": list(expression.names)} | ({"ridges": list(layer.ridges)} if layer.ridges else {})


def _construct(
    heads: int, tokens: int, dim: int, hidden: int, low: float, high: float, eps0: float, formula: str, knots: int,
    seed: int, network: Any,
) -> SequenceConstruction:  # fmt: skip
    """Two multi-head attention layers with linear maps, and nothing else that is not linear, come as close as asked
    to a continuous map of sequences on a compact set: the first makes the hidden units of a one-hidden-layer
    network, the second sums them with the output weights.
    """
    faults = Faults("theorem A3")
    for name, value in (("heads", heads), ("tokens", tokens), ("dim", dim), ("hidden", hidden), ("knots", knots)):
        faults.check(value >= 1, f"{name} must be at least 1, got {value}")
    compact = faults.check(low < high, f"the theorem is for a compact set: inputs in [low, high], got [{low}, {high}]")
    check_eps0(faults, eps0)
    layer, expression, d, n, n_out = (None, None, dim, tokens, tokens)
    if compact and not faults.found:
        layer, expression, d, n, n_out = _layer(
            faults, formula, network, tokens, dim, hidden, knots, (low, high), seed, heads
        )
    if layer is not None:
        units = len(layer.t)
        faults.check(units <= _MOST_UNITS, f"{units} hidden units; at most {_MOST_UNITS} fit, take fewer knots")
        unit = (0.0, 1.0, max(units, 3), heads, eps0)
        check_scores(faults, largest_score(*unit, 1e3), 1.0, stored_error(*unit))
    faults.raise_if_any()
    if layer is None:
        raise RuntimeError("unreachable: a missing network is a fault")

    m = n * d
    N = max(3, len(layer.t))
    W, t, C = np.zeros((N, m)), np.zeros(N), np.zeros((len(layer.c), N))
    W[: len(layer.t)], t[: len(layer.t)], C[:, : len(layer.t)] = layer.W, layer.t, layer.C
    U = (np.maximum(W * low, W * high).sum(axis=1) + t) * _SAFE + 1e-12 * (np.abs(W).sum(axis=1) + np.abs(t))
    C[:, U <= 0] = 0.0  # units that are never positive
    U = np.where(U <= 0, 1.0, U)

    rows = 1 + FIXED_ROWS
    P, Q, R = np.zeros((d, rows, d)), np.zeros((d, n, N)), np.zeros((rows, N))
    for r in range(d):
        P[r, 0, r] = 1.0
        Q[r] = (W[:, r::d] / U[:, None]).T  # (n, N): entry r of every token
    R[0], R[1:] = t / U, token_rows(N)
    W_K, W_Q, values = clip_heads(0.0, 1.0, N, heads, eps0, 1)
    first = Attention(W_K, W_Q, values[:, None])

    P2, Q2, R2 = np.zeros((N, N + 1, 1)), np.zeros((N, N, N)), np.zeros((N + 1, N))
    for j in range(N):
        P2[j, j, 0] = 1.0
        Q2[j, j, j] = 1.0
    R2[N] = 1.0
    d_out = len(layer.c) // n_out
    W_V, T = np.zeros((n_out, d_out, N + 1)), np.zeros((n_out, N, n_out))
    for i in range(n_out):
        own = slice(i * d_out, (i + 1) * d_out)
        W_V[i, :, :N] = N * C[own] * U
        W_V[i, :, N] = layer.c[own]
        T[i, 0, i] = 1.0
    zero = np.zeros((n_out, 1, N + 1))
    second = Attention(zero, zero, W_V, T=T)
    made = TheoremNetwork("A3", [Tokens(P, Q, R), first, Tokens(P2, Q2, R2), second], (d, n))

    unit_error = multi_head_bound(0.0, 1.0, N, heads, eps0, stored=True)
    gain = float((np.abs(C) * U).sum(axis=1).max()) * _SAFE
    formula_error = float(layer.errors.max())
    if layer.ridges:  # so that a second proof of |f - S| may leave off where the units' own error is what counts
        formula_error += _ROOM * unit_error * gain

    def target(X: Any) -> np.ndarray:
        x = np.swapaxes(np.asarray(X, dtype=float), -1, -2).reshape(*np.shape(X)[:-2], m)  # tokens one after another
        y = layer(x) if expression is None else expression(x.reshape(-1, m)).reshape(*x.shape[:-1], -1)
        return np.swapaxes(y.reshape(*x.shape[:-1], n_out, d_out), -1, -2)

    def sample(rng: np.random.Generator, count: int) -> np.ndarray:
        X = rng.uniform(low, high, (count, d, n))
        quarter = count // 4
        X[:quarter] = rng.choice([low, high], (quarter, d, n))
        if m == 1:
            X[quarter:, 0, 0] = np.linspace(low, high, count - quarter)
        return X

    return SequenceConstruction(
        layer=layer,
        expression=expression,
        formula_error=formula_error,
        network=made,
        bound=(unit_error * gain + formula_error) * _SAFE,
        sizes={
            "heads": heads, "tokens": n, "dim": d, "hidden": N, "low": low, "high": high, "eps0": eps0,
            "formula": formula, "knots": knots, "seed": seed,
        },
        drawn=_drawn(layer, expression),
        tokens=max(N, n),
        statement=f"every entry of the output is within the bound of f(X), for X with entries in "
        f"[{in_full(low)}, {in_full(high)}]",
        target=target,
        sample=sample,
        quantities={
            "beta": multi_head_beta(0.0, 1.0, N, heads, eps0),
            "eps0": eps0,
            "error of a unit": unit_error,
            "sum |C| U": gain,
        },
        reasons=(
            f"layer 1: {N} hidden units as tokens, {heads} head(s) of theorem A2",
            f"layer 2: {n_out} head(s) of uniform attention, one per output token",
            *((f"the formula became {len(layer.t)} relu units, error {formula_error:.3g}",) if formula else ()),
        ),
    )  # fmt: skip


def _rival(made: SequenceConstruction) -> Rivals:
    layer, expression, sides = made.layer, made.expression, (made.sizes["low"], made.sizes["high"])
    if expression is None:
        return by_transpile([(layer.W, layer.t), (layer.C, layer.c)], "relu", 0.0, sides)
    own = f"f_{'_'.join(expression.names)}"  # a field's name that no variable has; variables are the tokens, in order
    tokens = "".join(f"{name} = {own}[{place}]; " for place, name in enumerate(expression.names))
    found = by_compile(tokens + expression.text, len(expression.names), {own: sides})
    if expression.outputs == 1:
        found |= by_approximate(expression.text, dict.fromkeys(expression.names, sides), made.tokens)
    return found


A3 = Theorem(
    label="A3",
    title="two multi-head attention layers for a continuous sequence-to-sequence function",
    paper=f"{PAPER_A}, Theorem 3.3",
    conditions=(
        "inputs in a compact set",
        "0 < eps0 <= 1/2",
        "f as a network with one hidden relu layer, or a formula",
    ),
    options=(
        *options(
            """
            heads    16   heads H of the first layer
            tokens   20   tokens n
            dim      5    entries d of a token
            hidden   10   hidden units N of the random network
            low      0.0  inputs lie in [low, high]
            high     1.0  inputs lie in [low, high]
            formula  ""   a formula instead; its variables are the tokens, commas separate output tokens
            knots    24   stretches for every term of the formula
            seed     0    seed of the random network
            network  -    (W, t, C, c) instead of a random network
            """
        ),
        EPS0,
    ),
    construct=_construct,
    sweep=("heads", (4, 8, 16, 32, 64)),
    rival=_rival,
    practical=Practical("sin(2*x + mean(y)) + abs(x), sin(x)*mean(x*y)", "length=1:20 x=-1:1 y=-1:1", places=True),
)
