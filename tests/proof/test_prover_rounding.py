"""The rounding bound against the network that really runs: both engines, float32 and float64, many evaluations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from softwright.attention.head import Axis, Head
from softwright.attention.network import AttentionNetwork
from softwright.domain import Box
from softwright.proof.arithmetic.balls import precision
from softwright.proof.models.exact_heads import exact_heads, float_values
from softwright.proof.prover import certify
from softwright.result.outcome import Outcome
from tests.proof.prover_support import network_value


def grid_network(dtype: torch.dtype, affine: bool, size: float, dim: int, n: int = 9) -> AttentionNetwork:
    rng = np.random.default_rng(dim)
    axis = np.linspace(-1.1, 1.1, n)
    axes = [Axis(25 * axis, -12.5 * axis**2) for _ in range(dim)]
    values = rng.normal(size=(n**dim, 1)) * size
    slopes = rng.normal(size=(n**dim, 1, dim)) * size if affine else None
    box = Box.from_bounds([-1.0, 2.0][:dim], [1.5, 9.0][:dim], ["x", "y"][:dim])
    return AttentionNetwork([Head.on_grid(axes, values, slopes)], box, dtype)


def scattered_network(dtype: torch.dtype, tokens: int, hardness: float, affine: bool, heads: int) -> AttentionNetwork:
    rng = np.random.default_rng(tokens)
    parts = []
    for _ in range(heads):
        keys = np.sort(
            rng.normal(size=(tokens, 1)) * hardness, axis=0
        )  # sorted: the running maximum moves block by block
        slopes = rng.normal(size=(tokens, 1, 1)) if affine else None
        parts.append(Head(keys, -0.5 * keys[:, 0] ** 2 / hardness, rng.normal(size=(tokens, 1)), slopes))
    return AttentionNetwork(parts, Box(x=(-3, 5)), dtype)


def cancelling_network(dtype: torch.dtype, tokens: int, hardness: float) -> AttentionNetwork:
    """Values v_j + G_j t that nearly cancel where token j has its weight; v_j and G_j are a thousand times larger."""
    rng = np.random.default_rng(tokens)
    at = np.linspace(-1, 1, tokens)[:, None] + np.zeros((1, 2))
    slopes = 1e3 * rng.normal(size=(tokens, 1, 2))
    values = rng.normal(size=(tokens, 1)) - np.einsum("nmd,nd->nm", slopes, at)
    return AttentionNetwork(
        [Head(hardness * at, -0.5 * hardness * (at**2).sum(axis=1), values, slopes)], Box(x=(0, 2), y=(-1, 1)), dtype
    )


def run_error(network: AttentionNetwork, engine: str, count: int) -> float:
    """Largest |fl(g) - g| seen; g in float64 from the same float32 numbers (its own rounding is far smaller)."""
    points = network.box.sample(count, 7).astype(np.float32).astype(float)
    points = points[network.box.contains(points)]
    with torch.no_grad():
        run = network(torch.tensor(points, dtype=network.dtype), engine=engine).double().numpy()
    return float(np.abs(run - float_values(exact_heads(network, engine), points)).max())


NETWORKS = [
    (grid_network(torch.float32, False, 1.0, 1), "cos(x)"),
    (grid_network(torch.float32, True, 1.0, 2), "cos(x)*y"),
    (grid_network(torch.float32, False, 300.0, 2), "cos(x)*y"),
    (scattered_network(torch.float32, 1500, 30.0, False, 1), "cos(x)"),
    (scattered_network(torch.float32, 40, 200.0, True, 2), "cos(x)"),
    (scattered_network(torch.float32, 3, 1e5, True, 1), "cos(x)"),
    (cancelling_network(torch.float32, 5, 20.0), "cos(x)*y"),
    (cancelling_network(torch.float32, 30, 450.0), "cos(x)*y"),
]


@pytest.mark.parametrize(("network", "text"), NETWORKS)
@pytest.mark.parametrize("engine", ["sdpa", "factorised"])
def test_float32_runs_stay_within_the_bound(network: AttentionNetwork, text: str, engine: str) -> None:
    found = certify(network, text, tightness=0.2, engine=engine, max_seconds=20)
    assert found.proved and found.certificate is not None
    seen = run_error(network, engine, 20_000)
    assert 0 < seen <= found.certificate.rounding_part
    points = network.box.sample(5_000, 3).astype(np.float32).astype(float)
    points = points[network.box.contains(points)]
    x = points[:, 0]
    f = np.cos(x) if text == "cos(x)" else np.cos(x) * points[:, 1]
    assert np.abs(network.evaluate(points, engine)[:, 0] - f).max() <= found.bound


def test_float64_rounding_bound_holds_at_every_point() -> None:
    for network in (grid_network(torch.float64, True, 1e3, 1), scattered_network(torch.float64, 700, 50.0, False, 2)):
        found = certify(network, "cos(x)", tightness=0.2)
        assert found.certificate is not None
        heads = exact_heads(network, "sdpa")
        points = network.box.sample(40, 2)
        run = network.evaluate(points)
        with precision(200):
            for point, value in zip(points, run, strict=True):
                exact = network_value(heads, point)[0]
                assert float(abs(exact - float(value[0])).mid()) <= found.certificate.rounding_part


def test_rounding_that_eats_the_bound_is_said() -> None:
    network = grid_network(torch.float32, False, 300.0, 2)
    exact = certify(network.double(), "cos(x)*y", tightness=0.05).lower
    found = certify(grid_network(torch.float32, False, 300.0, 2), "cos(x)*y", bound=1.0000001 * exact)
    assert found.status == "undecided" and "float64" in found.reason


@pytest.mark.parametrize("question", [{"bound": 3.0}, {"tightness": 0.1}, {"bound": 3.0, "norm": "L2"}], ids=str)
@pytest.mark.parametrize(("steepness", "dtype"), [(1e30, torch.float32), (1e60, torch.float64)])
def test_rounding_without_a_finite_bound_leaves_the_question_open(
    steepness: float, dtype: torch.dtype, question: dict[str, Any]
) -> None:
    head = Head(np.array([[steepness], [-steepness]]), np.zeros(2), np.array([[1.0], [-1.0]]))
    found = certify(AttentionNetwork([head], Box(x=(-1, 1)), dtype), "x", max_boxes=2000, **question)
    assert found.outcome is Outcome.ROUNDING and found.certificate is None and found.proved_bound == np.inf
    assert "no finite bound" in found.reason and ("float64" in found.reason)
