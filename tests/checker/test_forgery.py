"""The judges of `benchmarks/forge.py`: true files are true, forgeries false; else its counts would mean nothing."""

from __future__ import annotations

import copy
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from softwright.fileformat import read_model

FORGERIES = 120
SLOW = re.compile(r"transpiled-.*(gelu|softplus)")  # up to a second each; the benchmark takes all
VALUES = "layer.heads.0.values"
BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "benchmarks"
NEW = (  # built today, beside the stored files of version 1; those that take no time
    "approximation-spectral-float32",
    "approximation-sum-float64",
    "approximation-walls-float64",
    "memory-values-attention-float64",
    "in_context-ridge-gradient-float64",
    "in_context-poisson-gradient-float32",
    "in_context-least_squares-newton_schulz-float64",
    "composition-tables-float64",
    "composition-kink-float32",
    "theorem-A1",
    "theorem-A2",
    "theorem-C1",
    "theorem-C2",
    "theorem-C3",
    "theorem-C4",
    "theorem-C6",
)


@pytest.fixture(scope="module")
def forge() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("forge")


@pytest.fixture(scope="module")
def old(forge: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found = forge.old_files(tmp_path_factory.mktemp("stored"), lambda name: not SLOW.match(name))
    return {base.file.name: base for base in found}


@pytest.fixture(scope="module")
def new(forge: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found = forge.new_files(tmp_path_factory.mktemp("new"), lambda name: name in NEW)
    return {base.file.name: base for base in found}


def finding(forge: ModuleType, forgery: Any, path: Path) -> Any:
    """What the judge has against a file, whatever the checker says of it."""
    forgery.sign()
    forgery.write(path)
    file = read_model(path)
    return forge.falsehood(forge.Claim(path, file.tensors, file.sections, known=forge.known(forgery.name)))


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
    ],
)
def test_stored_files_are_true(forge: ModuleType, old: dict[str, Any], tmp_path: Path, name: str) -> None:
    assert finding(forge, copy.deepcopy(old[name].file), tmp_path / "same.safetensors") is None
    assert forge.oddity(tmp_path / "same.safetensors") is None


@pytest.mark.parametrize("name", NEW)
def test_new_files_are_true(forge: ModuleType, new: dict[str, Any], tmp_path: Path, name: str) -> None:
    assert finding(forge, copy.deepcopy(new[name].file), tmp_path / "same.safetensors") is None


def changed(name: str, by: float, factor: float = 1.0) -> Any:
    def change(f: Any) -> None:
        f.tensors[name] = (f.tensors[name] * factor + by).astype(f.tensors[name].dtype)

    return change


def relabelled(f: Any) -> None:
    f.tensors["readout.halves"] = f.tensors["readout.halves"][::-1].copy()


def without_center(f: Any) -> None:
    del f.tensors["center"]


def without_statement(f: Any) -> None:
    f.said["remark"] = "proved"


def other_labels(f: Any) -> None:
    target = copy.deepcopy(f.target)
    target["drawn"]["labels"][0][0][0] += 0.1
    f.set_target(target)


@pytest.mark.parametrize(
    ("name", "change", "cause"),
    [
        ("approximation-grid-float64", changed(VALUES, 0.003), "the network is off by more"),
        ("approximation-relative-float64", "mirrored", "the network is off by more"),
        ("approximation-spectral-float64", "part_of_the_box", "off by more outside the certificate's domain"),
        ("approximation-spectral-float64", "wider_box", "off by more outside the certificate's domain"),
        ("approximation-pieces-gates-float32", "overflowing", "the network runs to no number"),
        ("approximation-spectral-float64", "variable_e", "load refuses it"),
        ("approximation-spectral-float64", without_center, "load refuses it"),
        ("approximation-spectral-float64", without_statement, "load reads another statement"),
        ("approximation-certified-L2-float64", "mirrored", "the norm is larger"),
        (
            "approximation-table-line-float64",
            changed(VALUES, 0.01),
            "the network is off by more at a point of its table",
        ),
        ("approximation-callable-promised-float64", changed(VALUES, 0.01), "the network is off by more"),
        ("memory-values-attention-float64", relabelled, "a key does not give its label"),
        ("memory-values-feedforward-float64", changed("readout.offsets", 0.5), "a key does not give its label"),
    ],
)
def test_forgeries_are_found_false(
    forge: ModuleType, old: dict[str, Any], tmp_path: Path, name: str, change: Any, cause: str
) -> None:
    forgery = copy.deepcopy(old[name].file)
    (getattr(forge, change) if isinstance(change, str) else change)(forgery)
    found = finding(forge, forgery, tmp_path / "forged.safetensors")
    assert found is not None
    assert found.cause == cause


@pytest.mark.parametrize(
    ("name", "change", "cause"),
    [
        ("in_context-ridge-gradient-float64", changed("layers.1.Wo", 0.0, 1.01), "a step is off by more"),
        ("in_context-poisson-gradient-float32", changed("layers.2.Wo", 0.0, 1.1), "a step is off by more"),
        ("in_context-least_squares-newton_schulz-float64", changed("layers.6.Wo", 0.0, 1.01), "a step is off by more"),
        ("composition-tables-float64", changed("read", 0.0, 1.01), "the stack is off by more"),
        ("composition-kink-float32", changed("layers.1.Wo", 0.0, 1.1), "the stack is off by more"),
        ("theorem-A1", changed("stages.0.R", 0.0, 1.5), "the network is off by more"),
        ("theorem-A2", changed("stages.1.W_V", 0.0, 1.5), "the network is off by more"),
        ("theorem-C1", changed("stages.1.W_V", 0.0, 1.001), "the network is not boltz"),
        ("theorem-C2", changed("stages.0.W_V", 0.0, 0.0), "ids are closer"),
        ("theorem-C4", other_labels, "the network is off by more"),
    ],
)
def test_forgeries_of_other_kinds_are_found_false(
    forge: ModuleType, new: dict[str, Any], tmp_path: Path, name: str, change: Any, cause: str
) -> None:
    test_forgeries_are_found_false(forge, new, tmp_path, name, change, cause)


def test_every_mutation_applies_to_a_file_and_does_the_same_again(
    forge: ModuleType, old: dict[str, Any], new: dict[str, Any]
) -> None:
    files = [base.file for base in (*old.values(), *new.values())]
    for number, (kind, mutation) in enumerate(forge.MUTATIONS.items()):
        done = []
        for _ in range(2):
            rng = np.random.default_rng(number)
            tried = (forge.apply(mutation, file, rng, files) for file in files)
            done.append(next((found[0].content for found in tried if found is not None), None))
        assert done[0] is not None, f"{kind} applies to no file"
        assert done[0] == done[1], kind


def test_no_forgery_of_a_fixed_seed_is_verified(
    forge: ModuleType, old: dict[str, Any], new: dict[str, Any], tmp_path: Path
) -> None:
    """The benchmark in small, on files whose verdict takes no time."""
    slow = ("approximation-certified-L", "approximation-table", "approximation-callable", "approximation-cells")
    quick = [base for name, base in old.items() if not name.startswith(slow)]
    tally = forge.Tally()
    forge.forge([*quick, *new.values()], 0, FORGERIES, 5, tmp_path, None, tally)
    assert tally.false == 0, tally.report()
    assert tally.count("raised") == tally.count("slow") == 0, tally.report()
    assert sum(map(tally.count, forge.PROVED)) > 0  # changes that change nothing that is claimed: the judge was asked
