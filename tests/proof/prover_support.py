"""Exact values for the prover's tests: heads and formulas in 200-bit balls, straight from their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from flint import arb

from softwright.attention.head import Head
from softwright.attention.network import AttentionNetwork
from softwright.domain import Box
from softwright.proof.arithmetic.balls import precision
from softwright.proof.arithmetic.taylor_model import TaylorModel
from softwright.proof.models.head_moments import ExactHead
from softwright.targets.formula.balls import evaluate
from softwright.targets.formula.expression import Expression


def head_value(head: ExactHead, point: np.ndarray) -> list[Any]:
    """The head's outputs at a float64 point, as balls."""
    N, d = head.keys.shape
    t = [(arb(float(point[i])) - arb(float(head.center[i]))) * arb(float(head.scale[i])) for i in range(d)]
    scores = [
        sum(
            (arb(float(head.keys[j, i])) * t[i] for i in range(d)),
            arb(float(head.bias[j])) + arb(float(head.bias_low[j])),
        )
        for j in range(N)
    ]
    top = max(float(score.mid()) for score in scores)
    weights = [(score - top).exp() for score in scores]
    total = sum(weights, arb(0))
    out = []
    for o in range(head.values.shape[1]):
        value = arb(0)
        for j in range(N):
            v = arb(float(head.values[j, o]))
            if head.slopes is not None:
                v = v + sum((arb(float(head.slopes[j, o, i])) * t[i] for i in range(d)), arb(0))
            value = value + weights[j] * v
        out.append(value / total)
    return out


def network_value(heads: tuple[ExactHead, ...], point: np.ndarray) -> list[Any]:
    each = [head_value(head, point) for head in heads]
    return [sum((values[o] for values in each), arb(0)) for o in range(len(each[0]))]


def formula_value(expression: Expression, point: np.ndarray) -> list[Any]:
    named = {name: arb(float(x)) for name, x in zip(expression.names, point, strict=True)}
    return [evaluate(node, named) for node in expression.nodes]


def exact_error(heads: tuple[ExactHead, ...], expression: Expression, point: np.ndarray) -> float:
    """|g - f| at a point, largest output, to 50 digits and then rounded."""
    with precision(200):
        gaps = [abs(a - b) for a, b in zip(network_value(heads, point), formula_value(expression, point), strict=True)]
        return max(float(gap.mid()) for gap in gaps)


def model_gap(
    model: TaylorModel, box: int, center: np.ndarray, radius: np.ndarray, point: np.ndarray, *, value: Any
) -> Any:
    """|value - polynomial| at a point of the box, exactly."""
    total = arb(0)
    s = [(arb(float(x)) - arb(float(c))) / arb(float(r)) for x, c, r in zip(point, center, radius, strict=True)]
    for a, exponents in enumerate(model.shape.exponents):
        term = arb(float(model.coefficients[a, box]))
        for i, exponent in enumerate(exponents):
            if exponent:
                term = term * s[i] ** int(exponent)
        total = total + term
    return abs(value - total)


def points_in(rng: np.random.Generator, center: np.ndarray, radius: np.ndarray, count: int) -> list[np.ndarray]:
    """Random points and corners, moved inwards a little so that their rounding keeps them in the box."""
    s = np.concatenate([rng.uniform(-1, 1, (count, len(center))), np.sign(rng.normal(size=(2, len(center))))])
    inwards = 1 - 1e-15 - 4e-16 * np.abs(center) / radius
    return [center + radius * row * inwards for row in s]


def random_network(
    rng: np.random.Generator, dim: int, tokens: int, *, outputs: int = 1, heads: int = 1, affine: bool = False,
    hardness: float = 5.0, size: float = 1.0, dtype: torch.dtype = torch.float64, box: Box | None = None,
) -> AttentionNetwork:  # fmt: skip
    parts = []
    for _ in range(heads):
        keys = rng.normal(size=(tokens, dim)) * hardness
        slopes = rng.normal(size=(tokens, outputs, dim)) * size if affine else None
        parts.append(Head(keys, rng.normal(size=tokens) * hardness, rng.normal(size=(tokens, outputs)) * size, slopes))
    if box is None:
        low = rng.uniform(-3, 3, dim)
        names = ["x", "y", "z", "w"][:dim]
        box = Box.from_bounds(low, low + rng.uniform(0.3, 4, dim), names)
    return AttentionNetwork(parts, box, dtype)
