"""What the prover proves, the checker proves again: two codes that share nothing must agree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from softwright.attention import AttentionNetwork, Head
from softwright.checker.verify import Verdict, verify
from softwright.domain import Box
from softwright.fileformat import read_model, write_model
from softwright.proof.prover import certify
from softwright.result.certificate import Certificate
from tests.checker.checker_support import PLAN, fitted_head

LINE = Box(x=(-1.0, 1.0))
PLANE = Box(x=(-1.0, 1.0), y=(-1.0, 1.0))
SPACE = Box(x=(-1.0, 1.0), y=(-1.0, 1.0), z=(-1.0, 1.0))


def gates(beta: float) -> Head:
    """abs(x) by two hard-gated affine tokens."""
    return Head(np.array([[-beta], [beta]]), np.zeros(2), np.zeros((2, 1)), np.array([[[-1.0]], [[1.0]]]), "gates")


def case(name: str) -> tuple[list[Head], Box, str]:
    if name == "sine":
        return [fitted_head(LINE, lambda x: np.sin(3 * x), 12)], LINE, "sin(3*x)"
    if name == "runge":
        return [fitted_head(LINE, lambda x: 1 / (1 + 25 * x**2), 32)], LINE, "1/(1 + 25*x**2)"
    if name == "vector":
        both = fitted_head(LINE, lambda x: np.concatenate([np.exp(x), np.cos(3 * x)], axis=1), 12)
        return [both], LINE, "exp(x), cos(3*x)"
    if name.startswith("gates"):
        return [gates(float(name[5:]))], LINE, "abs(x)"
    if name == "plane":
        head = fitted_head(PLANE, lambda x: np.sin(x[:, :1] + x[:, 1:] ** 2), 9)
        return [head], PLANE, "sin(x + y**2)"
    if name == "sum":
        one = fitted_head(LINE, lambda x: np.sin(2 * x), 10).along(np.array([[1.0, 0.0]]))
        other = fitted_head(LINE, np.exp, 10).along(np.array([[0.0, 1.0]]))
        return [one, other], PLANE, "sin(2*x) + exp(y)"
    head = fitted_head(SPACE, lambda x: 1 / (5 + x.sum(axis=1, keepdims=True)), 5, margin=1, width=1.3)
    return [head], SPACE, "1/(5 + x + y + z)"


def save(path: Path, network: AttentionNetwork, certificate: Certificate) -> Path:
    tensors = {name: tensor.detach().numpy() for name, tensor in network.state_dict().items()}
    plan = {**PLAN, "dtype": certificate.dtype}
    said = {
        "model": {"kind": "approximation", **network.describe()},
        "target": certificate.target,
        "plan": plan,
        "certificate": certificate.flat(),
    }
    write_model(path, tensors, said)
    return path


def prove_and_check(name: str, tmp_path: Path, dtype: torch.dtype = torch.float64, **options: Any) -> Verdict:
    heads, box, text = case(name)
    network = AttentionNetwork(heads, box, dtype)
    proof = certify(network, text, **options)
    assert proof.certificate is not None, proof.reason
    return verify(save(tmp_path / "proof.safetensors", network, proof.certificate))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("name", ["sine", "runge", "vector", "plane", "sum", "space"])
def test_proofs_are_verified(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    verdict = prove_and_check(name, tmp_path, dtype, tightness=0.1)
    assert verdict.verified, str(verdict)


@pytest.mark.parametrize("name", ["gates1e2", "gates1e5", "gates1e8"])
@pytest.mark.parametrize("tightness", [0.02, 0.2])
def test_hard_gates_are_verified(name: str, tightness: float, tmp_path: Path) -> None:
    verdict = prove_and_check(name, tmp_path, tightness=tightness)
    assert verdict.verified, str(verdict)


@pytest.mark.parametrize("engine", ["sdpa", "factorised"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_both_engines_are_verified(engine: str, dtype: torch.dtype, tmp_path: Path) -> None:
    verdict = prove_and_check("plane", tmp_path, dtype, tightness=0.1, engine=engine)
    assert verdict.verified, str(verdict)


@pytest.mark.parametrize("name", ["sine", "vector", "plane", "sum", "gates1e2", "gates1e5"])
def test_float64_inside_is_verified(name: str, tmp_path: Path) -> None:
    """Half an ulp of the largest output, nearly nothing else; a claim of less than that is not verified."""
    heads, box, text = case(name)
    network = AttentionNetwork(heads, box, torch.float32, engine="double")
    certificate = certify(network, text, tightness=0.1).certificate
    assert certificate is not None and certificate.engine == "double"
    path = save(tmp_path / "proof.safetensors", network, certificate)
    verdict = verify(path)
    assert verdict.verified and "exp-ulp<=4" in verdict.hypotheses, str(verdict)
    points = network.box.sample(400, 1).astype(np.float32).astype(float)
    run = network.evaluate(points)
    wide = AttentionNetwork(heads, box, torch.float32).to(torch.float64).evaluate(points)
    seen, most = float(np.abs(run - wide).max()), float(np.abs(wide).max())
    assert seen <= certificate.rounding_part <= 2.0**-24 * 1.5 * most * len(heads) + 1e-9
    less = replace(certificate, rounding_part=0.9 * seen, exact_part=certificate.exact_part)
    assert not verify(save(path, network, less))


def test_a_claim_about_float64_inside_needs_a_network_that_computes_so(tmp_path: Path) -> None:
    heads, box, text = case("sine")
    network = AttentionNetwork(heads, box, torch.float32, engine="double")
    certificate = certify(network, text, tightness=0.1).certificate
    assert certificate is not None
    network.engine = "sdpa"
    verdict = verify(save(tmp_path / "proof.safetensors", network, certificate))
    assert not verdict and "the network runs by engine 'sdpa'" in verdict.reason
    network.engine = "double"
    dense = certify(network, text, tightness=0.1, engine="sdpa").certificate
    assert dense is not None
    verdict = verify(save(tmp_path / "proof.safetensors", network, dense))
    assert not verdict and "the network runs by engine 'double'" in verdict.reason


@pytest.mark.parametrize("tightness", [0.01, 1.0])
def test_tight_and_loose_bounds_are_verified(tightness: float, tmp_path: Path) -> None:
    assert prove_and_check("sine", tmp_path, tightness=tightness).verified


def test_part_of_the_box(tmp_path: Path) -> None:
    verdict = prove_and_check("plane", tmp_path, tightness=0.1, domain=Box(x=(-0.25, 0.5), y=(0.125, 0.75)))
    assert verdict.status == "VERIFIED ON A PART", str(verdict)
    assert not verdict  # the model's box is larger than what was proved
    assert "x in [-0.25, 0.5]" in str(verdict)


@pytest.mark.parametrize("norm", ["L1", "L2"])
def test_integrals_are_verified(norm: str, tmp_path: Path) -> None:
    verdict = prove_and_check("sine", tmp_path, tightness=0.2, norm=norm)
    assert verdict.verified, str(verdict)


def test_a_loaded_certificate_is_the_one_that_was_proved(tmp_path: Path) -> None:
    heads, box, text = case("sine")
    network = AttentionNetwork(heads, box)
    proof = certify(network, text, tightness=0.1)
    assert proof.certificate is not None
    path = save(tmp_path / "proof.safetensors", network, proof.certificate)
    assert Certificate.from_json(read_model(path).sections["certificate"]) == proof.certificate


def test_rounding_of_values_that_cancel_is_not_undercharged(tmp_path: Path) -> None:
    """v and G t are far larger than v + G t: a bound below what the run really loses is not verified."""
    at = np.linspace(-1, 1, 6)[:, None]
    slopes = 1e3 * np.random.default_rng(0).normal(size=(6, 1, 1))
    head = Head(30 * at, -15 * at[:, 0] ** 2, np.sin(at) - slopes[:, :, 0] * at, slopes)
    network = AttentionNetwork([head], LINE, torch.float32)
    certificate = certify(network, "sin(x)", tightness=0.05).certificate
    assert certificate is not None
    assert verify(save(tmp_path / "true.safetensors", network, certificate))
    points = LINE.sample(400, 1).astype(np.float32).astype(float)
    exact = AttentionNetwork(network.heads(), LINE)  # LINE is its own unit frame; float64 errs far less
    seen = float(np.abs(network.evaluate(points) - exact.evaluate(points)).max())
    assert 0 < seen <= certificate.rounding_part
    less = replace(certificate, rounding_part=0.9 * seen)
    assert not verify(save(tmp_path / "false.safetensors", network, less))
