"""What is behind a refusal: asked of the prompt itself, and not of an iteration that failed.

At once: a penalty, or columns that depend on each other, where no wider stack would help. And when no wider stack is
left:

Columns that nearly depend have coefficients of few digits: the matrix of their products has the square of their
condition. Labels that a plane separates, and counts of 0 in a corner that no other row holds back, have no finite
solution without a penalty: the loss falls for ever in a direction v with

    (2 y_j - 1) x_j.v >= 0   (labels),      x_j.v = 0 where y_j > 0, x_j.v <= 0 where y_j = 0   (counts),

and x_j.v other than 0 somewhere; whether there is one is a linear programme. And a solution may be there, but its
Newton matrix have no inverse in floats: rates that differ by fourteen decades, or a row so far out that it decides.
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

Parts = tuple[np.ndarray, np.ndarray, np.ndarray]  # x, y and log weights of one prompt
NEARLY = {"float64": 1e-3, "float32": 3e-2}  # smallest over largest singular value
_LABELS, _COUNTS = ("logistic", "probit"), ("poisson", "negative_binomial")
_INVERTED = 1e7  # condition of a matrix, beyond which its inverse has lost the digits that Newton's method needs
_MOST = 1_000_000  # numbers of x: a linear programme of more takes too long for a reason
_RISEN = 1e-4  # of a row's share, which ends at 1: more than the programme's own tolerance


def explain(prompt: Prompt, constants: Constants, refusal: OutOfRange) -> None:
    """Raise what no wider stack would help against; leave the rest to be asked for."""
    if refusal.guard.of_prompt:
        return
    row = METHODS[constants.method]
    why = penalised_away(prompt, constants)
    inverted = row.needs_rows if row.loss is not None else row.varying == 0
    if not why and constants.penalty == 0 and inverted:
        why = _dependence(prompt, constants, HOPELESS)
    if why:
        raise InvalidInput("in_context", [why]) from refusal
    if (row.loss is not None or inverted) and refusal.guard.kind not in UNMOVED:
        refusal.behind = lambda: _behind(prompt, constants, refusal)


def penalised_away(prompt: Prompt, constants: Constants, *limit: float) -> str:
    """The columns of x that a penalty leaves nothing of, and the words for it, if there are any."""
    if not constants.scaling or not prompt.x.numel():
        return ""
    heavy, why = too_penalised(prompt.x.amax(dim=1) - prompt.x.amin(dim=1), constants, *limit)
    columns = ", ".join(map(str, heavy.any(dim=0).nonzero()[:8, 0].tolist()))
    return f"column(s) {columns} of x {why}" if columns else ""


def _dependence(prompt: Prompt, constants: Constants, limit: dict[str, float]) -> str:
    row = METHODS[constants.method]
    why = dependence(prompt.x, prompt.log_weights, constants, limit)
    squared = row.penalty_power == 2 and (row.loss is not None or row.penalised is not False)
    return why if squared else why.removesuffix(", or add a penalty")


def _behind(prompt: Prompt, constants: Constants, refusal: OutOfRange) -> list[str]:
    """The words for it, if there are any."""
    linked = METHODS[constants.method].loss is not SQUARES
    if not prompt.x.numel():
        return []
    x, y, logs = (part.detach().double().cpu().numpy() for part in (prompt.x, prompt.y, prompt.log_weights))
    prompts = list(zip(x, y, logs, strict=True))
    why = ""
    if constants.penalty == 0 or METHODS[constants.method].penalty_power == 1:
        found = (_endless(parts, constants) for parts in prompts)
        why = next(filter(None, found), "") or _dependence(prompt, constants, NEARLY)
    if not why and linked:
        why = max((_ill(parts, constants) for parts in prompts), key=len)
    if not why:
        return []
    return [why] if linked else [why, *refusal.faults]


def _ill(parts: Parts, c: Constants) -> str:
    """Whether the matrix of a Newton step has no digits at the solution itself, found by classical numerics."""
    from softwright.methods.reference import reference  # which imports the network

    x, y, logs = parts
    loss, p = METHODS[c.method].loss, np.exp(logs - logs.max())
    x, y, p = x[p > 0], y[p > 0], p[p > 0] / p.sum()
    if loss is None:
        return ""
    try:
        with np.errstate(all="ignore"):
            w, b = reference(x, y, c, p)
            s = x @ w + b
            mean = p @ x if c.intercept else np.zeros(len(w))
            scale = np.sqrt(p @ (x - mean) ** 2)
            z = np.concatenate([(x - mean) / scale, np.ones((len(x), int(c.intercept)))], axis=1)
            H = (z.T * (p * loss.curvature(s, y, c.loss_scale))) @ z
            H += np.diag(np.append(c.penalty / scale**2, np.zeros(int(c.intercept))))
            condition = float(np.linalg.cond(H / np.sqrt(np.outer(np.diag(H), np.diag(H)))))
    except (np.linalg.LinAlgError, ValueError):
        return ""
    if np.isfinite(s).all() and (condition > _INVERTED or not np.isfinite(condition)):
        return (
            f"at the solution predictions reach {np.abs(s).max():.2g}, and columns, weighted by the curvature of the "
            f"loss, are nearly dependent: the matrix of a Newton step has a condition of {condition:.1g}, and the "
            "steps do not settle; raise the penalty, remove columns, or leave out rows far from the others"
        )
    return ""


def _endless(parts: Parts, c: Constants) -> str:
    x, y, logs = parts
    labels = c.method in _LABELS
    several = c.method == "multinomial"
    if not (labels or several or c.method in _COUNTS) or x.size > _MOST:
        return ""
    x, y = x[logs > -1e29], y[logs > -1e29]
    z = x - x.mean(axis=0) if c.intercept else x
    z = z / np.maximum(np.abs(z).max(axis=0), np.finfo(float).tiny)
    z = np.concatenate([z, np.ones((len(z), int(c.intercept)))], axis=1)
    if several:  # x_j.(v_y - v_k) >= 0 for all other classes k
        others = range(int(c.option("classes")))
        if z.size * len(others) ** 2 > _MOST:
            return ""
        own = [np.where((y == k)[:, None], z, 0.0) for k in others]
        rising = np.concatenate([np.concatenate(own, axis=1)[y != k] for k in others])
        rising[:, :] -= np.concatenate(
            [np.concatenate([z * float(k == m) for m in others], axis=1)[y != k] for k in others]
        )
    else:
        rising = np.where(y[:, None] > 0, z, -z) if labels else -z[y == 0]
    labels = labels or several
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
            "the classes are separable: a plane has some on a side of their own, or on it, so that there is no finite "
            "solution without a penalty; add a penalty"
        )
    return (
        "some rows of count 0 differ from all rows with counts in a way that lets their rates fall to 0: there is no "
        "finite solution without a penalty; add a penalty, or remove those rows or columns"
    )
