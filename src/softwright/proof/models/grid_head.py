"""Taylor models of a grid head, axis by axis.

Over a grid the softmax weight of token J is a product, so g = sum_J v_J prod_i w_i[j_i] is contracted one axis at a
time with the univariate models w = P + R, |R| <= rho, 0 <= w <= omega of `axis_models.py`. After some axes what is
left is, for every index of the others, a polynomial T in the variables done so far and a bound E of all that it
misses:

    T'[alpha a] = sum_j T_j[alpha] P_j[a],        kept for |alpha| + a <= p,
    E' = sum_j omega_j E_j + sum_j rho_j |T_j| + (the moduli of the coefficients that are cut) + rounding,

with |T_j| the sum of the moduli of its coefficients. E is contracted with omega because weights are not negative; the
univariate models carry four degrees more than are kept. So a box costs n_1 + .. + n_d exponentials instead of n_1 ..
n_d, and boxes share what they have in common: all that have the same intervals along the first axes share their
contraction. Values with a slope along one variable have that axis done first, where v_j + G_j c is taken at the
interval's centre c.

*Stored biases.* The dense engine runs a head whose biases differ from the sums over the axes by at most off_J
(`grid.py`). Its weights are w_J e^{eps_J} / sum_K w_K e^{eps_K}, so its value differs by at most

    e^{2 max off} sum_J w_J off_J |v_J - g|,

a sum that is contracted with omega as well.

*Rounding of the run.* The log error of a weight is a sum over the axes, plus what all tokens share: sum_J w theta |v -
ref| follows from the pair (sum w |v - ref|, sum w theta |v - ref|), contracted along. The rest is `rounding.py`.

*Large grids* are cut into windows of tokens around blocks of boxes (`grid_windows.py`): everything above then holds of
the window, and what all other tokens weigh is added.

Boxes on which the noise of float64 or of the biases is too much for the wanted accuracy, or on which rounding changes
the weights, are left to the models of all tokens (`taylor_head.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from softwright.proof.arithmetic.directed import U, gamma, two_product, two_sum, up
from softwright.proof.arithmetic.rounding import Dropped, TokenExtremes, head_error
from softwright.proof.arithmetic.series import Basis
from softwright.proof.arithmetic.taylor_model import TaylorModel
from softwright.proof.models.axis_models import AxisModels, axis_models
from softwright.proof.models.grid import Grid
from softwright.proof.models.grid_windows import theta_beyond, windows
from softwright.proof.models.head_moments import ExactHead
from softwright.proof.models.taylor_head import HeadOnBoxes, joined, tokens_on_boxes

_EXTRA = 4  # degrees that the models of an axis carry beyond those that are kept
_NOISY = 0.02  # share of the wanted accuracy that noise may take before all tokens are looked at
_SMALL_ERROR = 0.25  # log error of a weight up to which it is a small relative one
_NEARLY = 0.01  # of biases that add up
_FEW_TOKENS = 2048  # of a head whose tokens are looked at for its rounding alone
_DROP = 1e-3  # share of the wanted accuracy that tokens may have which do not count as terms of a sum
_LARGEST_ARRAY = 3_000_000  # entries of a temporary


def head_on_boxes(
    head: ExactHead,
    shape: Basis,
    centers: np.ndarray,
    radii: np.ndarray,
    groups: Sequence[np.ndarray],
    *,
    accuracy: float,
) -> HeadOnBoxes:
    """A head on boxes centers (B, d) +- radii (B, d), by its axes if it has some; see `taylor_head.tokens_on_boxes`."""
    if head.grid is None or not by_axes(head, shape.dim):
        return tokens_on_boxes(head, shape, centers, radii, groups, accuracy=accuracy)
    found = _by_windows(head, head.grid, shape, _frame(head, centers, radii), accuracy)
    usable = np.isfinite(found.rounding).all(axis=0) & ~(found.noise.max(axis=0) > _NOISY * accuracy)
    loose = usable & (found.rounding.max(axis=0) > _NOISY * accuracy) & (len(head.keys) <= _FEW_TOKENS)
    rest = np.flatnonzero(~usable | loose)
    if not len(rest):
        return found
    place = np.full(len(centers), -1)
    place[rest] = np.arange(len(rest))
    left = [place[group][place[group] >= 0] for group in groups]
    tokens = tokens_on_boxes(
        head, shape, centers[rest], radii[rest], [group for group in left if len(group)], accuracy=accuracy
    )
    # All tokens at once know the values as they are together, v + G t, and so the rounding better, models less well.
    again = np.flatnonzero(loose)
    for name in ("rounding", "rounding_center"):
        one, other = getattr(found, name), getattr(tokens, name)
        one[:, again] = np.fmin(one[:, again], other[:, place[again]])
    good = np.flatnonzero(usable)
    rest = np.flatnonzero(~usable)
    if not len(rest):
        return found
    if not len(good):
        return tokens
    return joined([found.take(good), tokens.take(place[rest])], np.concatenate([good, rest]))


def _frame(head: ExactHead, centers: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """The boxes as the head sees them: along each axis t + t_low +- r, (B, d, 3)."""
    difference, rest = two_sum(centers, np.broadcast_to(-head.center, centers.shape))
    t, t_rest = two_product(difference, np.broadcast_to(head.scale, centers.shape))
    return np.stack([t, t_rest + rest * head.scale, radii * head.scale], axis=2)


def _by_windows(head: ExactHead, grid: Grid, shape: Basis, frame: np.ndarray, accuracy: float) -> HeadOnBoxes:
    found = windows(grid, frame)
    if found is None:
        return _Contraction(head, grid, shape).on_boxes(frame, accuracy)
    parts = []
    for window in found:
        some, lines = window.of(head, grid)
        parts.append(_Contraction(some, lines, shape, head, window.weight).on_boxes(frame[window.boxes], accuracy))
    return joined(parts, np.concatenate([window.boxes for window in found]))


def by_axes(head: ExactHead, dim: int) -> bool:
    """Whether a head is taken apart: a grid whose biases nearly add up, with slopes along one variable at most."""
    if head.grid is None or dim == 1 or len(head.sloped) > 1:
        return False
    return head.grid.off is None or float(head.grid.off.max()) < _NEARLY


@lru_cache(maxsize=64)
def _steps(dim: int, order: int) -> tuple[list[tuple[np.ndarray, np.ndarray, np.ndarray]], np.ndarray]:
    """For every axis: rows and powers that are kept, and a mask (powers, rows) of those that are cut; then the powers
    (M, d) of the rows at the end."""
    rows: list[tuple[int, ...]] = [()]
    steps = []
    for _ in range(dim):
        keep = [(row, a) for row, alpha in enumerate(rows) for a in range(order + 1 - sum(alpha))]
        degree = np.array([sum(alpha) for alpha in rows])
        cut = (degree[None, :] + np.arange(order + _EXTRA + 1)[:, None]) > order
        steps.append((np.array([row for row, _ in keep]), np.array([a for _, a in keep]), cut.astype(float)))
        rows = [(*rows[row], a) for row, a in keep]
    return steps, np.array(rows)


@lru_cache(maxsize=64)
def _places(shape: Basis, order: tuple[int, ...]) -> np.ndarray:
    """Where the rows at the end stand in the basis, if the axes were contracted in this order."""
    powers = _steps(shape.dim, shape.order)[1][:, np.argsort(order)]
    return np.array([shape.index[tuple(row)] for row in powers.tolist()])


@dataclass
class _Level:
    """One axis of a chunk of boxes: its models, which of them each prefix of intervals takes, and from where."""

    models: AxisModels
    axis: np.ndarray  # (U,) interval of each prefix
    parent: np.ndarray  # (U,) prefix without this axis
    interval: np.ndarray  # (B,) interval of each box


class _Contraction:
    """A grid head with its axes in the order in which they are contracted: a whole one, or the window `head` of
    `whole`, whose other tokens weigh at most `weight`."""

    def __init__(
        self, head: ExactHead, grid: Grid, shape: Basis, whole: ExactHead | None = None, weight: float = 0.0
    ) -> None:
        self.head, self.grid, self.shape = head, grid, shape
        self.whole, self.outside = head if whole is None else whole, weight
        self.lines = grid if whole is None or whole.grid is None else whole.grid
        self.most_off = 0.0 if self.lines.off is None else float(self.lines.off.max())
        d, m = shape.dim, head.values.shape[1]
        self.known: dict[int, tuple[np.ndarray, AxisModels]] = {}
        self.sloped = self.whole.sloped[0] if self.whole.sloped else None
        self.order = sorted(range(d), key=lambda i: (i != self.sloped, i))
        self.sizes = [grid.sizes[i] for i in self.order]

        def arranged(column: np.ndarray) -> np.ndarray:  # (N, m) -> (n_1, rest of the axes and outputs)
            table = column.reshape(*grid.sizes, m).transpose(*self.order, d)
            return np.ascontiguousarray(table.reshape(self.sizes[0], -1))

        self.middle = 0.5 * (head.values.max(axis=0) + head.values.min(axis=0))  # (m,)
        self.base, self.values = arranged(head.values - self.middle), arranged(np.abs(head.values))
        least, most = self.whole.extremes.least, self.whole.extremes.most
        self.farthest = np.maximum(np.abs(least - self.middle), np.abs(most - self.middle))  # (m,) of any token
        self.slopes = None
        if self.sloped is not None and head.slopes is not None:
            self.slopes = arranged(np.ascontiguousarray(head.slopes[:, :, self.sloped]))
        self.off = None if grid.off is None else arranged(np.repeat(grid.off.reshape(-1, 1), m, axis=1))

    def on_boxes(self, frame: np.ndarray, accuracy: float) -> HeadOnBoxes:
        """For boxes frame (B, d, 3) as `_frame` has them."""
        widest, rows, left = 1, 1, len(self.head.values) * self.head.values.shape[1]
        for (keep, _, _), n in zip(_steps(self.shape.dim, self.shape.order)[0], self.sizes, strict=True):
            left //= n
            widest = max(widest, (self.shape.order + _EXTRA + 1) * rows * left)
            rows = len(keep)
        # Neighbours in this order share their first intervals.
        places = np.lexsort([frame[:, i, 0] for i in reversed(self.order)])
        step = max(1, _LARGEST_ARRAY // widest)
        parts = [self._chunk(frame[places[first : first + step]], accuracy) for first in range(0, len(places), step)]
        return joined(parts, places)

    def _levels(self, frame: np.ndarray) -> list[_Level]:
        levels, prefix = [], np.zeros(len(frame), dtype=np.int64)
        for i in self.order:
            intervals, interval = np.unique(frame[:, i], axis=0, return_inverse=True)
            interval = interval.ravel()
            models = self._models(i, intervals)
            pairs, prefix = np.unique(prefix * len(intervals) + interval, return_inverse=True)
            prefix = prefix.ravel()
            levels.append(_Level(models, pairs % len(intervals), pairs // len(intervals), interval))
        self.prefix = prefix  # of each box, after all axes
        return levels

    def _models(self, i: int, intervals: np.ndarray) -> AxisModels:
        """The models of axis i on intervals (G, 3); those of the chunk before if it had the same ones."""
        known = self.known.get(i)
        if known is None or not np.array_equal(known[0], intervals):
            models = axis_models(
                self.grid.keys[i],
                self.grid.biases[i],
                *intervals.T,
                order=self.shape.order + _EXTRA,
                engine=self.head.engine,
                dim=self.shape.dim,
                rounded=float(self.head.frame[i]),
                of=(float(self.lines.biases[i][0]), float(self.lines.biases[i].max())),
            )
            known = self.known[i] = (intervals, models)
        return known[1]

    def _chunk(self, frame: np.ndarray, accuracy: float) -> HeadOnBoxes:
        shape, d, B, m = self.shape, self.shape.dim, len(frame), self.head.values.shape[1]
        levels = self._levels(frame)
        steps, _ = _steps(d, shape.order)
        T, E, drift = self._first(levels[0], frame, steps[0])
        for level, step, n in zip(levels[1:], steps[1:], self.sizes[1:], strict=True):
            T, E, drift = _next(level, step, n, T, E, drift)
        # Boxes by prefix; rows of T in the order of the basis.
        where = _places(shape, tuple(self.order))
        T, E = T[self.prefix], E[self.prefix]  # (B, M, m), (B, m)
        if self.outside:
            largest = up(np.abs(frame).sum(axis=2))  # (B, d)
            E = up(E + 2.0 * self.outside * up(self.farthest[:, None] + self._rise(largest)).T)
        reach = up(np.abs(T).sum(axis=1) + E, shape.size + 4)  # |g - middle| for biases that add up
        if drift is not None and self.grid.off is not None:
            E = up(E + (1.0 + 3.0 * float(self.grid.off.max())) * drift[self.prefix] * reach)
            reach = up(np.abs(T).sum(axis=1) + E, shape.size + 4)
        models = []
        for o in range(m):
            coefficients = np.empty((shape.size, B))
            coefficients[where] = T[:, :, o].T
            model = TaylorModel(shape, coefficients, E[:, o], np.ones(shape.size, dtype=bool))
            models.append(model.plus(self.middle[o]))
        return self._with_rounding(frame, levels, models, reach, accuracy)

    def _first(
        self, level: _Level, frame: np.ndarray, step: tuple[np.ndarray, np.ndarray, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """The first axis, along which values may have slopes: T (G, rows, rest), E (G, rest), and sum omega off."""
        models, n = level.models, self.sizes[0]
        P = models.P.transpose(0, 2, 1)  # (G, p + 1, n)
        t, t_low, r = self._intervals(level, frame)
        flat, size = self.base[None], np.abs(self.base)[None]  # (1 or G, n, rest)
        wrong = 4 * U * size
        if self.slopes is not None:
            steep = np.abs(self.slopes)
            flat = self.base + t[:, None, None] * self.slopes
            wrong = wrong + (4 * U * np.abs(t) + np.abs(t_low) + 2 * U * r)[:, None, None] * steep
            size = np.abs(flat) + r[:, None, None] * steep
        full = P @ flat  # (G, p + 1, rest)
        E = models.rho[:, None] @ size + (models.norm + models.rho)[:, None] @ wrong
        E = E + gamma(2 * n + 8) * (models.norm[:, None] @ size)
        if self.slopes is not None:
            full[:, 1:] += r[:, None, None] * (P[:, :-1] @ self.slopes)
            E = E + r[:, None, None] * (np.abs(P[:, -1:]) @ np.abs(self.slopes))
        drift = None
        if self.off is not None:
            factor = 1.0 + 3.0 * float(self.off.max())
            E = E + factor * (models.omega[:, None] @ (self.off * size))
            drift = up(models.omega @ self.off, n + 4)  # (G, rest)
        _, keep_a, cut = step
        E = E[:, 0] + np.tensordot(np.abs(full), cut[:, 0], axes=(1, 0))
        return full[:, keep_a], up(E, 8 * n + 64), drift

    def _intervals(self, level: _Level, frame: np.ndarray) -> np.ndarray:
        """t, t_low and r (3, G) of the intervals of the first axis."""
        one = np.empty(len(level.models.pull), dtype=np.int64)
        one[level.interval] = np.arange(len(frame))
        return frame[one, self.order[0]].T

    def _with_rounding(
        self,
        frame: np.ndarray,
        levels: list[_Level],
        models: list[TaylorModel],
        reach: np.ndarray,
        accuracy: float,
    ) -> HeadOnBoxes:
        """The models with what running the head adds; `reach` (B, m) bounds |g - middle|."""
        head, engine, d = self.whole, self.whole.engine, self.shape.dim
        B, m, N = len(frame), head.values.shape[1], len(head.keys)
        largest = up(np.abs(frame[..., 0]) + np.abs(frame[..., 1]) + frame[..., 2])  # (B, d)
        off = self.most_off
        # The log error of a weight: what all share, and for each axis what it adds.
        lost = engine.lost(head.extremes.keys[None], head.scale, largest)[:, 0]
        shared = up(engine.exp_log_error(N) + 2.0 * lost + 4.0 * engine.arithmetic.unit * off)
        if not engine.axis_sizes:
            top = head.extremes.top_bias + 4.0 * off
            shared = up(shared + 2.0 * engine.arithmetic.gamma(d + 1) * top)
        each = [level.models.theta.max(axis=1)[level.interval] for level in levels]
        mean = [(level.models.omega * level.models.theta).sum(axis=1)[level.interval] for level in levels]
        if self.outside:
            beyond = theta_beyond(engine, self.lines, largest, head.frame)
            each = [np.maximum(theta, beyond[:, i]) for theta, i in zip(each, self.order, strict=True)]
        theta = up(shared + sum(each), 2 * d)  # (B,) of any token
        grow = np.where(theta <= _SMALL_ERROR, up(1.0 + theta) * (1.0 + 3.0 * off), np.nan)

        steep = 0.0 if self.slopes is None else np.abs(self.slopes)
        if self.slopes is None:
            deviations, sizes = np.abs(self.base)[None], self.values[None]
        else:
            end = up(np.abs(self._intervals(levels[0], frame)).sum(axis=0))[:, None, None]
            deviations, sizes = np.abs(self.base) + end * steep, self.values + end * steep
        deviation, tilted = _weighted(deviations, levels, self.sizes, m)
        size, _ = _weighted(sizes, levels, self.sizes, m)
        deviation, tilted, size = (
            up(x[self.prefix], sum(self.sizes) + 64).T for x in (deviation, tilted, size)
        )  # (m, B)
        extremes = np.maximum(np.abs(head.extremes.least), np.abs(head.extremes.most))
        largest_value = up(extremes[:, None] + self._rise(largest))  # (m, B)
        farthest = up(self.farthest[:, None] + self._rise(largest))
        deviation = np.fmin(deviation, farthest)
        tilted = np.fmin(tilted, theta * farthest)
        size = np.fmin(size, largest_value)
        offset = np.fmin(reach.T, farthest)
        head_size = np.fmin(up(offset + np.abs(self.middle)[:, None]), largest_value)
        kept, weight = self._kept(levels, accuracy, float(largest_value.max()))
        loss = head.lost_in_values(largest).T  # (m, B)
        inflation = np.prod([np.fmax(lv.models.omega.sum(axis=1), 1.0)[lv.interval] for lv in levels], axis=0)
        rounding = np.empty((m, B))
        for o in range(m):
            none = np.zeros(B)
            error, error_most = none, none
            if self.slopes is not None:
                error, error_most = (engine.value_error(x, x, 2.0 * x, 1) for x in (size[o], largest_value[o]))
            mass = up(weight * (farthest[o] + abs(self.middle[o]) + head_size[o]))
            means = [shared + sum(mean), shared * deviation[o] + tilted[o], size[o], error]
            rounding[o] = head_error(
                engine,
                kept,
                N,
                TokenExtremes(theta * grow, farthest[o], largest_value[o], error_most),
                up(np.array(means) * grow, 2 * sum(self.sizes) + 64),
                offset=offset[o],
                head_size=head_size[o],
                dropped=Dropped(weight, mass, theta * grow, largest_value[o], error_most, loss[o]),
            )
        rounding = np.where(np.isnan(grow), np.inf, rounding)
        noise = sum((level.models.noise[level.interval] for level in levels), np.zeros(B)) * deviation
        if off:
            noise = noise + off * (deviation + offset)
        pull = np.empty((B, d))
        for level, i in zip(levels, self.order, strict=True):
            pull[:, i] = level.models.pull[level.interval]
        return HeadOnBoxes(models, rounding, rounding / inflation, head_size, noise, pull)

    def _rise(self, largest: np.ndarray) -> np.ndarray:
        """By how much slopes can change a value, (m, B) or 0."""
        if self.sloped is None:
            return np.zeros((self.head.values.shape[1], 1))
        return np.multiply.outer(self.whole.extremes.steepest[:, self.sloped], largest[:, self.sloped])

    def _kept(self, levels: list[_Level], accuracy: float, value: float) -> tuple[np.ndarray, np.ndarray]:
        """How many tokens have a weight that counts, and four times a bound of the others' together, for each box."""
        B = len(levels[0].interval)
        kept, weight = np.ones(B), np.full(B, 4.0 * self.outside)
        allowed = _DROP * min(accuracy, 1.0) / (4.0 * self.shape.dim * (2.0 * value + 1.0))
        for level in levels:
            omega = np.sort(level.models.omega, axis=1)
            below = np.cumsum(omega, axis=1)
            some = np.minimum(np.count_nonzero(below <= allowed, axis=1), omega.shape[1] - 1)  # (G,)
            lightest = np.where(
                some > 0, np.take_along_axis(below, np.maximum(some - 1, 0)[:, None], axis=1)[:, 0], 0.0
            )
            kept = kept * (omega.shape[1] - some)[level.interval]
            weight = weight + 4.0 * up(lightest, omega.shape[1])[level.interval] * (some > 0)[level.interval]
        return kept, weight


