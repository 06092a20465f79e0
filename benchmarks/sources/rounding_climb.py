"""A search for the inputs at which a transpiled chain of layers is farthest from its source.

`climbed` moves all coordinates at once, and every move draws the rounding of all sums anew, so that it finds what the
best of some thousand draws finds. Here points are built on purpose.

*Points wanted* are those where many large sums meet large slopes: `promise` says what the steps below can make of the
last places there, and flips of ends go uphill in it.

*Rounding*: one coordinate after another. As long as the coordinates after k are 0 their products add nothing and no
rounding, whatever the order of the sums, so the error

    sum_h g_h (s^_h - s_h),   g = the slope of one output with respect to the first layer's sums, at the point wanted,

is that of the first k coordinates, and of many numbers near the wanted x_k the one is taken that makes it largest. In
float64, where a number has room for it, most of these are aimed (`lattice_climb.py`), the others drawn; in float32
nearly all of them are looked at, in fixed point, and the best ones as they are rounded. Errors of the steps then add up
instead of cancelling.

*Later sums* are drawn: the last coordinates take any of the numbers that were nearly as good for the first layer, many
times, which leaves its errors and draws those of all other sums anew.

*Last places*: the best points are moved by some units in the last place of some coordinates, and what is best goes on.
That leaves most sums of most layers as they were, so that what is gained stays.

*Outputs*: points where outputs are largest, by flips of ends; a network that rounds once, at its end, errs most there.

*Tokens*: what heads deviate by in real arithmetic, delta(s), is smooth; sum_h g_h delta(s_h) is climbed by its
gradient.

Whatever is found counts as it runs: `farthest` compares the network in its dtype with the source in long double, or,
where it runs in float32 throughout, in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn.functional import linear

from softwright.transpiler.neuron_heads import apply_table
from sources.lattice_climb import NEURONS, aimed

_POINTS, _DRAWS = 16, 9000
_BUILT = 2  # of the points wanted
_CHOICES = {torch.float64: 1 << 13, torch.float32: 1 << 27}  # for each coordinate; in float32 times neurons
_LOOKED_AT = 64  # of these, more closely; and so many are kept
_COMBINED, _AT_ONCE = {torch.float64: 40_000, torch.float32: 400_000}, 20_000  # points of these
_LATE = 8  # coordinates of which one is drawn from what was kept
_REACH = 0.012  # of the range, around the numbers wanted
_DEVIATIONS, _LATER = 4.5, 2.0  # standard deviations that draws are worth, of the first layer's sums and of the others
_STEPS, _BEST = 200, 64  # in last places, and points that are kept
_MOVES = 1 << 24  # of a step, times weights of the source; four times as many where float64 is exact enough
_STARTS = 24  # of searches in a lattice, for each coordinate of a point


def farthest(built: Any, low: np.ndarray, high: np.ndarray, seed: int = 0, rounds: int = 600) -> float:
    """The largest deviation found."""
    rng = np.random.default_rng(seed)
    source, kind, sides = built.source, built.network.dtype, (low, high)

    single = kind == torch.float32 and built.network.layout != "double"

    def deviation(points: np.ndarray, exact: bool = not single) -> np.ndarray:
        """Float64 is as good as exact beside float32, and faster; what is found counts as `exact`."""
        return np.abs(built(points) - source(points, exact=exact)).max(axis=1)

    points, lists = [fitting(tops(source, sides, rng, rounds), low, high, kind)], []
    if built.network.layout != "double":  # whose sums are as good as exact
        x, place = wanted(source, sides, rng, 3 * rounds, kind == torch.float64)
        for start, slope in zip(x[:_BUILT], slopes(source, x[:_BUILT], place[:_BUILT])[0], strict=True):
            lists.append(chosen(built.network.steps[0], start, slope, sides, rng))
        points.append(np.array([[best[0] for best in one] for one in lists]))
    points.append(fitting(risen(built.network.steps[0], source, sides, rng), low, high, kind))
    tried = np.concatenate(points)
    off = deviation(tried)
    found = float(off.max())
    ends = []
    for one in lists:
        best, off = combined(deviation, one, rng, _COMBINED[kind])
        ends.append((off, best))
    for start in tried[np.argsort(-deviation(tried))[:2]]:
        near = np.repeat(start[None], _DRAWS, axis=0)
        last = max(1, len(low) // 32)
        near[:, -last:] += rng.uniform(-1, 1, size=(_DRAWS, last)) * 0.01 * (high - low)[-last:]
        near = fitting(near, low, high, kind)
        off = deviation(near)
        ends.append((float(off.max()), near[off.argmax()]))
    ends.sort(key=lambda end: -end[0])
    moves = max(50, _MOVES * (4 if single else 1) // sum(layer.weight.size for layer in source.layers))
    return max(found, ends[0][0], settled(deviation, np.array([end[1] for end in ends[:2]]), sides, kind, rng, moves))


def combined(deviation: Any, lists: list[np.ndarray], rng: np.random.Generator, count: int) -> tuple[np.ndarray, float]:
    """The best of `count` points whose last coordinates are any of those that are nearly as good for early sums: later
    sums are drawn anew while the first ones stay."""
    point, found = np.array([one[0] for one in lists]), 0.0
    start, late = point, range(len(lists) - max(1, len(lists) // _LATE), len(lists))
    for size in np.diff(np.linspace(0, count, max(2, count // _AT_ONCE)).astype(int)):
        near = np.repeat(start[None], size, axis=0)
        for k in late:
            near[:, k] = rng.choice(lists[k], size=size)
        off = deviation(near)
        if off.max() > found:
            found, point = float(off.max()), near[off.argmax()]
    return point, found


def settled(
    deviation: Any, points: np.ndarray, sides: Any, kind: torch.dtype, rng: np.random.Generator, moves: int
) -> float:
    """The largest deviation that moves of up to 2^9 units in the last places of a few coordinates lead to, again and
    again from one of the best points so far."""
    low, high = sides
    late = np.arange(1, len(low) + 1) / len(low)
    best = deviation(np.tile(points, (64, 1)))[: len(points)]  # as many at once as take a kernel's usual order
    for _ in range(_STEPS):
        start = points[rng.integers(len(points), size=moves)]
        place = np.spacing(np.abs(start).astype(np.float64 if kind == torch.float64 else np.float32)).astype(np.float64)
        chance = late ** rng.choice([0, 0, 2, 8], size=(moves, 1))  # of each coordinate; late ones keep early sums
        chance *= rng.integers(1, 4, size=(moves, 1)) / chance.sum(axis=1, keepdims=True)
        some = rng.random((moves, len(low))) < chance
        units = np.rint(rng.uniform(-1, 1, size=some.shape) * 2.0 ** rng.integers(0, 10, size=(moves, 1)))
        near = fitting(start + units * place * some, low, high, kind)
        best, points = np.concatenate([best, deviation(near)]), np.concatenate([points, near])
        _, different = np.unique(best, return_index=True)
        keep = different[::-1][:_BEST]
        best, points = best[keep], points[keep]
    return float(best.max())


def fitting(points: np.ndarray, low: np.ndarray, high: np.ndarray, kind: torch.dtype) -> np.ndarray:
    """Points as the dtype stores them, inside the range."""
    points = np.clip(points, low, high)
    if kind == torch.float64:
        return points
    rounded = points.astype(np.float32)
    rounded = np.where(rounded < low, np.nextafter(rounded, np.float32(np.inf)), rounded)
    return np.where(rounded > high, np.nextafter(rounded, np.float32(-np.inf)), rounded).astype(np.float64)


def slopes(source: Any, x: np.ndarray, place: np.ndarray) -> list[np.ndarray]:
    """d output[place]/d s of every layer, (n, H) each: backwards through the layers, slopes by differences."""
    sums, a = [], x
    for layer in source.layers:
        sums.append(a @ layer.weight.T + layer.bias)
        a = layer.activation(sums[-1])
    g, found = np.eye(source.outputs)[place], []
    for layer, s, after in zip(source.layers[::-1], sums[::-1], (None, *source.layers[:0:-1]), strict=True):
        g = g if after is None else g @ after.weight
        h = 1e-6 * (1 + np.abs(s))
        g = g * (layer.activation(s + h) - layer.activation(s - h)) / (2 * h)
        found.append(g)
    return found[::-1]


def promise(source: Any, x: np.ndarray, place: np.ndarray, aim: bool) -> np.ndarray:
    """What choosing can make of roundings at points, in units of u: over coordinates, slope times last place of the
    partial sums of the first layer, half of it added up over the neurons that can be aimed at together, or what drawing
    finds of their Euclidean norm; and of all later roundings together, which are drawn."""
    first, later, a = np.zeros(len(x)), np.zeros(len(x)), x
    for layer, g in zip(source.layers, slopes(source, x, place), strict=True):
        products = a[:, None, :] * layer.weight
        partial = np.abs(np.cumsum(products, axis=2)) + 1e-30  # (n, H, d)
        gains = np.abs(g)[:, :, None] * np.ldexp(1.0, np.frexp(partial)[1] - 1)
        if layer is not source.layers[0]:
            later += (gains**2).sum(axis=(1, 2))
        elif aim:
            first = 0.5 * np.sort(gains, axis=1)[:, -NEURONS:].sum(axis=(1, 2))
        else:
            first = _DEVIATIONS * np.sqrt((gains**2).sum(axis=1) / 3).sum(axis=1)
        a = layer.activation(products.sum(axis=2) + layer.bias)
    return first + _LATER * np.sqrt(later / 3)


def wanted(source: Any, sides: Any, rng: np.random.Generator, rounds: int, aim: bool) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, d), and the output of each, where the errors of sums can be made large: flips of some ends, uphill.
    The best first."""
    low, high = sides
    d, starts = len(low), 20 * _POINTS
    x = np.where(rng.random((starts, d)) < rng.random((starts, 1)), low, high)
    place = rng.integers(source.outputs, size=starts)
    value = promise(source, x, place, aim)
    keep = np.argsort(-value)[:_POINTS]
    x, place, value = x[keep], place[keep], value[keep]
    for _ in range(rounds):
        to = np.where(rng.random(x.shape) < 0.4, low, np.where(rng.random(x.shape) < 0.6, high, rng.uniform(low, high)))
        moved = np.where(rng.random(x.shape) < 1.5 / d, to, x)
        other = np.where(rng.random(len(place)) < 0.1, rng.integers(source.outputs, size=len(place)), place)
        rate = promise(source, moved, other, aim)
        better = rate > value
        x, place = np.where(better[:, None], moved, x), np.where(better, other, place)
        value = np.where(better, rate, value)
    order = np.argsort(-value)
    return x[order], place[order]


