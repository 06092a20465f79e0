"""Kinks and jumps along one coordinate: gated affine pieces, and spectral pieces for what is left.

*Gates.* N affine pieces between knots x_1 < ... < x_{N-1} are one head: token i has the piece as its (affine) value,
and the score of token i+1 exceeds that of token i by beta_i (t - x_i). For a continuous piecewise-linear target the
error is at most C W0((N-1)/e) / beta with C the largest jump of the slope (0.2785 C / beta for two pieces): as small
as one likes, with one token per piece.

*Corners and curvature.* Two heads. The first carries the jumps of value and slope as gated affine pieces, so that the
rest is once continuously differentiable; the second joins spectral fits of the rest, one for each stretch between
breaks, by gates just sharp enough. A stretch whose fit fails hides a singularity (a root at an end, say) and is split
towards it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from softwright.approximation.fitting.axis_search import (
    AxisFit,
    AxisProblem,
    fit_uniform,
    search_optimised,
    search_uniform,
)
from softwright.approximation.problem import Fit, Problem, scaling_of
from softwright.attention.head import Axis, Head
from softwright.work import count as count_work

LineValues = Callable[[np.ndarray], np.ndarray]  # t (n,) -> (n, m)

_TWO_GATE = 0.2785  # W0(1/e) rounded up: two affine pieces meeting at a kink of slope jump C err by this times C / beta
_LOCAL_TOKENS = 24  # a stretch that needs more than this is split instead
_MOST_STRETCHES = 80
_WORK_OF_BREAK = 500_000  # nanoseconds that measuring the jumps at one break takes
_STAYS = 0.8  # of a jump seen at a distance, what must be left of it at 1/64 of the distance
JUMP_BAND = 1e-6  # half-width, in the unit frame, of the band in which a jump of the target is switched


def gate_head(knots: np.ndarray, intercepts: np.ndarray, slopes: np.ndarray, steepness: np.ndarray) -> Head:
    """Affine pieces intercepts + slopes t, (K+1, m) each, switched at knots (K,) with gates of given steepness (K,)."""
    keys = np.concatenate([[0.0], np.cumsum(steepness)])
    biases = np.concatenate([[0.0], -np.cumsum(steepness * knots)])
    keys = keys - 0.5 * (keys[0] + keys[-1])
    return Head(keys[:, None], biases - biases.max(), intercepts, slopes[:, :, None], "gates")


def _one_sided(f: LineValues, place: float, width: float, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Value and slope (m,) at a break from one side, by a polynomial through points that avoid the break itself."""
    offsets = 0.5 * width * (1 - np.cos(np.pi * (np.arange(14) + 0.5) / 14))
    coefficients = np.polynomial.polynomial.polyfit(offsets / width, f(place + side * offsets), 9)
    return coefficients[0], side * coefficients[1] / width


def _step_at(f: LineValues, place: float, width: float) -> np.ndarray:
    """The jump of each output (m,) as two close looks at the break show it; 0 where the second sees less of one.

    A polynomial takes a root for a jump, because it cannot follow it: f(place + h) - f(place - h) of a root shrinks
    with h, slowly, that of a jump stays.
    """
    near, nearer = (f(np.array([place - h, place + h])) for h in (width * 2.0**-38, width * 2.0**-44))
    far, close = near[1] - near[0], nearer[1] - nearer[0]
    return np.where(np.abs(close) > _STAYS * np.abs(far), close, 0.0)


@dataclass(frozen=True)
class _Stretch:
    """A fit on [low, high]: keys, biases, values and slopes already in the coordinate t."""

    low: float
    high: float
    keys: np.ndarray
    biases: np.ndarray
    values: np.ndarray  # (n, m)
    slopes: np.ndarray  # (n, m)

    def __call__(self, t: np.ndarray) -> np.ndarray:
        weights = Axis(self.keys, self.biases).weights(t)  # (q, n)
        return weights @ self.values + (weights @ self.slopes) * t[:, None]

    def log_mass(self, place: float) -> float:
        """log sum exp of the scores at a place."""
        scores = self.keys * place + self.biases
        top = scores.max()
        return float(top + np.log(np.exp(scores - top).sum()))


