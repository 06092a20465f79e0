"""Whether probabilities of K classes are those of the solution: one Newton step, taken outside the attention.

    g_k = sum_j p_j (P_jk - [y_j = k]) x_j + penalty w_k,    H_kl = sum_j p_j P_jk ([k = l] - P_jl) x_j x_j^T + penalty

Where a plane separates classes the slope falls like e^-s and the iteration stands still far from any solution, which
there is none of; H falls like the slope, so that the step does not. Without a penalty the last class may stay where it
is, as only differences of s count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from softwright.methods.guards import Guard, OutOfRange
from softwright.methods.prompts import Prompt

if TYPE_CHECKING:
    from softwright.methods.network import InContextStack

_LIMIT = {"float64": 1e-6, "float32": 2e-2}  # of a probability
_ENDLESS = 0.1  # a step of s at the rows: near a solution it is next to 0, on the way to none about 1
_MOST = 1500  # unknowns: a system of more takes longer than it is worth


def _softmax(s: np.ndarray) -> np.ndarray:
    weights = np.exp(s - s.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def moved(
    z: np.ndarray, y: np.ndarray, p: np.ndarray, w: np.ndarray, penalties: np.ndarray, asked: np.ndarray
) -> float:
    """How far a Newton step from w (D, K) moves a probability at the rows `asked` (m, D)."""
    (D, K), P = w.shape, _softmax(z @ w)
    g = z.T @ (p[:, None] * (P - (y[:, None] == np.arange(K)))) + penalties[:, None] * w
    count = K if penalties.any() else K - 1
    H = np.zeros((count, D, count, D))
    for k in range(count):
        for other in range(k, count):
            H[k, :, other] = (z.T * (p * P[:, k] * (float(k == other) - P[:, other]))) @ z
            H[other, :, k] = H[k, :, other].T
        H[k, :, k] += np.diag(penalties)
    flat = H.reshape(count * D, count * D)
    root = np.sqrt(np.diag(flat))
    if not np.isfinite(flat).all() or not (root > 0).all():
        return math.inf
    step = np.zeros((K, D))
    found = np.linalg.lstsq(flat / np.outer(root, root), g.T[:count].ravel() / root, rcond=1e-15)[0] / root
    step[:count] = found.reshape(count, D)
    if not penalties.any() and np.abs(z @ step.T).max() > _ENDLESS:
        return math.inf
    s = asked @ w
    return float(np.abs(_softmax(s - asked @ step.T) - _softmax(s)).max(initial=0.0))


def look_at_classes(stack: InContextStack, prompt: Prompt, final: Mapping[str, Tensor], scales: Tensor) -> None:
    """Raise if the probabilities of the queries are not those of the solution; `scales` (B, d) are those of columns."""
    c, classes = stack.constants, int(stack.constants.option("classes"))
    unknowns = classes * (c.features + int(c.intercept))
    if unknowns > _MOST:
        return
    held = final["unit"][..., slice(*stack.slots["w"])]
    coefficients = 0.5 * (held[:, ::2] - held[:, 1::2])  # (B, D, K)
    worst = 0.0
    for i in range(len(prompt.x)):
        parts = (prompt.x, prompt.y, prompt.log_weights, prompt.queries, coefficients, scales)
        x, y, logs, queries, w, scale = (part[i].detach().double().cpu().numpy() for part in parts)
        p = np.exp(logs - logs.max())
        p = p / p.sum()
        mean = x[0] + p @ (x - x[0]) if c.intercept else np.zeros(x.shape[1])
        fixed = np.zeros(int(c.intercept))
        rows, asked = (
            np.concatenate([(part - mean) * scale, np.ones((len(part), len(fixed)))], axis=1) for part in (x, queries)
        )
        penalties = np.append(c.penalty * scale**2, fixed)
        with np.errstate(all="ignore"):
            found = moved(rows, y, p, w, penalties, asked)
        worst = max(worst, found if math.isfinite(found) else math.inf)
    limit = max(_LIMIT[c.dtype], 1e3 * c.accuracy)
    if worst > limit:
        still = (
            "a Newton step, taken outside the attention, would still move the probabilities: the classes may be "
            "separable, which has no finite solution without a penalty; raise the penalty, steps or condition"
        )
        raise OutOfRange(Guard("corrected", stack.depth, limit, still, "", "", (), ()), worst, limit)
