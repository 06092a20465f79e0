"""The zoo: recipes that read, files that load, a sample of them VERIFIED and built again bit by bit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
from typer.testing import CliRunner

import softwright as sw
from softwright.cli import app
from softwright.fileformat import read_model
from softwright.programs.examples.library import LIBRARY
from softwright.result.constructed import digest_of
from softwright.zoo.making import MAKERS
from softwright.zoo.recipes import VERBS, recipes
from softwright.zoo.stored import PLACE

_SAMPLE = [sw.zoo.names(group)[i] for group in sw.zoo.groups() for i in (0, -1)]


def test_there_are_many_and_every_row_is_complete() -> None:
    rows = recipes()
    assert len(rows) >= 250
    assert set(MAKERS) == set(VERBS) == {row.verb for row in rows.values()}
    for name, row in rows.items():
        assert name == row.name and row.says and row.dtype in ("float64", "float32"), name
        if row.verb == "approximate":
            assert float(row.tol) > 0 and row.sides and row.what, name


def test_every_recipe_has_a_file_with_a_certificate_and_the_archive_is_small() -> None:
    assert PLACE.stat().st_size <= 10_000_000
    with ZipFile(PLACE) as archive:
        stored = {Path(name).stem for name in archive.namelist()}
    assert stored == set(sw.zoo.names())


def test_every_program_of_the_library_is_there() -> None:
    assert {row.what for row in recipes().values() if row.verb == "compile"} == set(LIBRARY)


@pytest.mark.parametrize("name", _SAMPLE)
def test_a_stored_model_is_verified_and_within_its_tolerance(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(sw.zoo.content(name))
    assert sw.verify(path).verified
    built, row = sw.zoo.load(name), sw.zoo.recipe(name)
    if row.verb == "approximate":
        relative = row.arguments.get("relative", False)  # of half the range
        assert relative or built.plan.tolerance == float(row.tol)
        assert built.certificate.bound <= built.plan.tolerance
        assert built.target["text"]
        x = built.network.box.sample(200, seed=1)
        wanted = np.asarray(built.source(x)).reshape(len(x), -1)
        assert np.abs(built(x) - wanted).max() <= built.certificate.bound * (1 + 1e-6) + 1e-12


@pytest.mark.parametrize("name", ["sigmoid", "relu-float32", "xor", "mlp-relu", "hypotenuse"])
def test_a_recipe_gives_the_stored_tensors(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(sw.zoo.content(name))
    built = sw.zoo.build(name)
    assert built.certificate is not None
    if digest_of(built.network) != read_model(path).weights_sha256:  # on another machine: proved all the same
        built.save(path)
        assert sw.verify(path).verified


def test_listing_needs_no_torch_and_names_everything() -> None:
    code = (
        "import sys\nfrom softwright.cli import main\n"
        "try: main(['zoo', 'list', '--json'])\n"
        "finally: print('torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    listed, loaded = run.stdout.strip().rsplit("\n", 1)
    assert loaded == "False"
    assert [row["name"] for row in json.loads(listed)["models"]] == sw.zoo.names()


def test_commands(tmp_path: Path) -> None:
    run = CliRunner().invoke
    assert "gelu" in run(app, ["zoo", "list", "activation"]).output
    assert json.loads(run(app, ["zoo", "show", "gelu", "--json"]).stdout)["of"] == "gelu(x)"
    assert run(app, ["zoo", "get", "gelu", "-o", str(tmp_path / "g.safetensors")]).exit_code == 0
    assert sw.load(tmp_path / "g.safetensors").certificate is not None
    made = run(app, ["zoo", "build", "sigmoid", "-o", str(tmp_path / "s.safetensors"), "--json"])
    assert made.exit_code == 0 and "VERIFIED" in json.loads(made.stdout)["says"]
    assert sw.verify(tmp_path / "s.safetensors").verified


@pytest.mark.parametrize(
    "wrong",
    [
        ["feed"],
        ["show"],
        ["get", "gelu"],
        ["show", "gellu"],
        ["list", "nonsense"],
        ["get", "gelu", "-o", "gelu.onnx"],
        ["build", "gelu", "-o", "gelu.c"],
    ],
)
def test_wrong_questions_are_refused_with_the_remedy(wrong: list[str]) -> None:
    found = CliRunner().invoke(app, ["zoo", *wrong])
    assert found.exit_code == 2
    assert "gellu" not in wrong or "gelu" in found.output


@pytest.mark.parametrize(
    ("wrong", "code", "remedy"),
    [
        (["lsit"], 2, "did you mean 'list'"),
        (["list", "distribtion"], 2, "the group distribution"),
        (["list", "gelu"], 2, "it is a model: `softwright zoo show gelu`"),
        (["show", "in context"], 2, "it is a group: `softwright zoo list 'in context'`"),
        (["show", "GELU"], 2, "did you mean gelu"),
        (["build", "actvation"], 2, "the group activation"),
        (["show", "gelu", "-o", "gelu.safetensors"], 2, "zoo get gelu -o FILE.safetensors"),
        (["list", "-o", "models.txt"], 2, "-o is for get and build"),
        (["build", "memory", "-o", __file__], 4, "is a file; several models go into a folder"),
        (["build", "memory", "-o", "/proc/models"], 4, "give a folder you may write to"),
    ],
)
def test_what_was_meant_is_named(wrong: list[str], code: int, remedy: str) -> None:
    found = CliRunner().invoke(app, ["zoo", *wrong])
    assert found.exit_code == code
    assert remedy in " ".join(found.output.split())


def test_one_model_that_a_cluster_builds_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def completed(function: Callable[[str], bytes], names: list[str], cluster: str | None) -> Iterator[Any]:
        asked.append(str(cluster))
        yield from (SimpleNamespace(item=name, error=None, result=function(name)) for name in names)

    monkeypatch.setattr("softwright.scale.completed", completed)
    given, place = ["zoo", "build", "sigmoid", "--cluster", "tcp://host:1", "-o"], tmp_path / "s.safetensors"
    assert CliRunner().invoke(app, [*given, str(place)]).exit_code == 0
    assert asked == ["tcp://host:1"]
    assert place.is_file() and sw.verify(place).verified
    assert CliRunner().invoke(app, [*given, str(tmp_path)]).exit_code == 0  # into the folder
    assert sw.verify(tmp_path / "sigmoid.safetensors").verified
    assert CliRunner().invoke(app, [*given, str(tmp_path / "s.onnx")]).exit_code == 2
    assert len(asked) == 2


def test_a_model_that_is_not_there_is_named() -> None:
    with pytest.raises(sw.InvalidInput, match="did you mean"):
        sw.zoo.load("sigmoidd")


@pytest.mark.parametrize("wrong", [["gelu"], None, 3, b"gelu", "", "x" * 10_000])
def test_what_is_no_name_is_refused_as_such(wrong: object) -> None:
    with pytest.raises(sw.InvalidInput, match="no model"):
        sw.zoo.load(wrong)  # pyright: ignore[reportArgumentType]
