"""What every format must do: say what it holds, be chosen by its ending, hold the kinds it names and refuse others."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
from typer.testing import CliRunner

import softwright as sw
from softwright.cli import app
from softwright.export import EXPORTERS, Exporter, exporter_for, exporter_named
from softwright.fileformat import weights_sha256
from softwright.result.constructed import tensors_of
from softwright.result.kinds import KINDS
from tests.contracts.kinds_made import MADE

SHORT = cache(lambda: sw.in_context("ridge", 1, penalty=0.1, solver="gradient", steps=1, sample=False))
_ROWS = pytest.mark.parametrize("name", EXPORTERS)


def _content(path: Path) -> dict[str, bytes]:
    """The bytes of a file, or of all files in a folder."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return {file.name if path.is_dir() else "": file.read_bytes() for file in files}


@_ROWS
def test_a_row_is_complete(name: str) -> None:
    row = exporter_named(name)
    assert isinstance(row, Exporter)
    assert row.name == name
    assert row.suffix.startswith(".")
    assert row.summary
    assert row.kinds
    assert row.kinds <= set(KINDS)
    assert exporter_for(Path(f"a/network{row.suffix}")) is row


@_ROWS
def test_the_documentation_lists_the_format(name: str) -> None:
    row, page = exporter_named(name), Path(__file__).parents[2] / "docs" / "files.md"
    assert f"| `{row.name}` | `{row.suffix}` | {row.summary} |" in page.read_text(encoding="utf-8")


def test_endings_are_different() -> None:
    endings = [exporter_named(name).suffix for name in EXPORTERS]
    assert len(set(endings)) == len(endings)


@_ROWS
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_written_or_refused_by_name(name: str, kind: str, tmp_path: Path) -> None:
    row, built = exporter_named(name), MADE[kind]()
    built = SHORT() if (name, kind) == ("c", "in_context") else built  # C holds few operations on prompts
    path = tmp_path / f"network{row.suffix}"
    if kind not in row.kinds:
        with pytest.raises(sw.InvalidInput, match=kind):
            built.export(path)
        assert list(tmp_path.iterdir()) == []
        return
    built.export(path)
    first = _content(path)
    if name == "hf" and kind != "approximation":  # a second figure takes as long as all else, and is drawn alike
        return
    built.export(tmp_path / "other.name", format=name)
    assert _content(tmp_path / "other.name") == first  # the same network, the same bytes
    assert sorted(found.name for found in tmp_path.iterdir()) == sorted([path.name, "other.name"])


def test_numpy_reads_the_tensors_that_run(tmp_path: Path) -> None:
    built: sw.Built[Any] = MADE["approximation"]()
    built.export(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz", allow_pickle=False) as read:
        tensors = {name: read[name] for name in read.files}
    assert weights_sha256(tensors) == weights_sha256(tensors_of(built.network))
    x = np.linspace(-1.0, 1.0, 7)
    t = (x[:, None] - tensors["center"]) * tensors["scale"]  # (q, d)
    weights = np.exp(t @ tensors["layer.heads.0.keys"].T + tensors["layer.heads.0.biases"])  # (q, N)
    values = tensors["layer.heads.0.values"]  # (N, m)
    if "layer.heads.0.slopes" in tensors:
        values = values + np.einsum("nmd,qd->qnm", tensors["layer.heads.0.slopes"], t)
    by_hand = (weights[..., None] * values).sum(axis=1) / weights.sum(axis=1, keepdims=True)
    assert np.abs(by_hand - built(x[:, None])).max() < 1e-12


def test_safetensors_is_what_save_writes(tmp_path: Path) -> None:
    built = MADE["approximation"]()
    built.export(tmp_path / "a.safetensors")
    built.save(tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_what_is_saved_does_not_bear_the_ending_of_another_format(tmp_path: Path) -> None:
    built = MADE["approximation"]()
    for row in map(exporter_named, EXPORTERS):
        if row.name != "safetensors":
            with pytest.raises(sw.InvalidInput, match=f"softwright export FILE -o network{row.suffix}"):
                built.save(tmp_path / f"network{row.suffix}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", ["network.xyz", "network", ".gitignore"])
def test_other_endings_are_refused_with_the_list(wrong: str, tmp_path: Path) -> None:
    with pytest.raises(sw.InvalidInput) as error:
        MADE["approximation"]().export(tmp_path / wrong)
    assert all(exporter_named(name).suffix in str(error.value) for name in EXPORTERS)


def test_an_unknown_format_is_refused_with_the_list(tmp_path: Path) -> None:
    with pytest.raises(sw.InvalidInput, match=", ".join(EXPORTERS)):
        MADE["approximation"]().export(tmp_path / "a.npz", format="pickle")


def test_a_missing_folder_is_a_file_error(tmp_path: Path) -> None:
    with pytest.raises(sw.FileFormatError, match="does not exist"):
        MADE["approximation"]().export(tmp_path / "nowhere" / "a.npz")


def test_the_command(tmp_path: Path) -> None:
    source, output = tmp_path / "a.safetensors", tmp_path / "a.npz"
    MADE["approximation"]().save(source)
    result = CliRunner().invoke(app, ["export", str(source), "-o", str(output), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"ok": True, "file": str(output), "format": "numpy", "kind": "approximation"}
    assert output.is_file()
    assert CliRunner().invoke(app, ["export", str(source), "-o", str(tmp_path / "a.what")]).exit_code == 2
    assert CliRunner().invoke(app, ["export", str(tmp_path / "none"), "-o", str(output)]).exit_code == 4
    (tmp_path / "a.hf").mkdir()
    again = CliRunner().invoke(app, ["export", str(source), "-o", str(tmp_path / "a.hf")])
    assert again.exit_code == 4 and "exists already; remove it" in " ".join(again.output.split())


@pytest.mark.parametrize("suffix", [".onnx", ".hf"])
def test_a_name_that_no_file_can_have_is_a_file_error(suffix: str, tmp_path: Path) -> None:
    MADE["approximation"]().save(tmp_path / "a.safetensors")
    place = tmp_path / f"{'x' * 300}{suffix}"
    found = CliRunner().invoke(app, ["export", str(tmp_path / "a.safetensors"), "-o", str(place)])
    assert found.exit_code == 4 and "cannot be written (File name too long)" in " ".join(found.output.split())


def test_what_was_exported_is_no_model_file_and_the_error_names_that(tmp_path: Path) -> None:
    built = MADE["approximation"]()
    built.export(tmp_path / "a.onnx")
    built.export(tmp_path / "a.hf")
    with pytest.raises(sw.FileFormatError, match="give the model file it was exported from"):
        sw.load(tmp_path / "a.onnx")
    with pytest.raises(sw.InvalidInput, match="asks for onnx"):
        built.save(tmp_path / "A.ONNX")  # which verify would take for a graph
    assert (
        f"the model file in it is {tmp_path / 'a.hf' / 'softwright.safetensors'}" in sw.verify(tmp_path / "a.hf").reason
    )


def test_a_numpy_archive_says_which_runs_its_certificate_covers(tmp_path: Path) -> None:
    built = MADE["approximation"]()
    built.export(tmp_path / "a.npz")
    with ZipFile(tmp_path / "a.npz") as archive:
        said = json.loads(archive.comment)
    certificate = built.certificate
    assert said["bound"] == certificate.bound
    assert said["weights_sha256"] == certificate.weights_sha256
    assert said["runtimes"] == list(certificate.runtimes)
