"""Tokens as rows: the same function as by the fused kernel, and only where nobody asks for derivatives or a record."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

from softwright.attention import AttentionNetwork, evaluate, layer
from softwright.attention.plain import MOST_TOKENS
from softwright.domain import Box
from tests.attention.random_heads import rounding_slack, scattered_head


def network_of(tokens: int, dim: int, outputs: int, affine: bool, dtype: torch.dtype) -> AttentionNetwork:
    head = scattered_head(np.random.default_rng(tokens), dim, outputs, tokens, affine=affine, sharpness=9.0)
    return AttentionNetwork([head, head.scaled(-0.3)], Box.from_bounds(-np.ones(dim), np.ones(dim)), dtype)


def no_kernel(*given: object, **named: object) -> torch.Tensor:
    raise RuntimeError("the fused kernel")


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("tokens", "dim", "outputs"), [(1, 1, 1), (3, 6, 5), (12, 2, 1), (MOST_TOKENS, 3, 2)])
def test_few_tokens_take_no_fused_kernel(
    tokens: int, dim: int, outputs: int, affine: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer, "scaled_dot_product_attention", no_kernel)
    network = network_of(tokens, dim, outputs, affine, dtype)
    count = 5000 if tokens > 1 else 140_000  # more than one part
    points = torch.tensor(np.random.default_rng(1).uniform(-1, 1, (count, dim)), dtype=dtype)
    found = network(points, engine="sdpa")
    wanted = evaluate(network.heads(), points.double().numpy())
    slack = 8 * sum(rounding_slack(head) for head in network.heads())
    assert np.abs(found.double().numpy() - wanted).max() <= slack * (1 if dtype == torch.float64 else 2**29)
    assert np.array_equal(network.evaluate(points.double().numpy(), engine="sdpa"), found.double().numpy())
    assert found.shape == (count, outputs) and network(points[:0]).shape == (0, outputs)


def test_wide_values_take_none_either(monkeypatch: pytest.MonkeyPatch) -> None:
    wide, narrow = (network_of(300, 6, outputs, True, torch.float64) for outputs in (5, 1))
    points = torch.tensor(np.random.default_rng(1).uniform(-1, 1, (2000, 6)))
    asked = points.clone().requires_grad_(True)
    assert torch.allclose(wide(points), wide(asked), rtol=1e-10, atol=1e-12)  # the one by rows, the other by the kernel
    monkeypatch.setattr(layer, "scaled_dot_product_attention", no_kernel)
    assert wide(points).isfinite().all()
    for network, given in ((narrow, points), (wide.float(), points.float())):
        with pytest.raises(RuntimeError, match="fused"):
            network(given)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_derivatives_and_records_go_by_the_kernel() -> None:
    network = network_of(12, 2, 1, True, torch.float64)
    points = torch.tensor(np.random.default_rng(2).uniform(-1, 1, (30, 2)))
    asked = points.clone().requires_grad_(True)
    slopes = torch.autograd.grad(network(asked).sum(), asked)[0]
    step = 1e-6 * torch.tensor([1.0, 0.0], dtype=torch.float64)
    differences = (network(points + step) - network(points - step))[:, 0] / 2e-6
    assert torch.allclose(slopes[:, 0], differences, rtol=1e-5, atol=1e-6)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(points, torch.ones_like(points))
        tangent = forward_ad.unpack_dual(network(dual)).tangent
    assert tangent is not None and torch.allclose(tangent[:, 0], slopes.sum(dim=1))
    for name in ("keys", "biases", "values", "slopes"):
        learning = copy.deepcopy(network)
        getattr(next(iter(learning.layer)), name).requires_grad_(True)
        assert learning(points).requires_grad
        with torch.no_grad():
            assert torch.equal(learning(points), network(points))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize(("dtype", "engine"), [(torch.float64, "sdpa"), (torch.float32, "double")])
def test_a_trace_of_many_points_takes_more_of_them(dtype: torch.dtype, engine: str) -> None:
    network = network_of(12, 2, 1, True, dtype)
    network.engine = engine
    points = torch.rand(60_000, 2, dtype=dtype)
    traced: Any = torch.jit.trace(network, points[:30_000], check_trace=False)
    assert torch.allclose(traced(points), network(points), rtol=1e-5, atol=1e-5)
