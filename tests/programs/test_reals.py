"""Functions of real numbers in programs: what gates and curves compute, against plain Python, and what is refused."""

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

TOKENS = sw.Sequence(length=(1, 6), x=(-1, 1), y=(0.5, 2), k=sw.Integers(0, 30))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("softmax(2*x)", lambda x, y, k: np.exp(2 * x) / np.exp(2 * x).sum()),
        ("logsumexp(x)", lambda x, y, k: np.full(len(x), np.log(np.exp(x).sum()))),
        ("var(x)", lambda x, y, k: np.full(len(x), x.var())),
        ("(k/10 - i)/(x**2 + 0.5)", lambda x, y, k: (k / 10 - np.arange(len(x))) / (x**2 + 0.5)),
        ("i/(x**2 + 0.5)", lambda x, y, k: np.arange(len(x)) / (x**2 + 0.5)),
        ("x/y - 3/y", lambda x, y, k: (x - 3) / y),
        ("x*k + sqrt(k + 1)", lambda x, y, k: x * k + np.sqrt(k + 1)),
        ("abs(x - mean(x)) + min(x, 0.25) - max(y, x + 1)", None),
        ("y**-1.5 * x**3", lambda x, y, k: y**-1.5 * x**3),
        ("sum(exp(x[j])*y[j] for j <= i)", lambda x, y, k: np.cumsum(np.exp(x) * y)),
        ("y * exp(x - mean(x))", lambda x, y, k: y * np.exp(x - x.mean())),
        ("log10(y) + normcdf(x)", None),
        ("relu(mean(x) - 0.1)", lambda x, y, k: np.full(len(x), max(x.mean() - 0.1, 0))),
        ("attend(y[j], 3*x[i]*x[j] - x[j]**2)", lambda x, y, k: _attend(y, 3 * x[:, None] * x - x**2)),
        ("attend(x[j]*y[j], -(x[j] - y[i])**2/2)", lambda x, y, k: _attend(x * y, -((x - y[:, None]) ** 2) / 2)),
        ("max(x*y), sin(5*x)*cos(3*y)", None),
        ("-sum(softmax(x)*log(softmax(x)))", lambda x, y, k: np.full(len(x), _entropy(np.exp(x) / np.exp(x).sum()))),
    ],
)
def test_formulas_are_within_their_bound_and_verified(text: str, meant: Callable | None, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    built = sw.compile(text, TOKENS, tol=1e-6)
    assert built.observed_error <= built.certificate.bound <= 1e-6
    built.save(tmp_path / "p.safetensors")
    verdict = sw.verify(tmp_path / "p.safetensors")
    assert verdict, verdict.reason
    if meant is None:
        return
    for n in (1, 2, 6):
        x, y, k = rng.uniform(-1, 1, n), rng.uniform(0.5, 2, n), rng.integers(0, 31, n)
        assert np.abs(built(x=x, y=y, k=k) - meant(x, y, k)).max() <= built.certificate.bound + 1e-12


def _entropy(p: np.ndarray) -> float:
    return float(-(p * np.log(p)).sum())


def _attend(values: np.ndarray, scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores)
    return weights @ values / weights.sum(axis=1)


def test_the_nearest_by_a_margin(tmp_path: Path) -> None:
    tokens = sw.Sequence(length=(1, 5), x=(-1, 1), y=(-1, 1), q=(-1, 1))
    built = sw.compile("value(y[j], where=smallest((x[j] - q[i])**2), margin=0.05)", tokens, tol=1e-3, dtype="float32")
    assert "leads by at least 0.05" in built.certificate.statement
    assert built.observed_error <= built.certificate.bound <= 1e-3
    x, y, q = np.array([-0.8, 0.0, 0.9]), np.array([0.25, -0.5, 1.0]), np.array([0.8, -0.9, 0.1])
    assert np.abs(built(x=x, y=y, q=q) - [1.0, 0.25, -0.5]).max() <= built.certificate.bound
    built.save(tmp_path / "p.safetensors")
    assert sw.verify(tmp_path / "p.safetensors")


def test_float32_says_what_it_proves(tmp_path: Path) -> None:
    built = sw.compile("softmax(x) * y", TOKENS, tol=0.1, dtype="float32")
    assert built.observed_error <= built.certificate.bound <= 0.1
    built.save(tmp_path / "p.safetensors")
    assert sw.verify(tmp_path / "p.safetensors")


TEXT = "x*y, exp(x - mean(x))*y, max(x - mean(x), 0), 1/(1 + var(x)), attend(x[j], -2*(x[j] - y[i])**2)"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> ModelFile:
    path: Path = tmp_path_factory.mktemp("forged") / "p.safetensors"
    sw.compile(TEXT, TOKENS, tol=1e-4).save(path)
    return read_model(path)


def test_no_weight_of_gates_and_curves_may_change(file: ModelFile) -> None:
    rng, meant = np.random.default_rng(3), meaning(TEXT, TOKENS)
    bound, caught = file.sections["certificate"]["claim"]["bound"], 0
    for name, array in file.tensors.items():
        places = np.flatnonzero(array.reshape(-1))
        chosen = rng.choice(places, min(4, len(places)), replace=False) if len(places) else []
        for place in [*chosen, *rng.integers(0, array.size, 1)]:
            tensors = {key: value.copy() for key, value in file.tensors.items()}
            old = tensors[name].reshape(-1)[place]
            tensors[name].reshape(-1)[place] = old * 1.001 if old else 0.01
            said = copy.deepcopy(file.sections)
            said["certificate"]["claim"]["subject"]["sha256"] = weights_sha256(tensors)
            if not reprove(ModelFile(tensors, said)).verified:
                caught += 1
                continue
            network = ProgramNetwork.rebuilt(file.sections["model"], tensors)
            assert observe(network, meant, bound).error <= bound, (name, int(place))
    assert caught > 40


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(x[j] - y", "(x[j] + y"),
        ("attend(x", "attend(y"),
        ("x*y,", "x*x,"),
        ("exp(x -", "exp(x +"),
        ("max(x", "min(x"),
        ("1 + var", "2 + var"),
        ("1/(", "3/("),
    ],
)
def test_no_other_formula_is_verified(file: ModelFile, old: str, new: str) -> None:
    said = copy.deepcopy(file.sections)
    for target in (said["target"], said["certificate"]["claim"]["reference"]["target"]):
        assert old in target["text"]
        target["text"] = target["text"].replace(old, new)
    assert not reprove(ModelFile(dict(file.tensors), said)).verified
