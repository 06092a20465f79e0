"""Claims about norms are proved again, and those that say less than is true, or rest on something else, are not."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import softwright as sw
from softwright.checker.verify import reprove
from softwright.fileformat import ModelFile, read_model

SQUARE = {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}
Change = Callable[[dict[str, Any], dict[str, Any]], None]


@functools.cache
def stored() -> ModelFile:
    with TemporaryDirectory() as folder:
        built = sw.approximate("where(x**2 + y**2 < 0.5, 1, 0)*exp(x)", SQUARE, norm="L1", tol=1e-2)
        built.save(path := Path(folder) / "m.safetensors")
        return read_model(path)


def stated(claim: dict[str, Any], name: str, value: float) -> None:
    """A number of the claim, in both its forms; the bound is what both parts come to, and a little."""
    claim["parts"][name] = value
    claim["bound"] = (claim["parts"]["exact"] + claim["parts"]["rounding"]) * (1 + 1e-12)
    numbers = {"bound": claim["bound"], **claim["parts"]}
    claim["hex"] = {key: float(number).hex() for key, number in numbers.items()}


def _less(claim: dict[str, Any], _: dict[str, Any]) -> None:
    stated(claim, "exact", 0.5 * claim["parts"]["exact"])


def _no_rounding(claim: dict[str, Any], _: dict[str, Any]) -> None:
    stated(claim, "rounding", 0.0)


def _other_norm(claim: dict[str, Any], _: dict[str, Any]) -> None:
    claim["norm"], claim["text"] = "L2", claim["text"].replace("L1", "L2")


def _sup(claim: dict[str, Any], _: dict[str, Any]) -> None:
    claim["norm"] = "sup"
    claim["text"] = "every output of the network is within the bound of the formula's, at every point of the box"


def _unknown_norm(claim: dict[str, Any], _: dict[str, Any]) -> None:
    claim["norm"], claim["text"] = "L0", claim["text"].replace("L1", "L0")


def banded(**entries: Any) -> Change:
    def change(_: dict[str, Any], parts: dict[str, Any]) -> None:
        (band,) = parts["bands"]
        band.update(entries)
        band["hex"] = {name: float(band[name]).hex() for name in ("gap", "exact", "rounding")}

    return change


def _without(_: dict[str, Any], parts: dict[str, Any]) -> None:
    del parts["bands"]


def _twice(_: dict[str, Any], parts: dict[str, Any]) -> None:
    parts["bands"] *= 2


def _outside(claim: dict[str, Any], parts: dict[str, Any]) -> None:
    (band,) = parts["bands"]
    claim["set"]["outside"] = {"gap": band["gap"], "of": band["of"], "hex": float(band["gap"]).hex()}


CHANGES: dict[str, Change] = {
    "half of the exact part": _less,
    "no rounding": _no_rounding,
    "another norm": _other_norm,
    "the sup norm": _sup,
    "a norm that is none": _unknown_norm,
    "no bands": banded(of=[], gap=0.0),
    "a gap without bands": banded(of=[]),
    "bands of something else": banded(of=["x - y"]),
    "thinner bands": banded(gap=1e-9),
    "thicker bands": banded(gap=0.1),
    "a smaller bound outside": banded(exact=1e-9),
    "a larger bound outside": banded(exact=1.0),
    "nothing outside": _without,
    "two bounds outside": _twice,
    "a set with bands": _outside,
}


def test_what_was_built_is_verified_on_the_whole_box() -> None:
    verdict = reprove(stored())
    assert verdict.status == "VERIFIED"
    assert verdict.domain == "x in [-1, 1], y in [-1, 1]"
    assert verdict.reason.startswith("L1 norm of |network - target| <=")


@pytest.mark.parametrize("name", CHANGES)
def test_changed_claims_are_not(name: str) -> None:
    file = stored()
    sections = copy.deepcopy(file.sections)
    CHANGES[name](sections["certificate"]["claim"], sections["certificate"]["evidence"][0]["parts"])
    verdict = reprove(ModelFile(file.tensors, sections))
    assert verdict.status == "NOT VERIFIED", verdict
    assert "Error" not in verdict.reason


def test_a_gate_that_is_too_blunt_is_not_verified() -> None:
    """The same file with the slope of its gate divided by a thousand: its norm is far above the claim."""
    file = stored()
    features = file.sections["certificate"]["evidence"][0]["parts"]["features"]
    layer = next(f["layer"] for f in features if f["kind"] == "step") - 1
    tensors = {name: array.copy() for name, array in file.tensors.items()}
    score = tensors[f"layers.{layer}.Wq"]
    steepest = abs(score[:, :, 0]).max(axis=1).argmax()
    score[steepest, :, 0] /= 1000.0
    changed = ModelFile(tensors, copy.deepcopy(file.sections))
    claim = changed.sections["certificate"]["claim"]
    claim["subject"]["sha256"] = changed.weights_sha256
    verdict = reprove(changed)
    assert verdict.status == "NOT VERIFIED"
    assert "SHA" not in verdict.reason
