"""Sup error of the tokens of softsign on the whole real line, for the very numbers stored.

The tokens are their own mirror image (checked), so the head g and softsign phi are odd, and s >= 0 is all of it. Let
r_j = k_max - k_j >= 0 and w_j = e^{b_j}: g = N/Z with Z = sum_j w_j e^{-r_j s}, N = sum_j u_j w_j e^{-r_j s}, and

    g(s) - phi(s) = P(s)/((1 + s) Z(s)),   P(s) = sum_j w_j e^{-r_j s} (u_j + (u_j - 1) s).

There is no quotient in P. About the middle a of a cell [a - h, a + h] its n-th Taylor coefficient is

    sum_j w_j e^{-r_j a} ((-r_j)^n/n! (u_j + (u_j - 1) a) + (-r_j)^{n-1}/(n-1)! (u_j - 1)),

so |P| is at most the sum of |coefficients| h^n below the order m, and what is left out is at most h^m times the same
sum for n = m with all signs the same, u_j + (u_j - 1) s at both ends and the exponentials at the left end. Z falls, so
(1 + s) Z(s) is at least its first factor at the left end times its second at the right. Cells are narrow beside s, or
beside 1/k_max where s is smaller than that, so that nothing of it is far from the largest error. All of it in balls.

Beyond S all but the leading token, of rate 0, have no weight left: |g - u_0| is at most the sum of e^{b_j - b_0 - r_j
S} |u_j - u_0|, which falls in S, while phi is between S/(1 + S) and 1.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from flint import arb, arb_mat, ctx

from softwright.errors import SoftwrightError
from softwright.transpiler.token_table import TokenTable

_BITS = 128
_TERMS = 8  # m
_GROWTH = 1.02  # of the ends of cells
_FIRST = 0.02  # the first cell ends at this over k_max, or over 1
_SETTLED = 64.0  # r S of the slowest token at S
_ROWS = 256  # cells at a time


def proved_side_error(table: TokenTable) -> float:
    """sup over all real s of |g(s) - s/(1 + |s|)|, an upper bound."""
    k, b, v, u = table.stacked
    lead = table.tokens - 1
    mirrored = np.array_equal(k, -k[::-1]) and np.array_equal(b, b[::-1]) and np.array_equal(u, -u[::-1])
    if not mirrored or v.any() or not (np.diff(k) > 0).all():
        raise SoftwrightError("the tokens of softsign are not their own mirror image; please report this")
    slowest = float(k[lead] - k[lead - 1])
    edges = [0.0, _FIRST / max(float(k[lead]), 1.0)]
    while edges[-1] * slowest < _SETTLED:
        edges.append(edges[-1] * _GROWTH)
    with ctx.workprec(_BITS):
        balls = [[arb(float(x)) for x in row] for row in (k, b, u)]
        within = max(_within(balls, edges[i : i + _ROWS + 1]) for i in range(0, len(edges) - 1, _ROWS))
        return max(within, _beyond(balls, arb(edges[-1])))


def _within(balls: list[list[arb]], edges: list[float]) -> float:
    """|g - phi| at most between the first edge and the last."""
    k, b, u = balls
    rates, weights = [k[-1] - x for x in k], [x.exp() for x in b]
    sides = [arb(x) for x in edges]
    # columns 2n, 2n + 1: the factors of 1 and of the middle a in the n-th coefficient
    columns: list[list[arb]] = []
    bounds: list[list[arb]] = []
    for rate, weight, value in zip(rates, weights, u, strict=True):
        row, above = [], []
        power, before = weight, arb(0)  # weight (-r)^n/n!, and that of n - 1
        for n in range(_TERMS + 1):
            row += [power * value + before * (value - 1), power * (value - 1)]
            above = [abs(power * value) + abs(before * (value - 1)), abs(power * (value - 1))]
            power, before = power * -rate / (n + 1), power
        columns.append(row[: 2 * _TERMS])
        bounds.append([*above, weight])
    middles = [(low + high) / 2 for low, high in pairwise(sides)]
    at_middles = arb_mat([[(-rate * a).exp() for rate in rates] for a in middles]) * arb_mat(columns)
    at_edges = arb_mat([[(-rate * s).exp() for rate in rates] for s in sides]) * arb_mat(bounds)
    largest = arb(0)
    for i, a in enumerate(middles):
        half = max((a - sides[i]).upper(), (sides[i + 1] - a).upper())
        total = (at_edges[i, 0] + at_edges[i, 1] * sides[i + 1]) * half**_TERMS
        for n in range(_TERMS):
            total += abs(at_middles[i, 2 * n] + at_middles[i, 2 * n + 1] * a) * half**n
        found = total / ((1 + sides[i]) * at_edges[i + 1, 2])
        if not found.is_finite():
            return math.inf
        largest = max(largest, found.upper())
    return _above(largest)


def _beyond(balls: list[list[arb]], end: arb) -> float:
    """|g - phi| at most for s >= end."""
    k, b, u = balls
    moved = arb(0)
    for key, bias, value in zip(k[:-1], b[:-1], u[:-1], strict=True):
        moved += (bias - b[-1] - (k[-1] - key) * end).exp() * abs(value - u[-1])
    limits = (abs(u[-1] - 1).upper(), abs(u[-1] - end / (1 + end)).upper())
    return _above(moved + max(limits))


def _above(ball: arb) -> float:
    """A float that is not below."""
    return math.nextafter(float(ball.upper()), math.inf) if ball.is_finite() else math.inf
