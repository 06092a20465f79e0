"""The distance to the solution is proved again from the file alone; nothing smaller, and no other set, is."""

from __future__ import annotations

import copy
import json
from functools import cache
from typing import Any

import numpy as np
import pytest

import softwright as sw
from softwright.checker.verify import reprove
from softwright.fileformat import ModelFile
from softwright.result.constructed import tensors_of

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "least squares": ("least_squares", {}),
    "no intercept": ("least_squares", {"intercept": False}),
    "ridge": ("ridge", {"penalty": 0.05}),
    "ridge as given": ("ridge", {"penalty": 0.3, "scaling": False, "intercept": False}),
}


@cache
def _true(name: str) -> ModelFile:
    method, options = CASES[name]
    built = sw.in_context(method, 2, sample=False, condition=50.0, max_rows=80, score_bound=9.0, **options)
    assert built.certificate is not None
    sections = {
        "model": {"kind": built.kind, **built.network.describe()},
        "target": built.target,
        "plan": built.plan.as_dict(),
        "certificate": built.certificate.flat(),
    }
    return ModelFile(tensors_of(built.network), json.loads(json.dumps(sections)))


def _copy(name: str) -> ModelFile:
    file = _true(name)
    return ModelFile({key: array.copy() for key, array in file.tensors.items()}, copy.deepcopy(file.sections))


@pytest.mark.parametrize("name", CASES)
def test_the_distance_is_verified_and_no_smaller_one(name: str) -> None:
    verdict = reprove(_copy(name))
    assert verdict.verified and "exact" in verdict.reason, verdict.reason
    said = _true(name).sections["certificate"]
    parts = ("exact_part", "rounding_part", *(said["quantities"] if name == "ridge" else ()))
    for part in parts:
        file = _copy(name)
        claim = file.sections["certificate"]
        home = claim if part in claim else claim["quantities"]
        home[part] *= 0.02
        assert not reprove(file), part


def test_another_set_is_not_verified() -> None:
    for setting, value in (("max_rows", 5000), ("score_bound", 40.0), ("condition", 500.0), ("range_bound", 16.0)):
        file = _copy("least squares")
        for home in (file.sections["model"]["settings"], file.sections["target"]):
            home[setting] = value
        file.sections["certificate"]["target"][setting] = value
        assert not reprove(file), setting


def test_changed_weights_are_not_verified() -> None:
    rng = np.random.default_rng(2)
    names = [name for name in _true("ridge").tensors if not name.startswith("base_")]
    for name in rng.choice(names, size=8, replace=False):
        file = _copy("ridge")
        entry = tuple(rng.choice(np.argwhere(file.tensors[name] != 0)))
        file.tensors[name][entry] *= 1.001
        file.sections["certificate"]["weights_sha256"] = file.weights_sha256
        assert not reprove(file), name
