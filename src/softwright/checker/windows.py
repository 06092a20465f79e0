"""Windows of the lines of a grid: the tokens that weigh something on a region, and a bound of what the others weigh.

A token j of a line weighs at most e^{s_j - s_top} against any token `top` of that line, and on c +- r

    s_j - s_top <= b_j - b_top + (k_j - k_top) c + |k_j - k_top| r.

Floats propose which tokens stay below a smallest weight; balls then add up the bounds of all that are left out. A token
of the grid is left out if it is left out on one of its lines. So with D_i the sum on line i the softmax weights of all
tokens left out are at most sum_i D_i, e^{2 off} times that where biases are no exact sums, and weights against the
largest one, which rounding is about, at most sum_i D_i prod_{l != i} n_l, as a token weighs at most 1 against the
largest of its line.
"""

from __future__ import annotations

import math

import numpy as np
from flint import arb

from softwright.checker.limits import check_time


def proposed(keys: np.ndarray, bias: np.ndarray, c: float, r: float, smallest: float) -> tuple[int, int, int]:
    """The first token that is kept, the one after the last, and the winner in the middle; nothing is proved by it."""
    top = int(np.argmax(keys * c + bias))
    away = keys - keys[top]
    kept = np.flatnonzero(away * c + np.abs(away) * r + bias - bias[top] >= math.log(smallest))
    return min(top, int(kept[0])) if len(kept) else top, max(top, int(kept[-1])) + 1 if len(kept) else top + 1, top


def left_out(keys: np.ndarray, bias: list[arb], c: arb, r: arb, window: tuple[int, int, int]) -> arb:
    """D_i: what the tokens outside of a window weigh together at most."""
    check_time()
    first, after, top = window
    highest, weight = arb(float(keys[top])), arb(0)
    for j in (*range(first), *range(after, len(bias))):
        away = arb(float(keys[j])) - highest
        weight += (bias[j] - bias[top] + away * c + abs(away) * r).exp()
    return weight
