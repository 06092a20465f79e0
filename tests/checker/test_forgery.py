"""The judge of `benchmarks/forge.py`: stored files are true, forgeries false; else its counts would mean nothing."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from softwright.fileformat import read_model

FORGERIES = 290  # ten of each kind of mutation
BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def forge() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("forge")


@pytest.fixture(scope="module")
def bases(forge: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {base.file.name: base for base in forge.stored_files(tmp_path_factory.mktemp("stored"))}


def finding(forge: ModuleType, base: Any, forgery: Any, path: Path) -> Any:
    """What the judge has against a file, whatever the checker says of it."""
    forgery.sign()
    forgery.write(path)
    file = read_model(path)
    return forge.falsehood(forge.Claim(path, file.tensors, file.sections, base.asked, base.answers, base.bound))


@pytest.mark.parametrize(
    "name",
    [
        "approximation-affine-plane-float32",
        "approximation-auto-two-outputs-float64",
        "approximation-certified-L2-float64",
        "approximation-polyhedral-float64",
        "approximation-sum-float64",
        "approximation-walls-float32",
        "memory-classes-feedforward-float64",
        "memory-rank-2-attention-float32",
        "transpiled-gelu-float64",
        "in_context-ridge-gradient-float64",
        "theorem-B1",
    ],
)
def test_stored_files_are_true(forge: ModuleType, bases: dict[str, Any], tmp_path: Path, name: str) -> None:
    base = bases[name]
    assert finding(forge, base, copy.deepcopy(base.file), tmp_path / "same.safetensors") is None
    assert forge.oddity(tmp_path / "same.safetensors") is None


def raised(f: Any) -> None:
    f.tensors["layer.heads.0.values"] = f.tensors["layer.heads.0.values"] + 0.003  # of 0.001 claimed


def relabelled(f: Any) -> None:
    f.tensors["readout.halves"] = f.tensors["readout.halves"][::-1].copy()


def other_ramps(f: Any) -> None:
    f.tensors["readout.offsets"] = f.tensors["readout.offsets"] + 0.5


def bias(f: Any) -> None:
    f.tensors["steps.1.bias"] = f.tensors["steps.1.bias"] + 1e-6


def without_center(f: Any) -> None:
    del f.tensors["center"]


def without_statement(f: Any) -> None:
    f.said["remark"] = "proved"


@pytest.mark.parametrize(
    ("name", "change", "cause"),
    [
        ("approximation-grid-float64", raised, "the network is off by more"),
        ("approximation-relative-float64", "mirrored", "the network is off by more"),
        ("approximation-spectral-float64", "part_of_the_box", "off by more outside the certificate's domain"),
        ("approximation-spectral-float64", "wider_box", "off by more outside the certificate's domain"),
        ("approximation-pieces-gates-float32", "overflowing", "the network runs to no number"),
        ("approximation-spectral-float64", "variable_e", "load refuses it"),
        ("approximation-spectral-float64", without_center, "load refuses it"),
        ("approximation-spectral-float64", without_statement, "load reads another statement"),
        ("approximation-certified-L2-float64", "mirrored", "the norm is larger"),
        ("memory-values-attention-float64", relabelled, "a key does not give its label"),
        ("memory-values-feedforward-float64", other_ramps, "a key does not give its label"),
        ("transpiled-relu-float64", bias, "answers differ from the unforged file's"),
    ],
)
def test_forgeries_are_found_false(
    forge: ModuleType, bases: dict[str, Any], tmp_path: Path, name: str, change: Any, cause: str
) -> None:
    forgery = copy.deepcopy(bases[name].file)
    (getattr(forge, change) if isinstance(change, str) else change)(forgery)
    found = finding(forge, bases[name], forgery, tmp_path / "forged.safetensors")
    assert found is not None
    assert found.cause == cause


def test_every_mutation_applies_to_a_file_and_does_the_same_again(forge: ModuleType, bases: dict[str, Any]) -> None:
    files = [base.file for base in bases.values()]
    for number, (kind, mutation) in enumerate(forge.MUTATIONS.items()):
        done = []
        for _ in range(2):
            rng = np.random.default_rng(number)
            tried = (forge.apply(mutation, file, rng, files) for file in files)
            done.append(next((found[0].content for found in tried if found is not None), None))
        assert done[0] is not None, f"{kind} applies to no file"
        assert done[0] == done[1], kind


def test_no_forgery_of_a_fixed_seed_is_verified(forge: ModuleType, bases: dict[str, Any], tmp_path: Path) -> None:
    """The benchmark in small, on files whose verdict takes no time."""
    slow = ("approximation-certified-L", "approximation-table", "theorem")
    quick = [base for name, base in bases.items() if not name.startswith(slow)]
    tally = forge.Tally()
    forge.forge(quick, FORGERIES, 5, tmp_path, None, tally)
    assert tally.false == 0, tally.report()
    assert sum(counter["raised"] for counter in tally.counts.values()) == 0, tally.report()
    proved = sum(counter[verdict] for counter in tally.counts.values() for verdict in forge.PROVED)
    assert proved > 0  # changes that change nothing that is claimed: the judge was asked
