"""Closed-form certificates: they state nothing that does not add up, survive a file, and are void for other weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import softwright as sw
from softwright.attention import digest_of
from softwright.fileformat import write_model
from softwright.result.closed_form import SCHEMA, ClosedForm
from tests.layouts import read_flat


def _built() -> sw.Built:
    built = sw.approximate("abs(x)", sw.Box(x=(-1, 1)), tol=1e-6, certify=False)
    target = {"kind": "theorem", "text": "the absolute value"}
    certificate = ClosedForm(
        statement="the gate formula of abs(x)",
        bound=1e-6,
        exact_part=9e-7,
        rounding_part=1e-8,
        method="closed form",
        dtype="float64",
        weights_sha256=digest_of(built.network),
        target=target,
        version="0",
        seconds=0.0,
        quantities={"beta": 1e6},
    )
    return replace(built, target=target, certificate=certificate)


def test_survives_a_file_and_is_not_verified_for_its_word(tmp_path: Path) -> None:
    built, path = _built(), tmp_path / "a.safetensors"
    built.save(path)
    assert sw.load(path).certificate == built.certificate
    verdict = sw.verify(path)
    assert verdict.status == "NOT VERIFIED"
    assert "says nothing about" in verdict.reason
    assert "closed form" in repr(built)


def test_other_weights_void_it(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    _built().save(path)
    content = read_flat(path)
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
    content = read_flat(path)
    if np.isfinite(value):  # JSON has no nan: such a file cannot be written
        content.sections["certificate"][name] = value
        write_model(path, content.tensors, content.sections)
        assert sw.verify(path).status == "NOT VERIFIED"


def _rewritten(path: Path, **changes: object) -> str:
    """What the checker says of the file with some entries of its certificate changed."""
    content = read_flat(path)
    content.sections["certificate"].update(changes)
    write_model(path, content.tensors, content.sections)
    return sw.verify(path).status


def test_a_formula_is_not_excused_from_its_proof_by_another_schema(tmp_path: Path) -> None:
    """A bound of 1e-30 for abs(x): a statement of sizes says nothing of a formula, and this one is false."""
    path = tmp_path / "a.safetensors"
    sw.approximate("abs(x)", sw.Box(x=(-1, 1)), tol=1e-6).save(path)
    number = {"bound": 1e-30, "exact_part": 0.0, "rounding_part": 0.0}
    swapped = {"schema": SCHEMA, "statement": "the gate formula", "quantities": {}, **number}
    assert _rewritten(path, **swapped) == "NOT VERIFIED"


def test_the_dtype_stated_is_that_of_the_weights(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    _built().save(path)
    assert _rewritten(path, dtype="float32") == "NOT VERIFIED"
