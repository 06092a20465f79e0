"""A6 of paper A: softmax attention subsumes relu, leaky relu, hard tanh, hard sigmoid, and networks made of them.

All four are clipped numbers on a bounded set of inputs:

    relu(u)          clip(u, 0, U)                              |u| <= U
    leaky relu(u)    clip(u, 0, U) + slope clip(u, -U, 0)       two heads
    hard tanh(u)     clip(u, -1, 1)
    hard sigmoid(u)  clip(u/6 + 1/2, 0, 1)

so one layer of a network, u = W h + t then the activation, is a linear map that writes the numbers u_j into columns
1..N of p > N tokens, and one attention layer of A1 (its head per clip, p interpolation tokens). A last linear map
reads the output. Rows of a token: (u, 2 beta k, -beta k (L_k + L_0), L_k) for each head, and 1.

*Bound.* Let E be the sum of A1's bounds over the heads of a layer, each times its slope, Lip the activation's
Lipschitz constant and |W| the largest absolute row sum. The error of the hidden units obeys e_l <= Lip |W_l| e_{l-1} +
E_l, e_0 = 0; the output's error is at most |W_out| e_depth. U_l is the interval bound of |u| plus |W_l| e_{l-1}, so
that what the network itself computes stays in range.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from softwright.errors import Faults
from softwright.targets.mlp import Activation
from softwright.theorems.tools.construction import in_full
from softwright.theorems.tools.drawing import Line, LineConstruction, draw_line
from softwright.theorems.tools.interpolation import (
    EPS0,
    Points,
    check_eps0,
    check_scores,
    evaluate_line,
    telling_places,
)
from softwright.theorems.tools.network import Attention, Stage, TheoremNetwork, Tokens
from softwright.theorems.tools.rivals import Rivals, by_transpile
from softwright.theorems.tools.theorem import PAPER_A, Theorem, options

_SAFE = 1.0 + 1e-12  # rounds the few float64 operations of a recursion upwards


@dataclass(frozen=True)
class Clip:
    """slope * clip(scale * u + shift, a, b)"""

    a: float
    b: float
    slope: float = 1.0
    scale: float = 1.0
    shift: float = 0.0


def _relu(U: float, slope: float) -> list[Clip]:
    return [Clip(0.0, U)]


def _leaky_relu(U: float, slope: float) -> list[Clip]:
    return [Clip(0.0, U), Clip(-U, 0.0, slope)]


def _hard_tanh(U: float, slope: float) -> list[Clip]:
    return [Clip(-1.0, 1.0)]


def _hard_sigmoid(U: float, slope: float) -> list[Clip]:
    return [Clip(0.0, 1.0, 1.0, 1.0 / 6.0, 0.5)]


CLIPS: dict[str, Callable[[float, float], list[Clip]]] = {
    "relu": _relu,
    "leaky_relu": _leaky_relu,
    "hard_tanh": _hard_tanh,
    "hard_sigmoid": _hard_sigmoid,
}


def named(name: str, slope: float) -> Activation:
    """The activation that the theorem's name means."""
    return Activation("leaky_relu", (slope,)) if name == "leaky_relu" else Activation(name.replace("hard_", "hard"))


def activation_layer(
    terms: np.ndarray, offsets: np.ndarray, clips: Sequence[Clip], points: int, eps0: float
) -> tuple[list[Stage], float, float]:
    """Linear map and attention layer for u = offsets + sum_r (row r of the input) @ terms[r], then a sum of clips.

    terms (rows in, columns in, N). Returns the two stages, A1's bound of their error, and the largest beta.
    """
    d, n, N = terms.shape
    heads = len(clips)
    rows = 4 * heads + 1
    P, Q, R = np.zeros((heads * d, rows, d)), np.zeros((heads * d, n, points)), np.zeros((rows, points))
    W_K, W_Q, W_V = np.zeros((heads, 2, rows)), np.zeros((heads, 2, rows)), np.zeros((heads, 1, rows))
    error, beta = 0.0, 0.0
    for h, clip in enumerate(clips):
        grid = Points(clip.a, clip.b, points, eps0)
        score, ramp, bias, value = range(4 * h, 4 * h + 4)
        for r in range(d):
            P[h * d + r, score, r] = 1.0
            Q[h * d + r, :, :N] = clip.scale * terms[r]
        R[score, :N] = clip.scale * offsets + clip.shift
        R[ramp], R[bias], R[value] = grid.ramp, grid.bias, grid.levels
        W_K[h, 0, ramp], W_K[h, 1, bias] = 1.0, 1.0
        W_Q[h, 0, score], W_Q[h, 1, rows - 1] = 1.0, 1.0
        W_V[h, 0, value] = clip.slope
        error += abs(clip.slope) * grid.bound() * _SAFE
        beta = max(beta, grid.beta)
    R[rows - 1] = 1.0
    T = np.broadcast_to(np.eye(points, N), (heads, points, N))
    return [Tokens(P, Q, R), Attention(W_K, W_Q, W_V, T=T)], error, beta


