"""Taylor models of a softmax head from softmax-weighted moments: formula (0) on many small boxes at once.

Boxes of equal radius r are taken in groups of neighbours with a common reference point x_g. In the unit frame
t = (x - center) * scale, with reference key kbar and reference value vbar (near the softmax means at x_g),

    kappa_j = k_j - kbar,  u_j = v_j - vbar,  W_bj = exp(s_j(x_g) - max + kappa_j.(t_b - t_g)),  q = kappa_j * scale * r,
    D(s) = sum_j W_bj e^{q_j.s},   N(s) = sum_j W_bj u_j e^{q_j.s},   g - vbar = N / D    (common factors cancel exactly).

The Taylor coefficients of N and D are the moments sum_j W_bj (1, u_j) q_j^alpha / alpha!: one matrix product for the whole
group. With rho_j = sum_i |q_ji|, the rest of each exponential is at most rho^(p+1)/(p+1)! e^rho, and the rounding of each
column at most (eta_j + gamma) e^rho, because sum_alpha |q^alpha|/alpha! <= e^rho: two more columns of the same product.
Tokens too far away to matter are dropped; an upper bound of their weight on the whole group goes to the remainder.

Division: G = N/D as power series by forward substitution, and then, whatever G is,

    |g - vbar - G| <= (|N - N_c| + |N_c - G D_c| + |G| |D_c - D|) / D_min,      D(s) >= D(0) e^{-|delta|.r}

by Jensen's inequality with delta the mean of kappa, which is nearly 0: the denominator cannot blow up. Cancellation (large
values with small errors) therefore costs only a (p+1)-th root in the size of the boxes.

Affine values v_j + G_j t = (v_j + G_j t_g) + sum_i (t - t_g)_i G_ji are 1 + d heads of constant values with the same
weights W, combined with the exact models of (t - t_g)_i.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softwright.certify.directed import (
    EXP_CEILING,
    EXP_ERROR,
    EXP_FLOOR,
    U,
    exp_down,
    exp_near,
    exp_up,
    gamma,
    pair_error,
    two_product,
    two_product_sum,
    two_sum,
    up,
)
from softwright.certify.rounding import RunEngine, TokenExtremes, head_error
from softwright.certify.series import Basis
from softwright.certify.taylor_model import TaylorModel, constant

_DROP = 1e-3  # share of the wanted accuracy that may go into dropped tokens
_GROUP_REACH = 25.0  # how far scores may move within a group before the boxes are taken one by one


@dataclass(frozen=True)
class ExactHead:
    """The head in real arithmetic: biases are the sums bias + bias_low; x enters as t = (x - center) * scale."""

    keys: np.ndarray  # (N, d)
    bias: np.ndarray  # (N,)
    bias_low: np.ndarray  # (N,)
    bias_size: np.ndarray  # (N,) what the rounding of the scores sees of the biases
    values: np.ndarray  # (N, m)
    slopes: np.ndarray | None  # (N, m, d)
    center: np.ndarray  # (d,)
    scale: np.ndarray  # (d,)
    engine: RunEngine

    @property
    def sloped(self) -> list[int]:
        """The coordinates along which some value has a slope."""
        return [] if self.slopes is None else np.flatnonzero(np.any(self.slopes != 0, axis=(0, 1))).tolist()


@dataclass
class HeadOnBoxes:
    """What is known of a head on B boxes: a model, rounding and noise for each of the m outputs."""

    models: list[TaylorModel]
    rounding: np.ndarray  # (m, B) bound of |fl(g) - g|
    rounding_center: np.ndarray  # (m, B) the same at the centre, an estimate that only steers the search
    size: np.ndarray  # (m, B) bound of |g|
    noise: np.ndarray  # (m, B) how uncertain float64 leaves the centre value; steers only
    pull: np.ndarray  # (B, d) how strongly each variable moves the scores; steers only


@dataclass
class _Reference:
    """The reference point of a group and what follows from it."""

    t: np.ndarray  # (d,) rounded
    t_low: np.ndarray
    shifts: np.ndarray  # (B, d) t_b - t_g, relative error 3u
    reach: np.ndarray  # (d,) upper bound of |t - t_g| within the boxes
    largest: np.ndarray  # (d,) upper bound of |t|
    radius: np.ndarray  # (d,) r * scale, relative error u


def _reference(head: ExactHead, centers: np.ndarray, radius: np.ndarray) -> _Reference:
    middle = centers[len(centers) // 2] if len(centers) < 3 else 0.5 * (centers.min(axis=0) + centers.max(axis=0))
    difference, rest = two_sum(middle, -head.center)
    t, t_rest = two_product(difference, head.scale)
    t_low = t_rest + rest * head.scale
    shifts = (centers - middle) * head.scale
    scaled = radius * head.scale
    reach = up(np.abs(shifts).max(axis=0) + scaled)
    return _Reference(t, t_low, shifts, reach, up(np.abs(t) + np.abs(t_low) + reach), scaled)


def head_on_boxes(
    head: ExactHead, shape: Basis, centers: np.ndarray, radius: np.ndarray, accuracy: float
) -> HeadOnBoxes:
    """Models of the head on boxes centers (B, d) +- radius (d,); `accuracy` is what far tokens are dropped against."""
    ref = _reference(head, centers, radius)
    if len(centers) > 1:
        spread = np.abs(head.keys - head.keys[0]) @ np.abs(ref.shifts).max(axis=0)
        if not spread.max() < _GROUP_REACH and not _near_scores_agree(head, ref):
            return join([head_on_boxes(head, shape, c[None], radius, accuracy) for c in centers])
    return _group(head, shape, ref, accuracy)


def _near_scores_agree(head: ExactHead, ref: _Reference) -> bool:
    """Whether the tokens that matter at the reference point keep their rank over the group, so that sharing it pays."""
    scores = head.keys @ ref.t + head.bias
    weight = exp_near(scores - scores.max())
    weight /= weight.sum()
    key = weight @ head.keys
    moved = np.abs(head.keys - key) @ np.abs(ref.shifts).max(axis=0)
    return bool(np.all((moved < _GROUP_REACH) | (scores - scores.max() + 2 * moved < -_GROUP_REACH)))


def join(parts: list[HeadOnBoxes]) -> HeadOnBoxes:
    """Results for several groups of boxes, side by side."""
    if len(parts) == 1:
        return parts[0]
    models = [
        TaylorModel(
            parts[0].models[o].shape,
            np.concatenate([part.models[o].coefficients for part in parts], axis=1),
            np.concatenate([part.models[o].remainder for part in parts]),
            np.ones(parts[0].models[o].shape.size, dtype=bool),
        )
        for o in range(len(parts[0].models))
    ]

    def side_by_side(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in parts], axis=0 if name == "pull" else 1)

    return HeadOnBoxes(models, *(side_by_side(n) for n in ("rounding", "rounding_center", "size", "noise", "pull")))


def _group(head: ExactHead, shape: Basis, ref: _Reference, accuracy: float) -> HeadOnBoxes:
    N, d = head.keys.shape
    m, p, M = head.values.shape[1], shape.order, shape.size
    sloped = head.sloped
    # Scores at the reference point, as pairs: only the distance to the maximum carries a relative error.
    factors = [(head.keys[:, i], np.broadcast_to(ref.t[i], N), np.broadcast_to(ref.t_low[i], N)) for i in range(d)]
    high, low = two_product_sum(head.bias, head.bias_low, factors)
    S = (high - high.max()) + low  # (N,)
    score_size = np.abs(head.keys) @ ref.largest  # (N,)
    S_error = 3 * U * np.abs(S) + 4 * pair_error(d) * (score_size + np.abs(head.bias))
    weight = exp_near(S)
    weight /= weight.sum()
    reference_key = weight @ head.keys
    kappa = head.keys - reference_key
    size = np.abs(kappa)

    # Values as columns: m at the reference point, then m for every sloped coordinate.
    base = head.values.copy()
    base_size = np.abs(head.values)
    slope_size = np.zeros_like(base_size)
    columns = [base]
    if head.slopes is not None and sloped:
        base += head.slopes[:, :, sloped] @ ref.t[sloped]
        slope_size = np.abs(head.slopes[:, :, sloped]) @ ref.largest[sloped]
        base_size = base_size + slope_size
        columns += [head.slopes[:, :, i] for i in sloped]
    table = np.concatenate(columns, axis=1)  # (N, C)
    C = table.shape[1]
    base_error = gamma(d + 4) * base_size if sloped else np.zeros_like(base_size)  # (N, m)
    reference_value = weight @ table
    u = table - reference_value
    u_size = np.abs(u)
    stretch = np.concatenate([np.ones(m)] + [np.full(m, ref.reach[i]) for i in sloped])  # what a column is multiplied by

    # Far tokens. `ceiling` bounds their weight over the whole group, computed weights of the run network included.
    moves = up(size @ ref.reach, d + 2)
    ceiling_exponent = up(np.abs(S) * 4 * U + S_error) + S + moves
    log_error = head.engine.log_error(
        score_size,
        head.bias_size,
        size @ ref.largest,
        np.maximum(moves - S, 0.0) + max(float(np.max(S + moves)), 0.0),
        N,
        d,
    )
    ceiling = exp_up(ceiling_exponent + log_error)
    impact = ceiling * (np.max(u_size * stretch, axis=1) + np.max(np.abs(reference_value) * stretch) + 1.0)
    order = np.argsort(impact)
    cut = int(np.searchsorted(np.cumsum(impact[order]), _DROP * accuracy))
    cut = min(cut, N - 1)
    kept, dropped = np.sort(order[cut:]), order[:cut]
    A = len(kept)
    dropped_weight = float(up(ceiling[dropped].sum(), N + 8)) if cut else 0.0
    dropped_value = up(ceiling[dropped] @ u_size[dropped], N + 8) if cut else np.zeros(C)  # (C,)

    # Weights and their relative error eta.
    kappa, u, u_size, S = kappa[kept], u[kept], u_size[kept], S[kept]
    exponents = ref.shifts @ kappa.T + S  # (B, A)
    W = exp_near(exponents)
    argument_error = up(S_error[kept] + (d + 6) * U * (size[kept] @ np.abs(ref.shifts).max(axis=0)))
    eta = up(argument_error * (1.0 + argument_error) + 2 * EXP_ERROR)
    eta = np.where(argument_error <= 0.5, eta, np.inf)
    eta = np.where(np.any(exponents < EXP_FLOOR + 1.0, axis=0), np.maximum(eta, 1.0), eta)  # true weight in (0, W]
    eta = np.where(np.any(exponents > EXP_CEILING - 1.0, axis=0), np.inf, eta)

    # Columns of the matrix product.
    q = kappa * ref.radius  # (A, d)
    rho = up(np.abs(q).sum(axis=1), d + 4)
    E = exp_up(rho)
    rest = np.ones_like(rho)
    for k in range(1, p + 2):
        rest = rest * rho / k
    rest = up(rest * E, 2 * p + 8)
    roundings = eta + gamma(A + 4 * p + d + 12)
    wrong = up(roundings * E)
    powers = shape.monomials(np.ascontiguousarray(q.T)) / shape.factorial[:, None]  # (M, A)
    rows = [powers]
    rows += [powers * u[:, c] for c in range(C)]
    bound_rows = [rest + wrong]
    bound_rows += [(rest + wrong) * u_size[:, c] + (base_error[kept, c] * E if c < m else 0.0) for c in range(C)]
    steer = [roundings] + [roundings * u_size[:, c] + (base_error[kept, c] if c < m else 0.0) for c in range(C)]
    theta = head.engine.theta(log_error[kept])
    finite_theta = np.where(np.isfinite(theta), theta, 1.0)
    deviation = np.stack(
        [sum((u_size[:, o + k * m] * stretch[o + k * m] for k in range(1 + len(sloped))), np.zeros(A)) for o in range(m)]
    )  # (m, A) bounds |v_j - (reference value)|
    run_error = head.engine.value_error(base_size, slope_size, d)[kept].T if sloped else np.zeros((m, A))
    sized = base_size[kept].T  # (m, A)
    seen = np.concatenate([finite_theta[None], finite_theta * deviation, sized, run_error])  # what rounding sees of a token
    run_rows = np.concatenate([seen * (E * (1.0 + eta)), seen])  # over the box; at its centre (steers only)
    stack = np.concatenate([*rows, np.array(bound_rows), np.array(steer), run_rows])  # (*, A)
    product = stack @ W.T  # (*, B)
    B = W.shape[0]
    at = (1 + C) * M
    D, bounds = product[:M], up(product[at : at + 1 + C], A + 8)
    steers = product[at + 1 + C : at + 2 * (1 + C)]
    runs = up(product[at + 2 * (1 + C) :], A + 8)

    # Normalise by the float 1/D_0: an exact common factor but for one rounding a coefficient (counted in gamma).
    inverse = 1.0 / D[0]
    D = D * inverse
    D_error = up(bounds[0] * inverse + dropped_weight * inverse)
    D_by_degree = up(shape.by_degree(D), M)
    drift = up((np.abs(D[shape.linear]).sum(axis=0) + D_error) / np.maximum(1.0 - 2 * D_error, 1e-300), d + 6)
    jensen = np.where(D_error < 0.25, exp_down(-drift) * (1.0 - D_error - 4 * U) * (1.0 - 8 * U), 0.0)
    plain = 1.0 - (D_by_degree[1:].sum(axis=0) + D_error) * (1.0 + gamma(p + 8)) - 4 * U
    D_min = np.maximum(jensen, plain)
    D_min = np.where(D_min > 0.0, D_min, np.nan)

    parts: list[TaylorModel] = []
    size_above, noise = np.empty((C, B)), np.empty((C, B))
    for c in range(C):
        series = product[(1 + c) * M : (2 + c) * M] * inverse
        N_error = up(bounds[1 + c] * inverse + dropped_value[c] * inverse)
        G = _divide(shape, series, D)
        G_by_degree = up(shape.by_degree(G), M)
        G_norm, D_norm = up(G_by_degree.sum(axis=0)), up(D_by_degree.sum(axis=0))
        beyond = np.cumsum(D_by_degree[::-1], axis=0)[::-1]
        cut_off = np.zeros(B)
        for k in range(1, p + 1):
            cut_off += G_by_degree[k] * beyond[p - k + 1]
        residual = N_error + D_error * G_norm + gamma(M + 8) * (G_norm * D_norm + G_norm) + cut_off
        remainder = up(up(residual, p + 8) / D_min)
        noise[c] = steers[1 + c] * inverse + (steers[0] * inverse + gamma(8)) * np.abs(G[0])
        size_above[c] = up(G_norm + remainder)
        model = TaylorModel(shape, G, remainder, np.ones(M, dtype=bool))
        parts.append(model.plus(reference_value[c]))

    models = parts[:m]
    noise_out = noise[:m].copy()
    for k, i in enumerate(sloped):
        shift = constant(shape, ref.shifts[:, i], up(4 * U * np.abs(ref.shifts[:, i]) + 2 * U * ref.radius[i]))
        shift.coefficients[shape.linear[i]] = ref.radius[i]
        shift.live[shape.linear[i]] = True
        for o in range(m):
            models[o] = models[o] + shift * parts[m + k * m + o]
            noise_out[o] += ref.reach[i] * noise[m + k * m + o]

    kept_min = D_min - up(dropped_weight * inverse)  # the run network's sums are measured against the kept tokens
    scale = up(inverse / np.where(kept_min > 0.0, kept_min, np.nan))
    rounding, rounding_center, sizes = np.empty((m, B)), np.empty((m, B)), np.empty((m, B))
    over, center = runs[: 1 + 3 * m], runs[1 + 3 * m :]
    for o in range(m):
        own = [o + k * m for k in range(1 + len(sloped))]
        offset = up(sum((size_above[c] * stretch[c] for c in own), np.zeros(B)))  # |g - (reference value at t)|
        reference_size = float(np.abs(reference_value[own]) @ stretch[own])
        sizes[o] = up(offset + reference_size)
        away = up((dropped_value[own] @ stretch[own] + (reference_size + sizes[o]) * dropped_weight) * scale)
        fixed = TokenExtremes(float(theta.max()), float(deviation[o].max()), float(sized[o].max()), float(run_error[o].max()))

        def error(
            columns: np.ndarray, factor: np.ndarray, distance: np.ndarray, o: int = o, away: np.ndarray = away, fixed: TokenExtremes = fixed
        ) -> np.ndarray:
            mean = up(columns[0] * factor)
            spread = up(columns[1 + o] * factor + distance * mean)
            values, errors = up(columns[1 + m + o] * factor), up(columns[1 + 2 * m + o] * factor)
            return head_error(head.engine, A, N, fixed, mean, spread, values, errors, sizes[o], away)

        rounding[o] = error(over, scale, offset)
        rounding_center[o] = error(center, inverse, sum((np.abs(parts[c].coefficients[0] - reference_value[c]) * stretch[c] for c in own), np.zeros(B)))
    pull = (W @ size[kept]) * inverse[:, None] * ref.radius
    return HeadOnBoxes(models, rounding, rounding_center, sizes, noise_out, pull)


def _divide(shape: Basis, numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """The power series N / D with D_0 = 1 (up to rounding), by forward substitution in order of degree."""
    quotient = numerator.copy()
    for a in range(shape.prefix[shape.order - 1] if shape.order else 0):
        where = shape.shift[a]
        quotient[where[1:]] -= denominator[1 : len(where)] * quotient[a]
    return quotient