def _stretch(low: float, high: float, fit: AxisFit, scale: float, middle: np.ndarray, origin: float = 0.0) -> _Stretch:
    """Carry a fit in the local coordinate back to t - origin and undo the scaling of values."""
    low, high = low - origin, high - origin
    centre, half = 0.5 * (low + high), 0.5 * (high - low)
    n = fit.tokens
    slopes = fit.values[n:] * scale if fit.affine else np.zeros_like(fit.values)
    values = fit.values[:n] * scale + middle
    keys = fit.axis.keys / half
    return _Stretch(low, high, keys, fit.axis.biases - keys * centre, values - slopes * centre / half, slopes / half)


def _inside(low: float, high: float) -> tuple[float, float]:
    """Ends drawn in by a few roundings of a coordinate: a sample must not see the other side of a break."""
    inset = min(1e-14, 1e-3 * (high - low))
    return low + inset, high - inset


def _fit_stretch(
    f: LineValues, low: float, high: float, tolerance: float, cap: float
) -> tuple[AxisFit, float, np.ndarray]:
    """Fewest tokens for f on [low, high]; also the scale and middle that its values refer to."""
    centre, half = 0.5 * (low + high), 0.5 * (high - low)
    inside = _inside(low, high)

    def local(s: np.ndarray) -> np.ndarray:
        return f(np.clip(centre + half * s, *inside))

    probe = np.linspace(-1, 1, 301)
    values = local(probe)
    scaling = scaling_of(values)
    A = np.stack([np.ones_like(probe), probe], axis=1)
    line = np.linalg.lstsq(A, (values - scaling.middle) / scaling.scale, rcond=None)[0]
    error = float(np.abs(A @ line - (values - scaling.middle) / scaling.scale).max())
    relative = tolerance / scaling.scale
    if error <= 0.7 * relative:
        return AxisFit(Axis(np.zeros(1), np.zeros(1)), True, line, error), scaling.scale, scaling.middle
    problem = AxisProblem(lambda s: (local(s) - scaling.middle) / scaling.scale, min(relative, 0.5), cap)
    # Ask first whether eight optimised or `_LOCAL_TOKENS` uniform tokens would do: a stretch with a singularity fails
    # both quickly and is split; only a stretch that can be met is worth the search for fewer tokens.
    best = search_optimised(problem, True, 9, 10 * cap, smallest=8, iterations=30)
    if best is not None:
        fewer = search_optimised(problem, True, 8, 10 * cap, iterations=30)
        return fewer or best, scaling.scale, scaling.middle
    full = fit_uniform(problem, _LOCAL_TOKENS, True)
    if full.error <= problem.tolerance:
        full = search_uniform(problem, True, _LOCAL_TOKENS) or full
    return full, scaling.scale, scaling.middle


def _split_place(f: LineValues, fit: AxisFit, low: float, high: float, scale: float, middle: np.ndarray) -> float:
    """Where to cut a stretch that could not be fitted: close to an end that holds the error, else in the middle."""
    stretch = _stretch(low, high, fit, scale, middle)
    s = np.concatenate(
        [np.linspace(-1, 1, 401), -1 + 10.0 ** np.linspace(-9, -2, 40), 1 - 10.0 ** np.linspace(-9, -2, 40)]
    )
    t = np.clip(0.5 * (low + high) + 0.5 * (high - low) * s, *_inside(low, high))
    worst = t[np.abs(stretch(t) - f(t)).max(axis=1).argmax()]
    position = (worst - low) / (high - low)
    if position < 0.1:
        return low + 0.12 * (high - low)
    if position > 0.9:
        return high - 0.12 * (high - low)
    return 0.5 * (low + high)


def _least_steepness(mismatch: np.ndarray, distance: np.ndarray, allowed: float) -> float:
    """Smallest gate steepness for which sigmoid(-beta delta) times the mismatch at distance delta stays allowed."""
    allowed = max(allowed, 0.55 * mismatch[:60].max())  # what is already there at the break cannot be gated away
    low, high = 1.0, 1e14
    if np.all(mismatch <= allowed):
        return low
    for _ in range(80):
        middle = np.sqrt(low * high)
        if np.all(mismatch / (1 + np.exp(np.minimum(middle * distance, 700.0))) <= allowed):
            high = middle
        else:
            low = middle
    return high


