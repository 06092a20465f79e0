"""Functions that are steep without bound at an end of their range: distances, deviations, roots, in programs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import softwright as sw
from softwright.attention.program import ProgramNetwork
from softwright.checker.verify import reprove
from softwright.fileformat import ModelFile, read_model, weights_sha256
from softwright.programs.meaning import meaning
from softwright.programs.observe import observe

TOKENS = sw.Sequence(length=(1, 6), x=(-1, 1), y=(-1, 1), p=(0, 1))
DISTANCE = "sqrt((x - mean(x))**2 + (y - mean(y))**2)"


def _near(n: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers that are nearly equal, at any scale."""
    return np.clip(rng.uniform(-1, 1) + rng.normal(size=n) * 10.0 ** rng.integers(-17, 1), -1, 1)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (DISTANCE, lambda x, y, p: np.hypot(x - x.mean(), y - y.mean())),
        ("sqrt(sum(x[j]**2 for j <= i))", lambda x, y, p: np.sqrt(np.cumsum(x**2))),
        ("sqrt(max(x) - x)", lambda x, y, p: np.sqrt(x.max() - x)),
        ("y*sqrt(p)", lambda x, y, p: y * np.sqrt(p)),
    ],
)
def test_roots_as_far_as_zero(text: str, meant: Callable, tmp_path: Path) -> None:
    built, rng = sw.compile(text, TOKENS, tol=1e-4), np.random.default_rng(2)
    assert built.observed_error <= built.certificate.bound <= 1e-4
    built.save(tmp_path / "p.safetensors")
    verdict = sw.verify(tmp_path / "p.safetensors")
    assert verdict, verdict.reason
    for _ in range(80):
        n = int(rng.integers(1, 7))
        x, y, p = _near(n, rng), _near(n, rng), np.abs(_near(n, rng))
        x, p = (x * 1e-3 if rng.random() < 0.3 else x), p * 10.0 ** rng.integers(-20, 1)
        slack = 3e-8 if "max" in text else 1e-12  # of sqrt in numpy, where its argument cancels
        assert np.abs(built(x=x, y=y, p=p) - meant(x, y, p)).max() <= built.certificate.bound + slack


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> ModelFile:
    path = tmp_path_factory.mktemp("roots") / "p.safetensors"
    sw.compile(DISTANCE, TOKENS, tol=1e-5).save(path)
    return read_model(path)


def test_a_changed_weight_is_caught_or_covered(file: ModelFile) -> None:
    rng, meant = np.random.default_rng(3), meaning(DISTANCE, TOKENS)
    bound, caught = file.sections["certificate"]["claim"]["bound"], 0
    for name, array in file.tensors.items():
        places = np.flatnonzero(array)
        for place in rng.choice(places, 2) if len(places) else []:
            tensors = {key: value.copy() for key, value in file.tensors.items()}
            tensors[name].reshape(-1)[place] *= 1.001
            said = copy.deepcopy(file.sections)
            said["certificate"]["claim"]["subject"]["sha256"] = weights_sha256(tensors)
            if not reprove(ModelFile(tensors, said)).verified:
                caught += 1
                continue
            network = ProgramNetwork.rebuilt(file.sections["model"], tensors)
            assert observe(network, meant, bound).error <= bound, (name, int(place))
    assert caught > 10


@pytest.mark.parametrize("change", [{"side": -1}, {"side": 0}, {"center": "1/100000"}, {"exact": 1e-9}])
def test_forged_curves(file: ModelFile, change: dict) -> None:
    said = copy.deepcopy(file.sections)
    heads = said["certificate"]["evidence"][0]["parts"]["heads"]
    next(head for head in heads if head["kind"] == "curve")["numbers"] |= change
    assert not reprove(ModelFile(file.tensors, said)).verified


def test_arcs_and_kinks_are_refused_with_a_reason() -> None:
    with pytest.raises(sw.InvalidInput, match="steep without bound"):
        sw.compile("acos(x)", TOKENS)
    with pytest.raises(sw.InvalidInput, match="may be undefined"):
        sw.compile("sqrt(x)", TOKENS)
