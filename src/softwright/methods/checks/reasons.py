"""What is behind a refusal: asked of the prompt itself, and not of an iteration that failed.

At once: a penalty, or columns that depend on each other, where no wider stack would help. And when no wider stack is
left:

Columns that nearly depend have coefficients of few digits: the matrix of their products has the square of their
condition. Labels that a plane separates, and counts of 0 in a corner that no other row holds back, have no finite
solution without a penalty: the loss falls for ever in a direction v with

    (2 y_j - 1) x_j.v >= 0   (labels),      x_j.v = 0 where y_j > 0, x_j.v <= 0 where y_j = 0   (counts),

and v other than 0 somewhere; whether there is one is a linear programme.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from softwright.errors import InvalidInput
from softwright.methods.constants import Constants
from softwright.methods.guards import UNMOVED, OutOfRange
from softwright.methods.losses import SQUARES
from softwright.methods.methods import METHODS
from softwright.methods.prompts import Prompt, too_penalised
from softwright.methods.solvers.dependence import HOPELESS, dependence

NEARLY = {"float64": 1e-3, "float32": 3e-2}  # smallest over largest singular value
_LABELS, _COUNTS = ("logistic", "probit"), ("poisson", "negative_binomial")
_MOST = 1_000_000  # numbers of x: a linear programme of more takes too long for a reason
_RISEN = 1e-4  # of a row's share, which ends at 1: more than the programme's own tolerance


def explain(prompt: Prompt, constants: Constants, refusal: OutOfRange) -> None:
    """Raise what no wider stack would help against; leave the rest to be asked for."""
    if refusal.guard.of_prompt:
        return
    row = METHODS[constants.method]
    why = penalised_away(prompt, constants)
    if not why and constants.penalty == 0 and row.needs_rows and (row.loss is not None or row.varying == 0):
        why = dependence(prompt.x, prompt.log_weights, constants, HOPELESS)
    if why:
        raise InvalidInput("in_context", [why]) from refusal
    if row.loss is not None and refusal.guard.kind not in UNMOVED:
        refusal.behind = lambda: _behind(prompt, constants, refusal)


def penalised_away(prompt: Prompt, constants: Constants, *limit: float) -> str:
    """The columns of x that a penalty leaves nothing of, and the words for it, if there are any."""
    if not constants.scaling or not prompt.x.numel():
        return ""
    heavy, why = too_penalised(prompt.x.amax(dim=1) - prompt.x.amin(dim=1), constants, *limit)
    columns = ", ".join(map(str, heavy.any(dim=0).nonzero()[:8, 0].tolist()))
    return f"column(s) {columns} of x {why}" if columns else ""


def _behind(prompt: Prompt, constants: Constants, refusal: OutOfRange) -> list[str]:
    """The words for it, if there are any."""
    if constants.penalty > 0 or not prompt.x.numel():
        return []
    for i in range(len(prompt.x)):
        parts = (part[i].double().cpu().numpy() for part in (prompt.x, prompt.y, prompt.log_weights))
        why = _endless(*parts, constants)
        if why:
            return [why]
    why = dependence(prompt.x, prompt.log_weights, constants, NEARLY)
    if not why:
        return []
    return [why, *refusal.faults] if METHODS[constants.method].loss is SQUARES else [why]


def _endless(x: np.ndarray, y: np.ndarray, logs: np.ndarray, c: Constants) -> str:
    labels = c.method in _LABELS
    if (not labels and c.method not in _COUNTS) or x.size > _MOST:
        return ""
    x, y = x[logs > -1e29], y[logs > -1e29]
    z = x - x.mean(axis=0) if c.intercept else x
    z = z / np.maximum(np.abs(z).max(axis=0), np.finfo(float).tiny)
    z = np.concatenate([z, np.ones((len(z), int(c.intercept)))], axis=1)
    rising = np.where(y[:, None] > 0, z, -z) if labels else -z[y == 0]
    still = z[:0] if labels else z[y > 0]
    n, d = rising.shape
    if n == 0:
        return ""
    found = linprog(  # the largest sum of shares t_j <= 1 with t_j <= rising_j.v
        np.concatenate([np.zeros(d), -np.ones(n)]),
        A_ub=np.concatenate([-rising, np.eye(n)], axis=1), b_ub=np.zeros(n),
        A_eq=np.concatenate([still, np.zeros((len(still), n))], axis=1) if len(still) else None,
        b_eq=np.zeros(len(still)) if len(still) else None,
        bounds=[(-1.0, 1.0)] * d + [(0.0, 1.0)] * n, method="highs",
    )  # fmt: skip
    if found.status != 0 or -found.fun <= _RISEN:
        return ""
    if labels:
        return (
            "the classes are separable: a plane has each on a side of its own, or on it, so that there is no finite "
            "solution without a penalty; add a penalty"
        )
    return (
        "some rows of count 0 differ from all rows with counts in a way that lets their rates fall to 0: there is no "
        "finite solution without a penalty; add a penalty, or remove those rows or columns"
    )
