"""A theorem's network in ball arithmetic: the weights as stored, every operation enclosed, at any precision.

Paper C's ids differ by 10^-100 and far less, which float64 rounds away; here they are computed to as many bits as it
takes to tell them apart. The weights are the float64 numbers that the module runs with, taken as exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import arb

from softwright.proof.arithmetic.balls import Ball, precision
from softwright.theorems.tools.network import Attention, FeedForward, Linear, TheoremNetwork, Tokens

Matrix = list[list[Ball]]  # rows of balls


def balls_of(array: Any) -> Matrix:
    """A float64 matrix as balls of radius 0."""
    return [[arb(float(x)) for x in row] for row in np.atleast_2d(np.asarray(array, dtype=float))]


def times(weights: np.ndarray, Z: Matrix) -> Matrix:
    """A float64 matrix times a matrix of balls; zeros of the former cost nothing."""
    columns = range(len(Z[0]))
    out: Matrix = []
    for row in np.asarray(weights, dtype=float):
        terms = [(arb(float(w)), Z[i]) for i, w in enumerate(row) if w != 0.0]
        out.append([sum((w * z[j] for w, z in terms), arb(0)) for j in columns])
    return out


def exact_forward(network: TheoremNetwork, X: Any, bits: int, queries: Sequence[int] | None = None) -> Matrix:
    """The network's output at one input X (d, n); `queries` computes only these columns of a single attention layer."""
    with precision(bits):
        Z = X if isinstance(X, list) else balls_of(X)
        for stage in network.stages:
            if isinstance(stage, Attention):
                Z = attend(stage, Z, queries)
            elif isinstance(stage, FeedForward):
                Z = _feed_forward(stage, Z)
            elif isinstance(stage, Tokens):
                Z = _tokens(stage, Z)
            elif isinstance(stage, Linear):
                Z = _plus(times(_array(stage.M), Z), None if stage.c is None else _array(stage.c))
            else:
                raise TypeError(f"no ball arithmetic for a stage of type {type(stage).__name__}")
        return Z


def _array(tensor: Any) -> np.ndarray:
    return tensor.detach().double().cpu().numpy()


def _plus(Z: Matrix, array: np.ndarray | None) -> Matrix:
    if array is None:
        return Z
    wide = np.broadcast_to(array, (len(Z), len(Z[0])))
    return [[z + arb(float(a)) for z, a in zip(row, more, strict=True)] for row, more in zip(Z, wide, strict=True)]


def _tokens(stage: Tokens, X: Matrix) -> Matrix:
    total = balls_of(_array(stage.R))
    for P, Q in zip(_array(stage.P), _array(stage.Q), strict=True):
        moved = times(P, X)  # (rows, n)
        transposed = times(Q.T, [list(column) for column in zip(*moved, strict=True)])  # (N, rows)
        for j, column in enumerate(transposed):
            for i, value in enumerate(column):
                total[i][j] += value
    return total


def attend(stage: Attention, Z: Matrix, queries: Sequence[int] | None = None) -> Matrix:
    """One softmax attention layer; every column of scores is shifted by its largest, which changes nothing."""
    n = len(Z[0])
    T = None if stage.T is None else _array(stage.T)
    total: Matrix | None = None
    for h in range(stage.heads):
        wanted = list(range(n)) if T is None else [int(k) for k in np.flatnonzero(np.abs(T[h]).sum(axis=1))]
        if T is None and queries is not None:
            wanted = list(queries)
        K, V = times(_array(stage.W_K[h]), Z), times(_array(stage.W_V[h]), Z)
        Q = times(_array(stage.W_Q[h]), [[row[k] for k in wanted] for row in Z])
        out = [[arb(0)] * len(wanted) for _ in V]
        for place, k in enumerate(wanted):
            seen = range(k + 1) if stage.causal else range(n)
            scores = [sum((K[i][j] * Q[i][place] for i in range(len(K))), arb(0)) for j in seen]
            weights = _weights(scores, stage.hard)
            for i, row in enumerate(V):
                out[i][place] = sum((w * row[j] for j, w in zip(seen, weights, strict=True)), arb(0))
        if stage.W_O is not None:
            out = times(_array(stage.W_O[h]), out)
        if T is not None:
            rows = times(T[h][wanted].T, [list(column) for column in zip(*out, strict=True)])
            out = [list(row) for row in zip(*rows, strict=True)]
        total = (
            out
            if total is None
            else [[a + b for a, b in zip(x, y, strict=True)] for x, y in zip(total, out, strict=True)]
        )
    if total is None:
        raise ValueError("an attention stage needs at least one head")
    if stage.residual:
        kept = list(range(n)) if queries is None else list(queries)
        total = [[value + Z[i][k] for value, k in zip(row, kept, strict=True)] for i, row in enumerate(total)]
    return total


def _weights(scores: list[Ball], hard: bool) -> list[Ball]:
    top = scores[0]
    for score in scores[1:]:
        top = top.max(score)
    if hard:
        first = [1 if score >= top else 0 for score in scores]
        return [arb(x) / sum(first) for x in first]
    powers = [(score - top).exp() for score in scores]
    total = sum(powers, arb(0))
    return [power / total for power in powers]


def _feed_forward(stage: FeedForward, Z: Matrix) -> Matrix:
    hidden = _plus(times(_array(stage.W_1), Z), _array(stage.b_1))
    zero = arb(0)
    out = _plus(times(_array(stage.W_2), [[h.max(zero) for h in row] for row in hidden]), _array(stage.b_2))
    if not stage.residual:
        return out
    return [[a + z for a, z in zip(row, old, strict=True)] for row, old in zip(out, Z, strict=True)]