def _join(stretches: list[_Stretch], allowed: float, origin: float) -> Head:
    """One head from neighbouring stretches: each is shifted by an affine score so that it takes over at its break."""
    keys, biases = [stretches[0].keys], [stretches[0].biases]
    previous = stretches[0]
    for current in stretches[1:]:
        place = current.low
        reach = min(current.high - place, place - previous.low)
        distance = reach * 10.0 ** np.linspace(-13, 0, 300)
        mismatch = np.maximum(
            np.abs(current(place - distance) - previous(place - distance)).max(axis=1),
            np.abs(current(place + distance) - previous(place + distance)).max(axis=1),
        )
        beta = _least_steepness(mismatch, distance, allowed)
        # All keys of the next stretch lie at least beta above those of this one, so the ratio of their masses grows
        # at least as fast as e^{beta t}: each stretch rules its own side and no other comes back.
        shift = keys[-1].max() - current.keys.min() + beta
        mass = (
            previous.log_mass(place) + (keys[-1][0] - previous.keys[0]) * place + (biases[-1][0] - previous.biases[0])
        )
        offset = mass - (current.log_mass(place) + shift * place)
        keys.append(current.keys + shift)
        biases.append(current.biases + offset)
        previous = current
    all_keys, all_biases = np.concatenate(keys), np.concatenate(biases)
    # Large keys belong where the coordinate is small: at the origin if that is an end, else shared between both ends.
    reference = {-1.0: all_keys.max(), 1.0: all_keys.min()}.get(origin, 0.5 * (all_keys.max() + all_keys.min()))
    all_keys = all_keys - reference
    values = np.concatenate([s.values for s in stretches])
    slopes = np.concatenate([s.slopes for s in stretches])
    return Head(all_keys[:, None], all_biases - all_biases.max(), values, slopes[:, :, None], "gates")


@dataclass(frozen=True)
class _Jumps:
    """What the first head carries: jumps of value and slope at the breaks (K, m), and the affine pieces between."""

    breaks: np.ndarray
    value: np.ndarray
    slope: np.ndarray
    intercepts: np.ndarray  # (K+1, m)
    slopes: np.ndarray  # (K+1, m)

    def piece(self, i: int, t: np.ndarray) -> np.ndarray:
        return self.intercepts[i] + self.slopes[i] * t[:, None]


def _measure_jumps(f: LineValues, breaks: list[float], scale: float, check: Callable[[], None]) -> _Jumps:
    ends = np.array([-1.0, *breaks, 1.0])
    values, slopes = [], []
    for i, place in enumerate(breaks):
        check()
        count_work(_WORK_OF_BREAK)
        width = 0.25 * min(place - ends[i], ends[i + 2] - place)
        left_value, left_slope = _one_sided(f, place, width, -1)
        right_value, right_slope = _one_sided(f, place, width, +1)
        noise = 1e-10 * scale
        value, slope = right_value - left_value, right_slope - left_slope
        seen = _step_at(f, place, width)
        misled = np.abs(value - seen) > 1e-3 * np.abs(value) + noise  # an unbounded slope: no polynomial shows it
        value, slope = np.where(misled, seen, value), np.where(misled, 0.0, slope)
        values.append(np.where(np.abs(value) < noise, 0.0, value))
        slopes.append(np.where(np.abs(slope) < noise / width, 0.0, slope))
    value, slope = np.array(values), np.array(slopes)
    knots = np.array(breaks)
    piece_slopes = np.concatenate([np.zeros((1, slope.shape[1])), np.cumsum(slope, axis=0)]) - 0.5 * slope.sum(axis=0)
    intercepts = np.concatenate([np.zeros((1, slope.shape[1])), np.cumsum(value - slope * knots[:, None], axis=0)])
    middles = 0.5 * (ends[:-1] + ends[1:])
    intercepts = intercepts - (intercepts + piece_slopes * middles[:, None]).mean(axis=0)
    return _Jumps(knots, value, slope, intercepts, piece_slopes)