def tops(source: Any, sides: Any, rng: np.random.Generator, rounds: int) -> np.ndarray:
    """Points (n, d) where an output of the source is large, the largest first."""
    low, high = sides
    x = np.where(rng.random((4 * _POINTS, len(low))) < 0.5, low, high)
    value = np.abs(source(x)).max(axis=1)
    for _ in range(rounds):
        moved = np.where(rng.random(x.shape) < 1.5 / len(low), np.where(rng.random(x.shape) < 0.5, low, high), x)
        rate = np.abs(source(moved)).max(axis=1)
        better = rate > value
        x, value = np.where(better[:, None], moved, x), np.where(better, rate, value)
    return x[np.argsort(-value)]


def chosen(heads: Any, x: np.ndarray, g: np.ndarray, sides: Any, rng: np.random.Generator) -> list[np.ndarray]:
    """For each coordinate numbers near the one wanted at which the errors of the first layer's sums add up, the best
    ones, the best of all first.

    The bias is left out until the last coordinate: it is added at the end, and its rounding does not stay."""
    return (_drawn if heads.weight.dtype == torch.float32 else _aimed)(heads, x, g, sides, rng)


def _drawn(heads: Any, start: np.ndarray, g: np.ndarray, sides: Any, rng: np.random.Generator) -> list[np.ndarray]:
    """In float32, where nearly all numbers that near can be looked at: each product is added in one rounding, in the
    order of the inputs, as kernels do (where they do not, what is found is what drawing finds)."""
    low, high = sides
    on = np.flatnonzero(g)
    weight, bias, g = heads.weight.double().numpy()[on], heads.bias.double().numpy()[on], g[on]
    found, ran, count = [], np.zeros(len(on)), _CHOICES[torch.float32] // max(1, len(on))
    for k in range(len(start)):
        reach = _REACH * (high - low)[k]
        near = rng.uniform(max(low[k], start[k] - reach), min(high[k], start[k] + reach), size=count)
        near = np.unique(fitting(near, low[k], high[k], torch.float32))
        near = near[np.argsort(-_seen(near, ran, weight[:, k], g))[:_LOOKED_AT]]
        off = _lost(near, ran, weight[:, k], bias, k == len(start) - 1) @ g
        found.append(near[np.argsort(-off)])
        ran = (ran + found[k][0] * weight[:, k]).astype(np.float32).astype(np.float64)
    return found


