"""Lines between points at query times, and hypotheses by name: against numpy, verified, forged and refused."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softwright as sw
from softwright.attention.program import ProgramNetwork
from softwright.checker.verify import reprove
from softwright.fileformat import ModelFile, read_model, weights_sha256
from softwright.programs.meaning import meaning
from softwright.programs.observe import observe

TOKENS = sw.Sequence(length=(1, 4), q=(-0.5, 1.5), t=(0, 1), y=(-1, 1))
TEXT = "interp(q, t, y, spacing=0.125)"


@pytest.fixture(scope="module")
def built() -> sw.Built:
    return sw.compile(TEXT, TOKENS, tol=1e-6)


@pytest.fixture(scope="module")
def file(built: sw.Built, tmp_path_factory: pytest.TempPathFactory) -> ModelFile:
    path = tmp_path_factory.mktemp("lines") / "p.safetensors"
    built.save(path)
    return read_model(path)


def _points(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    gaps = rng.choice([0.125, 0.125 + 1e-9, 0.2], n - 1)
    return np.concatenate([[0.0], np.cumsum(gaps)]), rng.uniform(-1, 1, n)


def test_lines_between_points(built: sw.Built, file: ModelFile) -> None:
    assert reprove(file).verified
    assert built.certificate.bound <= 1e-6
    assert "each t is at least 0.125 more than the one before" in built.certificate.statement
    rng = np.random.default_rng(1)
    for trial in range(60):
        n = int(rng.integers(1, 5))
        t, y = _points(n, rng)
        near = rng.choice(t, n) + rng.choice([-1, 0, 1], n) * 10.0 ** rng.integers(-12, -4, n)
        q = near if trial % 2 else rng.uniform(-0.5, 1.5, n)
        assert np.abs(built(q=q, t=t, y=y) - np.interp(q, t, y)).max() <= built.certificate.bound


def test_times_may_be_places(tmp_path: Path) -> None:
    built = sw.compile("interp(3*q, i, y, spacing=1)", TOKENS, tol=1e-5)
    built.save(tmp_path / "p.safetensors")
    verdict = sw.verify(tmp_path / "p.safetensors")
    assert verdict, verdict.reason
    q, y = np.array([0.1, 0.4, 0.75, -0.2]), np.array([0.5, -1.0, 1.0, 0.25])
    assert np.abs(built(q=q, t=np.zeros(4), y=y) - np.interp(3 * q, np.arange(4), y)).max() <= built.certificate.bound


def _signed(file: ModelFile, tensors: dict[str, np.ndarray], said: dict[str, Any]) -> ModelFile:
    said["certificate"]["claim"]["subject"]["sha256"] = weights_sha256(tensors)
    return ModelFile(tensors, said)


def test_a_changed_weight_is_caught_or_covered(file: ModelFile) -> None:
    rng, meant = np.random.default_rng(3), meaning(TEXT, TOKENS)
    bound, caught = file.sections["certificate"]["claim"]["bound"], 0
    for name, array in file.tensors.items():
        places = np.flatnonzero(array)
        for place in rng.choice(places, 1) if len(places) else []:
            tensors = {key: value.copy() for key, value in file.tensors.items()}
            tensors[name].reshape(-1)[place] *= 1.001
            if not reprove(_signed(file, tensors, copy.deepcopy(file.sections))).verified:
                caught += 1
                continue
            network = ProgramNetwork.rebuilt(file.sections["model"], tensors)
            assert observe(network, meant, bound).error <= bound, (name, int(place))
    assert caught > 15


@pytest.mark.parametrize(("old", "new"), [("0.125", "0.1"), ("0.125", "0.25"), ("t, y", "y, t"), ("q, t", "t, t")])
def test_no_other_interpolation_is_verified(file: ModelFile, old: str, new: str) -> None:
    said = copy.deepcopy(file.sections)
    claim = said["certificate"]["claim"]
    for target in (said["target"], claim["reference"]["target"]):
        target["text"] = target["text"].replace(old, new)
    assert not reprove(ModelFile(file.tensors, said)).verified


def test_what_is_assumed_is_named(tmp_path: Path) -> None:
    built = sw.compile("y / assume(mean(q), 0.25, 1)", TOKENS, tol=1e-6)
    assert built.certificate.statement.endswith(", where mean(q[j]) lies between 0.25 and 1")
    built.save(tmp_path / "p.safetensors")
    assert reprove(read_model(tmp_path / "p.safetensors")).verified
    assert np.abs(built(q=[0.5, 1.0], t=[0, 0], y=[1, -1]) - np.array([1, -1]) / 0.75).max() <= 1e-6


def test_a_hypothesis_cannot_be_left_out(tmp_path: Path) -> None:
    """Heads that rest on a margin, in a file whose program and sentence know of none."""
    chosen = "value(y[j], where=largest(x[j]), margin=0.25)"
    text = f"x + {chosen} - {chosen}"
    tokens = sw.Sequence(length=(1, 3), x=(-1, 1), y=(-1, 1))
    path = tmp_path / "p.safetensors"
    sw.compile(text, tokens, tol=1e-3).save(path)
    file = read_model(path)
    assert reprove(file).verified
    said = copy.deepcopy(file.sections)
    claim = said["certificate"]["claim"]
    for target in (said["target"], claim["reference"]["target"]):
        target["text"] = "x"
    parts = said["certificate"]["evidence"][0]["parts"]
    field = next(k for k, (op, _, value) in enumerate(parts["terms"]) if op == "field" and value == "x")
    parts["outputs"] = [field]
    assert [op for op, _, _ in parts["terms"][-2:]] == ["add", "sub"]
    del parts["terms"][-2:]
    claim["text"] = claim["text"].split(", where ")[0]
    assert "does not name" in reprove(ModelFile(file.tensors, said)).reason


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("interp(q, t, y)", "spacing"),
        ("interp(q, t, y, spacing=0)", "positive"),
        ("interp(q, t, y, spacing=q)", "positive"),
        ("interp(q, t, 2, spacing=0.5)", "write that number"),
        ("assume(q, 2, 1)", "two numbers"),
        ("assume(q, 7, 8)", "other ends"),
    ],
)
def test_refused(text: str, words: str) -> None:
    with pytest.raises(sw.InvalidInput, match=words):
        sw.compile(text, TOKENS)
