"""Closed forms: never below what the gates really do, and sharp where they should be."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from softwright.attention.head import Head
from softwright.attention.network import AttentionNetwork
from softwright.domain import Box
from softwright.proof.closed.max_affine import gate_constant, prove_max_affine
from softwright.proof.models.exact_heads import exact_heads
from softwright.proof.prover import certify
from softwright.targets import Expression


def max_affine(pieces: np.ndarray, beta: float, box: Box, dtype: torch.dtype = torch.float64) -> AttentionNetwork:
    """Rows (slopes..., offset) in x; scores are beta times the pieces."""
    d = pieces.shape[1] - 1
    slopes = pieces[:, :d] * box.halfwidth
    values = pieces[:, d] + pieces[:, :d] @ box.center
    return AttentionNetwork(
        [Head(beta * slopes, beta * values, values[:, None], slopes[:, None, :], "gates")], box, dtype
    )


def test_gate_constant_is_sharp() -> None:
    assert float(gate_constant(2)) == pytest.approx(0.278464542761, abs=1e-10)
    rng = np.random.default_rng(0)
    for tokens in (2, 3, 8, 64):
        y = rng.exponential(2, (20000, tokens - 1)) * rng.choice([0.3, 1, 2], (20000, 1))
        most = float(gate_constant(tokens).upper())
        assert ((y * np.exp(-y)).sum(axis=1) / (1 + np.exp(-y).sum(axis=1))).max() <= most
        best = 1 + float(gate_constant(tokens))
        reached = (tokens - 1) * best * np.exp(-best) / (1 + (tokens - 1) * np.exp(-best))
        assert reached == pytest.approx(float(gate_constant(tokens)), rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("beta", [30.0, 1e4])
def test_max_affine_bound_holds(beta: float, dtype: torch.dtype) -> None:
    box = Box(x=(-1, 2), y=(0, 1))
    network = max_affine(np.array([[1.0, 0, 0], [0, 1, 0], [-1, 0.25, 0.5]]), beta, box, dtype)
    text = "max(x, y, 0.5 - x + y/4)"
    found = prove_max_affine(exact_heads(network, "sdpa"), Expression(text, box).nodes, box, 1)
    assert found is not None
    points = box.sample(100_000, 1).astype(np.float32).astype(float)
    points = points[box.contains(points)]
    seen = np.abs(network.evaluate(points) - Expression(text, box)(points)).max()
    assert 0.3 * found.exact < seen <= found.exact + found.rounding
    assert found.exact <= 1.01 * float(gate_constant(3)) / beta + 1e-6


def test_certify_uses_the_closed_form() -> None:
    box = Box(x=(-1, 1), y=(-1, 1))
    network = max_affine(np.array([[1.5, 0, 0], [0.5, 1, 0]]), 1e9, box)
    found = certify(network, "max(x, y) + 0.5*x", bound=1e-9, max_boxes=2000)
    assert found.proved and found.certificate is not None
    assert found.certificate.method.startswith("closed form") and found.certificate.tree is None
    assert certify(network, "max(x, y) + 0.5*x", bound=1e-11, max_boxes=2000).status != "proved"