def _seen(x: np.ndarray, ran: np.ndarray, weight: np.ndarray, g: np.ndarray) -> np.ndarray:
    """g times what rounding ran + x weight adds, about: where x is j times its last place, this depends on the fraction
    of c_h + j a_h, in units of the last place of the sum, which 32 bits hold."""
    unit = float(np.spacing(np.abs(x).max().astype(np.float32)))
    middle = unit * np.rint(np.median(x) / unit)
    places = np.spacing(np.abs(ran + middle * weight).astype(np.float32)).astype(np.float64)

    def turns(number: np.ndarray) -> np.ndarray:
        return (np.mod(number, 1.0) * 2.0**32).astype(np.uint64).astype(np.uint32)

    rate, phase = turns(weight * unit / places), turns((ran + middle * weight) / places)
    steps = np.rint((x - middle) / unit).astype(np.int64).astype(np.uint32)
    size = (-g * places / 2.0**32).astype(np.float32)
    parts = np.array_split(steps, max(1, len(x) * len(g) >> 18))
    return np.concatenate([(part[:, None] * rate + phase).view(np.int32).astype(np.float32) @ size for part in parts])


def _lost(x: np.ndarray, ran: np.ndarray, weight: np.ndarray, bias: np.ndarray, last: bool) -> np.ndarray:
    """What rounding adds when x * weight (n, H) and, at the last, the bias are added."""
    exact = ran + x[:, None] * weight
    rounded = exact.astype(np.float32)
    if last:
        exact, rounded = exact + bias, rounded + bias.astype(np.float32)
    return rounded - exact


