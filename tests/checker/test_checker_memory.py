"""The checker proves memories again from their files, and refuses files in which anything that matters is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import softwright as sw
from softwright.checker.memory.spacing import close_pairs
from softwright.fileformat import weights_sha256, write_model
from tests.layouts import read_flat

ROWS = np.random.default_rng(0).integers(0, 100, (400, 8))


def saved(path: Path, readout: str = "attention", dtype: str = "float64") -> Path:
    rows, labels = (ROWS[:12], list(range(12))) if readout == "feedforward" else (ROWS, list(range(400)))
    sw.memorize(rows, labels, readout=readout, dtype=dtype).save(path / "m.safetensors")
    return path / "m.safetensors"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("readout", ["attention", "feedforward"])
def test_memories_are_verified(tmp_path: Path, readout: str, dtype: str) -> None:
    verdict = sw.verify(saved(tmp_path, readout, dtype))
    assert verdict.status == "VERIFIED", verdict.reason


def closer(tensors: dict[str, np.ndarray]) -> None:
    tensors["readout.keys"][7] = tensors["readout.keys"][3] + 1e-9


def wider(tensors: dict[str, np.ndarray]) -> None:
    tensors["gap"] *= 3


def sharper(tensors: dict[str, np.ndarray]) -> None:
    tensors["radii"] *= 0.1


def softer(tensors: dict[str, np.ndarray]) -> None:
    tensors["readout.beta"] /= 2.0**20


def uneven(tensors: dict[str, np.ndarray]) -> None:
    tensors["readout.beta"] *= 2


def halves(tensors: dict[str, np.ndarray]) -> None:
    tensors["readout.halves"][5] += 1e-6


def copies(tensors: dict[str, np.ndarray]) -> None:
    tensors["head.W_O"][0, 0] = 1


def far(tensors: dict[str, np.ndarray]) -> None:
    tensors["head.codes"][0] *= 50


def half_class(tensors: dict[str, np.ndarray]) -> None:
    tensors["readout.values"][0] += 0.5


def infinite(tensors: dict[str, np.ndarray]) -> None:
    tensors["head.W_V"][0, 0] = np.inf


def weighed(tensors: dict[str, np.ndarray]) -> None:
    tensors["head.W_K"][0, tensors["head.codes"].shape[1]] += 2.0**-40  # the pruned engine takes it for 1


def at_the_sentinel(tensors: dict[str, np.ndarray]) -> None:
    tensors["head.W_I"][:, tensors["head.codes"].shape[1]] = 1e-9  # the pruned engine takes it for 0
    tensors["radii"] *= 1.5  # one more entry of W_I counts


def overflowing(tensors: dict[str, np.ndarray]) -> None:
    tensors["readout.beta"][...] = 2.0**1022


@pytest.mark.parametrize(
    "spoil",
    [
        *(closer, wider, sharper, softer, uneven, halves, copies, far, half_class, infinite),
        *(weighed, at_the_sentinel, overflowing),
    ],
    ids=lambda f: f.__name__,
)
def test_a_wrong_weight_is_refused_even_with_a_fresh_hash(
    tmp_path: Path, spoil: Callable[[dict[str, np.ndarray]], None]
) -> None:
    path = saved(tmp_path)
    content = read_flat(path)
    tensors = {name: np.array(array) for name, array in content.tensors.items()}
    spoil(tensors)
    sections = json.loads(json.dumps(content.sections))
    sections["certificate"]["weights_sha256"] = weights_sha256(tensors)
    write_model(path, tensors, sections)
    verdict = sw.verify(path)
    assert verdict.status == "NOT VERIFIED"


def test_a_ramp_that_is_not_steep_enough_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, "feedforward")
    content = read_flat(path)
    tensors = {name: np.array(array) for name, array in content.tensors.items()}
    tensors["readout.slopes"] /= 2
    content.sections["certificate"]["weights_sha256"] = weights_sha256(tensors)
    write_model(path, tensors, content.sections)
    assert "ramp" in sw.verify(path).reason


def test_a_bound_below_the_truth_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    sw.memorize(ROWS, np.random.default_rng(1).uniform(size=400), dtype="float32").save(path)
    assert sw.verify(path).status == "VERIFIED"
    content = read_flat(path)
    content.sections["certificate"]["rounding_part"] *= 0.5
    write_model(path, content.tensors, content.sections)
    assert sw.verify(path).status == "NOT VERIFIED"
    content.sections["certificate"]["quantities"]["label_rounding"] = -1.0  # must not pay for the rest
    write_model(path, content.tensors, content.sections)
    assert sw.verify(path).status == "NOT VERIFIED"


@pytest.mark.parametrize("dimensions", [1, 2])
def test_no_close_pair_escapes_the_cells(dimensions: int) -> None:
    points = np.random.default_rng(dimensions).uniform(-1, 1, (400, dimensions))
    gap = 0.07 if dimensions == 2 else 0.01
    found = [
        tuple(sorted(pair)) for a, b in close_pairs(points, gap) for pair in zip(a.tolist(), b.tolist(), strict=True)
    ]
    assert len(found) == len(set(found))
    distance = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2))
    near = {(i, j) for i, j in zip(*np.nonzero(distance < gap), strict=True) if i < j}
    assert near <= set(found)
