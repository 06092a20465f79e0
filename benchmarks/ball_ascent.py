"""Gradient ascent on |g - f| in 60-digit ball arithmetic: the search for errors that float64 cannot see.

A head g = sum_j w_j (v_j + G_j t), w the softmax of the scores k_j t + b_j, has the exact gradient

    dg/dt = sum_j w_j G_j + sum_j w_j u_j k_j - (sum_j w_j u_j) (sum_j w_j k_j),    u_j = v_j + G_j t,

so that one product of the weights with a fixed matrix of balls, with columns 1, v, G, k, v k and G k, gives g and its
gradient together; f is differentiated as a formula. Nothing here is rounded to fewer than `BITS` bits: the points
themselves have that many. Steps are those of Barzilai and Borwein (in one variable the secant method on the
derivative), in coordinates in which the box is a cube, cut back until the error grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat

from softwright.proof.arithmetic.balls import ball_below, precision
from softwright.proof.models.head_moments import ExactHead
from softwright.targets.formula.balls import evaluate
from softwright.targets.formula.derivative import differentiate
from softwright.targets.formula.expression import Expression

BITS = 200  # 60 decimal digits
STEPS = 30
_FIRST_STEP, _LONGEST_STEP = 2.0**-16, 0.125  # of the box
_CUTS = 5  # of a step that does not climb, by `_CUT` each
_CUT = 2.0**-6
_CONVERGED = 2.0**-100  # gain of a step, of the error

Point = Sequence[Any]  # balls of radius zero


class _BallHead:
    """One head with its numbers as balls."""

    def __init__(self, head: ExactHead) -> None:
        N, d = head.keys.shape
        slopes = np.zeros((N, d)) if head.slopes is None else head.slopes[:, 0]
        keys = [[arb(k) for k in row] for row in head.keys.tolist()]
        gradients = [[arb(g) for g in row] for row in slopes.tolist()]
        values = [arb(v) for v in head.values[:, 0].tolist()]
        biases = [arb(b) + arb(low) for b, low in zip(head.bias.tolist(), head.bias_low.tolist(), strict=True)]
        self.dim = d
        self.center, self.scale = [arb(c) for c in head.center.tolist()], [arb(s) for s in head.scale.tolist()]
        self.scores = arb_mat([[*k, b] for k, b in zip(keys, biases, strict=True)])
        self.table = arb_mat(
            [
                [arb(1), v, *g, *k, *(v * y for y in k), *(x * y for x in g for y in k)]
                for k, g, v in zip(keys, gradients, values, strict=True)
            ]
        )

    def at(self, point: Point) -> tuple[arb, list[arb]]:
        """g and dg/dx."""
        d = self.dim
        t = [(x - c) * s for x, c, s in zip(point, self.center, self.scale, strict=True)]
        scores = (self.scores * arb_mat([[y] for y in [*t, arb(1)]])).entries()
        top = max(scores, key=lambda score: score.mid()).mid()
        sums = (arb_mat([[(score - top).exp() for score in scores]]) * self.table).entries()
        mean = [x / sums[0] for x in sums]
        v, G, k, vk = mean[1], mean[2 : 2 + d], mean[2 + d : 2 + 2 * d], mean[2 + 2 * d : 2 + 3 * d]
        Gk = mean[2 + 3 * d :]  # d rows of d
        value = v + sum((g * y for g, y in zip(G, t, strict=True)), arb(0))
        along = [G[i] + vk[i] + sum((Gk[n * d + i] * t[n] for n in range(d)), arb(0)) - value * k[i] for i in range(d)]
        return value, [a * s for a, s in zip(along, self.scale, strict=True)]


@dataclass
class Peak:
    """A point with an error that is certainly there."""

    error: float  # |g - f| at the point is at least this
    point: np.ndarray  # the float64 point next to it
    steps: int  # of the climb


class BallError:
    """|g - f| for the first output of a network and a formula, with its gradient, in balls."""

    def __init__(self, heads: Sequence[ExactHead], target: Expression) -> None:
        with precision(BITS):
            self.heads = [_BallHead(head) for head in heads]
        self.names, self.node = target.names, target.nodes[0]
        self.slopes = [differentiate(self.node, name) for name in target.names]

    def at(self, point: Point) -> tuple[arb, list[arb]]:
        """g - f and its gradient."""
        found = [head.at(point) for head in self.heads]
        named = dict(zip(self.names, point, strict=True))
        error = sum((value for value, _ in found), arb(0)) - evaluate(self.node, named)
        gradient = [
            sum((slope[i] for _, slope in found), arb(0)) - evaluate(node, named) for i, node in enumerate(self.slopes)
        ]
        return error, gradient

    def climb(self, start: np.ndarray, low: np.ndarray, high: np.ndarray, steps: int = STEPS) -> Peak:
        """Climb from a float64 point of the box [low, high]; the error never falls below that of the start."""
        with precision(BITS):
            return self._climb(start, [arb(x) for x in low.tolist()], [arb(x) for x in high.tolist()], steps)

    def _climb(self, start: np.ndarray, low: list[arb], high: list[arb], steps: int) -> Peak:
        width = [b - a for a, b in zip(low, high, strict=True)]
        point = [arb(x) for x in start.tolist()]
        error, gradient = self.at(point)
        best, move, taken = abs(error).lower(), arb(0), 0
        before: tuple[list[arb], list[arb]] | None = None
        for _ in range(steps):
            up = _uphill(error, gradient, width, point, low, high)  # in coordinates of the unit cube
            if not all(u.is_finite() for u in up) or not any(abs(u) > 0 for u in up):
                break
            fastest = max((abs(u).mid() for u in up), key=lambda u: u)
            move = _FIRST_STEP / fastest if before is None else _secant(before, point, up, width, move)
            move = min(move, _LONGEST_STEP / fastest, key=lambda m: m).mid()
            for _ in range(_CUTS):
                trial = [
                    _clipped((x + move * u * w).mid(), a, b)
                    for x, u, w, a, b in zip(point, up, width, low, high, strict=True)
                ]
                found, slope = self.at(trial)
                if abs(found).lower() > best:
                    break
                move = move * _CUT
            else:
                break
            gain, before = abs(found).lower() - best, (point, up)
            point, error, gradient, best, taken = trial, found, slope, abs(found).lower(), taken + 1
            if gain < best * _CONVERGED:
                break
        return Peak(max(ball_below(best), 0.0), np.array([float(x) for x in point]), taken)


def _uphill(
    error: arb, gradient: list[arb], width: list[arb], point: Point, low: list[arb], high: list[arb]
) -> list[arb]:
    """The direction in which |g - f| grows, without what would leave the box."""
    sign = 1 if error.mid() >= 0 else -1
    directions = [(sign * g * w).mid() for g, w in zip(gradient, width, strict=True)]
    return [
        arb(0) if (x <= a and u < 0) or (x >= b and u > 0) else u
        for u, x, a, b in zip(directions, point, low, high, strict=True)
    ]


def _secant(before: tuple[list[arb], list[arb]], point: Point, up: list[arb], width: list[arb], last: arb) -> arb:
    """The step of Barzilai and Borwein, |dx.dx| / |dx.dg|; the last one, doubled, where the gradient did not change."""
    moved = [(x - y) / w for x, y, w in zip(point, before[0], width, strict=True)]
    turned = sum((m * (a - b) for m, a, b in zip(moved, up, before[1], strict=True)), arb(0))
    if not abs(turned) > 0:
        return 2 * last
    return (sum((m * m for m in moved), arb(0)) / abs(turned)).mid()


def _clipped(x: arb, low: arb, high: arb) -> arb:
    return low if x < low else high if x > high else x
