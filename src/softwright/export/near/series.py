"""Quotients of power series as polynomials on [0, 1], with a proof of how near they are.

A polynomial p runs through N/Z at NODES points, in DIGITS digits. N - p Z is a power series, cut where what is left is
below LOST; in Chebyshev polynomials of [0, 1] it is at most the sum of its coefficients' sizes there, and |N/Z - p| at
most that over the least of Z. p in the same polynomials can then be cut: what is left out is at most the sum of the
sizes of its coefficients.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np

DIGITS = 110
LOST = Decimal(10) ** -50  # what series are cut at; digits lose far less


def interpolated(
    above: Sequence[Decimal], below: Sequence[Decimal], least: Decimal, count: int
) -> tuple[list[Decimal], Decimal]:
    """Coefficients of p in Chebyshev polynomials of [0, 1], and how far it is from above/below at most; `least` is what
    the latter is there at least, `count` the number of points."""
    nodes = [Decimal(float(x)) for x in (1 - np.cos(np.pi * (np.arange(count) + 0.5) / count)) / 2]
    values = [_at(above, x) / _at(below, x) for x in nodes]
    for i in range(1, count):  # Newton's differences
        for j in range(count - 1, i - 1, -1):
            values[j] = (values[j] - values[j - 1]) / (nodes[j] - nodes[j - i])
    p = [values[-1]]
    for j in range(count - 2, -1, -1):
        p = [a - nodes[j] * b for a, b in zip([Decimal(0), *p], [*p, Decimal(0)], strict=True)]
        p[0] += values[j]
    residual = [-one for one in _product(p, below)]
    residual += [Decimal(0)] * (len(above) - len(residual))
    for n, c in enumerate(above):
        residual[n] += c
    size = sum(map(abs, in_chebyshev(residual)), LOST * (1 + sum(map(abs, p))))
    return in_chebyshev(p), size / least


def _at(series: Sequence[Decimal], x: Decimal) -> Decimal:
    total = Decimal(0)
    for c in reversed(series):
        total = total * x + c
    return total


def _product(one: Sequence[Decimal], other: Sequence[Decimal]) -> list[Decimal]:
    found = [Decimal(0)] * (len(one) + len(other) - 1)
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            found[i + j] += a * b
    return found


def in_chebyshev(series: Sequence[Decimal]) -> list[Decimal]:
    """Of powers of x, on [0, 1], by Horner's rule: x T_n = (T_{n-1} + 2 T_n + T_{n+1})/4."""
    total = [Decimal(0)]
    for c in reversed(series):
        grown = [Decimal(0)] * (len(total) + 1)
        for n, t in enumerate(total):
            quarter = t / 4
            grown[n] += 2 * quarter
            if n == 0:
                grown[1] += 2 * quarter
            else:
                grown[n + 1] += quarter
                grown[n - 1] += quarter
        grown[0] += c
        total = grown
    return total[: len(series)]


def about_middle(chebyshev: Sequence[Decimal], length: Decimal) -> list[Decimal]:
    """Coefficients of y^i of sum_n c_n T_n(2 y/length), y the distance from the middle of an interval so long."""
    before, now = [Decimal(0)], [Decimal(1)]
    total = [Decimal(0)] * len(chebyshev)
    for n, c in enumerate(chebyshev):
        for i, one in enumerate(now):
            total[i] += c * one
        following = [Decimal(0), *((1 if n == 0 else 2) * one for one in now)]
        for i, one in enumerate(before):
            following[i] -= one if n > 0 else 0
        before, now = now, following
    half = length / 2
    return [c / half**i for i, c in enumerate(total)]
