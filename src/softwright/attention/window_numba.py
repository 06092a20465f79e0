"""Windows of keys in two variables, compiled by numba (extra `fast`): one point after the other.

The same tokens and sums as in `window.py`. A block holds one token, so that windows are as narrow as they can be. The
K_1 rows of a window are added up into one row of K_2 numbers, which processors do four at a time, and then with the
weights of the second axis. Points come in an order in which neighbours follow each other, so that a large table of
values is read from memory once.

*exp* is written out, because libraries take one number at a time. With k the whole number nearest to x / ln 2 and
r = x - k ln 2, ln 2 being split in two so that k times its first part is exact, e^x = 2^k e^r and |r| <= 0.3467. The
Taylor polynomial of degree 13 leaves r^14 / 14! < 4.2e-18, a fiftieth of an ulp; Horner's rule and the roundings of r
add less than 2 ulp. 4 ulp are charged (`FLOAT64.exp_error`). Arguments are at most 100. Below -700 the result is that
of -700, 1e-304 of the largest weight: what is charged for underflow covers it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

_LOG2E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # the first has 32 binary digits
_ROUND = 6755399441055744.0  # 1.5 * 2^52: what is added to it becomes a whole number, in its last binary digits
_ROUND_BITS = 4843621399236968448
_SERIES = tuple(1.0 / float(np.prod(np.arange(1.0, n + 1.0))) for n in range(14))


def available() -> bool:
    try:
        import numba  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        return False
    return True


@cache
def kernels() -> tuple[Any, Any, tuple[Any, Any]]:
    """exp of an array in place, the windows of a plane, and (exp, dot) for others; compiled at the first call."""
    import numba  # pyright: ignore[reportMissingImports]

    c = _SERIES

    @numba.njit(inline="always")
    def exp_of(x: float) -> float:
        x = max(x, -700.0)
        z = x * _LOG2E + _ROUND
        whole = z - _ROUND
        r = (x - whole * _LN2_HIGH) - whole * _LN2_LOW
        p = c[13]
        p = p * r + c[12]
        p = p * r + c[11]
        p = p * r + c[10]
        p = p * r + c[9]
        p = p * r + c[8]
        p = p * r + c[7]
        p = p * r + c[6]
        p = p * r + c[5]
        p = p * r + c[4]
        p = p * r + c[3]
        p = p * r + c[2]
        p = p * r + c[1]
        p = p * r + c[0]
        power = ((np.float64(z).view(np.int64) - _ROUND_BITS) + 1023) << 52
        return p * np.int64(power).view(np.float64)

    @numba.njit(nogil=True)
    def exps(x: np.ndarray) -> None:
        for j in range(len(x)):
            x[j] = exp_of(x[j])

    @numba.njit(nogil=True, fastmath={"reassoc", "contract"})  # sums in any order, and nothing else
    def dot(a: np.ndarray, b: np.ndarray) -> float:
        total = 0.0
        for j in range(len(a)):
            total += a[j] * b[j]
        return total

    @numba.njit(nogil=True, fastmath={"contract"})
    def added(u: np.ndarray, table: np.ndarray, i: int, j: int, row: np.ndarray) -> None:
        """The rows of a window with their weights, into one row; two at a time."""
        kept = len(row)
        row[:] = 0.0
        for a in range(0, len(u) - 1, 2):
            one, two = u[a], u[a + 1]
            upper, lower = table[i + a, j : j + kept], table[i + a + 1, j : j + kept]
            for b in range(kept):
                row[b] += one * upper[b] + two * lower[b]
        if len(u) % 2:
            one = u[len(u) - 1]
            upper = table[i + len(u) - 1, j : j + kept]
            for b in range(kept):
                row[b] += one * upper[b]

    @numba.njit(nogil=True)
    def weigh(t: float, keys: np.ndarray, biases: np.ndarray, winner: int, w: np.ndarray) -> None:
        """Weights relative to that of one token, into w."""
        shift = biases[winner] + keys[winner] * t
        for j in range(len(w)):
            w[j] = exp_of(min(keys[j] * t + biases[j] - shift, 100.0))

    @numba.njit(nogil=True)
    def plane(
        t: np.ndarray,
        keys0: np.ndarray,
        biases0: np.ndarray,
        first0: np.ndarray,
        winner0: np.ndarray,
        kept0: int,
        keys1: np.ndarray,
        biases1: np.ndarray,
        first1: np.ndarray,
        winner1: np.ndarray,
        kept1: int,
        table: np.ndarray,
        out: np.ndarray,
    ) -> None:
        width = table.shape[0]
        u, v, row, ones = np.empty(kept0), np.empty(kept1), np.empty(kept1), np.ones(max(kept0, kept1))
        half0, half1 = 0.5 * len(first0), 0.5 * len(first1)
        for q in range(len(t)):
            block0 = min(max(int((t[q, 0] + 1.0) * half0), 0), len(first0) - 1)
            block1 = min(max(int((t[q, 1] + 1.0) * half1), 0), len(first1) - 1)
            i, j = first0[block0], first1[block1]
            weigh(t[q, 0], keys0[i : i + kept0], biases0[i : i + kept0], winner0[block0] - i, u)
            weigh(t[q, 1], keys1[j : j + kept1], biases1[j : j + kept1], winner1[block1] - j, v)
            total = dot(u, ones[:kept0]) * dot(v, ones[:kept1])
            for c in range(width):
                added(u, table[c], i, j, row)
                out[q, c] = dot(row, v) / total

    return exps, plane, (exp_of, dot)
