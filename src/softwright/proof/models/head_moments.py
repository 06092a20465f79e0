"""Softmax-weighted moments of a head on boxes: the raw sums from which `taylor_head.py` makes Taylor models.

Two ways to the same sums. `shared_moments`: neighbouring boxes of equal radius share one reference point, so that all
moments of the group are one matrix product; right for smooth heads, where many tokens matter on every box.
`own_moments`: every box is its own reference and keeps its own few tokens; right for small heads and for hard gates,
whose scores move too far within a group.

Notation as in `taylor_head.py`. `theta`, `deviation` and so on are what the rounding of the run network sees of a token
(`rounding.py`). A bound column holds e^rho times what it bounds, because W e^{q.s} <= W e^rho on the box.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from softwright.chunks import rows_within
from softwright.proof.arithmetic.directed import (
    EXP_CEILING,
    EXP_ERROR,
    EXP_FLOOR,
    U,
    exp_near,
    exp_up,
    gamma,
    pair_error,
    two_product,
    two_product_sum,
    two_sum,
    up,
)
from softwright.proof.arithmetic.rounding import RunEngine
from softwright.proof.arithmetic.series import Basis
from softwright.proof.models.grid import Grid

_DROP = 1e-3  # share of the wanted accuracy that may go into dropped tokens
_FAR = 60.0  # tokens whose score stays so far below the largest one hold no share of the sum worth counting
GROUP_REACH = 150.0  # how far scores may move within a group that shares a reference point


@dataclass(frozen=True)
class Extremes:
    """What bounds that look at every token of a head need to know of it, read off once."""

    keys: np.ndarray  # (d,) largest |k|
    top_bias: float  # modulus of the largest bias
    least: np.ndarray  # (m,) smallest value
    most: np.ndarray  # (m,) largest value
    steepest: np.ndarray  # (m, d) largest |G|


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
    grid: Grid | None = None  # the axes, if the tokens are a grid

    @property
    def frame(self) -> np.ndarray:
        """How often each coordinate of t is rounded, (d,): x - 0 and products with powers of two are exact."""
        return (self.center != 0.0).astype(float) + (np.frexp(self.scale)[0] != 0.5)

    @cached_property
    def extremes(self) -> Extremes:
        return Extremes(
            np.abs(self.keys).max(axis=0),
            abs(float(self.bias.max())),
            self.values.min(axis=0),
            self.values.max(axis=0),
            np.zeros((1, self.keys.shape[1])) if self.slopes is None else np.abs(self.slopes).max(axis=0),
        )

    @property
    def looked_at(self) -> int:
        """In how many coordinates some token has a key: the others add zeros to a score."""
        return int(np.count_nonzero(np.any(self.keys != 0, axis=0)))

    @property
    def sloped(self) -> list[int]:
        """The coordinates along which some value has a slope."""
        return [] if self.slopes is None else np.flatnonzero(self.extremes.steepest.max(axis=0)).tolist()

    def lost_in_scores(self, reach: np.ndarray) -> np.ndarray:
        """What underflow takes from the scores, (..., N), where |t| <= reach (..., d)."""
        return self.engine.lost(self.keys, self.scale, reach)

    def lost_in_values(self, reach: np.ndarray) -> np.ndarray:
        """What underflow takes from any token's values, (..., m), where |t| <= reach (..., d)."""
        lost = self.engine.lost(self.extremes.steepest, self.scale, reach)
        return np.broadcast_to(lost, (*lost.shape[:-1], self.values.shape[1]))


