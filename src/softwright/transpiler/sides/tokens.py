"""The tokens of softsign, s/(1 + |s|): sums of falling exponentials on either side of 0, and a gate between the sides.

For s >= 0 softsign is 1 - 1/(1 + s), and 1/(1 + s) is a mean of exponentials, int_0^inf e^{-t} e^{-ts} dt. n rates t_j
and one rate 0 make the right side: tokens with keys beta - t_j, biases b_j and values u_j, all constant, so that

    N(s)/Z(s),   Z = 1 + sum_j e^{b_j - t_j s},   N = u_0 + sum_j u_j e^{b_j - t_j s}

is near softsign for s >= 0. The left side is its mirror image, keys -(beta - t_j), values -u_j: the head is odd. For
s > 0 the left side has the share e^{-2 beta s} of the weight. Near 0 the right side is s - s^2, the left s + s^2, so a
gate of sharpness beta costs at most 2 s^2 e^{-2 beta s}/(1 + e^{-2 beta s}), about 0.24/beta^2, and an eighth of that
where fast rates are fitted to the gate as well.

*Rates.* At s ~ 1/t evenly spaced log t, h apart, leave a ripple of e^{-pi^2/h} of 1/(1 + s) ~ t. For one absolute
error eps on the whole half line, t e^{-pi^2/h} = eps: the density 1/h = (log t + log 1/eps)/pi^2 is linear in log t,
and its integral log(1/eps)^2/(2 pi^2) the number of rates. So log t_j goes like the root of j, and eps like e^{-pi
sqrt(2n)}, as that of the best sums of n exponentials (Braess and Hackbusch). The row holds, for each number of tokens,
beta, the first and the last log t; between them log t_j goes through q + BEND q^2 (1 - q), q from 0 to 1 as the root
of j + START.

*Biases.* e^{b_j} = t_j h_j e^{-t_j}/2, half the weight of t_j in the integral: values u_j of a few units. *Values*
solve a linear least-squares problem over a grid of log s, with the keys and biases as they are stored; its points are
weighed anew after each of a few rounds by the errors there (Lawson), until the largest is about as small as it can be.

A larger beta means scores of larger size, and rounding of s by u moves a score by u beta |s| where the values still
differ by 1/(1 + s): it costs some u beta. So float32 has its own, smaller sizes (`transpiler/tokens.py`).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from softwright.transpiler.token_table import TokenTable

START, BEND = 2.0 / 3.0, 0.05
_POINTS = 20  # of the grid, for a factor e of s
_NEAR, _FAR = 0.05, 70.0  # the grid runs from _NEAR/beta to _FAR/(the smallest rate), and one point stands for infinity
_ROUNDS, _LEAST = 24, 1e-2
_CUT = 1e-13  # singular values below this share of the largest are left out


@lru_cache(maxsize=64)
def side_table(shape: tuple[float, ...], tokens: int, dtype: str) -> TokenTable:
    """So many tokens, an even number, as the dtype stores them; `shape` is beta, the first and the last log t."""
    sharpness, first, last = shape
    logs = log_rates(tokens // 2 - 1, first, last)
    keys = np.append(sharpness - np.exp(logs[::-1]), sharpness).astype(dtype).astype(np.float64)
    biases = logs + np.log(np.gradient(logs) / 2) - np.exp(logs)
    biases = np.append(biases[::-1], 0.0).astype(dtype).astype(np.float64)
    values = _values(keys, biases).astype(dtype).astype(np.float64)
    none = np.zeros(len(keys))
    right, left = (keys, biases, none, values), (-keys[::-1], biases[::-1], none, -values[::-1])
    return TokenTable(*(np.concatenate(pair) for pair in zip(left, right, strict=True)))


def log_rates(count: int, first: float, last: float) -> np.ndarray:
    """log t_1 < .. < log t_n."""
    roots = np.sqrt(np.arange(count) + START)
    q = (roots - roots[0]) / (roots[-1] - roots[0])
    return first + (last - first) * (q + BEND * q**2 * (1 - q))


def _values(keys: np.ndarray, biases: np.ndarray) -> np.ndarray:
    """u of the right side; keys rise to beta."""
    sharpness = keys[-1]
    rates = sharpness - keys  # exact: of two numbers of one sign near each other, or with few digits
    near, far = _NEAR / sharpness, _FAR / rates[-2]
    s = np.append(np.geomspace(near, far, int(_POINTS * np.log(far / near))), 1e5 * far)
    right = np.exp(-rates * s[:, None] + biases)
    left = np.exp((rates - 2 * sharpness) * s[:, None] + biases)
    design = (right - left) / (right + left).sum(axis=1, keepdims=True)
    meant = s / (1 + s)
    weights, least, found = np.ones(len(s)), np.inf, np.zeros(len(keys))
    for _ in range(_ROUNDS):
        roots = np.sqrt(weights)
        values = np.linalg.lstsq(design * roots[:, None], meant * roots, rcond=_CUT)[0]
        errors = np.abs(design @ values - meant)
        largest = float(errors.max())
        if largest < least:
            least, found = largest, values
        weights = weights * (errors / largest + _LEAST)
        weights /= weights.max()
    return found
