"""Every certificate says which runs it covers; the checker says it again, and believes no other list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import softwright as sw
from softwright.fileformat import ModelFile, read_model, write_model
from tests.contracts.kinds_made import MADE


@pytest.mark.parametrize("kind", MADE)
def test_every_certificate_names_them_in_print_and_as_data(kind: str) -> None:
    certificate = MADE[kind]().certificate
    if certificate.rounding_part == 0.0:
        return  # about real arithmetic
    assert certificate.runtimes
    assert all(line in str(certificate) for line in certificate.runtimes)
    assert certificate.to_json()["claim"]["runtimes"] == list(certificate.runtimes)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> ModelFile:
    path = tmp_path_factory.mktemp("runtimes") / "sine.safetensors"
    MADE["approximation"]().save(path)
    return read_model(path)


@pytest.mark.parametrize(
    "said", [["OpenVINO"], ["torch's CPU kernels in float64, eager, any number of threads"]], ids=str
)
def test_no_other_list_is_verified(stored: ModelFile, said: list[str], tmp_path: Path) -> None:
    certificate: dict[str, Any] = stored.sections["certificate"]
    forged = {**certificate, "claim": {**certificate["claim"], "runtimes": said}}
    write_model(tmp_path / "f.safetensors", stored.tensors, {**stored.sections, "certificate": forged})
    verdict = sw.verify(tmp_path / "f.safetensors")
    assert not verdict
    assert "runtimes" in verdict.reason


def test_a_verdict_names_them(stored: ModelFile, tmp_path: Path) -> None:
    write_model(tmp_path / "t.safetensors", stored.tensors, stored.sections)
    verdict = sw.verify(tmp_path / "t.safetensors")
    assert verdict
    assert verdict.runtimes == MADE["approximation"]().certificate.runtimes
    assert f"run by {verdict.runtimes[0]}" in str(verdict)
    assert verdict.to_json()["runtimes"] == list(verdict.runtimes)
