"""Sections of a file that lie: what was said of the build is read or refused, and no room is made for claimed sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import softwright as sw
from softwright.errors import FileFormatError
from softwright.fileformat import read_model, write_model
from softwright.result.constructed import Room

HEAD = {"tokens": 2, "structure": "gates", "values": "affine", "largest_score": 1.0, "largest_value": 1.0}


def altered(path: Path, *keys: str, to: Any) -> None:
    """Write the file again with one entry of its sections changed."""
    file = read_model(path)
    place: Any = file.sections
    for key in keys[:-1]:
        place = place[int(key)] if isinstance(place, list) else place[key]
    place[int(keys[-1]) if isinstance(place, list) else keys[-1]] = to
    write_model(path, file.tensors, file.sections)


@pytest.mark.parametrize(
    ("section", "entry", "wrong"),
    [
        ("plan", "tolerance", {}),
        ("plan", "seconds", "1"),
        ("plan", "seconds", True),
        ("plan", "seconds", 10**308 * 100),
        ("plan", "tokens", 2.5),
        ("plan", "parameters", []),
        ("plan", "strategy", None),
        ("plan", "heads", [1]),
        ("plan", "heads", {"tokens": 1}),
        ("plan", "heads", [{"largest_score": 1.0}]),
        ("plan", "heads", [HEAD | {"largest_value": "1"}]),
        ("plan", "reasons", [None]),
        ("observed", "error", "small"),
        ("observed", "error", []),
        ("observed", "point", 1.0),
        ("observed", "point", [None]),
        ("observed", "points", 1.5),
    ],
)
def test_what_is_said_of_a_build_is_read_or_refused(tmp_path: Path, section: str, entry: str, wrong: Any) -> None:
    path = tmp_path / "net.safetensors"
    sw.approximate("x", {"x": (0, 1)}, certify=False).save(path)
    altered(path, section, entry, to=wrong)
    with pytest.raises(FileFormatError, match=r"net\.safetensors"):
        sw.load(path)


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        (("evidence", "0", "quantities"), 0.5),
        (("evidence", "0", "quantities"), {"a": "1"}),
        (("told", "method"), None),
        (("claim", "premises"), [1]),
        (("claim", "norm"), {}),
    ],
)
def test_what_a_closed_form_tells_is_read_or_refused(tmp_path: Path, keys: tuple[str, ...], wrong: Any) -> None:
    path = tmp_path / "net.safetensors"
    sw.transpile(nn.Sequential(nn.Linear(2, 3), nn.ReLU()).eval(), (-1, 1)).save(path)
    altered(path, "certificate", *keys, to=wrong)
    assert not sw.verify(path)
    with pytest.raises(FileFormatError, match=r"net\.safetensors"):
        sw.load(path)


@pytest.mark.parametrize("stages", [[], None, "all but one"])
def test_a_theorem_without_its_stages_is_refused(tmp_path: Path, stages: Any) -> None:
    path = tmp_path / "net.safetensors"
    sw.theorem("C3").build(progress=False).save(path)
    kept = read_model(path).sections["model"]["stages"][:-1] if stages == "all but one" else stages
    altered(path, "model", "stages", to=kept)
    with pytest.raises(FileFormatError, match=r"net\.safetensors"):
        sw.load(path)


def test_plans_that_can_be_shown_are_loaded(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    sw.approximate("x", {"x": (0, 1)}, certify=False).save(path)
    for heads in ([], [{"anything": [1, None]}], [HEAD]):
        altered(path, "plan", "heads", to=heads)
        built = sw.load(path)
        assert built.plan.explain() and repr(built)


@pytest.mark.parametrize("size", [2**28, 2**31, 2**62, -1, 0.5, "2"])
def test_sizes_that_no_tensor_has_take_no_memory(tmp_path: Path, size: Any) -> None:
    transpiled, fitted, network = (tmp_path / f"{name}.safetensors" for name in ("transpiled", "fitted", "net"))
    sw.transpile(nn.Sequential(nn.Linear(2, 3), nn.ReLU()).eval(), (-1, 1)).save(transpiled)
    sw.in_context("ridge", features=1, certify=False).save(fitted)
    sw.approximate("x*y", {"x": (0, 1), "y": (0, 1)}, strategy="grid", tol=0.1, certify=False).save(network)
    slot = next(iter(read_model(fitted).sections["model"]["shapes"]))
    altered(transpiled, "model", "steps", "0", "inputs", to=size)
    altered(fitted, "model", "shapes", slot, to=[2, size])
    altered(network, "model", "heads", "0", "axis_sizes", to=[1, size])
    for path in (transpiled, fitted, network):
        with pytest.raises(FileFormatError, match=path.name):
            sw.load(path)


def test_room_is_taken_once() -> None:
    room = Room({"a": np.zeros((2, 3)), "b": np.zeros(4)})
    assert room.take([2, 3]) == (2, 3) and room.take((torch.tensor(4),)) == (4,)
    with pytest.raises(ValueError, match="no tensors are stored"):
        room.take([1])