@dataclass
class Moments:
    """Sums over the kept tokens for B boxes and C = m (1 + sloped) value columns; the dropped ones are bounded."""

    D: np.ndarray  # (M, B) moments of the weights
    N: list[np.ndarray]  # C times (M, B) moments of weights times u
    D_bound: np.ndarray  # (B,) remainder and rounding of D, still to be rounded up
    N_bound: np.ndarray  # (C, B)
    D_noise: np.ndarray  # (B,) rounding at the centre; steers only
    N_noise: np.ndarray  # (C, B)
    run_over: np.ndarray  # (1 + 3m, B) theta, theta |v - ref|, |v|, value error: weighted sums over the box
    run_center: np.ndarray  # (1 + 3m, B) the same at the centre; steers only
    reference: np.ndarray  # (C, B)
    stretch: np.ndarray  # (C, B) what a column is multiplied by: 1, or the reach of (t - t_g)_i
    dropped_weight: np.ndarray  # (B,)
    dropped_value: np.ndarray  # (C, B)
    kept: np.ndarray  # (B,) how many tokens are kept
    theta_max: np.ndarray  # (B,)
    deviation_max: np.ndarray  # (m, B)
    value_max: np.ndarray  # (m, B)
    error_max: np.ndarray  # (m, B)
    theta_all: np.ndarray  # (B,) as theta_max, of all tokens
    value_all: np.ndarray  # (m, B) as value_max, of all tokens
    lost: np.ndarray  # (m, B) what underflow takes from a value of any token
    shift: np.ndarray  # (d, B) t_b - t_g at the centre, relative error 3u
    radius: np.ndarray  # (d, B) r * scale, relative error u
    pull: np.ndarray  # (B, d)


def weight_error(argument_error: np.ndarray, lowest: np.ndarray, highest: np.ndarray) -> np.ndarray:
    """Relative error of exp_near(x) when x errs by `argument_error` and lies between `lowest` and `highest`."""
    eta = up(argument_error * (1.0 + argument_error) + 2 * EXP_ERROR)
    eta = np.where(argument_error <= 0.5, eta, np.inf)
    eta = np.where(lowest < EXP_FLOOR + 1.0, np.maximum(eta, 1.0), eta)  # clamped: the true weight lies in (0, W]
    return np.where(highest > EXP_CEILING - 1.0, np.inf, eta)


