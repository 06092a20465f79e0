"""What forging found, one test each: files that a checker once took, or took for more than they show."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softwright as sw
from softwright.checker.verify import reprove
from softwright.fileformat import ModelFile, read_model
from softwright.proof import certify

Change = Callable[[dict[str, np.ndarray], dict[str, Any]], None]


def made(built: sw.Built[Any], path: Path) -> ModelFile:
    built.save(path)
    return read_model(path)


def forged(file: ModelFile, change: Change) -> ModelFile:
    """A file with one thing changed, signed anew."""
    tensors, sections = {name: array.copy() for name, array in file.tensors.items()}, copy.deepcopy(file.sections)
    change(tensors, sections)
    other = ModelFile(tensors, sections)
    sections["certificate"]["claim"]["subject"]["sha256"] = other.weights_sha256
    return other


def test_a_theorem_says_the_dtype_that_it_is_stored_in(tmp_path: Path) -> None:
    file = made(sw.theorem("C3").build(progress=False), tmp_path / "theorem.safetensors")

    def change(_: dict[str, np.ndarray], sections: dict[str, Any]) -> None:
        sections["certificate"]["claim"]["dtype"] = "float32"

    assert reprove(file)
    assert "in float64" in reprove(forged(file, change)).reason


def test_runtimes_are_those_that_are_loaded(tmp_path: Path) -> None:
    file = made(sw.approximate("sin(x)", {"x": (-1, 1)}, tol=1e-3), tmp_path / "network.safetensors")

    def change(_: dict[str, np.ndarray], sections: dict[str, Any]) -> None:
        sections["certificate"]["claim"]["runtimes"] = []

    assert reprove(file)
    assert "runtimes" in reprove(forged(file, change)).reason


@pytest.mark.parametrize("target", ["table", "callable"])
def test_what_a_file_cannot_show_is_named(target: str, tmp_path: Path) -> None:
    """Without its target a network may be anything: a verdict that is given less than its error would be false."""
    x = np.linspace(-1, 1, 8)
    box = {"x": (-1.0, 1.0)}
    asked = {
        "table": lambda: sw.approximate(sw.Table(x, np.cos(2 * x), names=["x"]), tol=1e-3),
        "callable": lambda: sw.approximate(sw.Function(np.sin, sw.Box(box), second_derivative=1.0), box, tol=1e-3),
    }[target]()
    file = made(asked, tmp_path / "network.safetensors")

    def change(tensors: dict[str, np.ndarray], _: dict[str, Any]) -> None:
        tensors["layer.heads.0.values"] = -tensors["layer.heads.0.values"]

    for verdict in (reprove(file), reprove(forged(file, change))):
        assert not verdict
        assert verdict.given[-1] == {"table": "stated-bound", "callable": "stated-exact-part"}[target]


def test_a_memory_claims_nothing_of_sequences_that_its_file_does_not_hold(tmp_path: Path) -> None:
    """Other codes give the sequences other ids; what is claimed of the stored ids is true all the same."""
    file = made(sw.memorize([[1, 2], [2, 1], [3]], [0.5, 1.0, 2.0]), tmp_path / "memory.safetensors")

    def change(tensors: dict[str, np.ndarray], _: dict[str, Any]) -> None:
        tensors["head.codes"] = tensors["head.codes"][::-1].copy()

    def other_words(_: dict[str, np.ndarray], sections: dict[str, Any]) -> None:
        sections["certificate"]["claim"]["text"] = "every one of the 3 stored sequences recalls its own label"

    verdict = reprove(forged(file, change))
    assert verdict and "no file says" in verdict.reason
    assert "stored id" in json.dumps(file.sections["certificate"]["claim"]["text"])
    assert not reprove(forged(file, other_words))


def test_a_grid_head_is_one_network_for_both_engines(tmp_path: Path) -> None:
    """The factorised engine reads the biases on the axes alone; those off the axes are what the other engine runs."""
    built = sw.approximate("exp(-x*y)", {"x": (-1, 1), "y": (0, 2)}, tol=1e-2, strategy="grid", certify=False)
    found = certify(built.network, "exp(-x*y)", engine="factorised", tightness=0.3)
    file = made(replace(built, certificate=found.certificate, unproved=""), tmp_path / "grid.safetensors")

    def change(tensors: dict[str, np.ndarray], _: dict[str, Any]) -> None:
        tensors["layer.heads.0.biases"][-1] += 8.0

    verdict = reprove(file)
    assert verdict and "factorised" in verdict.reason
    assert "add up" in reprove(forged(file, change)).reason


def test_variables_of_a_callable_have_names_that_a_box_takes(tmp_path: Path) -> None:
    box = {"x": (-1.0, 1.0)}
    asked = sw.approximate(sw.Function(np.sin, sw.Box(box), second_derivative=1.0), box, tol=1e-2)
    file = made(asked, tmp_path / "network.safetensors")
    other = ModelFile(file.tensors, json.loads(json.dumps(file.sections).replace('"x"', '"x "')))
    assert reprove(file).given
    assert "cannot be called" in reprove(other).reason