def _given_or_drawn(faults: Faults, layers: Any, dim: int, width: int, depth: int, outputs: int, seed: int) -> list:
    """[(W (out, in), t (out,)), ...]: the hidden layers, then the linear output layer."""
    if layers is None:
        rng = np.random.default_rng(seed)
        sizes = [dim, *[width] * depth, outputs]
        return [
            (rng.standard_normal((m, k)) / np.sqrt(k), 0.3 * rng.standard_normal(m))
            for k, m in itertools.pairwise(sizes)
        ]
    made = [(np.asarray(W, dtype=float), np.asarray(t, dtype=float)) for W, t in layers]
    faults.check(len(made) >= 2, "layers must be at least one hidden layer and the output layer, [(W, t), ...]")
    for i, (W, t) in enumerate(made):
        if faults.check(W.ndim == 2 and t.shape == W.shape[:1], f"layer {i}: W must be (out, in) and t (out,)"):
            faults.check(bool(np.isfinite(W).all() and np.isfinite(t).all()), f"layer {i} holds NaN or infinity")
    if not faults.found:
        for (W, _), (V, _) in itertools.pairwise(made):
            faults.check(V.shape[1] == W.shape[0], f"layers do not fit: {W.shape[0]} outputs meet {V.shape[1]} inputs")
    return made


@dataclass(frozen=True, kw_only=True)
class ActivationConstruction(LineConstruction):
    """The matrices and offsets of the network that was asked for."""

    matrices: list[tuple[np.ndarray, np.ndarray]]


