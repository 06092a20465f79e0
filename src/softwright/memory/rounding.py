"""How far rounding can move the id of a context: proved, for both engines.

Notation of `attention.context_head`: n tokens and the sentinel, L = n + 1 terms; u the unit roundoff; gamma_k =
k u/(1 - k u), the error of a sum of k products in any order, fused or not, relative to the sum of absolute values.
Embeddings are single numbers, or single products of two, of the network's dtype: every engine has the same ones, so
they count as exact. X is their bound (`reach`), S = |W_K| (X, max|sigma|) that of the scores. W_Q selects the constant
and W_O copies: both exact. E is the relative error of exp: 4 ulp are charged, also in float32, whose vector
kernels are specified to 20.

    score    absolute error  e_s <= gamma_k S            (k non-zero entries of W_K; the factor 1 of the query is exact)
    exp      relative error  theta = (1 + E) exp(2 e_s + 2 u S (1 + 4u)) - 1        (max subtracted; two scores)
    weight   relative error  rho = (1 + theta)(1 + u) / ((1 - theta)(1 - gamma_L)) - 1
    value    relative to B = |W_V| X:  gamma_kv           (kv the most non-zero entries in a row of W_V)
    z        |error|_i <= ((1 + rho)(1 + gamma_kv)(1 + gamma_{L+1}) - 1) B_i =: a_i      (the weights add up to 1)
    id       |error|_i <= sum_j |W_I,ij| a_j (1 + gamma_r) + gamma_r (|W_I| bound of F(X))_i    (r entries in a row)

The pruned engine divides once at the end instead of normalising the weights; its numerator has relative error
(1 + theta)(1 + gamma_{L+1}) and its denominator (1 - theta)(1 - gamma_L), which the same formula covers. Padding has
weight exactly 0 in both. Underflow adds less than 2^-120 (float32) and 2^-900 (float64), which is charged.

All of this is a few dozen operations on positive numbers in float64; the factor 1 + 2^-40 pays for their rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from softwright.memory.context_head import ContextHead
from softwright.precision import FLOAT64, Precision, precision_of

_TINY = {"float64": 2.0**-900, "float32": 2.0**-120}  # charged for underflow: far more than the smallest numbers
SLACK = 1.0 + 2.0**-40
LARGEST_SCORE = 600.0  # the pruned engine takes exp of scores as they are: neither they nor a sum of them overflow


@dataclass(frozen=True)
class IdErrors:
    """Bounds in the Euclidean norm of |computed - exact| id, and of what storing a key in the dtype adds."""

    pruned: float
    dense: float
    storing: float

    @property
    def radii(self) -> tuple[float, float]:
        """How far a stored item's id can lie from its key: in the pruned engine, in the dense one."""
        key = self.pruned + self.storing
        return (self.pruned + key) * SLACK, (self.dense + key) * SLACK


def gamma(k: int, u: float) -> float:
    if k * u >= 0.25:
        return math.inf  # nothing can be said: sequences of millions of tokens in float32
    return k * u / (1.0 - k * u)


def largest_score(head: ContextHead) -> float:
    """S of the docstring."""
    e = head.code_size
    w_k, reach = head.W_K.double().abs().numpy(), head.reach.double().numpy()
    sigma = float(torch.cat([head.log_weights.double(), head.sentinel.double()[None]]).abs().max())
    return (float(w_k[0, :e] @ reach) + float(w_k[0, e]) * sigma) * SLACK


def id_error(head: ContextHead, precision: Precision) -> float:
    """Bound of |computed id - exact id|_2 in this arithmetic."""
    e, u = head.code_size, precision.unit
    w_k, w_v, w_i = (np.abs(w.double().numpy()) for w in (head.W_K, head.W_V, head.W_I))  # (1, d), (s, d), (r, d)
    reach = head.reach.double().numpy()
    sigma = float(torch.cat([head.log_weights.double(), head.sentinel.double()[None]]).abs().max())
    terms = head.longest + 1
    size = float(w_k[0, :e] @ reach) + float(w_k[0, e]) * sigma
    score = gamma(int((w_k > 0).sum()), u) * size
    exponent = 2.0 * score + 2.0 * u * size * (1.0 + 4.0 * u)
    off = precision.exp_error
    theta = (1.0 + off) * math.expm1(exponent) + off if exponent < 1.0 else math.inf
    if theta >= 0.25 or not math.isfinite(gamma(terms + 1, u)):
        return math.inf
    # All factors are 1 + small: logarithms keep the digits that their product minus 1 would lose.
    logs = (
        math.log1p(theta)
        + math.log1p(u)
        - math.log1p(-theta)
        - math.log1p(-gamma(terms, u))
        + math.log1p(gamma(int((w_v[:, :e] > 0).sum(axis=1).max(initial=0)), u))
        + math.log1p(gamma(terms + 1, u))
    )
    bound_v = w_v[:, :e] @ reach  # (s,)
    moved = math.expm1(logs) * bound_v
    entries = gamma(int((w_i > 0).sum(axis=1).max(initial=0)), u)
    stream = np.concatenate([reach, [sigma, 1.0], bound_v + moved])  # (d,) bound of F(X)
    error = (w_i[:, e + 2 :] @ moved) * (1.0 + entries) + entries * (w_i @ stream) + _TINY[precision.name]  # (r,)
    return float(np.sqrt((error**2).sum())) * SLACK


def id_errors(head: ContextHead, largest_key: float) -> IdErrors:
    """Both engines; `largest_key` bounds |z_j|, of which storing loses at most u (nothing in float64)."""
    own = precision_of(head.dtype)
    storing = 0.0 if own is FLOAT64 else (own.unit * largest_key + _TINY[own.name]) * SLACK
    return IdErrors(id_error(head, FLOAT64), id_error(head, own), storing)


def half_error(largest_key: float, dimensions: int, dtype: torch.dtype) -> float:
    """Bound of the error of a stored half square |z_j|^2/2: summed in float64, then rounded once to the dtype."""
    own = precision_of(dtype)
    relative = gamma(dimensions + 2, FLOAT64.unit) + own.unit * (1.0 + 2.0**-40)
    return (0.5 * largest_key**2 * relative + _TINY[own.name]) * SLACK


def score_error(largest_key: float, radius: float, dimensions: int, dtype: torch.dtype) -> float:
    """Bound E of the rounding error of a score z.z_j - |z_j|^2/2 before the exact factor beta.

    gamma_{r+1} of the sum of absolute values, |z| |z_j| + |z_j|^2/2 <= R (R + radius) + R^2/2, and the error of the
    stored half square.
    """
    own, square = precision_of(dtype), largest_key**2
    u = own.unit
    products = largest_key * (largest_key + radius) + 0.5 * square * (1.0 + 4.0 * u)
    half = half_error(largest_key, dimensions, dtype)
    return (gamma(dimensions + 1, u) * products + half + _TINY[own.name]) * SLACK
