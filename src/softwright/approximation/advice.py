"""What to say where a tolerance is not reached: how far it is, why, and what to change."""

from __future__ import annotations

import math

from softwright.approximation.problem import Fit, Problem
from softwright.approximation.request import resolution_advice
from softwright.precision import Precision

_ROUNDINGS = 200  # of the largest value: what a network of many tokens may be off by its rounding alone


def advice_on(seen: float, fit: Fit, tolerance: float, problem: Problem, largest: float, precision: Precision) -> str:
    """What was reached (`seen`), and what to change; `largest` is a formula's largest value, 0 if nothing is known."""
    reached = f"{seen:.3g} with {fit.tokens} token(s)"
    lines = [f"asked for {tolerance:.3g}, reached {reached}"]
    if fit.jumps:
        lines += [f"  {reason}" for reason in fit.jumps]
        lines.append(
            "  no continuous network can meet a jump in the sup norm: give gap=1e-6 to prove it outside of a band, "
            "norm='L1' or 'L2' to prove it in the mean, exclude it from the box, or smooth the target"
        )
    elif tolerance < _ROUNDINGS * precision.unit * largest < math.inf:
        lines.append(f"  {resolution_advice(tolerance, largest, precision)}")
    elif problem.budget.out_of_time:
        lines.append("  the time is used up: raise max_seconds")
    elif problem.budget.out_of_work:
        lines.append("  the work that was allowed is used up: raise max_work")
    elif problem.saves_queries:
        lines.append("  the queries that were allowed are not enough: raise max_queries, or take a larger tol")
    elif problem.dim > 1 and problem.kinks:
        lines.append(
            "  the formula has kinks that are neither flat nor along one direction, which heads resolve slowly: "
            "try a larger tol, or give the parts between the kinks their own boxes"
        )
    elif problem.dtype == "float32" and tolerance < 1e-5:
        lines.append(
            "  float32 rounding sets a floor near 1e-5 for many targets: use engine='double', float64 or a larger tol"
        )
    else:
        lines.append("  try a larger tol, a smaller box, or split the target where it is not smooth")
    return "\n".join(lines)