def _heavy_error(log_error: np.ndarray, S: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """By how much the sum of all weights may be too small in the run network, as a logarithm (B,).

    Of the sum at least half belongs to tokens whose weight comes near that of the largest, and these alone count: the
    score of a token of no weight may have any rounding (keys that span many powers of ten), which is charged on its own
    weight, jointly. The largest weight is 1 at the reference and at least e^-moves elsewhere; all tokens that stay
    below e^-60 there together are less than half of that.
    """
    top = np.take_along_axis(moves, S.argmax(axis=1)[:, None], axis=1)  # (B, 1)
    near = S + moves > -_FAR
    heavy = np.where(near, log_error, 0.0).max(axis=1) + np.log(2.0) * (1.0 + 8.0 * U)
    usable = top[:, 0] + np.log(4.0 * S.shape[1]) < _FAR
    return np.where(near.all(axis=1) | ~usable, log_error.max(axis=1), heavy)


def _remainder(rho: np.ndarray, E: np.ndarray, order: int) -> np.ndarray:
    """rho^(p+1)/(p+1)! e^rho, rounded up."""
    rest = np.ones_like(rho)
    for k in range(1, order + 2):
        rest = rest * rho / k
    return up(rest * E, 2 * order + 8)


def _far_pull(q: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """How far single tokens move within a box (B, d), where that is too far for a series: a gate just beside the centre
    has no weight there and still rules the box. Steers only."""
    too_far = rho.max(axis=1, keepdims=True) > 20.0
    return np.where(too_far, np.abs(q).max(axis=1), 0.0)


def shared_moments(
    head: ExactHead, shape: Basis, centers: np.ndarray, radius: np.ndarray, accuracy: float
) -> Moments | None:
    """Moments of boxes centers (B, d) +- radius (d,) round one reference; None if the scores move too far for it."""
    N, d = head.keys.shape
    m, p, M, B = head.values.shape[1], shape.order, shape.size, len(centers)
    sloped = head.sloped
    # The reference point, as a pair in the unit frame.
    middle = centers[B // 2] if B < 3 else 0.5 * (centers.min(axis=0) + centers.max(axis=0))
    difference, rest = two_sum(middle, -head.center)
    t, t_rest = two_product(difference, head.scale)
    t_low = t_rest + rest * head.scale
    shifts = (centers - middle) * head.scale  # (B, d)
    widest = np.abs(shifts).max(axis=0)
    scaled = radius * head.scale
    reach = up(widest + scaled)  # bounds |t - t_g|
    largest = up(np.abs(t) + np.abs(t_low) + reach)  # bounds |t|

    # Scores at the reference as pairs: only the distance to the maximum carries a relative error.
    factors = [(head.keys[:, i], np.broadcast_to(t[i], N), np.broadcast_to(t_low[i], N)) for i in range(d)]
    high, low = two_product_sum(head.bias, head.bias_low, factors)
    S = (high - high.max()) + (low - low[high.argmax()])  # large scores: what one float of them misses may exceed 1
    score_size = np.abs(head.keys) @ largest
    S_error = 3 * U * np.abs(S) + 4 * pair_error(d) * (score_size + head.bias_size + np.abs(head.bias))
    weight = exp_near(S)
    weight /= weight.sum()
    reference_key = weight @ head.keys
    kappa = head.keys - reference_key
    size = np.abs(kappa)
    if B > 1:
        moved = size @ widest
        if np.any((moved > GROUP_REACH) & (S + 2 * moved > -GROUP_REACH)):
            return None

    # Values as columns: m at the reference point, then m for every sloped coordinate.
    base, base_size, slope_size, columns = head.values.copy(), np.abs(head.values), np.zeros_like(head.values), []
    if head.slopes is not None and sloped:
        base += head.slopes[:, :, sloped] @ t[sloped]
        slope_size = np.abs(head.slopes[:, :, sloped]) @ largest[sloped]
        base_size = base_size + slope_size
        columns = [head.slopes[:, :, i] for i in sloped]
    table = np.concatenate([base, *columns], axis=1)  # (N, C)
    C = table.shape[1]
    base_error = gamma(d + 4) * base_size if sloped else np.zeros_like(base_size)  # (N, m)
    reference = weight @ table
    u = table - reference
    u_size = np.abs(u)
    stretch = np.concatenate([np.ones(m)] + [np.full(m, reach[i]) for i in sloped])
    far_size = u_size
    if sloped:  # the run network sums v and G apart, those of dropped tokens too
        far_size = np.concatenate([np.maximum(u_size[:, :m], base_size), u_size[:, m:]], axis=1)

    # Far tokens: `ceiling` bounds their weight over the whole group, that of the run network included, in which their
    # own weight may be too large and all the others too small.
    moves = up(size @ reach, d + 2)
    below = np.maximum(moves - S, 0.0) + max(float(np.max(S + moves)), 0.0)
    lost = head.lost_in_scores(largest)
    frame = head.frame
    log_error = head.engine.log_error(
        score_size,
        head.bias_size,
        size @ (largest * frame),
        below,
        lost=lost,
        tokens=N,
        dim=head.looked_at,
        score=up(np.abs(high + low) + S_error + np.abs(head.keys) @ reach, d + 8),
    )
    value_all = base_size.max(axis=0)
    most = _heavy_error(log_error[None], S[None], moves[None])[0]
    ceiling = exp_up(up(np.abs(S) * 4 * U + S_error) + S + moves + log_error + most)
    impact = ceiling * (np.max(far_size * stretch, axis=1) + np.max(np.abs(reference) * stretch) + 1.0)
    order = np.argsort(impact)
    cut = min(int(np.searchsorted(np.cumsum(impact[order]), _DROP * min(accuracy, 1.0))), N - 1)
    kept, dropped = np.sort(order[cut:]), order[:cut]
    A = len(kept)
    dropped_weight = float(up(ceiling[dropped].sum(), N + 8)) if cut else 0.0
    dropped_value = up(ceiling[dropped] @ far_size[dropped], N + 8) if cut else np.zeros(C)

    # Weights and their relative error eta.
    kappa, size, u, u_size, S = kappa[kept], size[kept], u[kept], u_size[kept], S[kept]
    base_error, base_size, slope_size = base_error[kept], base_size[kept], slope_size[kept]
    exponents = shifts @ kappa.T + S  # (B, A)
    W = exp_near(exponents)
    argument_error = up(S_error[kept] + (d + 6) * U * (size @ widest))
    eta = weight_error(argument_error, exponents.min(axis=0), exponents.max(axis=0))

    # Columns of the one matrix product.
    q = kappa * scaled  # (A, d)
    rho = up(np.abs(q).sum(axis=1), d + 4)
    E = exp_up(rho)
    roundings = eta + gamma(A + 4 * p + d + 14)
    wrong = _remainder(rho, E, p) + up(roundings * E)
    value_error = np.concatenate([base_error.T, np.zeros((C - m, A))])  # (C, A)
    theta = head.engine.theta(log_error[kept])
    finite_theta = np.where(np.isfinite(theta), theta, 1.0)
    deviation = (u_size * stretch).reshape(A, -1, m).sum(axis=1).T  # (m, A) bounds |v_j - (reference value)|
    run_error = np.zeros((m, A))
    if sloped and head.slopes is not None:
        framed = np.abs(head.slopes[kept][:, :, sloped]) @ (largest * frame)[sloped]
        run_error = head.engine.value_error(base_size, slope_size, framed, len(sloped)).T
    seen = np.concatenate([finite_theta[None], finite_theta * deviation, base_size.T, run_error])  # (1 + 3m, A)
    bounds = np.concatenate(
        [
            wrong[None],
            wrong * u_size.T + value_error * E,
            roundings[None],
            roundings * u_size.T + value_error,
            seen * (E * (1.0 + eta)),
            seen,
        ]
    )  # (*, A)
    moments = np.zeros(((1 + C) * M, B))
    step = rows_within(8 * 2 * len(moments))
    for first in range(0, A, step):  # the sum over the tokens in parts; the bounds hold for any order
        part = slice(first, first + step)
        powers = shape.monomials(np.ascontiguousarray(q[part].T)) / shape.factorial[:, None]  # (M, tokens)
        moments += np.concatenate([powers, *(powers * u[part, c] for c in range(C))]) @ W[:, part].T
    D, *rest_rows = np.split(moments, 1 + C)
    D_bound, N_bound, D_noise, N_noise, run_over, run_center = np.split(
        bounds @ W.T, np.cumsum([1, C, 1, C, 1 + 3 * m])
    )

    def each(column: np.ndarray | float) -> np.ndarray:  # the same for every box
        return np.repeat(np.asarray(column, dtype=float)[..., None], B, axis=-1)

    return Moments(
        D, rest_rows, D_bound[0], N_bound, D_noise[0], N_noise, run_over, run_center,
        each(reference), each(stretch), each(dropped_weight), each(dropped_value), each(A), each(theta.max()),
        each(deviation.max(axis=1)), each(base_size.max(axis=0)), each(run_error.max(axis=1)),
        each(head.engine.theta(log_error.max())), each(value_all), each(head.lost_in_values(largest)),
        shifts.T, each(scaled), (W @ size) / D[0][:, None] * scaled + _far_pull(q[None], rho[None]),
    )  # fmt: skip


def own_moments(head: ExactHead, shape: Basis, centers: np.ndarray, radii: np.ndarray, accuracy: float) -> Moments:
    """Moments of boxes centers (B, d) +- radii (B, d), each round its own centre and with its own tokens."""
    N, d = head.keys.shape
    m, p, B = head.values.shape[1], shape.order, len(centers)
    sloped = head.sloped
    difference, rest = two_sum(centers, np.broadcast_to(-head.center, centers.shape))
    t, t_rest = two_product(difference, np.broadcast_to(head.scale, centers.shape))
    t_low = t_rest + rest * head.scale
    scaled = radii * head.scale  # (B, d)
    largest = up(np.abs(t) + np.abs(t_low) + scaled)
    factors = [
        (np.broadcast_to(head.keys[:, i], (B, N)), np.broadcast_to(t[:, i, None], (B, N)), t_low[:, i, None])
        for i in range(d)
    ]
    start = np.broadcast_to(head.bias, (B, N))
    high, low = two_product_sum(start, np.broadcast_to(head.bias_low, (B, N)), factors)
    largest_low = np.take_along_axis(low, high.argmax(axis=1)[:, None], axis=1)
    S = (high - high.max(axis=1, keepdims=True)) + (low - largest_low)  # (B, N); see `shared_moments`
    score_size = largest @ np.abs(head.keys).T
    S_error = 3 * U * np.abs(S) + 4 * pair_error(d) * (score_size + head.bias_size + np.abs(head.bias))
    weight = exp_near(S)
    weight /= weight.sum(axis=1, keepdims=True)
    reference_key = weight @ head.keys  # (B, d)
    moves, off_center = np.zeros((B, N)), np.zeros((B, N))
    for i in range(d):
        size = np.abs(head.keys[:, i] - reference_key[:, i, None])
        moves += size * scaled[:, i, None]
        off_center += size * (largest[:, i, None] * head.frame[i])
    moves = up(moves, d + 4)
    below = np.maximum(moves - S, 0.0) + np.maximum((S + moves).max(axis=1, keepdims=True), 0.0)
    log_error = head.engine.log_error(
        score_size,
        head.bias_size,
        up(off_center, d + 4),
        below,
        lost=head.lost_in_scores(largest),
        tokens=N,
        dim=head.looked_at,
        score=up(np.abs(high + low) + S_error + scaled @ np.abs(head.keys).T, d + 8),
    )
    most = _heavy_error(log_error, S, moves)[:, None]
    ceiling = exp_up(up(np.abs(S) * 4 * U + S_error) + S + moves + log_error + most)

    # The largest size of every column bounds what the dropped tokens can add.
    column_size = np.abs(head.values).max(axis=0) * np.ones((B, m))
    if head.slopes is not None and sloped:
        column_size = (
            np.abs(head.values) + np.einsum("nmi,bi->bnm", np.abs(head.slopes[:, :, sloped]), largest[:, sloped])
        ).max(axis=1)
        column_size = np.concatenate(
            [column_size] + [np.abs(head.slopes[:, :, i]).max(axis=0) * np.ones((B, m)) for i in sloped], axis=1
        )
    C = column_size.shape[1]
    stretch = np.concatenate([np.ones((B, m))] + [np.repeat(up(scaled[:, i, None]), m, axis=1) for i in sloped], axis=1)
    rank = np.argsort(-ceiling, axis=1)
    sorted_ceiling = np.take_along_axis(ceiling, rank, axis=1)
    beyond = np.cumsum(sorted_ceiling[:, ::-1], axis=1)[:, ::-1]  # weight from here on
    impact = beyond * (2.0 * (column_size * stretch).max(axis=1, keepdims=True) + 1.0)
    kept = np.maximum(np.count_nonzero(~(impact <= _DROP * min(accuracy, 1.0)), axis=1), 1)  # (B,)
    A = int(kept.max())
    padded = np.concatenate([beyond, np.zeros((B, 1))], axis=1)
    dropped_weight = up(np.take_along_axis(padded, kept[:, None], axis=1)[:, 0], N + 8)
    dropped_weight = np.where(kept == N, 0.0, dropped_weight)

    chosen = rank[:, :A]  # (B, A)
    here = np.arange(A) < kept[:, None]

    def pick(array: np.ndarray) -> np.ndarray:
        return np.take_along_axis(array, chosen, axis=1)

    S, S_error, theta = pick(S), pick(S_error), head.engine.theta(pick(log_error))
    W = np.where(here, exp_near(S), 0.0)
    eta = np.where(here, weight_error(up(S_error), S, S), 0.0)
    base = head.values[chosen]  # (B, A, m)
    base_size, slope_size = np.abs(base), np.zeros_like(base)
    columns, slopes = [], np.zeros((B, A, m, 0))
    if head.slopes is not None and sloped:
        slopes = head.slopes[chosen][:, :, :, sloped]  # (B, A, m, sloped)
        base = base + np.einsum("bami,bi->bam", slopes, t[:, sloped])
        slope_size = np.einsum("bami,bi->bam", np.abs(slopes), largest[:, sloped])
        base_size = base_size + slope_size
        columns = [slopes[..., k] for k in range(len(sloped))]
    table = np.concatenate([base, *columns], axis=2)  # (B, A, C)
    base_error = gamma(d + 4) * base_size if sloped else np.zeros_like(base_size)
    share = W / W.sum(axis=1, keepdims=True)
    reference = np.einsum("ba,bac->bc", share, table)
    u = table - reference[:, None, :]
    u_size = np.abs(u)
    dropped_value = up(dropped_weight[:, None] * (column_size * (1 + gamma(d + 4)) + np.abs(reference)))  # (B, C)

    kappa = head.keys[chosen] - reference_key[:, None, :]  # (B, A, d)
    q = np.where(here[..., None], kappa * scaled[:, None, :], 0.0)
    rho = up(np.abs(q).sum(axis=2), d + 4)
    E = exp_up(rho)
    roundings = eta + gamma(A + 4 * p + d + 16)
    wrong = (_remainder(rho, E, p) + up(roundings * E)) * W
    flat = np.ascontiguousarray(q.transpose(2, 0, 1).reshape(d, B * A))
    powers = (shape.monomials(flat) / shape.factorial[:, None]).reshape(-1, B, A) * W
    value_error = np.concatenate([base_error, np.zeros((B, A, C - m))], axis=2)
    finite_theta = np.where(np.isfinite(theta), theta, 1.0)
    deviation = (u_size * stretch[:, None, :]).reshape(B, A, -1, m).sum(axis=2)  # (B, A, m)
    run_error = np.zeros((B, A, m))
    if sloped and head.slopes is not None:
        framed = np.einsum("bami,bi->bam", np.abs(slopes), (largest * head.frame)[:, sloped])
        run_error = head.engine.value_error(base_size, slope_size, framed, len(sloped))
    seen = np.concatenate([finite_theta[..., None], finite_theta[..., None] * deviation, base_size, run_error], axis=2)
    masked = here[..., None]
    return Moments(
        D=powers.sum(axis=2),
        N=[np.einsum("mba,ba->mb", powers, u[:, :, c]) for c in range(C)],
        D_bound=wrong.sum(axis=1),
        N_bound=(np.einsum("ba,bac->cb", wrong, u_size) + np.einsum("ba,bac->cb", W * E, value_error)),
        D_noise=(roundings * W).sum(axis=1),
        N_noise=np.einsum("ba,bac->cb", roundings * W, u_size) + np.einsum("ba,bac->cb", W, value_error),
        run_over=np.einsum("ba,bac->cb", W * (E * (1.0 + eta)), seen),
        run_center=np.einsum("ba,bac->cb", W, seen),
        reference=reference.T,
        stretch=stretch.T,
        dropped_weight=dropped_weight,
        dropped_value=dropped_value.T,
        kept=kept.astype(float),
        theta_max=np.where(here, theta, 0.0).max(axis=1),
        deviation_max=np.where(masked, deviation, 0.0).max(axis=1).T,
        value_max=np.where(masked, base_size, 0.0).max(axis=1).T,
        error_max=np.where(masked, run_error, 0.0).max(axis=1).T,
        theta_all=head.engine.theta(log_error.max(axis=1)),
        value_all=column_size[:, :m].T,
        lost=head.lost_in_values(largest).T,
        shift=np.zeros((d, B)),
        radius=scaled.T,
        pull=np.einsum("ba,bad->bd", share, np.abs(kappa)) * scaled + _far_pull(q, rho),
    )
