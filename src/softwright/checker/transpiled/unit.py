"""`Unit`: how far the head of one neuron is from its activation, for the tokens as stored, in real arithmetic and run.

A layout computes for every neuron a number s and then the head's tokens. What each does with s (torch's kernels, any
order of sums, fused or not), in roundings of the dtype, E the relative error of exp:

    scores   k_j s + b_j within gamma_n (|k_j s| + |b_j|), n = 2 as one sum, 4 charged; stock attention scales queries
             and keys by roots: 7
    weights  each score minus the largest, one rounding of the difference, and one exp; in one long sequence the tokens
             of a head may fall into three blocks, each with exponentials of its own: 4 E, and 4 products more
    values   v_j s + u_j, times a weight, sums of p terms above and below, one division: 2 p + 3, charged 2 p + 4, 6 of
             them beside the 2 p - 2 of the sums, for which `adding.py` has less where weights are known

What is below the smallest normal number may be lost wherever it arises, and is charged with the sizes that multiply it.

    exact    sup over all real s of |g(s) - phi(s)|, g the head in real arithmetic. Where a piece that reaches to
             infinity has a slope that the dtype rounded, g is taken with the slope before, and `tilt` is the change
    run      (m, top) -> what running adds for |s| <= m where |phi| <= top; arrays
    mixing   sup of sum_j w_j |v_j|, and `offset` sup of sum_j w_j |u_j| over tokens with v_j != 0, w the weights that
             run: what counts where s is formed twice, for scores and for values (multihead)
    jump     from which |s| on phi differs from the function above, and by how much at most
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from softwright.checker.precision import Precision

Array = np.ndarray
OMEGA = {"float64": 1e150, "float32": 1e30}  # what tokens of other positions are lowered by in one sequence


@dataclass(frozen=True)
class Run:
    """How heads are run: the counts above."""

    precision: Precision
    layout: str
    separate: bool = False  # stock attention with a head for each neuron, of width 1 where its scores have no biases

    @property
    def score(self) -> int:
        return 7 if self.layout == "multihead" else 4

    @property
    def exps(self) -> float:
        return self.precision.exp_error * (4 if self.layout == "sequence" else 1)

    @property
    def beside(self) -> int:
        return 10 if self.layout == "sequence" else 6

    def values(self, tokens: int) -> int:
        return 2 * (tokens - 1) + self.beside


@dataclass(frozen=True)
class Unit:
    """The numbers above, and the tokens they were computed for."""

    table: Array  # (4, p)
    exact: float
    run: Callable[[Array, Array], Array]
    mixing: float
    offset: float = 0.0
    tilt: float = 0.0
    jump: tuple[float, float] | None = None
    beside: Callable[[Array], Array] | None = None  # where neurons share a softmax: of the sum of their |s|, `groups`

    def exact_for(self, m: Array) -> Array:
        """`exact` and the jump, for neurons with |s| <= m."""
        place, height = self.jump or (np.inf, 0.0)
        return self.exact + np.where(m >= place, height, 0.0)

    def fits(self, size: Array, run: Run) -> Array:
        """Whether nothing overflows where the terms of s add up to `size` or less, with a factor 8 of room.

        Scores of one sequence must also leave Omega standing: what rounding takes from k_j s + b_j - Omega must be
        small beside Omega, so that tokens of other positions have no weight.
        """
        size = size if self.beside is None else 16 * size  # of a sum over a group, and of 16 values
        k, b, v, u = np.abs(self.table)
        largest = run.precision.largest / 8
        most = largest
        if run.layout == "sequence":
            most = min(most, OMEGA[run.precision.name] / (64 * run.precision.unit))
        scores = (k * size[:, None] + b).max(axis=1) <= most  # (H, p)
        values = (v * size[:, None] + u).max(axis=1) * len(k) <= largest
        return scores & values
