"""A6 again: a network of relu, leaky relu, hard tanh or hard sigmoid units, its matrices in the file, layer by layer.

On [-U, U] each activation is a sum of slope clip(scale u + shift, a, b), of which U is read off the stored points:

    relu          clip(u, 0, U)                          hard tanh      clip(u, -1, 1)
    leaky relu    clip(u, 0, U) + slope clip(u, -U, 0)   hard sigmoid   clip(u/6 + 1/2, 0, 1)

What places numbers is compared entry by entry, and so is the last linear map. A hidden layer has for every unit j

    r_j    a bound of |u_j| in the network that was asked for: sum_k |W_jk| |h_k| + |t_j|
    e_j    how far its unit is from that of the network asked for, e = 0 for the inputs:

        e_j = Lip sum_k |W_jk| e_k + sum over heads of |slope| (E + delta_j + excess_j),

E what its head is off the clip (`interpolation`), for every real number; delta_j what the stored linear map is off
scale (W h + t)_j + shift, at |h_k| + e_k; excess_j what r_j + sum_k |W_jk| e_k exceeds U. The output is off by
sum_k |W_k| e_k at most. No part of the file says what these numbers should be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, fmpq

from softwright.checker.entries import check_entries, is_float, is_size, is_text, is_whole
from softwright.checker.limits import check_time
from softwright.checker.proved import Proved
from softwright.checker.refusal import require
from softwright.checker.theorems.clipping import plain_attention
from softwright.checker.theorems.interpolation import array_of, blank, largest, ones_at, rational, rationals, same
from softwright.checker.theorems.points import read_points
from softwright.checker.theorems.reading import NOT_DRAWN, REAL_ARITHMETIC, Stage, TheoremFile, in_full

ZERO = arb(0)
NOUGHT, ONE, SIXTH, HALF = fmpq(0), fmpq(1), fmpq(1, 6), fmpq(1, 2)
SMALLEST_RANGE = 1e-9  # that the construction gives to units


@dataclass(frozen=True)
class Clip:
    """slope clip(scale u + shift, low, high); an end that is None is where |u| ends."""

    low: fmpq | None
    high: fmpq | None
    slope: float = 1.0
    scale: fmpq = ONE
    shift: fmpq = NOUGHT


CLIPS: dict[str, Callable[[float], list[Clip]]] = {
    "relu": lambda slope: [Clip(NOUGHT, None)],
    "leaky_relu": lambda slope: [Clip(NOUGHT, None), Clip(None, NOUGHT, slope)],
    "hard_tanh": lambda slope: [Clip(-ONE, ONE)],
    "hard_sigmoid": lambda slope: [Clip(NOUGHT, ONE, 1.0, SIXTH, HALF)],
}
BOUNDED = ("hard_tanh", "hard_sigmoid")
SIZES = {
    "activation": lambda value: is_text(value) and value in CLIPS,
    **dict.fromkeys(("points", "width", "depth", "dim", "outputs"), is_size),
    **dict.fromkeys(("radius", "slope", "eps0"), is_float),
    "seed": is_whole,
}


@dataclass(frozen=True)
class Units:
    """A hidden layer: |h_k| of the network asked for, how far ours are from them, and of both the |u| before."""

    sizes: list[arb]
    errors: list[arb]
    reach: list[arb]
    beta: fmpq


def read_layers(file: TheoremFile) -> list[tuple[np.ndarray, np.ndarray]]:
    """W (out, in) and t (out,) of every layer, the last linear, in the sizes that the file names."""
    require(file.drawn, NOT_DRAWN)
    check_entries(file.sizes, SIZES, "the sizes")
    check_entries(file.drawn, {"layers": lambda value: isinstance(value, list)}, "what was drawn")
    sizes, given = file.sizes, file.drawn["layers"]
    require(len(given) == sizes["depth"] + 1, "there are more or fewer layers than the depth says")
    layers, before = [], sizes["dim"]
    for entry in given:
        check_entries(entry, dict.fromkeys(("weights", "offsets"), is_list), "a layer")
        units = len(entry["offsets"])
        require(units, "a layer has no units")
        W, t = (array_of(entry[name], shape, name) for name, shape in named_shapes(units, before))
        layers.append((W, t))
        before = units
    widest = max(len(t) for _, t in layers[:-1])
    require(widest == sizes["width"] and before == sizes["outputs"], "the layers are not as wide as the sizes say")
    require(file.inputs == (sizes["dim"], 1), "the input has another shape than the sizes say")
    require(sizes["points"] > widest, "the theorem needs more points than units of a layer")
    require(sizes["radius"] > 0 and sizes["eps0"] > 0, "the sizes are out of range")
    return layers


def is_list(value: Any) -> bool:
    return isinstance(value, list)


def named_shapes(units: int, before: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return ("weights", (units, before)), ("offsets", (units,))


def prove(file: TheoremFile) -> Proved:
    """The largest |network - asked| over |x| <= radius."""
    *hidden, (W_out, t_out) = read_layers(file)
    sizes = file.sizes
    stages = file.chain(*("sum_of_linear", "attention") * len(hidden), "sum_of_linear")
    units = Units([arb(rational(sizes["radius"]))] * sizes["dim"], [ZERO] * sizes["dim"], [], NOUGHT)
    beta, first = NOUGHT, arb(SMALLEST_RANGE)
    for i, (W, t) in enumerate(hidden):
        units = next_units(stages[2 * i], stages[2 * i + 1], W, t, units, sizes, column=i == 0)
        beta = max(beta, units.beta)
        first = first.max(largest(units.reach)) if i == 0 else first
    last = stages[-1]
    ones_at(last["P"], (1, 1, 1), 0, "the last P")
    same(last["Q"], W_out.T[None], "the last Q")
    same(last["R"], t_out[None], "the last R")
    errors = [weighed(row, units.errors) for row in moduli(W_out)]
    return Proved(
        statement=f"the output is within the bound of the {sizes['activation']} network's, for |x| <= "
        f"{in_full(sizes['radius'])}",
        exact=largest(errors),
        rounding=None,
        method="theorem A6",
        quantities={"beta": arb(beta), "eps0": arb(sizes["eps0"]), "largest first unit": first},
        at_most={"hidden error": largest(units.errors)},
        assumptions=REAL_ARITHMETIC,
    )


def moduli(W: np.ndarray) -> list[list[arb]]:
    return [[arb(x) for x in row] for row in np.abs(W).tolist()]


def weighed(row: list[arb], sizes: list[arb]) -> arb:
    check_time()
    return sum((w * size for w, size in zip(row, sizes, strict=True)), ZERO)


def next_units(
    tokens: Stage, attention: Stage, W: np.ndarray, t: np.ndarray, units: Units, sizes: dict[str, Any], column: bool
) -> Units:
    """The units after a layer. The input of the network is a column of numbers, hidden units are a row."""
    N, before = W.shape
    p, clips = sizes["points"], CLIPS[sizes["activation"]](sizes["slope"])
    check_layer(tokens, attention, clips, (before, 1) if column else (1, before), N, p)
    weights, offsets = moduli(W), [arb(x) for x in np.abs(t).tolist()]
    reach = [(weighed(row, units.sizes) + size).upper() for row, size in zip(weights, offsets, strict=True)]
    passed = [weighed(row, units.errors).upper() for row in weights]
    Q, R = tokens["Q"], tokens["R"]
    d = len(Q) // len(clips)
    steepest = max(abs(rational(clip.slope) * clip.scale) for clip in clips)
    errors, beta = [arb(steepest) * e for e in passed], NOUGHT
    entering = [size + error for size, error in zip(units.sizes, units.errors, strict=True)]
    for h, clip in enumerate(clips):
        points = read_points(R[4 * h + 1], R[4 * h + 2], clip.low, clip.high)
        beta = max(beta, points.beta)
        error = points.clip_error(rationals(R[4 * h + 3]))
        stored = Q[h * d : (h + 1) * d, :, :N].reshape(before, N)  # one of d and n is 1
        ends = [abs(end) for end, known in ((points.low, clip.low), (points.high, clip.high)) if known is None]
        for j in range(N):
            delta = abs(rational(float(R[4 * h, j])) - clip.scale * rational(float(t[j])) - clip.shift)
            gaps = (abs(q - clip.scale * w) for q, w in zip(rationals(stored[:, j]), rationals(W[j]), strict=True))
            off = arb(delta) + sum((arb(g) * size for g, size in zip(gaps, entering, strict=True) if g), ZERO)
            excess = sum(((reach[j] + passed[j] - arb(end)).max(ZERO) for end in ends), ZERO)
            errors[j] += abs(arb(clip.slope)) * (error + off + excess)
    bounded = sizes["activation"] in BOUNDED
    return Units(
        sizes=[arb(1) if bounded else arb(steepest) * size for size in reach],
        errors=[error.upper() for error in errors],
        reach=reach,
        beta=beta,
    )


def check_layer(
    tokens: Stage, attention: Stage, clips: list[Clip], inputs: tuple[int, int], units: int, p: int
) -> None:
    """Everything but the linear map, the keys and the values: what places numbers, entry by entry.

    Rows of a token: (u, key, bias, value) for each head, and 1.
    """
    (d, n), heads = inputs, len(clips)
    rows, head = 4 * heads + 1, np.arange(heads)
    each = np.repeat(head, d)
    ones_at(tokens["P"], (heads * d, rows, d), (np.arange(heads * d), 4 * each, np.tile(np.arange(d), heads)), "P")
    Q, R = blank(tokens["Q"], (heads * d, n, p), "Q"), blank(tokens["R"], (rows, p), "R")
    Q[:, :, :units] = tokens["Q"][:, :, :units]
    same(tokens["Q"], Q, "Q")
    R[:-1] = tokens["R"][:-1]
    R[4 * head, units:], R[-1] = 0.0, 1.0
    same(tokens["R"], R, "R")
    plain_attention(attention, "T")
    both = np.arange(2)
    ones_at(attention["W_K"], (heads, 2, rows), (head[:, None], both, np.stack([4 * head + 1, 4 * head + 2], 1)), "W_K")
    last = np.full(heads, rows - 1)
    ones_at(attention["W_Q"], (heads, 2, rows), (head[:, None], both, np.stack([4 * head, last], 1)), "W_Q")
    W_V = blank(attention["W_V"], (heads, 1, rows), "W_V")
    W_V[head, 0, 4 * head + 3] = [clip.slope for clip in clips]
    same(attention["W_V"], W_V, "W_V")
    ones_at(attention["T"], (heads, p, units), (slice(None), np.arange(units), np.arange(units)), "T")
