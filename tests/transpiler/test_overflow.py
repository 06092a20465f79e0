"""Bounds with their overflow and underflow: where a number could leave the dtype there is no certificate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import softwright as sw
from softwright.errors import ToleranceNotReached
from softwright.targets.mlp import Activation, DenseLayer, DenseNetwork, GatedNetwork
from softwright.transpiler.neuron_heads import LAYOUTS, NeuronHeads
from softwright.transpiler.tokens import table_for
from softwright.transpiler.unit_bounds import reach_of, unit_of

LINEAR = Activation("identity")


def layer(weight: list[list[float]], bias: float = 0.0, activation: Activation = LINEAR) -> DenseLayer:
    matrix = np.array(weight)
    return DenseLayer(matrix, np.full(len(matrix), bias), activation)


def dense(*layers: DenseLayer, dtype: str = "float32") -> DenseNetwork:
    return DenseNetwork(layers, dtype)


def gated(gate: float, value: float) -> GatedNetwork:
    return GatedNetwork(layer([[gate]], 0.0, Activation("silu")), layer([[value]]), layer([[1.0]]), "float32")


OVERFLOWING = {
    "a sum": dense(layer([[2e38, 2e38]])),
    "a score": dense(layer([[1e20]], 0.0, Activation("relu"))),
    "a weight and a bias": dense(layer([[3e38]], 3e38, Activation("relu"))),
    "a second layer": dense(layer([[1.0]], 0.0, Activation("relu")), layer([[3e38]], 3e38)),
    "a slope beyond the dtype": dense(layer([[1.0]], 0.0, Activation("leaky_relu", (1e39,)))),
    "a slope times a value": dense(layer([[1e3]], 0.0, Activation("leaky_relu", (1e38,)))),
    "a knot": dense(layer([[1.0]], 0.0, Activation("hardtanh", (-1e21, 1e21)))),
    "a value": dense(layer([[1.0]], 0.0, Activation("hardtanh", (-1.0, 1e39)))),
    "powers": dense(layer([[1.0]], 0.0, Activation("elu", (1e37,)))),
    "float64": dense(layer([[1e290]], 0.0, Activation("relu")), dtype="float64"),
}


@pytest.mark.parametrize("name", OVERFLOWING)
def test_where_a_number_could_overflow_there_is_no_certificate(name: str) -> None:
    network = OVERFLOWING[name]
    for layout in LAYOUTS:
        if layout == "double" and network.dtype == "float64":
            continue  # refused by name: it is for float32
        built = sw.transpile(network, (-1, 1), layout=layout)
        assert built.certificate is None and f"could overflow {network.dtype}" in built.unproved
        with pytest.raises(ToleranceNotReached, match=r"no bound can be proved: .*overflow"):
            sw.transpile(network, (-1, 1), layout=layout, tol=1.0)
    small = sw.transpile(network, (-1e-4, 1e-4), dtype="float64")
    assert name == "float64" or (small.certificate is not None and small.observed_error <= small.certificate.bound)


def test_a_claim_on_all_inputs_needs_a_run_near_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """True in real arithmetic, no number in any run: neither certified nor, where a builder does it, verified."""
    network = dense(layer([[2.0**100]], 0.0, Activation("relu")))
    refused = sw.transpile(network, layout="sdpa")
    assert np.isnan(refused([[0.5]])).all()
    assert refused.certificate is None and "overflow for inputs of [-1, 1]" in refused.unproved
    refused.save(tmp_path / "no number.safetensors")
    assert np.isnan(sw.load(tmp_path / "no number.safetensors").observed_error)
    monkeypatch.setattr("softwright.transpiler.bound.near_zero", lambda inputs: (np.zeros(inputs), np.zeros(inputs)))
    path = tmp_path / "overflows.safetensors"
    replace(sw.transpile(network, layout="sdpa"), observed=None).save(path)
    verdict = sw.verify(path)
    assert not verdict and "overflow" in verdict.reason
    sw.transpile(dense(layer([[2.0**60]], 0.0, Activation("relu")))).save(path)
    assert sw.verify(path)


def test_scores_that_would_swallow_omega_have_no_bound_in_one_sequence() -> None:
    """-Omega keeps positions apart; added to a score beyond Omega/u it is lost, and positions mix."""
    network = dense(layer([[1e150]], 0.0, Activation("relu")), dtype="float64")
    x = np.random.default_rng(0).uniform(-1, 1, (64, 1))
    together = sw.transpile(network, (-1, 1), layout="sequence")
    assert together.certificate is None
    assert np.abs(together(x) - network(x)).max() > 1e149
    alone = sw.transpile(network, (-1, 1), layout="sdpa")
    assert np.abs(alone(x) - network(x)).max() <= alone.certificate.bound <= 1e137


def test_products_of_gates_are_numbers_of_the_dtype_or_have_no_bound() -> None:
    x = np.linspace(-1, 1, 201).astype(np.float32).astype(np.float64)[:, None]
    for network in (gated(1e18, 1e18), gated(1e3, 1e-3)):
        built = sw.transpile(network, (-1, 1))
        assert np.abs(built(x) - network(x, exact=True)).max() <= built.certificate.bound
    for network in (gated(1e30, 1e30), gated(1e-38, 1.0)):  # the latter's steps would be beyond float32
        assert sw.transpile(network, (-1, 1)).certificate is None


@pytest.fixture
def flushed() -> Iterator[None]:
    """Subnormal numbers are zero, as some programs set the processor."""
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush subnormal numbers")
    yield
    torch.set_flush_denormal(False)


@pytest.mark.parametrize(
    "network",
    [
        dense(layer([[1e30]]), layer([[1e-40]])),
        dense(layer([[1e-39]]), layer([[1e30]])),
        dense(layer([[1e-3]], 0.0, Activation("leaky_relu", (1e30,)))),
        dense(layer([[1e-39]], 0.0, Activation("leaky_relu", (1e30,)))),
    ],
)
@pytest.mark.usefixtures("flushed")
def test_subnormal_numbers_are_charged_with_what_multiplies_them(network: DenseNetwork) -> None:
    for layout in LAYOUTS:
        built = sw.transpile(network, (-1, 1), layout=layout)
        x = np.linspace(-1, 1, 101).astype(np.float32).astype(np.float64)[:, None]
        with torch.no_grad():
            values = built.network(torch.tensor(x, dtype=torch.float32)).double().numpy()
        weights = [np.array(one.weight) for one in network.layers]
        exact = x * weights[0][0, 0]
        exact = network.layers[0].activation(exact) if len(weights) == 1 else exact * weights[1][0, 0]
        assert np.abs(values - exact).max() <= built.certificate.bound


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_within_its_reach_a_head_is_finite(layout: str, dtype: str) -> None:
    kind = getattr(torch, dtype)
    for activation in (Activation("relu"), Activation("hardtanh", (-3.0, 1e10)), Activation("elu"), Activation("gelu")):
        table = table_for(activation, dtype)
        reach = reach_of(table, dtype, layout)
        assert reach > 1e15 and unit_of(activation, table, dtype, layout).reach == reach
        s = torch.tensor([[reach], [-reach], [reach / 3]], dtype=kind)
        values = NeuronHeads(np.ones((1, 1)), np.zeros(1), table, kind, layout)(s)
        assert torch.isfinite(values).all()


def test_without_a_proof_the_tolerance_is_held_against_what_is_seen() -> None:
    built = sw.transpile(nn.Sequential(nn.Linear(2, 2), nn.ReLU()).eval(), (-1, 1), certify=False)
    assert built.certificate is None and built.unproved == "not asked for" and built.observed_error < 1e-6
    with pytest.raises(ToleranceNotReached, match="largest deviation seen"):
        sw.transpile(nn.Sequential(nn.Linear(2, 2), nn.GELU()).eval(), (-1, 1), certify=False, tol=1e-12)
    loose = sw.transpile(nn.Sequential(nn.Linear(2, 2), nn.GELU()).eval(), (-1, 1), certify=False, tol=1e-3)
    assert loose.plan.tokens == 16
