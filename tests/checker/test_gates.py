"""Piecewise-linear formulas behind hard gates: proved and re-checked in closed form, in any number of variables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import softwright as sw
from softwright.approximation.observe import sampled_error
from softwright.attention import AttentionNetwork
from softwright.checker.verify import verify
from softwright.proof.closed.max_affine import prove_max_affine
from softwright.proof.models.exact_heads import exact_heads

FORMULAS = [
    ("max(abs(x-y), 0.2)", 1e-6),
    ("abs(x) + abs(y)", 1e-6),
    ("max(x, y) + min(x, -y)", 1e-6),
    ("max(x, y, -x-y)", 1e-8),
    ("abs(abs(x) - abs(y)) - 0.3*x", 1e-6),
    ("min(max(x - y, -0.3), 0.4)/3 - 2*abs(y)", 1e-5),
]
BOX = sw.Box(x=(-0.7, 1), y=(-1, 1.3))


# float32 searches ten times as long: half of them
IN_FLOAT32 = ("abs(x) + abs(y)", "max(x, y, -x-y)", "abs(abs(x) - abs(y)) - 0.3*x")


@pytest.mark.parametrize(
    ("formula", "tol", "dtype"),
    [*((*row, "float64") for row in FORMULAS), *((*row, "float32") for row in FORMULAS if row[0] in IN_FLOAT32)],
)
def test_built_proved_and_verified_without_boxes(formula: str, tol: float, dtype: str, tmp_path: Path) -> None:
    tol = tol if dtype == "float64" else max(tol, 1e-4)
    built = sw.approximate(formula, BOX, tol=tol, dtype=dtype)
    assert built.certificate is not None, built.unproved
    assert built.certificate.bound <= tol
    assert built.observed_error <= built.certificate.bound
    path = tmp_path / "gates.safetensors"
    built.save(path)
    verdict = verify(path)
    assert verdict.verified, verdict.reason


@pytest.mark.parametrize(("formula", "tol"), FORMULAS)
def test_the_bound_is_real_and_not_far_above_the_truth(formula: str, tol: float) -> None:
    built = sw.approximate(formula, BOX, tol=tol, certify=False, strategy="layer")
    expression = sw.Expression(formula, BOX)
    heads = exact_heads(built.network, "sdpa")
    proof = prove_max_affine(heads, expression.nodes, BOX, len(heads))
    assert proof is not None
    seen = sampled_error(built.network, expression, count=40_000).error
    assert seen <= proof.exact + proof.rounding <= 5 * seen


def test_a_changed_piece_is_not_proved() -> None:
    """One value off by twice the tolerance: the closed form must see it."""
    tol = 1e-6
    built = sw.approximate("abs(x) + abs(y)", BOX, tol=tol, certify=False, strategy="layer")
    expression = sw.Expression("abs(x) + abs(y)", BOX)
    rng = np.random.default_rng(0)
    for _ in range(20):
        network = AttentionNetwork(built.network.heads(), BOX)
        head = next(iter(network.layer))
        with torch.no_grad():
            head.values[int(rng.integers(head.tokens)), 0] += float(rng.choice([-1, 1])) * 2 * tol
        heads = exact_heads(network, "sdpa")
        proof = prove_max_affine(heads, expression.nodes, BOX, len(heads))
        assert proof is None or proof.exact > tol


@pytest.mark.parametrize("formula", ["sin(x) + y", "x*y", "abs(x*y)", "max(x, pi)", "sign(x) + y"])
def test_other_formulas_are_left_to_other_proofs(formula: str) -> None:
    built = sw.approximate("abs(x) + abs(y)", BOX, tol=1e-3, certify=False)
    heads = exact_heads(built.network, "sdpa")
    assert prove_max_affine(heads, sw.Expression(formula, BOX).nodes, BOX, 1) is None