def _aimed(heads: Any, start: np.ndarray, g: np.ndarray, sides: Any, rng: np.random.Generator) -> list[np.ndarray]:
    """In float64, by lattices, and by drawing what the kernel runs."""
    low, high = sides
    weight, bias = heads.weight.numpy(), heads.bias.numpy()
    wide, on = weight.astype(np.longdouble), np.flatnonzero(g)
    point, sums = np.zeros((1, len(start))), np.zeros(len(weight), dtype=np.longdouble)  # and the exact sums so far
    best = []

    def run(tried: np.ndarray, last: bool) -> np.ndarray:
        with torch.no_grad():
            return linear(torch.from_numpy(tried), heads.weight, heads.bias if last else None).numpy()

    for k in range(len(start)):
        reach = 0.01 * (high - low)[k]
        choices = fitting(start[k] + rng.uniform(-1, 1, size=_CHOICES[torch.float64]) * reach, low[k], high[k],
                          torch.float64)  # fmt: skip
        if k > 0:
            so_far = run(np.repeat(point, len(choices), axis=0), False)[0]
            for one in choices[:_STARTS]:
                found = aimed(one, reach, so_far, weight[:, k], g, rng)
                choices = np.concatenate([choices, fitting(found, low[k], high[k], torch.float64)])
        tried = np.repeat(point, len(choices), axis=0)
        tried[:, k] = choices
        true = sums[on] + choices[:, None] * wide[on, k]
        if k == len(start) - 1:
            true = true + bias[on]
        off = (run(tried, k == len(start) - 1)[:, on] - true).astype(np.float64) @ g[on]
        best.append(choices[np.argsort(-off)[:_LOOKED_AT]])
        point[0, k] = best[k][0]
        sums += point[0, k] * wide[:, k]
    return best


def risen(heads: Any, source: Any, sides: Any, rng: np.random.Generator, starts: int = 48, steps: int = 300) -> Any:
    """Points where what the first layer's heads deviate by in real arithmetic adds up in one output."""
    low, high = sides
    layer = source.layers[0]
    x = np.where(
        rng.random((starts, len(low))) < 0.5, rng.uniform(low, high, size=(starts, len(low))), (low + high) / 2
    )
    place = rng.integers(source.outputs, size=starts)
    sign = np.where(rng.random(starts) < 0.5, -1.0, 1.0)[:, None]
    tokens = heads.tokens.double()

    def delta(s: np.ndarray) -> np.ndarray:
        return apply_table(torch.from_numpy(s), tokens, "softmax").numpy() - layer.activation(s)

    for step in np.geomspace(0.02, 2e-4, steps):
        s = x @ layer.weight.T + layer.bias
        slope = (delta(s + 2e-3) - delta(s - 2e-3)) / 4e-3
        upwards = (sign * slopes(source, x, place)[0] * slope) @ layer.weight
        size = np.abs(upwards).max(axis=1, keepdims=True)
        x = np.clip(x + step * (high - low) * upwards / np.where(size > 0, size, 1.0), low, high)
    return x
