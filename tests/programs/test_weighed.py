"""Sums with known weights: one head for each sign, however the program is written."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import softwright as sw
from softwright.checker.verify import reprove
from softwright.fileformat import ModelFile, read_model, weights_sha256
from tests.programs.plain_python import Plain

SLOPES = (
    "mean((j - (n - 1)/2)*x[j]) / ((n*n - 1)/12)",
    "(n*sum(j*x[j]) - sum(j)*sum(x)) / (n*sum(j*j) - sum(j)**2)",
    "sum((j - mean(j))*(x[j] - mean(x))) / sum((j - mean(j))**2)",
)
TOKENS = sw.Sequence(length=(2, 12), x=(-1, 1), k=sw.Integers(-2, 3))
PROGRAMS = (
    "x*i, x/(i + 1), x*k, (x - mean(x))*i/n",
    "sum((j + 1)*x[j] for j <= i) / sum(j + 1 for j <= i)",
    "sum(k[j]*x[j]) / n, sum(x[j]*cos(j))",
    "mean((i - j)*x[j] for j <= i), next(x, 2, default=x), sum(x[j]*(-1)**j)",
    "conv(x, [-3/35, 12/35, 17/35, 12/35, -3/35])",
)


@pytest.mark.parametrize("text", SLOPES)
def test_slopes_are_well_conditioned_however_they_are_written(text: str, tmp_path: Path) -> None:
    built = sw.compile(text, sw.Sequence(length=(2, 32), x=(-1, 1)), tol=1e-3, dtype="float32", progress=False)
    assert built.certificate.bound < 2e-4
    built.save(tmp_path / "slope.safetensors")
    assert sw.verify(tmp_path / "slope.safetensors", progress=False).verified
    rng = np.random.default_rng(0)
    for n in (2, 3, 17, 32):
        x = rng.uniform(-1, 1, n).astype(np.float32)
        slope = np.polyfit(np.arange(n), x.astype(float), 1)[0]
        assert np.abs(np.asarray(built(x=x.tolist()), dtype=float) - slope).max() < built.certificate.bound


@pytest.mark.parametrize("text", PROGRAMS)
def test_weighed_sums_are_what_plain_python_says(text: str, tmp_path: Path) -> None:
    built = sw.compile(text, TOKENS, tol=1e-6, progress=False)
    built.save(tmp_path / "p.safetensors")
    assert sw.verify(tmp_path / "p.safetensors", progress=False).verified
    rng = np.random.default_rng(1)
    for n in (2, 5, 12):
        fields = {"x": rng.uniform(-1, 1, n).tolist(), "k": rng.integers(-2, 4, n).tolist()}
        exact = {name: [Fraction(v) for v in row] for name, row in fields.items()}
        wanted = np.array(Plain(text, exact, TOKENS.symbols).outputs, dtype=float)
        found = np.asarray(built(**fields), dtype=float).reshape(wanted.shape)
        assert np.abs(found - wanted).max() <= built.certificate.bound + 1e-12


def test_a_weight_changed_by_a_thousandth_is_caught(tmp_path: Path) -> None:
    sw.compile("sum((j + 1)*x[j]) / n - x*k", TOKENS, tol=1e-6, progress=False).save(tmp_path / "p.safetensors")
    true = read_model(tmp_path / "p.safetensors")
    assert reprove(true).verified
    heads = true.sections["certificate"]["evidence"][0]["parts"]["heads"]
    weighed = [head for head in heads if head["kind"] == "weighed"]
    assert len(weighed) == 3  # one for the sum, two for the signs of k
    for head in weighed:
        for part in ("Wq", "Wk", "Wv", "Wo"):
            name = f"layers.{head['layer']}.{part}"
            for place in zip(*np.nonzero(true.tensors[name][head["head"]]), strict=True):
                tensors = {key: array.copy() for key, array in true.tensors.items()}
                tensors[name][head["head"]][place] *= 1.001
                true.sections["certificate"]["claim"]["subject"]["sha256"] = weights_sha256(tensors)
                assert not reprove(ModelFile(tensors, true.sections)).verified, (name, place)
