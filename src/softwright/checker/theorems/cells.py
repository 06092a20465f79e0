"""Cells as attention (theorems B1 to B4): keys k_j, biases b_j and values v_j of N tokens, read from the tensors.

    self     Z = sum_i P_i X Q_i + R with the rows  k_j (m) | b_j | v_j (o) | t (m) | 1,  W_K, W_Q, W_V, T pick rows
    cross    a query token (t, 1) from X, and the rows  k_j | b_j | v_j  in the other sequence Y

X (d x n) holds the m = d n variables column by column, and t_i = p_i x_i + r_i. All that only moves numbers (zeros and
ones) is compared entry by entry; what is left is the function

    g(x) = sum_j w_j v_j,    w = softmax(k_j.t + b_j).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softwright.checker.refusal import require
from softwright.checker.theorems.interpolation import blank, ones_at, same
from softwright.checker.theorems.reading import Stage, TheoremFile


@dataclass(frozen=True)
class Cells:
    """keys (N, m), biases (N,), values (N, o); scale p (m,) and offset r (m,) of the query."""

    keys: np.ndarray
    biases: np.ndarray
    values: np.ndarray
    scale: np.ndarray
    offset: np.ndarray


def read_cells(file: TheoremFile, m: int, columns: int, cross: bool = False) -> Cells:
    """The cells of a network in m variables, if its tensors are those of the construction."""
    require(columns >= 1 and m % columns == 0, f"{m} variables do not fill {columns} columns")
    require(file.inputs == (m // columns, columns), "the network reads inputs of another shape")
    return _cross(file, m, columns) if cross else _self(file, m, columns)


def _self(file: TheoremFile, m: int, columns: int) -> Cells:
    tokens, attention = file.chain("sum_of_linear", "attention")
    R = tokens["R"]
    require(R.ndim == 2 and R.shape[0] >= 2 * m + 3 and R.shape[1] >= 1, "R is too small for cells")
    rows, N = R.shape
    outputs = rows - 2 * m - 2
    copy, one = m + 1 + outputs, rows - 1
    scale = read_scale(tokens, m, columns, rows, copy, N)
    same(R[one], np.ones(N), "the row of ones")
    same(R[copy:one], np.tile(R[copy:one, :1], (1, N)), "the copies of the input")
    require(not any(attention.flags.values()), "the attention is plain: no residual, not causal, not hard")
    require(set(attention.tensors) == {"W_K", "W_Q", "W_V", "T"}, "the attention has other tensors")
    ones_at(attention["W_K"], (1, m + 1, rows), (0, range(m + 1), range(m + 1)), "W_K")
    ones_at(attention["W_Q"], (1, m + 1, rows), (0, range(m + 1), [*range(copy, one), one]), "W_Q")
    ones_at(attention["W_V"], (1, outputs, rows), (0, range(outputs), range(m + 1, copy)), "W_V")
    ones_at(attention["T"], (1, N, 1), (0, 0, 0), "T")
    return Cells(R[:m].T, R[m], R[m + 1 : copy].T, scale, R[copy:one, 0])


def _cross(file: TheoremFile, m: int, columns: int) -> Cells:
    tokens, attention = file.chain("sum_of_linear", "cross_attention")
    Y, R = attention["Y"], tokens["R"]
    require(Y.ndim == 2 and Y.shape[0] >= m + 2 and Y.shape[1] >= 1, "Y is too small for cells")
    outputs = Y.shape[0] - m - 1
    scale = read_scale(tokens, m, columns, m + 1, 0, 1)
    require(R.shape == (m + 1, 1) and R[m, 0] == 1.0, "the query does not end in 1")
    ones_at(attention["W_K"], (m + 1, len(Y)), (range(m + 1), range(m + 1)), "W_K")
    ones_at(attention["W_Q"], (m + 1, m + 1), (range(m + 1), range(m + 1)), "W_Q")
    ones_at(attention["W_V"], (outputs, len(Y)), (range(outputs), range(m + 1, len(Y))), "W_V")
    return Cells(Y[:m].T, Y[m], Y[m + 1 :].T, scale, R[:m, 0])


def read_scale(stage: Stage, m: int, columns: int, rows: int, copy: int, tokens: int) -> np.ndarray:
    """p (m,): column i of X goes to its d rows of every token, each entry times a number of its own."""
    d = m // columns
    P, alone = stage["P"], blank(stage["P"], (columns, rows, d), "P")
    places = ([k // d for k in range(m)], [copy + k for k in range(m)], [k % d for k in range(m)])
    alone[places] = P[places]
    same(P, alone, "P")
    ones_at(stage["Q"], (columns, columns, tokens), (range(columns), range(columns)), "Q")
    require(stage["R"].shape == (rows, tokens), "R has another shape than the construction's")
    return P[places]
