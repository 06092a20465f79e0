"""What a network is compared with stands in its file beside it, under names and a digest of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softwright as sw
from softwright.fileformat import ModelFile, read_model, weights_sha256, write_model
from softwright.result.constructed import digest_of
from tests.contracts.kinds_made import MADE


@pytest.fixture
def held() -> sw.Built[Any]:
    made, reference = MADE["approximation"](), {"weight": np.arange(6.0).reshape(2, 3), "bias": np.zeros(2, np.float32)}
    certificate = replace(made.certificate, reference_sha256=weights_sha256(reference))
    return replace(made, certificate=certificate, reference=reference)


def test_a_file_keeps_the_reference_apart_from_the_network(held: sw.Built[Any], tmp_path: Path) -> None:
    held.save(path := tmp_path / "held.safetensors")
    file = read_model(path)
    assert set(file.reference_tensors) == {"weight", "bias"}
    assert set(file.tensors) == {*file.subject_tensors, "reference.weight", "reference.bias"}
    assert file.weights_sha256 == digest_of(held.network)
    assert file.reference_sha256 == held.certificate.reference_sha256
    again = sw.load(path)
    assert again.certificate == held.certificate
    assert all(np.array_equal(again.reference[name], held.reference[name]) for name in held.reference)
    assert again.reference["bias"].dtype == np.float32
    again.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def test_without_a_reference_there_is_no_digest_of_one() -> None:
    assert ModelFile({"keys": np.zeros(1)}, {}).reference_sha256 == ""
    assert "reference_sha256" not in MADE["approximation"]().certificate.flat()


@pytest.mark.parametrize("change", ["other numbers", "another name", "gone", "added"])
def test_a_changed_reference_voids_the_certificate(held: sw.Built[Any], tmp_path: Path, change: str) -> None:
    reference = dict(held.reference)
    if change == "other numbers":
        reference["weight"] = reference["weight"] + 1
    elif change == "another name":
        reference["weights"] = reference.pop("weight")
    elif change == "gone":
        reference.clear()
    else:
        reference["more"] = np.zeros(1)
    replace(held, reference=reference).save(path := tmp_path / "changed.safetensors")
    with pytest.warns(UserWarning, match="reference tensors in the file are not those"):
        assert sw.load(path).certificate is None
    assert "reference tensors are not the ones" in sw.verify(path).reason


def test_a_kind_that_knows_no_reference_is_not_verified_with_one(held: sw.Built[Any], tmp_path: Path) -> None:
    held.save(path := tmp_path / "held.safetensors")
    assert not sw.verify(path)
    file = read_model(path)
    assert not any(name.startswith("reference.") for name in file.subject_tensors)
    write_model(
        path, file.subject_tensors, {**file.sections, "certificate": MADE["approximation"]().certificate.flat()}
    )
    assert sw.verify(path)
