"""Taylor models of a softmax head from softmax-weighted moments: formula (0) on many small boxes at once.

In the unit frame t = (x - center) * scale, round a reference point x_g with reference key kbar and reference value vbar
(near the softmax means at x_g), on the box x_b + r s, |s| <= 1,

    kappa_j = k_j - kbar,  u_j = v_j - vbar,  W_bj = exp(s_j(x_g) - max + kappa_j.(t_b - t_g)),  q_j = kappa_j scale r,
    D(s) = sum_j W_bj e^{q_j.s},   N(s) = sum_j W_bj u_j e^{q_j.s},   g - vbar = N / D   (common factors cancel).

The Taylor coefficients of N and D are the moments sum_j W_bj (1, u_j) q_j^alpha / alpha! (`head_moments.py`). With
rho_j = sum_i |q_ji|, the rest of each exponential is at most rho^(p+1)/(p+1)! e^rho, and the rounding of each term at
most (eta_j + gamma) e^rho, because sum_alpha |q^alpha|/alpha! <= e^rho: two more sums. Tokens too far away to matter
are dropped; an upper bound of their weight on the boxes goes to the remainder.

Division: G = N/D as power series by forward substitution, and then, whatever G is,

    |g - vbar - G| <= (|N - N_c| + |N_c - G D_c| + |G| |D_c - D|) / D_min,      D(s) >= D(0) e^{-|delta|.r}

by Jensen's inequality with delta the mean of kappa, which is nearly 0: the denominator cannot blow up. Cancellation
(large values with small errors) therefore costs only a (p+1)-th root in the size of the boxes.

Affine values v_j + G_j t = (v_j + G_j t_g) + sum_i (t - t_g)_i G_ji are 1 + d heads of constant values with the same
weights W, combined with the exact models of (t - t_g)_i.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from softwright.chunks import rows_within
from softwright.proof.arithmetic.directed import U, exp_down, gamma, up
from softwright.proof.arithmetic.rounding import Dropped, TokenExtremes, head_error
from softwright.proof.arithmetic.series import Basis
from softwright.proof.arithmetic.taylor_model import TaylorModel, constant
from softwright.proof.models.head_moments import ExactHead, Moments, own_moments, shared_moments

_SMALL_HEAD = 24  # tokens up to which every box is its own reference
_MIDDLE_HEAD = 512  # tokens up to which single boxes are collected and done together
_LARGEST_ARRAY = 3_000_000  # entries of a temporary


@dataclass
class HeadOnBoxes:
    """What is known of a head on B boxes: a model, rounding and noise for each of the m outputs."""

    models: list[TaylorModel]
    rounding: np.ndarray  # (m, B) bound of |fl(g) - g|
    rounding_center: np.ndarray  # (m, B) the same at the centre, an estimate that only steers the search
    size: np.ndarray  # (m, B) bound of |g|
    noise: np.ndarray  # (m, B) how uncertain float64 leaves the centre value; steers only
    pull: np.ndarray  # (B, d) how strongly each variable moves the scores; steers only

    def take(self, chosen: np.ndarray) -> HeadOnBoxes:
        models = [
            TaylorModel(model.shape, model.coefficients[:, chosen], model.remainder[chosen], model.live)
            for model in self.models
        ]
        return HeadOnBoxes(
            models,
            self.rounding[:, chosen],
            self.rounding_center[:, chosen],
            self.size[:, chosen],
            self.noise[:, chosen],
            self.pull[chosen],
        )


def tokens_on_boxes(
    head: ExactHead,
    shape: Basis,
    centers: np.ndarray,
    radii: np.ndarray,
    groups: Sequence[np.ndarray],
    *,
    accuracy: float,
) -> HeadOnBoxes:
    """The head on boxes centers (B, d) +- radii (B, d); boxes of a group are neighbours of equal radius.

    `accuracy` is what far tokens are dropped against. Column i of the result belongs to box i.
    """
    N = len(head.keys)
    pieces: list[HeadOnBoxes] = []
    places: list[np.ndarray] = []
    alone: list[np.ndarray] = []
    pending = list(groups)
    most = rows_within(8 * 5 * N, share=4)  # boxes of a group: five tables of weights exist at once
    while pending:
        group = pending.pop()
        if N <= _SMALL_HEAD or (len(group) == 1 and N <= _MIDDLE_HEAD):
            alone.append(group)
            continue
        found = None
        if len(group) <= most:
            found = shared_moments(head, shape, centers[group], radii[group].max(axis=0), accuracy)
        if found is not None:
            pieces.append(_models(head, shape, found))
            places.append(group)
        else:  # too many boxes, or scores that move too far within the group: halve it along its longest side
            extent = np.ptp(centers[group], axis=0) * head.scale
            order = group[np.argsort(centers[group][:, int(np.argmax(extent))], kind="stable")]
            pending += [order[: len(order) // 2], order[len(order) // 2 :]]
    if alone:
        rest = np.concatenate(alone)
        tokens = min(N, 64)  # how many may be kept is not known yet; far more are rare and only cost memory
        step = max(1, min(_LARGEST_ARRAY // (N * (1 + head.values.shape[1])), _LARGEST_ARRAY // (tokens * shape.size)))
        for first in range(0, len(rest), step):
            part = rest[first : first + step]
            pieces.append(_models(head, shape, own_moments(head, shape, centers[part], radii[part], accuracy)))
            places.append(part)
    return joined(pieces, np.concatenate(places))


def joined(parts: list[HeadOnBoxes], places: np.ndarray) -> HeadOnBoxes:
    """Results for several sets of boxes put together in the order of the boxes."""
    back = np.empty(len(places), dtype=np.int64)
    back[places] = np.arange(len(places))
    models = [
        TaylorModel(
            parts[0].models[o].shape,
            np.concatenate([part.models[o].coefficients for part in parts], axis=1)[:, back],
            np.concatenate([part.models[o].remainder for part in parts])[back],
            np.ones(parts[0].models[o].shape.size, dtype=bool),
        )
        for o in range(len(parts[0].models))
    ]

    def whole(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in parts], axis=1)[:, back]

    pull = np.concatenate([part.pull for part in parts])[back]
    return HeadOnBoxes(models, whole("rounding"), whole("rounding_center"), whole("size"), whole("noise"), pull)


def _models(head: ExactHead, shape: Basis, found: Moments) -> HeadOnBoxes:
    """Taylor models and rounding bounds from moments."""
    m, p, M, d = head.values.shape[1], shape.order, shape.size, shape.dim
    C, B = len(found.N), found.D.shape[1]
    sloped = head.sloped
    terms = int(found.kept.max()) + 8
    # Normalise by the float 1/D_0: an exact common factor but for one rounding per coefficient (counted in gamma).
    inverse = 1.0 / found.D[0]
    D = found.D * inverse
    D_error = up(up(found.D_bound, terms) * inverse + found.dropped_weight * inverse)
    D_by_degree = up(shape.by_degree(D), M)
    drift = up((np.abs(D[shape.linear]).sum(axis=0) + D_error) / np.maximum(1.0 - 2 * D_error, 1e-300), d + 6)
    jensen = np.where(D_error < 0.25, exp_down(-drift) * (1.0 - D_error - 4 * U) * (1.0 - 8 * U), 0.0)
    plain = 1.0 - (D_by_degree[1:].sum(axis=0) + D_error) * (1.0 + gamma(p + 8)) - 4 * U
    D_min = np.maximum(jensen, plain)
    D_min = np.where(D_min > 0.0, D_min, np.nan)
    D_norm = up(D_by_degree.sum(axis=0))
    beyond = np.cumsum(D_by_degree[::-1], axis=0)[::-1]

    parts: list[TaylorModel] = []
    size_above, noise, off_center = np.empty((C, B)), np.empty((C, B)), np.empty((C, B))
    for c in range(C):
        G = _divide(shape, found.N[c] * inverse, D)
        N_error = up(up(found.N_bound[c], terms) * inverse + found.dropped_value[c] * inverse)
        G_by_degree = up(shape.by_degree(G), M)
        G_norm = up(G_by_degree.sum(axis=0))
        cut_off = np.zeros(B)
        for k in range(1, p + 1):
            cut_off += G_by_degree[k] * beyond[p - k + 1]
        residual = N_error + D_error * G_norm + gamma(M + 8) * (G_norm * D_norm + G_norm) + cut_off
        remainder = up(up(residual, p + 8) / D_min)
        noise[c] = found.N_noise[c] * inverse + (found.D_noise * inverse + gamma(8)) * np.abs(G[0])
        size_above[c] = up(G_norm + remainder)
        off_center[c] = np.abs(G[0])
        parts.append(TaylorModel(shape, G, remainder, np.ones(M, dtype=bool)).plus(found.reference[c]))

    models, noise_out = parts[:m], noise[:m].copy()
    for k, i in enumerate(sloped):
        shift = constant(shape, found.shift[i], up(4 * U * np.abs(found.shift[i]) + 2 * U * found.radius[i]))
        shift.coefficients[shape.linear[i]] = found.radius[i]
        shift.live[shape.linear[i]] = True
        for o in range(m):
            column = m + k * m + o
            models[o] = models[o] + shift * parts[column]
            noise_out[o] += found.stretch[column] * noise[column]

    # Rounding of the run network; its sums are measured against the kept tokens alone.
    kept_min = D_min - up(found.dropped_weight * inverse)
    scale = up(inverse / np.where(kept_min > 0.5 * D_min, kept_min, np.nan))
    rounding, rounding_center, sizes = np.empty((m, B)), np.empty((m, B)), np.empty((m, B))
    over, center = up(found.run_over, terms), found.run_center
    dropped_weight = up(found.dropped_weight * scale)
    error_all = np.zeros((m, B))
    if sloped:
        framed = 2.0 * found.value_all
        error_all = head.engine.value_error(found.value_all, found.value_all, framed, len(sloped))
    for o in range(m):
        own = [o + k * m for k in range(1 + len(sloped))]
        offset = up((size_above[own] * found.stretch[own]).sum(axis=0))  # |g - (reference value at t)|
        reference_size = up((np.abs(found.reference[own]) * found.stretch[own]).sum(axis=0))
        sizes[o] = up(offset + reference_size)
        away = (found.dropped_value[own] * found.stretch[own]).sum(axis=0)
        away = up((away + (reference_size + sizes[o]) * found.dropped_weight) * scale)
        dropped = Dropped(dropped_weight, away, found.theta_all, found.value_all[o], error_all[o], found.lost[o])
        largest = TokenExtremes(found.theta_max, found.deviation_max[o], found.value_max[o], found.error_max[o])
        rows = [0, 1 + o, 1 + m + o, 1 + 2 * m + o]
        rounding[o] = head_error(
            head.engine,
            found.kept,
            len(head.keys),
            largest,
            up(over[rows] * scale),
            offset=offset,
            head_size=sizes[o],
            dropped=dropped,
        )
        near = (off_center[own] * found.stretch[own]).sum(axis=0)
        rounding_center[o] = head_error(
            head.engine,
            found.kept,
            len(head.keys),
            largest,
            center[rows] * inverse,
            offset=near,
            head_size=sizes[o],
            dropped=dropped,
        )
    return HeadOnBoxes(models, rounding, rounding_center, sizes, noise_out, found.pull)


def _divide(shape: Basis, numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """The power series N / D with D_0 = 1 (up to rounding), by forward substitution in order of degree."""
    quotient = numerator.copy()
    for a in range(shape.prefix[shape.order - 1] if shape.order else 0):
        where = shape.shift[a]
        quotient[where[1:]] -= denominator[1 : len(where)] * quotient[a]
    return quotient