def _next(
    level: _Level,
    step: tuple[np.ndarray, np.ndarray, np.ndarray],
    n: int,
    T: np.ndarray,
    E: np.ndarray,
    drift: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """One more axis: T (U, rows, n rest) and E (U, n rest) of the prefixes before become those with this axis."""
    models, axis = level.models, level.axis
    before, rows = T.shape[0], T.shape[1]
    T = np.ascontiguousarray(T.reshape(before, rows, n, -1).transpose(0, 2, 1, 3))  # (U, n, rows, rest)
    rest = T.shape[3]
    size = np.abs(T).sum(axis=2)  # (U, n, rest)
    P = models.P.transpose(0, 2, 1)[axis]
    full = (P @ T.reshape(before, n, rows * rest)[level.parent]).reshape(len(axis), -1, rows, rest)
    charged = (models.rho + gamma(2 * n + 8) * models.norm)[axis]
    omega = models.omega[axis][:, None]
    E = (omega @ E.reshape(before, n, rest)[level.parent])[:, 0] + (charged[:, None] @ size[level.parent])[:, 0]
    keep_row, keep_a, cut = step
    E = E + np.einsum("uarx,ar->ux", np.abs(full), cut)
    if drift is not None:
        drift = up((omega @ drift.reshape(before, n, rest)[level.parent])[:, 0], n + 4)
    return full[:, keep_a, keep_row], up(E, 8 * n + 2 * rows + 64), drift


def _weighted(
    tensor: np.ndarray, levels: list[_Level], sizes: list[int], outputs: int
) -> tuple[np.ndarray, np.ndarray]:
    """sum_J omega_J x_J and sum_J omega_J theta_J x_J (U, m) of x >= 0 (1 or G, n_1, rest) for the last prefixes."""
    plain, tilted = tensor, np.zeros_like(tensor)
    for number, (level, n) in enumerate(zip(levels, sizes, strict=True)):
        parent = level.parent
        if number == 0:
            parent = np.arange(len(level.axis)) if len(tensor) > 1 else np.zeros(len(level.axis), dtype=np.int64)
        omega = level.models.omega[level.axis][:, None]
        theta = level.models.theta[level.axis][:, :, None]
        plain, tilted = (x.reshape(len(x), n, -1)[parent] for x in (plain, tilted))
        plain, tilted = (omega @ plain)[:, 0], (omega @ (tilted + theta * plain))[:, 0]
    return plain.reshape(len(plain), outputs), tilted.reshape(len(tilted), outputs)
