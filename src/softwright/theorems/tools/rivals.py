"""softwright's own constructions for the same task, to stand beside a theorem's: the rows of its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from softwright.errors import ToleranceNotReached

Bounds = tuple[float, float]


class Rival(NamedTuple):
    """What another construction reaches, and with how many tokens."""

    tokens: int
    error: float
    proved: bool = False  # whether the error is a bound; else it was observed


Rivals = dict[str, Rival]  # a name each


def by_approximate(
    formula: str, sides: Mapping[str, Bounds], tokens: int, dtype: str = "float64", digits: int = 11
) -> Rivals:
    """The smallest error that `approximate` reaches with no more tokens, asked for 1e-1 down to 1e-`digits`."""
    from softwright.approximation.verb import approximate

    best: Rivals = {}
    for k in range(1, digits + 1):
        try:
            built = approximate(
                formula, dict(sides), tol=10.0**-k, dtype=dtype, max_tokens=tokens, max_work=5.0, certify=False
            )
        except ToleranceNotReached:
            break
        best = {f"softwright ({dtype})": Rival(built.network.tokens, built.observed_error)}
    return best


def by_in_context(features: int, rows: int, step_size: float, x: float, y: float, w: float) -> Rivals:
    """One gradient step of least squares by `in_context`, whose error is proved, rounding included."""
    from softwright.methods.verb import in_context

    bounds = {"x_bound": x, "y_bound": y, "w_bound": w, "max_rows": rows}
    built = in_context(
        "least_squares",
        features,
        solver="gradient",
        steps=1,
        step_size=step_size,
        intercept=False,
        sample=False,
        **bounds,
    )
    if built.certificate is None:
        return {}
    return {"softwright in_context, one step (proved)": Rival(rows, built.certificate.bound, proved=True)}


def by_transpile(layers: Sequence[tuple[np.ndarray, np.ndarray]], activation: str, slope: float, box: Bounds) -> Rivals:
    """The same feed-forward network by `transpile`: two tokens or three per unit."""
    from torch import nn, tensor

    from softwright.transpiler.verb import transpile

    kinds: dict[str, Any] = {"relu": nn.ReLU(), "leaky_relu": nn.LeakyReLU(slope)}
    kinds |= {"hard_tanh": nn.Hardtanh(), "hard_sigmoid": nn.Hardsigmoid()}
    chain: list[nn.Module] = []
    for W, t in layers:
        linear = nn.Linear(W.shape[1], W.shape[0]).double()
        linear.load_state_dict({"weight": tensor(W), "bias": tensor(t)})
        chain += [linear, kinds[activation]]
    built = transpile(nn.Sequential(*chain[:-1]), box, dtype="float64")
    return {"softwright transpile (float64)": Rival(built.plan.tokens, built.observed_error)}
