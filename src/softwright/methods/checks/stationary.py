"""Whether an answer is a solution: how far one Newton step, taken outside the attention, would still move it.

A stack that stands still need not stand at the solution. Heads with wide bounds err by the same amount at every step,
so that refinement settles beside it; tokens that carry predictions of their own drift where columns nearly depend. So
the equations that a solution obeys are looked at directly, with x in standard deviations of its columns:

    g = sum_j p_j slope(s_j, y_j) x_j + penalty w,      H = sum_j p_j curvature_j x_j x_j^T + penalty,
    H delta = g                                         what is left: delta of the coefficients, x.delta of predictions

Of the lasso, and where w >= 0, H and g are those of the coefficients that are not 0, and the others must stay there:
|g_k| beyond the penalty, or g_k below 0, over H_kk is their share of delta. It takes as long as one least-squares fit
by LAPACK, far less than one layer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from softwright.methods.constants import Constants
from softwright.methods.guards import Guard, OutOfRange
from softwright.methods.losses import LOG_COSH, SQUARES, Loss
from softwright.methods.methods import METHODS
from softwright.methods.prompts import Prompt

if TYPE_CHECKING:
    from softwright.methods.network import InContextStack

_LIMITS = {
    "float64": (1e-8, 1e-6),
    "float32": (2e-2, 5e-2),
}  # of least squares and its kin, and where a link is between
_ASKED = 1e3  # times the accuracy that was asked for
_UNRELATED = 1e-2  # of the size of y: smaller coefficients explain nothing
_ROUNDED = 8.0 * 2.0**-52  # of the largest y: a difference of numbers of its size
_ZERO = 1e-10  # of the largest coefficient: what a gate may leave of one that is 0
_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class _Fit:
    """Columns (n, D) in standard deviations from the mean, the constant last if there is one; y, weights that sum to 1,
    and the coefficients (D,) of these columns."""

    z: np.ndarray
    y: np.ndarray
    p: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    w: np.ndarray
    apart: float  # how far predictions at the rows, which tokens may hold beside w, are from those of w
    constants: Constants

    def columns(self, x: np.ndarray) -> np.ndarray:
        z = (x - self.mean) / self.scale
        return np.concatenate([z, np.ones((len(x), 1))], axis=1) if self.constants.intercept else z

    def step(self) -> np.ndarray:
        """(D,): where a Newton step leads from w, turned round."""
        c, row, loss = self.constants, METHODS[self.constants.method], _loss(self.constants)
        s = self.z @ self.w
        H = (self.z.T * (self.p * loss.curvature(s, self.y, c.loss_scale))) @ self.z
        slope = self.z @ self.w.astype(np.longdouble) - self.y
        if loss is not SQUARES:
            slope = loss.slope(s, self.y, c.loss_scale)
        g = np.asarray(self.z.T @ (self.p * slope), dtype=float)
        fixed = np.zeros(int(c.intercept))
        step, free = 0.0 * g, np.ones(len(g), dtype=bool)
        if row.penalty_power == 1 or row.nonnegative:
            threshold = 0.0 * g if row.nonnegative else np.append(c.penalty / self.scale, fixed)
            free = np.abs(self.w) > _ZERO * np.abs(self.w[: len(self.scale)]).max()
            free[len(self.scale) :] = True
            beyond = -g if row.nonnegative else np.abs(g) - threshold
            step = np.maximum(beyond, 0.0) / np.maximum(np.diag(H), _TINY)
            g = g + threshold * np.sign(self.w)
        else:
            penalties = c.penalty * np.append(1.0 / self.scale**2, fixed)
            H, g = H + np.diag(penalties), g + penalties * self.w
        root = np.sqrt(np.diag(H))[free]
        inside = H[np.ix_(free, free)] / np.outer(root, root)
        if not np.isfinite(inside).all():  # no curvature is left, or more than floats hold
            return step + np.inf
        step[free] = np.linalg.lstsq(inside, g[free] / root, rcond=1e-17)[0] / root
        return step

    def left(self, queries: np.ndarray, answers: np.ndarray | None) -> float:
        """The step over the largest coefficient; with answers of w.x + b to queries, what it means for these."""
        loss, features = _loss(self.constants), len(self.scale)
        step, own = self.step(), np.abs(self.w[:features]).max()
        size, rounded = 1.0, 0.0
        if loss is SQUARES or loss is LOG_COSH:
            size, rounded = float(np.sqrt(self.p @ (self.y - self.p @ self.y) ** 2)), _ROUNDED * np.abs(self.y).max()
        size = max(own, _UNRELATED * size, _TINY)
        moved = np.maximum(np.abs(step[:features]).max(), self.apart)
        if answers is not None:
            z = self.columns(queries)
            moved = (np.abs(z @ step) + np.abs(z @ self.w - answers)).max(initial=0.0)
            size = max(size, np.abs(answers).max(initial=0.0))
        return float(np.maximum(moved - rounded, 0.0) / size)  # nan stays nan, and is outside of any limit

    def spread_off(self, queries: np.ndarray, spread: np.ndarray) -> float:
        """How far x.M x is off, M the inverse of cov(x) + penalty, relative to 1 + x.M x."""
        z = ((queries - self.mean) / self.scale).T
        rows = self.z[:, : len(self.scale)]
        H = (rows.T * self.p) @ rows + np.diag(self.constants.penalty / self.scale**2)
        exact = (z * np.linalg.solve(H, z)).sum(axis=0)
        return float((np.abs(spread - exact) / (1.0 + exact)).max(initial=0.0))


def _fit_of(stack: InContextStack, prompt: Prompt, final: Mapping[str, Tensor], w: np.ndarray, i: int) -> _Fit:
    """The fit of the i-th prompt of a batch with the coefficients w (d,)."""
    c = stack.constants
    x, y, logs = (_floats(part[i]) for part in (prompt.x, prompt.y, prompt.log_weights))
    p = np.exp(logs - logs.max())
    level, linked = y, _loss(c) is not SQUARES
    if linked:
        level = _floats(final["data"][i, :, stack.slots["s"][0]])
    x, y, level, p = x[p > 0], y[p > 0], level[p > 0], p[p > 0]
    p = p / p.sum()
    mean = x[0] + p @ (x - x[0]) if c.intercept else np.zeros(len(w))
    scale = np.sqrt(p @ (x - mean) ** 2)
    scale = np.where(scale > 0, scale, 1.0)
    middle = level[0] + p @ (level - level[0])  # what a fit with a constant says at the mean of x
    fit = _Fit(x, y, p, mean, scale, np.append(w * scale, middle) if c.intercept else w * scale, 0.0, c)
    z = fit.columns(x)
    apart = float(np.abs(z @ fit.w - level).max()) if linked else 0.0
    return replace(fit, z=z, apart=apart)


def _loss(c: Constants) -> Loss:
    return METHODS[c.method].loss or SQUARES


def _floats(part: Tensor) -> np.ndarray:
    return part.detach().double().cpu().numpy()


def look_at_solution(
    stack: InContextStack, prompt: Prompt, final: Mapping[str, Tensor], coefficients: Tensor, answers: Tensor | None
) -> None:
    """Raise if the coefficients (B, d) of these prompts, or `answers` (B, m) of w.x + b to their queries, are not those
    of the solution; answers (B, m, ..) are means and spreads."""
    c, worst = stack.constants, 0.0
    for i in range(len(prompt.x)):
        with np.errstate(all="ignore"):
            fit = _fit_of(stack, prompt, final, _floats(coefficients[i]), i)
            said = None if answers is None else _floats(answers[i])
            queries = _floats(prompt.queries[i])
            if said is None or said.ndim == 1:
                found = fit.left(queries, said)
            else:  # mean and spread
                found = float(np.maximum(fit.left(queries, said[:, 0]), fit.spread_off(queries, said[:, 1])))
        worst = max(worst, found if math.isfinite(found) else math.inf)
    row = METHODS[c.method]
    limit = max(_LIMITS[c.dtype][0 if _loss(c) is SQUARES else 1], _ASKED * c.accuracy)
    if worst > limit:
        what = "coefficients" if answers is None else "predictions"
        remedy = (
            f"the {what} have lost digits: a Newton step, taken outside the attention, would still move them; "
            "raise condition or steps, add a penalty, or remove rows far out and redundant columns"
        )
        steps = row.solvers[c.solver].usual_steps
        kind = "corrected" if steps is None and c.steps is None else "settled"
        raise OutOfRange(Guard(kind, stack.depth, limit, remedy, "", "", (), ()), worst, limit)