def _construct(
    activation: str, points: int, width: int, depth: int, dim: int, outputs: int, radius: float, slope: float,
    eps0: float, seed: int, layers: Any,
) -> ActivationConstruction:  # fmt: skip
    """On a bounded set of inputs each of these activations is a sum of at most two clipped numbers, so that an
    attention layer with linear maps replaces a layer of any network made of them; the errors of the layers add up
    through the norms of the weights.
    """
    faults = Faults("theorem A6")
    for name, value in (("width", width), ("depth", depth), ("dim", dim), ("outputs", outputs)):
        faults.check(value >= 1, f"{name} must be at least 1, got {value}")
    faults.check(radius > 0, f"radius must be positive: the inputs fill [-radius, radius]^dim, got {radius:g}")
    check_eps0(faults, eps0)
    made = [] if faults.found else _given_or_drawn(faults, layers, dim, width, depth, outputs, seed)
    widest = max((len(t) for _, t in made[:-1]), default=0)
    if not faults.found:
        faults.check(
            points > widest and points >= 3,
            f"the theorem needs p > n, more points than units of a layer; got p = {points}, n = {widest}",
        )
    faults.raise_if_any()

    phi = named(activation, slope)
    d = made[0][0].shape[1]
    stages: list[Stage] = []
    size, error, beta, first_range = radius, 0.0, 0.0, 1.0  # |h|, error of h
    for i, (W, t) in enumerate(made[:-1]):
        norm = float(np.abs(W).sum(axis=1).max()) * _SAFE
        U = max((float((np.abs(W).sum(axis=1) * size + np.abs(t)).max()) + norm * error) * _SAFE, 1e-9)
        terms = W.T[:, None, :] if i == 0 else W.T[None]  # the input is a column, hidden units are a row
        clips = CLIPS[activation](U, slope)
        grids = [Points(clip.a, clip.b, points, eps0) for clip in clips]
        steepest, stored = max(grid.beta for grid in grids), max(grid.stored_error for grid in grids)
        check_scores(faults, 2.0 * steepest * points * 3.0 * (U + 1.0), steepest, stored)
        faults.raise_if_any()
        added, head_error, head_beta = activation_layer(terms, t, clips, points, eps0)
        stages += added
        error = (phi.slope * norm * error + head_error) * _SAFE
        size = 1.0 if phi.bounded else phi.slope * U
        beta = max(beta, head_beta)
        first_range = U if i == 0 else first_range
    W, t = made[-1]
    P, Q = np.ones((1, 1, 1)), W.T[None]  # the row of hidden units times W^T
    stages.append(Tokens(P, Q, t[None]))
    bound = float(np.abs(W).sum(axis=1).max()) * error * _SAFE
    network = TheoremNetwork("A6", stages, (d, 1))

    def target(X: Any) -> np.ndarray:
        h = np.asarray(X, dtype=float)[..., 0]  # (..., d)
        for V, s in made[:-1]:
            h = phi(h @ V.T + s)
        return (h @ W.T + t)[..., None, :]

    def sample(rng: np.random.Generator, count: int) -> np.ndarray:
        X = rng.uniform(-radius, radius, (count, d, 1))
        X[: count // 8] = radius * rng.choice([-1.0, 1.0], (count // 8, d, 1))  # corners
        # Move some inputs so that one unit of the first layer sits where a head errs most.
        V, s = made[0]
        clip = CLIPS[activation](first_range, slope)[0]
        grid = Points(clip.a, clip.b, points, eps0)
        for k in range(count // 8, count // 2):
            unit = int(rng.integers(len(s)))
            place = (float(telling_places(grid, rng, 1)[0]) - clip.shift) / clip.scale
            direction, square = V[unit], float(V[unit] @ V[unit])
            if square > 0:
                X[k, :, 0] += (place - s[unit] - direction @ X[k, :, 0]) / square * direction
        return np.clip(X, -radius, radius)

    clips = CLIPS[activation](first_range, slope)
    return ActivationConstruction(
        matrices=made,
        network=network,
        bound=bound,
        sizes={
            "activation": activation, "points": points, "width": widest, "depth": len(made) - 1, "dim": d,
            "outputs": len(t), "radius": radius, "slope": slope, "eps0": eps0, "seed": seed,
        },
        drawn={"layers": [{"weights": V.tolist(), "offsets": s.tolist()} for V, s in made]},
        tokens=points,
        statement=f"the output is within the bound of the {activation} network's, for |x| <= {in_full(radius)}",
        target=target,
        sample=sample,
        quantities={"beta": beta, "eps0": eps0, "hidden error": error, "largest first unit": first_range},
        reasons=(f"{activation} is {len(clips)} clip(s): {len(clips)} head(s) of theorem A1 per layer",),
        line=Line(
            lambda u: (_line(clips, points, eps0, u), phi(u)), -first_range, first_range
        ),
    )  # fmt: skip


def _rival(made: ActivationConstruction) -> Rivals:
    activation, slope, radius = (made.sizes[name] for name in ("activation", "slope", "radius"))
    return by_transpile(made.matrices, activation, slope, (-radius, radius))


def _line(clips: Sequence[Clip], points: int, eps0: float, u: np.ndarray) -> np.ndarray:
    total = np.zeros_like(u)
    for clip in clips:
        grid = Points(clip.a, clip.b, points, eps0)
        total += clip.slope * evaluate_line(grid.ramp, grid.bias, grid.levels, clip.scale * u + clip.shift)
    return total


A6 = Theorem(
    label="A6",
    title="relu, leaky relu, hard tanh, hard sigmoid, and networks of them, by interpolation heads",
    paper=f"{PAPER_A}, Section 3 (generalised relu)",
    conditions=("p > n: more points than units in a layer", "0 < eps0 <= 1/2", "inputs in a bounded box"),
    options=(
        *options(
            """
            activation  relu  the activation
            points      200   interpolation tokens p of every layer
            width       8     units of a hidden layer
            depth       2     hidden layers, one attention layer each
            dim         3     inputs
            outputs     2     outputs
            radius      1.0   inputs lie in [-radius, radius]
            slope       0.01  slope of leaky relu below 0
            seed        0     seed of the network's weights
            layers      -     [(W, t), ...] instead of random weights
            """,
            activation=tuple(CLIPS),
        ),
        EPS0,
    ),
    construct=_construct,
    sweep=("points", (50, 100, 200, 400, 800)),
    details=draw_line,
    rival=_rival,
)
