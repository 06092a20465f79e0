"""Closed-form certificates: they state nothing that does not add up, survive a file, and are void for other weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import softwright as sw
from softwright.attention import digest_of
from softwright.certify.closed_certificate import ClosedForm
from softwright.fileformat import read_model, write_model


def _built() -> sw.Built:
    built = sw.approximate("abs(x)", sw.Box(x=(-1, 1)), tol=1e-6, certify=False)
    certificate = ClosedForm(
        statement="the gate formula of abs(x)",
        bound=1e-6,
        exact_part=9e-7,
        rounding_part=1e-8,
        method="closed form",
        dtype="float64",
        weights_sha256=digest_of(built.network),
        target=built.target,
        version="0",
        seconds=0.0,
        quantities={"beta": 1e6},
    )
    return replace(built, certificate=certificate)


def test_survives_a_file_and_is_consistent(tmp_path: Path) -> None:
    built, path = _built(), tmp_path / "a.safetensors"
    built.save(path)
    assert sw.load(path).certificate == built.certificate
    verdict = sw.verify(path)
    assert verdict.status == "CONSISTENT"
    assert "not evaluated again" in verdict.reason
    assert "closed form" in repr(built)


def test_other_weights_void_it(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    _built().save(path)
    content = read_model(path)
    name = next(name for name in content.tensors if name.endswith("values"))
    changed = {**content.tensors, name: np.nextafter(content.tensors[name], np.inf)}
    write_model(path, changed, content.sections)
    assert sw.verify(path).status == "NOT VERIFIED"
    with pytest.warns(UserWarning, match="dropped"):
        assert sw.load(path).certificate is None


@pytest.mark.parametrize(("name", "value"), [("bound", 1e-9), ("exact_part", float("nan")), ("rounding_part", -1.0)])
def test_a_statement_that_does_not_add_up_is_refused(tmp_path: Path, name: str, value: float) -> None:
    built, path = _built(), tmp_path / "a.safetensors"
    with pytest.raises(sw.InvalidInput):
        replace(built.certificate, **{name: value})
    built.save(path)
    content = read_model(path)
    if np.isfinite(value):  # JSON has no nan: such a file cannot be written
        content.sections["certificate"][name] = value
        write_model(path, content.tensors, content.sections)
        assert sw.verify(path).status == "NOT VERIFIED"
