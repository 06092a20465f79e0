"""`Built`, `Plan` and `ClosedForm`: what they fill in by themselves, and what type checkers know of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import pytest
import torch

import softwright as sw
from softwright.attention import AttentionNetwork, Head, digest_of
from softwright.memory.network import MemoryNetwork
from softwright.result.certified import Certified, read_certificate
from softwright.result.closed_form import ClosedForm
from softwright.result.observed import Observed
from softwright.result.plan import Plan


def _network(dtype: torch.dtype) -> AttentionNetwork:
    return AttentionNetwork([Head(np.ones((2, 1)), np.zeros(2), np.ones((2, 1)))], sw.Box(x=(0, 1)), dtype)


@pytest.mark.parametrize(("dtype", "name"), [(torch.float64, "float64"), (torch.float32, "float32")])
def test_plans_and_certificates_of_a_network_say_what_it_is(dtype: torch.dtype, name: str) -> None:
    network, started = _network(dtype), time.monotonic() - 2.0
    plan = Plan.of(network, started, strategy="by hand", heads=[{"tokens": 2}], tokens=2, parameters=6, reasons=["why"])
    assert (plan.dtype, plan.tolerance, plan.reasons) == (name, 0.0, ["why"])
    assert 2.0 <= plan.seconds < 60.0
    assert Plan.from_dict(plan.as_dict()) == plan
    certificate = ClosedForm.of(
        network,
        {"kind": "hand"},
        started,
        statement="the constant 1",
        bound=1.0,
        exact_part=0.5,
        rounding_part=0.25,
        method="by hand",
    )
    assert certificate.dtype == name
    assert certificate.weights_sha256 == digest_of(network)
    assert certificate.version == sw.__version__
    assert 2.0 <= certificate.seconds < 60.0
    assert read_certificate(certificate.to_json()) == certificate


def test_a_certificate_is_told_in_one_line_and_in_all() -> None:
    x = np.linspace(0, 1, 9)
    proved: list[Any] = [
        sw.approximate("x**2", sw.Box(x=(0, 1)), tol=1e-3).certificate,
        sw.approximate(sw.Table(x, x**2), tol=1e-3).certificate,
        sw.memorize([[1], [2]], [1.0, 2.0]).certificate,
    ]
    for certificate in proved:
        assert isinstance(certificate, Certified)
        assert certificate.facts()[0] == ("proved error", certificate.summary())
        assert f"<= {certificate.bound:.3g}" in certificate.summary()
        assert read_certificate(certificate.to_json()) == certificate
    assert [name for name, _ in proved[1].facts()] == ["proved error", "proved between points"]


def test_points_by_name_are_points() -> None:
    built = sw.approximate("x - 2*y", sw.Box(x=(0, 1), y=(0, 1)), tol=1e-3)
    assert np.array_equal(built(x=0.25, y=[0.5, 1.0]), built(np.array([[0.25, 0.5], [0.25, 1.0]])))
    with pytest.raises(sw.InvalidInput, match="give every one of x, y, got x"):
        built(x=0.25)
    with pytest.raises(sw.InvalidInput, match="got nothing"):
        built()


def test_a_memory_is_saved_in_shards_by_the_same_method(tmp_path: Path) -> None:
    built = sw.memorize([[1], [2], [3]], [1.0, 2.0, 3.0])
    built.save(tmp_path / "folder", rows=2)
    assert len(list((tmp_path / "folder").glob("keys-*"))) == 2
    again = sw.load(tmp_path / "folder")
    assert again.certificate == built.certificate
    assert np.array_equal(again([[3], [1]]), built([[3], [1]]))
    with pytest.raises(sw.InvalidInput, match="leave rows out"):
        sw.approximate("x", sw.Box(x=(0, 1)), tol=1e-3).save(tmp_path / "other", rows=2)
    (tmp_path / "empty").mkdir()
    with pytest.raises(sw.FileFormatError):
        sw.load(tmp_path / "empty")


def test_what_was_seen_survives_a_file() -> None:
    observed = Observed(0.25, (1.0, -2.0), 7)
    assert Observed.from_dict(observed.as_dict()) == observed


def test_type_checkers_know_the_network() -> None:
    built = sw.approximate("x**2", sw.Box(x=(0, 1)), tol=1e-3)  # whose network is of one kind, or with compose another
    assert isinstance(built.network, AttentionNetwork)
    memory = sw.memorize([[1], [2]], [1.0, 2.0])
    assert_type(memory.network, MemoryNetwork)
    assert memory.network.recall([[1]]).labels[0] == 1.0
