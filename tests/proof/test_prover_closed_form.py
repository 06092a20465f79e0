"""Closed forms: never below what the gates really do, and sharp where they should be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import softwright as sw
from softwright.attention.head import Head
from softwright.attention.network import AttentionNetwork
from softwright.domain import Box
from softwright.proof.closed.max_affine import prove_max_affine
from softwright.proof.closed.meeting import gate_constant
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


MEETING = [
    ("max(x - y, y - x, 0.2)", [[1.0, -1, 0], [-1, 1, 0], [0, 0, 0.2]], 2),
    ("max(x, y, 0.1)", [[1.0, 0, 0], [0, 1, 0], [0, 0, 0.1]], 3),
    ("max(x + y, 2*x - 3, -x)", [[1.0, 1, 0], [2, 0, -3], [-1, 0, 0]], 2),
]


@pytest.mark.parametrize(("text", "pieces", "meeting"), MEETING)
def test_only_gates_that_meet_add_up(text: str, pieces: list[list[float]], meeting: int) -> None:
    """Three pieces of which no three are near one another lose what two do, and that much they do lose."""
    box, beta = Box(x=(-1, 1), y=(-1, 1)), 2.0**20
    network = max_affine(np.array(pieces), beta, box)
    found = prove_max_affine(exact_heads(network, "sdpa"), Expression(text, box).nodes, box, 1)
    assert found is not None and found.exact == pytest.approx(float(gate_constant(3, meeting)) / beta, rel=1e-6)
    stated = certify(network, text, tightness=0.1)
    assert stated.proved and found.exact <= 1.01 * stated.lower and stated.boxes == 0


def test_verify_counts_the_gates_that_meet_too(tmp_path: Path) -> None:
    built = sw.approximate("max(abs(x - y), 0.2)", {"x": (-1, 1), "y": (-1, 1)}, tol=1e-6, strategy="layer")
    certificate, path = built.certificate, tmp_path / "gates.safetensors"
    assert certificate.exact_part <= 1.02 * certificate.lower
    built.save(path)
    assert sw.verify(path)
    less = 0.999 * certificate.lower
    replace(built, certificate=replace(certificate, exact_part=less, bound=less * 1.001, lower=0.0)).save(path)
    assert not sw.verify(path)
