"""The distance to the solution for a prompt at hand: its hypotheses are enclosed, not estimated, in ball arithmetic.

The smallest eigenvalue of a symmetric matrix is above l if A - l I has a Cholesky factor, which balls can show; l is
found by floats first. Everything else about the prompt (mean, variances, leverages, ranges) is a formula in balls. The
bound of `bound` is then taken for the set that this prompt just fits into. `seen` compares the run with the exact
solution of these very numbers, also in balls.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from flint import arb, arb_mat

from softwright.errors import Faults, InvalidInput
from softwright.methods.methods import METHODS
from softwright.methods.prompts import read_prompt
from softwright.methods.solution.bound import Prompts, distance
from softwright.methods.solution.certificate import solution_certificate
from softwright.methods.step_bound import ball, upward
from softwright.methods.widening import stack_for
from softwright.precision import assumptions
from softwright.proof.arithmetic.balls import precision
from softwright.result.at_prompt import AtPrompt
from softwright.result.built import Built

if TYPE_CHECKING:
    from softwright.methods.network import InContextStack

BITS = 400  # covariances of numbers of any size in the range
_SHRINK = (1 - 2.0**-30, 0.99, 0.5)  # of an eigenvalue that floats found: the largest that can be shown


@precision(BITS)
def certify_at(built: Built[InContextStack], x: Any, y: Any, queries: Any = None, *, radius: float = 0.0) -> AtPrompt:
    """The bound for observations x (n, d), y (n,) and queries (m, d), or the rows themselves if none are given."""
    stack, faults = built.network, Faults("certify_at")
    c = stack.constants
    if METHODS[c.method].solvers[c.solver].certificate is not solution_certificate:
        faults.add(
            f"{c.method} by {c.solver}: the distance to the solution is observed only; nothing is proved of a prompt"
        )
    faults.check(radius == 0, "a prompt in context has no ball round it; a certificate covers the set that it names")
    faults.check(
        _as_built(stack),
        "the stack is not the one that its arguments give on this machine: weights or dtype were changed, or a file "
        "was made elsewhere; build it again by in_context",
    )
    faults.raise_if_any()
    queries = x if queries is None else queries
    read_prompt(x, y, queries, None, c, stack.dtype, True)  # all that a prompt must be to be answered
    with torch.no_grad():
        answers = stack(x, y, queries).double().numpy()
    read = (part if isinstance(part, torch.Tensor) else np.array(part) for part in (x, y, queries))
    kept = [torch.as_tensor(part, dtype=stack.dtype).detach().double().cpu().numpy() for part in read]
    faults.check(kept[0].ndim == 2 and kept[1].ndim == 1, "give one prompt at a time: x (n, d), y (n,), queries (m, d)")
    faults.check(kept[2].size > 0, "there are no queries, so nothing is predicted; give at least one row of them")
    faults.raise_if_any()
    rows, values, asked = kept
    found = _Enclosed(rows, values, asked, stack)
    prompts = found.prompts(faults)
    faults.raise_if_any()
    try:
        bound = distance(stack, prompts)
    except InvalidInput as error:
        raise InvalidInput("certify_at", [f"no distance is proved for this prompt: {error.faults[0]}"]) from error
    rms, seen = found.rms, found.seen(answers)
    absolute = upward(arb(bound.total) * rms)
    parts = {
        "preparation moves the data": bound.prepared,
        "inverse and refinement": bound.refined,
        "reading out": bound.read,
    }
    return AtPrompt(
        statement=f"each of {len(answers)} prediction(s) against that of the exact solution, for this prompt",
        bound=absolute,
        seen=seen,
        budget={name: upward(arb(part) * rms) for name, part in parts.items()},
        quantities={**{name: float(value) for name, value in asdict(prompts).items()}, "rms of y": upward(rms)},
        dtype=c.dtype,
        assumptions=assumptions(c.dtype),
    )


def _as_built(stack: InContextStack) -> bool:
    """Whether every tensor is, to the bit, what the arguments give: the bound reads groups of heads from the tensors,
    and believes of all others (what selects, prepares and reads) that they are as they were built."""
    fresh = stack_for(stack.constants)
    own, wanted = stack.state_dict(), fresh.state_dict()
    return (
        own.keys() == wanted.keys()
        and all(own[name].dtype == wanted[name].dtype and torch.equal(own[name].cpu(), wanted[name]) for name in own)
        and stack.describe() == fresh.describe()
    )


def _matrix(values: np.ndarray) -> arb_mat:
    return arb_mat([[ball(float(entry)) for entry in row] for row in np.atleast_2d(values)])


def positive_definite(A: arb_mat, shift: arb) -> bool:
    """Whether A - shift is shown to have a Cholesky factor."""
    d = A.nrows()
    L = [[arb(0)] * d for _ in range(d)]
    for i in range(d):
        for j in range(i + 1):
            rest = A[i, j] - (shift if i == j else 0) - sum((L[i][k] * L[j][k] for k in range(j)), arb(0))
            if i == j:
                if not rest > 0:
                    return False
                L[i][i] = rest.sqrt()
            else:
                L[i][j] = rest / L[j][j]
    return True


def least_eigenvalue(A: arb_mat) -> float:
    """A number that all eigenvalues are shown to be above; 0 if none above 0 could be."""
    rough = np.array([[float(A[i, j].mid()) for j in range(A.ncols())] for i in range(A.nrows())])
    about = float(np.linalg.eigvalsh(rough)[0])
    return next((about * part for part in _SHRINK if about > 0 and positive_definite(A, ball(about * part))), 0.0)


class _Enclosed:
    """Mean, covariance, leverages and the exact answers of a prompt."""

    def __init__(self, x: np.ndarray, y: np.ndarray, queries: np.ndarray, stack: InContextStack) -> None:
        self.c, self.n = stack.constants, len(x)
        c, n = self.c, arb(len(x))
        rows, asked = _matrix(x), _matrix(queries)
        d = rows.ncols()
        mean = [sum((rows[j, p] for j in range(len(x))), arb(0)) / n if c.intercept else arb(0) for p in range(d)]
        self.raw = x
        self.rows = arb_mat([[rows[j, p] - mean[p] for p in range(d)] for j in range(len(x))])
        self.asked = arb_mat([[asked[j, p] - mean[p] for p in range(d)] for j in range(len(queries))])
        held = [ball(float(value)) for value in y]
        self.y_mean = sum(held, arb(0)) / n if c.intercept else arb(0)
        self.rms = (sum((value * value for value in held), arb(0)) / n).sqrt()
        cov = self.rows.transpose() * self.rows
        shift = ball(c.penalty)
        self.A = arb_mat([[cov[p, q] / n + (shift if p == q else 0) for q in range(d)] for p in range(d)])
        product = self.rows.transpose() * arb_mat([[value - self.y_mean] for value in held])
        self.moment = arb_mat([[product[p, 0] / n] for p in range(d)])

    def prompts(self, faults: Faults) -> Prompts:
        """The set that this prompt just fits into; what it lacks is recorded."""
        c, d = self.c, self.A.nrows()
        raw = self.raw
        ranges = [float(np.ptp(raw[:, p])) if c.intercept else 2 * float(np.abs(raw[:, p]).max()) for p in range(d)]
        ranges = [span * (1 - 2.0**-50) for span in ranges]  # the difference of two floats rounds
        sigma = [self.A[p, p].sqrt() for p in range(d)]
        if c.penalty == 0:
            flat = [p for p in range(d) if ranges[p] <= 0 or not sigma[p] > 0]
            faults.check(not flat, f"feature(s) {flat} do not vary, so that no solution is unique; remove them")
        faults.check(self.rms > 0, "y is 0 throughout; there is nothing to fit")
        faults.raise_if_any()
        inside = bool(self.rms >= 2.0**-64) and bool(self.rms <= 2.0**64)
        faults.check(inside, "the root mean square of y is outside 2^-64 to 2^64; change its unit")
        share = max(math.sqrt(c.penalty) / span for span in ranges) * (1 + 2.0**-40) if c.penalty > 0 else 0.0
        if c.scaling:
            small, large = min(ranges), max(ranges) * (1 + 2.0**-48)
            faults.check(small >= 2.0**-20 and large <= 2.0**20, "a range is outside 2^-20 to 2^20; change its unit")
            faults.check(share <= 0.125, "the penalty is more than a 64th of a squared range; lower it, or scale x")
        scaled = self.A
        if c.scaling:
            scaled = arb_mat([[self.A[p, q] / (sigma[p] * sigma[q]) for q in range(d)] for p in range(d)])
        else:
            most = ball(c.largest_eigenvalue) + ball(c.penalty)
            above = positive_definite(arb_mat([[-self.A[p, q] for q in range(d)] for p in range(d)]), -most)
            faults.check(
                above, f"an eigenvalue of the covariance is beyond {float(most.mid()):g}; raise largest_eigenvalue"
            )
        least = least_eigenvalue(scaled)
        faults.check(
            least > 0, "the features are linearly dependent, or cannot be shown not to be: no solution is unique"
        )
        faults.raise_if_any()
        lever = max(self.leverage(self.rows), self.leverage(self.asked))
        offset = max(upward(ball(float(np.abs(raw[:, p]).max())) / sigma[p]) for p in range(d))
        spans = [ball(span) for span in ranges]
        m = range(self.asked.nrows())
        far = max((upward(abs(self.asked[j, p]) / spans[p]) for j in m for p in range(d)), default=1.0)
        width = max(upward(spans[p] * (1 + arb(2) ** -40) / sigma[p]) for p in range(d))
        return Prompts(self.n, upward(1 / ball(least)), lever, offset, far, share or 0.125, width)

    def leverage(self, points: arb_mat) -> float:
        if points.nrows() == 0:
            return 0.0
        turned = self.A.solve(points.transpose())
        d = self.A.nrows()
        each = (sum((points[j, p] * turned[p, j] for p in range(d)), arb(0)) for j in range(points.nrows()))
        return max(upward(value) for value in each)

    def seen(self, answers: np.ndarray) -> float:
        """The largest distance of these answers from the exact ones."""
        w = self.A.solve(self.moment)
        exact = self.asked * w
        off = (abs(ball(float(answers[j])) - exact[j, 0] - self.y_mean) for j in range(len(answers)))
        return max((upward(value) for value in off), default=0.0)