def fit_pieces(problem: Problem, breaks: list[float]) -> Fit | None:
    """Two heads (or one) for a target of one variable with the given breaks; None if a stretch cannot be met."""
    budget, tolerance, m = problem.budget, problem.tolerance, problem.outputs

    def f(t: np.ndarray) -> np.ndarray:
        return problem.function(t[:, None])

    samples = f(np.linspace(-1, 1, 2001))
    scale = scaling_of(samples).scale
    ends = [-1.0, *breaks, 1.0]
    none = np.zeros((1, m))
    jumps = _Jumps(np.zeros(0), none[:0], none[:0], none, none)
    if breaks:
        jumps = _measure_jumps(f, breaks, scale, budget.check)
    heads: list[Head] = []
    share = 0.2 * tolerance
    jump = np.abs(jumps.value).max(axis=1)
    if np.any(jumps.slope) or np.any(jump > 0):
        steepness = np.maximum(50.0, _TWO_GATE * np.abs(jumps.slope).max(axis=1) / share)
        # No continuous network meets a jump in the sup norm: switch within a narrow band and let the caller say so.
        steepness = np.where(jump > share, np.maximum(steepness, np.log(1 + jump / share) / JUMP_BAND), steepness)
        real = np.any(jumps.slope != 0, axis=1) | (jump > 0)  # a kink that another branch hides needs no token
        kept = np.concatenate([[True], real])
        heads.append(gate_head(jumps.breaks[real], jumps.intercepts[kept], jumps.slopes[kept], steepness[real]))

    found: list[tuple[float, float, AxisFit, float, np.ndarray]] = []
    cap = min(problem.value_cap(scale), 20.0)
    for i in range(len(ends) - 1):

        def rest(t: np.ndarray, i: int = i) -> np.ndarray:
            return f(t) - jumps.piece(i, t)

        waiting = [(ends[i], ends[i + 1])]
        done = 0
        while waiting:
            budget.check()
            low, high = waiting.pop()
            fit, local_scale, middle = _fit_stretch(rest, low, high, 0.3 * tolerance, cap)
            if fit.error * local_scale <= 0.3 * tolerance:
                found.append((low, high, fit, local_scale, middle))
                done += 1
                continue
            if high - low < 1e-13 or done + len(waiting) > _MOST_STRETCHES:
                return None
            place = _split_place(rest, fit, low, high, local_scale, middle)
            waiting += [(place, high), (low, place)]
    origin = 0.0 if breaks else _singular_end(found[0][:2], found[-1][:2])
    stretches = [_stretch(*one, origin) for one in found]
    flat = all(len(s.keys) == 1 for s in stretches)
    same = flat and all(
        np.abs(s.values - stretches[0].values).max() + np.abs(s.slopes - stretches[0].slopes).max() <= 0.1 * tolerance
        for s in stretches
    )
    if same and heads:
        heads = [heads[0].plus_affine(stretches[0].values[0], stretches[0].slopes[0][:, None])]
    else:
        heads.append(_join(stretches, share, origin))
    reason = (
        f"{len(breaks)} kink(s) at t = "
        + ", ".join(f"{x:.4g}" for x in breaks[:6])
        + (" ..." if len(breaks) > 6 else "")
    )
    if not breaks:
        reason = f"a singularity: {len(stretches)} stretches graded towards it"
    how = "hard gates between affine pieces" if same and heads else "gated kinks plus a gated spectral rest"
    off = "a continuous network is off by at least half of it there"
    seen_jumps = tuple(
        f"the target jumps by {size:.4g} at t = {place:.6g}: {off}"
        for place, size in zip(breaks, jump, strict=True)
        if size > 2 * tolerance
    )
    error = line_error(f, heads, breaks or [-1.0, 1.0], origin)
    return Fit(heads, error, "pieces", (reason, how, *seen_jumps), (origin,) if origin else None, seen_jumps)


def _singular_end(first: tuple[float, float], last: tuple[float, float]) -> float:
    """The end that stretches crowd against, or 0: measured from there, t is small where scores are steep."""
    sizes = first[1] - first[0], last[1] - last[0]
    if min(sizes) > 1e-3:
        return 0.0
    return -1.0 if sizes[0] < sizes[1] else 1.0


def line_error(f: LineValues, heads: list[Head], breaks: list[float], origin: float) -> float:
    """Sup error on a dense check that also looks closely round every break, where gates hide."""
    close = 10.0 ** np.linspace(-13, -1, 160)
    t = np.concatenate([np.linspace(-1, 1, 12007), *[x + side * close for x in breaks for side in (-1, 1)]])
    t = np.unique(np.clip(t, -1, 1))
    total = sum(head((t - origin)[:, None]) for head in heads)
    return float(np.abs(total - f(t)).max())
