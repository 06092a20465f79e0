"""What every row of the checker's `STEPS` must do, and that none is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from flint import ctx

import softwright as sw
from softwright.checker import verify as entry
from softwright.checker.theorems.table import THEOREMS
from softwright.checker.verify import STEPS
from softwright.fileformat import ModelFile, read_model, write_model
from softwright.result.kinds import KINDS
from softwright.result.statement import CLOSED_STEPS
from softwright.theorems import LABELS, find_theorem
from tests.contracts.kinds_made import MADE
from tests.layouts import flat

STORED = [name for name, kind in KINDS.items() if kind.stored]


@pytest.fixture(scope="module", params=STORED)
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("reproofs") / f"{request.param}.safetensors"
    MADE[request.param]().save(place)
    return place


def changed(file: ModelFile, **sections: object) -> ModelFile:
    return ModelFile(file.tensors, {**file.sections, **sections})


def test_rows_name_steps_that_are_written_and_kinds_that_there_are() -> None:
    assert set(STEPS) == {"boxes", "gates", "points", "cells", *CLOSED_STEPS.values()}
    assert {row.kind for row in STEPS.values()} == set(STORED)


def test_what_a_verb_writes_has_rows_and_passes(path: Path) -> None:
    sections = read_model(path).sections
    assert sections["certificate"]["schema"] == "softwright-statement/2"
    for step in sections["certificate"]["evidence"]:
        assert STEPS[step["step"]].kind == sections["model"]["kind"]
    before = ctx.prec, ctx.cap
    verdict = sw.verify(path)
    assert (ctx.prec, ctx.cap) == before
    assert isinstance(verdict, sw.Verdict)
    assert verdict.verified, verdict
    assert bool(verdict) == verdict.verified == (verdict.status == "VERIFIED")
    assert verdict.seconds > 0


def test_both_schemas_get_the_same_verdict(path: Path) -> None:
    file = read_model(path)
    new, old = entry.reprove(file), entry.reprove(flat(file))
    assert {**new.to_json(), "seconds": 0} == {**old.to_json(), "seconds": 0}


def test_every_theorem_has_a_re_proof_under_its_title() -> None:
    assert {label: row.title for label, row in THEOREMS.items()} == {
        label: find_theorem(label).title for label in LABELS
    }


def test_a_file_is_read_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []

    def counted(place: str | Path) -> ModelFile:
        read.append(place)
        return read_model(place)

    monkeypatch.setattr(entry, "read_model", counted)
    sw.verify(path)
    assert read == [path]


def test_a_certificate_must_speak_of_what_is_in_the_file(path: Path) -> None:
    file = flat(read_model(path))
    said = file.sections["certificate"]
    other = next(name for name in ("float32", "float64") if name != said["dtype"])
    for change, reason in (
        ({"weights_sha256": "0" * 64}, "weights"),
        ({"target": {**said["target"], "text": "another"}}, "target"),
        ({"dtype": other}, "dtype"),
        ({"schema": "softwright-certificate/0"}, "schema"),
    ):
        verdict = entry.reprove(changed(file, certificate={**said, **change}))
        if "dtype" in change and "dtype" not in file.sections["model"]:
            continue  # such a model does not say it
        assert not verdict
        assert verdict.status == "NOT VERIFIED"
        assert reason in verdict.reason


def test_a_kind_without_a_row_is_not_verified(path: Path) -> None:
    file = read_model(path)
    verdict = entry.reprove(changed(file, model={**file.sections["model"], "kind": "oracle"}))
    assert verdict.status == "NOT VERIFIED"
    assert "'oracle'" in verdict.reason


def test_no_certificate_and_no_file_are_not_verified(path: Path, tmp_path: Path) -> None:
    file = read_model(path)
    write_model(tmp_path / "bare.safetensors", file.tensors, {**file.sections, "certificate": None})
    assert "no certificate" in sw.verify(tmp_path / "bare.safetensors").reason
    assert not sw.verify(tmp_path / "bare.safetensors")
    assert not sw.verify(tmp_path / "nowhere.safetensors")
