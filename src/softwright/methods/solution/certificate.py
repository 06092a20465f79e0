"""The certificate of the normal equations: the distance to the solution, for a set that the arguments name.

Where no distance is proved, of a range that is too wide or in float32, the certificate is about the layer that forms
the matrix, and the plan says that the distance is observed only.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from flint import arb

from softwright.errors import InvalidInput
from softwright.methods.solution.bound import Prompts, distance
from softwright.methods.step_bound import PRECISION, Bound, matrix_certificate, stated, upward
from softwright.proof.arithmetic.balls import precision
from softwright.result.closed_form import ClosedForm

if TYPE_CHECKING:
    from softwright.methods.network import InContextStack

OFFSET = 1024.0  # how many standard deviations a feature may be from 0 in the set of a certificate
METHOD = "self-correcting recursions of the inverse and its refinement, Cauchy's estimate and rounding of all layers"


def stated_prompts(stack: InContextStack) -> Prompts:
    """The set that a certificate is about: its bounds are arguments of `in_context`."""
    c = stack.constants
    return Prompts(c.max_rows, c.condition, c.score_bound, OFFSET, c.range_bound / 4)


@precision(PRECISION)
def solution_certificate(stack: InContextStack, target: dict[str, Any]) -> ClosedForm:
    """The distance to the solution, or, where none is proved, the bound of the layer that forms the matrix."""
    started, prompts, c = time.monotonic(), stated_prompts(stack), stack.constants
    try:
        found, exact = distance(stack, prompts), distance(stack, prompts, rounded=False)
    except InvalidInput:
        return matrix_certificate(stack, target)
    rounding = upward(arb(found.total) - arb(exact.total))
    return stated(
        stack,
        target,
        started,
        statement=statement_of(stack, prompts),
        bound=Bound(exact.total, rounding),
        method=METHOD,
        quantities={
            "order": float(c.order),
            "leverage": prompts.leverage,
            "offset": prompts.offset,
            "ranges": prompts.ranges,
            "condition": prompts.condition,
            "moved_by_preparation": found.prepared,
            "inverse_off": found.inverse,
            "refinement": found.refined,
            "reading": found.read,
        },
    )


def statement_of(stack: InContextStack, prompts: Prompts) -> str:
    c = stack.constants
    what = "ridge" if c.penalty > 0 else "least-squares"
    spectrum = f"condition <= {prompts.condition:g}"
    sizes = f", queries within {prompts.ranges:g} ranges of the mean, ranges between 2^-20 and 2^20"
    if c.penalty > 0:
        sizes += f" and at least {8 * math.sqrt(c.penalty):g}"
    if not c.scaling:
        most = c.largest_eigenvalue + c.penalty
        spectrum = f"eigenvalues of the covariance, penalty included, between {1 / prompts.condition:g} and {most:g}"
        sizes = ""
    return (
        f"each prediction against that of the exact {what} solution, per unit of the root mean square of y, for all "
        f"prompts of up to {prompts.rows} rows of weight 1 with {spectrum}, leverage <= {prompts.leverage:g} of rows "
        f"and queries, features within {prompts.offset:g} standard deviations of 0{sizes}, root mean square of y "
        "between 2^-64 and 2^64"
    )
