"""A theorem's chain of matrix formulas from the tensors, in floats for many inputs and in balls for one.

Tokens are columns: Z (rows, N). The formulas are those that the documentation gives the stages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat

from judging.claim import CannotJudge, Claim


@dataclass
class Chain:
    """The stages of a file: their types and flags, and the tensors by name."""

    stages: list[tuple[dict[str, Any], dict[str, np.ndarray]]]

    @classmethod
    def of(cls, claim: Claim) -> Chain:
        stages = []
        for i, entry in enumerate(claim.sections["model"]["stages"]):
            prefix = f"stages.{i}."
            own = {n.removeprefix(prefix): a for n, a in claim.tensors.items() if n.startswith(prefix)}
            stages.append((entry, own))
        return cls(stages)

    def at_points(self, X: np.ndarray) -> np.ndarray:
        """(q, d, n) -> (q, outputs, columns)"""
        Z = np.asarray(X, dtype=float)
        with np.errstate(all="ignore"):
            for entry, t in self.stages:
                Z = _FLOATS[entry["type"]](entry, t, Z)
        return Z

    def at_ball(self, X: np.ndarray) -> list[list[Any]]:
        """One input (d, n), rows of balls."""
        Z = _matrix(X)
        for entry, t in self.stages:
            Z = _BALLS[entry["type"]](entry, t, Z)
        return Z.tolist()


def _softmax(scores: np.ndarray, hard: bool = False) -> np.ndarray:
    """Down the columns."""
    top = scores.max(axis=-2, keepdims=True)
    weights = (scores == top).astype(float) if hard else np.exp(scores - top)
    return weights / weights.sum(axis=-2, keepdims=True)


def _attention(entry: dict[str, Any], t: dict[str, np.ndarray], Z: np.ndarray) -> np.ndarray:
    total: Any = 0.0
    for h in range(len(t["W_K"])):
        scores = np.swapaxes(t["W_K"][h] @ Z, -1, -2) @ (t["W_Q"][h] @ Z)
        if entry["causal"]:
            scores = np.where(np.tri(Z.shape[-1], dtype=bool).T, scores, -np.inf)
        out = t["W_V"][h] @ Z @ _softmax(scores, entry["hard"])
        out = t["W_O"][h] @ out if "W_O" in t else out
        total = total + (out @ t["T"][h] if "T" in t else out)
    return total + Z if entry["residual"] else total


def _feed_forward(entry: dict[str, Any], t: dict[str, np.ndarray], Z: np.ndarray) -> np.ndarray:
    out = t["W_2"] @ np.maximum(t["W_1"] @ Z + t["b_1"], 0.0) + t["b_2"]
    return out + Z if entry["residual"] else out


def _tokens(entry: dict[str, Any], t: dict[str, np.ndarray], Z: np.ndarray) -> np.ndarray:
    return sum((P @ Z @ Q for P, Q in zip(t["P"], t["Q"], strict=True)), 0.0) + t["R"]


_FLOATS: dict[str, Any] = {
    "attention": _attention,
    "feed_forward": _feed_forward,
    "sum_of_linear": _tokens,
    "linear": lambda entry, t, Z: t["M"] @ Z + t.get("c", 0.0),
    "softmax": lambda entry, t, Z: _softmax(Z),
    "cross_attention": lambda entry, t, Z: (
        t["W_V"] @ t["Y"] @ _softmax(np.swapaxes(t["W_K"] @ t["Y"], -1, -2) @ (t["W_Q"] @ Z))
    ),
}


# --------------------------------------------------------------------------------------------------------------- balls


def _matrix(array: np.ndarray) -> arb_mat:
    return arb_mat([[arb(float(x)) for x in row] for row in np.asarray(array, dtype=float)])


def _columns(scores: arb_mat, causal: bool = False, hard: bool = False) -> arb_mat:
    """Softmax down the columns."""
    weights = []
    for k, column in enumerate(zip(*scores.tolist(), strict=True)):
        seen = column[: k + 1] if causal else column
        top = max(float(s.mid()) for s in seen)
        if hard:
            ties = [not any(bool(other > s) for other in seen) for s in seen]
            row = [arb(1) / sum(ties) if tie else arb(0) for tie in ties]
        else:
            powers = [(s - arb(top)).exp() for s in seen]
            whole = sum(powers, arb(0))
            row = [power / whole for power in powers]
        weights.append([*row, *[arb(0)] * (len(column) - len(row))])
    return arb_mat([list(row) for row in zip(*weights, strict=True)])


def _ball_attention(entry: dict[str, Any], t: dict[str, np.ndarray], Z: arb_mat) -> arb_mat:
    total: Any = None
    for h in range(len(t["W_K"])):
        K, Q, V = (_matrix(t[name][h]) * Z for name in ("W_K", "W_Q", "W_V"))
        out = V * _columns(K.transpose() * Q, entry["causal"], entry["hard"])
        out = _matrix(t["W_O"][h]) * out if "W_O" in t else out
        out = out * _matrix(t["T"][h]) if "T" in t else out
        total = out if total is None else total + out
    if total is None:
        raise CannotJudge("an attention without heads")
    return total + Z if entry["residual"] else total


def _wide(array: np.ndarray, like: arb_mat) -> arb_mat:
    return _matrix(np.broadcast_to(array, (like.nrows(), like.ncols())))


def _ball_feed_forward(entry: dict[str, Any], t: dict[str, np.ndarray], Z: arb_mat) -> arb_mat:
    hidden = _matrix(t["W_1"]) * Z
    hidden = hidden + _wide(t["b_1"], hidden)
    out = _matrix(t["W_2"]) * arb_mat([[x.max(arb(0)) for x in row] for row in hidden.tolist()])
    out = out + _wide(t["b_2"], out)
    return out + Z if entry["residual"] else out


def _ball_tokens(entry: dict[str, Any], t: dict[str, np.ndarray], Z: arb_mat) -> arb_mat:
    total = _matrix(t["R"])
    for P, Q in zip(t["P"], t["Q"], strict=True):
        total = total + _matrix(P) * Z * _matrix(Q)
    return total


def _ball_linear(entry: dict[str, Any], t: dict[str, np.ndarray], Z: arb_mat) -> arb_mat:
    out = _matrix(t["M"]) * Z
    return out + _wide(t["c"], out) if "c" in t else out


def _ball_cross(entry: dict[str, Any], t: dict[str, np.ndarray], Z: arb_mat) -> arb_mat:
    Y = _matrix(t["Y"])
    scores = (_matrix(t["W_K"]) * Y).transpose() * (_matrix(t["W_Q"]) * Z)
    return _matrix(t["W_V"]) * Y * _columns(scores)


_BALLS: dict[str, Any] = {
    "attention": _ball_attention,
    "feed_forward": _ball_feed_forward,
    "sum_of_linear": _ball_tokens,
    "linear": _ball_linear,
    "softmax": lambda entry, t, Z: _columns(Z),
    "cross_attention": _ball_cross,
}
