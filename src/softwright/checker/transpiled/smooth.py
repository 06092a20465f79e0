"""What running adds to a head of smooth tokens: exact ones and fitted ones.

The line of s is cut into cells. On a cell the difference of two scores is linear, so its least value is at an end, and

    w_j <= 1/sum_l e^{min over the cell of score_l - score_j}.

Let r be a token that leads on the cell. Relative to r the weights that run are w_j (1 + eta_j), |eta_j| <= e^{t_j +
t_r} - 1, eta_r = 0, with t_j = gamma (|k_j s| + |b_j|) + u (distance of score j from the largest) + E/(1 - E), and

    |run - g| <= (sum_j w_j eta_j |v_j s + u_j - g|)/(1 - tau) + what summing loses (`adding.py`),

tau = sum_j w_j eta_j < 1/2, |v_j s + u_j - g| <= sum_l w_l |v_j s + u_j - v_l s - u_l|, a convex function of s for
each pair, so largest at an end. Where t_j + t_r > 1, w_j (1 + eta_j) <= e^{t_j + t_r - gap_j} is taken instead.
Tokens on a `Ladder` may run in a second way: of both the larger eta and the larger error of values count."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softwright.checker.limits import check_time
from softwright.checker.transpiled.adding import summed_with
from softwright.checker.transpiled.ladder import Ladder
from softwright.checker.transpiled.outward import UNIT, exp_down, exp_up, expm1_up, gamma
from softwright.checker.transpiled.unit import Array, Run

SLACK = 1 + 1e-12  # some hundred roundings of float64 in sums of non-negative terms
CORE, CELLS, FAR, GROWTH = 1024.0, 2048, 199, 1.25  # scores change by 1/32, farther out by 1/2 over a cell, then more
CHUNK = 256


@dataclass(frozen=True)
class SmoothRun:
    """The largest error over |s| <= m, looked up among the outer ends of the cells."""

    ends: Array
    most: Array
    mixing: float
    offset: float

    def __call__(self, m: Array, top: Array) -> Array:
        place = np.minimum(np.searchsorted(self.ends, m), len(self.ends) - 1)
        return np.where(m <= self.ends[-1], self.most[place], np.inf)


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def smooth_run(table: Array, run: Run) -> SmoothRun:
    """All cells on both sides of 0."""
    outer = CORE / max(float(np.abs(table[0]).max()), 1.6e-2)
    inner = np.linspace(0.0, outer / 16, CELLS + 1)
    middle = np.linspace(outer / 16, outer, CELLS + 1)[1:]
    ends = np.concatenate([inner, middle, outer * GROWTH ** np.arange(1, FAR + 1)])
    most, mixing, offset = np.zeros(len(ends)), 0.0, 0.0
    ladder = Ladder.of(table) if run.layout in ("softmax", "double") else None
    for sign in (-1.0, 1.0):
        for start in range(0, len(ends) - 1, CHUNK):
            check_time()
            edges = sign * ends[start : start + CHUNK + 1]
            errors, mixed, shifted = _on_cells(edges[:-1], edges[1:], table, run, ladder)
            place = slice(start + 1, start + len(edges))
            most[place] = np.maximum(most[place], np.where(np.isnan(errors), np.inf, errors))
            finite = np.isfinite(errors)
            mixing = max(mixing, float(mixed[finite].max(initial=0.0)))
            offset = max(offset, float(shifted[finite].max(initial=0.0)))
    most[0] = most[1]
    return SmoothRun(ends, np.maximum.accumulate(most), mixing, offset)


def _unrounded(k: Array, b: Array, run: Run) -> Array:
    """Which scores k s + 0 are a power of two times s. Heads of stock attention that hold biases scale all by roots."""
    if run.layout == "multihead" and (b.any() or not run.separate):
        return np.zeros(len(k), dtype=bool)
    fraction, _ = np.frexp(np.abs(k))
    return (b == 0) & ((fraction == 0.5) | (k == 0))


def _on_cells(near: Array, away: Array, table: Array, run: Run, ladder: Ladder | None) -> tuple[Array, Array, Array]:
    """For cells between `near` and `away` (c,): the error, and `mixing` and `offset` there (see `unit`)."""
    k, b, v, u = table  # (p,)
    unit, p = run.precision.unit, len(k)
    size = np.maximum(np.abs(near), np.abs(away))[:, None]  # (c, 1)
    weight = np.abs(k) * size + np.abs(b)  # (c, p)
    scores = [x[:, None] * k + b for x in (near, away)]
    slack = 4 * UNIT * (weight[:, None, :] + weight[:, :, None])  # of the differences, computed
    gaps = np.minimum(*(s[:, None, :] - s[:, :, None] for s in scores)) - slack  # (c, j, l): score_l - score_j
    w = np.minimum(SLACK / exp_down(np.minimum(gaps, 700.0)).sum(axis=2), 1.0)  # (c, j)
    least = gaps.max(axis=2)  # how far score j is below the largest, at least
    leader = (scores[0] + scores[1]).argmax(axis=1)
    rows = np.arange(len(near))
    wrong = np.where(_unrounded(k, b, run), 0.0, gamma(run.score, unit)) * weight
    below = np.maximum(*(s.max(axis=1, keepdims=True) - s for s in scores)) + 8 * UNIT * weight.max(axis=1)[:, None]
    wrong = wrong + unit * (below + 2 * wrong.max(axis=1)[:, None]) + run.exps / (1 - run.exps) * (1 + 4 * UNIT)
    moved = (wrong + wrong[rows, leader][:, None]) * SLACK
    right = near + away > 0  # (c,)
    if ladder is not None:
        moved = np.maximum(moved, ladder.slips(size, right, leader, run) * SLACK)
    moved = np.where(moved <= 1, w * expm1_up(np.minimum(moved, 1.0)), exp_up(np.minimum(moved - least, 700.0)))
    moved[rows, leader] = 0.0
    tau = moved.sum(axis=1) * SLACK
    values = [x[:, None] * v + u for x in (near, away)]
    extent = np.abs(v) * size + np.abs(u)  # (c, p)
    spread = np.maximum(*(np.abs(f[:, None, :] - f[:, :, None]) for f in values))
    spread += 4 * UNIT * (extent[:, None, :] + extent[:, :, None])
    distance = (w[:, None, :] * spread).sum(axis=2)  # (c, j): |value of j - g|
    share = SLACK / np.where(tau < 0.5, 1 - tau, np.nan)
    ran = (w + moved) * share[:, None]  # the weights that run, at most
    values = summed_with([ran * np.abs(v) * size, ran * np.abs(u)], ran, run.beside, unit)
    if v.any() and u.any():  # some form v_j s + u_j first
        values = np.maximum(values, summed_with([ran * extent], ran, run.beside, unit))
    if ladder is not None:
        behind = ladder.rounded(np.minimum(np.abs(near), np.abs(away)), size[:, 0], run)
        values = np.maximum(values, behind + 2 * unit * (ran * extent).sum(axis=1) * (1 + 8 * unit))
    error = (moved * distance).sum(axis=1) * share + values
    affine = np.any(v != 0)
    tiny = run.precision.smallest + run.precision.exp_floor  # of a product and of a weight
    error += 12 * p * tiny * (1 + extent.max(axis=1) + affine * size[:, 0]) * (1 + np.abs(v).max())
    return error * SLACK, (ran * np.abs(v)).sum(axis=1) * SLACK, (ran * np.abs(u * (v != 0))).sum(axis=1) * SLACK
