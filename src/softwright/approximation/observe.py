"""The independent check: the network that will run, against the target, at points that no builder has seen.

Error hides where builders do not look: a gate of width 1/beta sits between sample points, a corner of the box is missed
by random points. So the check takes random points, faces and corners, points at the scale of every crossing of the two
leading scores, and then climbs from the worst points found. The result is a sample (`observed_error`), never a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.approximation.problem import probe_points
from softwright.chunks import rows_within
from softwright.domain import Box
from softwright.precision import name_of
from softwright.result.observed import Observed

if TYPE_CHECKING:
    from softwright.attention import AttentionNetwork, Head
    from softwright.attention.composition import ComposedNetwork
    from softwright.targets import Target

_MOST_PAIRS = 60_000_000  # queries times tokens spent on one check
_CLIMBERS, _STEPS = 40, 14  # the worst points, and how often each is moved


def crossing_points(head: Head, count: int, seed: int) -> np.ndarray:
    """Unit-frame points at the scale of the gates: where the two leading scores are equal, and beside it."""
    offsets = np.concatenate([-np.geomspace(0.01, 60, 16), [0.0], np.geomspace(0.01, 60, 16)])
    if head.dim == 1:
        order = np.argsort(head.keys[:, 0], kind="stable")
        keys, biases = head.keys[order, 0], head.biases[order]
        steps = np.diff(keys)
        good = np.flatnonzero(steps > 0)[:4000]
        places = -np.diff(biases)[good] / steps[good]
        inside = np.abs(places) <= 1
        points = places[inside, None] + offsets / steps[good][inside, None]
        return np.clip(points.reshape(-1, 1), -1, 1)
    if head.tokens < 2:
        return np.zeros((0, head.dim))
    points = np.random.default_rng(seed).uniform(-1, 1, (max(20, count // len(offsets)), head.dim))
    leaders, gap = np.empty((len(points), 2), dtype=np.int64), np.empty(len(points))
    step = rows_within(8 * 3 * head.tokens)  # scores, their order, and a copy
    for start in range(0, len(points), step):
        scores = points[start : start + step] @ head.keys.T + head.biases
        found = np.argpartition(scores, -2, axis=1)[:, -2:]  # (q, 2)
        rows = np.arange(len(scores))
        leaders[start : start + step] = found
        gap[start : start + step] = scores[rows, found[:, 1]] - scores[rows, found[:, 0]]
    direction = head.keys[leaders[:, 1]] - head.keys[leaders[:, 0]]  # (q, d)
    square = (direction**2).sum(axis=1)
    good = square > 0
    points, gap, direction, square = points[good], gap[good], direction[good], square[good]
    on_wall = points - (gap / square)[:, None] * direction
    away = (offsets[None, :, None] / square[:, None, None]) * direction[:, None]  # (q, 33, d): scores differ by offsets
    near = (on_wall[:, None] + away).reshape(-1, head.dim)
    return near[np.all(np.abs(near) <= 1, axis=1)]


def check_points(heads: Sequence[Head], box: Box, count: int, seed: int) -> np.ndarray:
    """Points of the box (n, d) for one check of heads in the unit frame."""
    parts = [probe_points(box.dim, count, seed)]
    if box.dim == 1:
        parts.append(np.linspace(-1, 1, count)[:, None])
    parts += [crossing_points(head, max(400, count // 4), seed) for head in heads]
    return box.from_unit(np.concatenate(parts))


def observed(network: AttentionNetwork, target: Target, heads: Sequence[Head]) -> Observed:
    """The largest error seen, at the points that a target is given at, or wherever a check looks."""
    given = target.given_points()
    if given is None:
        return sampled_error(network, target, heads=heads)
    points, values = given
    errors = np.abs(network.evaluate(points) - values).max(axis=1)
    worst = int(errors.argmax())
    return Observed(float(errors[worst]), tuple(points[worst].tolist()), len(errors))


def sampled_error(
    network: AttentionNetwork,
    target: Callable[[np.ndarray], np.ndarray],
    *,
    heads: Sequence[Head] | None = None,
    count: int = 20_000,
    seed: int = 977,
) -> Observed:
    """The largest error seen; points are rounded to the network's dtype first, so that both sides see the same input.

    `heads` are those of the network as data, if they are at hand.
    """
    box = network.box
    heads = network.heads() if heads is None else heads
    origin = box.to_unit(network.center.double().numpy())
    heads = [head.along(np.eye(box.dim), -origin) if np.any(np.abs(origin) > 0.5) else head for head in heads]
    count, climbers = fresh_points(target, int(max(2000, min(count, _MOST_PAIRS // network.tokens))))
    if climbers == _CLIMBERS:
        return climbed(network, target, check_points(heads, box, count, seed), seed)
    return climbed(network, target, box.from_unit(probe_points(box.dim, count, seed)), seed, climbers=climbers)


def fresh_points(target: Any, most: int) -> tuple[int, int]:
    """How many points a check may look at, and from how many it may climb: `most`, unless queries are limited."""
    left = getattr(target, "left", None)  # a plain callable has no limit
    if left is None:
        return most, _CLIMBERS
    allowed = max(left // 2, 1) if left > 2 * _STEPS else left  # as many again for a check of the next attempt
    climbers = min(_CLIMBERS, allowed // (3 * _STEPS))
    return max(min(most, allowed - climbers * _STEPS), 1), climbers


def climbed(
    network: AttentionNetwork | ComposedNetwork,
    target: Callable[[np.ndarray], np.ndarray],
    points: np.ndarray,
    seed: int = 977,
    counts: Callable[[np.ndarray], np.ndarray] | None = None,
    climbers: int = _CLIMBERS,
) -> Observed:
    """The largest error at points (n, d) of the box and on the way up from the worst of them.

    `counts` says which points (n,) something is claimed of; all unless given.
    """
    box = network.box
    precision = np.dtype(name_of(network.dtype))

    def inside(points: np.ndarray) -> np.ndarray:
        cast = points if precision == np.float64 else points.astype(precision).astype(np.float64)
        here = box.contains(cast)  # rounding to float32 may step over the edge
        return cast if here.all() else cast[here]

    def error_at(points: np.ndarray) -> np.ndarray:
        off = np.abs(network.evaluate(points) - target(points))  # (n, m)
        errors = off[:, 0] if off.shape[1] == 1 else off.max(axis=1)
        return errors if counts is None else np.where(counts(points), errors, 0.0)

    points = inside(points)
    errors = error_at(points)
    total = len(points)
    rng = np.random.default_rng(seed)
    few = min(max(climbers, 1), len(errors))
    first = np.argpartition(-errors, few - 1)[:few]
    first = first[np.argsort(-errors[first], kind="stable")]
    best, best_errors = points[first].copy(), errors[first].copy()
    step = 0.05 * box.halfwidth
    for _ in range(_STEPS if climbers else 0):  # climb from the worst points with shrinking random steps
        trial = np.clip(best + step * rng.normal(size=best.shape), box.lower, box.upper)
        if precision != np.float64:
            trial = np.clip(trial.astype(precision).astype(np.float64), box.lower, box.upper)
        trial_errors = error_at(trial)
        better = trial_errors > best_errors
        best[better], best_errors[better] = trial[better], trial_errors[better]
        total += len(trial)
        step = 0.7 * step
    top = int(best_errors.argmax())
    return Observed(float(best_errors[top]), tuple(best[top].tolist()), total)
