"""Claims outside of bands are proved again, and those that list too little, or other bands, are not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import softwright as sw
from softwright.checker.verify import reprove
from softwright.fileformat import ModelFile, read_model

SQUARE = {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}
FORMULAS = [
    "where(x**2 + y**2 < 0.5, sin(3*x), cos(2*y))",
    "where(x < y and y < 0.5 or x >= 0.8, exp(x), 2)",
    "where(sign(x)*y > 0.1, x, floor(3*x)) - mod(y, 0.4)*x",
    "ceil(x + y)*round(2*x) + step(x - y)",
    "where(x < y, 1, where(y < x, 2, 3))*abs(x - 0.3)",
    "where(x < y or x**2 > -1, exp(x), 2)*sign(x - 0.2)",  # a condition that the other makes idle
    "where(y < y, 5, where(x < y, sin(x), 0.5*y))",
]


def written(text: str, folder: Path, gap: float = 1e-3) -> ModelFile:
    built = sw.approximate(text, SQUARE, tol=1e-3, gap=gap)
    assert built.certificate is not None
    built.save(folder / "jump.safetensors")
    return read_model(folder / "jump.safetensors")


@pytest.mark.parametrize("text", FORMULAS)
def test_claims_outside_of_bands_are_proved_again(text: str, tmp_path: Path) -> None:
    verdict = reprove(written(text, tmp_path))
    assert verdict.status == "VERIFIED"
    assert "where no |c| < 0.001, c one of" in verdict.domain


def _outside(claim: dict[str, Any]) -> dict[str, Any]:
    return claim["set"]["outside"]


def _gap(claim: dict[str, Any], gap: float) -> None:
    _outside(claim)["gap"], _outside(claim)["hex"] = gap, gap.hex()
    claim["text"] = claim["text"].replace("0.001", repr(gap))


def _lists(claim: dict[str, Any], *texts: str) -> None:
    _outside(claim)["of"] = list(texts)
    which = f"where {texts[0]} is not" if len(texts) == 1 else f"where none of {', '.join(texts)} is"
    claim["text"] = f"{claim['text'].split(' where ')[0]} {which} within 0.001 of 0"


FORGED: list[tuple[str, Callable[[dict[str, Any]], None]]] = [
    ("a narrower band", lambda claim: _gap(claim, 1e-4)),
    ("no gap", lambda claim: _gap(claim, 0.0)),
    ("another difference", lambda claim: _lists(claim, "y + x", "x")),
    ("one left out", lambda claim: _lists(claim, "y - x")),
    ("a wider scale", lambda claim: _lists(claim, "3*(y - x)", "x")),
    ("no bands", lambda claim: claim["set"].pop("outside")),
]


@pytest.mark.parametrize(("what", "forge"), FORGED, ids=[what for what, _ in FORGED])
def test_bands_that_are_not_those_of_the_proof_are_refused(
    what: str, forge: Callable[[dict[str, Any]], None], tmp_path: Path
) -> None:
    file = written("where(x < y, sign(x), 2*y)", tmp_path)
    claim = file.sections["certificate"]["claim"]
    assert _outside(claim)["of"] == ["x", "y - x"] and reprove(file).verified
    sections = copy.deepcopy(dict(file.sections))
    forge(sections["certificate"]["claim"])
    assert not reprove(ModelFile(file.tensors, sections)).verified


def test_more_bands_than_are_needed_are_fine(tmp_path: Path) -> None:
    file = written("where(x < y, sign(x), 2*y)", tmp_path)
    sections = copy.deepcopy(dict(file.sections))
    _lists(sections["certificate"]["claim"], "x", "y - x", "x*y - 0.3")
    assert reprove(ModelFile(file.tensors, sections)).verified
